//! Labels that the engine sets on every sandbox whose provider keeps labels. Users' labels may not begin with [`RESERVED`].

/// The prefix of all labels of this library.
pub const RESERVED: &str = "sandbox.";

/// [`Attempt::marker`](crate::Attempt::marker): tells one try to create from every other.
pub const MARKER: &str = "sandbox.marker";

/// When the sandbox was asked for, in seconds since 1970.
pub const CREATED: &str = "sandbox.created";

/// When the sandbox's lifetime ends, in seconds since 1970. What is found later than that is left over.
pub const EXPIRES: &str = "sandbox.expires";
