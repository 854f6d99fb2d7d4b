//! What a program can wait for: a signal, a time.

use super::Proc;
use crate::world::{Key, Timer};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A signal that a program catches.
#[derive(Debug)]
pub struct Caught {
    proc: Proc,
    signal: i32,
}

impl Caught {
    pub(super) fn new(proc: &Proc, signal: i32) -> Self {
        Self { proc: proc.clone(), signal }
    }

    /// Waits for the signal; each one that was sent is seen once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&self) {
        poll_fn(|cx| {
            let caught = self.proc.with_process(|process| {
                let caught = process.signals.take(self.signal);
                if !caught {
                    process.signals.wakers.push(cx.waker().clone());
                }
                caught
            });
            if caught == Some(true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A sleep by the virtual clock.
pub(super) struct Sleep<'a> {
    proc: &'a Proc,
    duration: Duration,
    key: Option<Key>,
}

impl<'a> Sleep<'a> {
    pub(super) fn new(proc: &'a Proc, duration: Duration) -> Self {
        Self { proc, duration, key: None }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.proc.kernel().with(|state, after| match &this.key {
            Some(key) => match state.timers.get_mut(key) {
                Some(timer) => {
                    *timer = Timer::Sleep(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            },
            None if this.duration.is_zero() => Poll::Ready(()),
            None => {
                this.key = Some(state.timers.set(this.duration, Timer::Sleep(cx.waker().clone())));
                after.armed = true;
                Poll::Pending
            }
        })
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.proc.kernel().with(|state, _| state.cancel(&key));
        }
    }
}
