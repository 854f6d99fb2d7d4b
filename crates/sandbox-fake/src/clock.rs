//! The virtual clock, as whoever is outside sees it.

use crate::world::{Kernel, Key, Leader, Timer};
use sandbox_core::{Boxed, Clock};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The clock of a [`Fake`](crate::Fake): moves by itself as soon as no program can run; see the crate's documentation.
#[derive(Debug, Clone)]
pub struct VirtualClock(Arc<Kernel>);

impl VirtualClock {
    pub(crate) fn new(kernel: &Arc<Kernel>) -> Self {
        Self(Arc::clone(kernel))
    }

    /// The virtual time since the fake was made.
    pub fn now(&self) -> Duration {
        self.0.now()
    }
}

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
