//! Ending what dead owners left: containers past their lifetime that did not end by themselves, because they were never started or
//! were frozen from outside, and networks whose container is gone.
//!
//! The lifetime is the difference of two labels, which one clock wrote. From when on it counts, and how late it is now, the engine's
//! own clock says, so that no client with a wrong clock ends what others use.

use crate::{
    error::Meaning,
    own, remove,
    wire::{self, Link},
};
use chrono::DateTime;
use sandbox_core::labels;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::time::timeout;

/// Later than any first process ends its container.
const GRACE: i64 = 30;

/// Whoever creates many sandboxes sweeps once in this while.
const EVERY: Duration = Duration::from_secs(10);

/// More than this is left to the next one.
const MOST: usize = 16;

/// When it was swept last.
#[derive(Debug, Default)]
pub(crate) struct Swept(Mutex<Option<Instant>>);

impl Swept {
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// Beside a create: for a while, and not each time.
pub(crate) async fn now_and_then(link: &Link) {
    if link.swept.is_due() {
        within(link, Duration::from_secs(30)).await;
    }
}

/// For at most this long. What goes wrong is left to the next one.
async fn within(link: &Link, limit: Duration) {
    match timeout(limit, sweep(link)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "what others left was not swept"),
        Err(_) => tracing::debug!("what others left was not swept in time"),
    }
}

async fn sweep(link: &Link) -> sandbox_core::Result<()> {
    let wanted = [labels::MARKER, labels::CREATED, labels::EXPIRES].map(String::from);
    // In this order: a network whose container is not in the later list has none.
    let networks = own::networks(link, &wanted, Meaning::OTHER).await?;
    let containers = own::containers(link, &wanted, Meaning::OTHER).await?;
    let here = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| i64::try_from(t.as_secs()).unwrap_or(i64::MAX));
    let mut late = Vec::new();
    for container in &containers {
        let (Some(id), Some(labels)) = (container.id.as_deref().filter(|id| wire::sound(id)), &container.labels) else {
            continue;
        };
        // Not those that were renamed: somebody still has a use for them.
        let ours = labels.get(labels::MARKER).map(|marker| own::name(marker));
        if ours.as_deref() == own::listed_name(container) && is_late(container.created, labels, here) {
            late.push(Left::Container(id.into(), labels));
        }
    }
    let taken = |name: &str| {
        let markers = containers.iter().filter_map(|container| container.labels.as_ref()?.get(labels::MARKER));
        markers.into_iter().any(|marker| own::marker(name) == Some(marker))
    };
    for (id, name, network) in &networks {
        let Some(labels) = &network.labels else { continue };
        let created = network.created.as_deref().and_then(seconds);
        if is_late(created, labels, here) && !taken(name) {
            late.push(Left::Network(id, created, labels));
        }
    }
    if late.is_empty() {
        return Ok(());
    }
    // All this by the clock of this host; now by the engine's.
    let info = link.docker.info().await;
    let Some(there) = info.ok().and_then(|info| seconds(info.system_time.as_deref()?)) else { return Ok(()) };
    for left in late.into_iter().take(MOST) {
        left.end(link, there).await;
    }
    Ok(())
}

enum Left<'a> {
    Container(String, &'a HashMap<String, String>),
    Network(&'a str, Option<i64>, &'a HashMap<String, String>),
}

impl Left<'_> {
    async fn end(self, link: &Link, now: i64) {
        match self {
            Self::Container(id, labels) => {
                let Ok(found) = link.docker.inspect_container(&id, None).await else { return };
                // The time of a start that never was is that of the year one.
                let started = found.state.and_then(|state| seconds(state.started_at.as_deref()?));
                let since = started.max(found.created.as_deref().and_then(seconds));
                if !is_late(since, labels, now) {
                    return;
                }
                let ended = remove::container(link, &id).await;
                tracing::debug!(id, ok = ended.is_ok(), "ended a container that was past its lifetime");
                if let Some(marker) = labels.get(labels::MARKER).filter(|_| ended.is_ok()) {
                    drop(remove::networks(link, marker).await);
                }
            }
            Self::Network(id, created, labels) => {
                if is_late(created, labels, now) {
                    let ended = link.docker.remove_network(id).await;
                    tracing::debug!(id, ok = ended.is_ok(), "ended a network that was past its lifetime");
                }
            }
        }
    }
}

/// Whether a lifetime that began then is over by now, for sure. What does not say how long it lives is nobody's to sweep.
fn is_late(since: Option<i64>, labels: &HashMap<String, String>, now: i64) -> bool {
    let at = |name: &str| labels.get(name)?.parse::<i64>().ok();
    let end = || since?.checked_add(at(labels::EXPIRES)?.checked_sub(at(labels::CREATED)?)?.max(0))?.checked_add(GRACE);
    end().is_some_and(|end| now > end)
}

fn seconds(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_past_its_lifetime_is_late() {
        let labels = |created: &str, expires: &str| {
            HashMap::from([(labels::CREATED.into(), created.into()), (labels::EXPIRES.into(), expires.into())])
        };
        let hour = labels("1000", "4600");
        assert!(is_late(Some(50_000), &hour, 50_000 + 3600 + GRACE + 1));
        assert!(!is_late(Some(50_000), &hour, 50_000 + 3600 + GRACE));
        assert!(!is_late(None, &hour, i64::MAX) && !is_late(Some(i64::MAX), &hour, i64::MAX));
        for bad in [labels("x", "4600"), labels("1000", ""), labels("-9223372036854775808", "1"), HashMap::new()] {
            assert!(!is_late(Some(0), &bad, i64::MAX), "{bad:?}");
        }
        // A clock that went backwards makes no lifetime negative.
        assert!(!is_late(Some(50_000), &labels("4600", "1000"), 50_000 + GRACE));
    }

    #[test]
    fn times_of_the_engine() {
        assert_eq!(seconds("2026-11-30T22:05:21.399907929Z"), Some(1_796_076_321));
        assert_eq!(seconds("2026-11-30T23:05:21+01:00"), Some(1_796_076_321));
        assert!(seconds("0001-01-01T00:00:00Z").is_some_and(|never| never < 0));
        assert_eq!(seconds("soon"), None);
    }
}
