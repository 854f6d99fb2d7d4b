//! Files and trees between host and sandbox.

use super::{
    Files, TreeOptions, TreeReport, Way,
    host::{self, Landing, Source},
    members::{Member, Members},
    options::MAX_BYTES,
    pack::{Packer, Plan},
    stream::{self, Pace},
    unpack::{Unpack, too_much},
};
use bytes::Bytes;
use sandbox_core::{Body, Capability, Error, ErrorKind, FileKind, PutTree, ReadFile, Result, WriteFile};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

impl Files {
    /// Copies a file of the host into the sandbox, with its permission bits. A link on the host is followed. What is small, or
    /// says that it is empty, is read whole before it is sent, so that files that a kernel makes up, as in `/proc`, are what
    /// they read as.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `permission-denied` of the host, which the message names, and `not-a-file` for its
    /// FIFOs, sockets and devices; then nothing was sent. `invalid-argument` for a path that no file can have, and where the
    /// file became shorter while it was read. Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// That of [`write`](Self::write).
    pub async fn upload(&self, host: impl AsRef<Path>, path: impl Into<String>) -> Result<()> {
        let host = host.as_ref().to_path_buf();
        let done = async {
            let pace = Pace::of(self.lease()?);
            let source = pace.host(move || Source::open(&host)).await;
            let mut source = source.map_err(|error| match error.kind() {
                ErrorKind::IsADirectory => error.with_hint("use `upload_dir`"),
                _ => error,
            })?;
            let request = WriteFile::new(path).mode(Some(source.mode & 0o777));
            let body = pace.body(Some(source.len), move || source.next());
            self.written("files.upload", request, body).await
        };
        done.await.map_err(self.stamp("files.upload"))
    }

    /// Copies a file of the sandbox to the host, up to 64 GiB: whole or not at all.
    ///
    /// A file that is there is replaced and its mode kept. A new one gets the permission bits of the sandbox's file; where
    /// they are not known, or that is a link, those of any new file of this process. A link on the host is replaced and what it leads to left alone.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and of the host's file system, which the message names: `is-a-directory`, and
    /// `not-a-file` where a FIFO, a socket or a device is in the way, or behind a link. `resource-exhausted` for more than
    /// 64 GiB.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left of a copy that was given up.
    pub async fn download(&self, path: impl Into<String>, host: impl AsRef<Path>) -> Result<()> {
        let (path, host) = (path.into(), host.as_ref().to_path_buf());
        let done = async {
            let pace = Pace::of(self.lease()?);
            // First, because to give up what was opened may cost a sandbox that cannot end one command alone.
            let there = host.clone();
            let kept = pace.host(move || host::there(&there)).await?;
            let mut opened = self.opened("files.download", ReadFile::new(path.clone())).await?;
            let mode = match kept.or(opened.mode) {
                None if self.sandbox.facts().has(Capability::FileMeta) => {
                    let info = self.info(&self.path(&path)?).await?;
                    (info.kind == FileKind::File).then_some(info.meta.mode & 0o777)
                }
                mode => mode,
            };
            let (mut landing, mut left) = (Landing::new(host, mode, None), MAX_BYTES);
            while let Some(piece) = opened.body.next().await? {
                left = left
                    .checked_sub(piece.len() as u64)
                    .ok_or_else(|| too_much("bytes", "max_bytes").with_hint("read it by `open`, and count"))?;
                landing = landing.put(&pace, piece, false).await?;
            }
            landing.put(&pace, Bytes::new(), true).await.map(drop)
        };
        done.await.map_err(self.stamp("files.download"))
    }

    /// Copies the contents of a directory of the host to below a directory of the sandbox, which is made if it is not there.
    /// Empty directories, modes and links are kept, and links as they are spelled. `TREE`.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for a link that may leave the directory: one that is absolute, goes up too far, or goes up again after
    /// a name, which may be a link itself; and errors of the host's file system: then nothing was sent. `invalid-argument`,
    /// too, where a file was replaced or became shorter in the meantime. `not-a-directory`, `is-a-directory`, `permission-denied`, `disk-full`, `read-only`; `operation-timeout`, `gone`, the
    /// transport kinds.
    ///
    /// # Cancel safety
    ///
    /// A part may have been copied.
    pub async fn upload_dir(&self, host: impl AsRef<Path>, path: impl Into<String>) -> Result<TreeReport> {
        self.upload_dir_with(host, path, &TreeOptions::new()).await
    }

    /// The same as [`upload_dir`](Self::upload_dir), of a part of the directory.
    ///
    /// # Errors
    ///
    /// Those of [`upload_dir`](Self::upload_dir); `invalid-argument` for what is no glob.
    ///
    /// # Cancel safety
    ///
    /// A part may have been copied.
    pub async fn upload_dir_with(
        &self,
        host: impl AsRef<Path>,
        path: impl Into<String>,
        options: &TreeOptions,
    ) -> Result<TreeReport> {
        let done = async {
            crate::validate::need(self.sandbox.facts(), Capability::Tree)?;
            let (path, filter) = (self.path(&path.into())?, Arc::new(options.compile()?));
            let (pace, root) = (Pace::of(self.lease()?), host.as_ref().to_path_buf());
            let (mut plan, mut more) = (pace.host(move || Plan::of(&root)).await?, true);
            while more {
                let filter = Arc::clone(&filter);
                (plan, more) = pace.host(move || plan.look(&*filter).map(|more| (plan, more))).await?;
            }
            let plan = Arc::new(plan);
            let bytes = self.send(&plan, path).await?;
            Ok(TreeReport { files: plan.files, bytes, skipped: plan.skipped.clone() })
        };
        done.await.map_err(self.stamp("files.upload_dir"))
    }

    /// Copies the contents of a directory of the sandbox to below a directory of the host, which is made if it is not there. A
    /// link to a directory is followed if it is what is named. Each file is whole or not there; links and names that would
    /// leave the target are refused, and hard links become files of their own. As much comes as
    /// [`max_bytes`](TreeOptions::max_bytes) and [`max_entries`](TreeOptions::max_entries) let through. `TREE`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`; `invalid-argument` for a link that may leave the tree, as with
    /// [`upload_dir`](Self::upload_dir); `resource-exhausted` for more than the options let through; errors of the host's file
    /// system, which the message names, among them `not-a-file` where a FIFO, a socket or a device is in the way; `operation-timeout`, `gone`, the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// A part may have been copied.
    pub async fn download_dir(&self, path: impl Into<String>, host: impl AsRef<Path>) -> Result<TreeReport> {
        self.download_dir_with(path, host, &TreeOptions::new()).await
    }

    /// The same as [`download_dir`](Self::download_dir), of a part of the directory.
    ///
    /// # Errors
    ///
    /// Those of [`download_dir`](Self::download_dir); `invalid-argument` for what is no glob.
    ///
    /// # Cancel safety
    ///
    /// A part may have been copied.
    pub async fn download_dir_with(
        &self,
        path: impl Into<String>,
        host: impl AsRef<Path>,
        options: &TreeOptions,
    ) -> Result<TreeReport> {
        let done = async {
            crate::validate::need(self.sandbox.facts(), Capability::Tree)?;
            options.compile()?;
            let path = self.path(&path.into())?;
            // A future of users' should not be as large as what it reads into.
            let (root, members) = Box::pin(self.tree(&path)).await?;
            Box::pin(Unpack::new(self, &path, &root, host.as_ref(), options)?.all(members)).await
        };
        done.await.map_err(self.stamp("files.download_dir"))
    }

    /// Says how many bytes of files were sent.
    async fn send(&self, plan: &Arc<Plan>, path: String) -> Result<u64> {
        let owner = self.ids().await?;
        let pace = Pace::of(self.lease()?);
        let tar = || {
            let sent = Arc::new(AtomicU64::new(0));
            let mut packer = Packer::new(Arc::clone(plan), owner, Arc::clone(&sent));
            (pace.body(None, move || packer.piece()), sent)
        };
        let (body, mut sent) = tar();
        if self.tree_way(&path).await? == Way::Command {
            self.command_put_tree(&path, body).await?;
            return Ok(sent.load(Ordering::Relaxed));
        }
        if owner.0 != 0 && self.are_archives() {
            self.command_writable(&path).await?;
        }
        match self.put_tree(path.clone(), body).await {
            // Nothing was done, so it may be done again.
            Err(error) if error.kind() == ErrorKind::PathNotFound && !error.may_have_applied() => {
                self.directory(path.clone()).await?;
                let body;
                (body, sent) = tar();
                self.put_tree(path, body).await?;
            }
            done => done?,
        }
        Ok(sent.load(Ordering::Relaxed))
    }

    async fn put_tree(&self, path: String, tar: Body) -> Result<()> {
        let (tar, progress) = stream::watched(tar);
        let instance = Arc::clone(&self.lease()?.instance);
        let work = async move { instance.get().put_tree(&PutTree::new(path), tar).await };
        self.transfer("files.upload_dir", progress, work).await
    }

    /// The root of a tree, and what comes after it.
    async fn tree(&self, path: &str) -> Result<(Member, Members)> {
        if self.tree_way(path).await? == Way::Archive {
            if let Some(tree) = self.followed("files.download_dir", path).await? {
                return Ok(tree);
            }
        }
        let mut members = Members::new(self.command_get_tree(path).await?);
        let root = members.next().await?;
        root.map(|root| (root, members)).ok_or_else(|| Error::new(ErrorKind::Protocol, "the tree is empty"))
    }
}
