//! Ending what was left over.

use crate::Client;
use sandbox_core::{Error, Listed, Query, Result, SandboxId, labels};
use std::time::SystemTime;

/// Which sandboxes [`Client::sweep`] ends: those of this library that are past their lifetime, or all of this library's. What
/// bears none of its labels is never ended, whatever the backend lists.
///
/// Past its lifetime is what should have ended more than 30 s ago, by the clocks of this host and of the one that made it: a
/// sandbox that is just ending by itself, and a clock that is a little ahead, are left alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sweep {
    query: Query,
    expired_only: bool,
    dry_run: bool,
}

impl Sweep {
    /// All that are past their lifetime.
    pub fn new() -> Self {
        Self { query: Query::new(), expired_only: true, dry_run: false }
    }

    /// Only those with this label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query = self.query.label(name, value);
        self
    }

    /// Whether only those past their lifetime are meant. Without this, running sandboxes of others end too.
    pub fn expired_only(mut self, expired_only: bool) -> Self {
        self.expired_only = expired_only;
        self
    }

    /// Whether they are only found, not ended.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

impl Default for Sweep {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`Client::sweep`] came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// What was found.
    pub found: Vec<Listed>,
    /// What was ended.
    pub destroyed: Vec<SandboxId>,
    /// What could not be ended.
    pub failed: Vec<(SandboxId, Error)>,
}

impl Client {
    /// Finds sandboxes by labels and expiry, and ends them. `LIST`.
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list). What could not be ended is in the answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was begun is ended, the rest is left.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept> {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
        let all = self.list(sweep.query).await.map_err(|error| self.stamp("sweep", error))?;
        let meant = |one: &Listed| is_ours(one) && (!sweep.expired_only || expired(one, now));
        let found: Vec<_> = all.into_iter().filter(meant).collect();
        let mut swept = Swept::default();
        for one in found.iter().filter(|_| !sweep.dry_run) {
            match self.destroy(one.id.as_str()).await {
                Ok(()) => swept.destroyed.push(one.id.clone()),
                Err(error) => swept.failed.push((one.id.clone(), error)),
            }
        }
        swept.found = found;
        Ok(swept)
    }
}

/// Whether this library made it: it says so itself.
fn is_ours(one: &Listed) -> bool {
    one.labels.keys().any(|name| name.starts_with(labels::RESERVED))
}

/// In seconds: for an end that is on its way, and for clocks that differ.
const GRACE: u64 = 30;

/// What says nothing of its expiry has not expired.
fn expired(one: &Listed, now: u64) -> bool {
    let at = one.labels.get(labels::EXPIRES).and_then(|at| at.parse::<u64>().ok());
    at.is_some_and(|at| at.saturating_add(GRACE) < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_past_its_lifetime_has_expired() {
        let with = |at: &str| Listed::new(SandboxId::new("x"), [(labels::EXPIRES.to_string(), at.to_string())].into());
        assert!(expired(&with("69"), 100) && !expired(&with("70"), 100) && !expired(&with("soon"), 100));
        assert!(!expired(&with(&u64::MAX.to_string()), u64::MAX), "a time that cannot be is no panic");
        assert!(!expired(&Listed::new(SandboxId::new("x"), [].into()), 100));
    }
}
