//! What a failed canary leaves: the text of an issue, and a line for the log of what providers changed.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::lane::Lane;

const FOLDER: &str = "target/churn";
const LOG: &str = "docs/churn-log.md";

/// A report that cannot be written must not hide the failure, which is told either way.
pub(crate) fn report(root: &Path, lane: &Lane, why: &str) {
    let today = chrono::Utc::now().format("%Y-%m-%d").to_string();
    let commit = commit(root).unwrap_or_else(|| "unknown".into());
    let name = lane.name.replace('/', "-");
    let entry = entry(&today, lane, why);
    match write(root, &name, &issue(&today, &commit, lane, why, &entry), &entry) {
        Ok(()) => println!("canary: {FOLDER}/{name}.md is an issue to file, {FOLDER}/{name}.log a line for {LOG}"),
        Err(error) => eprintln!("warning: the canary's report is lost: {error:#}"),
    }
}

fn write(root: &Path, name: &str, issue: &str, entry: &str) -> Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {FOLDER}"))?;
    for (extension, text) in [("md", issue), ("log", entry)] {
        let file = folder.join(format!("{name}.{extension}"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn commit(root: &Path) -> Option<String> {
    let output =
        std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_string())
}

fn issue(today: &str, commit: &str, lane: &Lane, why: &str, entry: &str) -> String {
    let commands: String = lane.run.iter().map(|argv| format!("    {}\n", argv.join(" "))).collect();
    format!(
        "# provider-churn: canary `{lane}` failed on {today}\n\n\
         The lane `{lane}` watches what this project does not control. It failed at commit {commit}:\n\n    {}\n\n\
         It runs\n\n{commands}\nRepeat it with `cargo xtask ci --lane {lane}`.\n\n\
         - [ ] What has changed, and where is it announced?\n\
         - [ ] Which lanes of `change` should have seen it, and why did they not?\n\
         - [ ] Adapter and twin say the same again.\n\
         - [ ] Line for `{LOG}`, with the cause filled in:\n\n    {entry}",
        one_line(why),
        lane = lane.name
    )
}

/// A row of the log's table.
fn entry(today: &str, lane: &Lane, why: &str) -> String {
    format!("| {today} | `{}` | {} | |\n", lane.name, one_line(why).replace('|', "\\|"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::parse;

    fn lane() -> Lane {
        let text = "when = 'nightly'\nrequired = false\ncanary = true\nminutes = 1\nrun = [['sdk', 'newest']]";
        parse("canary/sdk", text).unwrap()
    }

    #[test]
    fn the_issue_says_what_failed_and_how_to_repeat_it() {
        let entry = entry("2030-01-02", &lane(), "x");
        let text = issue("2030-01-02", "abc123", &lane(), "exit status: 1:\nsdk newest", &entry);
        for part in [
            "# provider-churn: canary `canary/sdk` failed on 2030-01-02\n",
            "commit abc123:\n\n    exit status: 1: sdk newest\n",
            "    sdk newest\n",
            "cargo xtask ci --lane canary/sdk",
            entry.as_str(),
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }

    #[test]
    fn the_line_is_one_row_of_the_log() {
        assert_eq!(entry("2030-01-02", &lane(), "a |\n b"), "| 2030-01-02 | `canary/sdk` | a \\| b | |\n");
        let log = fs::read_to_string(crate::workspace::root().join(LOG)).unwrap();
        assert!(log.contains("| date | lane | what failed | what the provider had changed |\n"), "{log}");
    }

    #[test]
    fn both_files_are_written_with_the_day() {
        let root = tempfile::tempdir().unwrap();
        report(root.path(), &lane(), "exit status: 1");
        let read =
            |extension: &str| fs::read_to_string(root.path().join(format!("{FOLDER}/canary-sdk.{extension}"))).unwrap();
        let day = &read("log")[2..12];
        assert!(day.starts_with("20") && day.matches('-').count() == 2, "{day}");
        assert!(read("md").contains(day) && read("md").contains("commit unknown"));
    }
}
