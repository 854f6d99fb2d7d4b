//! Who lets programs run when no call of the adapter does, and who moves the virtual clock.
//!
//! Every sandbox that is in somebody's hands has one background task, and whoever asked the clock has one. One of these
//! tasks, in whichever engine, leads; the others stand by. With nobody there, the world stands still.
//!
//! # When time moves
//!
//! Time stands still while any program can run. Once none can, it jumps to the next timer, after a short real wait that
//! leaves whoever is outside the time to do something. Anything that comes from outside begins the wait anew. The wait is
//! made of ticks that are counted, not measured, so it stretches with the load of the machine.
//!
//! - A program's own sleep is next: one tick, or the sleep itself where that is shorter.
//! - A deadline, or somebody outside who asked the clock, is next: a thousandth of the time to it, at most [`PATIENCE`].
//!   While a program waits for somebody outside (input that may still come, output that is not taken, a transfer), the
//!   time to it, at most [`OUTSIDE`].
//! - A lifetime: never. It ends a sandbox when time passes it for another reason.
//!
//! Where it does not get quiet, because a program runs without end, or reads and writes all the time, virtual time is real
//! time: once the same timer has been next for [`BUSY`].
//!
//! That is the pace of a fake where nobody says otherwise. By real time, timers fire when they are due, lifetimes too; by
//! manual time, never here.

use super::{Kernel, Key, Pace, State, lock};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tokio::time::Sleep;

const TICK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(1);
const OUTSIDE: Duration = Duration::from_secs(3);
const BUSY: Duration = Duration::from_millis(100);
/// By real time, how late the end of a lifetime may be noticed.
const LATE: Duration = Duration::from_secs(1);

/// How many polls of programs before the worker is given back.
const SHARE: usize = 256;

#[derive(Default)]
pub(crate) struct Leaders {
    all: Mutex<All>,
    /// Whether the leader is awake, or has been woken.
    awake: AtomicBool,
}

#[derive(Default)]
struct All {
    number: u64,
    leader: Option<(Rank, Waker)>,
    standby: BTreeMap<Rank, Waker>,
}

/// The lowest leads. Whoever asked the clock comes after all sandboxes: nobody promises that it is polled when it is woken.
type Rank = (bool, u64);

impl Leaders {
    pub(crate) fn kick(&self) {
        if self.awake.swap(true, SeqCst) {
            return;
        }
        let leader = lock(&self.all).leader.as_ref().map(|(_, waker)| waker.clone());
        match leader {
            Some(waker) => waker.wake(),
            None => self.awake.store(false, SeqCst),
        }
    }

    fn rank(&self, asker: bool) -> Rank {
        let mut all = lock(&self.all);
        all.number += 1;
        (asker, all.number)
    }

    /// Says whether this one leads.
    fn stand(&self, rank: Rank, waker: &Waker) -> bool {
        let mut all = lock(&self.all);
        match &mut all.leader {
            Some((leader, known)) if *leader == rank => {
                known.clone_from(waker);
                return true;
            }
            Some((leader, _)) if *leader < rank => {
                all.standby.insert(rank, waker.clone());
                return false;
            }
            _ => {}
        }
        all.standby.remove(&rank);
        if let Some((before, waker)) = all.leader.replace((rank, waker.clone())) {
            all.standby.insert(before, waker);
        }
        true
    }

    fn leave(&self, rank: Rank) {
        let next = {
            let mut all = lock(&self.all);
            all.standby.remove(&rank);
            if all.leader.as_ref().is_none_or(|(leader, _)| *leader != rank) {
                return;
            }
            all.leader = all.standby.pop_first();
            // Before the next one is woken, who says otherwise when it sleeps again.
            self.awake.store(all.leader.is_some(), SeqCst);
            all.leader.as_ref().map(|(_, waker)| waker.clone())
        };
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// The background task of one sandbox; never ends by itself.
pub(crate) async fn lead(kernel: Arc<Kernel>) {
    let mut leader = Leader::new(&kernel, false);
    poll_fn(|cx| leader.poll(cx)).await;
}

/// One who can lead: somebody whose task is polled where real time can be waited for.
pub(crate) struct Leader {
    kernel: Arc<Kernel>,
    rank: Rank,
    tick: Option<Tick>,
    /// How long it has been quiet, in ticks.
    waited: Duration,
    /// How long it has not been quiet while the same timer was next.
    busy: Duration,
    next: Option<Key>,
    stirred: u64,
}

struct Tick {
    sleep: Pin<Box<Sleep>>,
    length: Duration,
    began: Instant,
}

impl Leader {
    /// The task of a sandbox, or of somebody who asked the clock.
    pub(crate) fn new(kernel: &Arc<Kernel>, asker: bool) -> Self {
        Self {
            kernel: Arc::clone(kernel),
            rank: kernel.leaders.rank(asker),
            tick: None,
            waited: Duration::ZERO,
            busy: Duration::ZERO,
            next: None,
            stirred: 0,
        }
    }

    /// Stands by, or leads; always pending.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.kernel.leaders.stand(self.rank, cx.waker()) {
            (self.tick, self.waited, self.busy) = (None, Duration::ZERO, Duration::ZERO);
            return Poll::Pending;
        }
        loop {
            self.kernel.leaders.awake.store(true, SeqCst);
            let more = self.kernel.turn().is_some_and(|mut turn| turn.run(SHARE));
            let waits = self.time(cx);
            if more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !waits {
                continue;
            }
            self.kernel.leaders.awake.store(false, SeqCst);
            // Whoever made something runnable before that line saw a leader that was awake, and did not wake it.
            if !self.kernel.executor.is_waiting() && (self.tick.is_some() || !self.kernel.is_timed()) {
                return Poll::Pending;
            }
        }
    }

    /// Waits for ticks and moves time; false where there is more to do.
    fn time(&mut self, cx: &mut Context<'_>) -> bool {
        let kernel = Arc::clone(&self.kernel);
        match kernel.pace() {
            Pace::Virtual => {}
            Pace::Manual => return true,
            Pace::Real => return self.real_time(cx),
        }
        if let Some(tick) = &mut self.tick {
            if tick.sleep.as_mut().poll(cx).is_pending() {
                return true;
            }
        }
        let passed = self.tick.take();
        let stirred = kernel.stirred.load(SeqCst);
        let still = std::mem::replace(&mut self.stirred, stirred) == stirred
            && kernel.executor.is_quiet()
            && kernel.computing.load(SeqCst) == 0;
        let outside = kernel.transfers.load(SeqCst) > 0;
        let todo = kernel.with(|state, after| {
            let (next, _) = state.timers.next()?;
            let same = self.next.replace(next) == Some(next);
            if let Some(tick) = &passed {
                if still {
                    (self.waited, self.busy) = (self.waited + tick.length, Duration::ZERO);
                } else {
                    let real = tick.began.elapsed();
                    self.waited = Duration::ZERO;
                    self.busy = if same { self.busy + real } else { Duration::ZERO };
                    if self.busy >= BUSY && state.flow(real, after) {
                        return Some(None);
                    }
                }
            }
            let need = patience(state, outside)?;
            if passed.is_some() && still && self.waited >= need {
                state.jump(after);
                return Some(None);
            }
            Some(Some(need))
        });
        match todo {
            // There is no timer that time moves for.
            None => {
                (self.waited, self.busy) = (Duration::ZERO, Duration::ZERO);
                kernel.ticking.store(false, SeqCst);
                true
            }
            Some(None) => {
                self.waited = Duration::ZERO;
                false
            }
            Some(Some(need)) => {
                let length = TICK.min(need.saturating_sub(self.waited)).max(Duration::from_micros(100));
                kernel.ticking.store(true, SeqCst);
                self.tick = Some(Tick { sleep: Box::pin(tokio::time::sleep(length)), length, began: Instant::now() });
                false
            }
        }
    }
}

impl Leader {
    /// Waits until the next timer is due; what is due by now has fired when the state was locked.
    fn real_time(&mut self, cx: &mut Context<'_>) -> bool {
        // Anew every time: whoever woke this task may have set an earlier timer.
        self.tick = None;
        let left = self.kernel.with(|state, _| state.timers.first().map(|at| at - state.timers.now().min(at)));
        let Some(left) = left else { return true };
        let length = left.min(LATE).max(Duration::from_micros(100));
        let mut sleep = Box::pin(tokio::time::sleep(length));
        let waits = sleep.as_mut().poll(cx).is_pending();
        self.tick = Some(Tick { sleep, length, began: Instant::now() });
        waits
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.kernel.leaders.leave(self.rank);
    }
}

impl Kernel {
    fn is_timed(&self) -> bool {
        match self.pace() {
            Pace::Virtual => self.with(|state, _| state.timers.next().is_some()),
            Pace::Manual => false,
            Pace::Real => self.with(|state, _| state.timers.first().is_some()),
        }
    }
}

/// How long to wait before time jumps; `None` where there is nothing to jump to.
fn patience(state: &State, transfer: bool) -> Option<Duration> {
    let ((at, _), sleep) = state.timers.next()?;
    let distance = at - state.timers.now().min(at);
    let most = if sleep {
        TICK
    } else if transfer || state.waits_for_outside() {
        OUTSIDE
    } else {
        (distance / 1000).clamp(TICK, PATIENCE)
    };
    Some(distance.min(most))
}
