//! What members ask of others' crates: nothing that would keep a user's build from choosing.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::Findings;
use crate::workspace;

pub(crate) fn check(_root: &Path) -> Result<Findings> {
    Ok(findings(&workspace::members()?))
}

fn findings(members: &[Value]) -> Findings {
    let mut findings = Vec::new();
    // Nobody depends on xtask.
    for member in members.iter().filter(|member| member["name"] != "xtask") {
        for dependency in member["dependencies"].as_array().into_iter().flatten() {
            let requirement = dependency["req"].as_str().unwrap_or_default();
            let (member, name) =
                (member["name"].as_str().unwrap_or_default(), dependency["name"].as_str().unwrap_or_default());
            if requirement.split(',').any(|part| part.trim_start().starts_with('=')) {
                findings.push(format!(
                    "{member} pins {name} to `{requirement}`, which two crates with different pins cannot both have; \
                     write the oldest version that works, without `=`: Cargo.lock pins what CI builds"
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(requirement: &str) -> Findings {
        findings(&[json!({ "name": "ours", "dependencies": [{ "name": "bytes", "req": requirement }] })])
    }

    #[test]
    fn a_pin_is_found_alone_and_among_others() {
        for pin in ["=1.2.3", ">=1, =1.2", "= 1"] {
            let found = found(pin);
            assert!(found.len() == 1 && found[0].contains("ours pins bytes"), "{found:?}");
        }
    }

    #[test]
    fn what_nobody_depends_on_may_pin() {
        assert!(
            findings(&[json!({ "name": "xtask", "dependencies": [{ "name": "bytes", "req": "=1.2.3" }] })]).is_empty()
        );
    }

    #[test]
    fn bounds_are_no_pins() {
        for bound in ["^1.2", ">=1.2, <2", "*", "~1.2", "<=2"] {
            assert_eq!(found(bound), Findings::new(), "{bound}");
        }
    }
}
