//! What is under way, and what could not be ended.

use super::{Spawner, quietly};
use sandbox_core::{Error, SandboxId};
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Something that may still be there although it should not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Orphan {
    /// What it is and why it may be left.
    pub what: String,
    /// The backend it is on.
    pub backend: String,
    /// Its id, or the name that was chosen for it.
    pub id: Option<SandboxId>,
    /// The marker of its create: what its provider's metadata holds.
    pub marker: Option<String>,
    /// The labels it was created with.
    pub labels: BTreeMap<String, String>,
    /// What the last try to end it came to.
    pub error: Option<Error>,
}

impl Orphan {
    pub(crate) fn new(what: String, spawner: Option<&Arc<Spawner>>) -> Self {
        let backend = spawner.map_or_else(String::new, |s| s.facts.name().to_string());
        Self { what, backend, id: None, marker: None, labels: BTreeMap::new(), error: None }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.what)?;
        if let Some(marker) = &self.marker {
            write!(f, " (marker {marker})")?;
        }
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// Counts everything under way by name, before it is spawned, and keeps the reports.
#[derive(Default)]
pub(crate) struct Open {
    jobs: watch::Sender<Jobs>,
    orphans: Mutex<VecDeque<Orphan>>,
}

#[derive(Default)]
struct Jobs {
    last: u64,
    names: BTreeMap<u64, Cow<'static, str>>,
}

pub(crate) struct Job(Arc<Open>, u64);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.jobs.send_if_modified(|jobs| {
            jobs.names.remove(&self.1);
            jobs.names.is_empty()
        });
    }
}

impl Open {
    pub(crate) fn job(self: &Arc<Self>, what: impl Into<Cow<'static, str>>) -> Job {
        let mut id = 0;
        self.jobs.send_if_modified(|jobs| {
            jobs.last += 1;
            id = jobs.last;
            jobs.names.insert(id, what.into());
            false
        });
        Job(Arc::clone(self), id)
    }

    pub(crate) async fn idle(&self) {
        let _ = self.jobs.subscribe().wait_for(|jobs| jobs.names.is_empty()).await;
    }

    pub(crate) fn under_way(&self) -> Vec<Cow<'static, str>> {
        self.jobs.borrow().names.values().cloned().collect()
    }

    pub(crate) fn report(&self, orphan: Orphan) {
        // A subscriber is foreign code too.
        let _ =
            quietly(|| tracing::warn!(backend = orphan.backend, marker = orphan.marker, "may be left over: {orphan}"));
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if orphans.len() == MOST_ORPHANS {
            orphans.pop_front();
        }
        orphans.push_back(orphan);
    }

    pub(crate) fn orphans(&self) -> Vec<Orphan> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The latest are kept; each was also a warning.
const MOST_ORPHANS: usize = 1000;
