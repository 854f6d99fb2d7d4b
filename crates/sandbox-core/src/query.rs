//! Enumerating sandboxes.

use crate::SandboxId;
use std::{collections::BTreeMap, time::SystemTime};

/// Which sandboxes to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// Labels that all have to match.
    pub labels: BTreeMap<String, String>,
    /// Where the page before ended; `None` is the first page.
    pub cursor: Option<String>,
}

impl Query {
    /// Every sandbox of this library.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those with this label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

/// One page of an enumeration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The sandboxes of this page.
    pub items: Vec<Listed>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

impl Page {
    /// The last page.
    pub fn last(items: Vec<Listed>) -> Self {
        Self { items, next: None }
    }

    /// A page with others behind it.
    pub fn then(items: Vec<Listed>, next: impl Into<String>) -> Self {
        Self { items, next: Some(next.into()) }
    }
}

/// A sandbox as an enumeration shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Listed {
    /// Its id.
    pub id: SandboxId,
    /// Its labels, those of this library among them.
    pub labels: BTreeMap<String, String>,
    /// When it was made, where the provider tells.
    pub created: Option<SystemTime>,
}

impl Listed {
    /// A sandbox and its labels.
    pub fn new(id: SandboxId, labels: BTreeMap<String, String>) -> Self {
        Self { id, labels, created: None }
    }

    /// Adds when it was made.
    pub fn created(mut self, at: SystemTime) -> Self {
        self.created = Some(at);
        self
    }
}
