//! How a command ended: decided once, by whoever moves it on first.

use crate::{engine::Held, erase::DynControl};
use sandbox_core::{Cause, Ended, Error, ErrorKind, Fate, ProcessId, Result, Status};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::sync::watch;

#[derive(Clone, Default)]
pub(crate) enum End {
    #[default]
    Starting,
    Running,
    /// The program's end was seen. Nothing later unmakes that.
    Exited(Ended),
    /// The watch is ending it; what the program says from now on is the echo of that.
    Ending,
    Over(Result<Ended>),
}

pub(crate) type Handle = Arc<Held<Box<dyn DynControl>>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) end: watch::Sender<End>,
    pub(crate) begun: OnceLock<()>,
    control: Mutex<Option<Handle>>,
    /// What reaches it again.
    pub(crate) id: OnceLock<ProcessId>,
    /// The command outlives its handle.
    stays: AtomicBool,
    /// Its input too: the handle went without closing it.
    pub(crate) input_stays: AtomicBool,
    /// Why input is no longer taken.
    pub(crate) input: OnceLock<Error>,
}

impl State {
    /// Moves on, if `next` says where to from here; answers what was before.
    pub(crate) fn advance(&self, next: impl FnOnce(&End) -> Option<End>) -> End {
        let mut before = End::Starting;
        self.end.send_if_modified(|end| {
            let to = next(end);
            let moved = to.is_some();
            before = match to {
                Some(to) => std::mem::replace(end, to),
                None => end.clone(),
            };
            moved
        });
        before
    }

    pub(crate) fn over(&self, result: Result<Ended>) {
        self.advance(|end| (!matches!(end, End::Over(_))).then_some(End::Over(result)));
    }

    pub(crate) fn over_by_itself(&self, ended: Ended) {
        self.over(match ended.cause {
            Cause::Deadline => {
                Err(Error::new(ErrorKind::ExecutionTimeout, "ended inside at its deadline").with_fate(Fate::Dead))
            }
            Cause::OutOfMemory => Err(Error::new(ErrorKind::ResourceExhausted, "the command hit the memory cap")
                .with_hint("raise the spec's memory, or let the command use less")
                .with_fate(Fate::Dead)),
            _ => Ok(ended),
        });
    }

    /// From now on the command outlives its handle.
    pub(crate) fn stay(&self) {
        self.stays.store(true, SeqCst);
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays.load(SeqCst)
    }

    pub(crate) fn control(&self) -> Option<Handle> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_control(&self, control: Option<Handle>) -> Option<Handle> {
        std::mem::replace(&mut *self.control.lock().unwrap_or_else(PoisonError::into_inner), control)
    }
}

/// Whether a death looks like somebody else's doing.
pub(crate) fn by_kill(ended: &Ended) -> bool {
    ended.cause == Cause::Program && matches!(ended.status, Status::Signal(9) | Status::Code(137))
}
