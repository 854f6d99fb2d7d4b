//! Single files as trees of one.

use super::{
    Files, split,
    stream::{self, Inlet, Outlet},
};
use bytes::Bytes;
use sandbox_core::{Body, Error, ErrorKind, FileInfo, FileKind, GetTree, PutTree, ReadFile, Result, Stat, WriteFile};
use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::SystemTime,
};
use tokio::sync::oneshot;

/// What the first member of a tree is.
enum Found {
    File(Body),
    Link(String),
    Directory,
    Other,
}

impl Files {
    pub(super) async fn archive_read(&self, request: ReadFile) -> Result<Body> {
        let mut path = request.path.clone();
        for _ in 0..MOST_LINKS {
            match self.first_member(&path, &request).await? {
                Found::File(body) => return Ok(body),
                Found::Directory => {
                    return Err(Error::new(ErrorKind::IsADirectory, format!("`{}` is a directory", request.path))
                        .with_hint("use `list` or `download_dir`"));
                }
                Found::Other => {
                    return Err(Error::new(ErrorKind::NotAFile, format!("`{}` is not a regular file", request.path)));
                }
                Found::Link(target) => {
                    let dir = split(&path).map_or("/", |(dir, _)| dir);
                    path = crate::validate::joined(dir, &target)?;
                    if self.is_blind(&path) {
                        return self.command_read(&request).await;
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::PathNotFound, format!("`{}` is a link that leads to no end", request.path)))
    }

    pub(super) async fn archive_write(&self, request: WriteFile, mut body: Body) -> Result<()> {
        let Some((dir, name)) = split(&request.path) else {
            return Err(Error::new(ErrorKind::IsADirectory, format!("`{}` is a directory", request.path)));
        };
        let (dir, name) = (dir.to_string(), name.to_string());
        // A member of a tree begins with its length.
        let (len, body) = match body.len {
            Some(len) => (len, body),
            None => {
                let whole = self.spooled(&mut body).await?;
                (whole.len.unwrap_or_default(), whole)
            }
        };
        let owner = self.ids().await?;
        let mode = match self.look(&request.path).await? {
            Some(there) if there.kind == FileKind::Directory => {
                return Err(Error::new(ErrorKind::IsADirectory, format!("`{}` is a directory", request.path)));
            }
            Some(there) if there.kind == FileKind::File => request.mode.unwrap_or(there.meta.mode & 0o7777),
            Some(_) => request.mode.unwrap_or(NEW_FILE),
            None => {
                self.parents(&dir).await?;
                request.mode.unwrap_or(NEW_FILE)
            }
        };
        let lease = self.lease()?;
        let (source, progress) = stream::watched(body);
        let (pieces, _leash) = stream::pulled(lease, source);
        let tar =
            stream::produced(&lease.spawner.workers.io, None, move |out| member(out, &name, len, mode, owner, pieces));
        let instance = Arc::clone(&lease.instance);
        let work = async move { instance.get().put_tree(&PutTree::new(dir), tar).await };
        self.transfer("files.write", progress, work).await
    }

    async fn first_member(&self, path: &str, request: &ReadFile) -> Result<Found> {
        let get = GetTree::new(path);
        let tar = self.native("files.read", move |i| async move { i.get().get_tree(&get).await }).await;
        let tar = tar.map_err(|error| missing(path, error))?;
        let lease = self.lease()?;
        let inlet = Inlet::new(stream::relay(lease, tar));
        let (tell, told) = oneshot::channel();
        let (offset, length) = (request.offset, request.length.unwrap_or(u64::MAX));
        let body =
            stream::produced(&lease.spawner.workers.io, None, move |out| take_first(inlet, out, tell, offset, length));
        let Ok(kind) = told.await else {
            return Err(Error::new(ErrorKind::Protocol, format!("the tree of `{path}` is empty")));
        };
        match kind? {
            First::File => Ok(Found::File(body)),
            First::Link(target) => Ok(Found::Link(target)),
            First::Directory => Ok(Found::Directory),
            First::Other => Ok(Found::Other),
        }
    }
}

enum First {
    File,
    Link(String),
    Directory,
    Other,
}

/// On a thread of its own: says what comes first, and hands out its content.
fn take_first(
    inlet: Inlet,
    out: &mut Outlet,
    tell: oneshot::Sender<Result<First>>,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(inlet);
    let first = archive.entries().and_then(|mut entries| entries.next().transpose());
    let mut entry = match first {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(()), // Nobody is told, which is the answer.
        Err(error) => {
            let _ = tell.send(Err(stream::from_io(error)));
            return Ok(());
        }
    };
    let kind = match entry.header().entry_type() {
        tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => First::File,
        tar::EntryType::Directory => First::Directory,
        tar::EntryType::Symlink => {
            let target = entry.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned());
            First::Link(target.unwrap_or_default())
        }
        _ => First::Other,
    };
    let is_file = matches!(kind, First::File);
    let size = entry.size();
    if tell.send(Ok(kind)).is_err() || !is_file {
        return Ok(());
    }
    let skipped = io::copy(&mut (&mut entry).take(offset), &mut io::sink())?;
    let copied = io::copy(&mut (&mut entry).take(length), out)?;
    if skipped + copied < size.min(offset.saturating_add(length)) {
        return Err(io::Error::other(Error::new(ErrorKind::ConnectionLost, "the file was cut short")));
    }
    Ok(())
}

/// On a thread of its own: one member, in as many pieces as come.
fn member(
    out: &mut Outlet,
    name: &str,
    len: u64,
    mode: u32,
    owner: (u32, u32),
    pieces: stream::Pieces,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(len);
    header.set_mode(mode);
    header.set_uid(owner.0.into());
    header.set_gid(owner.1.into());
    header.set_mtime(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs()));
    let mut exact = Exact { inlet: Inlet::new(pieces), left: len };
    let mut builder = tar::Builder::new(&mut *out);
    builder.append_data(&mut header, name, &mut exact)?;
    builder.finish()?;
    drop(builder);
    out.flush()
}

/// A source has as many bytes as it promised, or the whole is not sent: the end marks of the tar would hide it.
struct Exact {
    inlet: Inlet,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inlet.read(into)?;
        let wrong =
            |what: &str| io::Error::other(Error::invalid(format!("the body has {what} bytes than its length says")));
        if n as u64 > self.left {
            return Err(wrong("more"));
        }
        if n == 0 && self.left > 0 && !into.is_empty() {
            return Err(wrong("fewer"));
        }
        self.left -= n as u64;
        Ok(n)
    }
}

impl Files {
    /// A body whose length is not known, held in memory as far as that is bounded.
    pub(super) async fn spooled(&self, body: &mut Body) -> Result<Body> {
        let mut all = bytes::BytesMut::new();
        while let Some(piece) = body.next().await? {
            if (all.len() + piece.len()) as u64 > super::READ_LIMIT {
                let message = "a body of unknown length is more than is held in memory";
                return Err(Error::new(ErrorKind::ResourceExhausted, message)
                    .with_hint("state the body's length, or upload it from a file"));
            }
            all.extend_from_slice(&piece);
        }
        Ok(Body::from(Bytes::from(all)))
    }

    /// What is at a path, without a command.
    async fn look(&self, path: &str) -> Result<Option<FileInfo>> {
        let stat = Stat::new(path);
        match self.native("files.write", move |i| async move { i.get().stat_tree(&stat).await }).await {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.kind() == ErrorKind::PathNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the directory that a file goes into, unless it is there.
    async fn parents(&self, dir: &str) -> Result<()> {
        match dir == "/" || self.look(dir).await?.is_some() {
            true => Ok(()),
            false => self.directory(dir.to_string()).await,
        }
    }
}

/// The same in words that do not depend on the provider.
pub(super) fn missing(path: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::PathNotFound => {
            Error::new(ErrorKind::PathNotFound, format!("`{path}` is not there")).with_source(error).applied(false)
        }
        _ => error,
    }
}

/// Permission bits of a file that was not there.
pub(super) const NEW_FILE: u32 = 0o644;
const MOST_LINKS: usize = 40;
