//! `sandbox conformance`.

mod groups;
mod markdown;
mod model;
mod page;
mod report;
mod terminal;

use crate::{
    exit::{Own, Phase},
    report::Report,
};
use chrono::{DateTime, Utc};
use clap::Args;
use model::{Column, Conformance};
use report::Source;
use sandbox::{Error, ErrorKind, Result};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, name = "conformance")]
pub(crate) struct Options {
    /// What a contract suite has written: a folder of *.jsonl or a file; NAME is the backend's own unless it is given
    #[arg(value_name = "[NAME=]REPORT", value_parser = report::source, required_unless_present = "into")]
    reports: Vec<Source>,
    /// Keep it there: conformance.json, and made from it conformance.md and conformance.html
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Write nothing; fail where the files there are not what the reports give
    #[arg(long, requires = "into")]
    check: bool,
}

const EXAMPLES: &str = "\
Examples:
  rm -rf report; SANDBOX_CONTRACT_REPORT=$PWD/report cargo test --test contract
  sandbox conformance report
  sandbox conformance report --into docs
  sandbox conformance --into docs --check report

A backend that has no report among them stays as it was there. The day of a backend changes with what it can do, and not
with every run.";

/// Shows, keeps or checks what was proven, and gives the code to end with.
pub(crate) fn conformance(options: &Options, json: bool) -> u8 {
    let report = Report::new(json);
    let read = || options.reports.iter().map(|source| source.read(&today())).collect::<Result<Vec<Column>>>();
    let columns = match read() {
        Ok(columns) => columns,
        Err(error) => return report.failed(Phase::Usage, &error),
    };
    let Some(dir) = &options.into else {
        let mut all = Conformance::default();
        columns.into_iter().for_each(|column| all.put(column));
        return report.give(&all, "ok", 0);
    };
    let done = if options.check { check(dir, &columns) } else { write(dir, columns) };
    match done {
        Ok(stale) if stale.is_empty() => report.end("ok", 0),
        Ok(stale) => {
            let error = Error::new(ErrorKind::WrongState, format!("{} is stale: {}", dir.display(), stale.join("; ")));
            let mut report = report;
            report.error(Phase::Usage, &error.with_hint("run the same without --check, and read the difference"));
            report.end("failed", Own::Stale.code())
        }
        Err(error) => report.failed(Phase::Usage, &error),
    }
}

fn today() -> String {
    DateTime::<Utc>::from(SystemTime::now()).format("%Y-%m-%d").to_string()
}

const DATA: &str = "conformance.json";

/// What is made from the data.
fn renderings(all: &Conformance) -> [(&'static str, String); 2] {
    [("conformance.md", markdown::render(all)), ("conformance.html", page::render(all))]
}

fn write(dir: &Path, columns: Vec<Column>) -> Result<Vec<String>> {
    let mut all = kept(dir)?;
    columns.into_iter().for_each(|column| all.put(column));
    let data = all.to_text().map_err(|error| Error::new(ErrorKind::Internal, format!("it is no JSON: {error}")))?;
    for (name, text) in std::iter::once((DATA, data)).chain(renderings(&all)) {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|error| on_host("write", &path, error))?;
    }
    Ok(Vec::new())
}

/// What is not as the reports and the data say.
fn check(dir: &Path, columns: &[Column]) -> Result<Vec<String>> {
    let all = kept(dir)?;
    let mut stale: Vec<String> = columns.iter().filter_map(|column| difference(&all, column)).collect();
    for (name, text) in renderings(&all) {
        let path = dir.join(name);
        let there = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|error| on_host("read", &path, error))?,
        };
        if there != text {
            stale.push(format!("{name} is not what {DATA} gives"));
        }
    }
    Ok(stale)
}

/// What is kept there by now; nothing where there is no such file yet.
fn kept(dir: &Path) -> Result<Conformance> {
    let path = dir.join(DATA);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => return Ok(Conformance::default()),
        read => read.map_err(|error| on_host("read", &path, error))?,
    };
    serde_json::from_str(&text).map_err(|error| {
        Error::invalid(format!("{} is not what this command writes: {error}", path.display()))
            .with_hint("remove it, and give every report again")
    })
}

/// How a backend differs from what is kept of it, in a sentence.
fn difference(all: &Conformance, column: &Column) -> Option<String> {
    let name = &column.name;
    let Some(known) = all.backends.iter().find(|known| known.name == *name) else {
        return Some(format!("{name} is not there"));
    };
    if known.is_like(column) {
        return None;
    }
    let rows = |one: &Column, other: &Column| {
        let news = one.rows.iter().filter(|row| !other.rows.contains(row)).map(|row| row.row.clone());
        news.collect::<Vec<_>>()
    };
    let mut names = rows(column, known);
    names.extend(rows(known, column));
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    Some(match (&names[..], more) {
        ([], _) => format!("the facts of {name} have changed"),
        (names, 0) => format!("{name} differs in {}", names.join(", ")),
        (names, more) => format!("{name} differs in {}, and {more} more", names.join(", ")),
    })
}

/// How many rows a difference names.
const SHOWN: usize = 8;

fn on_host(what: &str, path: &Path, error: io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::PathNotFound } else { ErrorKind::Internal };
    Error::new(kind, format!("cannot {what} `{}` on this host: {error}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::tests::sample;

    #[test]
    fn what_was_written_is_fresh_until_something_changes() {
        let dir = tempfile::tempdir().unwrap();
        let columns = sample().backends;
        assert!(!check(dir.path(), &columns).unwrap().is_empty(), "nothing is there yet");
        assert!(write(dir.path(), columns.clone()).unwrap().is_empty());
        assert_eq!(check(dir.path(), &columns).unwrap(), Vec::<String>::new());
        let mut later = columns.clone();
        later[0].as_of = "2030-01-01".into();
        assert_eq!(check(dir.path(), &later).unwrap(), Vec::<String>::new(), "a day alone is no difference");

        later[0].rows[0].verdict = model::Verdict::Fail;
        let stale = check(dir.path(), &later).unwrap();
        assert_eq!(stale, ["one differs in run::exit_codes_arrive"]);
        let page = dir.path().join("conformance.html");
        fs::write(&page, fs::read_to_string(&page).unwrap().replace("native", "n\u{e4}tive")).unwrap();
        assert_eq!(check(dir.path(), &columns).unwrap(), ["conformance.html is not what conformance.json gives"]);
    }

    #[test]
    fn a_backend_without_a_report_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = &sample().backends[..] else { panic!("two backends") };
        write(dir.path(), vec![one.clone()]).unwrap();
        write(dir.path(), vec![two.clone()]).unwrap();
        assert_eq!(kept(dir.path()).unwrap(), sample());
    }
}
