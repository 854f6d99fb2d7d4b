//! The report: what each row came to.

use crate::{Verdict, row::Row};
use sandbox_core::{Capability, Facts};
use std::{fs, io, io::Write, path::Path, time::Duration};

/// What one row came to. A line of the report is this as JSON.
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The row's name, `area::claim`, also where its refuses twin ran in its place.
    pub row: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Why, where it did not pass; empty where it did.
    pub reason: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The edition of the suite that the row came with.
    pub edition: u32,
    /// The capabilities that the row is about; none for an always row.
    pub needs: &'static [Capability],
    /// The backend's name; empty where there is none.
    pub backend: String,
    /// The backend's facts for the suite's spec; null where there is no backend.
    pub facts: Option<Facts>,
}

impl Record {
    pub(crate) fn new(row: &Row, verdict: Verdict, reason: impl Into<String>, took: Duration) -> Self {
        Self {
            row: row.name().into(),
            verdict,
            reason: reason.into(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            edition: row.since(),
            needs: row.capabilities(),
            backend: String::new(),
            facts: None,
        }
    }

    pub(crate) fn about(mut self, facts: Option<Facts>) -> Self {
        self.backend = facts.as_ref().map(|facts| facts.name().to_string()).unwrap_or_default();
        self.facts = facts;
        self
    }
}

/// Adds a line to the file of this process. Processes share the directory, threads share the file: one write a line.
pub(crate) fn write(directory: &Path, process: &str, record: &Record) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    let path = directory.join(format!("{process}.jsonl"));
    fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}
