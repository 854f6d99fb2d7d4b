//! `cargo xtask package`: what each crate would hand to its users, and that it builds from that alone.
//!
//! `cargo package` itself stops at dependencies without a version, which ours are as long as their names belong to
//! others. So the files that it lists are put together as a workspace of their own, and that is checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use xshell::{Shell, cmd};

use crate::{flags, generated::Folder, workspace};

const FOLDER: &str = "ci/package";
const WRITER: &str = "cargo xtask package --accept";
/// Where the packaged files are put together.
const COPY: &str = "target/package-check";
/// Made by cargo while it packs.
const MADE: [&str; 3] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig"];
const MUST: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// One line for all modules: a new one is no news to who reviews packages.
const MODULES: &str = "src/**.rs";

pub(crate) fn run(flags: &flags::Package) -> Result<()> {
    let root = workspace::root();
    let shell = Shell::new()?;
    shell.change_dir(&root);
    let mut packages = BTreeMap::new();
    for member in workspace::members()? {
        let manifest = Path::new(member["manifest_path"].as_str().unwrap_or_default());
        let folder =
            manifest.parent().and_then(|folder| folder.strip_prefix(&root).ok()).context("a member lies outside")?;
        let name = member["name"].as_str().unwrap_or_default();
        // What is not below this folder is no crate for users.
        if folder.starts_with("crates") {
            let list = cmd!(shell, "cargo --locked package --list --allow-dirty --package {name}")
                .quiet()
                .ignore_stderr()
                .read()?;
            packages.insert(name.to_string(), (folder.to_path_buf(), files(&list)));
        }
    }
    let texts = packages.iter().map(|(name, (_, files))| (format!("{name}.txt"), summary(files))).collect();
    let folder = Folder { path: FOLDER, extension: "txt", files: texts, writer: WRITER };
    if flags.accept {
        folder.write(&root)?;
    }
    let mut findings = folder.check(&root)?;
    findings.extend(packages.iter().flat_map(|(name, (_, files))| misplaced(name, files)));
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "packages do not hold what they should");
    println!("{} packages hold what {FOLDER} says; checking that they build from that", packages.len());
    assemble(&root, packages.values())?;
    build(&root)
}

fn files(list: &str) -> BTreeSet<String> {
    list.lines().map(|line| line.trim().replace('\\', "/")).filter(|file| !MADE.contains(&file.as_str())).collect()
}

fn summary(files: &BTreeSet<String>) -> String {
    let lines: BTreeSet<_> = files
        .iter()
        .map(|file| if file.starts_with("src/") && file.ends_with(".rs") { MODULES } else { file.as_str() })
        .collect();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What is wrong whatever was accepted.
fn misplaced(name: &str, files: &BTreeSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for must in MUST.iter().filter(|must| !files.contains(**must)) {
        findings.push(format!(
            "the package of {name} has no {must}; put it beside its Cargo.toml, and into `include` there"
        ));
    }
    let stray =
        |file: &&String| ["tests/", "benches/", "examples/", "target/"].iter().any(|part| file.starts_with(part));
    for file in files.iter().filter(stray) {
        findings.push(format!(
            "the package of {name} has {file}, which users do not need; write `include = [\"src/**\", \"Cargo.toml\", \"README.md\", \"LICENSE-*\"]`"
        ));
    }
    findings
}

fn assemble<'a>(root: &Path, packages: impl Iterator<Item = &'a (std::path::PathBuf, BTreeSet<String>)>) -> Result<()> {
    let copy = root.join(COPY);
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| format!("cannot empty {COPY}"))?;
    }
    for (folder, files) in packages {
        for file in files {
            let to = copy.join(folder).join(file);
            fs::create_dir_all(to.parent().unwrap_or(&copy))
                .with_context(|| format!("cannot make a folder for {file}"))?;
            fs::copy(root.join(folder).join(file), &to).with_context(|| format!("cannot copy {file}"))?;
        }
        let manifest = copy.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        fs::write(&manifest, stripped(&text)?).with_context(|| format!("cannot write {}", manifest.display()))?;
    }
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    fs::write(copy.join("Cargo.toml"), workspace::without_xtask(&manifest)?)
        .with_context(|| format!("cannot write {COPY}/Cargo.toml"))
}

/// Without what is for tests, which cargo leaves out of a package's manifest too where their files are not packed.
fn stripped(manifest: &str) -> Result<String> {
    let mut table: toml::Table = manifest.parse().context("a manifest is no TOML")?;
    table.retain(|key, _| !["test", "bench", "example", "dev-dependencies"].contains(&key));
    Ok(table.to_string())
}

/// In the target folder of all lanes, where the others' crates are built already.
fn build(root: &Path) -> Result<()> {
    let fetched =
        Command::new("cargo").args(["fetch", "--locked"]).current_dir(root).status().context("cannot run cargo")?;
    ensure!(fetched.success(), "the dependencies cannot be fetched: {fetched}");
    let status = Command::new("cargo")
        // Not locked: the lock file loses what only xtask needs.
        .args(["check", "--offline", "--workspace", "--lib", "--bins"])
        .env("CARGO_TARGET_DIR", root.join("target"))
        .current_dir(root.join(COPY))
        .status()
        .context("cannot run cargo")?;
    ensure!(
        status.success(),
        "the packages do not build from what they hold ({status}); add the missing file to `include`, see {COPY}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[&str]) -> BTreeSet<String> {
        files.iter().map(|file| (*file).to_string()).collect()
    }

    const GOOD: [&str; 5] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

    #[test]
    fn what_cargo_makes_is_not_counted_and_modules_are_one_line() {
        let found = files(
            ".cargo_vcs_info.json\nCargo.lock\nCargo.toml\nCargo.toml.orig\nsrc/a.rs\nsrc\\b\\c.rs\nsrc/data.json\n",
        );
        assert_eq!(found, set(&["Cargo.toml", "src/a.rs", "src/b/c.rs", "src/data.json"]));
        assert_eq!(summary(&found), "Cargo.toml\nsrc/**.rs\nsrc/data.json\n");
    }

    #[test]
    fn a_manifest_loses_its_tests_and_nothing_else() {
        let manifest = "[package]\nname = 'a'\n[[bin]]\nname = 'b'\n[dependencies]\nc = '1'\n";
        let tests =
            "[[test]]\nname = 't'\n[[bench]]\nname = 'x'\n[[example]]\nname = 'e'\n[dev-dependencies]\nd = '1'\n";
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        assert_eq!(table(&stripped(&format!("{manifest}{tests}")).unwrap()), table(manifest));
    }

    #[test]
    fn a_good_package_is_no_finding() {
        assert_eq!(misplaced("a", &set(&GOOD)), Vec::<String>::new());
    }

    #[test]
    fn a_missing_licence_and_a_stray_test_are_found() {
        for missing in MUST {
            let mut files = set(&GOOD);
            files.remove(missing);
            let found = misplaced("a", &files);
            assert!(found.len() == 1 && found[0].contains(&format!("has no {missing}")), "{found:?}");
        }
        for stray in ["tests/fixture.json", "benches/a.rs", "examples/b.rs"] {
            let mut files = set(&GOOD);
            files.insert(stray.into());
            assert!(misplaced("a", &files)[0].contains(stray));
        }
    }
}
