//! The world of one fake: what its kernel knows, under one lock, and who polls its processes.
//!
//! Locks are taken in this order and never the other way round: turn, a program's future, state, ready queue. The files of
//! a sandbox have a lock of their own, which is held across no other but that of what somebody who watches them has not taken
//! yet. Wakers are called, and futures dropped, outside all of them; those who watch files are woken inside.

mod command;
mod executor;
mod freeze;
mod leader;
mod lie;
mod net;
mod pipe;
mod process;
mod room;
mod service;
mod snapshot;
mod start;
mod state;
mod terminal;
mod timers;

pub(crate) use command::{Output, Stream};
pub(crate) use executor::Task;
pub(crate) use freeze::Freezer;
pub(crate) use leader::{Leader, lead};
pub(crate) use lie::Lie;
pub(crate) use net::{Link, Side, Transport};
pub(crate) use pipe::{Closed, Pipe};
pub(crate) use process::{End, Exit, Process, Sink, Source, bit};
pub(crate) use room::{Room, Secrets};
pub(crate) use service::Beside;
pub(crate) use snapshot::Origin;
pub(crate) use state::{Birth, Launch, State, WORKSHOPS, gone};
pub(crate) use terminal::shown;
pub(crate) use timers::{Key, Timer};

use crate::{double::Double, fs::Fs, image::Catalogue, port::Relay};
use executor::Executor;
use leader::Leaders;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    task::Waker,
    time::{Duration, Instant},
};

/// When the virtual clock starts, in seconds since 1970: the first of January 2026.
pub(crate) const EPOCH: u64 = 1_767_225_600;

/// How many polls of programs one call of an adapter pays for before it leaves the rest to the leader.
pub(crate) const INLINE: usize = 64;

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It jumps once nothing can run.
    Virtual,
    /// It stands still until somebody moves it.
    Manual,
    /// As outside.
    Real,
}

pub(crate) struct Kernel {
    state: Mutex<State>,
    executor: Executor,
    leaders: Leaders,
    /// Counts what comes from outside: calls of the adapter, bytes taken or given.
    stirred: AtomicU64,
    /// Transfers that wait for bytes from outside.
    transfers: AtomicUsize,
    /// Programs that compute on a thread of their own.
    computing: AtomicUsize,
    /// Whether the leader looks at the timers by itself.
    ticking: AtomicBool,
    /// The virtual time, for whoever has no lock.
    now: AtomicU64,
    pub(crate) catalogue: Mutex<Catalogue>,
    pub(crate) double: Mutex<Double>,
    pace: OnceLock<(Pace, Instant)>,
}

impl Kernel {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            executor: Executor::default(),
            leaders: Leaders::default(),
            stirred: AtomicU64::new(0),
            transfers: AtomicUsize::new(0),
            computing: AtomicUsize::new(0),
            ticking: AtomicBool::new(false),
            now: AtomicU64::new(0),
            catalogue: Mutex::new(Catalogue::new()),
            double: Mutex::default(),
            pace: OnceLock::new(),
        })
    }

    /// Looks at the state or changes it; what that wakes is woken afterwards.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut State, &mut After) -> R) -> R {
        let mut after = After::default();
        let result = {
            let mut state = lock(&self.state);
            if let Some(now) = self.real_now() {
                state.pass(now, &mut after);
            }
            let result = change(&mut state, &mut after);
            self.now.store(nanos(state.timers.now()), SeqCst);
            result
        };
        self.finish(after);
        result
    }

    /// The same for a call from outside: programs that it makes runnable get their first turn at once.
    pub(crate) fn act<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut After) -> R) -> R {
        self.stir();
        let turn = self.turn();
        let result = self.with(change);
        if let Some(mut turn) = turn {
            turn.run(INLINE);
        }
        result
    }

    /// Lets programs run here, if nobody else lets them run now.
    pub(crate) fn run(self: &Arc<Self>) {
        if self.executor.is_idle() {
            return;
        }
        if let Some(mut turn) = self.turn() {
            turn.run(INLINE);
        }
    }

    pub(crate) fn stir(&self) {
        self.stirred.fetch_add(1, SeqCst);
    }

    /// The virtual time since the world began.
    pub(crate) fn now(&self) -> Duration {
        self.real_now().unwrap_or_else(|| Duration::from_nanos(self.now.load(SeqCst)))
    }

    /// Says how time passes; the first who says so is heard.
    pub(crate) fn set_pace(&self, pace: Pace) {
        self.pace.get_or_init(|| (pace, Instant::now()));
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace.get().map_or(Pace::Virtual, |(pace, _)| *pace)
    }

    fn real_now(&self) -> Option<Duration> {
        self.pace.get().filter(|(pace, _)| *pace == Pace::Real).map(|(_, since)| since.elapsed())
    }

    /// The virtual time in seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        // Fits: the clock counts nanoseconds in 64 bits.
        (EPOCH + self.now().as_secs()) as i64
    }

    /// Whether no program can run, and none runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.executor.is_quiet() && self.computing.load(SeqCst) == 0
    }

    /// While this lives, somebody outside is awaited.
    pub(crate) fn transfer(self: &Arc<Self>) -> impl Drop + Send + use<> {
        self.stir();
        Count::of(self, |kernel| &kernel.transfers)
    }

    /// While this lives, a program computes on a thread of its own, and virtual time is real time.
    #[cfg_attr(not(feature = "shell"), expect(dead_code, reason = "only a shell has a thread"))]
    pub(crate) fn compute(self: &Arc<Self>) -> impl Drop + Send + use<> {
        Count::of(self, |kernel| &kernel.computing)
    }

    fn finish(&self, after: After) {
        after.tasks.into_iter().for_each(|task| task.discard());
        after.files.into_iter().for_each(|files| lock(&files).watches.end());
        after.wakers.into_iter().for_each(Waker::wake);
        if after.armed && (!self.ticking.load(SeqCst) || self.pace() == Pace::Real) {
            self.leaders.kick();
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// What has to be done once the state is unlocked.
#[derive(Default)]
pub(crate) struct After {
    pub(crate) wakers: Vec<Waker>,
    /// Of processes that ended.
    pub(crate) tasks: Vec<Arc<Task>>,
    /// Listeners of sandboxes that ended.
    pub(crate) relays: Vec<Relay>,
    /// Of sandboxes that ended.
    pub(crate) files: Vec<Arc<Mutex<Fs>>>,
    /// A timer was set that time may be moved for.
    pub(crate) armed: bool,
}

struct Count {
    kernel: Arc<Kernel>,
    of: fn(&Kernel) -> &AtomicUsize,
}

impl Count {
    fn of(kernel: &Arc<Kernel>, of: fn(&Kernel) -> &AtomicUsize) -> Self {
        of(kernel).fetch_add(1, SeqCst);
        Self { kernel: Arc::clone(kernel), of }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        (self.of)(&self.kernel).fetch_sub(1, SeqCst);
    }
}

/// No invariant spans a panic under a lock of this crate.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An environment, shared by all that do not change it.
pub(crate) type Env = Arc<BTreeMap<String, String>>;
