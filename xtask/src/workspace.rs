//! Where things are.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

/// The folder with the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
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
