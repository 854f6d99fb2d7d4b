//! Lies about what becomes of a live sandbox.

use super::{Fault, LyingSandbox};
use crate::{
    config::number,
    world::{Room, lock},
};
use sandbox_core::{
    Endpoint, Error, ErrorKind, Extend, Instance, NetworkPolicy, OpenPort, Pause, Restart, Result, Resume, SnapshotId,
    TakeSnapshot, labels,
};
use std::{sync::Arc, time::Duration};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl LyingSandbox {
    pub(super) async fn freeze(&self, request: &Pause) -> Result<()> {
        self.is_news(!self.is_frozen())?;
        if self.lies.is(Fault::PauseDoesNothing) {
            return Ok(());
        }
        self.inner.pause(request).await?;
        if self.lies.is(Fault::PauseStopsTheLifetime) {
            self.inner.extend(&Extend::new(YEAR, self.expires())).await?;
        }
        Ok(())
    }

    pub(super) async fn image(&self, request: &TakeSnapshot) -> Result<SnapshotId> {
        let shown = self.look(|room| Arc::clone(&room.env));
        if self.lies.is(Fault::SnapshotsHoldSecrets) {
            self.change(|room| room.env = room.with_secrets(&room.env));
        }
        let taken = self.inner.snapshot(request).await;
        if let Some(env) = shown {
            self.change(|room| room.env = env);
        }
        if self.lies.is(Fault::SnapshotsFreeze) && !self.is_frozen() {
            self.inner.pause(&Pause::new()).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.inner.resume(&Resume::new()).await?;
        }
        taken
    }

    pub(super) async fn start_again(&self, request: &Restart) -> Result<()> {
        self.is_news(self.is_stopped())?;
        self.inner.restart(request).await?;
        if self.lies.is(Fault::RestartBeginsTheLifetime) {
            self.inner.extend(&Extend::new(self.lifetime, self.expires())).await?;
        }
        Ok(())
    }

    pub(super) async fn prolong(&self, request: &Extend) -> Result<()> {
        match self.lies.fault {
            Fault::ExtendDoesNothing => Ok(()),
            Fault::ExtensionIsNotListed => self.inner.extend(&Extend::new(request.lifetime, self.expires())).await,
            _ => self.inner.extend(request).await,
        }
    }

    pub(super) async fn port(&self, request: &OpenPort) -> Result<Endpoint> {
        let is_denied = || self.look(|room| *room.link.policy() == NetworkPolicy::Deny).unwrap_or(false);
        match self.lies.fault {
            Fault::PortsAreClosedUnderDeny if is_denied() => {
                Err(Error::new(ErrorKind::Unavailable, "the network of this sandbox is denied").applied(false))
            }
            Fault::PortsAreOneForAll => {
                let opened = self.inner.open_port(request).await?;
                Ok(lock(&self.lies.ports).entry(request.port).or_insert(opened).clone())
            }
            _ => self.inner.open_port(request).await,
        }
    }

    /// An error where what is asked for is so already, by a lie.
    pub(super) fn is_news(&self, news: bool) -> Result<()> {
        if news || !self.lies.is(Fault::LifecycleIsNotIdempotent) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::WrongState, "it is so already").applied(false))
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.look(|room| room.freezer.is_frozen()).unwrap_or(false)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.look(|room| room.stopped).unwrap_or(false)
    }

    /// The end that the list tells.
    fn expires(&self) -> u64 {
        let told = self.look(|room| room.labels.get(labels::EXPIRES).and_then(|at| at.parse().ok()));
        told.flatten().unwrap_or(0)
    }

    fn change(&self, change: impl FnOnce(&mut Room)) {
        let room = number(&self.id);
        self.lies.fake.kernel().with(|state, _| room.and_then(|room| state.rooms.get_mut(&room)).map(change));
    }

    fn look<T>(&self, look: impl FnOnce(&Room) -> T) -> Option<T> {
        let room = number(&self.id)?;
        self.lies.fake.kernel().with(|state, _| state.rooms.get(&room).map(look))
    }
}
