//! Ending what a sandbox consists of.

use crate::{
    error::{self, Meaning},
    own,
    wire::Link,
};
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use sandbox_core::{Error, ErrorKind, Result, labels};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a network may seem in use by what is no longer there.
const SETTLING: Duration = Duration::from_secs(15);

/// Removes a container by the engine's id, and waits until it is gone.
pub(crate) async fn container(link: &Link, container: &str) -> Result<()> {
    let mut pause = Duration::from_millis(20);
    loop {
        // Anonymous volumes of the image go with it.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match link.docker.remove_container(container, Some(options)).await {
            Ok(()) => return Ok(()),
            Err(wire) if error::status(&wire) == 404 => return Ok(()),
            // It is being removed, or something changes its state right now: until it is gone.
            Err(wire) if error::is_conflict(&wire) => {}
            Err(wire) => return Err(error::fault("removing the container", Meaning::DESTROY, wire)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Removes the networks of the sandbox with this marker.
pub(crate) async fn networks(link: &Link, marker: &str) -> Result<()> {
    for (network, name, _) in own::networks(link, &[format!("{}={marker}", labels::MARKER)], Meaning::DESTROY).await? {
        remove_network(link, &network, &name).await?;
    }
    Ok(())
}

async fn remove_network(link: &Link, network: &str, name: &str) -> Result<()> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        let in_use = match link.docker.remove_network(network).await {
            Ok(()) => return Ok(()),
            Err(wire) if error::status(&wire) == 404 => return Ok(()),
            // The container still holds on to it for a moment.
            Err(wire) if error::status(&wire) == 403 && wire.to_string().contains("active endpoints") => wire,
            Err(wire) => {
                return Err(error::fault(&format!("removing the network {name}"), Meaning::DESTROY, wire));
            }
        };
        let holders = if begun.elapsed() > Duration::from_secs(1) { holders(link, network).await } else { Vec::new() };
        if let Some(first) = holders.first() {
            let message = format!("the network {name} is in use by other containers: {}", holders.join(", "));
            return Err(Error::new(ErrorKind::TeardownFailed, message)
                .with_hint(format!(
                    "run `docker network disconnect --force {name} {first}`, then end the sandbox again"
                ))
                .with_source(in_use));
        }
        if begun.elapsed() > SETTLING {
            return Err(Error::new(
                ErrorKind::TeardownFailed,
                format!("the engine says that the network {name} is in use, and does not say by what"),
            )
            .with_hint(format!("look at `docker network inspect {name}`, then end the sandbox again"))
            .with_source(in_use));
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// The containers on a network. The sandbox's own is not among them: it was gone before.
async fn holders(link: &Link, network: &str) -> Vec<String> {
    let Ok(found) = link.docker.inspect_network(network, None).await else { return Vec::new() };
    let all = found.containers.into_iter().flatten();
    let mut names: Vec<_> = all.map(|(id, holder)| holder.name.filter(|name| !name.is_empty()).unwrap_or(id)).collect();
    names.sort();
    names
}
