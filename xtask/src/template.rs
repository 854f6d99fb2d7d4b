//! `cargo xtask template`: copies the provider template out of the workspace, as a stranger would, and runs its suite.

use std::{env, fs, path::Path, process};

use anyhow::{Context as _, Result, ensure};

use crate::workspace::root;

const FROM: &str = "templates/provider";
const GUIDE: &str = "docs/adapters.md";

pub(crate) fn run() -> Result<()> {
    // Outside, where neither our settings of cargo nor those of clippy are found.
    let to = env::temp_dir().join(format!("provider-template-{}", process::id()));
    let done = copied(&root(), &to);
    let removed = fs::remove_dir_all(&to).with_context(|| format!("cannot remove {}", to.display()));
    done.and(removed)
}

fn copied(root: &Path, to: &Path) -> Result<()> {
    copy(&root.join(FROM), to)?;
    let guide = fs::read_to_string(root.join(GUIDE)).with_context(|| format!("cannot read {GUIDE}"))?;
    let named = process::Command::new("sh").args(["-c", renaming(&guide)?]).current_dir(to).status();
    ensure!(named.context("cannot run sh")?.success(), "the renaming of {GUIDE} failed");
    let left = fs::read_to_string(to.join("src/lib.rs")).context("the template has no src/lib.rs")?;
    ensure!(!left.to_lowercase().contains("yours"), "the renaming of {GUIDE} left the old name in src/lib.rs");
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).context("the template has no Cargo.toml")?;
    fs::write(&manifest, placed(&text, root)?).context("cannot write the copy's Cargo.toml")?;
    // The versions that everything else was tested with; what the copy does not need is left out by cargo.
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
    for arguments in [&["test", "--quiet"][..], &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]] {
        let mut cargo = process::Command::new("cargo");
        // Not what this run of cargo was told of its own workspace.
        cargo.env_remove("CARGO_MANIFEST_DIR").env("CARGO_TARGET_DIR", root.join("target/template")).current_dir(to);
        let status = cargo.args(arguments).status().context("cannot run cargo")?;
        ensure!(status.success(), "cargo {} of the copied template failed: {status}", arguments.join(" "));
    }
    Ok(())
}

/// The command by which the guide gives a copy its name.
fn renaming(guide: &str) -> Result<&str> {
    let mut quoted = guide.split('`').skip(1).step_by(2);
    quoted.find(|text| text.contains("| xargs sed")).with_context(|| format!("{GUIDE} has no command that renames"))
}

/// The manifest with the library where it is, seen from the copy.
fn placed(manifest: &str, root: &Path) -> Result<String> {
    let relative = "path = \"../../crates/";
    let count = manifest.matches(relative).count();
    ensure!(count >= 2, "the template's Cargo.toml names the library {count} times by path");
    Ok(manifest.replace(relative, &format!("path = \"{}/crates/", root.display())))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let (path, there) = (entry.path(), to.join(entry.file_name()));
        if !path.is_dir() {
            fs::copy(&path, &there).with_context(|| format!("cannot copy {}", path.display()))?;
        } else if entry.file_name() != "target" {
            copy(&path, &there)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_says_how_to_rename() {
        let guide = fs::read_to_string(root().join(GUIDE)).unwrap();
        assert!(renaming(&guide).unwrap().starts_with("grep"));
        assert!(renaming("`grep`").is_err());
    }

    #[test]
    fn the_copy_finds_the_library() {
        let manifest = fs::read_to_string(root().join(FROM).join("Cargo.toml")).unwrap();
        let placed = placed(&manifest, Path::new("/srv/it")).unwrap();
        assert!(placed.contains("path = \"/srv/it/crates/sandbox-core\"") && !placed.contains("../.."), "{placed}");
        assert!(super::placed("[dependencies]", Path::new("/")).is_err());
    }
}
