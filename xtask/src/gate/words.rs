//! What no tracked file may hold: the paths of one machine, and the hosts of package registries.

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result};

use super::Findings;
use crate::workspace;

/// Hosts by their labels, since this file is checked too.
const HOSTS: [&[&str]; 16] = [
    &["crates", "io"],
    &["pypi", "org"],
    &["pythonhosted", "org"],
    &["deb", "debian", "org"],
    &["security", "debian", "org"],
    &["snapshot", "debian", "org"],
    &["ftp", "debian", "org"],
    &["archive", "ubuntu", "com"],
    &["registry", "npmjs", "org"],
    &["registry", "yarnpkg", "com"],
    &["proxy", "golang", "org"],
    &["repo1", "maven", "org"],
    &["repo", "maven", "apache", "org"],
    &["rubygems", "org"],
    &["registry-1", "docker", "io"],
    &["index", "docker", "io"],
];

/// Written by cargo, which names its registry for every crate.
const LOCK: &str = "Cargo.lock";

/// A text that may not occur, and what to do about it.
#[derive(Debug)]
struct Word {
    text: String,
    fix: &'static str,
}

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let (hosts, paths) = (hosts(), paths(root, env::var_os("HOME").as_deref().map(Path::new), &env::temp_dir()));
    let mut findings = Vec::new();
    for name in &workspace::files(root, &[])? {
        let bytes = fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        let text = String::from_utf8_lossy(&bytes);
        findings.extend(find(name, &text, &paths));
        if name != LOCK {
            findings.extend(find(name, &text, &hosts));
        }
    }
    Ok(findings)
}

fn hosts() -> Vec<Word> {
    let fix = "leave the host to the machine's own configuration";
    HOSTS.iter().map(|labels| Word { text: labels.join("."), fix }).collect()
}

/// This checkout, what lies beside it, and what tools keep in the home folder.
fn paths(root: &Path, home: Option<&Path>, temporary: &Path) -> Vec<Word> {
    let mut texts = vec![root.display().to_string()];
    // What lies in a root folder or among temporary files has names that anybody uses.
    let beside = root.parent().filter(|parent| parent.parent().is_some() && !parent.starts_with(temporary));
    for entry in beside.and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten() {
        texts.push(entry.path().display().to_string());
    }
    if let Some(home) = home.filter(|home| home.parent().is_some()) {
        texts.push(format!("{}/.", home.display()));
    }
    texts.sort();
    texts.dedup();
    texts
        .into_iter()
        .map(|text| Word { text, fix: "the path is one of this machine: make it relative, or find it at run time" })
        .collect()
}

fn find(file: &str, text: &str, words: &[Word]) -> Findings {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in words.iter().filter(|word| holds(line, &word.text)) {
            findings.push(format!("{file}:{} has `{}`; {}", index + 1, word.text, word.fix));
        }
    }
    findings
}

/// Whether the text occurs as a whole name, not as a part of a longer one.
fn holds(line: &str, text: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(text).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + text.len()..].chars().next());
        let open = text.ends_with('.') || !after.is_some_and(part);
        open && !before.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_host_is_found_with_its_line() {
        let host = HOSTS[1].join(".");
        let found = find("README.md", &format!("fine\nsee https://{host}/x\n"), &hosts());
        assert!(found.len() == 1 && found[0].starts_with("README.md:2 has"), "{found:?}");
    }

    #[test]
    fn a_longer_name_is_another_one() {
        let host = HOSTS[1].join(".");
        for line in [format!("my{host}"), format!("{host}x"), format!("{host}-mirror"), "the package docker.io".into()]
        {
            assert!(find("a", &line, &hosts()).is_empty(), "{line}");
        }
        assert_eq!(find("a", &format!("files.{host}."), &hosts()).len(), 1);
    }

    #[test]
    fn the_checkout_its_neighbours_and_the_home_are_found() {
        let root = Path::new("/srv/project/main");
        let words = paths(root, Some(Path::new("/home/someone")), Path::new("/tmp"));
        for line in ["cd /srv/project/main", "/srv/project/main/crates", "\"/home/someone/.cargo/bin\""] {
            assert_eq!(find("a", line, &words).len(), 1, "{line}");
        }
        for line in ["/srv/project/mainly", "/srv/project", "/home/someone/x", "/home/other/.cargo"] {
            assert!(find("a", line, &words).is_empty(), "{line}");
        }
    }

    #[test]
    fn what_lies_beside_the_checkout_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let (main, notes) = (parent.path().join("main"), parent.path().join("notes"));
        fs::create_dir(&main).unwrap();
        fs::create_dir(&notes).unwrap();
        let line = format!("see {}/x.md", notes.display());
        let found = |temporary| find("a", &line, &paths(&main, None, temporary)).len();
        assert_eq!(found(Path::new("/elsewhere")), 1);
        assert_eq!(found(parent.path()), 0);
    }
}
