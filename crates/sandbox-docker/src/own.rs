//! What on an engine is ours, and what an id names.
//!
//! Network and container of a sandbox have the same name, and the marker as a label. Names can be changed by others, and the engine
//! takes any beginning of its own ids for a name, so a name alone proves nothing.

use crate::{
    error::{self, Meaning},
    wire::{self, Link},
};
use bollard::{
    models::{ContainerInspectResponse, ContainerSummary, Network},
    query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder},
};
use sandbox_core::{Error, ErrorKind, Result, SandboxId, labels};
use std::collections::HashMap;

const PREFIX: &str = "sandbox-";

/// The name of a sandbox, which is its id.
pub(crate) fn name(marker: &str) -> String {
    format!("{PREFIX}{marker}")
}

/// The other way round.
pub(crate) fn marker(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX).filter(|marker| !marker.is_empty())
}

/// What an id names.
pub(crate) enum Named {
    Sandbox(Box<Found>),
    /// Something of other people's.
    Foreign,
    Nothing,
}

/// A container of ours.
pub(crate) struct Found {
    /// The engine's id: the only name that stays, and that means one container.
    pub(crate) container: String,
    pub(crate) marker: String,
    /// What destroys it.
    pub(crate) id: SandboxId,
    pub(crate) inspected: ContainerInspectResponse,
}

/// The container that an id names: by its whole name, the engine's whole id, or, where its name was changed, the marker.
pub(crate) async fn find(link: &Link, id: &SandboxId, meaning: Meaning) -> Result<Named> {
    let text = id.as_str();
    if !wire::sound(text) {
        return Ok(Named::Nothing); // Nothing can have such a name.
    }
    let mut nothing = Named::Nothing;
    if let Some(found) = inspect(link, text, meaning).await? {
        let by_name = name_of(&found).as_deref() == Some(text);
        if by_name || found.id.as_deref() == Some(text) {
            let id = if by_name { text.to_string() } else { name_of(&found).unwrap_or_else(|| text.to_string()) };
            match ours(link, found, SandboxId::new(id)).await? {
                Some(found) => return Ok(Named::Sandbox(Box::new(found))),
                None => nothing = Named::Foreign,
            }
        }
    }
    let Some(marker) = marker(text) else { return Ok(nothing) };
    for container in containers(link, &[format!("{}={marker}", labels::MARKER)], meaning).await? {
        let Some(container) = container.id.filter(|id| wire::sound(id)) else { continue };
        if let Some(found) = inspect(link, &container, meaning).await? {
            if let Some(found) = ours(link, found, id.clone()).await? {
                return Ok(Named::Sandbox(Box::new(found)));
            }
        }
    }
    Ok(nothing)
}

/// All containers with these labels, in whatever state.
pub(crate) async fn containers(link: &Link, labels: &[String], meaning: Meaning) -> Result<Vec<ContainerSummary>> {
    let filters = HashMap::from([("label", labels.to_vec())]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    link.docker.list_containers(Some(options)).await.map_err(|wire| error::fault("listing containers", meaning, wire))
}

/// All networks of ours with these labels: the engine's id, the sandbox's name, and what else the engine says.
pub(crate) async fn networks(
    link: &Link,
    labels: &[String],
    meaning: Meaning,
) -> Result<Vec<(String, String, Network)>> {
    let filters = HashMap::from([("label", labels.to_vec())]);
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let all = link.docker.list_networks(Some(options)).await;
    let all = all.map_err(|wire| error::fault("listing networks", meaning, wire))?;
    let ours = all.into_iter().filter_map(|network| {
        let said = network.labels.as_ref()?.get(labels::MARKER)?;
        let called = network.name.clone().filter(|called| *called == name(said))?;
        Some((network.id.clone().filter(|id| wire::sound(id))?, called, network))
    });
    Ok(ours.collect())
}

/// The name of a container in a list; `None` while it is being removed.
pub(crate) fn listed_name(container: &ContainerSummary) -> Option<&str> {
    Some(container.names.as_ref()?.first()?.trim_start_matches('/'))
}

/// Whether a container with our labels is ours. An image that was made from a sandbox hands its labels on to other people's containers.
pub(crate) async fn is_ours(link: &Link, called: Option<&str>, marker: &str, image: Option<&str>) -> bool {
    if called == Some(&name(marker)) {
        return true;
    }
    // Such an id comes from the engine; what cannot be looked at is left alone.
    let Some(image) = image.filter(|id| id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':')) else {
        return false;
    };
    let Ok(image) = link.docker.inspect_image(image).await else { return false };
    let inherited = image.config.and_then(|config| config.labels?.get(labels::MARKER).cloned());
    inherited.as_deref() != Some(marker)
}

async fn inspect(link: &Link, name: &str, meaning: Meaning) -> Result<Option<ContainerInspectResponse>> {
    match link.docker.inspect_container(name, None).await {
        Ok(found) => Ok(Some(found)),
        Err(wire) if error::status(&wire) == 404 => Ok(None),
        Err(wire) => Err(error::fault("looking for the container", meaning, wire)),
    }
}

async fn ours(link: &Link, inspected: ContainerInspectResponse, id: SandboxId) -> Result<Option<Found>> {
    let labels = inspected.config.as_ref().and_then(|config| config.labels.as_ref());
    let Some(marker) = labels.and_then(|labels| labels.get(labels::MARKER)).cloned() else { return Ok(None) };
    if !is_ours(link, name_of(&inspected).as_deref(), &marker, inspected.image.as_deref()).await {
        return Ok(None);
    }
    let Some(container) = inspected.id.clone().filter(|id| wire::sound(id)) else {
        return Err(Error::new(ErrorKind::Protocol, "the engine gives a container no id"));
    };
    Ok(Some(Found { container, marker, id, inspected }))
}

fn name_of(found: &ContainerInspectResponse) -> Option<String> {
    found.name.as_deref().map(|name| name.trim_start_matches('/').to_string()).filter(|name| wire::sound(name))
}
