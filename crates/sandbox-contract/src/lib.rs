//! sandbox-contract.
