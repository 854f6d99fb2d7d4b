//! `cargo xtask mutate`: breaks the facade, one way at a time, and sees to it that the contract suite notices.
//!
//! Works on a copy of the tree below `target/mutate`, with a target folder of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    flags,
    process::output_within,
    workspace::{self, root},
};

const LIST: &str = "ci/mutations.toml";
/// One build and a handful of rows, on a machine with other things to do.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// One change of the code, and the rows that it has to turn red.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    file: PathBuf,
    find: String,
    replace: String,
    rows: Vec<String>,
}

pub(crate) fn run(flags: &flags::Mutate) -> Result<()> {
    let text = fs::read_to_string(root().join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let all = parse(&text)?;
    for name in &flags.only {
        ensure!(all.contains_key(name), "{LIST} has no mutation `{name}`");
    }
    let chosen: Vec<_> =
        all.into_iter().filter(|(name, _)| flags.only.is_empty() || flags.only.contains(name)).collect();
    let copy = Copy::of(&root(), &root().join("target/mutate"))?;
    let rows: BTreeSet<&str> = chosen.iter().flat_map(|(_, mutation)| &mutation.rows).map(String::as_str).collect();
    // Without it, rows that are red anyway would look killed.
    let verdicts = copy.verdicts(&rows)?;
    let red: Vec<_> = rows.iter().filter(|row| verdicts.get(**row).is_none_or(|verdict| verdict != "pass")).collect();
    ensure!(red.is_empty(), "without any mutation, these rows do not pass: {red:?}");
    println!("without any mutation: {} rows pass", rows.len());
    let mut survivors = Vec::new();
    for (name, mutation) in chosen {
        let before = copy.mutate(&mutation).with_context(|| format!("mutation `{name}`"))?;
        let verdicts = copy.verdicts(&mutation.rows.iter().map(String::as_str).collect());
        fs::write(copy.tree.join(&mutation.file), before).context("cannot take a mutation back")?;
        let verdicts = verdicts.with_context(|| format!("mutation `{name}`"))?;
        for row in &mutation.rows {
            let verdict = verdicts.get(row).map_or("nothing", String::as_str);
            println!("{name}: {row} says {verdict}");
            if verdict != "fail" {
                survivors.push(format!("{name} survives {row}, which says {verdict}"));
            }
        }
    }
    ensure!(survivors.is_empty(), "{}", survivors.join("\n"));
    Ok(())
}

fn parse(text: &str) -> Result<BTreeMap<String, Mutation>> {
    let all: BTreeMap<String, Mutation> = toml::from_str(text).with_context(|| format!("bad {LIST}"))?;
    for (name, mutation) in &all {
        ensure!(!mutation.rows.is_empty(), "mutation `{name}` names no row, so it could not survive");
        ensure!(mutation.find != mutation.replace, "mutation `{name}` changes nothing");
    }
    Ok(all)
}

/// The code with the change; it has to be possible at exactly one place.
fn changed(code: &str, mutation: &Mutation) -> Result<String> {
    match code.matches(&mutation.find).count() {
        1 => Ok(code.replacen(&mutation.find, &mutation.replace, 1)),
        count => bail!("`find` is {count} times in {}; it has to be there once", mutation.file.display()),
    }
}

/// A copy of the tree, and where it is built.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    report: PathBuf,
}

impl Copy {
    /// Only what differs is written, so that builds of an earlier run are of use.
    fn of(from: &Path, to: &Path) -> Result<Self> {
        let copy = Self { tree: to.join("tree"), target: to.join("target"), report: to.join("report") };
        let files = workspace::files(from, &[])?;
        if copy.tree.exists() {
            remove_others(&copy.tree, Path::new(""), &files.iter().map(PathBuf::from).collect())?;
        }
        for name in &files {
            let (content, path) = (fs::read(from.join(name))?, copy.tree.join(name));
            if fs::read(&path).is_ok_and(|there| there == content) {
                continue;
            }
            fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            fs::write(&path, content).with_context(|| format!("cannot copy {name}"))?;
        }
        Ok(copy)
    }

    /// Makes the change; answers what was there before.
    fn mutate(&self, mutation: &Mutation) -> Result<String> {
        let path = self.tree.join(&mutation.file);
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(&path, changed(&before, mutation)?)?;
        Ok(before)
    }

    /// Runs these rows on the fake; what each says.
    fn verdicts(&self, rows: &BTreeSet<&str>) -> Result<BTreeMap<String, String>> {
        if self.report.exists() {
            fs::remove_dir_all(&self.report).context("cannot remove an earlier report")?;
        }
        let filter: Vec<_> = rows.iter().map(|row| format!("test(={row}) | test(={row}::serial)")).collect();
        let mut command = Command::new("cargo");
        command.args(["nextest", "run", "--package", "sandbox-fake", "--features", "shell", "--test", "contract"]);
        command.args(["--no-fail-fast", "-E", &filter.join(" | ")]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target).env_remove("CARGO_MANIFEST_DIR");
        command.env("SANDBOX_CONTRACT_REPORT", &self.report);
        let output = output_within(&mut command, LIMIT)?;
        let mut verdicts = BTreeMap::new();
        for file in fs::read_dir(&self.report).into_iter().flatten() {
            for line in fs::read_to_string(file?.path())?.lines() {
                let line: serde_json::Value = serde_json::from_str(line).context("the report is no JSON")?;
                if let (Some(row), Some(verdict)) = (line["row"].as_str(), line["verdict"].as_str()) {
                    verdicts.insert(row.to_string(), verdict.to_string());
                }
            }
        }
        if verdicts.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let last: Vec<_> = said.lines().rev().take(30).collect();
            bail!("no row has run:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        Ok(verdicts)
    }
}

/// A file that was renamed since the last run would be there twice, and a crate be a member still.
fn remove_others(tree: &Path, below: &Path, keep: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(tree.join(below)).context("cannot list the copy")? {
        let entry = entry.context("cannot list the copy")?;
        let name = below.join(entry.file_name());
        if entry.path().is_dir() {
            remove_others(tree, &name, keep)?;
        } else if !keep.contains(&name) {
            fs::remove_file(entry.path()).with_context(|| format!("cannot remove {}", name.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use xshell::{Shell, cmd};

    use super::*;

    #[test]
    fn every_mutation_of_the_list_can_be_made() {
        let all = parse(&fs::read_to_string(root().join(LIST)).unwrap()).unwrap();
        assert!(all.len() > 20);
        for (name, mutation) in all {
            let code = fs::read_to_string(root().join(&mutation.file)).unwrap();
            let changed = changed(&code, &mutation).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_ne!(changed, code, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_told() {
        let one = "[m]\nfile = 'a.rs'\nfind = 'x'\nreplace = 'y'\nrows = ['a::b']\n";
        let mutation = parse(one).unwrap().remove("m").unwrap();
        assert_eq!(changed("a x b", &mutation).unwrap(), "a y b");
        for code in ["a b", "x x"] {
            assert!(format!("{:#}", changed(code, &mutation).unwrap_err()).contains("a.rs"));
        }
        assert!(parse(&one.replace("['a::b']", "[]")).is_err());
        assert!(parse(&one.replace("'y'", "'x'")).is_err());
        assert!(format!("{:#}", parse(&one.replace("rows", "row")).unwrap_err()).contains("row"));
    }

    #[test]
    fn a_copy_has_what_git_has_and_tells_what_a_change_replaced() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let shell = Shell::new().unwrap();
        shell.change_dir(from.path());
        cmd!(shell, "git init --quiet").run().unwrap();
        fs::create_dir(from.path().join("src")).unwrap();
        fs::write(from.path().join("src/a.rs"), "fn x() {}").unwrap();
        fs::write(from.path().join(".gitignore"), "target\n").unwrap();
        fs::create_dir(from.path().join("target")).unwrap();
        fs::write(from.path().join("target/big"), "").unwrap();
        let copy = Copy::of(from.path(), to.path()).unwrap();
        assert!(copy.tree.join("src/a.rs").is_file() && !copy.tree.join("target").exists());
        let text = "[m]\nfile = 'src/a.rs'\nfind = 'x'\nreplace = 'y'\nrows = ['a::b']\n";
        let again = Copy::of(from.path(), to.path()).unwrap();
        fs::rename(from.path().join("src/a.rs"), from.path().join("src/b.rs")).unwrap();
        let renamed = Copy::of(from.path(), to.path()).unwrap();
        assert!(renamed.tree.join("src/b.rs").is_file() && !again.tree.join("src/a.rs").exists());
        fs::rename(from.path().join("src/b.rs"), from.path().join("src/a.rs")).unwrap();
        let copy = Copy::of(from.path(), to.path()).unwrap();
        let before = copy.mutate(&parse(text).unwrap()["m"]).unwrap();
        assert_eq!((&*before, &*fs::read_to_string(copy.tree.join("src/a.rs")).unwrap()), ("fn x() {}", "fn y() {}"));
    }
}
