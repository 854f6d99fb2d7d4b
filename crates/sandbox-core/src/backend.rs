//! The trait of a place that makes sandboxes.

use crate::{
    Attempt, Body, BuildImage, Clock, Error, Facts, ForkSandbox, Instance, ListedSnapshot, Page, Query, Result,
    SandboxId, SnapshotId, Spec, Tasks,
};
use std::{collections::BTreeMap, future::Future, sync::Arc};

/// A place that makes sandboxes.
///
/// What authors owe, and may rely on:
///
/// - **Where it runs.** Every call, poll and drop of an adapter's objects happens on the engine's I/O workers, inside its
///   tokio runtime: sockets and timers work, and a client built lazily belongs to them. Do not block.
/// - **No policy.** Specs and commands arrive validated and resolved; what the facts exclude never arrives.
/// - **State** lives in the backend and what it makes: one backend, one client; `destroy` knows only an id.
/// - **A cut future.** Any call may be dropped at an await, after its limit. Claims are then destroyed; a `spawn` that was
///   cut costs the sandbox.
/// - **Tasks** go through [`Tasks`], not `tokio::spawn`: they are the sandbox's. A panic elsewhere is an error of its call
///   alone.
pub trait Backend: Send + Sync + 'static {
    /// A live sandbox of this backend.
    type Instance: Instance;

    /// What this backend can do at most. Offline, instant, asked once, when the client is made.
    fn info(&self) -> Facts;

    /// Makes a sandbox. The network policy is in force before the first process of a user can start. Where `IDEMPOTENT_CREATE`
    /// is declared, it is called again with the same attempt after an answer that was lost, and then gives the sandbox that is
    /// there, or one in its place: never a second one. A definition never arrives here: the engine has put the
    /// image in its place.
    ///
    /// Where the spec has services, they are made with it and handed over by [`Made::service`]. Each has an id of its own,
    /// claimed like the sandbox's, and is in no list. `SERVICES`.
    ///
    /// # Errors
    ///
    /// `image-not-found`, `not-found` for the spec's snapshot, `registry-unreachable`, `auth`, `quota-exceeded`, `capacity`, `create-failed` and the transport
    /// kinds; also `unsupported` for what only the engine could tell. Whether something may have been made is said by
    /// [`Error::may_have_applied`], and by what was claimed from the [`Attempt`].
    fn create(&self, spec: &Spec, attempt: &Attempt) -> impl Future<Output = Result<Made<Self::Instance>>> + Send;

    /// Ends the sandbox, all that runs in it, and its services. The id of a service ends that service alone. Gone is `Ok`,
    /// also where it was never there.
    ///
    /// # Errors
    ///
    /// `teardown-failed` where the provider refuses, and the transport kinds.
    fn destroy(&self, id: &SandboxId) -> impl Future<Output = Result<()>> + Send;

    /// Facts narrower than [`info`](Self::info), for this spec, without provisioning. `None` narrows nothing.
    ///
    /// # Errors
    ///
    /// `backend-missing`, `auth`, and the transport kinds.
    fn probe(&self, _spec: &Spec) -> impl Future<Output = Result<Option<Facts>>> + Send {
        async { Ok(None) }
    }

    /// What parts of a spec [`probe`](Self::probe) depends on, as a key: specs with equal keys share one answer.
    fn probe_key(&self, _spec: &Spec) -> String {
        String::new()
    }

    /// Reaches a running sandbox by its id, with the services that it still has. Called where `ATTACH` is declared.
    ///
    /// # Errors
    ///
    /// `not-found` for an unknown id and for that of a service, `gone` where the provider can tell that it was there.
    fn attach(&self, _id: &SandboxId, _tasks: &Tasks) -> impl Future<Output = Result<Made<Self::Instance>>> + Send {
        async { Err(Error::unsupported("this backend cannot attach")) }
    }

    /// One page of the sandboxes that this library made, by labels. Called where `LIST` is declared.
    ///
    /// # Errors
    ///
    /// The transport kinds.
    fn list(&self, _query: &Query) -> impl Future<Output = Result<Page>> + Send {
        async { Err(Error::unsupported("this backend cannot list")) }
    }

    /// Makes a copy of a live sandbox, which goes on. What [`create`](Self::create) says of the attempt holds here too. A copy
    /// without the services of its source has facts without `SERVICES`. `FORK`.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), and `gone` for the source.
    fn fork(
        &self,
        _source: &SandboxId,
        _request: &ForkSandbox,
        _attempt: &Attempt,
    ) -> impl Future<Output = Result<Made<Self::Instance>>> + Send {
        async { Err(Error::unsupported("this backend cannot copy sandboxes")) }
    }

    /// Deletes a snapshot. Gone is `Ok`, also where it was never there. `SNAPSHOT`.
    ///
    /// # Errors
    ///
    /// `wrong-state` where sandboxes still need it, and the transport kinds.
    fn delete_snapshot(&self, _id: &SnapshotId) -> impl Future<Output = Result<()>> + Send {
        async { Err(Error::unsupported("this backend has no snapshots")) }
    }

    /// One page of the snapshots that this library made, by labels. `SNAPSHOT_LIST`.
    ///
    /// # Errors
    ///
    /// The transport kinds.
    fn list_snapshots(&self, _query: &Query) -> impl Future<Output = Result<Page<ListedSnapshot>>> + Send {
        async { Err(Error::unsupported("this backend cannot list snapshots")) }
    }

    /// The name for [`Spec::image`] of an image made from this definition: found by the digest where it is there, unless a
    /// rebuild is asked for, else built. The context is a tar; one that is not needed need not be read. Dropping the future
    /// ends the build. `BUILD`.
    ///
    /// # Errors
    ///
    /// `create-failed` as [`BuildImage::step_failed`] makes it, for a step that fails; `image-not-found` and
    /// `registry-unreachable` for what it is based on; `invalid-argument` for a text that is no Dockerfile, `unsupported` for
    /// an instruction that the backend does not know; those of the context, and the transport kinds.
    fn build(&self, _request: &BuildImage, _context: Body) -> impl Future<Output = Result<String>> + Send {
        async { Err(Error::unsupported("this backend cannot build images")) }
    }

    /// The clock of users' deadlines; `None` is real time. Asked once, when the client is made.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }
}

/// A sandbox as its backend hands it over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Made<I> {
    /// Its id, as the provider knows it.
    pub id: SandboxId,
    /// What this very sandbox can do, where that is less than the backend can.
    pub facts: Option<Facts>,
    /// Its working directory, absolute: what relative paths and commands without a directory start from.
    pub cwd: Option<String>,
    /// uid and gid of its own user, where that is known without asking inside.
    pub ids: Option<(u32, u32)>,
    /// The way into it.
    pub instance: I,
    /// What runs beside it, by name; services have none of their own. `SERVICES`.
    pub services: BTreeMap<String, Self>,
}

impl<I> Made<I> {
    /// A sandbox with the facts of its backend. Its working directory is that of the spec, else `/`.
    pub fn new(id: SandboxId, instance: I) -> Self {
        Self { id, facts: None, cwd: None, ids: None, instance, services: BTreeMap::new() }
    }

    /// Narrows what this very sandbox can do.
    pub fn facts(mut self, facts: Facts) -> Self {
        self.facts = Some(facts);
        self
    }

    /// States its working directory, an absolute path.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// States uid and gid of its own user.
    pub fn ids(mut self, uid: u32, gid: u32) -> Self {
        self.ids = Some((uid, gid));
        self
    }

    /// Adds a service by its name: what runs beside it, handed over as a sandbox is.
    pub fn service(mut self, name: impl Into<String>, service: Self) -> Self {
        self.services.insert(name.into(), service);
        self
    }

    /// The same sandbox, and the same services, with other instances, for wrappers.
    pub fn map<J>(self, mut map: impl FnMut(I) -> J) -> Made<J> {
        self.each(&mut map)
    }

    fn each<J>(self, map: &mut impl FnMut(I) -> J) -> Made<J> {
        let instance = map(self.instance);
        let services = self.services.into_iter().map(|(name, service)| (name, service.each(&mut *map))).collect();
        Made { id: self.id, facts: self.facts, cwd: self.cwd, ids: self.ids, instance, services }
    }
}
