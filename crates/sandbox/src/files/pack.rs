//! A directory of the host, as a tar stream.

use super::{
    TreeReport,
    options::Filter,
    stream::{Outlet, PIECE},
};
use sandbox_core::{Error, ErrorKind, Result};
use std::{
    fs::{self, File},
    io::{self, BufReader, Write},
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

/// What will be sent, known before anything is.
#[derive(Clone)]
pub(super) struct Plan {
    root: PathBuf,
    members: Vec<Member>,
    pub(super) report: TreeReport,
}

#[derive(Clone)]
struct Member {
    /// Below the root, with `/`.
    path: String,
    kind: Kind,
    mode: u32,
    mtime: u64,
}

#[derive(Clone)]
enum Kind {
    File,
    Directory,
    Link(PathBuf),
}

/// Walks a directory of the host: names, modes, links. Links that leave it are refused.
pub(super) fn plan(root: &Path, filter: &Filter) -> Result<Plan> {
    let there = fs::metadata(root).map_err(|e| host(root, e))?;
    if !there.is_dir() {
        let message = format!("`{}` on the host is not a directory", root.display());
        return Err(Error::new(ErrorKind::NotADirectory, message).with_hint("use `upload` for a single file"));
    }
    let mut plan = Plan { root: root.to_path_buf(), members: Vec::new(), report: TreeReport::default() };
    plan.walk(Path::new(""), filter)?;
    Ok(plan)
}

impl Plan {
    fn walk(&mut self, below: &Path, filter: &Filter) -> Result<()> {
        let dir = self.root.join(below);
        let entries = fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|e| host(&dir, e))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = below.join(entry.file_name());
            let name = path.to_str().ok_or_else(|| {
                Error::invalid(format!("`{}` on the host is not UTF-8", path.display()))
                    .with_hint("rename it, or exclude it")
            })?;
            let name = name.replace(std::path::MAIN_SEPARATOR, "/");
            if filter.excludes(&name) {
                continue;
            }
            let meta = fs::symlink_metadata(self.root.join(&path)).map_err(|e| host(&path, e))?;
            let (mode, mtime) = (mode(&meta), modified(&meta));
            if meta.is_dir() {
                if filter.takes_dir(&name) {
                    self.members.push(Member { path: name, kind: Kind::Directory, mode, mtime });
                }
                self.walk(&path, filter)?;
            } else if !filter.takes_file(&name) {
            } else if meta.is_symlink() {
                let target = fs::read_link(self.root.join(&path)).map_err(|e| host(&path, e))?;
                inside(below, &target)
                    .map_err(|e| e.with_hint(format!("exclude `{name}`, or copy what it points to")))?;
                self.report.files += 1;
                self.members.push(Member { path: name, kind: Kind::Link(target), mode, mtime });
            } else if meta.is_file() {
                self.report.files += 1;
                self.report.bytes += meta.len();
                self.members.push(Member { path: name, kind: Kind::File, mode, mtime });
            } else {
                self.report.skipped.push(name);
            }
        }
        Ok(())
    }

    /// On a thread of its own.
    pub(super) fn write(&self, out: &mut Outlet, owner: (u32, u32)) -> io::Result<()> {
        let mut builder = tar::Builder::new(&mut *out);
        for member in &self.members {
            self.append(&mut builder, member, owner).map_err(|e| named(&self.root.join(&member.path), e))?;
        }
        builder.finish()?;
        drop(builder);
        out.flush()
    }

    fn append(&self, builder: &mut tar::Builder<&mut Outlet>, member: &Member, owner: (u32, u32)) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_mode(member.mode);
        header.set_mtime(member.mtime);
        header.set_uid(owner.0.into());
        header.set_gid(owner.1.into());
        header.set_size(0);
        match &member.kind {
            Kind::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, format!("{}/", member.path), io::empty())
            }
            Kind::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                builder.append_link(&mut header, &member.path, target)
            }
            Kind::File => {
                let file = File::open(self.root.join(&member.path))?;
                let size = file.metadata()?.len();
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(size);
                // A file that grows meanwhile is sent as long as it was; one that shrinks fails the transfer.
                let file = BufReader::with_capacity(PIECE, file);
                builder.append_data(&mut header, &member.path, Steady { inner: file, left: size })
            }
        }
    }
}

/// Exactly as many bytes as were promised.
struct Steady<R> {
    inner: R,
    left: u64,
}

impl<R: io::Read> io::Read for Steady<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let n = self.inner.read(&mut into[..most])?;
        if n == 0 {
            return Err(io::Error::other("the file became shorter while it was read"));
        }
        self.left -= n as u64;
        Ok(n)
    }
}

/// Whether a link in directory `below` of a tree stays in the tree, as far as its text says.
pub(super) fn inside(below: &Path, target: &Path) -> Result<()> {
    let mut depth = below.components().count();
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => {
                let message =
                    format!("a link in `{}` leads out of the tree, to `{}`", below.display(), target.display());
                return Err(Error::invalid(message));
            }
        }
    }
    Ok(())
}

/// An error of the host's file system, told apart from the sandbox's.
pub(super) fn host(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::PathNotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::NotADirectory => ErrorKind::NotADirectory,
        io::ErrorKind::IsADirectory => ErrorKind::IsADirectory,
        io::ErrorKind::StorageFull => ErrorKind::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("`{}` on the host: {error}", path.display())).with_source(error).applied(false)
}

fn named(path: &Path, error: io::Error) -> io::Error {
    // A reader that is gone has its own error.
    if error.kind() == io::ErrorKind::BrokenPipe { error } else { io::Error::other(host(path, error)) }
}

#[cfg(unix)]
fn mode(meta: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777
}

#[cfg(not(unix))]
fn mode(meta: &fs::Metadata) -> u32 {
    if meta.is_dir() { 0o755 } else { 0o644 }
}

fn modified(meta: &fs::Metadata) -> u64 {
    meta.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0, |t| t.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside_by_their_text() {
        for (below, target, fine) in [
            ("", "a", true),
            ("a", "../b", true),
            ("a/b", "../../c", true),
            ("a", "../../b", false),
            ("", "/etc/passwd", false),
            ("", "a/../../b", false),
        ] {
            assert_eq!(inside(Path::new(below), Path::new(target)).is_ok(), fine, "{below} {target}");
        }
    }
}
