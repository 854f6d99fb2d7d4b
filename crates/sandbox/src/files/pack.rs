//! A directory of the host, as a tar stream.

use super::{
    header::{self, Entry},
    host::{self, Identity, Source},
    options::Choice,
    stream::PIECE,
};
use bytes::{Bytes, BytesMut};
use sandbox_core::{Error, ErrorKind, Result};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};
use tar::EntryType;

/// What will be sent, known before anything is.
pub(super) struct Plan {
    root: PathBuf,
    members: Vec<Member>,
    pub(super) files: u64,
    pub(super) skipped: Vec<String>,
    /// Directories that have not been looked into.
    todo: Vec<PathBuf>,
}

struct Member {
    path: PathBuf,
    kind: Kind,
    mode: u32,
    mtime: u64,
}

enum Kind {
    File(Identity),
    Directory,
    Link(PathBuf),
}

impl Plan {
    /// Of a directory of the host.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let there = fs::metadata(root).map_err(|e| host::failed(root, e))?;
        if !there.is_dir() {
            return Err(host::not_a_directory(root).with_hint("use `upload` for a single file"));
        }
        let todo = vec![PathBuf::new()];
        Ok(Self { root: root.to_path_buf(), members: Vec::new(), files: 0, skipped: Vec::new(), todo })
    }

    /// Looks into the next directory: names, modes, links. Links that leave the tree are refused. Says whether there is more.
    pub(super) fn look(&mut self, filter: &impl Choice) -> Result<bool> {
        let Some(below) = self.todo.pop() else { return Ok(false) };
        let dir = self.root.join(&below);
        let entries = fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|e| host::failed(&dir, e))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let first = self.todo.len();
        for entry in entries {
            let (path, whole) = (below.join(entry.file_name()), entry.path());
            let kind = entry.file_type().map_err(|e| host::failed(&whole, e))?;
            if filter.excludes(&path, kind.is_dir()) {
                continue;
            }
            if path.to_str().is_none() {
                return Err(Error::invalid(format!("the name `{}` on the host is not UTF-8", path.display()))
                    .with_hint("rename it, or exclude it: `?` and `*` match what is no text too"));
            }
            self.add(&below, path, &whole, filter)?;
        }
        self.todo[first..].reverse();
        Ok(true)
    }

    fn add(&mut self, below: &Path, path: PathBuf, whole: &Path, filter: &impl Choice) -> Result<()> {
        let there = fs::symlink_metadata(whole).map_err(|e| host::failed(whole, e))?;
        let taken = filter.takes(&path, there.is_dir());
        if there.is_dir() {
            self.todo.push(path.clone());
        }
        if !taken {
            return Ok(());
        }
        let kind = if there.is_dir() {
            Kind::Directory
        } else if there.is_symlink() {
            let target = fs::read_link(whole).map_err(|e| host::failed(whole, e))?;
            let hint = || format!("exclude `{}`, or copy what it points to", path.display());
            inside(below, &target).map_err(|e| e.with_hint(hint()))?;
            self.files += 1;
            Kind::Link(target)
        } else if there.is_file() {
            self.files += 1;
            Kind::File(host::identity(&there))
        } else {
            self.skipped.push(name(&path));
            return Ok(());
        };
        self.members.push(Member { path, kind, mode: host::permissions(&there), mtime: modified(&there) });
        Ok(())
    }
}

/// Writes a plan as a stream, a piece at a time.
pub(super) struct Packer {
    plan: Arc<Plan>,
    owner: (u32, u32),
    times: bool,
    next: usize,
    file: Option<Source>,
    ended: bool,
    /// Bytes of files so far.
    sent: Arc<AtomicU64>,
}

impl Packer {
    pub(super) fn new(plan: Arc<Plan>, owner: (u32, u32), sent: Arc<AtomicU64>) -> Self {
        Self { plan, owner, times: true, next: 0, file: None, ended: false, sent }
    }

    /// With all times zero, so that equal trees are equal bytes.
    pub(super) fn timeless(mut self) -> Self {
        self.times = false;
        self
    }

    /// Reads from the host as much as a piece holds; `None` is the end. When it fails, others may have been sent.
    pub(super) fn piece(&mut self) -> Result<Option<Bytes>> {
        self.filled().map_err(|error| error.applied(true))
    }

    fn filled(&mut self) -> Result<Option<Bytes>> {
        let mut out = BytesMut::with_capacity(PIECE + (8 << 10));
        while out.len() < PIECE && !self.ended {
            if let Some(file) = &mut self.file {
                if !file.read(&mut out)? {
                    header::pad(file.len, &mut out);
                    self.sent.fetch_add(file.len, Ordering::Relaxed);
                    self.file = None;
                }
            } else {
                self.member(&mut out)?;
            }
        }
        Ok((!out.is_empty()).then(|| out.freeze()))
    }

    fn member(&mut self, out: &mut BytesMut) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let Some(member) = plan.members.get(self.next) else {
            self.ended = true;
            header::end(out);
            return Ok(());
        };
        self.next += 1;
        let mut name = name(&member.path);
        let (mut link, mut size) = (Vec::new(), 0);
        let kind = match &member.kind {
            Kind::Directory => {
                name.push('/');
                EntryType::Directory
            }
            Kind::Link(target) => {
                link = target.as_os_str().as_encoded_bytes().to_vec();
                EntryType::Symlink
            }
            Kind::File(identity) => {
                let source = Source::found(&plan.root.join(&member.path), *identity)?;
                size = source.len;
                self.file = Some(source);
                EntryType::Regular
            }
        };
        let (mode, owner) = (member.mode, self.owner);
        let mtime = if self.times { member.mtime } else { 0 };
        Entry { kind, name: name.as_bytes(), link: &link, size, mode, mtime, owner }.put(out);
        Ok(())
    }
}

/// Whether a link in directory `below` of a tree stays in the tree, whatever else is in it. The way up is through directories
/// and is what it says; once a name has been passed, which may be a link itself, there is no going up any more.
pub(super) fn inside(below: &Path, target: &Path) -> Result<()> {
    let mut depth = Some(below.components().count());
    for part in target.components() {
        depth = match (part, depth) {
            (Component::CurDir, depth) => depth,
            (Component::Normal(_), _) => None,
            (Component::ParentDir, Some(up)) if up > 0 => Some(up - 1),
            _ => {
                let (below, target) = (below.display(), target.display());
                return Err(Error::invalid(format!("a link in `{below}` may lead out of the tree, to `{target}`")));
            }
        };
    }
    if target.as_os_str().is_empty() {
        return Err(Error::new(ErrorKind::Protocol, format!("a link in `{}` leads nowhere", below.display())));
    }
    Ok(())
}

/// With `/`, as tars have it.
fn name(path: &Path) -> String {
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

fn modified(there: &fs::Metadata) -> u64 {
    there.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0, |t| t.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside_whatever_their_parts_are() {
        for (below, target, fine) in [
            ("", "a", true),
            ("", "a/b/c", true),
            ("", "./a", true),
            ("a", "../b", true),
            ("a", "./../b", true),
            ("a/b", "../../c", true),
            ("a/b", "../..", true),
            ("a", "../../b", false),
            ("", "/etc/passwd", false),
            ("", "a/../../b", false),
            // `a` may be a link that leads up.
            ("", "a/..", false),
            ("x", "a/../b", false),
            ("x", "../a/../../b", false),
            ("", "", false),
        ] {
            assert_eq!(inside(Path::new(below), Path::new(target)).is_ok(), fine, "{below} {target}");
        }
    }
}
