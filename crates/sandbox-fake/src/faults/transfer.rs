//! Lies about transfers that are not brought to their end.

use super::{Lies, LyingSandbox};
use bytes::Bytes;
use sandbox_core::{Body, Chunks, Result, SandboxId};
use std::sync::Arc;

/// Dropped before it is done, it ends the sandbox.
pub(super) struct Cut {
    lies: Arc<Lies>,
    id: SandboxId,
    done: bool,
}

impl Cut {
    pub(super) fn new(sandbox: &LyingSandbox) -> Self {
        Self { lies: Arc::clone(&sandbox.lies), id: sandbox.id.clone(), done: false }
    }

    pub(super) fn done(mut self) {
        self.done = true;
    }

    /// The same body, which is to be read to its end.
    pub(super) fn body(sandbox: &LyingSandbox, body: Body) -> Body {
        Body::new(body.len, Whole { cut: Self::new(sandbox), body })
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if !self.done {
            self.lies.end(&self.id);
        }
    }
}

struct Whole {
    cut: Cut,
    body: Body,
}

impl Chunks for Whole {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let piece = self.body.next().await?;
        self.cut.done |= piece.is_none();
        Ok(piece)
    }
}
