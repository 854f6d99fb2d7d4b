//! Bytes on their way into files and out of them.

use crate::{
    fs::{Content, Packed, Unpack, What},
    world::Kernel,
};
use bytes::Bytes;
use sandbox_core::{Body, Chunks, Error, ErrorKind, Result};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The most bytes of one piece of a body.
const PIECE: usize = 256 << 10;

/// Takes a body whole, and no more than fits.
pub(crate) async fn receive(kernel: &Arc<Kernel>, mut body: Body, free: u64, path: &str) -> Result<Content> {
    let (mut content, stated) = (Content::default(), body.len);
    loop {
        let piece = {
            let _waiting = kernel.transfer();
            body.next().await?
        };
        kernel.stir();
        match piece {
            Some(piece) => content.push(piece),
            None if stated.is_none_or(|stated| stated == content.len()) => return Ok(content),
            None => return Err(length(path, content.len(), stated)),
        }
        if stated.is_some_and(|stated| stated < content.len()) {
            return Err(length(path, content.len(), stated));
        }
        if content.len() > free {
            return Err(What::Full.at(path).into());
        }
    }
}

fn length(path: &str, had: u64, stated: Option<u64>) -> Error {
    let stated = stated.unwrap_or_default();
    Error::invalid(format!("`{path}`: the body has {had} bytes or more, and says that it has {stated}"))
        .with_hint("state the length of a body only where it is known")
}

/// A file on its way out.
pub(crate) struct Pieces {
    kernel: Arc<Kernel>,
    pieces: VecDeque<Bytes>,
}

impl Pieces {
    pub(crate) fn new(kernel: &Arc<Kernel>, content: Content) -> Self {
        Self { kernel: Arc::clone(kernel), pieces: content.into_pieces().into() }
    }
}

impl Chunks for Pieces {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.kernel.stir();
        let Some(piece) = self.pieces.front_mut() else { return Ok(None) };
        let next = piece.split_to(piece.len().min(PIECE));
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        Ok(Some(next))
    }
}

/// A tree on its way out.
pub(crate) struct Tar {
    kernel: Arc<Kernel>,
    packed: Packed,
}

impl Tar {
    pub(crate) fn new(kernel: &Arc<Kernel>, packed: Packed) -> Self {
        Self { kernel: Arc::clone(kernel), packed }
    }
}

impl Chunks for Tar {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.kernel.stir();
        self.packed.next().map_err(unpacked)
    }
}

pub(crate) fn unpacked(error: Unpack) -> Error {
    match error {
        Unpack::Files(error) => Error::from(error).applied(true),
        Unpack::Stream(error) => Error::new(ErrorKind::Protocol, "the tar stream cannot be read").with_source(error),
    }
}

pub(crate) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}
