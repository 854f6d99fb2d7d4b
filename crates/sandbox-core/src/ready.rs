//! When a sandbox is handed over.

/// What has to be so before a sandbox is handed over. It is looked at again and again until the create timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// A command, as argv, that has to end with code zero. `RUN`.
    Command(Vec<String>),
    /// A TCP port inside, not zero, that a program has to listen at. `PORTS` natively, else `FILES` on an image with Linux's
    /// `/proc`.
    Port(u16),
}

/// Asks whether a program listens at a port. See [`Instance::is_listening`](crate::Instance::is_listening).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listening {
    /// The TCP port inside; not zero.
    pub port: u16,
}

impl Listening {
    /// A port inside.
    pub fn new(port: u16) -> Self {
        Self { port }
    }
}
