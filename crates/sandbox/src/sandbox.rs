//! A handle on one sandbox.

use crate::{
    Command, Files, Overrides, Process,
    engine::{Engine, Here},
    lease::Lease,
};
use sandbox_core::{Capability, Error, ErrorKind, Facts, Output, Reattach, Result, SandboxId};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

/// A sandbox. Clones share it; it ends with the last of them (a [`Process`] counts, and a [service](Self::service)) or with [`close`](Self::close). One that
/// was [attached](crate::Client::attach) ends with `close` alone.
#[derive(Clone)]
#[must_use = "the sandbox ends with its last handle"]
pub struct Sandbox {
    shared: Here<Arc<Shared>>,
    overrides: Arc<Overrides>,
}

struct Shared {
    lease: Arc<Lease>,
    /// The sandbox that it is a service of.
    _of: Option<Arc<Self>>,
    /// Dropped after the lease: the last holder waits.
    engine: Arc<Engine>,
}

impl Sandbox {
    pub(crate) fn new(lease: Box<Lease>, engine: &Arc<Engine>) -> Self {
        let shared = Shared { lease: Arc::from(lease), _of: None, engine: Arc::clone(engine) };
        Self { shared: Here::new(Arc::new(shared)), overrides: Arc::default() }
    }

    /// A service of it.
    pub(crate) fn beside(&self, lease: Arc<Lease>) -> Result<Self> {
        let of = Arc::clone(self.shared.get()?);
        let shared = Shared { lease, engine: Arc::clone(&of.engine), _of: Some(of) };
        Ok(Self { shared: Here::new(Arc::new(shared)), overrides: Arc::default() })
    }

    /// Its id, as its provider knows it.
    pub fn id(&self) -> &SandboxId {
        &self.shared.peek().lease.id
    }

    /// What it can do. These never change.
    pub fn facts(&self) -> &Facts {
        &self.shared.peek().lease.facts
    }

    /// Where relative paths start and commands run, absolute.
    pub fn cwd(&self) -> &str {
        &self.shared.peek().lease.cwd
    }

    /// A view of the same sandbox, whose commands and paths go by these overrides. What an inner view sets wins.
    pub fn with(&self, overrides: Overrides) -> Self {
        Self { shared: self.shared.clone(), overrides: Arc::new(self.overrides.then(overrides)) }
    }

    /// Runs a command to its end. An exit code other than zero is data; see [`Output::check`].
    ///
    /// # Errors
    ///
    /// `invalid-argument`, `unsupported`; `program-not-found`, `start-failed`, `path-not-found` and `not-a-directory` for its
    /// working directory; `execution-timeout` and `resource-exhausted`, which hold the output so far and the fate; `gone`;
    /// the transport kinds. Where one command cannot be ended alone (`KILL_ONE`, as on plain Docker), a timeout ends the
    /// sandbox with it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the command, as dropping a [`Process`] does.
    pub async fn run(&self, command: Command) -> Result<Output> {
        // Nobody can write to a stdin that `run` leaves open, so `output` closes it.
        Process::begin(self.clone(), command, "run")?.output().await
    }

    /// Starts a command.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run) that come before it runs.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what may have been started.
    pub async fn start(&self, command: Command) -> Result<Process> {
        Process::start(self.clone(), command).await
    }

    /// Reaches a running command again, by the id that [`Process::id`] or [`Process::detach`] gave, here or in another
    /// client. What output comes is in the facts: [`Facts::replay_of_output`]. Several may watch one command; a [`Process`]
    /// from here leaves its command when it is dropped, and ends it by `kill` alone. `REATTACH`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for what is no id; `not-found` for an id that is unknown, or of a command that has
    /// ended and whose status the backend does not keep; `gone`; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the command stays as it is.
    pub async fn reattach(&self, request: Reattach) -> Result<Process> {
        Process::reattach(self.clone(), request).await
    }

    /// Its files.
    pub fn files(&self) -> Files {
        Files::new(self.clone())
    }

    /// Ends the sandbox, all its commands and its services; a [service](Self::service) ends alone. Idempotent; every caller can
    /// wait for it.
    ///
    /// # Errors
    ///
    /// `teardown-failed`, `teardown-timeout`: it may still be there, and is reported by
    /// [`Client::orphans`](crate::Client::orphans).
    ///
    /// # Cancel safety
    ///
    /// Once polled, the end goes on whoever waits.
    pub async fn close(&self) -> Result<()> {
        let lease = self.lease()?;
        let what = if lease.beside.is_some() { "the service was stopped" } else { "the sandbox was closed" };
        lease.end(Error::new(ErrorKind::Gone, what));
        lease.life.ended().await.map_err(lease.stamp("close"))
    }

    /// Lets the sandbox outlive its handles and its client; it ends at its lifetime, or by
    /// [`Client::destroy`](crate::Client::destroy). Its commands still end with their handles, unless they were
    /// [detached](Process::detach) too.
    ///
    /// # Errors
    ///
    /// `unsupported` where it could not be reached again (`ATTACH`); `gone`; the transport kinds.
    pub async fn detach(&self) -> Result<SandboxId> {
        let lease = self.lease()?;
        let stamp = lease.stamp("detach");
        lease.need(Capability::Attach).map_err(&stamp)?;
        lease.life.check().map_err(&stamp)?;
        if lease.facts.has(Capability::OwnerLease) {
            let instance = Arc::clone(&lease.instance);
            let work = async move { instance.get().detach().await };
            lease.spawner.operate("a detach", Some(Arc::clone(&lease.life)), work).await.map_err(&stamp)?;
        }
        lease.life.disown();
        Ok(lease.id.clone())
    }

    pub(crate) fn lease(&self) -> Result<&Lease> {
        Ok(&self.shared.get()?.lease)
    }

    pub(crate) fn engine(&self) -> Result<&Arc<Engine>> {
        Ok(&self.shared.get()?.engine)
    }

    /// The same sandbox without overrides.
    pub(crate) fn plain(&self) -> Self {
        Self { shared: self.shared.clone(), overrides: Arc::default() }
    }

    pub(crate) fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// No command outlives its sandbox.
    pub(crate) fn longest_command(&self) -> Duration {
        let lease = &self.shared.peek().lease;
        *lease.lifetime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("id", self.id()).field("backend", &self.facts().name()).finish_non_exhaustive()
    }
}
