//! The way to the sandboxes of one backend.

use crate::{
    Sandbox,
    engine::{Engine, Here, Limits, Orphan, Spawner},
    lease, pages,
    ready::ready,
    validate::{self, need},
};
use sandbox_core::{Backend, Capability, Error, ErrorKind, Facts, Isolation, Listed, Query, Result, Spec};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Makes, finds and ends the sandboxes of one backend. Clones share it.
///
/// It owns an engine: threads on which all work of the backend runs, so that its futures may be awaited on any executor and
/// dropped at any time. The last handle (sandboxes and processes count) waits up to [`Limits::drop_grace`] for what is still
/// being ended.
#[derive(Clone)]
pub struct Client {
    engine: Here<Arc<Engine>>,
    defaults: Arc<Spec>,
}

/// Sets up a [`Client`].
#[must_use]
pub struct ClientBuilder {
    start: Box<dyn FnOnce(Limits) -> Result<Arc<Engine>> + Send>,
    defaults: Spec,
    limits: Limits,
}

impl ClientBuilder {
    pub(crate) fn new(backend: impl Backend) -> Self {
        Self {
            start: Box::new(move |limits| Engine::start(backend, limits)),
            defaults: Spec::default(),
            limits: Limits::default(),
        }
    }

    /// What specs leave open is taken from here.
    pub fn defaults(mut self, defaults: Spec) -> Self {
        self.defaults = defaults;
        self
    }

    /// The same as [`defaults`](Self::defaults), as a change of what is set by now.
    pub fn with_defaults(mut self, change: impl FnOnce(Spec) -> Spec) -> Self {
        self.defaults = change(self.defaults);
        self
    }

    /// The engine's own limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the engine.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for a limit of zero where that would end everything; `internal` where no thread can be started, or
    /// where the adapter's `info` panics.
    pub fn build(self) -> Result<Client> {
        let engine = (self.start)(self.limits)?;
        engine.spawner().limits.check()?; // Only now: the backend is dropped where it belongs.
        Ok(Client { engine: Here::new(engine), defaults: Arc::new(self.defaults) })
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Client {
    /// A client with all limits at their defaults. No I/O is done before the first operation.
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::build`].
    pub fn new(backend: impl Backend) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// Sets up a client.
    pub fn builder(backend: impl Backend) -> ClientBuilder {
        ClientBuilder::new(backend)
    }

    /// What the backend can do at most. Offline.
    pub fn facts(&self) -> &Facts {
        &self.engine.peek().spawner().facts
    }

    /// What specs leave open.
    pub fn defaults(&self) -> &Spec {
        &self.defaults
    }

    /// What the backend can do for this spec. Provisions nothing; the answer is kept.
    ///
    /// # Errors
    ///
    /// `backend-missing`, `auth`, the transport kinds; `internal` where the adapter claims more than its `info`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn probe(&self, spec: &Spec) -> Result<Facts> {
        let s = self.spawner("probe")?;
        let spec = spec.clone().or(&self.defaults);
        self.narrowed(s, spec).await.map(|(facts, _)| (*facts).clone()).map_err(|e| self.stamp("probe", e))
    }

    /// Makes a sandbox. What the spec leaves open is taken from the client's defaults.
    ///
    /// # Errors
    ///
    /// `invalid-argument`, `unsupported`, `isolation-too-weak`: nothing was sent. `create-timeout`, `create-failed`,
    /// `image-not-found`, `registry-unreachable`, `auth`, `quota-exceeded`, `capacity`, `rate-limited`, the transport kinds:
    /// what may have been made is ended, or reported by [`orphans`](Self::orphans).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the sandbox, not the duty to end it.
    pub async fn create(&self, spec: Spec) -> Result<Sandbox> {
        let s = self.spawner("create")?;
        self.make(s, spec).await.map_err(|error| self.stamp("create", error))
    }

    async fn make(&self, s: &Arc<Spawner>, spec: Spec) -> Result<Sandbox> {
        s.open()?;
        let spec = spec.or(&self.defaults);
        validate::spec(spec.clone(), &s.facts)?; // What is wrong offline is said offline.
        let (facts, spec) = self.narrowed(s, spec).await?;
        let spec = validate::spec(spec, &facts)?;
        warn_of_unknown(&facts);
        let lease = crate::engine::done(lease::create(s, facts, spec.clone(), None).await)?;
        let sandbox = Sandbox::new(lease, self.engine.get()?);
        let fit = async {
            // What only this very sandbox could tell.
            validate::spec(spec.clone(), sandbox.facts())?;
            ready(&sandbox, &spec).await
        };
        if let Err(error) = fit.await {
            let _ = sandbox.close().await; // A failure is reported by whoever ends the sandbox.
            return Err(error);
        }
        Ok(sandbox)
    }

    /// Runs a block with a sandbox of its own, which is ended however the block ends. Where only the teardown fails, the
    /// block's value is returned and the sandbox is reported by [`orphans`](Self::orphans).
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), and the block's own.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, and a panic in the block, end the sandbox.
    pub async fn scope<T, E: From<Error>>(
        &self,
        spec: Spec,
        block: impl AsyncFnOnce(&Sandbox) -> Result<T, E>,
    ) -> Result<T, E> {
        let sandbox = self.create(spec).await?;
        let result = block(&sandbox).await;
        let _ = sandbox.close().await; // A failure is reported by whoever ends the sandbox.
        result
    }

    /// Reaches a running sandbox by its id. Its handles leave it when they are dropped; `close` ends it. `ATTACH`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for what is no id; `not-found`; `gone` where the provider can tell; the transport
    /// kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the sandbox stays as it is.
    pub async fn attach(&self, id: impl AsRef<str>) -> Result<Sandbox> {
        let s = self.spawner("attach")?;
        let attached = async {
            s.open()?;
            need(&s.facts, Capability::Attach)?;
            let lease = lease::attach(s, validate::id(id.as_ref())?).await?;
            Ok(Sandbox::new(lease, self.engine.get()?))
        };
        attached.await.map_err(|error| self.stamp("attach", error))
    }

    /// The sandboxes that this library made on this backend, all pages of them. `LIST`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for a label; the transport kinds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, query: Query) -> Result<Vec<Listed>> {
        let s = self.spawner("list")?;
        let listed = pages::all(s, Capability::List, "a list", query, |backend, query| async move {
            backend.get().list(&query).await
        });
        listed.await.map_err(|error| self.stamp("list", error))
    }

    /// Ends a sandbox by its id, whoever made it. Gone is `Ok`.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for what is no id; `teardown-failed`, `teardown-timeout`.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the end goes on whoever waits.
    pub async fn destroy(&self, id: impl AsRef<str>) -> Result<()> {
        let s = self.spawner("destroy")?;
        let id = validate::id(id.as_ref()).map_err(|error| self.stamp("destroy", error))?;
        let (tell, told) = tokio::sync::oneshot::channel();
        let s2 = Arc::clone(s);
        s.watch(format!("sandbox {id}"), async move {
            let _ = tell.send(s2.end(&id, &std::collections::BTreeMap::new()).await);
        });
        crate::engine::done(told.await).map_err(|error| self.stamp("destroy", error))
    }

    /// What may still be there although it should not: the latest thousand reports. Each was also a `tracing` warning.
    pub fn orphans(&self) -> Vec<Orphan> {
        self.engine.get().map(|engine| engine.spawner().workers.open.orphans()).unwrap_or_default()
    }

    /// Waits by the backend's clock, which may be virtual.
    pub async fn sleep(&self, duration: Duration) {
        if let Ok(s) = self.spawner("sleep") {
            let (tell, told) = tokio::sync::oneshot::channel::<()>();
            let s2 = Arc::clone(s);
            s.time.spawn(async move {
                let mut tell = tell;
                tokio::select! { () = tell.closed() => {}, _ = s2.pass(duration) => {} }
            });
            let _ = told.await;
        }
    }

    /// Ends every sandbox of this client, whoever holds it, and waits until nothing is under way any more; attached and
    /// detached ones are left. Nothing can be created or attached afterwards. Idempotent.
    ///
    /// # Errors
    ///
    /// `teardown-timeout` after the teardown limit; what is left is named. `teardown-failed` where a sandbox could not be
    /// ended: each of those is reported by [`orphans`](Self::orphans).
    ///
    /// # Cancel safety
    ///
    /// Once polled, the end goes on whoever waits.
    pub async fn close(&self) -> Result<()> {
        let s = self.spawner("close")?;
        let ending = s.close();
        let (tell, told) = tokio::sync::oneshot::channel();
        let (open, limit) = (Arc::clone(&s.workers.open), s.limits.teardown);
        s.time.spawn(async move {
            let late = tokio::time::timeout(limit, open.idle()).await.is_err();
            let _ = tell.send(if late { open.under_way() } else { Vec::new() });
        });
        let left = told.await.unwrap_or_default();
        if left.is_empty() {
            for life in ending {
                life.ended().await.map_err(|error| self.stamp("close", error))?;
            }
            return Ok(());
        }
        let error =
            Error::new(ErrorKind::TeardownTimeout, format!("still under way after {limit:?}: {}", left.join(", ")));
        Err(self.stamp("close", error.with_hint("look at `orphans`; what expires is found by `sweep`")))
    }

    pub(crate) async fn narrowed(&self, s: &Arc<Spawner>, spec: Spec) -> Result<(Arc<Facts>, Spec)> {
        let s2 = Arc::clone(s);
        let asked = async move {
            let key = s2.backend.get().probe_key(&spec);
            if let Some(known) = lock(&s2.probed).get(&key) {
                return Ok((Arc::clone(known), spec));
            }
            let Some(probed) = s2.backend.get().probe(&spec).await? else {
                return Ok((Arc::clone(&s2.facts), spec));
            };
            let beyond = probed.beyond(&s2.facts);
            if !beyond.is_empty() {
                let message = format!("the adapter's probe claims more than its info: {}", beyond.join(", "));
                return Err(Error::new(ErrorKind::Internal, message).with_hint("facts may only narrow"));
            }
            let facts = Arc::new(s2.facts.narrowed(&probed));
            lock(&s2.probed).insert(key, Arc::clone(&facts));
            Ok((facts, spec))
        };
        s.operate("a probe", None, asked).await
    }

    pub(crate) fn spawner(&self, operation: &'static str) -> Result<&Arc<Spawner>> {
        self.engine.get().map(|engine| engine.spawner()).map_err(|error| error.with_operation(operation))
    }

    pub(crate) fn stamp(&self, operation: &'static str, error: Error) -> Error {
        error.with_operation(operation).with_backend(self.facts().name().to_string())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("backend", &self.facts().name()).finish_non_exhaustive()
    }
}

/// Once per backend and process.
fn warn_of_unknown(facts: &Facts) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if facts.tier() == Isolation::Unknown && lock(&WARNED).insert(facts.name().to_string()) {
        let _ = crate::engine::quietly(|| {
            tracing::warn!(backend = facts.name(), "the isolation of this backend is unknown");
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
