//! Which way an operation on a path goes, and what the path itself says.

use super::Files;
use crate::validate;
use sandbox_core::{Capability, Error, ErrorKind, FileInfo, FileKind, Result, Stat};

/// How an operation on a path goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the adapter's own file operations.
    Native,
    /// As a tree of one.
    Archive,
    /// By a command in the sandbox.
    Command,
}

impl Files {
    /// How a read or write of a path goes.
    pub(super) async fn way(&self, path: &str) -> Result<Way> {
        if self.is_native(path)? {
            return Ok(Way::Native);
        }
        // Archives are read and written by the provider, who heeds no permissions: only root may go that way.
        let archive = self.has_trees(path) && self.ids().await?.0 == 0 && self.archives_see(path).await?;
        Ok(if archive { Way::Archive } else { Way::Command })
    }

    pub(super) fn is_native(&self, path: &str) -> Result<bool> {
        let facts = self.sandbox.facts();
        validate::need(facts, Capability::Files)?;
        Ok(facts.is_native(Capability::Files) && !self.is_blind(path) && self.user().is_none())
    }

    /// How a whole tree goes.
    pub(super) async fn tree_way(&self, path: &str) -> Result<Way> {
        let archive = self.has_trees(path) && self.archives_see(path).await?;
        Ok(if archive { Way::Archive } else { Way::Command })
    }

    fn has_trees(&self, path: &str) -> bool {
        self.sandbox.facts().is_native(Capability::Tree) && !self.is_blind(path) && self.user().is_none()
    }

    /// Where single files are not the provider's own, its trees are archives: they heed no permissions, take `..` by the text
    /// and see no other mounts.
    pub(super) fn are_archives(&self) -> bool {
        !self.sandbox.facts().is_native(Capability::Files)
    }

    /// Whether an archive finds at a path what a program in the sandbox does: no `..` in it, and no link on the way, which
    /// may lead into a mount.
    pub(super) async fn archives_see(&self, path: &str) -> Result<bool> {
        if !self.are_archives() {
            return Ok(true);
        }
        if self.is_blind(path) || path.split('/').any(|part| part == "..") {
            return Ok(false);
        }
        for (end, _) in path.match_indices('/').skip(1) {
            match self.look(&path[..end]).await? {
                Some(there) if there.kind == FileKind::Symlink => return Ok(false),
                Some(_) => {}
                None => break,
            }
        }
        Ok(true)
    }

    /// What is at a path, without a command.
    pub(super) async fn look(&self, path: &str) -> Result<Option<FileInfo>> {
        let stat = Stat::new(path);
        match self.native("files.stat", move |i| async move { i.get().stat_tree(&stat).await }).await {
            Ok(there) => Ok(Some(there)),
            Err(error) if matches!(error.kind(), ErrorKind::PathNotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Of the view; what the backend does by itself is done as the sandbox's own.
    pub(super) fn user(&self) -> Option<&str> {
        self.sandbox.overrides().user.as_deref()
    }

    pub(super) fn is_blind(&self, path: &str) -> bool {
        self.sandbox.facts().is_blind(&lexical(path))
    }

    /// An absolute path.
    pub(super) fn path(&self, path: &str) -> Result<String> {
        let cwd = self.sandbox.cwd();
        let base = self.sandbox.overrides().cwd.as_deref().map(|own| validate::joined(cwd, own)).transpose()?;
        validate::joined(base.as_deref().unwrap_or(cwd), path)
    }

    /// The same for what cannot be a directory.
    pub(super) fn file_path(&self, path: &str) -> Result<String> {
        let whole = self.path(path)?;
        if !names_directory(path) {
            return Ok(whole);
        }
        let message = format!("`{}` names a directory", path.escape_debug());
        Err(Error::new(ErrorKind::IsADirectory, message).with_hint("for a file, leave the slash or the dots off"))
    }
}

pub(super) fn names_directory(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

/// Whether it is one in a directory, and leads nowhere else.
pub(super) fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Without `..`, as if no link were there: enough to tell where a path does not lead.
fn lexical(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

/// Directory and last name of an absolute path; `None` where it has no name of its own.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (dir, name) = path.rsplit_once('/')?;
    (!name.is_empty() && name != "..").then_some((if dir.is_empty() { "/" } else { dir }, name))
}
