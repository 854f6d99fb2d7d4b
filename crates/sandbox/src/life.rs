//! What is decided about one sandbox: under one lock, so that nothing starts once its end has a reason.

use crate::engine::{Workers, guard};
use sandbox_core::{Error, ErrorKind, Result, Tasks};
use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};
use tokio::{sync::watch, task::JoinSet};

pub(crate) struct Life {
    state: watch::Sender<State>,
    /// Whether the last handle ends the sandbox.
    owned: AtomicBool,
    crew: Mutex<Option<JoinSet<()>>>,
}

#[derive(Default)]
struct State {
    /// Close, last handle, escalation, death: whoever is first.
    reason: Option<Error>,
    /// Whether the sandbox itself is ended too, or left as it is.
    destroy: bool,
    /// Starting, running, or being killed one by one.
    commands: usize,
    over: Option<Result<()>>,
}

impl Life {
    pub(crate) fn new(owned: bool) -> Arc<Self> {
        Arc::new(Self { state: watch::Sender::default(), owned: owned.into(), crew: Mutex::new(Some(JoinSet::new())) })
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
        let mut refused = None;
        self.state.send_if_modified(|state| {
            refused.clone_from(&state.reason);
            state.commands += usize::from(refused.is_none());
            false
        });
        match refused {
            Some(reason) => Err(gone(reason)),
            None => Ok(Ticket(Arc::clone(self))),
        }
    }

    /// For an operation that nothing has to wait for.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.borrow().reason.clone().map_or(Ok(()), |reason| Err(gone(reason)))
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

fn gone(reason: Error) -> Error {
    Error::new(ErrorKind::Gone, format!("the sandbox has ended: {}", reason.message())).with_source(reason)
}

pub(crate) struct Ticket(Arc<Life>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.state.send_if_modified(|state| {
            state.commands -= 1;
            state.reason.is_some()
        });
    }
}
