//! `cargo xtask start`: how long `sandbox --version` takes, which is what every use of the command line pays.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

const GOAL: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_millis(50);
const TIMES: usize = 30;

/// What a program takes from start to end. Noise only ever adds, so the shortest says what the program needs; the median
/// says what people see on this machine today.
#[derive(Debug, Clone, Copy)]
struct Taken {
    shortest: Duration,
    median: Duration,
}

pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    let status = Command::new("cargo")
        .args(["build", "--locked", "--package", "sandbox-cli", "--bins"])
        .current_dir(&root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "sandbox-cli does not build: {status}");
    let program = workspace::built(&format!("sandbox{}", std::env::consts::EXE_SUFFIX))?;
    let taken = measure(&program, &["--version"], TIMES)?;
    println!(
        "sandbox --version, of a build that is not optimised: {:.1} ms at best, {:.1} ms in the median of {TIMES}; goal {} ms, limit {} ms",
        taken.shortest.as_secs_f64() * 1e3,
        taken.median.as_secs_f64() * 1e3,
        GOAL.as_millis(),
        LIMIT.as_millis()
    );
    if let Some(warning) = judge(taken)? {
        println!("warning: {warning}");
    }
    Ok(())
}

fn measure(program: &Path, arguments: &[&str], times: usize) -> Result<Taken> {
    let mut all = Vec::new();
    for _ in 0..times {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let start = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
        all.push(start.elapsed());
        ensure!(status.success(), "{} failed: {status}", program.display());
    }
    all.sort();
    let shortest = *all.first().context("it was never run")?;
    Ok(Taken { shortest, median: all[all.len() / 2] })
}

/// Over the limit at best is a failure, over the goal at best a warning.
fn judge(taken: Taken) -> Result<Option<String>> {
    let fix = "do nothing before the arguments are read: no runtime, no look at the machine, no table that can wait";
    ensure!(taken.shortest <= LIMIT, "it takes {:?} at best, the limit is {LIMIT:?}; {fix}", taken.shortest);
    Ok((taken.shortest > GOAL).then(|| format!("it takes {:?} at best, the goal is {GOAL:?}; {fix}", taken.shortest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(shortest: u64) -> Result<Option<String>> {
        judge(Taken { shortest: Duration::from_millis(shortest), median: Duration::from_millis(500) })
    }

    #[test]
    fn over_the_goal_is_a_warning_and_over_the_limit_a_failure() {
        assert!(judged(20).unwrap().is_none());
        assert!(judged(50).unwrap().is_some_and(|warning| warning.contains("goal")));
        assert!(judged(51).unwrap_err().to_string().contains("limit"));
    }

    #[test]
    #[cfg(unix)]
    fn a_slow_program_is_seen_to_be_slow_and_a_failing_one_is_no_measure() {
        let taken = measure(Path::new("sleep"), &["0.06"], 2).unwrap();
        assert!(judge(taken).is_err() && taken.shortest <= taken.median, "{taken:?}");
        assert!(measure(Path::new("false"), &[], 2).is_err());
    }
}
