//! Files that this program writes and that are committed, so that a change of them is seen in review.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};

/// What a folder has to hold: all of its files with one extension, by name.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: &'static str,
    pub(crate) extension: &'static str,
    pub(crate) files: BTreeMap<String, String>,
    /// The command that writes them.
    pub(crate) writer: &'static str,
}

impl Folder {
    /// What differs from the checkout, a line each, with the first lines that differ.
    pub(crate) fn check(&self, root: &Path) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        for (name, text) in &self.files {
            let shown = format!("{}/{name}", self.path);
            let file = root.join(&shown);
            if !file.is_file() {
                findings.push(format!("{shown} is missing; run `{}`", self.writer));
                continue;
            }
            let old = fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
            if old != *text {
                let lines = difference(&old, text);
                findings.push(format!("{shown} is out of date; run `{}` and read the difference:{lines}", self.writer));
            }
        }
        for name in self.extra(root)? {
            findings.push(format!("{}/{name} stands for nothing; run `{}`, which removes it", self.path, self.writer));
        }
        Ok(findings)
    }

    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let folder = root.join(self.path);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", self.path))?;
        for name in self.extra(root)? {
            fs::remove_file(folder.join(&name)).with_context(|| format!("cannot remove {}/{name}", self.path))?;
        }
        for (name, text) in &self.files {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {}/{name}", self.path))?;
        }
        Ok(())
    }

    fn extra(&self, root: &Path) -> Result<Vec<String>> {
        let folder = root.join(self.path);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", self.path))? {
            let name = entry.with_context(|| format!("cannot list {}", self.path))?.file_name();
            let name = name.to_string_lossy().into_owned();
            let ours = Path::new(&name).extension().is_some_and(|extension| extension == self.extension);
            if ours && !self.files.contains_key(&name) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The lines that only one of two texts has, by count, at most a dozen of each.
fn difference(old: &str, new: &str) -> String {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    new.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    old.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
    let mut text = String::new();
    let mut say = |sign: char, lines: &str, mut left: BTreeMap<&str, i64>| {
        let mut shown = 0;
        for line in lines.lines() {
            let Some(count) = left.get_mut(line).filter(|count| **count > 0) else { continue };
            *count -= 1;
            shown += 1;
            if shown > 12 {
                text.push_str(&format!("\n    {sign} …"));
                break;
            }
            text.push_str(&format!("\n    {sign} {line}"));
        }
    };
    say('-', old, counts.iter().map(|(line, count)| (*line, -count)).collect());
    say('+', new, counts);
    if text.is_empty() { "\n    the same lines in another order".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> Folder {
        let files = BTreeMap::from([("a.md".into(), "one\ntwo\n".into()), ("b.md".into(), "b\n".into())]);
        Folder { path: "docs/x", extension: "md", files, writer: "cargo xtask x" }
    }

    #[test]
    fn what_was_written_is_up_to_date_and_others_files_stay() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/x")).unwrap();
        fs::write(root.path().join("docs/x/by-hand.txt"), "").unwrap();
        fs::write(root.path().join("docs/x/old.md"), "").unwrap();
        folder().write(root.path()).unwrap();
        assert_eq!(folder().check(root.path()).unwrap(), Vec::<String>::new());
        assert!(root.path().join("docs/x/by-hand.txt").exists() && !root.path().join("docs/x/old.md").exists());
    }

    #[test]
    fn missing_changed_and_extra_files_are_found() {
        let root = tempfile::tempdir().unwrap();
        folder().write(root.path()).unwrap();
        fs::remove_file(root.path().join("docs/x/b.md")).unwrap();
        fs::write(root.path().join("docs/x/a.md"), "one\n2\n").unwrap();
        fs::write(root.path().join("docs/x/c.md"), "").unwrap();
        let found = folder().check(root.path()).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("a.md is out of date") && found[0].ends_with("\n    - 2\n    + two"), "{found:?}");
        assert!(found[1].contains("b.md is missing") && found[2].contains("c.md stands for nothing"), "{found:?}");
    }

    #[test]
    fn an_order_is_a_difference() {
        assert!(difference("a\nb\n", "b\na\n").contains("another order"));
    }
}
