//! What a contract suite writes: one JSON line for each row.

use std::{fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One row. What the suite says beyond this is for other readers.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) row: String,
    pub(crate) verdict: Verdict,
    #[serde(default, deserialize_with = "or_empty")]
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    Absent,
    Unproven,
    Unavailable,
}

impl Verdict {
    pub(crate) const ALL: [Self; 5] = [Self::Pass, Self::Fail, Self::Absent, Self::Unproven, Self::Unavailable];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Absent => "absent",
            Self::Unproven => "unproven",
            Self::Unavailable => "unavailable",
        })
    }
}

/// Every row of every `*.jsonl` file of a folder, by name.
pub(crate) fn read(dir: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", dir.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            rows.push(parse(line).with_context(|| format!("bad row {}:{}", path.display(), index + 1))?);
        }
    }
    rows.sort_by(|a, b| a.row.cmp(&b.row));
    Ok(rows)
}

pub(crate) fn parse(line: &str) -> Result<Row> {
    Ok(serde_json::from_str(line)?)
}

/// A pass may have the reason `null`.
fn or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read_and_sorted_and_others_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put(
            "2.jsonl",
            "{\"row\":\"a::b\",\"verdict\":\"pass\",\"reason\":null}\n\n{\"row\":\"c::d\",\"verdict\":\"unavailable\",\"reason\":\"x\"}\n",
        );
        put("1.jsonl", "{\"row\":\"b::c\",\"verdict\":\"pass\"}");
        put("notes.txt", "no row");
        let rows = read(dir.path()).unwrap();
        let names: Vec<_> = rows.iter().map(|row| (row.row.as_str(), row.verdict, row.reason.as_str())).collect();
        assert_eq!(
            names,
            [("a::b", Verdict::Pass, ""), ("b::c", Verdict::Pass, ""), ("c::d", Verdict::Unavailable, "x")]
        );
    }

    #[test]
    fn a_bad_line_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["{\"row\":\"a::b\",\"verdict\":\"ok\"}", "{\"row\":\"a::b\"", "{\"verdict\":\"pass\"}"] {
            fs::write(dir.path().join("1.jsonl"), format!("\n{bad}\n")).unwrap();
            let error = format!("{:#}", read(dir.path()).unwrap_err());
            assert!(error.contains("1.jsonl:2"), "{error}");
        }
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        assert!(read(Path::new("no/such/folder")).is_err());
    }
}
