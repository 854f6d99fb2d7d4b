//! Requests that change the state of a whole sandbox.

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
