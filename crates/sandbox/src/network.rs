//! The network of a live sandbox.

use crate::{
    Sandbox,
    phase::asked,
    validate::{self, need},
};
use sandbox_core::{Capability, Destination, ListDestinations, NetworkPolicy, Result, SetNetwork};
use std::sync::{Arc, PoisonError};

impl Sandbox {
    /// Sets what the sandbox may reach from now on: new connections and lookups go by it at once, and live connections that it
    /// forbids are cut before this answers. The policy that is in force already changes nothing. Where it fails, the old one
    /// stays. `DYNAMIC_NETWORK`, and what the policy itself needs.
    ///
    /// # Errors
    ///
    /// `unsupported`; `gone`; `operation-timeout` and the other transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn set_network(&self, policy: NetworkPolicy) -> Result<()> {
        let lease = self.lease()?;
        let stamp = lease.stamp("network");
        need(&lease.facts, Capability::DynamicNetwork).map_err(&stamp)?;
        validate::network(&policy, &lease.facts).map_err(&stamp)?;
        let (s, life, instance) = (Arc::clone(&lease.spawner), Arc::clone(&lease.life), Arc::clone(&lease.instance));
        let current = Arc::clone(&lease.network);
        self.carried_out("network", async move {
            let known = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if known.as_ref() == Some(&policy) {
                return Ok(());
            }
            let request = SetNetwork::new(policy.clone());
            asked(&s, &life, Box::pin(async move { instance.get().set_network(&request).await })).await?;
            *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy);
            Ok(())
        })
        .await
    }

    /// What the sandbox has reached so far while its policy was [`NetworkPolicy::Learn`], each once, sorted. `LEARN`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `gone`; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn destinations(&self) -> Result<Vec<Destination>> {
        let lease = self.lease()?;
        let stamp = lease.stamp("destinations");
        need(&lease.facts, Capability::Learn).map_err(&stamp)?;
        lease.life.check_alive().map_err(&stamp)?;
        let instance = Arc::clone(&lease.instance);
        let work = async move { instance.get().destinations(&ListDestinations::new()).await };
        let asked = lease.spawner.operate("a list of destinations", Some(Arc::clone(&lease.life)), work);
        let mut all = asked.await.map_err(&stamp)?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}
