//! What is decided about one sandbox: under one lock, so that nothing starts once its end has a reason.

use crate::engine::{Workers, guard};
use sandbox_core::{Error, ErrorKind, Result, Tasks};
use std::{
    future::{Future, pending},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub(crate) struct Life {
    state: watch::Sender<State>,
    /// Whether the last handle ends the sandbox.
    owned: AtomicBool,
    crew: Mutex<Option<JoinSet<()>>>,
    /// Whoever changes the phase holds it.
    pub(crate) shift: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    /// What it is the life of.
    what: &'static str,
    /// Close, last handle, escalation, death: whoever is first.
    reason: Option<Error>,
    /// Whether the sandbox itself is ended too, or left as it is.
    destroy: bool,
    /// Starting, running, or being killed one by one.
    commands: usize,
    over: Option<Result<()>>,
    phase: Phase,
    /// How often it was stopped.
    stops: u64,
    /// The end of its lifetime, in real time, where it is known.
    expires: Option<Instant>,
}

/// Whether a sandbox works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Running,
    /// Frozen, or being frozen or thawed.
    Paused,
    /// On its way to be stopped: what ends now, ends by that.
    Stopping,
    /// Its processes have ended; or it is on its way to run again.
    Stopped,
}

impl Phase {
    /// Pausing and stopping do not mix.
    pub(crate) fn turns_to(self, over: Self) -> Result<()> {
        match (self, over) {
            (Self::Paused, Self::Stopping | Self::Stopped) | (Self::Stopping | Self::Stopped, Self::Paused) => {
                self.check()
            }
            _ => Ok(()),
        }
    }

    fn check(self) -> Result<()> {
        match self {
            Self::Running => Ok(()),
            Self::Paused => Err(Error::new(ErrorKind::WrongState, "the sandbox is paused")
                .with_hint("call `Sandbox::resume` first; `close` works as it is")),
            Self::Stopping | Self::Stopped => Err(Error::new(ErrorKind::WrongState, "the sandbox is stopped")
                .with_hint("call `Sandbox::restart` first; `close` works as it is")),
        }
    }
}

impl Life {
    pub(crate) const SANDBOX: &'static str = "the sandbox";
    pub(crate) const SERVICE: &'static str = "the service";

    pub(crate) fn new(what: &'static str, owned: bool) -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(State { what, ..State::default() }),
            owned: owned.into(),
            crew: Mutex::new(Some(JoinSet::new())),
            shift: Arc::default(),
        })
    }

    /// From now on the sandbox outlives its handles.
    pub(crate) fn disown(&self) {
        self.owned.store(false, Ordering::SeqCst);
    }

    /// Begins the end of the sandbox. Idempotent; needs no runtime. Answers whether it was left before, so that it needs
    /// another closer.
    #[must_use = "a sandbox that was left needs another closer"]
    pub(crate) fn end(&self, reason: Error) -> bool {
        self.begin(reason, true)
    }

    /// Begins the end of our part in the sandbox; the sandbox itself stays if it is not ours.
    pub(crate) fn leave(&self, reason: Error) {
        self.begin(reason, self.owned.load(Ordering::SeqCst));
    }

    fn begin(&self, reason: Error, destroy: bool) -> bool {
        let mut left = false;
        self.state.send_if_modified(|state| {
            let more = destroy && !state.destroy;
            let changed = state.reason.is_none() || more;
            state.destroy |= destroy;
            state.reason.get_or_insert(reason);
            left = more && state.over.take().is_some();
            changed
        });
        left
    }

    async fn until<T>(&self, pick: impl Fn(&State) -> Option<T>) -> T {
        let mut state = self.state.subscribe();
        loop {
            if let Some(found) = pick(&state.borrow_and_update()) {
                return found;
            }
            let _ = state.changed().await; // Never an error: the sender is ours.
        }
    }

    /// Resolves with the reason once the end has begun.
    pub(crate) async fn ending(&self) -> Error {
        self.until(|state| state.reason.clone()).await
    }

    /// Resolves with what the end came to.
    pub(crate) async fn ended(&self) -> Result<()> {
        self.until(|state| state.over.clone()).await
    }

    /// Resolves when no command is left.
    pub(crate) async fn deserted(&self) {
        self.until(|state| (state.commands == 0).then_some(())).await;
    }

    /// Resolves while the sandbox works.
    pub(crate) async fn running(&self) {
        self.until(|state| (state.phase == Phase::Running).then_some(())).await;
    }

    /// States when its lifetime ends.
    pub(crate) fn expire(&self, at: Instant) {
        self.state.send_modify(|state| state.expires = Some(at));
    }

    /// Ends the sandbox at its lifetime: for as long as its provider cannot.
    pub(crate) async fn keep_lifetime(self: Arc<Self>, until: impl Future<Output = ()>) {
        let mut state = self.state.subscribe();
        let over = async {
            loop {
                let Some(at) = state.borrow_and_update().expires else { return pending().await };
                if Instant::now() >= at {
                    return;
                }
                // It may be another one meanwhile.
                tokio::select! { () = sleep_until(at) => {}, _ = state.changed() => {} }
            }
        };
        tokio::select! {
            () = until => {}
            _ = self.ending() => {}
            // The first reason there is, or `ending` would have come first: no other closer is needed.
            () = over => { let _ = self.end(Error::new(ErrorKind::Gone, "the sandbox's lifetime is over")); }
        }
    }

    /// Sets the phase; what it was.
    pub(crate) fn set_phase(&self, phase: Phase) -> Phase {
        let mut before = phase;
        self.state.send_if_modified(|state| {
            before = std::mem::replace(&mut state.phase, phase);
            state.stops += u64::from(before == Phase::Stopping && phase == Phase::Stopped);
            before != phase
        });
        before
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.state.borrow().reason.is_some()
    }

    pub(crate) fn is_to_be_destroyed(&self) -> bool {
        self.state.borrow().destroy
    }

    /// Says what the end came to; refused if the sandbox is to be destroyed by now and was only left.
    pub(crate) fn finish(&self, result: Result<()>, destroyed: bool) -> bool {
        self.state.send_if_modified(|state| {
            let decided = state.destroy == destroyed;
            if decided {
                state.over = Some(result);
            }
            decided
        })
    }

    /// For a command; the end of the sandbox waits for it.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Ticket> {
        let mut admitted = Ok(0);
        self.state.send_if_modified(|state| {
            admitted = state.check().map(|()| state.stops);
            state.commands += usize::from(admitted.is_ok());
            false
        });
        admitted.map(|stops| Ticket { life: Arc::clone(self), stops })
    }

    /// For an operation that nothing has to wait for.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.borrow().check()
    }

    /// For an operation on the sandbox itself, whatever its phase.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.state.borrow().alive()
    }

    /// The adapter's background tasks run in the crew. One that panics ends the sandbox, or our part in it.
    pub(crate) fn tasks(self: &Arc<Self>, workers: &Workers) -> Tasks {
        let (life, io) = (Arc::downgrade(self), workers.io.clone());
        Tasks::new(move |task| {
            let Some(here) = life.upgrade() else { return };
            let life = Weak::clone(&life);
            let work = async move {
                let task = async {
                    task.await;
                    Ok(())
                };
                if let (Err(panic), Some(life)) = (guard(task).await, life.upgrade()) {
                    life.leave(Error::new(ErrorKind::ConnectionLost, "a task of the sandbox died").with_source(panic));
                }
            };
            if let Some(crew) = &mut *here.crew.lock().unwrap_or_else(PoisonError::into_inner) {
                while crew.try_join_next().is_some() {}
                crew.spawn_on(work, &io);
            }
        })
    }

    pub(crate) fn dismiss(&self) {
        let crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(crew); // Outside the lock.
    }
}

impl State {
    fn alive(&self) -> Result<()> {
        let Some(reason) = self.reason.clone() else { return Ok(()) };
        let message = format!("{} has ended: {}", self.what, reason.message());
        Err(Error::new(ErrorKind::Gone, message).with_source(reason))
    }

    fn check(&self) -> Result<()> {
        self.alive()?;
        self.phase.check()
    }
}

/// One command's place in its sandbox.
pub(crate) struct Ticket {
    life: Arc<Life>,
    /// How often the sandbox had been stopped before.
    stops: u64,
}

impl Ticket {
    /// The same place, for whoever only looks.
    pub(crate) fn watcher(&self) -> Stops {
        Stops { life: Arc::clone(&self.life), before: self.stops }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.life.state.send_if_modified(|state| {
            state.commands -= 1;
            state.reason.is_some()
        });
    }
}

/// Whether a command's sandbox was stopped under it.
#[derive(Clone)]
pub(crate) struct Stops {
    life: Arc<Life>,
    before: u64,
}

impl Stops {
    /// Whether it is being stopped, or was.
    pub(crate) fn begun(&self) -> bool {
        let state = self.life.state.borrow();
        state.phase == Phase::Stopping || state.stops > self.before
    }

    /// Resolves once it was stopped.
    pub(crate) async fn done(&self) -> Error {
        self.life.until(|state| (state.stops > self.before).then_some(())).await;
        Error::new(ErrorKind::Gone, "the sandbox was stopped")
    }

    /// What a stop that is under way comes to; `None` where there was none.
    pub(crate) async fn outcome(&self) -> Option<Error> {
        let over = |state: &State| state.phase != Phase::Stopping || state.reason.is_some();
        let stopped = self.life.until(|state| over(state).then_some(state.stops > self.before)).await;
        if stopped { Some(self.done().await) } else { None }
    }
}
