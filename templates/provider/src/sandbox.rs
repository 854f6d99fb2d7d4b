//! One live sandbox.

use sandbox_core::{Error, Exec, Instance, NoControl, Once, Result};

/// A live sandbox.
#[derive(Debug)]
pub struct YoursSandbox {}

impl YoursSandbox {
    pub(crate) fn new() -> Self {
        Self {}
    }
}

impl Instance for YoursSandbox {
    // A wire with one call for a command's whole life is `sandbox_core::once`; one that streams has types of its own here.
    type Control = NoControl;
    type Events = Once;

    // Called once `RUN` is declared.
    async fn spawn(&self, _exec: &Exec) -> Result<(NoControl, Once)> {
        Err(Error::unsupported("commands are not written yet"))
    }
}
