//! No member comes from a registry, where its name may belong to somebody else.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Findings;
use crate::workspace;

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let members = workspace::members()?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let mut findings = manifests(&members);
    findings.extend(locked(&lock, &members)?);
    Ok(findings)
}

/// Whether a package of this name has to be ours: a member, or called like one.
fn is_ours(name: &str, members: &[Value]) -> bool {
    name == "sandbox" || name.starts_with("sandbox-") || members.iter().any(|member| member["name"] == name)
}

fn manifests(members: &[Value]) -> Findings {
    let mut findings = Vec::new();
    for member in members {
        for dependency in member["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            if is_ours(name, members) && (!dependency["path"].is_string() || !dependency["source"].is_null()) {
                findings.push(format!(
                    "{} takes {name} from a registry; write `{name}.workspace = true`, and the path in the workspace's Cargo.toml",
                    member["name"].as_str().unwrap_or_default()
                ));
            }
            if is_ours(name, members) && dependency["req"] != "*" {
                findings.push(format!(
                    "{} asks for a version of {name}; a path alone will do: a version could be looked up in a registry",
                    member["name"].as_str().unwrap_or_default()
                ));
            }
        }
    }
    findings
}

fn locked(lock: &str, members: &[Value]) -> Result<Findings> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is no TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock names no package")?;
    let names = packages
        .iter()
        .filter(|package| package.get("source").is_some())
        .filter_map(|package| package.get("name").and_then(toml::Value::as_str));
    Ok(names
        .filter(|name| is_ours(name, members))
        .map(|name| {
            format!(
                "{name} in Cargo.lock is not ours; see `cargo tree -i {name}`, and depend on ours by path or do without"
            )
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(dependency: &Value) -> Vec<Value> {
        vec![
            json!({ "name": "sandbox-core", "dependencies": [] }),
            json!({ "name": "xtask", "dependencies": [dependency] }),
        ]
    }

    #[test]
    fn a_path_alone_is_fine_and_so_is_another_name() {
        for fine in [
            json!({ "name": "sandbox-core", "path": "/x", "source": null, "req": "*" }),
            json!({ "name": "sandboxes", "path": null, "source": "registry+x", "req": "^1" }),
        ] {
            assert_eq!(manifests(&members(&fine)), Findings::new());
        }
    }

    #[test]
    fn a_member_or_its_like_from_a_registry_is_found() {
        for name in ["sandbox-core", "sandbox-unheard-of", "sandbox"] {
            let found = manifests(&members(&json!({ "name": name, "path": null, "source": "registry+x", "req": "*" })));
            assert!(found.len() == 1 && found[0].contains(&format!("takes {name} from a registry")), "{found:?}");
        }
    }

    #[test]
    fn a_version_beside_the_path_is_found() {
        let found =
            manifests(&members(&json!({ "name": "sandbox-core", "path": "/x", "source": null, "req": "^0.1" })));
        assert!(found.len() == 1 && found[0].contains("asks for a version"), "{found:?}");
    }

    #[test]
    fn a_namesake_in_the_lock_file_is_found() {
        let lock = "[[package]]\nname = 'sandbox'\nversion = '0.3.0'\nsource = 'registry+x'\n[[package]]\nname = 'bytes'\nversion = '1.0.0'\nsource = 'registry+x'\n[[package]]\nname = 'sandbox-core'\nversion = '0.1.0'";
        let found = locked(lock, &members(&Value::Null)).unwrap();
        assert!(found.len() == 1 && found[0].contains("sandbox in Cargo.lock"), "{found:?}");
        assert_eq!(locked(&lock.replace("'sandbox'", "'other'"), &members(&Value::Null)).unwrap(), Findings::new());
    }
}
