//! A tar stream from a sandbox, onto the host. Nothing in it is trusted: no member and no link leaves the target.

use super::{
    TreeReport,
    options::Filter,
    pack::{host, inside},
    stream::{Inlet, from_io},
};
use sandbox_core::{Error, ErrorKind, Result};
use std::{
    fs::{self, File},
    io,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

/// On a thread of its own: unpacks everything below the tree's first member into `target`.
pub(super) fn unpack(inlet: Inlet, target: &Path, filter: &Filter) -> Result<TreeReport> {
    let mut archive = tar::Archive::new(inlet);
    let mut report = TreeReport::default();
    // Directories get their modes last, or nothing could be made in one that is read-only.
    let mut modes = Vec::new();
    let mut seen = false;
    for entry in archive.entries().map_err(from_io)? {
        let mut entry = entry.map_err(from_io)?;
        let kind = entry.header().entry_type();
        let path = below_root(&entry.path_bytes())?;
        let Some(path) = path else {
            if !kind.is_dir() {
                let message = "what was to be downloaded is not a directory";
                return Err(Error::new(ErrorKind::NotADirectory, message).with_hint("use `download` for a single file"));
            }
            seen = true;
            fs::create_dir_all(target).map_err(|e| host(target, e))?;
            continue;
        };
        seen = true;
        let name = path.to_string_lossy().into_owned();
        let whole = target.join(&path);
        let mode = entry.header().mode().map_or(0o644, |mode| mode & 0o777);
        match kind {
            tar::EntryType::Directory if filter.takes_dir(&name) => {
                directory(target, &path)?;
                modes.push((whole, mode));
            }
            tar::EntryType::Directory => {}
            _ if !filter.takes_file(&name) => {}
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                directory(target, parent(&path))?;
                let mtime = entry.header().mtime().ok();
                let size = entry.size();
                report.bytes += file(&mut Whole { inner: &mut entry, left: size }, &whole, mode, mtime)?;
                report.files += 1;
            }
            tar::EntryType::Symlink => {
                let link = entry.link_name().map_err(from_io)?.map(|link| link.into_owned()).unwrap_or_default();
                let dir = parent(&path);
                inside(dir, &link).map_err(|e| e.with_hint(format!("exclude `{name}`")))?;
                directory(target, dir)?;
                symlink(&link, &whole)?;
                report.files += 1;
            }
            tar::EntryType::Link => {
                let link = entry.link_name_bytes().unwrap_or_default().into_owned();
                let Some(from) = below_root(&link)? else { return Err(leaves(&name)) };
                directory(target, parent(&path))?;
                directory(target, parent(&from))?;
                report.bytes += copy(&target.join(&from), &whole)?;
                report.files += 1;
            }
            _ => report.skipped.push(name),
        }
    }
    if !seen {
        return Err(Error::new(ErrorKind::Protocol, "the tree is empty"));
    }
    for (path, mode) in modes.into_iter().rev() {
        set_mode(&path, mode).map_err(|e| host(&path, e))?;
    }
    Ok(report)
}

/// A member that is cut short is an error, not a shorter file.
struct Whole<R> {
    inner: R,
    left: u64,
}

impl<R: io::Read> io::Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        if n == 0 && self.left > 0 && !into.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends inside a file"));
        }
        self.left = self.left.saturating_sub(n as u64);
        Ok(n)
    }
}

/// A member's path without the tree's own name; `None` is the tree itself.
fn below_root(path: &[u8]) -> Result<Option<PathBuf>> {
    let text = std::str::from_utf8(path).map_err(|_| {
        let shown = String::from_utf8_lossy(path).into_owned();
        Error::invalid(format!("the name `{shown}` in the sandbox is not UTF-8"))
            .with_hint("rename it there, or exclude it")
    })?;
    let mut parts = Vec::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(leaves(text)),
        }
    }
    let below: PathBuf = parts.into_iter().skip(1).collect();
    Ok((!below.as_os_str().is_empty()).then_some(below))
}

/// The directory of a member, below the target.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

fn leaves(name: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("member `{name}` of the tree would leave the target directory"))
}

/// Makes a directory below the target, where no part of the way is a link.
fn directory(target: &Path, below: &Path) -> Result<()> {
    let mut path = target.to_path_buf();
    fs::create_dir_all(&path).map_err(|e| host(&path, e))?;
    for part in below.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => {
                let message = format!("`{}` on the host is in the way of a directory", path.display());
                return Err(Error::new(ErrorKind::AlreadyExists, message).with_hint("download into an empty directory"));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(&path).map_err(|e| host(&path, e))?,
            Err(e) => return Err(host(&path, e)),
        }
    }
    Ok(())
}

/// Writes a file whole or not at all.
pub(super) fn file(content: &mut impl io::Read, path: &Path, mode: u32, mtime: Option<u64>) -> Result<u64> {
    refuse_directory(path)?;
    let temporary = temporary(path);
    let written = File::create_new(&temporary).map_err(|e| host(path, e)).and_then(|mut file| {
        let bytes = copy_all(content, &mut file, path)?;
        set_mode(&temporary, mode).map_err(|e| host(path, e))?;
        if let Some(at) = mtime.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at))) {
            file.set_modified(at).map_err(|e| host(path, e))?;
        }
        fs::rename(&temporary, path).map_err(|e| host(path, e))?;
        Ok(bytes)
    });
    written.inspect_err(|_| _ = fs::remove_file(&temporary))
}

/// Errors of the source are the sandbox's, those of the file the host's.
fn copy_all(content: &mut impl io::Read, file: &mut File, path: &Path) -> Result<u64> {
    let mut buffer = vec![0; super::stream::PIECE];
    let mut bytes = 0;
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => {
                io::Write::write_all(file, &buffer[..n]).map_err(|e| host(path, e))?;
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(from_io(e)),
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<u64> {
    let there = fs::symlink_metadata(from).map_err(|e| host(from, e))?;
    if !there.is_file() {
        return Err(leaves(&from.to_string_lossy()));
    }
    let mut source = File::open(from).map_err(|e| host(from, e))?;
    file(&mut source, to, mode_of(&there), None)
}

fn refuse_directory(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => {
            Err(Error::new(ErrorKind::IsADirectory, format!("`{}` on the host is a directory", path.display())))
        }
        _ => Ok(()),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let name = format!(".sb-{:016x}", std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), path));
    path.with_file_name(name)
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> Result<()> {
    refuse_directory(path)?;
    let temporary = temporary(path);
    std::os::unix::fs::symlink(target, &temporary)
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| _ = fs::remove_file(&temporary))
        .map_err(|e| host(path, e))
}

#[cfg(not(unix))]
fn symlink(_: &Path, path: &Path) -> Result<()> {
    Err(Error::unsupported(format!("`{}` is a link, which this host does not make", path.display()))
        .with_hint("exclude it"))
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn mode_of(meta: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
}

#[cfg(not(unix))]
fn mode_of(_: &fs::Metadata) -> u32 {
    0o644
}
