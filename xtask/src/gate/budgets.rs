//! How many crates of others each of our crates brings to who uses it, against `ci/budgets.toml`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use xshell::{Shell, cmd};

use super::Findings;
use crate::{table, workspace};

const FILE: &str = "ci/budgets.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    /// Where we want to be.
    goal: usize,
    /// Where the gate closes.
    limit: usize,
    /// What the number is made of.
    why: String,
    /// All that the crate may name as a dependency, of others' crates.
    direct: Option<BTreeSet<String>>,
}

/// What a crate really brings, on this platform and with its default features.
#[derive(Debug, Default)]
struct Bill {
    direct: BTreeSet<String>,
    all: BTreeSet<String>,
}

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    let budgets = parse(&text).with_context(|| format!("bad file {FILE}"))?;
    let members = workspace::members()?;
    let names: BTreeSet<&str> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    let shell = Shell::new()?;
    shell.change_dir(root);
    let mut bills = BTreeMap::new();
    for name in names.iter().filter(|name| **name != "xtask") {
        let tree = cmd!(shell, "cargo tree --package {name} --edges normal --prefix depth").quiet().read()?;
        bills.insert((*name).to_string(), read(&tree, &names));
    }
    let rows: Vec<_> = bills
        .iter()
        .map(|(name, bill)| {
            let budget = budgets.get(name);
            let number = |number: Option<usize>| number.map_or_else(|| "?".into(), |number| number.to_string());
            [
                name.clone(),
                bill.all.len().to_string(),
                number(budget.map(|budget| budget.goal)),
                number(budget.map(|budget| budget.limit)),
            ]
        })
        .collect();
    print!("{}", table::render(["crate", "brings", "goal", "limit"], &rows));
    for warning in warnings(&bills, &budgets) {
        println!("  warning: {warning}");
    }
    Ok(findings(&bills, &budgets))
}

fn parse(text: &str) -> Result<BTreeMap<String, Budget>> {
    let budgets: BTreeMap<String, Budget> = toml::from_str(text)?;
    for (name, budget) in &budgets {
        ensure!(budget.goal <= budget.limit, "the goal of {name} is above its limit");
        ensure!(!budget.why.trim().is_empty(), "{name} does not say why");
    }
    Ok(budgets)
}

/// Reads the lines of `cargo tree --prefix depth`, such as `2syn v2.0.1 (proc-macro)`.
fn read(tree: &str, ours: &BTreeSet<&str>) -> Bill {
    let mut bill = Bill::default();
    for line in tree.lines() {
        let depth: String = line.chars().take_while(char::is_ascii_digit).collect();
        let mut words = line[depth.len()..].split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        if ours.contains(name) {
            continue;
        }
        if depth == "1" {
            bill.direct.insert(name.into());
        }
        bill.all.insert(format!("{name} {version}"));
    }
    bill
}

fn findings(bills: &BTreeMap<String, Bill>, budgets: &BTreeMap<String, Budget>) -> Findings {
    let mut findings = Vec::new();
    for (name, bill) in bills {
        let Some(budget) = budgets.get(name) else {
            findings.push(format!("{name} has no budget; add [{name}] with goal, limit and why to {FILE}"));
            continue;
        };
        let count = bill.all.len();
        if count > budget.limit {
            findings.push(format!(
                "{name} brings {count} crates, its limit is {}; see `cargo tree -p {name} -e normal`, switch off default features, \
                 or raise the limit in {FILE} with a reason",
                budget.limit
            ));
        }
        for extra in budget.direct.iter().flat_map(|allowed| bill.direct.difference(allowed)) {
            findings.push(format!(
                "{name} may not depend on {extra}; do without it, or add it to `direct` in {FILE} with a reason"
            ));
        }
    }
    for name in budgets.keys().filter(|name| !bills.contains_key(*name)) {
        findings.push(format!("{name} is no crate of this workspace; remove it from {FILE}"));
    }
    findings
}

/// What is over its goal and within its limit.
fn warnings(bills: &BTreeMap<String, Bill>, budgets: &BTreeMap<String, Budget>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, budget) in budgets {
        let count = bills.get(name).map_or(0, |bill| bill.all.len());
        if count > budget.goal && count <= budget.limit {
            warnings.push(format!(
                "{name} brings {count} crates, its goal is {}; see `cargo tree -p {name} -e normal`",
                budget.goal
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0ours v0.1.0 (/somewhere/ours)\n1bytes v1.12.2\n1core v0.1.0 (/somewhere/core)\n2serde v1.0.0\n3serde_derive v1.0.0 (proc-macro)\n1serde v1.0.0 (*)\n2syn v1.0.0\n2syn v2.0.0\n";

    fn result(budgets: &str) -> Findings {
        let bill = read(TREE, &BTreeSet::from(["ours", "core"]));
        findings(&BTreeMap::from([("ours".to_string(), bill)]), &parse(budgets).unwrap())
    }

    #[test]
    fn members_are_free_and_two_versions_are_two() {
        let bill = read(TREE, &BTreeSet::from(["ours", "core"]));
        assert_eq!(bill.all.len(), 5, "{bill:?}");
        assert_eq!(bill.direct, BTreeSet::from(["bytes".into(), "serde".into()]));
    }

    #[test]
    fn within_the_budget_nothing_is_found() {
        assert!(result("[ours]\ngoal = 4\nlimit = 5\nwhy = 'x'\ndirect = ['bytes', 'serde', 'unused']").is_empty());
    }

    #[test]
    fn over_the_goal_is_a_warning_and_over_the_limit_is_none_any_more() {
        let warned = |goal: u8, limit: u8| {
            let bills = BTreeMap::from([("ours".to_string(), read(TREE, &BTreeSet::from(["ours", "core"])))]);
            let budgets = parse(&format!("[ours]\ngoal = {goal}\nlimit = {limit}\nwhy = 'x'")).unwrap();
            (warnings(&bills, &budgets).len(), findings(&bills, &budgets).len())
        };
        assert_eq!([warned(5, 5), warned(4, 5), warned(3, 4)], [(0, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn each_excess_is_found() {
        for (budgets, word) in [
            ("[ours]\ngoal = 4\nlimit = 4\nwhy = 'x'", "brings 5 crates"),
            ("[ours]\ngoal = 5\nlimit = 5\nwhy = 'x'\ndirect = ['bytes']", "may not depend on serde"),
            ("", "has no budget"),
            ("[ours]\ngoal = 5\nlimit = 5\nwhy = 'x'\n[gone]\ngoal = 1\nlimit = 1\nwhy = 'x'", "gone is no crate"),
        ] {
            let found = result(budgets);
            assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
        }
    }

    #[test]
    fn a_budget_has_a_reason_and_a_goal_within_its_limit() {
        assert!(parse("[ours]\ngoal = 1\nlimit = 1\nwhy = ''").is_err());
        assert!(parse("[ours]\ngoal = 2\nlimit = 1\nwhy = 'x'").is_err());
        assert!(parse("[ours]\ngoal = 1\nlimit = 1\nwhy = 'x'\nmax = 3").is_err());
    }
}
