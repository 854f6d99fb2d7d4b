//! Another end for a live sandbox.

use crate::{Sandbox, phase::asked, validate};
use sandbox_core::{Capability, Extend, Result};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

impl Sandbox {
    /// Sets the end of its lifetime anew: it lives for `lifetime` from now on, which may be later or sooner than before.
    /// Timeouts of commands that start from now on may be as long. `EXTEND`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for less than a second, for more than a year, and where the sandbox would live longer
    /// than the backend's maximum, the time that it has lived included; `gone`; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn extend(&self, lifetime: Duration) -> Result<()> {
        let lease = self.lease()?;
        let stamp = lease.stamp("extend");
        lease.need(Capability::Extend).map_err(&stamp)?;
        validate::extension(lifetime, lease.born.map_or(Duration::ZERO, |born| born.elapsed()), &lease.facts)
            .map_err(&stamp)?;
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
        let request = Extend::new(lifetime, now.saturating_add(lifetime.as_secs()));
        let (s, life, instance) = (Arc::clone(&lease.spawner), Arc::clone(&lease.life), Arc::clone(&lease.instance));
        let longest = Arc::clone(&lease.lifetime);
        self.carried_out("extend", async move {
            asked(&s, &life, Box::pin(async move { instance.get().extend(&request).await })).await?;
            *longest.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = lifetime;
            if let Some(at) = Instant::now().checked_add(lifetime) {
                life.expire(at);
            }
            Ok(())
        })
        .await
    }
}
