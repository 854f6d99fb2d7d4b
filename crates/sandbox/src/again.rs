//! A create whose answer was lost, asked for again where that makes no second sandbox.

use crate::engine::quietly;
use sandbox_core::{Attempt, Capability, Error, ErrorKind, Facts, Result};
use std::{future::Future, time::Duration};

/// How often it is asked for at most.
const TRIES: u32 = 3;
/// Before it is asked for again; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks, and asks again when the connection was lost on the way: for as long as somebody waits, and within the create timeout,
/// which goes on.
pub(crate) async fn create<T, F>(facts: &Facts, attempt: &Attempt, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    if !facts.has(Capability::IdempotentCreate) {
        return ask().await;
    }
    let (mut told, mut pause) = (ask().await, PAUSE);
    for _ in 1..TRIES {
        let Err(error) = &told else { break };
        if !is_lost(error) {
            break;
        }
        quietly(|| tracing::debug!(%error, "the answer to a create was lost"))?;
        tokio::time::sleep(pause).await;
        if !attempt.repeat() {
            break;
        }
        // What an earlier try has made is not undone by the failure of a later one.
        told = ask().await.map_err(|error| error.applied(true));
        pause *= 2;
    }
    told
}

fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::ConnectionLost && error.may_have_applied()
}
