//! One try to create a sandbox: the engine's side of the bargain that nothing half-made leaks.

use crate::{Boxed, Error, ErrorKind, Result, SandboxId};
use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
    time::{Duration, Instant},
};

/// The background work of one sandbox: readers, writers, keepalives. Aborted after `destroy`; one that panics has taken the
/// sandbox with it. Hand it clones of what it needs, never the instance.
#[derive(Clone)]
pub struct Tasks(Arc<dyn Fn(Boxed<'static, ()>) + Send + Sync>);

impl Tasks {
    /// Made by the engine; public so that an adapter's own tests can make one.
    pub fn new(spawn: impl Fn(Boxed<'static, ()>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    /// Runs a task beside the sandbox.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        (self.0)(Box::pin(task));
    }
}

/// One try to create a sandbox. A cheap clone; adapters may keep one.
#[derive(Clone)]
pub struct Attempt(Arc<Try>);

struct Try {
    marker: String,
    caller: Arc<Caller>,
    tasks: Tasks,
    claims: Mutex<Claims>,
    preparing: Mutex<Preparing>,
    repeated: AtomicBool,
}

enum Claims {
    Open(Vec<Claim>),
    /// The answer has been given; what is claimed now goes straight to its end.
    Settled(Arc<dyn Fn(Claim) + Send + Sync>),
}

#[derive(Default)]
struct Preparing {
    under_way: usize,
    since: Option<Instant>,
    before: Duration,
}

/// A sandbox that the try may have made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// Its id, or the name chosen for it.
    pub id: SandboxId,
    /// Chosen by us, not received: that it is not there may only mean that it is not there yet.
    pub expected: bool,
}

impl Attempt {
    /// Made by the engine; public so that an adapter's own tests can make one.
    pub fn new(marker: impl Into<String>, caller: Arc<Caller>, tasks: Tasks) -> Self {
        Self(Arc::new(Try {
            marker: marker.into(),
            caller,
            tasks,
            claims: Mutex::new(Claims::Open(Vec::new())),
            preparing: Mutex::default(),
            repeated: AtomicBool::new(false),
        }))
    }

    /// Unique across hosts. The engine puts it into the labels of the spec; where a provider keeps no labels but another
    /// kind of metadata, the adapter puts it there, so that a lost answer can be found again.
    pub fn marker(&self) -> &str {
        &self.0.marker
    }

    /// Whether the create was asked for before, with this marker, and its answer was lost: then there may be a sandbox of this
    /// marker, which nobody has used yet. `IDEMPOTENT_CREATE`.
    pub fn is_repeated(&self) -> bool {
        self.0.repeated.load(Ordering::SeqCst)
    }

    /// For the engine: the same create is about to be asked for again. Answers whether somebody still waits for it.
    pub fn repeat(&self) -> bool {
        self.0.repeated.store(true, Ordering::SeqCst);
        !self.0.caller.has_left()
    }

    /// Where the background work of this sandbox runs.
    pub fn tasks(&self) -> Tasks {
        self.0.tasks.clone()
    }

    /// Runs work that comes before the request that may provision: pull, build, wait for a slot. It ends with the caller,
    /// and its time counts against the prepare timeout, not against the create timeout.
    ///
    /// # Errors
    ///
    /// Those of `work`; `create-failed` once nobody waits any more.
    pub async fn before_dispatch<T>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let _preparing = self.prepare();
        let (mut work, mut gone) = (pin!(work), pin!(self.0.caller.gone()));
        poll_fn(|cx| match gone.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(Error::new(ErrorKind::CreateFailed, "nobody waits any more").applied(false)))
            }
            Poll::Pending => work.as_mut().poll(cx),
        })
        .await
    }

    /// How long this try has been inside [`before_dispatch`](Self::before_dispatch) so far. For the engine.
    pub fn prepared(&self) -> Duration {
        let preparing = lock(&self.0.preparing);
        preparing.before + preparing.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Claims an id received, in the expression that receives it: it is destroyed unless handed over, whatever becomes of
    /// the future.
    pub fn claim(&self, id: SandboxId) -> SandboxId {
        self.add(Claim { id: id.clone(), expected: false });
        id
    }

    /// Expects a name chosen by us, before it is sent. If the try ends in doubt, `destroy` is repeated for a while, because
    /// a request on its way may still be carried out; [`claim`](Self::claim) it when the answer has come. After a refusal that
    /// leaves no doubt, answer with an error that says so ([`Error::applied`]`(false)`): then one `destroy` is enough.
    pub fn expect(&self, id: SandboxId) -> SandboxId {
        self.add(Claim { id: id.clone(), expected: true });
        id
    }

    /// For the engine: everything claimed so far, except `keep` (a sandbox and its services), and from now on, goes to `end`.
    pub fn settle(&self, keep: &[SandboxId], end: impl Fn(Claim) + Send + Sync + 'static) {
        let end: Arc<dyn Fn(Claim) + Send + Sync> = Arc::new(end);
        let before = std::mem::replace(&mut *lock(&self.0.claims), Claims::Settled(Arc::clone(&end)));
        if let Claims::Open(all) = before {
            all.into_iter().filter(|claim| !keep.contains(&claim.id)).for_each(|claim| end(claim));
        }
    }

    fn add(&self, claim: Claim) {
        let end = match &mut *lock(&self.0.claims) {
            Claims::Settled(end) => Arc::clone(end),
            Claims::Open(all) => {
                all.retain(|other| other.id != claim.id);
                return all.push(claim);
            }
        };
        end(claim); // Outside the lock.
    }

    fn prepare(&self) -> impl Drop {
        struct Under<'a>(&'a Mutex<Preparing>);
        impl Drop for Under<'_> {
            fn drop(&mut self) {
                let mut preparing = lock(self.0);
                preparing.under_way -= 1;
                if preparing.under_way == 0 {
                    let since = preparing.since.take();
                    preparing.before += since.map_or(Duration::ZERO, |since| since.elapsed());
                }
            }
        }
        let mut preparing = lock(&self.0.preparing);
        preparing.under_way += 1;
        preparing.since.get_or_insert_with(Instant::now);
        drop(preparing);
        Under(&self.0.preparing)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("marker", &self.0.marker).finish_non_exhaustive()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tasks(…)")
    }
}

/// Whether somebody still waits for the answer. Needs no runtime: a flag and the wakers of whoever asks.
#[derive(Debug, Default)]
pub struct Caller(Mutex<(bool, Vec<Waker>)>);

impl Caller {
    /// Says that nobody waits any more.
    pub fn leave(&self) {
        let (_, wakers) = std::mem::replace(&mut *lock(&self.0), (true, Vec::new()));
        wakers.into_iter().for_each(Waker::wake); // Outside the lock: a waker may poll, and ask again.
    }

    /// Whether nobody waits any more.
    pub fn has_left(&self) -> bool {
        lock(&self.0).0
    }

    /// Resolves when nobody waits any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn gone(&self) {
        poll_fn(|cx| match &mut *lock(&self.0) {
            (true, _) => Poll::Ready(()),
            (false, wakers) => {
                if !wakers.iter().any(|w| w.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}

/// No invariant spans a panic here, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
