//! `cargo xtask ci`: what continuous integration runs, the same on a laptop.

mod churn;
mod lane;
mod leftovers;
mod runner;
mod summary;

use std::{path::Path, process::ExitCode};

use anyhow::{Result, bail};

use crate::{flags, workspace};
#[cfg(test)]
pub(crate) use lane::parse;
pub(crate) use lane::{Lane, Os, When, load};

pub(crate) fn run(flags: &flags::Ci) -> Result<ExitCode> {
    let root = workspace::root();
    let lanes = load(&root.join("ci/lanes"))?;
    if flags.plan {
        println!("{}", serde_json::to_string_pretty(&lanes)?);
        return Ok(ExitCode::SUCCESS);
    }
    let due = plan(&lanes, &flags.lane, flags.nightly)?;
    let runner = runner::Runner::new(&root)?;
    let watch = leftovers::Watch::begin("docker");
    let mut outcomes: Vec<_> = due.iter().map(|lane| runner.run(lane)).collect();
    // Where no lane has used an engine, nothing could be left on one.
    let used = |(lane, outcome): (&&Lane, &summary::Outcome)| {
        lane.uses_docker() && !matches!(outcome.verdict, summary::Verdict::Skipped(_))
    };
    if due.iter().zip(&outcomes).any(used) {
        outcomes.push(watch.end());
    }
    print!("\n{}", summary::table(&outcomes));
    let judged = summary::judge(&outcomes);
    if let Err(why) = &judged {
        println!("{why}");
    }
    // The counts are the last line, so that a machine finds them.
    println!("{}", summary::line(&outcomes));
    Ok(if judged.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The lanes to run, the cheapest first: a slip in formatting should not wait for the suites.
fn plan<'a>(lanes: &'a [Lane], asked: &[String], nightly: bool) -> Result<Vec<&'a Lane>> {
    if let Some(unknown) = asked.iter().find(|name| lanes.iter().all(|lane| lane.name != **name)) {
        let known: Vec<_> = lanes.iter().map(|lane| lane.name.as_str()).collect();
        bail!("no lane `{unknown}`; there are: {}", known.join(", "));
    }
    let wanted = |lane: &&Lane| match asked {
        [] => lane.when == When::Change || nightly && lane.when == When::Nightly,
        names => names.contains(&lane.name),
    };
    let mut due: Vec<_> = lanes.iter().filter(wanted).collect();
    if due.is_empty() {
        bail!("no lane is due; add one below {}", Path::new("ci/lanes").display());
    }
    due.sort_by(|a, b| (a.minutes, &a.name).cmp(&(b.minutes, &b.name)));
    Ok(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> Vec<Lane> {
        let lane = |name: &str, when: &str, minutes: u32| {
            parse(name, &format!("when = {when:?}\nrequired = true\nminutes = {minutes}\nrun = [[\"true\"]]")).unwrap()
        };
        vec![
            lane("slow", "change", 20),
            lane("b", "change", 3),
            lane("a", "change", 3),
            lane("live", "nightly", 1),
            lane("hand", "manual", 1),
        ]
    }

    fn names(asked: &[&str], nightly: bool) -> Vec<String> {
        let asked: Vec<_> = asked.iter().map(|name| (*name).to_string()).collect();
        plan(&lanes(), &asked, nightly).unwrap().into_iter().map(|lane| lane.name.clone()).collect()
    }

    #[test]
    fn a_change_runs_its_lanes_cheapest_first() {
        assert_eq!(names(&[], false), ["a", "b", "slow"]);
    }

    #[test]
    fn a_night_runs_them_all() {
        assert_eq!(names(&[], true), ["live", "a", "b", "slow"]);
    }

    #[test]
    fn an_asked_lane_runs_whenever_it_is_due() {
        assert_eq!(names(&["live"], false), ["live"]);
        assert_eq!(names(&["hand"], false), ["hand"]);
    }

    #[test]
    fn an_unknown_lane_is_an_error_that_lists_the_known() {
        let lanes = lanes();
        let error = plan(&lanes, &["lnit".into()], false).unwrap_err().to_string();
        assert!(error.contains("`lnit`") && error.contains("slow, b, a, live, hand"), "{error}");
    }

    #[test]
    fn no_lane_at_all_is_an_error() {
        assert!(plan(&[], &[], false).is_err());
    }
}
