//! The files of a sandbox, as the shell sees them: with the permissions of its user.

use crate::{
    fs::{Device, Fs, FsError, Kind, Opened, What, Who},
    program::{Proc, join},
    world::{Kernel, lock},
};
use bashkit::{DirEntry, FileSystem, FileSystemExt, FileType, Metadata, Result, async_trait};
use bytes::Bytes;
use sandbox_core::{FileInfo, FileKind};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(super) struct Files {
    kernel: Arc<Kernel>,
    files: Arc<Mutex<Fs>>,
    who: Who,
    cwd: String,
}

impl Files {
    pub(super) fn new(p: &Proc) -> Self {
        Self {
            kernel: Arc::clone(p.kernel()),
            files: Arc::clone(p.files()),
            who: p.identity().who(),
            cwd: p.cwd().to_string(),
        }
    }

    fn with<R>(
        &self,
        path: &Path,
        work: impl FnOnce(&mut Fs, &str, Who, i64) -> std::result::Result<R, FsError>,
    ) -> Result<R> {
        let text = path.to_str().ok_or_else(|| io::Error::other("a path is not UTF-8"))?;
        let (path, now) = (join(&self.cwd, text), self.kernel.seconds());
        let done = work(&mut lock(&self.files), &path, self.who, now);
        // The shell says the path itself.
        done.map_err(|error| {
            let kind = io::Error::from(error.clone()).kind();
            io::Error::new(kind, error.what.words()).into()
        })
    }
}

/// A file's directory has to be there.
fn above(fs: &Fs, path: &str, who: Who) -> std::result::Result<(), FsError> {
    let above = path.trim_end_matches('/').rsplit_once('/').map_or("/", |(above, _)| above);
    let above = if above.is_empty() { "/" } else { above };
    fs.stat(above, true, who).map(drop).map_err(|error| error.what.at(path))
}

#[async_trait]
impl FileSystemExt for Files {
    async fn mkfifo(&self, path: &Path, mode: u32) -> Result<()> {
        self.with(path, |fs, path, who, now| fs.make(path, Kind::Fifo, mode, who, now))
    }

    fn backend_kind(&self) -> &'static str {
        "sandbox-fake"
    }
}

#[async_trait]
impl FileSystem for Files {
    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        self.with(path, |fs, path, who, _| match fs.open(path, who)? {
            Opened::File(content) => Ok(content.whole().to_vec()),
            Opened::Device(Device::Null) => Ok(Vec::new()),
            // It has no end.
            Opened::Device(Device::Zero) => Err(What::NotAFile.at(path)),
        })
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        let content = Bytes::copy_from_slice(content);
        self.with(path, |fs, path, who, now| {
            above(fs, path, who)?;
            fs.write(path, content.into(), None, who, now)
        })
    }

    async fn append_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        let content = Bytes::copy_from_slice(content);
        self.with(path, |fs, path, who, now| {
            above(fs, path, who)?;
            fs.append(path, content, who, now)
        })
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        self.with(path, |fs, path, who, now| {
            if recursive {
                return fs.make_dirs(path, who, now);
            }
            above(fs, path, who)?;
            match fs.stat(path, false, who) {
                Ok(_) => Err(What::Exists.at(path)),
                Err(_) => fs.make_dirs(path, who, now),
            }
        })
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        self.with(path, |fs, path, who, now| {
            let info = fs.stat(path, false, who)?;
            if info.kind == FileKind::Directory && !recursive && !fs.list(path, who)?.is_empty() {
                return Err(What::NotEmpty.at(path));
            }
            fs.remove(path, info.kind == FileKind::Directory, who, now)
        })
    }

    // A layer of the shell follows links; beneath it, this does not.
    async fn stat(&self, path: &Path) -> Result<Metadata> {
        self.with(path, |fs, path, who, _| fs.stat(path, false, who).map(|info| metadata(&info)))
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.with(path, |fs, path, who, _| {
            let all = fs.list(path, who)?;
            Ok(all.into_iter().map(|info| DirEntry { metadata: metadata(&info), name: info.name }).collect())
        })
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.with(path, |fs, path, who, _| fs.stat(path, false, who)).is_ok())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let to = to.to_str().ok_or_else(|| io::Error::other("a path is not UTF-8"))?;
        let to = join(&self.cwd, to);
        self.with(from, |fs, from, who, now| fs.rename(from, &to, who, now))
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let to = to.to_str().ok_or_else(|| io::Error::other("a path is not UTF-8"))?;
        let to = join(&self.cwd, to);
        self.with(from, |fs, from, who, now| {
            let mode = fs.stat(from, true, who)?.meta.mode;
            let content = fs.read(from, who)?;
            above(fs, &to, who)?;
            let new = fs.stat(&to, true, who).is_err();
            fs.write(&to, content, new.then_some(mode), who, now)
        })
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        let target = target.to_str().ok_or_else(|| io::Error::other("a path is not UTF-8"))?.to_string();
        self.with(link, |fs, path, who, now| fs.make(path, Kind::Link(target), 0o777, who, now))
    }

    async fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let info = self.with(path, |fs, path, who, _| fs.stat(path, false, who))?;
        info.target.map(PathBuf::from).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput).into())
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        self.with(path, |fs, path, who, _| fs.set_meta(path, Some(mode), None, None, who))
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        let time = crate::files::seconds(time);
        self.with(path, |fs, path, who, _| fs.set_meta(path, None, None, Some(time), who))
    }
}

fn metadata(info: &FileInfo) -> Metadata {
    let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(info.meta.mtime).unwrap_or(0));
    Metadata {
        file_type: match info.kind {
            FileKind::Directory => FileType::Directory,
            FileKind::Symlink => FileType::Symlink,
            FileKind::File => FileType::File,
            // Devices read like files, a FIFO cannot be read at all.
            _ => FileType::File,
        },
        size: info.size,
        mode: info.meta.mode,
        modified,
        created: modified,
    }
}
