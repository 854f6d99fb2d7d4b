//! Trees as tar streams.

use super::{
    Content, Fs, FsError, What,
    tree::{Ino, Kind, Node, Tree, Who},
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::Arc,
};

const BLOCK: u64 = 512;

/// Unpacks a stream below a directory that is there. Owners are those of the entries where root asks, else whoever asks.
pub(crate) fn unpack(fs: &mut Fs, path: &str, tar: &Content, who: Who, now: i64) -> Result<(), Unpack> {
    fs.enter(path, who)?;
    // Modes and times of directories come last, or nothing could be written into one that is read-only.
    let mut directories = Vec::new();
    let mut archive = tar::Archive::new(Pieces::new(tar.clone()));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = text(&entry.path_bytes())?;
        let name = name.trim_start_matches("./").trim_end_matches('/');
        let at = if name.is_empty() || name == "." {
            path.to_string()
        } else {
            format!("{}/{name}", path.trim_end_matches('/'))
        };
        let header = entry.header();
        let mode = header.mode()? & 0o7777;
        // Whoever leaves out who and when means nobody special, and now.
        let mtime = header.mtime().ok().and_then(|mtime| i64::try_from(mtime).ok()).unwrap_or(now);
        let id = |id: io::Result<u64>| id.ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let owner = if who.uid == 0 { Who { uid: id(header.uid()), gid: id(header.gid()) } } else { who };
        let kind = header.entry_type();
        match kind {
            tar::EntryType::Directory => {
                fs.make_dirs(&at, who, now)?;
                directories.push((at, mode, owner, mtime));
                continue;
            }
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                let (start, size) = (entry.raw_file_position(), entry.size());
                io::copy(&mut entry, &mut io::sink())?;
                replace(fs, &at, who, now)?;
                fs.write(&at, tar.range(start, Some(size)), Some(mode), who, now)?;
            }
            tar::EntryType::Symlink => {
                let target = entry.link_name_bytes().ok_or_else(|| io::Error::other("a link without a target"))?;
                let target = text(&target)?;
                replace(fs, &at, who, now)?;
                above(fs, &at, who, now)?;
                fs.make(&at, Kind::Link(target), 0o777, owner, now)?;
                continue;
            }
            tar::EntryType::Link => {
                let target = entry.link_name_bytes().ok_or_else(|| io::Error::other("a link without a target"))?;
                let target = format!("{}/{}", path.trim_end_matches('/'), text(&target)?);
                replace(fs, &at, who, now)?;
                above(fs, &at, who, now)?;
                fs.link(&target, &at, who, now)?;
                continue;
            }
            tar::EntryType::Fifo => {
                replace(fs, &at, who, now)?;
                above(fs, &at, who, now)?;
                fs.make(&at, Kind::Fifo, mode, owner, now)?;
            }
            other => return Err(io::Error::other(format!("entry `{at}` of type {other:?} cannot be unpacked")).into()),
        }
        fs.set_meta(&at, Some(mode), Some((owner.uid, owner.gid)), Some(mtime), who)?;
    }
    for (at, mode, owner, mtime) in directories.into_iter().rev() {
        // One that belongs to somebody else is used as it is.
        match fs.set_meta(&at, Some(mode), Some((owner.uid, owner.gid)), Some(mtime), who) {
            Err(FsError { what: What::Denied, .. }) => {}
            set => set?,
        }
    }
    Ok(())
}

/// Why a stream was not unpacked: the files, or the stream itself.
#[derive(Debug)]
pub(crate) enum Unpack {
    Files(FsError),
    Stream(io::Error),
}

impl From<FsError> for Unpack {
    fn from(error: FsError) -> Self {
        Self::Files(error)
    }
}

impl From<io::Error> for Unpack {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

/// Packs what is at a path as it is now. Files are put into the stream piece by piece as it is read.
pub(crate) fn pack(fs: &Fs, path: &str, who: Who) -> Result<Packed, FsError> {
    let tree = Arc::clone(&fs.tree);
    let (spot, ino) = tree.find(path, false, who)?;
    let name = if spot.name.is_empty() { ".".to_string() } else { spot.name };
    Ok(Packed { tree, who, path: path.to_string(), todo: vec![(name, ino)], pieces: VecDeque::new(), ended: false })
}

/// A tar stream in the making.
#[derive(Debug)]
pub(crate) struct Packed {
    tree: Arc<Tree>,
    who: Who,
    path: String,
    /// Backwards.
    todo: Vec<(String, Ino)>,
    pieces: VecDeque<Bytes>,
    ended: bool,
}

impl Packed {
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Unpack> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            let Some((name, ino)) = self.todo.pop() else {
                if std::mem::replace(&mut self.ended, true) {
                    return Ok(None);
                }
                return Ok(Some(Bytes::from_static(&[0; 2 * BLOCK as usize])));
            };
            self.add(&name, ino)?;
        }
    }

    fn add(&mut self, name: &str, ino: Ino) -> Result<(), Unpack> {
        let tree = Arc::clone(&self.tree);
        let node = tree.node(ino);
        let mut header = header(node);
        let mut builder = tar::Builder::new(Vec::new());
        match &node.kind {
            Kind::Link(target) => builder.append_link(&mut header, name, target)?,
            _ => builder.append_data(&mut header, name, io::empty())?,
        }
        // Taken out before the builder ends the stream.
        self.pieces.push_back(std::mem::take(builder.get_mut()).into());
        match &node.kind {
            Kind::Directory(entries) => {
                if !node.allows(self.who, super::READ | super::EXECUTE) {
                    return Err(What::Denied.at(&self.path).into());
                }
                self.todo.extend(entries.iter().rev().map(|(child, ino)| (format!("{name}/{child}"), *ino)));
            }
            Kind::File(content) => {
                if !node.allows(self.who, super::READ) {
                    return Err(What::Denied.at(&self.path).into());
                }
                let padding = content.len().next_multiple_of(BLOCK) - content.len();
                self.pieces.extend(content.clone().into_pieces());
                self.pieces.push_back(Bytes::from_static(&[0; BLOCK as usize]).slice(..padding as usize));
            }
            _ => {}
        }
        Ok(())
    }
}

fn header(node: &Node) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(node.mode);
    header.set_uid(node.uid.into());
    header.set_gid(node.gid.into());
    header.set_mtime(u64::try_from(node.mtime).unwrap_or(0));
    header.set_size(if let Kind::File(content) = &node.kind { content.len() } else { 0 });
    header.set_entry_type(match &node.kind {
        Kind::Directory(_) => tar::EntryType::Directory,
        Kind::Link(_) => tar::EntryType::Symlink,
        Kind::Fifo => tar::EntryType::Fifo,
        Kind::Device(_) => tar::EntryType::Char,
        Kind::File(_) => tar::EntryType::Regular,
    });
    header
}

/// Makes room for an entry: what is there goes, except for a directory.
fn replace(fs: &mut Fs, at: &str, who: Who, now: i64) -> Result<(), FsError> {
    match fs.remove(at, false, who, now) {
        Err(FsError { what: What::NotFound, .. }) => Ok(()),
        removed => removed,
    }
}

fn above(fs: &mut Fs, at: &str, who: Who, now: i64) -> Result<(), FsError> {
    super::parent(at).map_or(Ok(()), |above| fs.make_dirs(above, who, now))
}

fn text(name: &[u8]) -> io::Result<String> {
    String::from_utf8(name.to_vec()).map_err(|_| io::Error::other("a name is not UTF-8"))
}

/// Reads a content from its beginning.
struct Pieces(VecDeque<Bytes>);

impl Pieces {
    fn new(content: Content) -> Self {
        Self(content.into_pieces().into())
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.0.front().is_some_and(Bytes::is_empty) {
            self.0.pop_front();
        }
        let Some(piece) = self.0.front_mut() else { return Ok(0) };
        let read = piece.len().min(buffer.len());
        buffer[..read].copy_from_slice(&piece.split_to(read));
        Ok(read)
    }
}
