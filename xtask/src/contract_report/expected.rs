//! A lane's `expected.toml`: the rows that it may not count as passed, and why.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::report::{Row, Verdict};

/// Row → a part of the reason that the suite gives for it.
type List = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    #[serde(default)]
    absent: List,
    #[serde(default)]
    unproven: List,
}

impl FromStr for Expected {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected: Self = toml::from_str(text)?;
        for (name, reason) in expected.absent.iter().chain(&expected.unproven) {
            ensure!(!reason.trim().is_empty(), "`{name}` has no reason");
        }
        if let Some(name) = expected.absent.keys().find(|name| expected.unproven.contains_key(*name)) {
            anyhow::bail!("`{name}` is in both lists");
        }
        Ok(expected)
    }
}

impl Expected {
    /// The list for a verdict; there is none for what is never expected.
    pub(crate) fn list(&self, verdict: Verdict) -> Option<&List> {
        match verdict {
            Verdict::Absent => Some(&self.absent),
            Verdict::Unproven => Some(&self.unproven),
            Verdict::Pass | Verdict::Fail | Verdict::Unavailable => None,
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (Verdict, &String)> {
        let absent = self.absent.keys().map(|name| (Verdict::Absent, name));
        absent.chain(self.unproven.keys().map(|name| (Verdict::Unproven, name)))
    }

    /// The file that expects these rows, below the comment that the old one begins with.
    pub(crate) fn accept(rows: &[Row], old: &str) -> String {
        let mut text: String =
            old.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        for verdict in [Verdict::Absent, Verdict::Unproven] {
            let separator = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{separator}[{verdict}]\n"));
            for row in rows.iter().filter(|row| row.verdict == verdict) {
                // A JSON string is a TOML string, but for one control character.
                let quoted = |text: &str| serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
                text.push_str(&format!("{} = {}\n", quoted(&row.row), quoted(&row.reason)));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", text.parse::<Expected>().unwrap_err())
    }

    #[test]
    fn inline_and_long_tables_are_the_same() {
        for text in [
            "absent = { 'a::b' = 'why' }\nunproven = { 'c::d' = 'so' }",
            "[absent]\n'a::b' = 'why'\n[unproven]\n'c::d' = 'so'",
        ] {
            let expected: Expected = text.parse().unwrap();
            assert_eq!(expected.list(Verdict::Absent).unwrap()["a::b"], "why");
            assert_eq!(expected.list(Verdict::Unproven).unwrap()["c::d"], "so");
        }
    }

    #[test]
    fn bad_lists_say_what_is_wrong() {
        assert!(error("[missing]").contains("missing"));
        assert!(error("[absent]\n'a::b' = ''").contains("`a::b` has no reason"));
        assert!(error("[absent]\n'a::b' = 'x'\n[unproven]\n'a::b' = 'y'").contains("both lists"));
    }

    #[test]
    fn what_is_accepted_can_be_read_back() {
        let line = |verdict: &str, reason: &str| {
            let value = serde_json::json!({ "row": format!("a::{verdict}"), "verdict": verdict, "reason": reason });
            super::super::report::parse(&value.to_string()).unwrap()
        };
        let hard = "quote \" back \\ tab \t bell \u{7} delete \u{7f} é";
        let rows = [line("absent", hard), line("unproven", "no control"), line("pass", "")];
        let text = Expected::accept(&rows, "# One.\n# Two.\n\n[absent]\n'old::row' = 'x'\n");
        assert!(text.starts_with("# One.\n# Two.\n\n[absent]\n"), "{text}");
        let expected: Expected = text.parse().unwrap();
        assert_eq!(expected.list(Verdict::Absent).unwrap()["a::absent"], hard);
        assert_eq!(expected.rows().count(), 2);
    }
}
