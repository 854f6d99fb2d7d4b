//! Who may depend on whom, and what a member's manifest must say.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Findings;
use crate::workspace;

/// Names that the core may not know.
const PROVIDERS: [&str; 5] = ["docker", "e2b", "modal", "daytona", "lambda"];

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let members = workspace::members()?;
    let mut findings = edges(&members);
    for member in &members {
        let manifest = PathBuf::from(member["manifest_path"].as_str().unwrap_or_default());
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        findings.extend(duties(member, &text));
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    findings.extend(strangers(&lock, &members)?);
    let mut sources = Vec::new();
    rust_files(&root.join("crates/sandbox-core/src"), &mut sources)?;
    for file in sources {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        findings.extend(providers(&file.strip_prefix(root).unwrap_or(&file).display().to_string(), &text));
    }
    Ok(findings)
}

/// The members that a member may depend on outside its tests; `None` is all of them. An unknown crate is an adapter.
fn allowed(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "sandbox-core" | "sandbox-guest" => Some(&[]),
        "sandbox" => Some(&["sandbox-core"]),
        "sandbox-agent" | "sandbox-contract" | "sandbox-twin" => Some(&["sandbox", "sandbox-core"]),
        "sandbox-cli" | "sandbox-mcp" | "xtask" => None,
        _ => Some(&["sandbox-core", "sandbox-guest"]),
    }
}

fn edges(members: &[Value]) -> Findings {
    let ours: BTreeSet<_> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    let mut findings = Vec::new();
    for member in members {
        let name = member["name"].as_str().unwrap_or_default();
        let Some(allowed) = allowed(name) else { continue };
        for dependency in member["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            let in_tests = dependency["kind"] == "dev";
            if ours.contains(other) && !in_tests && !allowed.contains(&other) {
                findings.push(format!(
                    "{name} depends on {other}; an adapter has sandbox-core alone: move what both need there, or make it a dev-dependency"
                ));
            }
        }
    }
    findings
}

fn duties(member: &Value, manifest: &str) -> Findings {
    let name = member["name"].as_str().unwrap_or_default();
    let mut findings = Vec::new();
    if member["publish"] != Value::Array(Vec::new()) {
        findings.push(format!("{name} could be published; add `publish.workspace = true` to its manifest"));
    }
    let table: toml::Table = manifest.parse().unwrap_or_default();
    if table.get("lints").and_then(|lints| lints.get("workspace")) != Some(&toml::Value::Boolean(true)) {
        findings.push(format!("{name} has lints of its own; add `[lints] workspace = true` to its manifest"));
    }
    let targets = member["targets"].as_array().into_iter().flatten();
    let has_script = targets.flat_map(|target| target["kind"].as_array()).flatten().any(|kind| kind == "custom-build");
    if has_script && name != "sandbox-guest" {
        findings.push(format!("{name} has a build script; only sandbox-guest needs one: commit what it makes"));
    }
    findings
}

/// A member that comes from a registry is somebody else's crate of the same name.
fn strangers(lock: &str, members: &[Value]) -> Result<Findings> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is no TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock names no package")?;
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.get("source").is_some()) {
        let name = package.get("name").and_then(toml::Value::as_str).unwrap_or_default();
        if members.iter().any(|member| member["name"] == name) {
            findings.push(format!("{name} in Cargo.lock is not ours; depend on it with `workspace = true` or by path"));
        }
    }
    Ok(findings)
}

fn providers(file: &str, text: &str) -> Findings {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        for name in PROVIDERS.iter().filter(|name| lower.contains(**name)) {
            let line = index + 1;
            findings.push(format!(
                "{file}:{line} names `{name}`; the core knows no provider: say it in the provider's crate"
            ));
        }
    }
    findings
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, dependencies: &[(&str, Value)]) -> Value {
        let dependencies: Vec<_> =
            dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        json!({ "name": name, "dependencies": dependencies, "publish": [], "targets": [{ "kind": ["lib"] }] })
    }

    fn workspace(adapter: &[(&str, Value)]) -> Vec<Value> {
        vec![
            member("sandbox-core", &[]),
            member("sandbox", &[("sandbox-core", Value::Null)]),
            member("sandbox-new", adapter),
        ]
    }

    #[test]
    fn an_adapter_may_have_the_core_and_in_tests_what_it_likes() {
        let adapter = [("sandbox-core", Value::Null), ("bytes", Value::Null), ("sandbox", json!("dev"))];
        assert!(edges(&workspace(&adapter)).is_empty());
    }

    #[test]
    fn an_adapter_may_not_have_the_facade_in_any_other_way() {
        for kind in [Value::Null, json!("build")] {
            let found = edges(&workspace(&[("sandbox", kind)]));
            assert!(found.len() == 1 && found[0].contains("sandbox-new depends on sandbox;"), "{found:?}");
        }
    }

    #[test]
    fn the_core_may_have_none() {
        let found = edges(&[member("sandbox-core", &[("sandbox", Value::Null)]), member("sandbox", &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn duties_are_found_missing() {
        let good = "[lints]\nworkspace = true";
        assert!(duties(&member("sandbox-new", &[]), good).is_empty());
        assert!(duties(&member("sandbox-new", &[]), "[lints.rust]")[0].contains("lints of its own"));
        let mut public = member("sandbox-new", &[]);
        public["publish"] = Value::Null;
        assert!(duties(&public, good)[0].contains("could be published"));
        let mut scripted = member("sandbox-new", &[]);
        scripted["targets"] = json!([{ "kind": ["lib"] }, { "kind": ["custom-build"] }]);
        assert!(duties(&scripted, good)[0].contains("build script"));
    }

    #[test]
    fn a_namesake_from_a_registry_is_found() {
        let lock = "[[package]]\nname = 'sandbox'\nversion = '0.3.0'\nsource = 'registry+x'\n[[package]]\nname = 'bytes'\nversion = '1.0.0'\nsource = 'registry+x'";
        let found = strangers(lock, &workspace(&[])).unwrap();
        assert!(found.len() == 1 && found[0].contains("sandbox in Cargo.lock"), "{found:?}");
        assert!(strangers(&lock.replace("'sandbox'", "'other'"), &workspace(&[])).unwrap().is_empty());
    }

    #[test]
    fn a_provider_in_the_core_is_found_in_names_and_words() {
        let found = providers("src/a.rs", "struct A;\n/// As E2B does.\nfn docker_host() {}\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("src/a.rs:2 names `e2b`"), "{found:?}");
        assert!(providers("src/a.rs", "struct Container;").is_empty());
    }
}
