//! Changes of files, as they happen.

use crate::{Boxed, Result};
use std::{fmt, future::Future};

/// Watch a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchDir {
    /// The directory.
    pub path: String,
    /// Whether the directories below it are watched too, also those that are made later.
    pub recursive: bool,
}

impl WatchDir {
    /// What is in this directory, and not what is below.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), recursive: false }
    }

    /// Watches the directories below it too.
    pub fn recursive(mut self, recursive: bool) -> Self {
        self.recursive = recursive;
        self
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Change {
    /// What has happened.
    pub kind: ChangeKind,
    /// To what: an absolute path below the directory as it was asked for.
    pub path: String,
    /// Where it was before, for [`ChangeKind::Renamed`].
    pub from: Option<String>,
}

impl Change {
    /// A change of what is at a path.
    pub fn new(kind: ChangeKind, path: impl Into<String>) -> Self {
        Self { kind, path: path.into(), from: None }
    }

    /// A move from one path to another.
    pub fn renamed(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: Some(from.into()), ..Self::new(ChangeKind::Renamed, to) }
    }
}

/// What has happened to a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new at its path.
    Created,
    /// Its content is another.
    Modified,
    /// It is no longer at its path. What was in a directory that went may be told, or not.
    Removed,
    /// It has another path; only where both are watched. Where a backend cannot tell, this is a removal and a creation.
    Renamed,
    /// Its mode, owner or time is another.
    Attributes,
    /// More has changed than could be kept: look again at the directory that is the path.
    Overflow,
}

/// Changes on their way.
pub struct Changes(Box<dyn DynSource>);

impl Changes {
    /// Changes from their source.
    pub fn new(source: impl ChangeSource) -> Self {
        Self(Box::new(source))
    }

    /// The next change; `None` once nothing is watched any more.
    ///
    /// # Errors
    ///
    /// Those of the source; nothing more comes after one.
    ///
    /// # Cancel safety
    ///
    /// That of the source: [`ChangeSource::next`] is cancel safe.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        self.0.next().await
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes(…)")
    }
}

/// The source of [`Changes`]. What it cannot keep for a slow reader it tells as [`ChangeKind::Overflow`]; dropping it ends the
/// watch in the sandbox.
pub trait ChangeSource: Send + 'static {
    /// The next change; `None` once the directory itself is gone. Cancel safe.
    ///
    /// # Errors
    ///
    /// `gone` once the sandbox is, and the transport kinds; it is not asked again.
    fn next(&mut self) -> impl Future<Output = Result<Option<Change>>> + Send;
}

/// `Changes` hides its source behind this.
trait DynSource: Send {
    fn next(&mut self) -> Boxed<'_, Result<Option<Change>>>;
}

impl<S: ChangeSource> DynSource for S {
    fn next(&mut self) -> Boxed<'_, Result<Option<Change>>> {
        Box::pin(ChangeSource::next(self))
    }
}
