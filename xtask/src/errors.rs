//! `cargo xtask errors`: a page for each kind of error, and the lock that keeps their codes.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use sandbox_core::{ErrorKind, Retry};
use xshell::{Shell, cmd};

use crate::{generated::Folder, workspace};

const FOLDER: &str = "docs/errors";
/// One code a line, in the order of the catalogue. Lines are only ever added, at the end.
const LOCK: &str = "docs/errors/codes.lock";
const CATALOGUE: &str = "crates/sandbox-core/src/kind.rs";
const WRITER: &str = "cargo xtask errors";

pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    let lock = fs::read_to_string(root.join(LOCK)).unwrap_or_default();
    let broken = broken(&lock, &codes());
    if !broken.is_empty() {
        bail!("the lock cannot be extended:\n{}", broken.join("\n"));
    }
    folder().write(&root)?;
    fs::write(root.join(LOCK), locked(&codes())).with_context(|| format!("cannot write {LOCK}"))?;
    println!("{FOLDER} has {} kinds of error", codes().len());
    Ok(())
}

/// What is wrong with the pages and the lock, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let lock = fs::read_to_string(root.join(LOCK)).with_context(|| format!("cannot read {LOCK}; run `{WRITER}`"))?;
    let mut findings = broken(&lock, &codes());
    findings.extend(unlocked(&lock, &codes()));
    findings.extend(rewritten(&lock, &history(root)?));
    findings.extend(folder().check(root)?);
    Ok(findings)
}

fn codes() -> Vec<&'static str> {
    ErrorKind::ALL.iter().map(|kind| kind.code()).collect()
}

fn locked(codes: &[&str]) -> String {
    codes.iter().map(|code| format!("{code}\n")).collect()
}

/// Codes that the catalogue has lost, renamed or moved.
fn broken(lock: &str, codes: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, code) in lock.lines().enumerate() {
        match codes.iter().position(|known| *known == code) {
            Some(place) if place == index => {}
            Some(place) => findings.push(format!(
                "error kind `{code}` has moved from place {index} to {place}; kinds keep their place: new ones go to the end of {CATALOGUE}"
            )),
            None => findings.push(format!(
                "error kind `{code}` is gone; a code is for good: put it back into {CATALOGUE}, and give a new meaning a new code"
            )),
        }
    }
    findings
}

fn unlocked(lock: &str, codes: &[&str]) -> Vec<String> {
    let known: Vec<_> = lock.lines().collect();
    codes
        .iter()
        .filter(|code| !known.contains(*code))
        .map(|code| format!("error kind `{code}` is not in {LOCK}; run `{WRITER}`"))
        .collect()
}

/// The lock itself may only grow: every version of it that was ever committed is the beginning of the present one.
fn rewritten(lock: &str, history: &[(String, String)]) -> Vec<String> {
    history
        .iter()
        .filter(|(_, old)| !lock.starts_with(old.as_str()))
        .map(|(commit, _)| {
            format!("{LOCK} is no continuation of what commit {commit} had; put its lines back, in their order")
        })
        .collect()
}

/// Commits that changed the lock, with what they made it, as far back as this clone reaches.
fn history(root: &Path) -> Result<Vec<(String, String)>> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    let commits = cmd!(shell, "git log --diff-filter=AM --format=%h -- {LOCK}").quiet().read()?;
    let mut versions = Vec::new();
    for commit in commits.lines() {
        let text = cmd!(shell, "git show {commit}:{LOCK}").quiet().read()?;
        // The shell takes the last end of line away, without which `b` would be the beginning of `bee`.
        versions.push((commit.to_string(), format!("{text}\n")));
    }
    Ok(versions)
}

fn folder() -> Folder {
    let mut files: BTreeMap<_, _> =
        ErrorKind::ALL.iter().map(|kind| (format!("{}.md", kind.code()), page(*kind))).collect();
    files.insert("README.md".into(), index());
    Folder { path: FOLDER, extension: "md", files, writer: WRITER }
}

fn page(kind: ErrorKind) -> String {
    let code = kind.code();
    let again = match kind.retry() {
        Retry::Later => "may help later.",
        _ => "will fail again.",
    };
    let applied = if kind.may_have_applied() {
        "The request may have taken effect: look before it is sent again."
    } else {
        "The request has had no effect."
    };
    format!(
        "# {code}\n\n{}\n## What to do\n\n{}\n\n- The same request {again}\n- {applied}\n\nAn error that knows better says so itself, by its hint, its retry advice and `may_have_applied`. \
         In code it is `ErrorKind::{kind:?}`.\n",
        meaning(kind),
        kind.fix()
    )
}

fn index() -> String {
    let mut text = format!(
        "# Errors\n\nEvery error has one of these kinds, and its code. Codes stay: they are neither renamed nor removed. Written by `{WRITER}` from `{CATALOGUE}`.\n\n| code | meaning |\n|---|---|\n"
    );
    for kind in ErrorKind::ALL {
        let code = kind.code();
        text.push_str(&format!("| [`{code}`]({code}.md) | {} |\n", meaning(*kind).trim_end().replace('\n', " ")));
    }
    text
}

/// Docs begin with the space behind their slashes.
fn meaning(kind: ErrorKind) -> String {
    kind.meaning().lines().map(|line| format!("{}\n", line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_says_what_it_means_and_what_to_do() {
        for kind in ErrorKind::ALL {
            for text in [meaning(*kind), kind.fix().to_string()] {
                assert!(text.trim().len() > 15 && text.trim().ends_with('.'), "{kind}: {text:?}");
            }
        }
    }

    #[test]
    fn a_lock_that_is_kept_is_no_finding_and_a_new_code_has_to_be_locked() {
        assert!(broken("a\nb\n", &["a", "b", "c"]).is_empty());
        assert!(unlocked("a\nb\n", &["a", "b"]).is_empty());
        assert!(unlocked("a\nb\n", &["a", "b", "c"])[0].contains("`c` is not in"));
    }

    #[test]
    fn a_code_that_vanished_was_renamed_or_moved_is_found() {
        assert!(broken("a\nb\n", &["a"])[0].contains("`b` is gone"));
        assert!(broken("a\nb\n", &["a", "bee"])[0].contains("`b` is gone"));
        let moved = broken("a\nb\n", &["a", "new", "b"]);
        assert!(moved.len() == 1 && moved[0].contains("`b` has moved from place 1 to 2"), "{moved:?}");
    }

    #[test]
    fn a_lock_that_lost_a_line_is_found_by_its_history() {
        let history = [("1".to_string(), "a\n".to_string()), ("2".to_string(), "a\nb\n".to_string())];
        assert!(rewritten("a\nb\nc\n", &history).is_empty());
        for lock in ["a\n", "b\na\n", "a\nc\nb\n"] {
            assert!(rewritten(lock, &history).iter().any(|finding| finding.contains("commit 2")), "{lock}");
        }
    }

    #[test]
    fn the_history_is_read_from_the_repository() {
        let root = tempfile::tempdir().unwrap();
        let shell = Shell::new().unwrap();
        shell.change_dir(root.path());
        fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        let commit = |text: &str| {
            fs::write(root.path().join(LOCK), text).unwrap();
            cmd!(shell, "git add .").run().unwrap();
            cmd!(shell, "git -c user.name=x -c user.email=x@localhost commit --quiet --message x").run().unwrap();
        };
        cmd!(shell, "git init --quiet").run().unwrap();
        commit("a\nb\n");
        commit("a\n");
        let versions = history(root.path()).unwrap();
        assert_eq!(rewritten("a\nb\nc\n", &versions), Vec::<String>::new());
        for lock in ["a\n", "a\nbee\n"] {
            assert_eq!(rewritten(lock, &versions).len(), 1, "{lock}");
        }
    }

    #[test]
    fn a_page_without_a_code_and_a_code_without_a_page_are_found() {
        let root = tempfile::tempdir().unwrap();
        folder().write(root.path()).unwrap();
        assert_eq!(folder().check(root.path()).unwrap(), Vec::<String>::new());
        fs::rename(root.path().join(FOLDER).join("gone.md"), root.path().join(FOLDER).join("went.md")).unwrap();
        let found = folder().check(root.path()).unwrap();
        assert!(
            found[0].contains("gone.md is missing") && found[1].contains("went.md stands for nothing"),
            "{found:?}"
        );
    }
}
