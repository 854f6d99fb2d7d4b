//! Requests that change the state of a whole sandbox.

/// Freezes a sandbox. See [`Instance::pause`](crate::Instance::pause).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pause {}

/// Lets a frozen sandbox go on. See [`Instance::resume`](crate::Instance::resume).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Resume {}

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

plain! { Pause Resume }
