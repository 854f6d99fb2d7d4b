//! `cargo xtask minimal`: the crates build with the oldest versions that their manifests ask for.
//!
//! It is done on a copy, so that the lock file stays as it is. `xtask` is left out: nobody depends on it.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

const COPY: &str = "target/minimal/workspace";
/// A folder of its own: nearly every crate is another version here.
const TARGET: &str = "target/minimal/build";

pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    copy(&root)?;
    let lock = root.join(COPY).join("Cargo.lock");
    let before = fs::read_to_string(&lock).context("cannot read the copy of Cargo.lock")?;
    resolve(&root.join(COPY))?;
    let after = fs::read_to_string(&lock).context("cannot read the copy of Cargo.lock")?;
    ensure!(before != after, "cargo chose no older version, so nothing would be tested");
    let status = Command::new("cargo")
        .args(["check", "--locked", "--workspace", "--lib", "--bins", "--all-features", "--keep-going"])
        .env("CARGO_TARGET_DIR", root.join(TARGET))
        .current_dir(root.join(COPY))
        .status()
        .context("cannot run cargo")?;
    ensure!(
        status.success(),
        "with the oldest versions that the manifests allow it does not build ({status}); raise the requirement of the \
         crate that is too old to the version that has what is missing"
    );
    println!("the crates build with the oldest versions that their manifests ask for");
    Ok(())
}

fn copy(root: &Path) -> Result<()> {
    let to = root.join(COPY);
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("cannot empty {COPY}"))?;
    }
    for file in workspace::files(root, &["Cargo.lock", "Cargo.toml", "crates"])? {
        let path = to.join(&file);
        fs::create_dir_all(path.parent().unwrap_or(&to)).with_context(|| format!("cannot make a folder for {file}"))?;
        fs::copy(root.join(&file), path).with_context(|| format!("cannot copy {file}"))?;
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    fs::write(to.join("Cargo.toml"), workspace::without_xtask(&manifest)?)
        .context("cannot write the copy of Cargo.toml")
}

/// The flag is unstable, and asks for the oldest of direct dependencies alone: what those ask for is their business.
fn resolve(workspace: &Path) -> Result<()> {
    let output = Command::new("cargo")
        .args(["update", "-Zdirect-minimal-versions"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(workspace)
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "the oldest versions that the manifests ask for exclude each other; raise the one that is named as previously selected:\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace whose crates are all its own: nothing is fetched.
    fn resolved(asked: &str) -> Result<()> {
        let root = tempfile::tempdir().unwrap();
        let put = |folder: &str, manifest: &str| {
            fs::create_dir_all(root.path().join(folder).join("src")).unwrap();
            fs::write(root.path().join(folder).join("Cargo.toml"), manifest).unwrap();
            fs::write(root.path().join(folder).join("src/lib.rs"), "").unwrap();
        };
        put(
            "",
            &format!(
                "[package]\nname = 'ours'\nversion = '1.0.0'\n[dependencies]\nother = {{ path = 'other', version = '{asked}' }}\n"
            ),
        );
        put("other", "[package]\nname = 'other'\nversion = '1.2.0'\n");
        resolve(root.path())
    }

    #[test]
    fn what_cannot_be_resolved_is_told_with_cargos_reason() {
        assert!(resolved("1.2").is_ok());
        let error = resolved("1.3").unwrap_err().to_string();
        assert!(error.contains("exclude each other") && error.contains("other"), "{error}");
    }
}
