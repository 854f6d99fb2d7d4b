#![doc = include_str!("../README.md")]

mod again;
mod build;
mod capture;
mod client;
mod closer;
mod command;
mod dsn;
mod engine;
mod erase;
mod extend;
mod files;
mod lease;
mod life;
mod network;
mod pages;
mod phase;
mod process;
mod ready;
mod registry;
mod sandbox;
mod service;
mod snapshot;
mod sweep;
mod validate;

pub use bytes::Bytes;
pub use client::{Client, ClientBuilder};
pub use command::{Command, Overrides};
pub use engine::{Limits, Orphan};
pub use files::{Files, TreeOptions, TreeReport, Watcher};
pub use process::{Input, Process, ProcessEvent};
pub use registry::Registry;
pub use sandbox::Sandbox;
pub use sandbox_core::{
    Amount, Backend, Body, Capability, Captured, Change, ChangeKind, Chunks, CredentialVariable, Definition,
    Destination, Endpoint, Error, ErrorKind, Facts, Fate, FileInfo, FileKind, ForkSandbox, Honoured, Isolation,
    IsolationFact, Listed, ListedSnapshot, Meta, Mode, NetworkPolicy, Output, Parameter, Parameters, PartialOutput,
    PortRange, ProcessId, Provider, PtySize, Query, Ready, Reattach, Replay, Resource, Resources, Result, Retry, Rule,
    RuleTarget, SandboxId, Secret, Service, SetMeta, Signal, SnapshotId, Spec, Status, Support, TakeSnapshot, WatchDir,
    WriteFile, labels,
};
pub use sweep::{Sweep, Swept};

/// Quantities as they are written in DSNs and on command lines.
pub mod quantity {
    pub use crate::dsn::{bytes, duration, millis};
}
