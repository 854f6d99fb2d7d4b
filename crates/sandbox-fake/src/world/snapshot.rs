//! Images of sandboxes, which outlive them.

use super::State;
use crate::fs::Tree;
use sandbox_core::{Error, SnapshotId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What sandboxes begin with.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) tree: Arc<Tree>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: String,
    pub(crate) user: String,
    /// The image's main program, which services run.
    pub(crate) main: Option<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) origin: Origin,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) created: Duration,
}

impl State {
    pub(crate) fn snapshot(&mut self, room: u64, labels: &BTreeMap<String, String>) -> Result<SnapshotId, Error> {
        let created = self.timers.now();
        let room = self.working(room)?;
        let origin = Origin {
            tree: super::lock(&room.files).clone().into_tree(),
            env: (*room.env).clone(),
            cwd: room.cwd.clone(),
            user: room.user.name.to_string(),
            main: None,
        };
        self.last_snapshot += 1;
        let id = SnapshotId::new(format!("fake-snapshot-{}", self.last_snapshot));
        self.snapshots.insert(id.clone(), Snapshot { origin, labels: labels.clone(), created });
        Ok(id)
    }
}
