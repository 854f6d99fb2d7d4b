//! When a shell keeps time real, and when it lets it jump.

use crate::world::{Kernel, lock};
use std::{
    future::Future,
    sync::{Arc, Mutex},
};

/// A shell computes whenever it does not wait for something of the sandbox: the interpreter has threads of its own, which its
/// future does not tell of.
#[derive(Clone)]
pub(super) struct Busy {
    kernel: Arc<Kernel>,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Waits of the shell under way; what it runs in a pipe may have several.
    waits: usize,
    computing: Option<Box<dyn Send>>,
}

impl Busy {
    pub(super) fn new(kernel: &Arc<Kernel>) -> Self {
        let state = State { waits: 0, computing: Some(Box::new(kernel.compute())) };
        Self { kernel: Arc::clone(kernel), state: Arc::new(Mutex::new(state)) }
    }

    /// Awaits something of the sandbox, for which time may jump.
    pub(super) async fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        let _wait = Wait::begin(self);
        what.await
    }
}

struct Wait<'a>(&'a Busy);

impl<'a> Wait<'a> {
    fn begin(busy: &'a Busy) -> Self {
        let mut state = lock(&busy.state);
        state.waits += 1;
        state.computing = None;
        drop(state);
        Self(busy)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.waits -= 1;
        if state.waits == 0 {
            state.computing = Some(Box::new(self.0.kernel.compute()));
        }
    }
}
