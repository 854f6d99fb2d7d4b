#![doc = include_str!("../README.md")]

mod backend;
mod beside;
mod build;
mod clock;
mod config;
mod double;
mod facts;
#[cfg(feature = "faults")]
mod faults;
mod files;
mod fs;
mod image;
mod inspect;
mod port;
mod process;
mod program;
mod provider;
mod reattach;
mod sandbox;
#[cfg(feature = "shell")]
mod shell;
#[cfg(test)]
mod tests;
mod watch;
mod world;

/// The guide; its examples are run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Guide;

pub use clock::VirtualClock;
pub use config::{Fake, ProcessInfo, World};
pub use double::{
    BuildCall, Call, CreateCall, Credential, DeleteSnapshotCall, FileCall, ForkCall, Input, ListCall, On, Operation,
    Reply, RunCall, SandboxCall, SnapshotCall, Trouble, failure,
};
#[cfg(feature = "faults")]
pub use faults::{Fault, Liar, LyingControl, LyingEvents, LyingSandbox};
pub use image::Image;
pub use inspect::Inspected;
pub use process::{FakeControl, FakeEvents};
pub use program::{Caught, Child, Fork, Listener, Proc, Stream};
pub use provider::FakeProvider;
pub use sandbox::FakeSandbox;
