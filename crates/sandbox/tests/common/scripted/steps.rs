//! What a pretended command does.

use super::{Hook, error, hook};
use bytes::Bytes;
use sandbox_core::{Change, ChangeSource, Ended, ErrorKind, Event, Result, Status};
use std::{future::pending, time::Duration};

#[derive(Clone)]
pub(crate) enum Step {
    Say(Event),
    After(Duration, Event),
    Fail(ErrorKind),
    Panic,
    /// From here on without an end.
    Flood,
    Hang,
}

/// One step an event; after the last, the streams have ended.
pub(crate) fn script(steps: Vec<Step>) -> Hook<usize, Result<Option<Event>>> {
    hook(move |n| {
        let step = steps.get(n).cloned().or_else(|| steps.last().filter(|last| matches!(last, Step::Flood)).cloned());
        async move {
            match step {
                None => Ok(None),
                Some(Step::Say(event)) => Ok(Some(event)),
                Some(Step::After(time, event)) => {
                    tokio::time::sleep(time).await;
                    Ok(Some(event))
                }
                Some(Step::Fail(kind)) => Err(error(kind)),
                Some(Step::Panic) => panic!("adapter bug"),
                Some(Step::Flood) => Ok(Some(Event::Stdout(Bytes::from_static(b"y\n")))),
                Some(Step::Hang) => pending().await,
            }
        }
    })
}

pub(crate) fn code(code: i32) -> Step {
    Step::Say(Event::Ended(Ended::program(Status::Code(code))))
}

pub(crate) fn out(bytes: impl Into<Bytes>) -> Step {
    Step::Say(Event::Stdout(bytes.into()))
}

/// Nothing changes.
pub(super) struct Silence;

impl ChangeSource for Silence {
    async fn next(&mut self) -> Result<Option<Change>> {
        pending().await
    }
}
