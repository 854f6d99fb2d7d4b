//! A file of the host that is written.

use super::{failed, permissions, regular};
use crate::files::stream::Pace;
use bytes::Bytes;
use sandbox_core::{Error, ErrorKind, Result};
use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// A file that takes its place once it is whole. Dropped before, it leaves nothing.
pub(in crate::files) struct Landing {
    path: PathBuf,
    mode: Option<u32>,
    mtime: Option<u64>,
    part: Option<Part>,
}

impl Landing {
    /// Without a mode, it has what new files of this process have. `mtime` is in seconds since the epoch.
    pub(in crate::files) fn new(path: PathBuf, mode: Option<u32>, mtime: Option<u64>) -> Self {
        Self { path, mode, mtime, part: None }
    }

    /// Writes the next piece; with the last one it takes its place. What is there and no file is refused, a link is replaced.
    pub(in crate::files) async fn put(mut self, pace: &Pace, piece: Bytes, last: bool) -> Result<Self> {
        pace.host(move || self.written(&piece, last).map(|()| self)).await
    }

    fn written(&mut self, piece: &[u8], last: bool) -> Result<()> {
        let path = &self.path;
        let mut part = match self.part.take() {
            Some(part) => part,
            None => {
                replaceable(path)?;
                Part::new(path, self.mode.is_some()).map_err(|e| failed(path, e))?
            }
        };
        part.file.write_all(piece).map_err(|e| failed(path, e))?;
        if !last {
            self.part = Some(part);
            return Ok(());
        }
        if let Some(at) = self.mtime.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at))) {
            part.file.set_modified(at).map_err(|e| failed(path, e))?;
        }
        // By its handle, and last: a file that may not be written to is still being written.
        if let Some(mode) = self.mode {
            mode_of(&part.file, mode).map_err(|e| failed(path, e))?;
        }
        part.settle(path).map_err(|e| failed(path, e))
    }
}

/// A file in the making.
struct Part {
    file: File,
    path: Option<PathBuf>,
}

impl Part {
    /// One that is to have a mode is at first its user's alone.
    fn new(beside: &Path, private: bool) -> io::Result<Self> {
        let path = temporary(beside);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if private { 0o600 } else { 0o666 });
        #[cfg(not(unix))]
        let _ = private;
        Ok(Self { file: options.open(&path)?, path: Some(path) })
    }

    fn settle(mut self, path: &Path) -> io::Result<()> {
        if let Some(own) = &self.path {
            fs::rename(own, path)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = fs::remove_file(path);
        }
    }
}

/// What a single file would replace: its mode, or nothing. A link is replaced, unless it leads to what is no regular file.
pub(in crate::files) fn there(path: &Path) -> Result<Option<u32>> {
    let own = match fs::symlink_metadata(path) {
        Ok(own) => own,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
            return fs::metadata(dir).map(|_| None).map_err(|e| failed(path, e));
        }
        Err(e) => return Err(failed(path, e)),
    };
    if !own.is_symlink() {
        return regular(path, &own).map(|()| Some(permissions(&own) & 0o777));
    }
    match fs::metadata(path) {
        Ok(behind) => regular(path, &behind).map(|()| None),
        Err(_) => Ok(None), // It leads nowhere.
    }
}

/// Makes a directory and its parents.
pub(in crate::files) fn create_all(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| failed(path, e))
}

/// Makes a directory below another, where no part of the way is a link.
pub(in crate::files) fn directory(target: &Path, below: &Path) -> Result<()> {
    let mut path = target.to_path_buf();
    for part in below.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => {
                let message = format!("`{}` on the host is in the way of a directory", path.display());
                return Err(Error::new(ErrorKind::AlreadyExists, message).with_hint("download into an empty directory"));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(&path).map_err(|e| failed(&path, e))?,
            Err(e) => return Err(failed(&path, e)),
        }
    }
    Ok(())
}

/// Makes a link, in place of a file or link that is there.
#[cfg(unix)]
pub(in crate::files) fn symlink(target: &Path, path: &Path) -> Result<()> {
    replaceable(path)?;
    let temporary = temporary(path);
    std::os::unix::fs::symlink(target, &temporary)
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| _ = fs::remove_file(&temporary))
        .map_err(|e| failed(path, e))
}

#[cfg(not(unix))]
pub(in crate::files) fn symlink(_: &Path, path: &Path) -> Result<()> {
    Err(Error::unsupported(format!("`{}` is a link, which this host does not make", path.display()))
        .with_hint("exclude it"))
}

#[cfg(unix)]
pub(in crate::files) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let set = fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    set.map_err(|e| failed(path, e))
}

#[cfg(not(unix))]
pub(in crate::files) fn set_mode(_: &Path, _: u32) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn mode_of(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn mode_of(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Files and links are, and what is not there.
fn replaceable(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Ok(()),
        Ok(there) => regular(path, &there),
        Err(_) => Ok(()), // Whatever it is, to make a file there will tell.
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_file_name(format!(".sb-{:016x}", RandomState::new().hash_one(path)))
}
