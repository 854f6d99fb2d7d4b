//! The network of a live sandbox.

use crate::{Sandbox, phase::asked, validate};
use sandbox_core::{
    Capability, Destination, Endpoint, Error, ListDestinations, NetworkPolicy, OpenPort, Result, SetNetwork,
};
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
        lease.need(Capability::DynamicNetwork).map_err(&stamp)?;
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

    /// Makes a port of the sandbox reachable: through the address that this answers, and no other, until the sandbox ends. The
    /// network policy is about what the sandbox reaches, not about this. Nobody has to listen yet; asked again, it is the same
    /// address. `PORTS`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for port zero; `wrong-state` while it is paused or stopped; `capacity`; `gone`; the
    /// transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was opened ends with the sandbox.
    pub async fn port(&self, port: u16) -> Result<Endpoint> {
        let lease = self.lease()?;
        let stamp = lease.stamp("port");
        lease.need(Capability::Ports).map_err(&stamp)?;
        if port == 0 {
            let error = Error::invalid("port 0").with_hint("name the port that a program in the sandbox listens at");
            return Err(stamp(error));
        }
        lease.life.check().map_err(&stamp)?;
        let instance = Arc::clone(&lease.instance);
        let work = async move { instance.get().open_port(&OpenPort::new(port)).await };
        lease.spawner.operate("opening a port", Some(Arc::clone(&lease.life)), work).await.map_err(&stamp)
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
        lease.need(Capability::Learn).map_err(&stamp)?;
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
