//! Changes of a sandbox's files, from outside.

use crate::{
    fs::{Fs, WatchEnd, Watched},
    world::{Kernel, gone, lock},
};
use sandbox_core::{Change, ChangeSource, Result};
use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Poll,
};

/// Watches until it is dropped.
pub(crate) struct FakeChanges {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) files: Arc<Mutex<Fs>>,
    pub(crate) queue: Arc<Mutex<Watched>>,
}

impl ChangeSource for FakeChanges {
    async fn next(&mut self) -> Result<Option<Change>> {
        self.kernel.stir();
        poll_fn(|cx| match lock(&self.queue).poll(cx) {
            Poll::Ready(Ok(change)) => Poll::Ready(Ok(Some(change))),
            Poll::Ready(Err(WatchEnd::Removed)) => Poll::Ready(Ok(None)),
            Poll::Ready(Err(WatchEnd::Gone)) => Poll::Ready(Err(gone())),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Drop for FakeChanges {
    fn drop(&mut self) {
        lock(&self.files).watches.remove(&self.queue);
    }
}

impl fmt::Debug for FakeChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeChanges").finish_non_exhaustive()
    }
}
