//! A contract suite that no lane runs proves nothing.

use std::path::Path;

use anyhow::Result;

use super::Findings;
use crate::{
    ci::{self, Lane},
    workspace,
};

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let lanes = ci::load(&root.join("ci/lanes"))?;
    let members = workspace::members()?;
    let suites = members.iter().filter(|member| {
        let targets = member["targets"].as_array().into_iter().flatten();
        targets.into_iter().any(|target| target["name"] == "contract" && target["kind"][0] == "test")
    });
    let names: Vec<_> = suites.filter_map(|member| member["name"].as_str()).collect();
    Ok(findings(&names, &lanes))
}

fn findings(suites: &[&str], lanes: &[Lane]) -> Findings {
    let runs = |lane: &Lane, suite: &str| {
        let tests = lane.run.iter().any(|argv| {
            let named = argv.windows(2).any(|pair| matches!(pair[0].as_str(), "-p" | "--package") && pair[1] == suite);
            named && argv.iter().any(|word| word == "nextest")
        });
        tests && lane.run.iter().any(|argv| argv.iter().any(|word| word == "contract-report"))
    };
    suites
        .iter()
        .filter(|suite| !lanes.iter().any(|lane| runs(lane, suite)))
        .map(|suite| {
            format!(
                "no lane runs the contract suite of {suite}; add ci/lanes/contract/<provider>/lane.toml with \
                 `cargo nextest run --package {suite}` and `cargo xtask contract-report`"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(run: &str) -> Lane {
        ci::parse("x", &format!("when = 'change'\nrequired = true\nminutes = 1\nrun = {run}")).unwrap()
    }

    #[test]
    fn a_suite_needs_a_lane_that_runs_it_and_reads_its_report() {
        let tests = "['cargo', 'nextest', 'run', '--package', 'sandbox-new']";
        let report = "['cargo', 'xtask', 'contract-report', 'x']";
        assert!(findings(&["sandbox-new"], &[lane(&format!("[{tests}, {report}]"))]).is_empty());
        for run in [format!("[{tests}]"), format!("[{report}]")] {
            let found = findings(&["sandbox-new"], &[lane(&run)]);
            assert!(found.len() == 1 && found[0].contains("sandbox-new"), "{found:?}");
        }
        assert_eq!(findings(&["sandbox-new", "sandbox-other"], &[lane(&format!("[{tests}, {report}]"))]).len(), 1);
    }
}
