//! Changes of a sandbox's phase: asked for by a caller, carried out whoever still waits.

use crate::{
    Sandbox,
    engine::{Held, Spawner, done},
    erase::DynInstance,
    life::{Life, Phase},
};
use sandbox_core::{Boxed, Capability, Error, ErrorKind, Pause, Restart, Result, Resume, Stop};
use std::{future::Future, sync::Arc};
use tokio::{sync::oneshot, time::timeout};

/// What the adapter is asked to do.
type Ask = fn(Arc<Held<Box<dyn DynInstance>>>) -> Boxed<'static, Result<()>>;

impl Sandbox {
    /// Freezes the sandbox: its processes stand still, memory and files are kept. Until [`resume`](Self::resume), starting
    /// commands and touching files is `wrong-state`. Paused already is fine. `PAUSE`.
    ///
    /// Lifetime and timeouts go on: the sandbox ends at its lifetime, and a command that is late by then ends, as
    /// `execution-timeout`, when the sandbox goes on at the latest. [`close`](Self::close) works while it is paused.
    ///
    /// # Errors
    ///
    /// `unsupported`; `gone`; `operation-timeout` and the other transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn pause(&self) -> Result<()> {
        let ask: Ask = |instance| Box::pin(async move { instance.get().pause(&Pause::new()).await });
        self.shift("pause", Capability::Pause, (Phase::Paused, Phase::Paused), ask).await
    }

    /// Lets a paused sandbox go on where it was. One that is not paused is fine. `PAUSE`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `gone`; `operation-timeout` and the other transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn resume(&self) -> Result<()> {
        let ask: Ask = |instance| Box::pin(async move { instance.get().resume(&Resume::new()).await });
        self.shift("resume", Capability::Pause, (Phase::Paused, Phase::Running), ask).await
    }

    /// Ends all that runs in the sandbox and keeps its files. Running commands end as `gone`, with their death seen. Until
    /// [`restart`](Self::restart), starting commands and touching files is `wrong-state`. Stopped already is fine.
    /// `STOP_START`.
    ///
    /// The lifetime goes on: the sandbox ends at it, and a restart gets what remains. [`close`](Self::close) works while it is
    /// stopped. Where files cannot be kept, nothing is sent and the sandbox is as it was.
    ///
    /// # Errors
    ///
    /// `unsupported`; `wrong-state` while it is paused; `gone`; `operation-timeout` and the other transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn stop(&self) -> Result<()> {
        let ask: Ask = |instance| Box::pin(async move { instance.get().stop(&Stop::new()).await });
        self.shift("stop", Capability::StopStart, (Phase::Stopping, Phase::Stopped), ask).await
    }

    /// Lets a stopped sandbox run again, with its files. One that runs is fine. `STOP_START`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `wrong-state` while it is paused; `capacity`; `gone`; `operation-timeout` and the other transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the change is carried out whoever waits.
    pub async fn restart(&self) -> Result<()> {
        let ask: Ask = |instance| Box::pin(async move { instance.get().restart(&Restart::new()).await });
        self.shift("restart", Capability::StopStart, (Phase::Stopped, Phase::Running), ask).await
    }

    /// From the phase as it is, over the first of these while the adapter works, to the second; back where it fails. One change
    /// at a time.
    async fn shift(
        &self,
        operation: &'static str,
        needed: Capability,
        (over, to): (Phase, Phase),
        ask: Ask,
    ) -> Result<()> {
        let lease = self.lease()?;
        lease.need(needed).map_err(lease.stamp(operation))?;
        let (s, life, instance) = (Arc::clone(&lease.spawner), Arc::clone(&lease.life), Arc::clone(&lease.instance));
        self.carried_out(operation, async move {
            life.phase().turns_to(over)?;
            let before = life.set_phase(over);
            let done = asked(&s, &life, ask(instance)).await;
            life.set_phase(if done.is_ok() { to } else { before });
            // What keeps the lifetime inside may be frozen too. By a clock of its own the provider keeps it.
            if done.is_ok() && to == Phase::Paused && before != to && !s.has_clock() {
                let (kept, resumed) = (Arc::clone(&life), Arc::clone(&life));
                s.time.spawn(kept.keep_lifetime(async move { resumed.running().await }));
            }
            done
        })
        .await
    }

    /// A change of the sandbox that is carried out once it is asked for. One at a time.
    pub(crate) async fn carried_out<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let lease = self.lease()?;
        let stamp = lease.stamp(operation);
        lease.life.check_alive().map_err(&stamp)?;
        let (tell, told) = oneshot::channel();
        let life = Arc::clone(&lease.life);
        lease.spawner.watch(operation, async move {
            let _one = Arc::clone(&life.shift).lock_owned().await;
            let _ = tell.send(match life.check_alive() {
                Ok(()) => work.await,
                Err(gone) => Err(gone),
            });
        });
        done(told.await).map_err(&stamp)
    }
}

/// Adapter code within the limit of an operation, as long as there is a sandbox.
pub(crate) async fn asked<T: Send + 'static>(
    s: &Arc<Spawner>,
    life: &Life,
    work: Boxed<'static, Result<T>>,
) -> Result<T> {
    let limit = s.limits.operation;
    let late = |_| Error::new(ErrorKind::OperationTimeout, format!("no answer within {limit:?}"));
    tokio::select! {
        biased;
        told = timeout(limit, s.workers.run(work)) => told.map_err(late).and_then(done),
        reason = life.ending() => {
            Err(Error::new(ErrorKind::Gone, "the sandbox has ended").with_source(reason).applied(true))
        }
    }
}
