#![doc = include_str!("../README.md")]

mod attempt;
mod backend;
mod body;
mod capability;
mod clock;
mod error;
mod event;
mod exec;
mod facts;
mod files;
mod id;
mod instance;
mod isolation;
mod kind;
pub mod labels;
mod lifecycle;
mod network;
mod once;
mod output;
mod port;
mod provider;
mod query;
mod resources;
mod secret;
mod snapshot;
mod spec;

pub use attempt::{Attempt, Caller, Claim, Tasks};
pub use backend::{Backend, Made};
pub use body::{Body, Chunks};
pub use capability::Capability;
pub use clock::{Boxed, Clock};
pub use error::{Error, Result, Retry};
pub use event::{Cause, Ended, Event, Fate, Signal, Status};
pub use exec::{Exec, OUTSIDE_TRAILS, Stdin};
pub use facts::{CredentialVariable, Facts, Support};
pub use files::{
    FileInfo, FileKind, GetTree, ListDir, MakeDir, Meta, PutTree, ReadFile, Remove, Rename, SetMeta, Stat, WriteFile,
};
pub use id::SandboxId;
pub use instance::{Control, Events, Instance};
pub use isolation::{Isolation, IsolationFact};
pub use kind::ErrorKind;
pub use lifecycle::{Extend, Pause, Restart, Resume, Stop};
pub use network::{Destination, ListDestinations, NetworkPolicy, PortRange, Rule, RuleTarget, SetNetwork};
pub use once::{Finished, NoControl, Once, once};
pub use output::{Captured, Output, PartialOutput};
pub use port::{Endpoint, OpenPort};
pub use provider::{Parameter, Parameters, Provider};
pub use query::{Listed, Page, Query};
pub use resources::{Amount, Honoured, Mode, Resource, Resources};
pub use secret::Secret;
pub use snapshot::{ForkSandbox, ListedSnapshot, SnapshotId, SnapshotPage, TakeSnapshot};
pub use spec::Spec;
