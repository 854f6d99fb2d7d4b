//! Files of a sandbox: which way an operation goes is chosen by facts, never by an error.

mod archive;
mod command;
mod context;
mod header;
mod host;
mod ignored;
mod members;
mod options;
mod pack;
mod stream;
mod transfer;
mod unpack;
mod watch;
mod way;

pub(crate) use context::Context;
pub use options::{TreeOptions, TreeReport};
pub use watch::Watcher;

use crate::{Sandbox, lease::Lease, validate};
use bytes::{Bytes, BytesMut};
use sandbox_core::{
    Body, Capability, Error, ErrorKind, FileInfo, FileKind, ListDir, MakeDir, ReadFile, Remove, Rename, Result,
    SetMeta, Stat, WriteFile,
};
use std::sync::{Arc, PoisonError};
pub(crate) use stream::Pace;
use way::{Way, is_name, names_directory};

/// The files of a sandbox, as its own user sees them, or the user of its view (see [`Sandbox::with`](crate::Sandbox::with)).
/// Relative paths start at the working directory of either.
///
/// Paths that end in `/`, `.` or `..` name directories: where a file is read, written or removed they are `is-a-directory`. What
/// a view's user does is made of small commands, also where the backend has file operations of its own: these know one user.
///
/// Where the backend has no file operations of its own, they are made of whole trees or of small commands, and the facts say
/// so. Every request is bounded by [`Limits::operation`](crate::Limits::operation), a transfer step by step.
#[derive(Debug, Clone)]
pub struct Files {
    sandbox: Sandbox,
}

impl Files {
    pub(crate) fn new(sandbox: Sandbox) -> Self {
        Self { sandbox }
    }

    /// Reads a regular file whole, up to 256 MiB. A link is followed.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `not-a-file`, `permission-denied`; `resource-exhausted` for more than 256 MiB;
    /// `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is left.
    pub async fn read(&self, path: impl Into<String>) -> Result<Bytes> {
        let opened = self.opened("files.read", ReadFile::new(path)).await?;
        self.collect(opened.body).await.map_err(self.stamp("files.read"))
    }

    /// Reads a file as text. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read_text(&self, path: impl Into<String>) -> Result<String> {
        let bytes = self.read(path).await?;
        Ok(String::from_utf8(bytes.into()).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// Reads at most `length` bytes from byte `offset` on; fewer where the file ends.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read_range(&self, path: impl Into<String>, offset: u64, length: u64) -> Result<Bytes> {
        let request = ReadFile::new(path).offset(offset).length(Some(length));
        let opened = self.opened("files.read", request).await?;
        let all = self.collect(opened.body).await.map_err(self.stamp("files.read"))?;
        if all.len() as u64 > length {
            let message = format!("{length} bytes were asked for, and {} came", all.len());
            return Err(self.stamp("files.read")(Error::new(ErrorKind::Protocol, message)));
        }
        Ok(all)
    }

    /// Opens a file for reading in pieces, at constant memory.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read), some of them with the first piece.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and so is the body's `next`.
    pub async fn open(&self, path: impl Into<String>) -> Result<Body> {
        self.opened("files.open", ReadFile::new(path)).await.map(|opened| opened.body)
    }

    /// Writes a regular file whole: makes its parents, replaces what is there. A link at the path is replaced, not followed.
    /// The content is owned, or a literal; borrowed text becomes owned by `to_owned`.
    ///
    /// # Errors
    ///
    /// `is-a-directory`, `not-a-directory`, `permission-denied`, `disk-full`, `read-only`; `operation-timeout`, `gone`, the
    /// transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Where `ATOMIC_WRITE` is declared, the file is the old or the new; elsewhere it may be a part of the new.
    pub async fn write(&self, path: impl Into<String>, content: impl Into<Bytes>) -> Result<()> {
        self.write_with(WriteFile::new(path), content.into().into()).await
    }

    /// The same as [`write`](Self::write), from a stream, at constant memory.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), and the body's own; then nothing is written where `ATOMIC_WRITE` is declared.
    ///
    /// # Cancel safety
    ///
    /// That of [`write`](Self::write).
    pub async fn write_from(&self, path: impl Into<String>, body: Body) -> Result<()> {
        self.write_with(WriteFile::new(path), body).await
    }

    /// The same as [`write_from`](Self::write_from), with options.
    ///
    /// # Errors
    ///
    /// Those of [`write_from`](Self::write_from).
    ///
    /// # Cancel safety
    ///
    /// That of [`write`](Self::write).
    pub async fn write_with(&self, request: WriteFile, body: Body) -> Result<()> {
        self.written("files.write", request, body).await
    }

    /// What is at a path. A link is not followed.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn stat(&self, path: impl Into<String>) -> Result<FileInfo> {
        let done = async {
            let named = path.into();
            let path = self.path(&named)?;
            let info = self.info(&path).await?;
            if names_directory(&named) && matches!(info.kind, FileKind::File | FileKind::Other) {
                return Err(Error::new(ErrorKind::NotADirectory, format!("`{path}` is not a directory")));
            }
            Ok(info)
        };
        done.await.map_err(self.stamp("files.stat"))
    }

    /// Whether something is at a path. A link that points nowhere is something.
    ///
    /// # Errors
    ///
    /// Those of [`stat`](Self::stat), but not `path-not-found`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn exists(&self, path: impl Into<String>) -> Result<bool> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::PathNotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What is in a directory, one level of it, sorted by name. Names are the last parts of paths.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, path: impl Into<String>) -> Result<Vec<FileInfo>> {
        let done = async {
            let path = self.path(&path.into())?;
            let mut all = if self.is_native(&path)? {
                self.native("files.list", move |i| async move { i.get().list_dir(&ListDir::new(path)).await }).await?
            } else {
                self.command_list(&path).await?
            };
            if let Some(odd) = all.iter().find(|info| !is_name(&info.name)) {
                let message = format!("the listing has an entry `{}`, which is no name", odd.name.escape_debug());
                return Err(Error::new(ErrorKind::Protocol, message));
            }
            all.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(all)
        };
        done.await.map_err(self.stamp("files.list"))
    }

    /// Makes a directory and its parents. One that is there is fine.
    ///
    /// # Errors
    ///
    /// `already-exists` where a file is in the way, `not-a-directory`, `permission-denied`, `read-only`;
    /// `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been made.
    pub async fn make_dir(&self, path: impl Into<String>) -> Result<()> {
        let done = async {
            let path = self.path(&path.into())?;
            self.directory(path).await
        };
        done.await.map_err(self.stamp("files.make_dir"))
    }

    /// Removes a file or a link; a link is not followed.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `permission-denied`, `read-only`; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been removed.
    pub async fn remove(&self, path: impl Into<String>) -> Result<()> {
        self.removed("files.remove", Remove::new(path)).await
    }

    /// Removes whatever is at a path, with all that is in it; links are not followed. Nothing there is fine.
    ///
    /// # Errors
    ///
    /// `permission-denied`, `read-only`; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// A part may have been removed.
    pub async fn remove_all(&self, path: impl Into<String>) -> Result<()> {
        self.removed("files.remove_all", Remove::new(path).recursive(true)).await
    }

    /// Moves a file or directory; a file that is there is replaced. A path that ends in `/` says that it is a directory.
    ///
    /// # Errors
    ///
    /// `path-not-found`; `not-a-directory` where that is not so; `is-a-directory` where a directory is in the way; `permission-denied`, `read-only`;
    /// `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been moved.
    pub async fn rename(&self, from: impl Into<String>, to: impl Into<String>) -> Result<()> {
        let done = async {
            let (old, new) = (from.into(), to.into());
            let (from, to) = (self.path(&old)?, self.path(&new)?);
            if (names_directory(&old) || names_directory(&new)) && self.info(&from).await?.kind != FileKind::Directory {
                return Err(Error::new(ErrorKind::NotADirectory, format!("`{from}` is not a directory")));
            }
            if self.is_native(&from)? && self.is_native(&to)? {
                let work = move |i: Instance| async move { i.get().rename(&Rename::new(from, to)).await };
                return self.native("files.rename", work).await;
            }
            self.command_rename(&from, &to).await
        };
        done.await.map_err(self.stamp("files.rename"))
    }

    /// Sets mode, owner or time of a file. `FILE_META`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `path-not-found`, `permission-denied`, `read-only`; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// A part may have been set.
    pub async fn set_meta(&self, mut request: SetMeta) -> Result<()> {
        let done = async {
            let facts = self.sandbox.facts();
            validate::need(facts, Capability::FileMeta)?;
            request.path = self.path(&request.path)?;
            mode(request.mode)?;
            if facts.is_native(Capability::FileMeta) && !self.is_blind(&request.path) && self.user().is_none() {
                return self.native("files.set_meta", move |i| async move { i.get().set_meta(&request).await }).await;
            }
            self.command_set_meta(&request).await
        };
        done.await.map_err(self.stamp("files.set_meta"))
    }

    async fn opened(&self, operation: &'static str, mut request: ReadFile) -> Result<Opened> {
        let done = async {
            request.path = self.file_path(&request.path)?;
            match self.way(&request.path).await? {
                Way::Native => {
                    let body =
                        self.native(operation, move |i| async move { i.get().read_file(&request).await }).await?;
                    Ok(Opened { body: stream::relayed(self.lease()?, body), mode: None })
                }
                Way::Archive => self.archive_read(operation, request).await,
                Way::Command => Ok(Opened { body: self.command_read(&request).await?, mode: None }),
            }
        };
        done.await.map_err(self.stamp(operation))
    }

    async fn written(&self, operation: &'static str, mut request: WriteFile, body: Body) -> Result<()> {
        let done = async {
            request.path = self.file_path(&request.path)?;
            mode(request.mode)?;
            match self.way(&request.path).await? {
                Way::Native => {
                    let (body, progress) = stream::watched(body);
                    let instance = Arc::clone(&self.lease()?.instance);
                    let work = async move { instance.get().write_file(&request, body).await };
                    self.transfer(operation, progress, work).await
                }
                Way::Archive => self.archive_write(operation, request, body).await,
                Way::Command => self.command_write(request, body).await,
            }
        };
        done.await.map_err(self.stamp(operation))
    }

    async fn info(&self, path: &str) -> Result<FileInfo> {
        if !self.is_native(path)? {
            return self.command_stat(path).await;
        }
        let stat = Stat::new(path);
        self.native("files.stat", move |i| async move { i.get().stat(&stat).await }).await
    }

    async fn collect(&self, mut body: Body) -> Result<Bytes> {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(piece) = body.next().await? {
            if (all.len() + first.len() + piece.len()) as u64 > READ_LIMIT {
                let message = format!("the file is larger than the {} MiB that are held in memory", READ_LIMIT >> 20);
                return Err(Error::new(ErrorKind::ResourceExhausted, message)
                    .with_hint("use `open`, `read_range` or `download`"));
            }
            if all.is_empty() && first.is_empty() {
                first = piece;
            } else {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }

    /// Makes a directory at an absolute path.
    async fn directory(&self, path: String) -> Result<()> {
        if self.is_native(&path)? {
            return self
                .native("files.make_dir", move |i| async move { i.get().make_dir(&MakeDir::new(path)).await })
                .await;
        }
        self.command_make_dir(&path).await
    }

    async fn removed(&self, operation: &'static str, mut request: Remove) -> Result<()> {
        let done = async {
            if !request.recursive {
                self.file_path(&request.path)?;
            }
            request.path = self.path(&request.path)?;
            if request.path == "/" {
                return Err(
                    Error::invalid("the root directory cannot be removed").with_hint("close the sandbox instead")
                );
            }
            if self.is_native(&request.path)? {
                let recursive = request.recursive;
                let gone = self.native(operation, move |i| async move { i.get().remove(&request).await }).await;
                return match gone {
                    Err(error) if recursive && error.kind() == ErrorKind::PathNotFound => Ok(()),
                    gone => gone,
                };
            }
            self.command_remove(&request).await
        };
        done.await.map_err(self.stamp(operation))
    }

    /// One call of the adapter's file operations.
    async fn native<T, F>(&self, operation: &'static str, call: impl FnOnce(Instance) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let lease = self.sandbox.lease()?;
        lease.life.check()?;
        lease.spawner.operate(operation, Some(Arc::clone(&lease.life)), call(Arc::clone(&lease.instance))).await
    }

    /// A call of the adapter's that goes on as long as its body does.
    async fn transfer<T: Send + 'static>(
        &self,
        operation: &'static str,
        progress: Arc<stream::Progress>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let lease = self.sandbox.lease()?;
        lease.life.check()?;
        let stalled = Pace::of(lease).stalled(progress);
        let told = lease.spawner.attended(operation, Some(Arc::clone(&lease.life)), stalled, work);
        crate::engine::done(told.await)
    }

    /// uid and gid of the user that files belong to.
    async fn ids(&self) -> Result<(u32, u32)> {
        if self.user().is_some() {
            return self.command_ids().await;
        }
        let ids = &self.sandbox.lease()?.ids;
        let known = *ids.lock().unwrap_or_else(PoisonError::into_inner);
        match known {
            Some(known) => Ok(known),
            None => {
                let asked = self.command_ids().await?;
                *ids.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
                Ok(asked)
            }
        }
    }

    fn lease(&self) -> Result<&Lease> {
        self.sandbox.lease()
    }

    fn stamp(&self, operation: &'static str) -> impl Fn(Error) -> Error {
        let (backend, id) = (self.sandbox.facts().name().to_string(), self.sandbox.id().clone());
        move |error| error.with_operation(operation).with_backend(backend.clone()).with_sandbox(&id)
    }
}

/// A file that is read.
struct Opened {
    body: Body,
    /// Permission bits, where they came with it.
    mode: Option<u32>,
}

type Instance = Arc<crate::engine::Held<Box<dyn crate::erase::DynInstance>>>;

fn mode(mode: Option<u32>) -> Result<()> {
    match mode {
        Some(mode) if mode > 0o7777 => {
            Err(Error::invalid(format!("mode {mode:o} has more than permission bits")).with_hint("use at most 0o7777"))
        }
        _ => Ok(()),
    }
}

/// What is held in memory at most.
const READ_LIMIT: u64 = 256 << 20;
