#![doc = include_str!("../README.md")]

mod backend;
mod build;
mod config;
mod confine;
mod create;
mod depth;
mod discovery;
mod error;
mod files;
mod image;
mod limits;
mod look;
mod own;
mod pause;
mod process;
mod provider;
mod remove;
mod sandbox;
mod snapshot;
mod sweep;
mod wire;

pub use backend::Plain;
pub use config::{Docker, Pull, PullProgress};
pub use process::{ExecEvents, Input};
pub use provider::DockerPlain;
pub use sandbox::Container;
