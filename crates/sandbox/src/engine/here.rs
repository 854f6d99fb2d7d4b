//! Handles know their process.

use sandbox_core::{Error, ErrorKind, Result};

/// A user's handle. In the child of a fork the engine's threads are not there and its locks may be held for ever: it touches
/// nothing and drops nothing.
#[derive(Clone)]
pub(crate) struct Here<T> {
    inner: Option<T>,
    pid: u32,
}

impl<T> Here<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Some(inner), pid: std::process::id() }
    }

    pub(crate) fn get(&self) -> Result<&T> {
        self.check().map(|()| self.peek())
    }

    pub(crate) fn get_mut(&mut self) -> Result<&mut T> {
        self.check().map(|()| self.inner.as_mut().expect("taken in drop alone"))
    }

    /// For what no lock guards.
    pub(crate) fn peek(&self) -> &T {
        self.inner.as_ref().expect("taken in drop alone")
    }

    fn check(&self) -> Result<()> {
        if self.pid == std::process::id() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Forked, "this is the child of a fork; its parent has the engine");
        Err(error.with_hint("make a client of its own in the child"))
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.check().is_err() {
            std::mem::forget(self.inner.take());
        }
    }
}
