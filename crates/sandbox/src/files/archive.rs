//! Single files as trees of one.

use super::{
    Files, Opened,
    header::{self, Entry},
    members::{Kind, Member, Members},
    stream::{self, Pace},
    way::split,
};
use bytes::{Bytes, BytesMut};
use sandbox_core::{Body, Chunks, Error, ErrorKind, FileKind, GetTree, PutTree, ReadFile, Result, WriteFile};
use std::sync::Arc;
use tar::EntryType;

impl Files {
    pub(super) async fn archive_read(&self, operation: &'static str, request: ReadFile) -> Result<Opened> {
        let Some((first, members)) = self.followed(operation, &request.path).await? else {
            return Ok(Opened { body: self.command_read(&request).await?, mode: None });
        };
        match first.kind {
            Kind::File => {}
            Kind::Directory => {
                return Err(Error::new(ErrorKind::IsADirectory, format!("`{}` is a directory", request.path))
                    .with_hint("use `list` or `download_dir`"));
            }
            _ => return Err(Error::new(ErrorKind::NotAFile, format!("`{}` is not a regular file", request.path))),
        }
        let range = Range { members, skip: request.offset, left: request.length.unwrap_or(u64::MAX) };
        Ok(Opened { body: Body::new(None, range), mode: Some(first.mode) })
    }

    /// What a path leads to, as the first member of its tree; `None` where that is seen by commands alone.
    pub(super) async fn followed(&self, operation: &'static str, path: &str) -> Result<Option<(Member, Members)>> {
        let mut at = path.to_string();
        for _ in 0..MOST_LINKS {
            let get = GetTree::new(at.clone());
            let tar = self.native(operation, move |i| async move { i.get().get_tree(&get).await }).await;
            let tar = tar.map_err(|error| missing(&at, error))?;
            let mut members = Members::new(stream::relayed(self.lease()?, tar));
            let first = Pace::of(self.lease()?).within("the beginning of the tree", members.next()).await?;
            let Some(first) = first else {
                return Err(Error::new(ErrorKind::Protocol, format!("the tree of `{at}` is empty")));
            };
            let Kind::Symlink(target) = &first.kind else { return Ok(Some((first, members))) };
            let dir = split(&at).map_or("/", |(dir, _)| dir);
            at = crate::validate::joined(dir, &String::from_utf8_lossy(target))?;
            if !self.archives_see(&at).await? {
                return Ok(None);
            }
        }
        Err(Error::new(ErrorKind::PathNotFound, format!("`{path}` is a link that leads to no end")))
    }

    pub(super) async fn archive_write(
        &self,
        operation: &'static str,
        request: WriteFile,
        mut body: Body,
    ) -> Result<()> {
        let is_directory = || Error::new(ErrorKind::IsADirectory, format!("`{}` is a directory", request.path));
        let Some((dir, name)) = split(&request.path) else { return Err(is_directory()) };
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
            Some(there) if there.kind == FileKind::Directory => return Err(is_directory()),
            Some(there) if there.kind == FileKind::File => request.mode.unwrap_or(there.meta.mode & 0o7777),
            Some(_) => request.mode.unwrap_or(NEW_FILE),
            None => {
                self.parents(dir, &request.path).await?;
                request.mode.unwrap_or(NEW_FILE)
            }
        };
        let (mut head, mut tail) = (BytesMut::new(), BytesMut::new());
        let (kind, mtime) = (EntryType::Regular, header::now());
        Entry { kind, name: name.as_bytes(), link: b"", size: len, mode, mtime, owner }.put(&mut head);
        header::pad(len, &mut tail);
        header::end(&mut tail);
        let one = One { head: Some(head.freeze()), body, left: len, tail: Some(tail.freeze()) };
        let (tar, progress) = stream::watched(Body::new(None, one));
        let (instance, put) = (Arc::clone(&self.lease()?.instance), PutTree::new(dir));
        let work = async move { instance.get().put_tree(&put, tar).await };
        self.transfer(operation, progress, work).await
    }

    /// A body whose length is not known, held in memory as far as that is bounded.
    pub(super) async fn spooled(&self, body: &mut Body) -> Result<Body> {
        let mut all = BytesMut::new();
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

    /// Makes the directory that a file goes into, unless it is there.
    async fn parents(&self, dir: &str, file: &str) -> Result<()> {
        let there = if dir == "/" { Some(FileKind::Directory) } else { self.look(dir).await?.map(|there| there.kind) };
        match there {
            Some(FileKind::Directory) => Ok(()),
            Some(_) => {
                let message = format!("`{file}` is below `{dir}`, which is not a directory");
                Err(Error::new(ErrorKind::NotADirectory, message).applied(false))
            }
            None => self.directory(dir.to_string()).await,
        }
    }
}

/// A part of a stream's current member.
struct Range {
    members: Members,
    skip: u64,
    left: u64,
}

impl Chunks for Range {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.left > 0 {
            let Some(mut piece) = self.members.piece().await? else { break };
            let skipped = self.skip.min(piece.len() as u64);
            self.skip -= skipped;
            let mut piece = piece.split_off(usize::try_from(skipped).unwrap_or(0));
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= piece.len() as u64;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// A tree of one file.
struct One {
    head: Option<Bytes>,
    body: Body,
    left: u64,
    tail: Option<Bytes>,
}

impl Chunks for One {
    /// A source has as many bytes as it promised, or the whole is not sent: the end marks of the tar would hide it.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        if self.tail.is_none() {
            return Ok(None);
        }
        let wrong = |what: &str| Err(Error::invalid(format!("the body has {what} bytes than its length says")));
        match self.body.next().await? {
            Some(piece) if piece.len() as u64 > self.left => wrong("more"),
            Some(piece) => {
                self.left -= piece.len() as u64;
                Ok(Some(piece))
            }
            None if self.left > 0 => wrong("fewer"),
            None => Ok(self.tail.take()),
        }
    }
}

/// The same in words that do not depend on the provider.
fn missing(path: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::PathNotFound => {
            Error::new(ErrorKind::PathNotFound, format!("`{path}` is not there")).with_source(error).applied(false)
        }
        _ => error,
    }
}

/// Permission bits of a file that was not there.
const NEW_FILE: u32 = 0o644;
const MOST_LINKS: usize = 40;
