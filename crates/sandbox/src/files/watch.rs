//! Changes of files, from the workers to whoever watches.

use super::Files;
use crate::{
    engine::{Here, guard},
    lease::Lease,
    validate,
};
use sandbox_core::{Capability, Change, ChangeKind, Changes, Error, ErrorKind, Result, SandboxId, WatchDir};
use std::sync::Arc;
use tokio::{sync::mpsc, task::coop::consume_budget};

impl Files {
    /// Watches a directory: what happens in it from the answer on. `WATCH`.
    ///
    /// ```no_run
    /// # use sandbox::{Sandbox, WatchDir};
    /// # async fn example(sandbox: Sandbox) -> sandbox::Result<()> {
    /// let mut changes = sandbox.files().watch(WatchDir::new("src").recursive(true)).await?;
    /// while let Some(change) = changes.next().await? {
    ///     println!("{:?} {}", change.kind, change.path);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `unsupported`; `path-not-found`, `not-a-directory`, `permission-denied`; `operation-timeout`, `gone`, the transport
    /// kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is watched then.
    pub async fn watch(&self, mut request: WatchDir) -> Result<Watcher> {
        let done = async {
            let facts = self.sandbox.facts();
            validate::need(facts, Capability::Watch)?;
            request.path = self.path(&request.path)?;
            if self.is_blind(&request.path) {
                let message = format!("backend `{}` sees no changes below `{}`", facts.name(), request.path);
                return Err(Error::unsupported(message).with_hint("watch a directory of ordinary files"));
            }
            let path = request.path.clone();
            let changes = self.native("files.watch", move |i| async move { i.get().watch(&request).await }).await?;
            Ok(Watcher::new(self.sandbox.lease()?, path, changes))
        };
        done.await.map_err(self.stamp("files.watch"))
    }
}

/// Watches a directory; dropping it ends that. It does not keep the sandbox.
pub struct Watcher(Here<Inner>);

struct Inner {
    changes: mpsc::Receiver<Result<Change>>,
    over: bool,
    path: String,
    backend: String,
    sandbox: SandboxId,
}

impl Watcher {
    fn new(lease: &Lease, path: String, changes: Changes) -> Self {
        let (out, received) = mpsc::channel(KEPT);
        let relay = relay(Arc::clone(&lease.life), lease.spawner.workers.hold(changes), out, path.clone());
        lease.spawner.workers.io.spawn(relay);
        let (backend, sandbox) = (lease.facts.name().to_string(), lease.id.clone());
        Self(Here::new(Inner { changes: received, over: false, path, backend, sandbox }))
    }

    /// The next change; `None` once the directory itself is gone. Up to 1024 changes are kept for a slow reader; then one
    /// [`ChangeKind::Overflow`] stands for what was not.
    ///
    /// # Errors
    ///
    /// `gone` once the sandbox is, and the transport kinds; then nothing is watched any more, and what follows is `None`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        let this = self.0.get_mut()?;
        if this.over {
            return Ok(None);
        }
        let next = this.changes.recv().await.transpose();
        this.over = !matches!(next, Ok(Some(_)));
        next.map_err(|error| {
            error.with_operation("files.watch").with_backend(this.backend.clone()).with_sandbox(&this.sandbox)
        })
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { path, sandbox, over, .. } = self.0.peek();
        f.debug_struct("Watcher")
            .field("path", path)
            .field("sandbox", sandbox)
            .field("over", over)
            .finish_non_exhaustive()
    }
}

/// On a worker: never waits for the reader with changes in hand, so that the source is always emptied.
async fn relay(
    life: Arc<crate::life::Life>,
    mut changes: crate::engine::Held<Changes>,
    out: mpsc::Sender<Result<Change>>,
    path: String,
) {
    let mut lost = false;
    loop {
        consume_budget().await;
        let next = tokio::select! {
            biased;
            () = out.closed() => return,
            reason = life.ending() => {
                Err(Error::new(ErrorKind::Gone, "the sandbox ended while it was watched").with_source(reason))
            }
            room = out.reserve(), if lost => match room {
                Ok(room) => {
                    room.send(Ok(Change::new(ChangeKind::Overflow, path.clone())));
                    lost = false;
                    continue;
                }
                Err(_) => return,
            },
            next = guard(changes.get_mut().next()) => next,
        };
        match next {
            Ok(None) => break,
            Ok(Some(change)) => lost = lost || out.try_send(Ok(change)).is_err(),
            Err(error) => {
                let _ = out.send(Err(error)).await;
                return;
            }
        }
    }
    if lost {
        let _ = out.send(Ok(Change::new(ChangeKind::Overflow, path))).await;
    }
}

/// Changes that are kept for a slow reader.
const KEPT: usize = 1024;
