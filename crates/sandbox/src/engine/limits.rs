//! The engine's own limits.

use sandbox_core::{Error, Result};
use std::time::Duration;

/// The engine's own limits, all in real time. Deadlines that users set are elsewhere: in the spec and in the command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// For one request of an operation, and for each step of a transfer. 60 s.
    pub operation: Duration,
    /// How long the answer to a create that nobody waits for is still caught. 30 s.
    pub late: Duration,
    /// For one kill; what is not dead by then goes down with its sandbox. 5 s.
    pub kill: Duration,
    /// For telling a reader of an end that was not the program's own, whatever is known of its fate by then. 10 s.
    pub tell: Duration,
    /// For ending one sandbox. 30 s.
    pub teardown: Duration,
    /// How long a name that was sent, and got no answer, has to stay away. 5 s.
    pub quiet: Duration,
    /// How long the last handle waits, when it is dropped, for what is still being ended. 5 s; zero does not wait.
    pub drop_grace: Duration,
}

impl Limits {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses what nothing could be done within.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = [
            ("operation", self.operation),
            ("late", self.late),
            ("kill", self.kill),
            ("tell", self.tell),
            ("teardown", self.teardown),
        ];
        match limits.iter().find(|(_, limit)| limit.is_zero()) {
            Some((name, _)) => {
                Err(Error::invalid(format!("limit `{name}` is zero")).with_hint("nothing could be done within it"))
            }
            None => Ok(()),
        }
    }
}

macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident)*) => {
        impl Limits {
            $($(#[doc = $doc])+ pub fn $name(mut self, limit: Duration) -> Self {
                self.$name = limit;
                self
            })*
        }
    };
}

setters! {
    /// For one request of an operation, and for each step of a transfer.
    operation
    /// How long the answer to a create that nobody waits for is still caught.
    late
    /// For one kill.
    kill
    /// For telling a reader of an end.
    tell
    /// For ending one sandbox.
    teardown
    /// How long a name in doubt has to stay away.
    quiet
    /// How long the last handle waits.
    drop_grace
}

impl Default for Limits {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { operation: s(60), late: s(30), kill: s(5), tell: s(10), teardown: s(30), quiet: s(5), drop_grace: s(5) }
    }
}
