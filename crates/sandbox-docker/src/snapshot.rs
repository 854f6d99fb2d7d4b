//! Snapshots: images that the engine makes of containers.
//!
//! An image has what the container changed of its own file system, and its environment, directory, user and labels; what is
//! mounted is not in it. Memory is not either.
//!
//! The engine makes an image of a container with all labels of the container, and a container of an image with all labels of the
//! image, so each is overwritten where it is not the thing's own.

use crate::{
    backend::sorted,
    error::{self, Meaning},
    pause::{Still, until_it_holds_still},
    wire::{self, Link},
};
use bollard::{
    models::{ContainerConfig, ImageInspect},
    query_parameters::{CommitContainerOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder},
};
use sandbox_core::{Error, ErrorKind, ListedSnapshot, Page, Query, Result, SnapshotId, TakeSnapshot, Tasks, labels};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

/// Labels that only images of ours have, whatever they are made from.
const SNAPSHOT: &str = "sandbox.snapshot";

/// The value of a label that is not the thing's own, since none can be taken away.
const HANDED_ON: &str = "sandbox.handed-on";

/// Whoever gives up waits no longer, and the engine goes on: so it is told that nobody wants the image, and the container counts as
/// frozen until it is not.
pub(crate) async fn take(
    link: &Arc<Link>,
    container: &str,
    still: &Still,
    tasks: &Tasks,
    request: &TakeSnapshot,
) -> Result<SnapshotId> {
    let frozen = Arc::clone(still).write_owned().await;
    let (tell, told) = oneshot::channel();
    let (link, container, request) = (Arc::clone(link), container.to_string(), request.clone());
    tasks.spawn(async move {
        let made = commit(&link, &container, &request).await;
        drop(frozen);
        if let Err(Ok(unwanted)) = tell.send(made) {
            if let Err(error) = delete(&link, &unwanted).await {
                tracing::warn!(%error, "a snapshot that nobody waited for is left");
            }
        }
    });
    told.await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Gone, "the sandbox ended while its snapshot was made").applied(true))
    })
}

/// The engine freezes the container meanwhile, unless it is frozen, so that all files are of one moment.
async fn commit(link: &Link, container: &str, request: &TakeSnapshot) -> Result<SnapshotId> {
    let found = link.docker.inspect_container(container, None).await;
    let found = found.map_err(|wire| error::fault("looking at the container", Meaning::EXEC, wire).applied(false))?;
    let all = found.config.and_then(|config| config.labels).unwrap_or_default();
    let mut kept: HashMap<_, _> = all.into_keys().map(|name| (name, HANDED_ON.to_string())).collect();
    kept.extend(request.labels.clone());
    kept.insert(SNAPSHOT.into(), container.into());
    let made = until_it_holds_still(|| {
        let options = CommitContainerOptionsBuilder::default().container(container).pause(true).build();
        let config = ContainerConfig { labels: Some(kept.clone()), ..ContainerConfig::default() };
        link.docker.commit_container(options, config)
    });
    let made = made.await.map_err(|wire| error::fault("making an image of the container", Meaning::EXEC, wire))?;
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
        Ok(found) if found.id.as_deref() == Some(id.as_str()) && labels_of(&found).is_some_and(is_ours) => Ok(found),
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
    // Without its parents: one that has no name is another snapshot.
    let options = RemoveImageOptionsBuilder::default().noprune(true).build();
    match link.docker.remove_image(id.as_str(), Some(options), None).await {
        Ok(_) => Ok(()),
        Err(wire) if error::status(&wire) == 404 => Ok(()),
        Err(wire) if error::status(&wire) == 409 => Err(Error::new(
            ErrorKind::WrongState,
            format!("sandboxes or other snapshots still need the snapshot `{id}`"),
        )
        .with_hint("end the sandboxes that were made from it, and delete their snapshots first")
        .with_source(wire)),
        Err(wire) => Err(error::fault("deleting the snapshot", Meaning::OTHER, wire)),
    }
}

pub(crate) async fn list(link: &Link, query: &Query) -> Result<Page<ListedSnapshot>> {
    let mut wanted = vec![SNAPSHOT.to_string()];
    wanted.extend(query.labels.iter().map(|(name, value)| format!("{name}={value}")));
    let filters = HashMap::from([("label".to_string(), wanted)]);
    // Without `all`, those that others were made from are missing.
    let options = ListImagesOptionsBuilder::default().all(true).filters(&filters).build();
    let found = link.docker.list_images(Some(options)).await;
    let found = found.map_err(|wire| error::fault("listing snapshots", Meaning::OTHER, wire))?;
    let ours = found.into_iter().filter(|image| is_ours(&image.labels));
    let items = ours.map(|image| {
        let listed = ListedSnapshot::new(SnapshotId::new(&image.id), own(sorted(Some(image.labels))));
        match u64::try_from(image.created) {
            Ok(seconds) => listed.created(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            Err(_) => listed,
        }
    });
    Ok(Page::last(items.collect()))
}

/// What makes the labels of an image no labels of a container that is made from it.
pub(crate) fn handed_on(image: &ImageInspect) -> impl Iterator<Item = (String, String)> + use<'_> {
    labels_of(image).into_iter().flat_map(HashMap::keys).map(|name| (name.clone(), HANDED_ON.into()))
}

fn labels_of(image: &ImageInspect) -> Option<&HashMap<String, String>> {
    image.config.as_ref()?.labels.as_ref()
}

/// Without what others handed on, and what only this adapter reads.
pub(crate) fn own(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|name, value| name != SNAPSHOT && name != crate::build::LABEL && value != HANDED_ON);
    labels
}

/// Whether an image with these labels is a snapshot of this library's. One that somebody makes of a container has the
/// container's labels, where the first of the two has no value of its own.
fn is_ours(labels: &HashMap<String, String>) -> bool {
    [SNAPSHOT, labels::MARKER]
        .iter()
        .all(|name| labels.get(*name).is_some_and(|value| !value.is_empty() && value != HANDED_ON))
}
