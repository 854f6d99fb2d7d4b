//! A sandbox as an enumeration shows it, for people and for programs.

use sandbox::{Listed, labels};
use serde::Serialize;
use std::{collections::BTreeMap, time::SystemTime};

/// One sandbox. Times are seconds since 1970.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) created: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl From<&Listed> for Entry {
    fn from(listed: &Listed) -> Self {
        let stamp = |name| listed.labels.get(name).and_then(|seconds: &String| seconds.parse().ok());
        // When it was made: by its provider's word, else by its label.
        let told = listed.created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self {
            id: listed.id.to_string(),
            created: told.map(|since| since.as_secs()).or_else(|| stamp(labels::CREATED)),
            expires: stamp(labels::EXPIRES),
            labels: listed.labels.clone(),
        }
    }
}

impl Entry {
    /// How long it has been there.
    pub(crate) fn age(&self, now: u64) -> String {
        self.created.map_or_else(|| "?".into(), |at| words(now.saturating_sub(at)))
    }

    /// How long it may still be there.
    pub(crate) fn left(&self, now: u64) -> String {
        match self.expires {
            Some(at) if at > now => words(at - now),
            Some(_) => "over".into(),
            None => "?".into(),
        }
    }

    /// Its labels, those of this library left out.
    pub(crate) fn own_labels(&self) -> String {
        let labels = self.labels.iter().filter(|(name, _)| !name.starts_with(labels::RESERVED));
        labels.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

/// Two units at most, such as `1h 5m`.
pub(crate) fn words(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}
