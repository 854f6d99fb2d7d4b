//! `cargo xtask gate`: rules of this repository that no compiler knows. Each finding says how to fix it.

mod budgets;
mod deps;
mod lanes;
mod providers;
mod requirements;
mod sources;
mod words;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{flags, workspace};

/// What a gate found wrong, a line each.
type Findings = Vec<String>;

type Gate = (&'static str, fn(&Path) -> Result<Findings>);

const GATES: &[Gate] = &[
    ("budgets", budgets::check),
    ("deps", deps::check),
    ("errors", crate::errors::check),
    ("lanes", lanes::check),
    ("providers", providers::check),
    ("requirements", requirements::check),
    ("sources", sources::check),
    ("words", words::check),
    ("workflows", crate::workflows::check),
];

pub(crate) fn run(flags: &flags::Gate) -> Result<()> {
    if let Some(unknown) = flags.names.iter().find(|name| GATES.iter().all(|(known, _)| known != name)) {
        bail!("no gate `{unknown}`; there are: {}", names());
    }
    let root = workspace::root();
    let mut closed = Vec::new();
    for (name, check) in GATES.iter().copied() {
        if !flags.names.is_empty() && !flags.names.iter().any(|asked| asked == name) {
            continue;
        }
        let findings = check(&root).with_context(|| format!("gate {name} cannot tell"))?;
        println!(
            "gate {name}: {}",
            if findings.is_empty() { "ok".into() } else { format!("{} findings", findings.len()) }
        );
        for finding in &findings {
            println!("  {finding}");
        }
        if !findings.is_empty() {
            closed.push(name);
        }
    }
    if closed.is_empty() { Ok(()) } else { bail!("closed gates: {}", closed.join(", ")) }
}

fn names() -> String {
    GATES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_unknown_gate_is_an_error_that_lists_the_known() {
        let error = super::run(&crate::flags::Gate { names: vec!["word".into()] }).unwrap_err().to_string();
        assert!(error.contains("`word`") && error.contains("budgets, deps, "), "{error}");
    }
}
