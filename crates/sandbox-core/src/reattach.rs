//! Reaching a running command again.

use std::{fmt, sync::Arc};

/// What names a command in its sandbox, as the backend knows it. Opaque; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(Arc<str>);

impl ProcessId {
    /// A name. What users hand in is checked by the facade before it gets here.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(id.as_ref().into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ProcessId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ProcessId {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for ProcessId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl serde::Serialize for ProcessId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What output comes to somebody who reaches a running command again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Replay {
    /// What is written from then on.
    FromNow,
    /// All that was written since its start.
    FromStart,
}

/// Reach a running command again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reattach {
    /// The command.
    pub id: ProcessId,
    /// Bytes of each stream that somebody will look at.
    pub output_limit: u64,
}

impl Reattach {
    /// This command, with 64 MiB of each stream.
    pub fn new(id: impl Into<ProcessId>) -> Self {
        Self { id: id.into(), output_limit: 64 << 20 }
    }

    /// Keeps so many bytes of each stream at most: the head and the tail.
    pub fn output_limit(mut self, bytes: u64) -> Self {
        self.output_limit = bytes;
        self
    }
}
