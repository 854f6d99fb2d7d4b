//! Directories, files and links, and how a path finds them.

use super::{
    content::Content,
    error::{FsError, What},
};
use std::collections::BTreeMap;

pub(crate) type Ino = usize;
pub(crate) const ROOT: Ino = 0;

/// As on Linux.
const MOST_LINKS: usize = 40;
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4096;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Who {
    pub(crate) const ROOT: Self = Self { uid: 0, gid: 0 };
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970.
    pub(crate) mtime: i64,
    /// In how many directories it is.
    pub(crate) names: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    File(Content),
    Directory(BTreeMap<String, Ino>),
    Link(String),
    Fifo,
    Device(Device),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Null,
    Zero,
}

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;

impl Node {
    pub(crate) fn new(kind: Kind, mode: u32, who: Who, mtime: i64) -> Self {
        Self { kind, mode, uid: who.uid, gid: who.gid, mtime, names: 1 }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    pub(crate) fn is_link(&self) -> bool {
        matches!(self.kind, Kind::Link(_))
    }

    pub(crate) fn allows(&self, who: Who, bits: u32) -> bool {
        if who.uid == 0 {
            return bits & EXECUTE == 0 || self.is_directory() || self.mode & 0o111 != 0;
        }
        let shift = if who.uid == self.uid {
            6
        } else if who.gid == self.gid {
            3
        } else {
            0
        };
        self.mode >> shift & bits == bits
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.kind {
            Kind::File(content) => content.len(),
            Kind::Link(target) => target.len() as u64,
            _ => 0,
        }
    }
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Spot {
    /// The directories from the root to the one that the name is in.
    pub(crate) way: Vec<Ino>,
    pub(crate) name: String,
    /// What is there.
    pub(crate) node: Option<Ino>,
}

impl Spot {
    pub(crate) fn parent(&self) -> Ino {
        self.way.last().copied().unwrap_or(ROOT)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: Vec<Option<Node>>,
    free: Vec<Ino>,
    read_only: Vec<Ino>,
    /// Bytes of all files.
    pub(crate) used: u64,
}

impl Tree {
    pub(crate) fn new(mtime: i64) -> Self {
        let root = Node::new(Kind::Directory(BTreeMap::new()), 0o755, Who::ROOT, mtime);
        Self { nodes: vec![Some(root)], free: Vec::new(), read_only: Vec::new(), used: 0 }
    }

    pub(crate) fn is_there(&self, ino: Ino) -> bool {
        self.nodes.get(ino).is_some_and(Option::is_some)
    }

    pub(crate) fn node(&self, ino: Ino) -> &Node {
        self.nodes[ino].as_ref().expect("names lead to nodes that are there")
    }

    pub(crate) fn node_mut(&mut self, ino: Ino) -> &mut Node {
        self.nodes[ino].as_mut().expect("names lead to nodes that are there")
    }

    pub(crate) fn entries(&self, ino: Ino) -> Option<&BTreeMap<String, Ino>> {
        match &self.node(ino).kind {
            Kind::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub(crate) fn find(&self, path: &str, follow: bool, who: Who) -> Result<(Spot, Ino), FsError> {
        let spot = self.locate(path, follow, who)?;
        match spot.node {
            Some(ino) => Ok((spot, ino)),
            None => Err(What::NotFound.at(path)),
        }
    }

    /// Follows a path; its last part need not be there.
    pub(crate) fn locate(&self, path: &str, follow: bool, who: Who) -> Result<Spot, FsError> {
        if path.len() >= LONGEST_PATH {
            return Err(What::NameTooLong.at(path));
        }
        let mut todo: Vec<&str> = path.rsplit('/').collect();
        let mut way: Vec<(Ino, &str)> = Vec::new();
        let mut links = 0;
        let mut here = (ROOT, "");
        while let Some(part) = todo.pop() {
            if part.is_empty() || part == "." {
                continue;
            }
            if !self.node(here.0).is_directory() {
                return Err(What::NotADirectory.at(path));
            }
            if part == ".." {
                here = way.pop().unwrap_or((ROOT, ""));
                continue;
            }
            if part.len() > LONGEST_NAME {
                return Err(What::NameTooLong.at(path));
            }
            let directory = self.node(here.0);
            if !directory.allows(who, EXECUTE) {
                return Err(What::Denied.at(path));
            }
            let last = todo.iter().all(|rest| rest.is_empty() || *rest == ".");
            match self.entries(here.0).and_then(|entries| entries.get(part)).copied() {
                None if last => {
                    way.push(here);
                    return Ok(Spot { way: inos(&way), name: part.to_string(), node: None });
                }
                None => return Err(What::NotFound.at(path)),
                Some(ino) => match &self.node(ino).kind {
                    Kind::Link(target) if follow || !last => {
                        links += 1;
                        if links > MOST_LINKS {
                            return Err(What::TooManyLinks.at(path));
                        }
                        if target.starts_with('/') {
                            way.clear();
                            here = (ROOT, "");
                        }
                        todo.extend(target.rsplit('/'));
                    }
                    _ => way.push(std::mem::replace(&mut here, (ino, part))),
                },
            }
        }
        Ok(Spot { way: inos(&way), name: here.1.to_string(), node: Some(here.0) })
    }

    pub(crate) fn is_read_only(&self, spot: &Spot) -> bool {
        !self.read_only.is_empty()
            && spot.way.iter().chain(&spot.node).any(|directory| self.read_only.contains(directory))
    }

    pub(crate) fn set_read_only(&mut self, ino: Ino) {
        self.read_only.push(ino);
    }

    /// Puts a new node at a spot where nothing is.
    pub(crate) fn insert(&mut self, spot: &Spot, node: Node) -> Ino {
        let mtime = node.mtime;
        self.used += node.size();
        let ino = match self.free.pop() {
            Some(ino) => {
                self.nodes[ino] = Some(node);
                ino
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        };
        self.enter(spot.parent(), spot.name.clone(), ino, mtime);
        ino
    }

    /// Gives a node one more name.
    pub(crate) fn link(&mut self, spot: &Spot, ino: Ino, mtime: i64) {
        self.node_mut(ino).names += 1;
        self.enter(spot.parent(), spot.name.clone(), ino, mtime);
    }

    /// Takes a name away, and all that has no name left.
    pub(crate) fn unlink(&mut self, directory: Ino, name: &str, mtime: i64) {
        let parent = self.node_mut(directory);
        parent.mtime = mtime;
        if let Kind::Directory(entries) = &mut parent.kind {
            if let Some(ino) = entries.remove(name) {
                self.release(ino);
            }
        }
    }

    /// Moves a name; what is at the new one has been taken away.
    pub(crate) fn move_to(&mut self, from: &Spot, to: &Spot, mtime: i64) {
        let parent = self.node_mut(from.parent());
        parent.mtime = mtime;
        let Kind::Directory(entries) = &mut parent.kind else { return };
        if let Some(ino) = entries.remove(&from.name) {
            self.enter(to.parent(), to.name.clone(), ino, mtime);
        }
    }

    fn enter(&mut self, directory: Ino, name: String, ino: Ino, mtime: i64) {
        let parent = self.node_mut(directory);
        parent.mtime = mtime;
        if let Kind::Directory(entries) = &mut parent.kind {
            entries.insert(name, ino);
        }
    }

    fn release(&mut self, ino: Ino) {
        let mut doomed = vec![ino];
        while let Some(ino) = doomed.pop() {
            let node = self.node_mut(ino);
            node.names -= 1;
            if node.names > 0 {
                continue;
            }
            self.used -= self.node(ino).size();
            if let Some(Node { kind: Kind::Directory(entries), .. }) = self.nodes[ino].take() {
                doomed.extend(entries.into_values());
            }
            self.free.push(ino);
        }
    }
}

fn inos(way: &[(Ino, &str)]) -> Vec<Ino> {
    way.iter().map(|(ino, _)| *ino).collect()
}
