//! What a provider shows of its sandboxes to whoever may look.

use crate::{World, world::Room};
use sandbox_core::{NetworkPolicy, Resources, SandboxId};
use std::collections::BTreeMap;

/// A sandbox as its provider shows it: as much as `docker inspect` would. Secrets are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its environment, from image and spec.
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: String,
    /// The name of its user.
    pub user: String,
    /// What it may reach.
    pub network: NetworkPolicy,
    /// What limits it, every amount set.
    pub resources: Resources,
}

impl World {
    /// What the provider shows of a sandbox that lives.
    pub fn inspect(&self, id: &SandboxId) -> Option<Inspected> {
        self.look(id, |room: &Room| Inspected {
            labels: room.labels.clone(),
            env: (*room.env).clone(),
            cwd: room.cwd.clone(),
            user: room.user.name.to_string(),
            network: room.link.policy().clone(),
            resources: room.resources.clone(),
        })
    }
}
