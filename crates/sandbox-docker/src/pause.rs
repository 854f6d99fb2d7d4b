//! Freezing a container and letting it go on.

use crate::{
    error::{self, Meaning},
    wire::{self, Link},
};
use bollard::errors::Error as Wire;
use sandbox_core::{Result, SandboxId};

pub(crate) async fn pause(link: &Link, id: &SandboxId) -> Result<()> {
    let done = link.docker.pause_container(wire::id(id)?).await;
    settled(done, "already paused").map_err(|wire| error::fault("pausing the container", Meaning::EXEC, wire))
}

pub(crate) async fn resume(link: &Link, id: &SandboxId) -> Result<()> {
    let done = link.docker.unpause_container(wire::id(id)?).await;
    settled(done, "is not paused").map_err(|wire| error::fault("resuming the container", Meaning::EXEC, wire))
}

/// It is as it was asked to be.
fn settled(done: Result<(), Wire>, words: &str) -> Result<(), Wire> {
    match done {
        Err(Wire::DockerResponseServerError { message, .. }) if message.contains(words) => Ok(()),
        done => done,
    }
}
