//! Bytes on their way in or out.

use crate::{Boxed, Result};
use bytes::Bytes;
use std::{fmt, future::Future};

/// Bytes of a known or unknown length, pulled: a file or a tar stream, in constant memory.
pub struct Body {
    /// The length in bytes, where it is known.
    pub len: Option<u64>,
    chunks: Box<dyn DynChunks>,
}

impl Body {
    /// A body from its source.
    pub fn new(len: Option<u64>, chunks: impl Chunks) -> Self {
        Self { len, chunks: Box::new(chunks) }
    }

    /// The next piece; `None` is the end. Pieces may be empty.
    ///
    /// # Errors
    ///
    /// Those of the source; nothing more comes after one.
    ///
    /// # Cancel safety
    ///
    /// That of the source: [`Chunks::next`] is cancel safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        self.chunks.next().await
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("len", &self.len).finish_non_exhaustive()
    }
}

impl From<Bytes> for Body {
    fn from(all: Bytes) -> Self {
        struct All(Option<Bytes>);
        impl Chunks for All {
            async fn next(&mut self) -> Result<Option<Bytes>> {
                Ok(self.0.take())
            }
        }
        Self::new(Some(all.len() as u64), All(Some(all)))
    }
}

/// The source of a [`Body`]. It is polled on the engine's workers, which all commands share: it must not block, and what reads
/// with blocking calls belongs on a thread of its own with a channel between.
pub trait Chunks: Send + 'static {
    /// The next piece; `None` is the end. Cancel safe.
    ///
    /// # Errors
    ///
    /// Whatever keeps the source from going on; it is not asked again.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>>> + Send;
}

/// `Body` hides its source behind this; the rest of the dyn twin lives with its only user, the facade.
trait DynChunks: Send {
    fn next(&mut self) -> Boxed<'_, Result<Option<Bytes>>>;
}

impl<C: Chunks> DynChunks for C {
    fn next(&mut self) -> Boxed<'_, Result<Option<Bytes>>> {
        Box::pin(Chunks::next(self))
    }
}
