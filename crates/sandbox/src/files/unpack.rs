//! A tar stream from a sandbox, onto the host. Nothing in it is trusted: no member and no link leaves the target, and what it
//! takes of the host has limits.

use super::{
    Files, TreeOptions, TreeReport,
    host::{self, Landing, Source},
    members::{Kind, Member, Members},
    options::Filter,
    pack::inside,
    stream::Pace,
};
use bytes::Bytes;
use sandbox_core::{Body, Error, ErrorKind, ReadFile, Result};
use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
};

/// A tree that is being unpacked.
pub(super) struct Unpack<'a> {
    files: &'a Files,
    /// In the sandbox.
    from: &'a str,
    target: PathBuf,
    filter: Filter,
    pace: Pace,
    /// The names that the tree's own members begin with.
    root: PathBuf,
    /// What this run has made, below the target.
    made: HashMap<PathBuf, Made>,
    /// Directories get their modes last, or nothing could be made in one that is read-only.
    modes: Vec<(PathBuf, u32)>,
    entries_left: u64,
    bytes_left: u64,
    report: TreeReport,
}

impl<'a> Unpack<'a> {
    /// From the tree's first member on, which is its root.
    pub(super) fn new(
        files: &'a Files,
        from: &'a str,
        root: &Member,
        target: &Path,
        options: &TreeOptions,
    ) -> Result<Self> {
        let name = relative(&root.name)?;
        if root.kind != Kind::Directory {
            // A tree of one has just its name.
            if name.components().count() > 1 {
                return Err(Error::new(ErrorKind::Protocol, "the tree does not begin with its directory"));
            }
            let message = format!("`{from}` is not a directory");
            return Err(Error::new(ErrorKind::NotADirectory, message).with_hint("use `download` for a single file"));
        }
        Ok(Self {
            files,
            from,
            target: target.to_path_buf(),
            filter: options.compile()?,
            pace: Pace::of(files.lease()?),
            root: name,
            made: HashMap::new(),
            modes: Vec::new(),
            entries_left: options.max_entries,
            bytes_left: options.max_bytes,
            report: TreeReport::default(),
        })
    }

    pub(super) async fn all(mut self, mut members: Members) -> Result<TreeReport> {
        let target = self.target.clone();
        self.pace.host(move || host::create_all(&target)).await?;
        while let Some(member) = members.next().await? {
            let Some(path) = self.below(&member.name)? else { continue };
            if !self.filter.takes(&path, member.kind == Kind::Directory) {
                continue;
            }
            if path.to_str().is_none() {
                return Err(Error::invalid(format!("the name `{}` in the sandbox is not UTF-8", path.display()))
                    .with_hint("rename it there, or exclude it: `?` and `*` match what is no text too"));
            }
            self.one(member, path, &mut members).await?;
        }
        let modes = self.modes;
        let set = move || modes.into_iter().rev().try_for_each(|(path, mode)| host::set_mode(&path, mode));
        self.pace.host(set).await?;
        Ok(self.report)
    }

    async fn one(&mut self, member: Member, path: PathBuf, members: &mut Members) -> Result<()> {
        let (target, whole) = (self.target.clone(), self.target.join(&path));
        let mut made = Made::File;
        let parent = path.parent().unwrap_or_else(|| Path::new("")).to_path_buf();
        self.entries_left = self.entries_left.checked_sub(1).ok_or_else(|| too_much("entries", "max_entries"))?;
        match member.kind {
            Kind::Directory => {
                self.modes.push((whole, member.mode));
                return self.pace.host(move || host::directory(&target, &path)).await;
            }
            Kind::Symlink(link) => {
                let link = text(&link)?;
                self.link(&link, &path, &parent, whole).await?;
                made = Made::Link(link);
            }
            Kind::File => {
                self.pace.host(move || host::directory(&target, &parent)).await?;
                if member.size > self.bytes_left {
                    return Err(too_much("bytes", "max_bytes"));
                }
                let mut landing = Landing::new(whole, Some(member.mode), member.mtime);
                loop {
                    let piece = members.piece().await?.unwrap_or_default();
                    let last = members.left() == 0;
                    landing = self.put(landing, piece, last).await?;
                    if last {
                        break;
                    }
                }
            }
            Kind::Hard(link) => {
                let parent_of = parent.clone();
                self.pace.host(move || host::directory(&target, &parent_of)).await?;
                made = self.hard(&link, &path, &parent, whole, member.mode).await?;
            }
            Kind::Other => made = Made::Nothing,
        }
        match &made {
            Made::Nothing => self.report.skipped.push(path.to_string_lossy().into_owned()),
            _ => self.report.files += 1,
        }
        self.made.insert(path, made);
        Ok(())
    }

    async fn link(&self, link: &Path, path: &Path, parent: &Path, whole: PathBuf) -> Result<()> {
        inside(parent, link).map_err(|e| e.with_hint(format!("exclude `{}`", path.display())))?;
        let (target, parent, link) = (self.target.clone(), parent.to_path_buf(), link.to_path_buf());
        self.pace.host(move || host::directory(&target, &parent).and_then(|()| host::symlink(&link, &whole))).await
    }

    /// A hard link becomes a file of its own, with the content of what it is the same as, or another link of the same text.
    async fn hard(&mut self, link: &[u8], path: &Path, parent: &Path, whole: PathBuf, mode: u32) -> Result<Made> {
        let nowhere = || {
            let (path, link) = (path.display(), String::from_utf8_lossy(link));
            Error::new(
                ErrorKind::Protocol,
                format!("`{path}` is said to be the same file as `{link}`, which is none of the tree"),
            )
        };
        let first = self.below(link)?.ok_or_else(nowhere)?;
        match self.made.get(&first) {
            Some(Made::Link(link)) => {
                let link = link.clone();
                self.link(&link, path, parent, whole).await?;
                return Ok(Made::Link(link));
            }
            Some(Made::Nothing) => return Ok(Made::Nothing),
            Some(Made::File) | None => {}
        }
        if self.made.contains_key(&first) {
            let first = self.target.join(first);
            let source = self.pace.host(move || Source::own(&first)).await?;
            let mut landing = Landing::new(whole, Some(source.mode & 0o777), None);
            let mut source = Some(source);
            while let Some(mut from) = source.take() {
                let (from, piece) = self.pace.host(move || from.next().map(|piece| (from, piece))).await?;
                let last = piece.is_none();
                landing = self.put(landing, piece.unwrap_or_default(), last).await?;
                source = (!last).then_some(from);
            }
            return Ok(Made::File);
        }
        if self.filter.takes(&first, false) {
            return Err(nowhere());
        }
        // Its content came under a name that was left out: it is asked for by this one.
        let own = format!("{}/{}", self.from.trim_end_matches('/'), path.to_string_lossy());
        let opened = self.files.opened("files.download_dir", ReadFile::new(own)).await?;
        self.land(Landing::new(whole, Some(mode), None), opened.body).await?;
        Ok(Made::File)
    }

    async fn land(&mut self, mut landing: Landing, mut body: Body) -> Result<()> {
        while let Some(piece) = body.next().await? {
            landing = self.put(landing, piece, false).await?;
        }
        self.put(landing, Bytes::new(), true).await.map(drop)
    }

    async fn put(&mut self, landing: Landing, piece: Bytes, last: bool) -> Result<Landing> {
        let n = piece.len() as u64;
        self.bytes_left = self.bytes_left.checked_sub(n).ok_or_else(|| too_much("bytes", "max_bytes"))?;
        self.report.bytes += n;
        landing.put(&self.pace, piece, last).await
    }

    /// A member's path below the tree's root; `None` is the root itself.
    fn below(&self, name: &[u8]) -> Result<Option<PathBuf>> {
        let path = relative(name)?;
        let below = path.strip_prefix(&self.root).map_err(|_| leaves(name))?;
        Ok((!below.as_os_str().is_empty()).then(|| below.to_path_buf()))
    }
}

/// What became of a member.
enum Made {
    File,
    /// It points there.
    Link(PathBuf),
    /// It is no file, and was passed over.
    Nothing,
}

/// The names of a path, whether it is said to be absolute or not.
fn relative(path: &[u8]) -> Result<PathBuf> {
    let mut names = PathBuf::new();
    for part in text(path)?.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(leaves(path)),
        }
    }
    Ok(names)
}

#[cfg(unix)]
fn text(path: &[u8]) -> Result<PathBuf> {
    Ok(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path).into())
}

#[cfg(not(unix))]
fn text(path: &[u8]) -> Result<PathBuf> {
    Ok(String::from_utf8_lossy(path).into_owned().into())
}

fn leaves(name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::new(ErrorKind::Protocol, format!("member `{name}` of the tree would leave the target directory"))
}

pub(super) fn too_much(what: &str, option: &str) -> Error {
    Error::new(ErrorKind::ResourceExhausted, format!("more {what} come than the host takes of a sandbox"))
        .with_hint(format!("raise `{option}` of the options, or leave something out"))
}
