//! Lies about changes of files.

use super::{Fault, Lies, LyingSandbox};
use sandbox_core::{Change, ChangeKind, ChangeSource, Changes, ErrorKind, Instance, Result, WatchDir};
use std::{
    future::pending,
    sync::{Arc, atomic::Ordering::SeqCst},
};

/// Of so many new files, one is told.
const TOLD: usize = 8;

impl LyingSandbox {
    pub(super) async fn watched(&self, request: &WatchDir) -> Result<Changes> {
        let mut request = request.clone();
        request.recursive |= self.lies.is(Fault::WatchIsAlwaysRecursive);
        let inner = match self.inner.watch(&request).await {
            Err(error)
                if self.lies.is(Fault::WatchOfNothingIsFine)
                    && matches!(error.kind(), ErrorKind::PathNotFound | ErrorKind::NotADirectory) =>
            {
                Changes::new(Silence)
            }
            inner => inner?,
        };
        let before = self.lies.unwatched.load(SeqCst);
        Ok(Changes::new(LyingChanges { inner, lies: Arc::clone(&self.lies), before, created: 0, held: None }))
    }
}

struct LyingChanges {
    inner: Changes,
    lies: Arc<Lies>,
    /// How many watches had ended when it began.
    before: usize,
    created: usize,
    /// To be told next.
    held: Option<Change>,
}

impl ChangeSource for LyingChanges {
    async fn next(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some(change) = self.held.take() {
                return Ok(Some(change));
            }
            let Some(change) = self.inner.next().await? else { return Ok(None) };
            match self.lies.fault {
                Fault::WatchesEndTogether if self.lies.unwatched.load(SeqCst) > self.before => return Ok(None),
                Fault::WatchLosesABurst if change.kind == ChangeKind::Overflow => {}
                Fault::WatchIgnoresAttributes if change.kind == ChangeKind::Attributes => {}
                Fault::WatchLosesABurst if change.kind == ChangeKind::Created => {
                    self.created += 1;
                    if self.created % TOLD == 1 {
                        return Ok(Some(change));
                    }
                }
                Fault::ChangesChangePlaces => {
                    let next = self.inner.next().await?;
                    self.held = Some(change);
                    return Ok(next);
                }
                _ => return Ok(Some(change)),
            }
        }
    }
}

impl Drop for LyingChanges {
    fn drop(&mut self) {
        self.lies.unwatched.fetch_add(1, SeqCst);
    }
}

/// Nothing ever happens.
struct Silence;

impl ChangeSource for Silence {
    async fn next(&mut self) -> Result<Option<Change>> {
        pending().await
    }
}
