//! Lies about files. The trait's other methods are here too, in one place.

use super::{Fault, LyingControl, LyingEvents, LyingSandbox, transfer::Cut};
use bytes::{Bytes, BytesMut};
use sandbox_core::{
    Body, Changes, Destination, Endpoint, Error, ErrorKind, Exec, Extend, FileInfo, FileKind, GetTree, Instance,
    ListDestinations, ListDir, Listening, MakeDir, OpenPort, Pause, PutTree, ReadFile, Reattach, Remove, Rename,
    Restart, Result, Resume, SetMeta, SetNetwork, SnapshotId, Stat, Stop, TakeSnapshot, WatchDir, WriteFile,
};
use std::time::Duration;

/// Where file operations work that are elsewhere.
const ELSEWHERE: &str = "/.elsewhere";

/// How long files can be that are cut.
const LONGEST: usize = 64 << 20;

#[deny(clippy::missing_trait_methods)]
impl Instance for LyingSandbox {
    type Control = LyingControl;
    type Events = LyingEvents;

    async fn spawn(&self, exec: &Exec) -> Result<(LyingControl, LyingEvents)> {
        self.run(exec).await
    }

    async fn reattach(&self, request: &Reattach) -> Result<(LyingControl, LyingEvents)> {
        self.again(request).await
    }

    async fn watch(&self, request: &WatchDir) -> Result<Changes> {
        self.watched(request).await
    }

    async fn gone(&self) -> Error {
        self.death().await
    }

    async fn detach(&self) -> Result<()> {
        self.let_go().await
    }

    async fn pause(&self, request: &Pause) -> Result<()> {
        self.freeze(request).await
    }

    async fn resume(&self, request: &Resume) -> Result<()> {
        self.is_news(self.is_frozen())?;
        self.inner.resume(request).await
    }

    async fn stop(&self, request: &Stop) -> Result<()> {
        self.is_news(!self.is_stopped())?;
        if self.lies.is(Fault::StopDoesNothing) { Ok(()) } else { self.inner.stop(request).await }
    }

    async fn restart(&self, request: &Restart) -> Result<()> {
        self.start_again(request).await
    }

    async fn extend(&self, request: &Extend) -> Result<()> {
        self.prolong(request).await
    }

    async fn snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotId> {
        self.image(request).await
    }

    async fn set_network(&self, request: &SetNetwork) -> Result<()> {
        if self.lies.is(Fault::NetworkChangeDoesNothing) { Ok(()) } else { self.inner.set_network(request).await }
    }

    async fn is_listening(&self, request: &Listening) -> Result<bool> {
        Ok(self.lies.is(Fault::EveryPortIsListenedAt) || self.inner.is_listening(request).await?)
    }

    async fn open_port(&self, request: &OpenPort) -> Result<Endpoint> {
        self.port(request).await
    }

    async fn destinations(&self, request: &ListDestinations) -> Result<Vec<Destination>> {
        let learned = self.inner.destinations(request).await?;
        Ok(if self.lies.is(Fault::LearningIsLost) { Vec::new() } else { learned })
    }

    async fn read_file(&self, request: &ReadFile) -> Result<Body> {
        let mut request = request.clone();
        request.path = self.path(&request.path);
        if self.lies.is(Fault::RangesIgnoreTheirOffset) {
            request.offset = 0;
        }
        match self.inner.read_file(&request).await {
            Err(error) => match (self.lies.fault, error.kind()) {
                (Fault::MissingFilesAreEmpty, ErrorKind::PathNotFound)
                | (Fault::PermissionsAreIgnored, ErrorKind::PermissionDenied)
                | (Fault::SpecialFilesAreEmpty, ErrorKind::NotAFile) => Ok(Bytes::new().into()),
                (Fault::LinksLeadToTheHost, ErrorKind::PathNotFound) => match std::fs::read(&request.path) {
                    Ok(content) => Ok(Bytes::from(content).into()),
                    Err(_) => Err(error),
                },
                _ => self.told(Err(error)),
            },
            Ok(body) if self.lies.is(Fault::DroppedTransferEndsTheSandbox) => Ok(Cut::body(self, body)),
            body => body,
        }
    }

    async fn write_file(&self, request: &WriteFile, mut body: Body) -> Result<()> {
        let mut request = request.clone();
        request.path = self.path(&request.path);
        let mut temporary = None;
        match self.lies.fault {
            Fault::WritesAddANewline => {
                let mut content = BytesMut::from(&whole(body).await?[..]);
                content.extend_from_slice(b"\n");
                body = content.freeze().into();
            }
            Fault::WritesDoNotTruncate => {
                let new = whole(body).await?;
                let old = match self.inner.read_file(&ReadFile::new(&*request.path)).await {
                    Ok(old) => whole(old).await?,
                    Err(_) => Bytes::new(),
                };
                let mut content = BytesMut::from(&new[..]);
                content.extend_from_slice(&old[new.len().min(old.len())..]);
                body = content.freeze().into();
            }
            Fault::FilesAreCut => {
                let mut content = whole(body).await?;
                content.truncate(LONGEST);
                body = content.into();
            }
            Fault::WritesEmptyFirst if self.info(&request.path).await.is_ok() => {
                self.inner.write_file(&request, Bytes::new().into()).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Fault::LeavesATemporary => {
                let path = format!("{}/.left-{}", parent(&request.path), self.lies.next());
                self.inner.write_file(&WriteFile::new(&*path), Bytes::new().into()).await?;
                temporary = Some(path);
            }
            Fault::ParentsAreNotMade => drop(self.info(parent(&request.path)).await?),
            Fault::WritesFollowLinks => request.path = self.followed(request.path).await,
            Fault::ModesAreIgnored => request.mode = None,
            Fault::LengthIsNotChecked => body.len = None,
            _ => {}
        }
        let cut = self.lies.is(Fault::DroppedTransferEndsTheSandbox).then(|| Cut::new(self));
        self.told(self.inner.write_file(&request, body).await)?;
        if let Some(cut) = cut {
            cut.done();
        }
        if let Some(path) = temporary {
            self.inner.remove(&Remove::new(path)).await?;
        }
        Ok(())
    }

    async fn stat(&self, request: &Stat) -> Result<FileInfo> {
        let mut path = self.path(&request.path);
        if self.lies.is(Fault::StatFollowsLinks) {
            path = self.followed(path).await;
        }
        let mut info = self.told(self.inner.stat(&Stat::new(path)).await)?;
        if self.lies.is(Fault::LinkTargetsAreTidied) {
            info.target = info.target.map(|target| target.replace("./", "").trim_end_matches('/').to_string());
        }
        Ok(info)
    }

    async fn list_dir(&self, request: &ListDir) -> Result<Vec<FileInfo>> {
        let mut all = self.told(self.inner.list_dir(&ListDir::new(self.path(&request.path))).await)?;
        match self.lies.fault {
            Fault::ListLosesTheLast => drop(all.pop()),
            Fault::ListStopsAtAThousand => all.truncate(1000),
            _ => {}
        }
        Ok(all)
    }

    async fn make_dir(&self, request: &MakeDir) -> Result<()> {
        let path = self.path(&request.path);
        if self.lies.is(Fault::MakeDirTwiceFails) && self.info(&path).await.is_ok() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("`{path}` is there")));
        }
        self.told(self.inner.make_dir(&MakeDir::new(path)).await)
    }

    async fn remove(&self, request: &Remove) -> Result<()> {
        let mut request = request.clone();
        request.path = self.path(&request.path);
        match self.lies.fault {
            Fault::RemoveTakesDirectories => request.recursive = true,
            Fault::RemoveFollowsLinks => {
                let target = self.followed(request.path.clone()).await;
                if target != request.path {
                    self.inner.remove(&Remove::new(target).recursive(true)).await?;
                }
            }
            _ => {}
        }
        self.told(self.inner.remove(&request).await)
    }

    async fn rename(&self, request: &Rename) -> Result<()> {
        let (from, to) = (self.path(&request.from), self.path(&request.to));
        if self.lies.is(Fault::RenameCopies) {
            let body = self.inner.read_file(&ReadFile::new(&*from)).await?;
            return self.inner.write_file(&WriteFile::new(to), body).await;
        }
        self.told(self.inner.rename(&Rename::new(from, to)).await)
    }

    async fn set_meta(&self, request: &SetMeta) -> Result<()> {
        let mut request = request.clone();
        request.path = self.path(&request.path);
        match self.lies.fault {
            Fault::ModesAreIgnored => request.mode = None,
            Fault::OwnersAreIgnored => request.owner = None,
            Fault::TimesAreIgnored => request.mtime = None,
            _ => {}
        }
        self.told(self.inner.set_meta(&request).await)
    }

    async fn stat_tree(&self, request: &Stat) -> Result<FileInfo> {
        self.inner.stat_tree(request).await
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
        if self.lies.is(Fault::TreesAreNotUnpacked) {
            return whole(tar).await.map(drop);
        }
        self.told(self.inner.put_tree(&PutTree::new(self.path(&request.path)), tar).await)
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        if self.lies.is(Fault::TreesOfLinksAreRefused)
            && self.info(&request.path).await.is_ok_and(|info| info.kind == FileKind::Symlink)
        {
            return Err(Error::new(ErrorKind::NotADirectory, format!("`{}` is a link", request.path)));
        }
        self.told(self.inner.get_tree(&GetTree::new(self.path(&request.path))).await)
    }
}

impl LyingSandbox {
    /// The path that the provider gets.
    fn path(&self, path: &str) -> String {
        match self.lies.fault {
            Fault::FilesAreElsewhere => format!("{ELSEWHERE}{path}"),
            Fault::PathsGoByTheText => by_the_text(path),
            Fault::NamesAreTrimmed => path.split('/').map(str::trim).collect::<Vec<_>>().join("/"),
            _ => path.to_string(),
        }
    }

    async fn info(&self, path: &str) -> Result<FileInfo> {
        self.inner.stat(&Stat::new(path)).await
    }

    /// Where a link leads to, or the path itself.
    async fn followed(&self, path: String) -> String {
        match self.info(&path).await {
            Ok(FileInfo { kind: FileKind::Symlink, target: Some(target), .. }) if target.starts_with('/') => target,
            Ok(FileInfo { kind: FileKind::Symlink, target: Some(target), .. }) => format!("{}/{target}", parent(&path)),
            _ => path,
        }
    }

    /// An answer as its user gets it.
    fn told<T: Nothing>(&self, answer: Result<T>) -> Result<T> {
        let error = match answer {
            Err(error) => error,
            answer => return answer,
        };
        match (self.lies.fault, error.kind()) {
            (Fault::KindsAreNotTold, ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::AlreadyExists) => {
                Err(Error::new(ErrorKind::PathNotFound, error.message().to_string()))
            }
            (Fault::ErrorsDoNotNameThePath, kind) => Err(Error::new(kind, "it cannot be done")),
            (Fault::PermissionsAreIgnored, ErrorKind::PermissionDenied)
            | (Fault::ReadOnlyIsIgnored, ErrorKind::ReadOnly) => T::nothing().ok_or(error),
            _ => Err(error),
        }
    }
}

/// An answer that says nothing, where there is one.
trait Nothing: Sized {
    fn nothing() -> Option<Self> {
        None
    }
}

impl Nothing for () {
    fn nothing() -> Option<Self> {
        Some(())
    }
}

impl Nothing for Body {}
impl Nothing for FileInfo {}
impl Nothing for Vec<FileInfo> {}

async fn whole(mut body: Body) -> Result<Bytes> {
    let mut all = BytesMut::new();
    while let Some(piece) = body.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn by_the_text(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}
