//! sandbox-cli.
