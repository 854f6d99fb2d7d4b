//! `cargo xtask api`: the public API of each crate as text, so that a change of it is seen in review.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

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
    let members = workspace::members()?;
    let libraries: BTreeMap<_, _> = members.iter().filter_map(library).collect();
    ensure!(!libraries.is_empty(), "no member has a library");
    document(&root, libraries.keys().copied())?;
    let mut files = BTreeMap::new();
    for (name, library) in libraries {
        let json = root.join(TARGET).join("doc").join(format!("{}.json", library.replace('-', "_")));
        files.insert(format!("{name}.txt"), listed(&json).with_context(|| format!("cannot list {name}"))?);
    }
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

/// A member's name and that of its library.
fn library(member: &Value) -> Option<(&str, &str)> {
    let mut targets = member["targets"].as_array().into_iter().flatten();
    let library =
        targets.find(|target| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into())))?;
    Some((member["name"].as_str()?, library["name"].as_str()?))
}

/// Documents libraries as JSON, all features on: in one go, so that their dependencies are built once.
fn document<'a>(root: &Path, packages: impl Iterator<Item = &'a str>) -> Result<()> {
    let status = Command::new("rustup")
        .args(["run", TOOLCHAIN, "cargo", "--locked", "doc", "--quiet", "--no-deps", "--lib", "--all-features"])
        .args(packages.flat_map(|package| ["--package", package]))
        .env("CARGO_TARGET_DIR", root.join(TARGET))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format json")
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot run rustup, which has Rust {TOOLCHAIN}"))?;
    ensure!(
        status.success(),
        "cannot document the libraries: {status}; is Rust {TOOLCHAIN} there? `rustup toolchain install {TOOLCHAIN}`"
    );
    Ok(())
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
    fn a_member_without_a_library_has_no_api() {
        let member = |kind: &str| serde_json::json!({ "name": "a-b", "targets": [{ "kind": ["bin"], "name": "c" }, { "kind": [kind], "name": "a_b" }] });
        assert_eq!(library(&member("lib")), Some(("a-b", "a_b")));
        assert_eq!(library(&member("test")), None);
    }

    #[test]
    fn the_lane_needs_the_compiler_that_is_asked() {
        let lanes = crate::ci::load(&workspace::root().join("ci/lanes")).unwrap();
        let lane = lanes.iter().find(|lane| lane.name == "api").unwrap();
        let needs: Vec<_> = lane.needs.iter().map(ToString::to_string).collect();
        assert_eq!(needs, [format!("rust:{TOOLCHAIN}")]);
    }

    #[test]
    fn what_tells_users_nothing_is_left_out() {
        assert!(is_kept("impl core::marker::Send for a::B"));
        assert!(is_kept("impl !core::marker::Sync for a::B"));
        assert!(is_kept("pub fn a::b(c: core::marker::Unpin)"));
        assert!(!is_kept("impl core::marker::Freeze for a::B"));
        assert!(!is_kept("impl<T> core::marker::Unpin for a::B<T> where T: core::marker::Unpin"));
    }
}
