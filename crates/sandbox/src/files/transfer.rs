//! Files and trees between host and sandbox.

use super::{
    Files, TreeOptions, TreeReport, Way, pack,
    stream::{self, Inlet},
    unpack,
};
use sandbox_core::{Body, Capability, Error, ErrorKind, GetTree, PutTree, Result, WriteFile};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

impl Files {
    /// Copies a file of the host into the sandbox, with its permission bits.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `is-a-directory`, `permission-denied` of the host, which the message names; then nothing was sent.
    /// Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// That of [`write`](Self::write).
    pub async fn upload(&self, host: impl AsRef<Path>, path: impl Into<String>) -> Result<()> {
        let host = host.as_ref().to_path_buf();
        let opened = self.blocking(move || {
            let file = File::open(&host).map_err(|e| pack::host(&host, e))?;
            let meta = file.metadata().map_err(|e| pack::host(&host, e))?;
            if meta.is_dir() {
                let message = format!("`{}` on the host is a directory", host.display());
                return Err(Error::new(ErrorKind::IsADirectory, message).with_hint("use `upload_dir`").applied(false));
            }
            Ok((file, meta))
        });
        let (mut file, meta) = opened.await.map_err(self.stamp("files.upload"))?;
        let io = &self.lease()?.spawner.workers.io;
        let len = meta.len();
        let body = stream::produced(io, Some(len), move |out| {
            let sent = io::copy(&mut Read::by_ref(&mut file).take(len), out)?;
            if sent == len { Ok(()) } else { Err(io::Error::other("the file became shorter while it was read")) }
        });
        let request = WriteFile::new(path).mode(Some(permissions(&meta)));
        self.write_with(request, body).await
    }

    /// Copies a file of the sandbox to the host: whole or not at all.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and of the host's file system, which the message names.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left of a copy that was given up.
    pub async fn download(&self, path: impl Into<String>, host: impl AsRef<Path>) -> Result<()> {
        let body = self.opened("files.download", sandbox_core::ReadFile::new(path)).await?;
        let lease = self.lease()?;
        let (pieces, _leash) = stream::pulled(lease, body);
        let (mut inlet, host) = (Inlet::new(pieces), host.as_ref().to_path_buf());
        let done = self.blocking(move || unpack::file(&mut inlet, &host, 0o644, None).map(drop));
        done.await.map_err(self.stamp("files.download"))
    }

    /// Copies the contents of a directory of the host to below a directory of the sandbox, which is made if it is not there.
    /// Empty directories, modes and links are kept. `TREE`.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for a link that leaves the directory, and errors of the host's file system: then nothing was sent.
    /// `not-a-directory`, `is-a-directory`, `permission-denied`, `disk-full`, `read-only`; `operation-timeout`, `gone`, the
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
            let path = self.path(&path.into())?;
            let (root, filter) = (host.as_ref().to_path_buf(), options.compile()?);
            let plan = Arc::new(self.blocking(move || pack::plan(&root, &filter)).await?);
            self.send(&plan, path).await?;
            Ok(plan.report.clone())
        };
        done.await.map_err(self.stamp("files.upload_dir"))
    }

    /// Copies the contents of a directory of the sandbox to below a directory of the host, which is made if it is not there.
    /// Each file is whole or not there; links and names that would leave the target are refused. `TREE`.
    ///
    /// # Errors
    ///
    /// `path-not-found`, `not-a-directory`, `permission-denied`; `invalid-argument` for a link that leaves the tree; errors of
    /// the host's file system, which the message names; `operation-timeout`, `gone`, the transport kinds.
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
            let (path, filter) = (self.path(&path.into())?, options.compile()?);
            let tar = self.tree(path).await?;
            let (pieces, _leash) = stream::pulled(self.lease()?, tar);
            let inlet = Inlet::new(pieces);
            let target: PathBuf = host.as_ref().to_path_buf();
            self.blocking(move || unpack::unpack(inlet, &target, &filter)).await
        };
        done.await.map_err(self.stamp("files.download_dir"))
    }

    async fn send(&self, plan: &Arc<pack::Plan>, path: String) -> Result<()> {
        let owner = self.ids().await?;
        let tar = || {
            let plan = Arc::clone(plan);
            let io = &self.lease()?.spawner.workers.io;
            Ok::<_, Error>(stream::produced(io, None, move |out| plan.write(out, owner)))
        };
        if self.tree_way(&path) == Way::Command {
            return self.command_put_tree(&path, tar()?).await;
        }
        if owner.0 != 0 && self.tree_is_blind_to_users() {
            self.command_writable(&path).await?;
        }
        match self.put_tree(path.clone(), tar()?).await {
            // Nothing was done, so it may be done again.
            Err(error) if error.kind() == ErrorKind::PathNotFound && !error.may_have_applied() => {
                self.directory(path.clone()).await?;
                self.put_tree(path, tar()?).await
            }
            done => done,
        }
    }

    async fn put_tree(&self, path: String, tar: Body) -> Result<()> {
        let (tar, progress) = stream::watched(tar);
        let instance = Arc::clone(&self.lease()?.instance);
        let work = async move { instance.get().put_tree(&PutTree::new(path), tar).await };
        self.transfer("files.upload_dir", progress, work).await
    }

    async fn tree(&self, path: String) -> Result<Body> {
        if self.tree_way(&path) == Way::Command {
            return self.command_get_tree(&path).await;
        }
        let get = GetTree::new(path.clone());
        let tar = self.native("files.download_dir", move |i| async move { i.get().get_tree(&get).await }).await;
        let tar = tar.map_err(|error| super::archive::missing(&path, error))?;
        Ok(stream::relayed(self.lease()?, tar))
    }

    fn tree_way(&self, path: &str) -> Way {
        let native = self.sandbox.facts().is_native(Capability::Tree) && !self.is_blind(path);
        if native { Way::Archive } else { Way::Command }
    }

    /// Where single files are not the provider's own, its trees are archives that heed no permissions.
    fn tree_is_blind_to_users(&self) -> bool {
        !self.sandbox.facts().is_native(Capability::Files)
    }

    /// Work on the host's file system, on a thread of its own. Given up, it ends with its stream.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let io = &self.lease()?.spawner.workers.io;
        let failed = |e| Error::new(ErrorKind::Internal, "the thread for the host's files died").with_source(e);
        io.spawn_blocking(work).await.unwrap_or_else(|e: tokio::task::JoinError| Err(failed(e)))
    }
}

#[cfg(unix)]
fn permissions(meta: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
}

#[cfg(not(unix))]
fn permissions(_: &std::fs::Metadata) -> u32 {
    0o644
}
