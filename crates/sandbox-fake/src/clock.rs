//! The virtual clock, as whoever is outside sees it.

use crate::world::{Kernel, Key, Leader, Pace, Timer};
use sandbox_core::{Boxed, Clock};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// The clock of a [`Fake`](crate::Fake): moves by itself as soon as no program can run, unless the fake was made with
/// `manual_time` or `real_time`; see the crate's documentation.
#[derive(Debug, Clone)]
pub struct VirtualClock(Arc<Kernel>);

impl VirtualClock {
    pub(crate) fn new(kernel: &Arc<Kernel>) -> Self {
        Self(Arc::clone(kernel))
    }

    /// The time since the fake was made; by real time, since that was said.
    pub fn now(&self) -> Duration {
        self.0.now()
    }

    /// Lets so much time pass at once: all that is due by then happens in its order, and programs run in between until none
    /// can. What outside code does about it comes later. By real time this does nothing.
    pub fn advance(&self, time: Duration) {
        if self.0.pace() == Pace::Real {
            return;
        }
        let to = self.0.now().saturating_add(time);
        self.settle();
        while self.0.with(|state, after| match state.timers.first().filter(|at| *at <= to) {
            Some(at) => {
                state.pass(at, after);
                true
            }
            None => false,
        }) {
            self.settle();
        }
        self.0.with(|state, after| state.pass(to, after));
    }

    /// Lets programs run until none can, for a while at most: one that computes or writes for ever never gets there.
    fn settle(&self) {
        let until = Instant::now() + BUSY;
        loop {
            if let Some(mut turn) = self.0.turn() {
                while turn.run(SHARE) && Instant::now() < until {}
            }
            if self.0.is_quiet() || Instant::now() >= until {
                return;
            }
            // Somebody else lets them run.
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

const SHARE: usize = 64;
const BUSY: Duration = Duration::from_millis(500);

impl Clock for VirtualClock {
    fn sleep(&self, duration: Duration) -> Boxed<'static, ()> {
        self.0.stir();
        let key = self.0.with(|state, after| {
            after.armed = true;
            state.timers.set(duration, Timer::Outside(None))
        });
        Box::pin(Outside { kernel: Arc::clone(&self.0), key, leader: None })
    }
}

struct Outside {
    kernel: Arc<Kernel>,
    key: Key,
    /// There may be no sandbox whose task could move the clock.
    leader: Option<Leader>,
}

impl Future for Outside {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let over = this.kernel.with(|state, _| match state.timers.get_mut(&this.key) {
            Some(timer) => {
                *timer = Timer::Outside(Some(cx.waker().clone()));
                false
            }
            None => true,
        });
        if over {
            return Poll::Ready(());
        }
        // Where that fires the timer, it wakes this task.
        this.leader.get_or_insert_with(|| Leader::new(&this.kernel, true)).poll(cx)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.kernel.with(|state, _| state.cancel(&self.key));
    }
}
