//! Requests that change the state of a whole sandbox.

use std::time::Duration;

/// Freezes a sandbox. See [`Instance::pause`](crate::Instance::pause).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pause {}

/// Lets a frozen sandbox go on. See [`Instance::resume`](crate::Instance::resume).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Resume {}

/// Ends what runs in a sandbox and keeps its files. See [`Instance::stop`](crate::Instance::stop).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stop {}

/// Lets a stopped sandbox run again. See [`Instance::restart`](crate::Instance::restart).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Restart {}

/// Sets the end of a sandbox anew. See [`Instance::extend`](crate::Instance::extend).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Extend {
    /// How long it lives from now on; checked against the facts.
    pub lifetime: Duration,
    /// The same end in seconds since 1970: the new value of [`labels::EXPIRES`](crate::labels::EXPIRES).
    pub expires: u64,
}

impl Extend {
    /// A life of `lifetime` from now on, which ends at `expires`.
    pub fn new(lifetime: Duration, expires: u64) -> Self {
        Self { lifetime, expires }
    }
}

macro_rules! plain {
    ($($name:ident)*) => {
        $(impl $name {
            /// The request.
            pub fn new() -> Self {
                Self::default()
            }
        })*
    };
}

plain! { Pause Resume Stop Restart }
