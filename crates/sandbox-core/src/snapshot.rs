//! Images of sandboxes, and copies.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The id of a snapshot, as its provider knows it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(Arc<str>);

impl SnapshotId {
    /// An id. Ids that users hand in are checked by the facade before they are sent.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(id.as_ref().into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SnapshotId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SnapshotId {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl serde::Serialize for SnapshotId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Makes an image of a sandbox. See [`Instance::snapshot`](crate::Instance::snapshot).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TakeSnapshot {
    /// Kept by the provider with the snapshot, where it can be enumerated (`SNAPSHOT_LIST`).
    pub labels: BTreeMap<String, String>,
}

impl TakeSnapshot {
    /// A snapshot without labels of the user's.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label. `SNAPSHOT_LIST`.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

/// A snapshot as an enumeration shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ListedSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Its labels, those of this library among them.
    pub labels: BTreeMap<String, String>,
    /// When it was made, where the provider tells.
    pub created: Option<SystemTime>,
}

impl ListedSnapshot {
    /// A snapshot and its labels.
    pub fn new(id: SnapshotId, labels: BTreeMap<String, String>) -> Self {
        Self { id, labels, created: None }
    }

    /// Adds when it was made.
    pub fn created(mut self, at: SystemTime) -> Self {
        self.created = Some(at);
        self
    }
}

/// Makes a copy of a live sandbox. See [`Backend::fork`](crate::Backend::fork).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ForkSandbox {
    /// Kept by the provider with the copy. `LABELS`.
    pub labels: BTreeMap<String, String>,
    /// How long the copy lives, from its making on; `None` is one hour, or the provider's maximum where that is less. An adapter
    /// finds it set.
    pub lifetime: Option<Duration>,
}

impl ForkSandbox {
    /// A copy without labels of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets how long the copy lives.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }
}
