//! `cargo xtask api`: the public API of each crate as text, so that a change of it is seen in review.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{flags, generated::Folder, workspace};

/// Rustdoc's JSON has a format that changes with the compiler. This is the compiler whose format the library reads; the
/// lane `api` needs the same.
const TOOLCHAIN: &str = "1.95.0";
const FOLDER: &str = "docs/api";
const WRITER: &str = "cargo xtask api --accept";
/// A folder of its own: build scripts look at the variable that opens the unstable format, so nothing can be shared.
const TARGET: &str = "target/api";

pub(crate) fn run(flags: &flags::Api) -> Result<()> {
    let root = workspace::root();
    let mut files = BTreeMap::new();
    for member in workspace::members()? {
        let name = member["name"].as_str().unwrap_or_default();
        let targets = member["targets"].as_array().into_iter().flatten();
        let library = targets.filter(|target| target["kind"][0] == "lib").find_map(|target| target["name"].as_str());
        if let Some(library) = library {
            let json = document(&root, name, library)?;
            files.insert(format!("{name}.txt"), listed(&json).with_context(|| format!("cannot list {name}"))?);
        }
    }
    ensure!(!files.is_empty(), "no member has a library");
    let folder = Folder { path: FOLDER, extension: "txt", files, writer: WRITER };
    if flags.accept {
        folder.write(&root)?;
    }
    let findings = folder.check(&root)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "the public API has changed; if it should, commit what `{WRITER}` writes");
    println!("the public API of {} crates is as in {FOLDER}", folder.files.len());
    Ok(())
}

/// The library's documentation as JSON, all features on.
fn document(root: &Path, package: &str, library: &str) -> Result<PathBuf> {
    let target = root.join(TARGET);
    let status = Command::new("rustup")
        .args(["run", TOOLCHAIN, "cargo", "--locked", "rustdoc", "--quiet", "--lib", "--all-features"])
        .args(["--package", package, "--", "-Zunstable-options", "--output-format", "json"])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTDOCFLAGS")
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot run rustup, which has Rust {TOOLCHAIN}"))?;
    if !status.success() {
        bail!("cannot document {package}: {status}; is there Rust {TOOLCHAIN}? `rustup toolchain install {TOOLCHAIN}`");
    }
    Ok(target.join("doc").join(format!("{}.json", library.replace('-', "_"))))
}

/// One public item a line. What every type has is left out, but whether it may cross threads is kept.
fn listed(json: &Path) -> Result<String> {
    let api = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).build()?;
    let lines: Vec<_> = api.items().map(ToString::to_string).filter(|line| is_kept(line)).collect();
    ensure!(!lines.is_empty(), "it has no public item");
    Ok(lines.join("\n") + "\n")
}

fn is_kept(line: &str) -> bool {
    const AUTO: [&str; 6] = [
        "core::marker::Freeze for ",
        "core::marker::Unpin for ",
        "core::marker::UnsafeUnpin for ",
        "core::panic::unwind_safe::RefUnwindSafe for ",
        "core::panic::unwind_safe::UnwindSafe for ",
        "core::marker::StructuralPartialEq for ",
    ];
    !(line.starts_with("impl") && AUTO.iter().any(|name| line.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_users_nothing_is_left_out() {
        assert!(is_kept("impl core::marker::Send for a::B"));
        assert!(is_kept("impl !core::marker::Sync for a::B"));
        assert!(is_kept("pub fn a::b(c: core::marker::Unpin)"));
        assert!(!is_kept("impl core::marker::Freeze for a::B"));
        assert!(!is_kept("impl<T> core::marker::Unpin for a::B<T> where T: core::marker::Unpin"));
    }
}
