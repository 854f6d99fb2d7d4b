//! Freezing a container and letting it go on.

use crate::{
    error::{self, Meaning},
    wire::Link,
};
use bollard::errors::Error as Wire;
use sandbox_core::Result;
use std::time::Duration;

pub(crate) async fn pause(link: &Link, container: &str) -> Result<()> {
    let mut done = link.docker.pause_container(container).await;
    for _ in 1..TRIES {
        // The runtime gives up, and lets the container go on, where processes come and go faster than it freezes them.
        if !matches!(&done, Err(Wire::DockerResponseServerError { message, .. }) if message.contains("unable to freeze"))
        {
            break;
        }
        tokio::time::sleep(AGAIN).await;
        done = link.docker.pause_container(container).await;
    }
    settled(done, "already paused").map_err(|wire| error::fault("pausing the container", Meaning::EXEC, wire))
}

pub(crate) async fn resume(link: &Link, container: &str) -> Result<()> {
    let done = link.docker.unpause_container(container).await;
    settled(done, "is not paused").map_err(|wire| error::fault("resuming the container", Meaning::EXEC, wire))
}

/// How often a container is frozen that does not hold still (seen with runc 1.1 on a busy host).
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(200);

/// It is as it was asked to be.
fn settled(done: Result<(), Wire>, words: &str) -> Result<(), Wire> {
    match done {
        Err(Wire::DockerResponseServerError { message, .. }) if message.contains(words) => Ok(()),
        done => done,
    }
}
