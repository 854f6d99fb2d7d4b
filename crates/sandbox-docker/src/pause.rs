//! Freezing a container and letting it go on.

use crate::{
    error::{self, Meaning},
    wire::Link,
};
use bollard::errors::Error as Wire;
use sandbox_core::Result;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::RwLock;

/// Who starts a command reads it, and who freezes its container writes it: the engine starts nothing in a frozen one.
pub(crate) type Still = Arc<RwLock<()>>;

/// One for each container, however many handles there are.
#[derive(Debug, Default)]
pub(crate) struct Stills(Mutex<BTreeMap<String, Weak<RwLock<()>>>>);

impl Stills {
    pub(crate) fn of(&self, container: &str) -> Still {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, still| still.strong_count() > 0);
        if let Some(still) = all.get(container).and_then(Weak::upgrade) {
            return still;
        }
        let still = Still::default();
        all.insert(container.into(), Arc::downgrade(&still));
        still
    }
}

pub(crate) async fn pause(link: &Link, container: &str) -> Result<()> {
    let done = until_it_holds_still(|| link.docker.pause_container(container)).await;
    settled(done, "already paused").map_err(|wire| error::fault("pausing the container", Meaning::EXEC, wire))
}

pub(crate) async fn resume(link: &Link, container: &str) -> Result<()> {
    let done = link.docker.unpause_container(container).await;
    settled(done, "is not paused").map_err(|wire| error::fault("resuming the container", Meaning::EXEC, wire))
}

/// How often a container is frozen that does not hold still (seen with runc 1.1 on a busy host).
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(200);

/// What freezes a container. The runtime gives up, and lets the container go on, where processes come and go faster than it
/// freezes them.
pub(crate) async fn until_it_holds_still<T, Freezing>(mut freeze: impl FnMut() -> Freezing) -> Result<T, Wire>
where
    Freezing: Future<Output = Result<T, Wire>>,
{
    let mut done = freeze().await;
    for _ in 1..TRIES {
        if !matches!(&done, Err(Wire::DockerResponseServerError { message, .. }) if message.contains("unable to freeze"))
        {
            break;
        }
        tokio::time::sleep(AGAIN).await;
        done = freeze().await;
    }
    done
}

/// It is as it was asked to be.
fn settled(done: Result<(), Wire>, words: &str) -> Result<(), Wire> {
    match done {
        Err(Wire::DockerResponseServerError { message, .. }) if message.contains(words) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_container_share_and_none_is_kept() {
        let stills = Stills::default();
        let (one, other) = (stills.of("a"), stills.of("b"));
        assert!(Arc::ptr_eq(&one, &stills.of("a")) && !Arc::ptr_eq(&one, &other));
        drop((one, other));
        drop(stills.of("c"));
        assert_eq!(stills.0.lock().unwrap().keys().collect::<Vec<_>>(), ["c"]);
    }
}
