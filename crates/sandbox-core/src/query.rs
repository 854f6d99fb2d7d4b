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

    /// Whether something with these labels is meant: it has every label that is asked for, with that value. For adapters whose
    /// provider does not choose by labels itself.
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}

/// One page of an enumeration: of sandboxes, or of [snapshots](crate::ListedSnapshot).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T = Listed> {
    /// What this page has.
    pub items: Vec<T>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The last page.
    pub fn last(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page with others behind it.
    pub fn then(items: Vec<T>, next: impl Into<String>) -> Self {
        Self { items, next: Some(next.into()) }
    }
}

impl<T> Default for Page<T> {
    /// The last page, with nothing on it.
    fn default() -> Self {
        Self::last(Vec::new())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_fits_what_has_all_of_its_labels() {
        let labels =
            |all: &[(&str, &str)]| all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let query = Query::new().label("team", "blue").label("job", "7");
        assert!(query.fits(&labels(&[("team", "blue"), ("job", "7"), ("more", "x")])));
        for other in [&[("team", "blue")][..], &[("team", "blue"), ("job", "8")], &[("team", ""), ("job", "7")], &[]] {
            assert!(!query.fits(&labels(other)), "{other:?}");
        }
        assert!(Query::new().fits(&labels(&[])) && Query::new().fits(&labels(&[("team", "blue")])));
    }
}
