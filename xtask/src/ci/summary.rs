//! What the lanes came to.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};

use super::leftovers;
use crate::table;

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) lane: String,
    pub(crate) required: bool,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Pass,
    Fail(String),
    Skipped(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Fail(why) => write!(f, "FAIL: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let note = if outcome.required { "" } else { " (not required)" };
            [outcome.lane.clone(), outcome.took.as_secs().to_string(), format!("{}{note}", outcome.verdict)]
        })
        .collect();
    table::render(["lane", "seconds", "verdict"], &rows)
}

/// One plain line with the counts of lanes. A skipped lane is in no other count.
pub(crate) fn line(outcomes: &[Outcome]) -> String {
    let count = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|outcome| is(&outcome.verdict)).count();
    let (passed, failed, skipped) = (
        count(|verdict| matches!(verdict, Verdict::Pass)),
        count(|verdict| matches!(verdict, Verdict::Fail(_))),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
    );
    if skipped == 0 {
        format!("{passed} passed, {failed} failed")
    } else {
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Fails for a required lane that failed, and when every lane was skipped.
pub(crate) fn judge(outcomes: &[Outcome]) -> Result<()> {
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.required && matches!(outcome.verdict, Verdict::Fail(_)))
        .map(|outcome| outcome.lane.as_str())
        .collect();
    if !failed.is_empty() {
        match failed.iter().find(|lane| **lane != leftovers::NAME) {
            Some(lane) => bail!("failed: {}; repeat one with `cargo xtask ci --lane {lane}`", failed.join(", ")),
            None => bail!("failed: {}; repeat the lanes that need the engine, one by one", failed.join(", ")),
        }
    }
    if outcomes.iter().all(|outcome| matches!(outcome.verdict, Verdict::Skipped(_))) {
        bail!("every lane was skipped, so nothing was tested");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(lane: &str, required: bool, verdict: Verdict) -> Outcome {
        Outcome { lane: lane.into(), required, verdict, took: Duration::from_millis(1900) }
    }

    fn skipped() -> Verdict {
        Verdict::Skipped("secret K is not set".into())
    }

    #[test]
    fn the_table_tells_reasons_and_a_skip_is_no_pass() {
        let outcomes = [
            outcome("a", true, Verdict::Pass),
            outcome("b", false, Verdict::Fail("exit status: 1".into())),
            outcome("c", true, skipped()),
        ];
        assert_eq!(
            table(&outcomes),
            "lane  seconds  verdict\na     1        pass\nb     1        FAIL: exit status: 1 (not required)\nc     1        skipped: secret K is not set\n"
        );
        assert_eq!(line(&outcomes), "1 passed, 1 failed, 1 skipped");
        assert_eq!(line(&outcomes[..2]), "1 passed, 1 failed");
    }

    #[test]
    fn only_a_required_lane_fails_the_whole() {
        let fail = || Verdict::Fail("x".into());
        assert!(
            judge(&[outcome("a", true, Verdict::Pass), outcome("b", false, fail()), outcome("c", true, skipped())])
                .is_ok()
        );
        let error = judge(&[outcome("a", true, Verdict::Pass), outcome("b", true, fail())]).unwrap_err().to_string();
        assert!(error.contains("--lane b"), "{error}");
        let error = judge(&[outcome(leftovers::NAME, true, fail())]).unwrap_err().to_string();
        assert!(error.contains("one by one"), "{error}");
    }

    #[test]
    fn nothing_but_skips_is_a_failure() {
        assert!(judge(&[outcome("c", true, skipped())]).is_err());
    }
}
