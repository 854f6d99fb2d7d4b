//! Images of sandboxes, and copies.

use crate::{
    Client, Sandbox,
    engine::{Orphan, done},
    lease, pages,
    phase::asked,
    validate::{self, need},
};
use sandbox_core::{
    Capability, Error, ForkSandbox, ListedSnapshot, NetworkPolicy, Query, Result, SnapshotId, Spec, TakeSnapshot,
    labels,
};
use std::{
    sync::{Arc, PoisonError},
    time::SystemTime,
};
use tokio::sync::oneshot;

impl Sandbox {
    /// Makes an image of the sandbox: its files, environment, working directory and user. The sandbox goes on, and so does what
    /// runs in it; another change of the sandbox, such as a pause, waits until the image is made. The snapshot outlives it, until [`Client::delete_snapshot`]. [`Spec::snapshot`] makes sandboxes from it. `SNAPSHOT`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for a label; `wrong-state` while it is paused or stopped; `quota-exceeded`; `gone`; the
    /// transport kinds. A snapshot that may have been made all the same is reported by [`Client::orphans`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the snapshot: one that is made then is deleted, or reported.
    pub async fn snapshot(&self, mut request: TakeSnapshot) -> Result<SnapshotId> {
        let lease = self.lease()?;
        let stamp = lease.stamp("snapshot");
        lease.need(Capability::Snapshot).map_err(&stamp)?;
        if !request.labels.is_empty() {
            lease.need(Capability::SnapshotList).map_err(&stamp)?;
            validate::labels(&request.labels).map_err(&stamp)?;
        }
        let marker = lease::marker();
        if lease.facts.has(Capability::SnapshotList) {
            let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
            request.labels.insert(labels::MARKER.into(), marker.clone());
            request.labels.insert(labels::CREATED.into(), now.to_string());
        }
        lease.life.check().map_err(&stamp)?;
        let (tell, told) = oneshot::channel();
        let (s, life, instance) = (Arc::clone(&lease.spawner), Arc::clone(&lease.life), Arc::clone(&lease.instance));
        lease.spawner.watch("a snapshot", async move {
            // What keeps files still meanwhile must not meet a pause or a stop.
            let one = Arc::clone(&life.shift).lock_owned().await;
            if tell.is_closed() {
                return;
            }
            if let Err(error) = life.check() {
                let _ = tell.send(Err(error));
                return;
            }
            let kept = request.labels.clone();
            let made = asked(&s, &life, Box::pin(async move { instance.get().snapshot(&request).await })).await;
            if made.as_ref().is_err_and(Error::may_have_applied) {
                let mut orphan = Orphan::new("a snapshot whose making had no answer".into(), Some(&s));
                (orphan.marker, orphan.labels, orphan.error) = (Some(marker.clone()), kept.clone(), made.clone().err());
                s.workers.open.report(orphan);
            }
            drop(one);
            let Err(Ok(unwanted)) = tell.send(made) else { return };
            let (backend, id) = (Arc::clone(&s.backend), unwanted.clone());
            let delete = Box::pin(async move { backend.get().delete_snapshot(&id).await });
            if let Err(error) = s.workers.bounded(s.limits.teardown, delete).await {
                let mut orphan = Orphan::new(format!("snapshot {unwanted}, which nobody waited for"), Some(&s));
                (orphan.marker, orphan.labels, orphan.error) = (Some(marker), kept, Some(error));
                s.workers.open.report(orphan);
            }
        });
        done(told.await).map_err(&stamp)
    }

    /// Makes a copy of the sandbox: a sandbox of its own, with the same files, environment, network policy and caps, its own
    /// lifetime and labels. From then on the two are apart. Whether what runs is copied too is the provider's affair; the
    /// source goes on. `FORK`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for a label or lifetime; `wrong-state` while it is paused or stopped; `unsupported` and
    /// `isolation-too-weak` for a copy that cannot keep the policy or the tier of its source, which is then ended; those of
    /// [`Client::create`] that come from the provider.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the copy, not the duty to end it.
    pub async fn fork(&self, request: ForkSandbox) -> Result<Self> {
        let lease = self.lease()?;
        let stamp = lease.stamp("fork");
        lease.need(Capability::Fork).map_err(&stamp)?;
        lease.life.check().map_err(&stamp)?;
        lease.spawner.open().map_err(&stamp)?;
        // The policy is the source's, and was checked with it.
        let mut spec = Spec::new().network(NetworkPolicy::Open);
        (spec.labels, spec.lifetime) = (request.labels, request.lifetime);
        let mut spec = validate::spec(spec, &lease.facts).map_err(&stamp)?;
        let (mut kept, tier) = (spec.clone(), lease.facts.tier());
        kept.isolation = Some(tier).filter(|tier| tier.satisfies(*tier));
        spec.network = lease.network.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.network = spec.network.clone().or(kept.network);
        spec.cwd = Some(lease.cwd.clone());
        spec.command_timeout = Some(lease.command_timeout);
        let made = lease::create(&lease.spawner, Arc::clone(&lease.facts), spec, Some(lease.id.clone()));
        let copy = Self::new(done(made.await).map_err(&stamp)?, self.engine()?);
        // What only this very copy could tell.
        if let Err(error) = validate::spec(kept, copy.facts()) {
            let _ = copy.close().await; // A failure is reported by whoever ends the sandbox.
            return Err(stamp(error));
        }
        Ok(copy)
    }
}

impl Client {
    /// Deletes a snapshot. Gone is `Ok`. `SNAPSHOT`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for what is no id; `wrong-state` where sandboxes still need it; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is deleted or not.
    pub async fn delete_snapshot(&self, id: impl AsRef<str>) -> Result<()> {
        let s = self.spawner("delete snapshot")?;
        let deleted = async {
            need(&s.facts, Capability::Snapshot)?;
            let id = validate::snapshot(id.as_ref())?;
            let backend = Arc::clone(&s.backend);
            s.operate("deleting a snapshot", None, async move { backend.get().delete_snapshot(&id).await }).await
        };
        deleted.await.map_err(|error| self.stamp("delete snapshot", error))
    }

    /// The snapshots that this library made on this backend, all pages of them. `SNAPSHOT_LIST`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for a label; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn snapshots(&self, query: Query) -> Result<Vec<ListedSnapshot>> {
        let s = self.spawner("list snapshots")?;
        let listed =
            pages::all(s, Capability::SnapshotList, "a list of snapshots", query, |backend, query| async move {
                backend.get().list_snapshots(&query).await
            });
        listed.await.map_err(|error| self.stamp("list snapshots", error))
    }
}
