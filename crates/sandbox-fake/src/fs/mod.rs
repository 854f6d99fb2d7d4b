//! The file system of one sandbox: shared with its image until something is written.

mod content;
mod error;
mod pack;
mod tree;
mod watch;

pub(crate) use content::Content;
pub(crate) use error::{FsError, What};
pub(crate) use pack::{Packed, Unpack, pack, unpack};
pub(crate) use tree::{Device, Kind, Node, Tree, Who};
pub(crate) use watch::{End as WatchEnd, Queue as Watched, Watches};

use bytes::Bytes;
use sandbox_core::{ChangeKind, FileInfo, FileKind, Meta};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tree::{EXECUTE, Ino, READ, ROOT, Spot, WRITE};

type Result<T> = std::result::Result<T, FsError>;

#[derive(Debug, Clone)]
pub(crate) struct Fs {
    tree: Arc<Tree>,
    /// The most bytes that all files together may have.
    cap: u64,
    pub(crate) watches: Watches,
}

/// What reading a path gives.
#[derive(Debug)]
pub(crate) enum Opened {
    File(Content),
    Device(Device),
}

impl Fs {
    pub(crate) fn new(tree: Arc<Tree>, cap: u64) -> Self {
        Self { tree, cap, watches: Watches::default() }
    }

    /// Watches a directory from now on.
    pub(crate) fn watch(&mut self, path: &str, recursive: bool, who: Who) -> Result<Arc<Mutex<Watched>>> {
        let (_, ino) = self.tree.find(path, true, who)?;
        let node = self.tree.node(ino);
        if !node.is_directory() {
            return Err(What::NotADirectory.at(path));
        }
        if !node.allows(who, READ) {
            return Err(What::Denied.at(path));
        }
        Ok(self.watches.add(ino, path, recursive))
    }

    pub(crate) fn into_tree(self) -> Arc<Tree> {
        self.tree
    }

    pub(crate) fn free(&self) -> u64 {
        self.cap.saturating_sub(self.tree.used)
    }

    /// The bytes of a regular file.
    pub(crate) fn read(&self, path: &str, who: Who) -> Result<Content> {
        match self.open(path, who)? {
            Opened::File(content) => Ok(content),
            Opened::Device(_) => Err(What::NotAFile.at(path)),
        }
    }

    /// A file, or a device that programs can read.
    pub(crate) fn open(&self, path: &str, who: Who) -> Result<Opened> {
        let (_, ino) = self.tree.find(path, true, who)?;
        let node = self.tree.node(ino);
        let opened = match &node.kind {
            Kind::File(content) => Opened::File(content.clone()),
            Kind::Device(device) => Opened::Device(*device),
            Kind::Directory(_) => return Err(What::IsADirectory.at(path)),
            Kind::Link(_) | Kind::Fifo => return Err(What::NotAFile.at(path)),
        };
        if node.allows(who, READ) { Ok(opened) } else { Err(What::Denied.at(path)) }
    }

    /// Whether a program can be started from a path; its bytes.
    pub(crate) fn executable(&self, path: &str, who: Who) -> Result<Content> {
        let (_, ino) = self.tree.find(path, true, who)?;
        let node = self.tree.node(ino);
        match &node.kind {
            Kind::File(content) if node.allows(who, EXECUTE) => Ok(content.clone()),
            _ => Err(What::Denied.at(path)),
        }
    }

    /// Whether commands can start in a directory.
    pub(crate) fn enter(&self, path: &str, who: Who) -> Result<()> {
        let (_, ino) = self.tree.find(path, true, who)?;
        let node = self.tree.node(ino);
        if !node.is_directory() {
            return Err(What::NotADirectory.at(path));
        }
        if node.allows(who, EXECUTE) { Ok(()) } else { Err(What::Denied.at(path)) }
    }

    /// Whether a write of so many bytes could succeed now, so that a long one fails before it is sent.
    pub(crate) fn may_write(&self, path: &str, who: Who, bytes: u64) -> Result<()> {
        let old = match self.tree.locate(path, false, who) {
            Ok(Spot { node: Some(ino), .. }) if self.tree.node(ino).is_link() => 0,
            Ok(Spot { node: Some(ino), way, name }) => {
                let spot = Spot { way, name, node: Some(ino) };
                self.check_file(path, &spot, ino, who)?.unwrap_or(u64::MAX)
            }
            Ok(spot) => {
                self.check_new(path, &spot, who)?;
                0
            }
            // The directories above are not there yet.
            Err(FsError { what: What::NotFound, .. }) => 0,
            Err(error) => return Err(error),
        };
        self.check_space(path, bytes.saturating_sub(old))
    }

    /// Replaces a file, whole. Parents are made.
    pub(crate) fn write(&mut self, path: &str, content: Content, mode: Option<u32>, who: Who, now: i64) -> Result<()> {
        let spot = self.place(path, who, now)?;
        let Some(ino) = spot.node else {
            self.check_new(path, &spot, who)?;
            self.check_space(path, content.len())?;
            let empty = content.len() == 0;
            let node = Node::new(Kind::File(content), mode.unwrap_or(0o644) & 0o7777, who, now);
            self.tree_mut().insert(&spot, node);
            self.watches.tell(&self.tree, &spot, ChangeKind::Created);
            if !empty {
                self.watches.tell(&self.tree, &spot, ChangeKind::Modified);
            }
            return Ok(());
        };
        let old = self.check_file(path, &spot, ino, who)?;
        let Some(old) = old else { return Ok(()) };
        if content.len() > old {
            self.check_space(path, content.len() - old)?;
        }
        let tree = self.tree_mut();
        tree.used = tree.used - old + content.len();
        let node = tree.node_mut(ino);
        node.kind = Kind::File(content);
        node.mtime = now;
        if let Some(mode) = mode {
            node.mode = mode & 0o7777;
        }
        self.watches.tell(&self.tree, &spot, ChangeKind::Modified);
        Ok(())
    }

    /// The same, except that a link is replaced and its target left alone.
    pub(crate) fn replace(
        &mut self,
        path: &str,
        content: Content,
        mode: Option<u32>,
        who: Who,
        now: i64,
    ) -> Result<()> {
        let link = self.tree.find(path, false, who).ok().filter(|(_, ino)| self.tree.node(*ino).is_link());
        let Some((spot, ino)) = link else { return self.write(path, content, mode, who, now) };
        self.check_remove(path, &spot, ino, who)?;
        self.check_space(path, content.len())?;
        self.tree_mut().unlink(spot.parent(), &spot.name, now);
        self.watches.tell(&self.tree, &spot, ChangeKind::Removed);
        self.write(path, content, mode, who, now)
    }

    /// Adds bytes to the end of a file, which is made where it is not there; its directory is.
    pub(crate) fn append(&mut self, path: &str, bytes: Bytes, who: Who, now: i64) -> Result<()> {
        let spot = self.tree.locate(path, true, who)?;
        let Some(ino) = spot.node else { return self.write(path, bytes.into(), None, who, now) };
        if self.check_file(path, &spot, ino, who)?.is_none() {
            return Ok(());
        }
        self.check_space(path, bytes.len() as u64)?;
        let tree = self.tree_mut();
        tree.used += bytes.len() as u64;
        let node = tree.node_mut(ino);
        node.mtime = now;
        if let Kind::File(content) = &mut node.kind {
            content.push(bytes);
        }
        self.watches.tell(&self.tree, &spot, ChangeKind::Modified);
        Ok(())
    }

    pub(crate) fn stat(&self, path: &str, follow: bool, who: Who) -> Result<FileInfo> {
        let (spot, ino) = self.tree.find(path, follow, who)?;
        let name = path.split('/').rfind(|part| !part.is_empty() && *part != ".").unwrap_or("/");
        Ok(info(if name == ".." { &spot.name } else { name }, self.tree.node(ino)))
    }

    pub(crate) fn list(&self, path: &str, who: Who) -> Result<Vec<FileInfo>> {
        let (_, ino) = self.tree.find(path, true, who)?;
        let Some(entries) = self.tree.entries(ino) else { return Err(What::NotADirectory.at(path)) };
        if !self.tree.node(ino).allows(who, READ) {
            return Err(What::Denied.at(path));
        }
        Ok(entries.iter().map(|(name, ino)| info(name, self.tree.node(*ino))).collect())
    }

    /// Makes a directory and its parents; one that is there is fine.
    pub(crate) fn make_dirs(&mut self, path: &str, who: Who, now: i64) -> Result<()> {
        if self.make_dir(path, who, now)? {
            return Ok(());
        }
        let above = parent(path).ok_or_else(|| What::NotFound.at(path))?;
        self.make_dirs(above, who, now).map_err(|error| match error.what {
            What::Exists => What::NotADirectory.at(path),
            what => what.at(path),
        })?;
        // A link that leads nowhere may still be in the way.
        if self.make_dir(path, who, now)? { Ok(()) } else { Err(What::NotFound.at(path)) }
    }

    /// False where the directory above is not there.
    fn make_dir(&mut self, path: &str, who: Who, now: i64) -> Result<bool> {
        match self.tree.locate(path, true, who) {
            Ok(Spot { node: Some(ino), .. }) if self.tree.node(ino).is_directory() => Ok(true),
            Ok(Spot { node: Some(_), .. }) => Err(What::Exists.at(path)),
            Ok(spot) => {
                self.check_new(path, &spot, who)?;
                let node = Node::new(Kind::Directory(BTreeMap::new()), 0o755, who, now);
                self.tree_mut().insert(&spot, node);
                self.watches.tell(&self.tree, &spot, ChangeKind::Created);
                Ok(true)
            }
            Err(FsError { what: What::NotFound, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes one node where nothing is.
    pub(crate) fn make(&mut self, path: &str, kind: Kind, mode: u32, who: Who, now: i64) -> Result<()> {
        let spot = self.tree.locate(path, false, who)?;
        if spot.node.is_some() {
            return Err(What::Exists.at(path));
        }
        self.check_new(path, &spot, who)?;
        self.check_space(path, 0)?;
        self.tree_mut().insert(&spot, Node::new(kind, mode & 0o7777, who, now));
        self.watches.tell(&self.tree, &spot, ChangeKind::Created);
        Ok(())
    }

    pub(crate) fn link(&mut self, from: &str, path: &str, who: Who, now: i64) -> Result<()> {
        let (_, ino) = self.tree.find(from, false, who)?;
        if self.tree.node(ino).is_directory() {
            return Err(What::IsADirectory.at(from));
        }
        let spot = self.tree.locate(path, false, who)?;
        if spot.node.is_some() {
            return Err(What::Exists.at(path));
        }
        self.check_new(path, &spot, who)?;
        self.tree_mut().link(&spot, ino, now);
        self.watches.tell(&self.tree, &spot, ChangeKind::Created);
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &str, recursive: bool, who: Who, now: i64) -> Result<()> {
        let (spot, ino) = match self.tree.find(path, false, who) {
            Err(FsError { what: What::NotFound, .. }) if recursive => return Ok(()),
            found => found?,
        };
        if self.tree.node(ino).is_directory() && !recursive {
            return Err(What::IsADirectory.at(path));
        }
        if ino == ROOT {
            return Err(What::Denied.at(path));
        }
        self.check_remove(path, &spot, ino, who)?;
        if who.uid != 0 {
            self.check_below(path, ino, who)?;
        }
        self.tree_mut().unlink(spot.parent(), &spot.name, now);
        self.watches.tell(&self.tree, &spot, ChangeKind::Removed);
        self.watches.end_missing(&self.tree);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, who: Who, now: i64) -> Result<()> {
        let (source, ino) = self.tree.find(from, false, who)?;
        let target = self.tree.locate(to, false, who)?;
        if ino == ROOT || target.way.contains(&ino) {
            return Err(What::IntoItself.at(from));
        }
        self.check_remove(from, &source, ino, who)?;
        match target.node {
            Some(there) if there == ino => return Ok(()),
            Some(there) => {
                match (self.tree.node(ino).is_directory(), self.tree.entries(there)) {
                    (true, Some(entries)) if !entries.is_empty() => return Err(What::NotEmpty.at(to)),
                    (true, None) => return Err(What::NotADirectory.at(to)),
                    (false, Some(_)) => return Err(What::IsADirectory.at(to)),
                    _ => {}
                }
                self.check_remove(to, &target, there, who)?;
                self.tree_mut().unlink(target.parent(), &target.name, now);
            }
            None => self.check_new(to, &target, who)?,
        }
        self.watches.end_missing(&self.tree);
        self.tree_mut().move_to(&source, &target, now);
        self.watches.tell_rename(&self.tree, &source, &target);
        Ok(())
    }

    pub(crate) fn set_meta(
        &mut self,
        path: &str,
        mode: Option<u32>,
        owner: Option<(u32, u32)>,
        mtime: Option<i64>,
        who: Who,
    ) -> Result<()> {
        let (spot, ino) = self.tree.find(path, true, who)?;
        if self.tree.is_read_only(&spot) {
            return Err(What::ReadOnly.at(path));
        }
        let node = self.tree.node(ino);
        let gives_away = owner.is_some_and(|owner| owner != (node.uid, node.gid));
        if who.uid != 0 && (who.uid != node.uid || gives_away) {
            return Err(What::Denied.at(path));
        }
        let node = self.tree_mut().node_mut(ino);
        if let Some(mode) = mode {
            node.mode = mode & 0o7777;
        }
        if let Some((uid, gid)) = owner {
            (node.uid, node.gid) = (uid, gid);
        }
        node.mtime = mtime.unwrap_or(node.mtime);
        self.watches.tell(&self.tree, &spot, ChangeKind::Attributes);
        Ok(())
    }

    /// Lets nobody write below a directory.
    pub(crate) fn set_read_only(&mut self, path: &str) -> Result<()> {
        let (_, ino) = self.tree.find(path, true, Who::ROOT)?;
        self.tree_mut().set_read_only(ino);
        Ok(())
    }

    /// Where a file goes; the directories above it are made.
    fn place(&mut self, path: &str, who: Who, now: i64) -> Result<Spot> {
        match self.tree.locate(path, true, who) {
            Err(FsError { what: What::NotFound, .. }) => {
                let Some(above) = parent(path) else { return Err(What::NotFound.at(path)) };
                self.make_dirs(above, who, now).map_err(|error| match error.what {
                    What::Exists => What::NotADirectory.at(path),
                    what => what.at(path),
                })?;
                self.tree.locate(path, true, who)
            }
            spot => spot,
        }
    }

    fn check_new(&self, path: &str, spot: &Spot, who: Who) -> Result<()> {
        if self.tree.is_read_only(spot) {
            return Err(What::ReadOnly.at(path));
        }
        if self.tree.node(spot.parent()).allows(who, WRITE | EXECUTE) { Ok(()) } else { Err(What::Denied.at(path)) }
    }

    /// The length of the file that is to be written; `None` for a device that takes everything.
    fn check_file(&self, path: &str, spot: &Spot, ino: Ino, who: Who) -> Result<Option<u64>> {
        let node = self.tree.node(ino);
        let old = match &node.kind {
            Kind::File(old) => Some(old.len()),
            Kind::Device(_) => None,
            Kind::Directory(_) => return Err(What::IsADirectory.at(path)),
            Kind::Link(_) | Kind::Fifo => return Err(What::NotAFile.at(path)),
        };
        if old.is_some() && self.tree.is_read_only(spot) {
            return Err(What::ReadOnly.at(path));
        }
        if node.allows(who, WRITE) { Ok(old) } else { Err(What::Denied.at(path)) }
    }

    fn check_remove(&self, path: &str, spot: &Spot, ino: Ino, who: Who) -> Result<()> {
        if self.tree.is_read_only(spot) {
            return Err(What::ReadOnly.at(path));
        }
        let directory = self.tree.node(spot.parent());
        let sticky = directory.mode & 0o1000 != 0;
        let own = who.uid == 0 || who.uid == directory.uid || who.uid == self.tree.node(ino).uid;
        if directory.allows(who, WRITE | EXECUTE) && (own || !sticky) { Ok(()) } else { Err(What::Denied.at(path)) }
    }

    /// Whether all that is in a directory may be removed.
    fn check_below(&self, path: &str, ino: Ino, who: Who) -> Result<()> {
        let mut todo = vec![ino];
        while let Some(ino) = todo.pop() {
            let Some(entries) = self.tree.entries(ino) else { continue };
            if !entries.is_empty() && !self.tree.node(ino).allows(who, READ | WRITE | EXECUTE) {
                return Err(What::Denied.at(path));
            }
            todo.extend(entries.values());
        }
        Ok(())
    }

    fn check_space(&self, path: &str, more: u64) -> Result<()> {
        if more > self.free() { Err(What::Full.at(path)) } else { Ok(()) }
    }

    fn tree_mut(&mut self) -> &mut Tree {
        Arc::make_mut(&mut self.tree)
    }
}

fn parent(path: &str) -> Option<&str> {
    let path = path.trim_end_matches('/');
    match path.rfind('/') {
        Some(0) if path.len() > 1 => Some("/"),
        Some(0) | None => None,
        Some(at) => Some(&path[..at]),
    }
}

fn info(name: &str, node: &Node) -> FileInfo {
    let kind = match node.kind {
        Kind::File(_) => FileKind::File,
        Kind::Directory(_) => FileKind::Directory,
        Kind::Link(_) => FileKind::Symlink,
        Kind::Fifo | Kind::Device(_) => FileKind::Other,
    };
    let info = FileInfo::new(name, kind, node.size()).meta(Meta::new(node.mode, node.uid, node.gid, node.mtime));
    match &node.kind {
        Kind::Link(target) => info.target(target.clone()),
        _ => info,
    }
}
