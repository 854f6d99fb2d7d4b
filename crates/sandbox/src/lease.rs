//! The duty to end one sandbox, from the try to create it to its one end.

use crate::{
    build,
    closer::Closer,
    engine::{Held, Orphan, Spawner, done},
    erase::{DynInstance, DynMade},
    life::Life,
    service::Beside,
};
use sandbox_core::{
    Attempt, Caller, Error, ErrorKind, Facts, ForkSandbox, NetworkPolicy, Result, SandboxId, Service, Spec, labels,
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout},
};

/// One try to create, or to copy a source, watched from beside. The create timeout and a caller who leaves are the same event: an answer that comes late is
/// still caught, and ended.
pub(crate) fn create(
    s: &Arc<Spawner>,
    facts: Arc<Facts>,
    mut spec: Spec,
    source: Option<SandboxId>,
) -> oneshot::Receiver<Result<Box<Lease>>> {
    let (mut answer, made) = oneshot::channel();
    let (s, life, caller) = (Arc::clone(s), Life::new(Life::SANDBOX, true), Arc::new(Caller::default()));
    let attempt = Attempt::new(marker(), Arc::clone(&caller), life.tasks(&s.workers));
    if facts.has(sandbox_core::Capability::Labels) {
        stamp(&mut spec, attempt.marker());
    }
    let s2 = Arc::clone(&s);
    s2.watch(format!("a create, {}", attempt.marker()), async move {
        // Counted by now, so a client that is being closed either sees it or is seen.
        if let Err(closed) = s.open() {
            let _ = answer.send(Err(closed));
            return;
        }
        let limits = (spec.effective_create_timeout(), spec.effective_prepare_timeout());
        let labels = Arc::new(spec.labels.clone());
        let mut work = s.workers.run({
            let (s, attempt, life, labels) = (Arc::clone(&s), attempt.clone(), Arc::clone(&life), Arc::clone(&labels));
            async move {
                let backend = s.backend.get();
                let made = match source {
                    None => build::create(&s, &facts, &mut spec, &attempt).await?,
                    Some(source) => {
                        let mut request = ForkSandbox::new();
                        (request.labels, request.lifetime) = (spec.labels.clone(), spec.lifetime);
                        backend.fork(&source, &request, &attempt).await?
                    }
                };
                let lifetime = Some(spec.effective_lifetime());
                let command_timeout = spec.effective_command_timeout();
                let Spec { network, cwd, services, .. } = spec;
                let terms = Terms { facts, labels, command_timeout, lifetime, network, cwd, services };
                Ok(Lease::new(&s, made, life, terms))
            }
        });
        let in_time = tokio::select! {
            told = &mut work => Some(told),
            () = answer.closed() => None,
            late = too_late(&attempt, limits) => {
                let _ = std::mem::replace(&mut answer, oneshot::channel().0).send(Err(late));
                None
            }
        };
        let told = match in_time {
            Some(told) => told,
            None => {
                caller.leave();
                timeout(s.limits.late, work).await.unwrap_or_else(|_| {
                    let mut orphan = Orphan::new("a create that was given up had no answer".into(), Some(&s));
                    (orphan.marker, orphan.labels) = (Some(attempt.marker().to_string()), (*labels).clone());
                    s.workers.open.report(orphan);
                    Ok(Err(Error::new(ErrorKind::CreateTimeout, "no answer")))
                })
            }
        };
        let made = done(told);
        // A lease that is refused is a duty too.
        let kept = made.as_ref().map_or_else(|_| Vec::new(), |(lease, _)| lease.ids());
        let doubt = made.as_ref().err().is_none_or(Error::may_have_applied);
        if made.is_err() {
            life.dismiss();
        }
        let (weak, marker) = (Arc::downgrade(&s), attempt.marker().to_string()); // Adapters may keep an attempt.
        attempt.settle(&kept, move |claim| {
            let Some(s) = weak.upgrade() else { return };
            let (marker, labels) = (marker.clone(), Arc::clone(&labels));
            let s2 = Arc::clone(&s);
            s2.watch(format!("sandbox {}", claim.id), async move {
                if claim.expected && doubt {
                    s.end_in_doubt(&claim.id, &marker, &labels).await;
                } else {
                    drop(s.end(&claim.id, &labels).await);
                }
            });
        });
        let made = made.and_then(|(lease, fit)| fit.map(|()| lease));
        let _ = answer.send(made); // If nobody takes it, the lease inside is dropped, and that ends it.
    });
    made
}

/// Reaches a sandbox that is there already.
pub(crate) async fn attach(s: &Arc<Spawner>, id: SandboxId) -> Result<Box<Lease>> {
    let (s2, life) = (Arc::clone(s), Life::new(Life::SANDBOX, false));
    s.operate("an attach", None, async move {
        s2.open()?;
        let made = s2.backend.get().attach(&id, &life.tasks(&s2.workers)).await?;
        let terms = Terms {
            facts: Arc::clone(&s2.facts),
            labels: Arc::default(),
            command_timeout: Spec::COMMAND_TIMEOUT,
            lifetime: None,
            network: None,
            cwd: None,
            services: BTreeMap::new(),
        };
        let (lease, fit) = Lease::new(&s2, made, life, terms);
        fit.map(|()| lease)
    })
    .await
}

/// Resolves with the error of a create that takes too long. Time spent preparing counts against its own limit.
async fn too_late(attempt: &Attempt, (create, prepare): (Duration, Duration)) -> Error {
    let begun = Instant::now();
    loop {
        let prepared = attempt.prepared();
        if prepared >= prepare {
            let message = format!("preparing the image or template was not over within {prepare:?}");
            return Error::new(ErrorKind::CreateTimeout, message)
                .with_hint("raise the spec's `prepare_timeout`, or prepare it before")
                .applied(false);
        }
        if begun.elapsed() >= create.saturating_add(prepared) {
            return Error::new(ErrorKind::CreateTimeout, format!("no sandbox within {create:?}"))
                .with_hint("raise the spec's `create_timeout`");
        }
        let next = create.saturating_add(prepared).min(begun.elapsed().saturating_add(prepare - prepared));
        match begun.checked_add(next.max(begun.elapsed() + Duration::from_millis(1))) {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

fn stamp(spec: &mut Spec, marker: &str) {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
    let expires = now.saturating_add(spec.effective_lifetime().as_secs());
    for (name, value) in [
        (labels::MARKER, marker.to_string()),
        (labels::CREATED, now.to_string()),
        (labels::EXPIRES, expires.to_string()),
    ] {
        spec.labels.insert(name.into(), value);
    }
}

/// 128 random bits, from the keys that the system gave this thread; the time stands against a machine that was copied.
pub(crate) fn marker() -> String {
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u128(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_nanos()));
        hasher.write_u32(std::process::id());
        hasher.finish()
    };
    format!("sb-{:016x}{:016x}", half(), half())
}

/// What a lease is made on.
struct Terms {
    facts: Arc<Facts>,
    labels: Arc<BTreeMap<String, String>>,
    command_timeout: Duration,
    lifetime: Option<Duration>,
    network: Option<NetworkPolicy>,
    cwd: Option<String>,
    /// Those that were asked for.
    services: BTreeMap<String, Service>,
}

/// Where a lease stands among others.
struct Kin {
    beside: Option<Beside>,
    /// The life of the sandbox that it is a service of.
    of: Option<Arc<Life>>,
    services: BTreeMap<String, Arc<Lease>>,
    /// The working directory that was asked for.
    cwd: Option<String>,
}

/// The duty to end one sandbox, made in the expression that receives it; or, of a service, what it takes to work in it.
pub(crate) struct Lease {
    pub(crate) id: SandboxId,
    pub(crate) facts: Arc<Facts>,
    /// Absolute.
    pub(crate) cwd: String,
    /// uid and gid of the sandbox's own user, once they are known.
    pub(crate) ids: Mutex<Option<(u32, u32)>>,
    pub(crate) command_timeout: Duration,
    /// From whatever set it last.
    pub(crate) lifetime: Arc<Mutex<Duration>>,
    /// The policy in force, where it is known.
    pub(crate) network: Arc<Mutex<Option<NetworkPolicy>>>,
    /// When we made it.
    pub(crate) born: Option<Instant>,
    pub(crate) instance: Arc<Held<Box<dyn DynInstance>>>,
    pub(crate) life: Arc<Life>,
    pub(crate) spawner: Arc<Spawner>,
    /// What runs beside it.
    pub(crate) services: BTreeMap<String, Arc<Self>>,
    /// Of a service.
    pub(crate) beside: Option<Beside>,
    closer: Arc<Closer>,
    /// What its adapter claims that it may not.
    beyond: Vec<String>,
}

impl Lease {
    /// With it comes whether it can be handed over.
    fn new(s: &Arc<Spawner>, mut made: DynMade, life: Arc<Life>, terms: Terms) -> (Box<Self>, Result<()>) {
        if let Some(at) = terms.lifetime.and_then(|lifetime| Instant::now().checked_add(lifetime)) {
            life.expire(at);
        }
        let lifetime = Arc::new(Mutex::new(terms.lifetime.unwrap_or(Duration::MAX)));
        let services = std::mem::take(&mut made.services).into_iter().map(|(name, service)| {
            let beside = Some(Beside::new(&name, &made.id));
            let cwd = terms.services.get(&name).and_then(|asked| asked.cwd.clone());
            let kin = Kin { beside, of: Some(Arc::clone(&life)), services: BTreeMap::new(), cwd };
            (name, Arc::new(Self::of(s, service, Life::new(Life::SERVICE, false), &terms, &lifetime, kin)))
        });
        let services = services.collect();
        let kin = Kin { beside: None, of: None, services, cwd: terms.cwd.clone() };
        let lease = Box::new(Self::of(s, made, life, &terms, &lifetime, kin));
        let fit = lease.fit(&terms);
        (lease, fit)
    }

    fn of(
        s: &Arc<Spawner>,
        made: DynMade,
        life: Arc<Life>,
        terms: &Terms,
        lifetime: &Arc<Mutex<Duration>>,
        mut kin: Kin,
    ) -> Self {
        let instance = Arc::new(s.workers.hold(made.instance));
        let beyond = made.facts.as_ref().map_or_else(Vec::new, |own| own.beyond(&terms.facts));
        let mut facts = made.facts.map_or_else(|| Arc::clone(&terms.facts), |own| Arc::new(terms.facts.narrowed(&own)));
        if let Some(beside) = &mut kin.beside {
            facts = Arc::new(beside.narrow(&facts));
        }
        life.tasks(&s.workers).spawn({
            let (instance, life) = (Arc::clone(&instance), Arc::downgrade(&life));
            async move {
                let error = instance.get().gone().await;
                let _ = life.upgrade().map(|life| life.leave(error));
            }
        });
        let closer = Arc::new(Closer {
            spawner: Arc::clone(s),
            id: made.id.clone(),
            life: Arc::clone(&life),
            labels: Arc::clone(&terms.labels),
            of: kin.of,
            services: kin.services.values().map(|service| Arc::clone(&service.closer)).collect(),
        });
        closer.attend();
        Self {
            id: made.id,
            facts,
            cwd: made.cwd.or(kin.cwd).unwrap_or_else(|| "/".into()),
            ids: Mutex::new(made.ids),
            command_timeout: terms.command_timeout,
            lifetime: Arc::clone(lifetime),
            network: Arc::new(Mutex::new(terms.network.clone())),
            born: terms.lifetime.map(|_| Instant::now()),
            instance,
            life,
            spawner: Arc::clone(s),
            services: kin.services,
            beside: kin.beside,
            closer,
            beyond,
        }
    }

    fn fit(&self, terms: &Terms) -> Result<()> {
        self.spawner.admit(&self.life)?;
        if let Some(missing) = terms.services.keys().find(|name| !self.services.contains_key(*name)) {
            let message = format!("the sandbox was made without its service `{missing}`");
            return Err(
                Error::new(ErrorKind::Internal, message).with_hint("the adapter hands it over by `Made::service`")
            );
        }
        std::iter::once(self).chain(self.services.values().map(|service| &**service)).try_for_each(Self::is_honest)
    }

    fn is_honest(&self) -> Result<()> {
        let service = self.beside.as_ref().map(|beside| format!("service `{}`", beside.name));
        let what = service.as_deref().unwrap_or("the sandbox");
        crate::validate::absolute(&self.cwd, &format!("the working directory of {what}"))
            .map_err(|error| error.with_kind(ErrorKind::Internal).with_hint("the adapter's `Made::cwd` is absolute"))?;
        if self.beyond.is_empty() {
            return Ok(());
        }
        let message = format!("{what} claims more than its backend has: {}", self.beyond.join(", "));
        Err(Error::new(ErrorKind::Internal, message).with_hint("the adapter's facts may only narrow"))
    }

    /// Its id and those of its services.
    fn ids(&self) -> Vec<SandboxId> {
        std::iter::once(&self.id).chain(self.services.values().map(|service| &service.id)).cloned().collect()
    }

    /// Ends it, also where it was left before. Needs no runtime.
    pub(crate) fn end(&self, reason: Error) {
        self.closer.end(reason);
    }

    /// The same error, with what is known here.
    pub(crate) fn stamp(&self, operation: &'static str) -> impl Fn(Error) -> Error + use<'_> {
        move |error| error.with_operation(operation).with_backend(self.facts.name().to_string()).with_sandbox(&self.id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.life.leave(Error::new(ErrorKind::Gone, "nobody holds this sandbox any more"));
    }
}
