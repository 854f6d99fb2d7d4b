//! Snapshots: images that the engine makes of containers.
//!
//! An image has what the container changed of its own file system, and its environment, directory, user and labels; what is
//! mounted is not in it. Memory is not either.

use crate::{
    backend::sorted,
    error::{self, Meaning},
    wire::{self, Link},
};
use bollard::{
    models::{ContainerConfig, ImageInspect},
    query_parameters::{CommitContainerOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder},
};
use sandbox_core::{Error, ErrorKind, ListedSnapshot, Query, Result, SnapshotId, SnapshotPage, TakeSnapshot, labels};
use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

/// Labels that only images of ours have, whatever they are made from.
const SNAPSHOT: &str = "sandbox.snapshot";

pub(crate) async fn take(link: &Link, container: &str, request: &TakeSnapshot) -> Result<SnapshotId> {
    let options = CommitContainerOptionsBuilder::default().container(container).pause(true).build();
    let mut kept: HashMap<_, _> = request.labels.clone().into_iter().collect();
    kept.insert(SNAPSHOT.into(), container.into());
    let config = ContainerConfig { labels: Some(kept), ..ContainerConfig::default() };
    let made = link.docker.commit_container(options, config).await;
    let made = made.map_err(|wire| error::fault("making an image of the container", Meaning::EXEC, wire))?;
    Ok(SnapshotId::new(made.id))
}

/// The image of a snapshot.
pub(crate) async fn image(link: &Link, id: &SnapshotId) -> Result<ImageInspect> {
    let unknown = || {
        Error::new(ErrorKind::NotFound, format!("the engine has no snapshot `{id}`"))
            .with_hint("use an id as `Sandbox::snapshot` or `Client::snapshots` gives it, of one that was not deleted")
            .applied(false)
    };
    // A name, or the beginning of an id, would mean another image tomorrow.
    if !id.as_str().strip_prefix("sha256:").is_some_and(wire::sound) {
        return Err(unknown());
    }
    match link.docker.inspect_image(id.as_str()).await {
        Ok(found) if is_ours(&found) && found.id.as_deref() == Some(id.as_str()) => Ok(found),
        Ok(_) => Err(unknown()),
        Err(wire) if error::status(&wire) == 404 => Err(unknown()),
        Err(wire) => Err(error::fault("looking for the snapshot", Meaning::IMAGE, wire)),
    }
}

pub(crate) async fn delete(link: &Link, id: &SnapshotId) -> Result<()> {
    match image(link, id).await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let options = RemoveImageOptionsBuilder::default().build();
    match link.docker.remove_image(id.as_str(), Some(options), None).await {
        Ok(_) => Ok(()),
        Err(wire) if error::status(&wire) == 404 => Ok(()),
        Err(wire) if error::status(&wire) == 409 => {
            Err(Error::new(ErrorKind::WrongState, format!("sandboxes still need the snapshot `{id}`"))
                .with_hint("end the sandboxes that were made from it first")
                .with_source(wire))
        }
        Err(wire) => Err(error::fault("deleting the snapshot", Meaning::OTHER, wire)),
    }
}

pub(crate) async fn list(link: &Link, query: &Query) -> Result<SnapshotPage> {
    let mut wanted = vec![SNAPSHOT.to_string()];
    wanted.extend(query.labels.iter().map(|(name, value)| format!("{name}={value}")));
    let filters = HashMap::from([("label".to_string(), wanted)]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    let found = link.docker.list_images(Some(options)).await;
    let found = found.map_err(|wire| error::fault("listing snapshots", Meaning::OTHER, wire))?;
    let items = found.into_iter().map(|image| {
        let listed = ListedSnapshot::new(SnapshotId::new(&image.id), sorted(Some(image.labels)));
        match u64::try_from(image.created) {
            Ok(seconds) => listed.created(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            Err(_) => listed,
        }
    });
    Ok(SnapshotPage::last(items.collect()))
}

/// The labels that a container would have from its image, emptied: they are the source's.
pub(crate) fn emptied(image: &ImageInspect) -> impl Iterator<Item = (String, String)> + use<'_> {
    let names = image.config.iter().filter_map(|config| config.labels.as_ref()).flat_map(|all| all.keys());
    names.map(|name| (name.clone(), String::new()))
}

fn is_ours(image: &ImageInspect) -> bool {
    let kept = image.config.as_ref().and_then(|config| config.labels.as_ref());
    kept.is_some_and(|kept| kept.contains_key(SNAPSHOT) && kept.contains_key(labels::MARKER))
}
