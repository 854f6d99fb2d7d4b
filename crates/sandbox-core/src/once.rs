//! Commands of a wire that has one call per command.

use crate::{Boxed, Control, Ended, Error, Event, Events, Result};
use bytes::Bytes;
use std::{fmt, future::Future};

/// What `spawn` returns on a wire with one call per command: the call is made inside `next`, where a deadline can cut it.
pub fn once(call: impl Future<Output = Result<Finished>> + Send + 'static) -> (NoControl, Once) {
    (NoControl, Once { call: Some(Box::pin(call)), events: Vec::new() })
}

/// The whole answer of such a wire.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finished {
    /// All of stdout.
    pub stdout: Bytes,
    /// All of stderr.
    pub stderr: Bytes,
    /// How it ended.
    pub ended: Ended,
}

impl Finished {
    /// An answer of these parts.
    pub fn new(ended: Ended, stdout: impl Into<Bytes>, stderr: impl Into<Bytes>) -> Self {
        Self { stdout: stdout.into(), stderr: stderr.into(), ended }
    }
}

/// A command that nothing can be done with but wait.
#[derive(Debug)]
pub struct NoControl;

impl Control for NoControl {}

/// The events of [`once`].
pub struct Once {
    call: Option<Boxed<'static, Result<Finished>>>,
    /// Popped from behind.
    events: Vec<Event>,
}

impl Events for Once {
    async fn next(&mut self) -> Result<Option<Event>> {
        if let Some(call) = &mut self.call {
            let answer = call.await;
            self.call = None;
            self.events = match answer {
                Ok(all) => vec![Event::Ended(all.ended), Event::Stderr(all.stderr), Event::Stdout(all.stdout)],
                Err(error) if Error::may_have_applied(&error) => return Err(error),
                Err(error) => vec![Event::NotStarted(error)],
            };
        }
        Ok(self.events.pop())
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("called", &self.call.is_none()).finish_non_exhaustive()
    }
}
