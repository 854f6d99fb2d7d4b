//! What a contract suite writes: one JSON line for each row.

use super::model::{Column, Isolation, Row, Support};
use sandbox::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(flatten)]
    row: Row,
    #[serde(default)]
    backend: String,
    facts: Option<Facts>,
}

/// The part of the facts that is the backend's own: its maxima depend on the machine that the report was made on.
#[derive(Debug, Deserialize)]
struct Facts {
    #[serde(default)]
    support: BTreeMap<String, Support>,
    isolation: Option<Isolation>,
    #[serde(default)]
    resources: BTreeMap<String, Honoured>,
    default_pids: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Honoured {
    #[serde(default)]
    limit: bool,
    default: Option<u64>,
}

/// A report on the command line: a file, or a folder of `*.jsonl`, perhaps with a name for its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    name: Option<String>,
    path: PathBuf,
}

/// `[NAME=]PATH`.
pub(super) fn source(text: &str) -> Result<Source, String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name.to_string()), path),
        _ => (None, text),
    };
    if path.is_empty() {
        return Err("write a folder or a file, perhaps with NAME= before it".into());
    }
    Ok(Source { name, path: path.into() })
}

impl Source {
    /// The column that this report makes, as of this day.
    pub(super) fn read(&self, today: &str) -> Result<Column> {
        let mut lines = Vec::new();
        for file in self.files().map_err(|error| unreadable(&self.path, error))? {
            let text = fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
            for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let line: Line = serde_json::from_str(line).map_err(|error| {
                    let place = format!("{}:{}", file.display(), index + 1);
                    Error::invalid(format!("{place} is no row of a contract report: {error}"))
                })?;
                lines.push(line);
            }
        }
        self.column(lines, today)
    }

    fn column(&self, mut lines: Vec<Line>, today: &str) -> Result<Column> {
        let path = self.path.display();
        let names: std::collections::BTreeSet<_> =
            lines.iter().map(|line| line.backend.clone()).filter(|name| !name.is_empty()).collect();
        let mut names = names.into_iter();
        let (Some(backend), None) = (names.next(), names.next()) else {
            return Err(Error::invalid(format!("{path} is not the report of one backend"))
                .with_hint("give each backend a folder of its own: SANDBOX_CONTRACT_REPORT names it"));
        };
        lines.sort_by(|a, b| a.row.row.cmp(&b.row.row));
        if let Some(twice) = lines.windows(2).find(|pair| pair[0].row.row == pair[1].row.row) {
            return Err(Error::invalid(format!("{path} has row {} twice", twice[0].row.row))
                .with_hint("the folder holds more than one run: empty it, and run the suite again"));
        }
        let mut column = Column {
            name: self.name.clone().unwrap_or(backend),
            as_of: today.into(),
            isolation: None,
            support: BTreeMap::new(),
            defaults: BTreeMap::new(),
            rows: Vec::with_capacity(lines.len()),
        };
        for line in lines {
            column.rows.push(line.row);
            if let Some(facts) = line.facts {
                narrow(&mut column, facts);
            }
        }
        Ok(column)
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        if !self.path.is_dir() {
            return Ok(vec![self.path.clone()]);
        }
        let entries = fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.path()));
        let all = entries.collect::<io::Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect())
    }
}

/// Rows that asked the provider know less than `info` promised; the least is what counts.
fn narrow(column: &mut Column, facts: Facts) {
    for (code, support) in facts.support {
        match column.support.get(&code) {
            Some(known) if *known <= support => {}
            _ => _ = column.support.insert(code, support),
        }
    }
    column.isolation = column.isolation.take().or(facts.isolation);
    let limits = facts.resources.into_iter().filter(|(_, honoured)| honoured.limit);
    let defaults = limits.filter_map(|(name, honoured)| Some((name, honoured.default?)));
    column.defaults.extend(defaults.chain(facts.default_pids.map(|most| ("processes".to_string(), most))));
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::PathNotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Internal,
    };
    let error = Error::new(kind, format!("cannot read `{}` on this host", path.display())).with_source(error);
    error.with_hint("a contract suite writes its report where SANDBOX_CONTRACT_REPORT says")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::model::Verdict;

    const FACTS: &str = r#"{"name":"x","support":{"RUN":"native","LIST":"native","PIDS":{"absent":"no"}},"isolation":{"tier":"none","source":"s","date":"d"},"resources":{"cpu":{"limit":true,"request":false,"default":1000,"min":1,"max":8000}},"default_pids":7}"#;

    fn line(row: &str, facts: &str) -> String {
        format!(
            r#"{{"row":"{row}","verdict":"pass","reason":"","duration_ms":3,"edition":1,"needs":["RUN"],"backend":"x","facts":{facts}}}"#
        )
    }

    fn read(text: &str) -> Result<Column> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("1.jsonl"), text).unwrap();
        fs::write(dir.path().join("notes.txt"), "no row").unwrap();
        Source { name: None, path: dir.path().into() }.read("2026-11-30")
    }

    #[test]
    fn rows_are_sorted_and_facts_are_the_narrowest() {
        let narrow = FACTS.replace(r#""LIST":"native""#, r#""LIST":{"absent":"probed"}"#);
        let column = read(&format!("{}\n{}\n", line("b::c", FACTS), line("a::b", &narrow))).unwrap();
        assert_eq!((column.name.as_str(), column.as_of.as_str(), column.rows.len()), ("x", "2026-11-30", 2));
        assert_eq!((column.rows[0].row.as_str(), column.rows[0].verdict), ("a::b", Verdict::Pass));
        assert_eq!(column.support["LIST"], Support::Absent("probed".into()));
        assert_eq!((column.defaults["cpu"], column.defaults["processes"]), (1000, 7));
    }

    #[test]
    fn what_is_no_report_of_one_backend_is_refused() {
        let other = line("b::c", "null").replace(r#""backend":"x""#, r#""backend":"y""#);
        for (text, word) in [
            (String::new(), "not the report of one backend"),
            (format!("{}\n{other}\n", line("a::b", "null")), "not the report of one backend"),
            (format!("{0}\n{0}\n", line("a::b", "null")), "twice"),
            ("{}\n".into(), "1.jsonl:1"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.message().contains(word), "{error}");
        }
        let missing = Source { name: None, path: "/no/such/folder".into() }.read("2026-11-30").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::PathNotFound);
    }

    #[test]
    fn a_name_may_stand_before_the_path() {
        assert_eq!(source("a=b/c"), Ok(Source { name: Some("a".into()), path: "b/c".into() }));
        assert_eq!(source("b/c=d"), Ok(Source { name: None, path: "b/c=d".into() }));
        assert!(source("").is_err() && source("a=").is_err());
    }
}
