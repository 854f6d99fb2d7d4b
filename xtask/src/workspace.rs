//! Where things are.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use xshell::{Shell, cmd};

/// The folder with the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Something that cargo has built beside this program, wherever its target folder is.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe().context("this program is nowhere")?.with_file_name(name))
}

/// What git has or would take, of these paths or of everything: files that are there, no links.
pub(crate) fn files(root: &Path, paths: &[&str]) -> Result<Vec<String>> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    let list = cmd!(shell, "git ls-files -z --cached --others --exclude-standard -- {paths...}").quiet().read()?;
    let is_there = |name: &&str| {
        let path = root.join(name);
        !name.is_empty() && path.is_file() && !path.is_symlink()
    };
    Ok(list.split('\0').filter(is_there).map(str::to_string).collect())
}

/// The workspace's manifest without this program, for a copy of the workspace that is about the crates alone.
pub(crate) fn without_xtask(manifest: &str) -> Result<String> {
    let members = r#"members = ["crates/*", "xtask"]"#;
    ensure!(manifest.contains(members), "Cargo.toml has no `{members}`, which is needed for a copy without xtask");
    Ok(manifest.replace(members, r#"members = ["crates/*"]"#))
}

/// `cargo metadata` of the members alone.
pub(crate) fn members() -> Result<Vec<serde_json::Value>> {
    let shell = Shell::new()?;
    shell.change_dir(root());
    let text = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    let mut metadata: serde_json::Value = serde_json::from_str(&text).context("`cargo metadata` printed no JSON")?;
    match metadata["packages"].take() {
        serde_json::Value::Array(packages) if !packages.is_empty() => Ok(packages),
        _ => bail!("`cargo metadata` names no package"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_copy_has_the_crates_alone() {
        let manifest = std::fs::read_to_string(super::root().join("Cargo.toml")).unwrap();
        assert!(super::without_xtask(&manifest).unwrap().contains("members = [\"crates/*\"]\n"));
        assert!(super::without_xtask("members = []").is_err());
    }
}
