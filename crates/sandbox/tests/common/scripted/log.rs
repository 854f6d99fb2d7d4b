//! What an adapter was asked, in order.

use std::sync::{Arc, Mutex, PoisonError};

/// The test's end of the notes. Adapter code that ran anywhere but on the engine's workers fails the test when this goes.
#[derive(Default)]
pub(crate) struct Log(Notes);

/// The adapter's end.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    said: Vec<String>,
    misplaced: Vec<String>,
}

impl Log {
    pub(crate) fn share(&self) -> Notes {
        self.0.clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.0.count(what)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lines().said.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let misplaced = self.0.lines().misplaced.clone();
        assert!(std::thread::panicking() || misplaced.is_empty(), "not on a worker: {misplaced:?}");
    }
}

impl Notes {
    /// A note of the adapter itself.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.lines().said.iter().filter(|line| *line == what).count()
    }

    pub(crate) fn say(&self, what: &str) {
        let thread = std::thread::current();
        let mut lines = self.lines();
        if thread.name() != Some("sandbox-io") {
            lines.misplaced.push(format!("{what} on {:?}", thread.name()));
        }
        lines.said.push(what.into());
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
