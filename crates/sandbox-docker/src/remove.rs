//! Ending what a sandbox consists of.

use crate::{
    backend::{PREFIX, is_ours, name_of},
    error::{self, Meaning},
    wire::Link,
};
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use sandbox_core::{Error, Result};
use std::time::Duration;

/// Removes the container and waits until it is gone. Answers with its name, where it was there.
pub(crate) async fn container(link: &Link, id: &str) -> Result<Option<String>> {
    let found = match link.docker.inspect_container(id, None).await {
        Ok(found) => found,
        Err(wire) if error::status(&wire) == 404 => return Ok(None),
        Err(wire) => return Err(error::fault("looking for the container", Meaning::DESTROY, wire)),
    };
    if !is_ours(&found) {
        return Err(Error::invalid(format!("{id} is a container, but no sandbox of this library"))
            .with_hint(format!("if it shall go, run `docker rm --force {id}`")));
    }
    let mut pause = Duration::from_millis(20);
    loop {
        // Anonymous volumes of the image go with it.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match link.docker.remove_container(id, Some(options)).await {
            Ok(()) => break,
            Err(wire) if error::status(&wire) == 404 => break,
            // It is being removed, or something changes its state right now: until it is gone.
            Err(wire) if error::is_conflict(&wire) => {}
            Err(wire) => return Err(error::fault("removing the container", Meaning::DESTROY, wire)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
    Ok(name_of(&found))
}

pub(crate) async fn network(link: &Link, name: &str) -> Result<()> {
    // Only those of ours have such names; the engine's own and other people's are left alone.
    if !name.starts_with(PREFIX) {
        return Ok(());
    }
    let mut pause = Duration::from_millis(20);
    loop {
        match link.docker.remove_network(name).await {
            Ok(()) => return Ok(()),
            Err(wire) if error::status(&wire) == 404 => return Ok(()),
            // The container still holds on to it for a moment.
            Err(wire) if error::status(&wire) == 403 && wire.to_string().contains("active endpoints") => {}
            Err(wire) => return Err(error::fault("removing the sandbox's network", Meaning::DESTROY, wire)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}
