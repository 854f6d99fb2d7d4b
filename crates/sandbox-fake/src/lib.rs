//! sandbox-fake.
