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

pub(crate) fn check(_root: &Path) -> Result<Findings> {
    let members = workspace::members()?;
    let mut findings = edges(&members);
    for member in &members {
        let manifest = PathBuf::from(member["manifest_path"].as_str().unwrap_or_default());
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        findings.extend(duties(member, &text));
    }
    Ok(findings)
}

/// The members that a member may depend on outside its tests; `None` is all of them. An unknown crate is an adapter.
fn allowed(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "sandbox-core" | "sandbox-guest" => Some(&[]),
        // The catalogue of errors, of which it makes pages.
        "xtask" => Some(&["sandbox-core"]),
        "sandbox" => Some(&["sandbox-core"]),
        "sandbox-agent" | "sandbox-contract" | "sandbox-twin" => Some(&["sandbox", "sandbox-core"]),
        "sandbox-cli" | "sandbox-mcp" => None,
        _ => Some(&["sandbox-core", "sandbox-guest"]),
    }
}

/// What tests may have on top. A test of the core that needs more is a test of who uses the core.
fn allowed_in_tests(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "sandbox-core" | "sandbox-guest" | "xtask" => Some(&[]),
        "sandbox" | "sandbox-contract" => Some(&["sandbox-fake"]),
        "sandbox-agent" | "sandbox-cli" | "sandbox-mcp" | "sandbox-twin" => None,
        _ => Some(&["sandbox", "sandbox-contract", "sandbox-twin", "sandbox-docker", "sandbox-fake"]),
    }
}

fn edges(members: &[Value]) -> Findings {
    let ours: BTreeSet<_> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    let mut findings = Vec::new();
    for member in members {
        let name = member["name"].as_str().unwrap_or_default();
        for dependency in member["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            if !ours.contains(other) || permits(allowed(name), other) {
                continue;
            }
            if dependency["kind"] != "dev" {
                findings.push(format!(
                    "{name} depends on {other}; an adapter has sandbox-core alone: move what both need there, or make it a dev-dependency"
                ));
            } else if !permits(allowed_in_tests(name), other) {
                findings.push(format!(
                    "the tests of {name} depend on {other}; move the test to a crate that may know both, such as {other}"
                ));
            }
        }
    }
    findings
}

fn permits(list: Option<&[&str]>, name: &str) -> bool {
    list.is_none_or(|list| list.contains(&name))
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
    fn the_core_may_have_none_also_in_tests() {
        for (kind, word) in [(Value::Null, "sandbox-core depends"), (json!("dev"), "tests of sandbox-core depend")] {
            let found = edges(&[member("sandbox-core", &[("sandbox", kind)]), member("sandbox", &[])]);
            assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
        }
    }

    #[test]
    fn an_adapter_may_not_have_another_adapter_in_its_tests() {
        let mut members = workspace(&[("sandbox-other", json!("dev"))]);
        members.push(member("sandbox-other", &[]));
        let found = edges(&members);
        assert!(found.len() == 1 && found[0].contains("tests of sandbox-new depend on sandbox-other"), "{found:?}");
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
}
