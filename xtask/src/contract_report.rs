//! `cargo xtask contract-report`: whether a contract suite came out as its lane expects.
//!
//! A test runner shows an absent row as skipped and an unproven one as it likes. The report is what counts, and it is
//! compared in both directions: a row that is newly proven must leave the list too.

mod expected;
mod report;

use std::{fs, io};

use anyhow::{Context as _, Result, bail};

use crate::{flags, table};
use expected::Expected;
use report::{Row, Verdict};

pub(crate) fn run(flags: &flags::ContractReport) -> Result<()> {
    let rows = report::read(&flags.dir)?;
    let file = flags.expect.display();
    let mut text = match fs::read_to_string(&flags.expect) {
        // A new lane accepts into a file that is not there yet.
        Err(error) if flags.accept && error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {file}"))?,
    };
    if flags.accept {
        text = Expected::accept(&rows, &text);
        fs::write(&flags.expect, &text).with_context(|| format!("cannot write {file}"))?;
        println!("wrote {file}; read the difference before you commit it");
    }
    let expected: Expected = text.parse().with_context(|| format!("bad list {file}"))?;
    print!("{}", summary(&rows));
    let wrong = differences(&rows, &expected);
    if wrong.is_empty() {
        return Ok(());
    }
    let count = wrong.len();
    bail!(
        "{count} rows are not as {file} expects:\n  {}\nhint: correct the backend or the suite; where the list is what is wrong, \
         `cargo xtask contract-report {} --expect {file} --accept` rewrites it",
        wrong.join("\n  "),
        flags.dir.display(),
    )
}

fn summary(rows: &[Row]) -> String {
    let shown: Vec<_> = rows
        .iter()
        .filter(|row| row.verdict != Verdict::Pass)
        .map(|row| [row.row.clone(), row.verdict.to_string(), row.reason.clone()])
        .collect();
    let mut text = if shown.is_empty() { String::new() } else { table::render(["row", "verdict", "reason"], &shown) };
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let counts: Vec<_> = Verdict::ALL.into_iter().map(|verdict| format!("{} {verdict}", count(verdict))).collect();
    text.push_str(&format!("{} rows: {}\n", rows.len(), counts.join(", ")));
    text
}

/// Everything that is not as expected, a line each.
fn differences(rows: &[Row], expected: &Expected) -> Vec<String> {
    if rows.is_empty() {
        return vec!["the report has no row: did the suite run, and with SANDBOX_CONTRACT_REPORT?".into()];
    }
    let mut wrong = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (name, reason) = (&row.row, &row.reason);
        if rows[..index].iter().any(|earlier| earlier.row == row.row) {
            wrong.push(format!("{name}: reported twice; the folder holds more than one run, empty it first"));
        }
        match (row.verdict, expected.list(row.verdict)) {
            (Verdict::Pass, _) => {}
            (verdict, None) => wrong.push(format!("{name}: {verdict}: {reason}")),
            (verdict, Some(list)) => match list.get(name) {
                None => wrong.push(format!("{name}: {verdict}, which is not expected: {reason}")),
                Some(part) if !reason.contains(part.as_str()) => {
                    wrong.push(format!("{name}: {verdict} because of `{reason}`, expected is `{part}`"));
                }
                Some(_) => {}
            },
        }
    }
    for (verdict, name) in expected.rows() {
        match rows.iter().find(|row| row.row == *name) {
            None => wrong.push(format!("{name}: expected {verdict}, but the report has no such row")),
            // A fail and its like are named above.
            Some(row) if row.verdict == Verdict::Pass => {
                wrong.push(format!("{name}: expected {verdict}, but it passed: remove it from the list"));
            }
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, verdict: &str, reason: &str) -> Row {
        report::parse(&format!(r#"{{"row":"{name}","verdict":"{verdict}","reason":"{reason}","duration_ms":3,"edition":1,"backend":"x","facts":{{}}}}"#))
            .unwrap()
    }

    fn expected() -> Expected {
        "[absent]\n'pty::opens' = 'no PTY'\n[unproven]\n'net::v6' = 'no IPv6'".parse().unwrap()
    }

    fn as_expected() -> Vec<Row> {
        vec![
            row("exec::exit", "pass", ""),
            row("pty::opens", "absent", "it has no PTY here"),
            row("net::v6", "unproven", "no IPv6"),
        ]
    }

    /// The one difference between the rows and the list.
    fn only(rows: &[Row]) -> String {
        let wrong = differences(rows, &expected());
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        wrong[0].clone()
    }

    #[test]
    fn rows_as_expected_pass() {
        assert!(differences(&as_expected(), &expected()).is_empty());
    }

    #[test]
    fn an_empty_report_fails_even_when_nothing_is_expected() {
        let wrong = differences(&[], &"".parse().unwrap());
        assert!(wrong.len() == 1 && wrong[0].contains("no row"), "{wrong:?}");
    }

    #[test]
    fn a_fail_and_an_unavailable_always_fail() {
        for verdict in ["fail", "unavailable"] {
            let mut rows = as_expected();
            rows.push(row("files::read", verdict, "why it is so"));
            assert_eq!(only(&rows), format!("files::read: {verdict}: why it is so"));
        }
    }

    #[test]
    fn an_absent_or_unproven_row_that_is_not_listed_fails() {
        for verdict in ["absent", "unproven"] {
            let mut rows = as_expected();
            rows.push(row("ports::open", verdict, "none"));
            assert!(only(&rows).contains("which is not expected: none"));
        }
    }

    #[test]
    fn the_two_lists_are_not_one() {
        let mut rows = as_expected();
        rows[1] = row("pty::opens", "unproven", "no PTY");
        assert!(only(&rows).contains("pty::opens: unproven, which is not expected"));
    }

    #[test]
    fn a_listed_row_that_passes_or_is_gone_fails() {
        let mut rows = as_expected();
        rows[1] = row("pty::opens", "pass", "");
        assert!(only(&rows).contains("remove it from the list"));
        rows.remove(1);
        assert!(only(&rows).contains("no such row"));
    }

    #[test]
    fn another_reason_is_a_difference() {
        let mut rows = as_expected();
        rows[2] = row("net::v6", "unproven", "the probe crashed");
        assert!(only(&rows).contains("expected is `no IPv6`"));
    }

    #[test]
    fn a_row_that_is_reported_twice_fails() {
        let mut rows = as_expected();
        rows.push(row("exec::exit", "pass", ""));
        assert!(only(&rows).contains("reported twice"));
    }

    #[test]
    fn the_summary_lists_each_absent_and_unproven_row_with_its_reason() {
        assert_eq!(
            summary(&as_expected()),
            "row         verdict   reason\npty::opens  absent    it has no PTY here\nnet::v6     unproven  no IPv6\n\
             3 rows: 1 pass, 0 fail, 1 absent, 1 unproven, 0 unavailable\n"
        );
    }

    #[test]
    fn the_command_reads_compares_and_accepts() {
        let root = tempfile::tempdir().unwrap();
        let (dir, expect) = (root.path().join("report"), root.path().join("expected.toml"));
        fs::create_dir(&dir).unwrap();
        fs::write(&expect, "# Kept.\n\n[absent]\n").unwrap();
        let line = r#"{"row":"pty::opens","verdict":"absent","reason":"no \"PTY\"","duration_ms":1,"edition":1,"backend":"x","facts":{}}"#;
        fs::write(dir.join("1.jsonl"), format!("{line}\n")).unwrap();
        let flags = |accept| flags::ContractReport { dir: dir.clone(), expect: expect.clone(), accept };
        let error = run(&flags(false)).unwrap_err().to_string();
        assert!(error.contains("pty::opens") && error.contains("--accept"), "{error}");
        run(&flags(true)).unwrap();
        run(&flags(false)).unwrap();
        assert!(fs::read_to_string(&expect).unwrap().starts_with("# Kept.\n"));
    }
}
