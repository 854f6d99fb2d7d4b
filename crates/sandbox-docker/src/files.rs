//! Trees of files over the engine's archive API.

use crate::{
    depth::Depth,
    error::{self, Meaning},
    wire::Link,
};
use bollard::{
    body_try_stream,
    errors::Error as Wire,
    query_parameters::{
        ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder,
    },
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use sandbox_core::{Body, Chunks, Error, FileInfo, FileKind, Meta, Result};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

pub(crate) async fn put(link: &Link, container: &str, path: &str, tar: Body) -> Result<()> {
    // A file must not replace a directory with all that is in it, nor the other way round.
    let options = UploadToContainerOptionsBuilder::default().path(path).no_overwrite_dir_non_dir("1").build();
    let failed = Arc::new(Mutex::new(None));
    let chunks = pieces(tar, Arc::clone(&failed));
    let answer = link.docker.upload_to_container(container, Some(options), body_try_stream(chunks)).await;
    // What broke the source is the cause of whatever the engine says of a broken stream.
    if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    answer.map_err(|e| error::fault(&format!("unpacking into {path}"), Meaning::FILES, e))
}

/// The pieces of a body. An error of its source ends the request half way, and is kept for whoever asked.
pub(crate) fn pieces(body: Body, failed: Arc<Mutex<Option<Error>>>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold((body, failed), |(mut body, failed)| async move {
        loop {
            return match body.next().await {
                Ok(Some(piece)) if piece.is_empty() => continue,
                Ok(Some(piece)) => Some((Ok(piece), (body, failed))),
                Ok(None) => None,
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Some((Err(io::Error::other("the source failed")), (body, failed)))
                }
            };
        }
    })
}

pub(crate) async fn get(link: &Link, container: &str, path: &str) -> Result<Body> {
    let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
    let what = format!("packing {path}");
    let mut pieces: Pieces = link.docker.download_from_container(container, Some(options)).boxed();
    // A refusal comes in place of the first piece.
    let first = match pieces.next().await {
        Some(Ok(first)) => Some(first),
        Some(Err(error)) => return Err(error::fault(&what, Meaning::FILES, error)),
        None => None,
    };
    Ok(Body::new(None, Download { first, pieces, what, depth: Depth::below(path) }))
}

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Wire>> + Send>>;

struct Download {
    first: Option<Bytes>,
    pieces: Pieces,
    what: String,
    depth: Depth,
}

impl Chunks for Download {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let piece = match self.first.take() {
            Some(first) => Some(first),
            None => self.pieces.next().await.transpose().map_err(|e| error::fault(&self.what, Meaning::FILES, e))?,
        };
        if piece.as_deref().is_some_and(|piece| self.depth.is_reached(piece)) {
            return Err(Error::unsupported(format!(
                "{}: the engine leaves out what lies at paths of more than 4095 bytes",
                self.what
            ))
            .with_hint("pack the tree with `tar` inside, or download parts of it"));
        }
        Ok(piece)
    }
}

pub(crate) async fn stat(link: &Link, container: &str, path: &str) -> Result<FileInfo> {
    let options = ContainerArchiveInfoOptionsBuilder::default().path(path).build();
    let found = match link.docker.get_container_archive_info(container, Some(options)).await {
        Ok(found) => found,
        Err(wire) if error::status(&wire) != 0 => {
            // Such an answer has no text. The same question with one says what it is about.
            get(link, container, path).await?;
            return Err(error::fault(&format!("looking at {path}"), Meaning::FILES, wire));
        }
        Err(wire) => return Err(error::fault(&format!("looking at {path}"), Meaning::FILES, wire)),
    };
    let (kind, mode) = mode(found.file_mode);
    let size = u64::try_from(found.size).unwrap_or_default();
    Ok(FileInfo::new(found.name, kind, size).meta(Meta::new(mode, 0, 0, 0)))
}

/// The engine writes modes as Go does: its own bits for kinds and for setuid, setgid and sticky.
fn mode(go: u32) -> (FileKind, u32) {
    const DIR: u32 = 1 << 31;
    const LINK: u32 = 1 << 27;
    const OTHERS: u32 = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19;
    let kind = match go {
        _ if go & DIR != 0 => FileKind::Directory,
        _ if go & LINK != 0 => FileKind::Symlink,
        _ if go & OTHERS != 0 => FileKind::Other,
        _ => FileKind::File,
    };
    let special = [(1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000)];
    let bits = special.iter().filter(|(bit, _)| go & bit != 0).map(|(_, mode)| mode).sum::<u32>();
    (kind, go & 0o777 | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_the_engine() {
        // Seen on Docker 20.10: a file, a FIFO, a link, a directory with the sticky bit.
        assert_eq!(mode(420), (FileKind::File, 0o644));
        assert_eq!(mode(33_554_852), (FileKind::Other, 0o644));
        assert_eq!(mode(134_218_239), (FileKind::Symlink, 0o777));
        assert_eq!(mode(2_148_532_735), (FileKind::Directory, 0o1777));
        assert_eq!(mode(1 << 23 | 1 << 22 | 0o755), (FileKind::File, 0o6755));
        assert_eq!(mode(1 << 26 | 1 << 21 | 0o600), (FileKind::Other, 0o600));
    }
}
