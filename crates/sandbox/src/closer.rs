//! The one closer of a sandbox, or of a service beside one: it waits for a reason, then ends it.

use crate::{engine::Spawner, life::Life};
use sandbox_core::{Error, ErrorKind, SandboxId};
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::timeout;

pub(crate) struct Closer {
    pub(crate) spawner: Arc<Spawner>,
    pub(crate) id: SandboxId,
    pub(crate) life: Arc<Life>,
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    /// Of a service: the life of its sandbox, whose end is its own.
    pub(crate) of: Option<Arc<Life>>,
    /// Of a sandbox: those of its services.
    pub(crate) services: Vec<Arc<Self>>,
}

impl Closer {
    /// One more of them, for what has just begun or was left before.
    pub(crate) fn attend(self: &Arc<Self>) {
        let what = if self.of.is_some() { "service" } else { "sandbox" };
        self.spawner.watch(format!("{what} {}", self.id), Arc::clone(self).work());
    }

    /// Ends it, also where it was left before. Needs no runtime.
    pub(crate) fn end(self: &Arc<Self>, reason: Error) {
        if self.life.end(reason) {
            self.attend();
        }
    }

    /// Ends the commands, the sandbox with its services, and its tasks, in this order.
    async fn work(self: Arc<Self>) {
        let reason = self.life.ending().await;
        loop {
            let destroy = self.life.is_to_be_destroyed();
            for service in &self.services {
                let message = format!("its sandbox has ended: {}", reason.message());
                let reason = Error::new(ErrorKind::Gone, message).with_source(reason.clone());
                if destroy { service.end(reason) } else { service.life.leave(reason) }
            }
            let _ = timeout(self.spawner.limits.tell, self.deserted()).await;
            let result = match &self.of {
                _ if !destroy => Ok(()),
                // The end of the sandbox is asked for, and with it that of the service.
                Some(sandbox) if sandbox.is_to_be_destroyed() => sandbox.ended().await,
                _ => self.spawner.end(&self.id, &self.labels).await,
            };
            self.life.dismiss();
            if self.life.finish(result, destroy) {
                return;
            }
        }
    }

    async fn deserted(&self) {
        self.life.deserted().await;
        for service in &self.services {
            service.life.deserted().await;
        }
    }
}
