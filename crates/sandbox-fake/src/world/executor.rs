//! Who polls programs: one turn at a time, in the order in which they became runnable, on whichever worker of an engine
//! happens to call. That makes a run repeatable, and tells when nothing can run.

use super::{Exit, Kernel, lock};
use sandbox_core::Boxed;
use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, TryLockError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

#[derive(Default)]
pub(crate) struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    turn: Mutex<()>,
    /// Whether somebody has the turn, who will look at the queue before giving it up.
    taken: AtomicBool,
}

impl Executor {
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.ready).is_empty()
    }

    /// Whether something could run, and nobody sees to it.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.taken.load(SeqCst) && !self.is_idle()
    }

    /// Whether nothing can run, and nothing runs.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.taken.load(SeqCst) && self.is_idle()
    }
}

impl Kernel {
    /// The right to poll programs; `None` where somebody else has it, who will not miss what is runnable now.
    pub(crate) fn turn(self: &Arc<Self>) -> Option<Turn<'_>> {
        let guard = match self.executor.turn.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.executor.taken.store(true, SeqCst);
        Some(Turn { kernel: self, guard: Some(guard) })
    }

    /// Lets a new process run.
    pub(crate) fn ready(&self, task: &Arc<Task>) {
        if !task.queued.swap(true, SeqCst) {
            lock(&self.executor.ready).push_back(Arc::clone(task));
        }
        if !self.executor.taken.load(SeqCst) {
            self.leaders.kick();
        }
    }
}

pub(crate) struct Turn<'a> {
    kernel: &'a Arc<Kernel>,
    guard: Option<MutexGuard<'a, ()>>,
}

impl Turn<'_> {
    /// Polls at most so many; says whether more could run.
    pub(crate) fn run(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let task = lock(&self.kernel.executor.ready).pop_front();
            match task {
                Some(task) => task.poll(self.kernel),
                None => return false,
            }
        }
        !self.kernel.executor.is_idle()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // In this order, or it would be said of the next one who has the turn.
        self.kernel.executor.taken.store(false, SeqCst);
        self.guard = None;
        if !self.kernel.executor.is_idle() {
            self.kernel.leaders.kick();
        }
    }
}

/// A process as it is polled.
pub(crate) struct Task {
    kernel: Weak<Kernel>,
    pub(crate) room: u64,
    pub(crate) pid: u32,
    future: Mutex<Option<Boxed<'static, i32>>>,
    queued: AtomicBool,
    dead: AtomicBool,
    frozen: Arc<AtomicBool>,
    /// Its process stands still.
    held: AtomicBool,
}

impl Task {
    pub(crate) fn new(kernel: &Arc<Kernel>, room: u64, pid: u32, frozen: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            kernel: Arc::downgrade(kernel),
            room,
            pid,
            future: Mutex::new(None),
            queued: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            frozen,
            held: AtomicBool::new(false),
        })
    }

    pub(crate) fn set(&self, future: Boxed<'static, i32>) {
        *lock(&self.future) = Some(future);
    }

    /// Its process has ended: never polled again. Its future is dropped when [`discard`](Self::discard)ed.
    pub(crate) fn end(&self) {
        self.dead.store(true, SeqCst);
    }

    /// Its process stands still from now on: not polled until it is let go.
    pub(crate) fn hold(&self) {
        self.held.store(true, SeqCst);
    }

    /// Its process goes on; whoever has the waker wakes it, outside all locks.
    pub(crate) fn let_go(self: &Arc<Self>) -> Waker {
        self.held.store(false, SeqCst);
        Waker::from(Arc::clone(self))
    }

    /// Drops the future of a process that has ended, here or, where it is being polled, right after that.
    pub(crate) fn discard(&self) {
        let future = match self.future.try_lock() {
            Ok(mut future) => future.take(),
            Err(TryLockError::Poisoned(future)) => future.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        quietly(|| drop(future));
    }

    fn poll(self: Arc<Self>, kernel: &Arc<Kernel>) {
        self.queued.store(false, SeqCst);
        if self.held.load(SeqCst) && !self.dead.load(SeqCst) {
            return;
        }
        if self.frozen.load(SeqCst) && !self.dead.load(SeqCst) && kernel.shelve(&self) {
            return;
        }
        let exit = {
            let mut slot = lock(&self.future);
            match slot.as_mut() {
                Some(future) if !self.dead.load(SeqCst) => {
                    let waker = Waker::from(Arc::clone(&self));
                    let mut cx = Context::from_waker(&waker);
                    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
                        Ok(Poll::Pending) => None,
                        Ok(Poll::Ready(code)) => Some(Exit::Code(code)),
                        Err(payload) => {
                            // Dropping it may panic again.
                            std::mem::forget(payload);
                            Some(Exit::Panic)
                        }
                    }
                }
                _ => None,
            }
        };
        if let Some(exit) = exit {
            kernel.with(|state, after| state.exited(self.room, self.pid, exit, after));
        }
        if self.dead.load(SeqCst) {
            self.discard();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(kernel) = self.kernel.upgrade().filter(|_| !self.dead.load(SeqCst)) {
            kernel.ready(self);
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("room", &self.room).field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// A program's destructor that panics harms nobody else.
fn quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
        std::mem::forget(payload);
    }
}
