//! Sandboxes that stand still: their processes are not polled, and what comes due for them waits.

use super::{After, Kernel, State, Task, Timer, room::Room};
use sandbox_core::{Cause, Error, ErrorKind, Signal};
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
};

/// What is kept for later while a sandbox is frozen.
#[derive(Debug, Default)]
pub(crate) struct Freezer {
    /// Whoever polls its processes looks here first, without a lock.
    frozen: Arc<AtomicBool>,
    tasks: Vec<Arc<Task>>,
    /// Of programs on threads of their own.
    pub(super) wakers: Vec<Waker>,
    late: Vec<Timer>,
}

impl Freezer {
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.frozen)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(SeqCst)
    }
}

impl Room {
    /// That commands and files can be used.
    pub(crate) fn works(&self) -> Result<(), Error> {
        let (what, hint) = match (self.stopped, self.freezer.is_frozen()) {
            (true, _) => ("the sandbox is stopped", "restart it first"),
            (false, true) => ("the sandbox is paused", "resume it first"),
            (false, false) => return Ok(()),
        };
        Err(Error::new(ErrorKind::WrongState, what).with_hint(hint).applied(false))
    }
}

impl State {
    /// A sandbox whose commands and files can be used.
    pub(crate) fn working(&mut self, room: u64) -> Result<&mut Room, Error> {
        let room = self.room(room)?;
        room.works()?;
        Ok(room)
    }

    /// Keeps for later what comes due for a frozen sandbox; the timer where it does not wait.
    pub(super) fn postpone(&mut self, timer: Timer) -> Option<Timer> {
        let (Timer::Deadline(room, _) | Timer::Term(room, _)) = timer else { return Some(timer) };
        match self.rooms.get_mut(&room) {
            Some(room) if room.freezer.is_frozen() => {
                room.freezer.late.push(timer);
                None
            }
            _ => Some(timer),
        }
    }

    /// Ends every process of a sandbox; its files stay.
    pub(crate) fn stop(&mut self, number: u64, after: &mut After) -> Result<(), Error> {
        let room = self.room(number)?;
        if room.freezer.is_frozen() {
            return room.works();
        }
        room.stopped = true;
        self.end_processes(number, after);
        Ok(())
    }

    pub(crate) fn restart(&mut self, number: u64) -> Result<(), Error> {
        let room = self.room(number)?;
        if room.freezer.is_frozen() {
            return room.works();
        }
        room.stopped = false;
        Ok(())
    }

    fn thaw(&mut self, kernel: &Kernel, number: u64, after: &mut After) -> Result<(), Error> {
        let freezer = &mut self.room(number)?.freezer;
        freezer.frozen.store(false, SeqCst);
        after.wakers.append(&mut freezer.wakers);
        let (tasks, late) = (std::mem::take(&mut freezer.tasks), std::mem::take(&mut freezer.late));
        for timer in late {
            self.fire(timer, after);
        }
        tasks.iter().for_each(|task| kernel.ready(task));
        Ok(())
    }

    /// What a deadline does, or TERM before it.
    pub(super) fn fire(&mut self, timer: Timer, after: &mut After) {
        match timer {
            Timer::Deadline(room, command) => self.kill_command(room, command, Cause::Deadline, after),
            Timer::Term(room, command) => {
                let main = self.rooms.get(&room).and_then(|room| room.commands.get(&command)).map(|c| c.main);
                if let Some(main) = main {
                    self.signal(room, main, Signal::Terminate.number(), after);
                }
            }
            _ => {}
        }
    }
}

impl Kernel {
    /// Freezes a sandbox; none of its programs is being polled any more when this answers.
    pub(crate) async fn freeze(self: &Arc<Self>, room: u64) -> Result<(), Error> {
        self.stir();
        self.with(|state, _| {
            let room = state.room(room)?;
            if room.stopped {
                return room.works();
            }
            room.freezer.frozen.store(true, SeqCst);
            Ok(())
        })?;
        poll_fn(|cx| {
            if self.turn().is_some() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Ok(())
    }

    pub(crate) fn unfreeze(self: &Arc<Self>, room: u64) -> Result<(), Error> {
        self.act(|state, after| state.thaw(self, room, after))
    }

    /// Keeps a process of a frozen sandbox until it goes on; false where it may run.
    pub(super) fn shelve(&self, task: &Arc<Task>) -> bool {
        self.with(|state, _| match state.rooms.get_mut(&task.room) {
            Some(room) if room.freezer.is_frozen() => {
                room.freezer.tasks.push(Arc::clone(task));
                true
            }
            _ => false,
        })
    }

    /// Whether a program on a thread of its own has to wait; then it is woken when it may go on.
    #[cfg_attr(not(feature = "shell"), expect(dead_code, reason = "only a shell has a thread"))]
    pub(crate) fn holds(&self, room: u64, waker: &Waker) -> bool {
        self.with(|state, _| match state.rooms.get_mut(&room) {
            Some(room) if room.freezer.is_frozen() => {
                room.freezer.wakers.push(waker.clone());
                true
            }
            _ => false,
        })
    }
}
