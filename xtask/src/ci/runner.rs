//! Runs one lane within its limit.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{
    churn,
    lane::Lane,
    summary::{Outcome, Verdict},
};
use crate::process::{End, Tree};

/// What a lane that runs into its limit gets for its last words: a test runner then names the tests that hang.
const GRACE: Duration = Duration::from_secs(10);
/// Children of a finished command may take a moment to notice.
const SETTLE: Duration = Duration::from_secs(3);

/// Where lanes run.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    root: &'a Path,
    /// The program that meets the needs.
    myself: PathBuf,
    grace: Duration,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(root: &'a Path) -> Result<Self> {
        let myself = std::env::current_exe().context("cannot find this program")?;
        Ok(Self { root, myself, grace: GRACE })
    }

    pub(crate) fn run(&self, lane: &Lane) -> Outcome {
        let start = Instant::now();
        println!("\n==> {} (at most {} min)", lane.name, lane.minutes);
        let limit = Duration::from_secs(u64::from(lane.minutes) * 60);
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let verdict = if !lane.os.is_here() {
            Verdict::Skipped(format!("it runs on {}, this is {}", lane.os.name(), std::env::consts::OS))
        } else if let Some(name) = missing_secret(lane, is_set) {
            Verdict::Skipped(format!("secret {name} is not set"))
        } else {
            self.attempt(lane, start + limit).unwrap_or_else(|error| Verdict::Fail(format!("{error:#}")))
        };
        if let (true, Verdict::Fail(why)) = (lane.canary, &verdict) {
            churn::report(self.root, lane, why);
        }
        let outcome = Outcome { lane: lane.name.clone(), required: lane.required, verdict, took: start.elapsed() };
        println!("==> {} {}", lane.name, outcome.verdict);
        outcome
    }

    fn attempt(&self, lane: &Lane, deadline: Instant) -> Result<Verdict> {
        for folder in &lane.fresh {
            let path = self.root.join(folder);
            if path.exists() {
                fs::remove_dir_all(&path).with_context(|| format!("cannot empty {folder}"))?;
            }
            fs::create_dir_all(&path).with_context(|| format!("cannot make {folder}"))?;
        }
        let tree = Tree::new();
        let verdict = self.steps(lane, &tree, deadline);
        if matches!(verdict, Ok(Verdict::Pass)) {
            tree.settle(SETTLE);
        }
        // Whatever the verdict is, nothing stays.
        let left = tree.end(self.grace);
        match verdict? {
            Verdict::Pass if !left.is_empty() => {
                Ok(Verdict::Fail(format!("left processes behind: {}", left.join(", "))))
            }
            verdict => Ok(verdict),
        }
    }

    fn steps(&self, lane: &Lane, tree: &Tree, deadline: Instant) -> Result<Verdict> {
        for need in &lane.needs {
            let why = match self.step(tree, &mut need.command(&self.myself), deadline) {
                Ok(None) => continue,
                Ok(Some(why)) => format!("need {need}: {why}"),
                Err(error) => format!("need {need}: {error:#}"),
            };
            return Ok(if need.is_optional() { Verdict::Skipped(why) } else { Verdict::Fail(why) });
        }
        let place = |text: &str| text.replace("{root}", &self.root.to_string_lossy());
        let mut failed = Vec::new();
        for argv in &lane.run {
            let mut command = Command::new(place(&argv[0]));
            command.args(argv[1..].iter().map(|argument| place(argument)));
            command.envs(lane.env.iter().map(|(name, value)| (name, place(value))));
            println!("$ {}", shown(argv));
            // The others still run: a report of failed rows is read best where the rows have failed.
            match self.step(tree, &mut command, deadline) {
                Ok(None) => {}
                Ok(Some(why)) => failed.push(format!("{why}: {}", shown(argv))),
                Err(error) => failed.push(format!("{error:#}")),
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(if failed.is_empty() { Verdict::Pass } else { Verdict::Fail(failed.join("; ")) })
    }

    /// Why the command failed, if it did.
    fn step(&self, tree: &Tree, command: &mut Command, deadline: Instant) -> Result<Option<String>> {
        io::stdout().flush().context("cannot write to the terminal")?;
        Ok(match tree.run(command.current_dir(self.root), deadline, self.grace)? {
            End::Exited(status) if status.success() => None,
            End::Exited(status) => Some(status.to_string()),
            End::OutOfTime => Some("killed at the lane's limit".into()),
        })
    }
}

fn missing_secret(lane: &Lane, is_set: impl Fn(&str) -> bool) -> Option<&str> {
    lane.secrets.iter().map(String::as_str).find(|name| !is_set(name))
}

/// For reading, and for pasting where no argument has a quote.
fn shown(argv: &[String]) -> String {
    let plain = |word: &str| word.chars().all(|c| c.is_alphanumeric() || "-_=./:,@+{}".contains(c)) && !word.is_empty();
    let words: Vec<_> = argv.iter().map(|word| if plain(word) { word.clone() } else { format!("'{word}'") }).collect();
    words.join(" ")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::ci::lane::parse;

    const HEAD: &str = "when = 'change'\nrequired = true\nminutes = 1\n";

    /// Meets no need.
    fn runner(root: &Path) -> Runner<'_> {
        Runner { root, myself: "false".into(), grace: Duration::from_millis(200) }
    }

    fn verdict(lane: &str, limit: Duration) -> Verdict {
        let root = tempfile::tempdir().unwrap();
        let lane = parse("lane", &format!("{HEAD}{lane}")).unwrap();
        runner(root.path()).attempt(&lane, Instant::now() + limit).unwrap()
    }

    fn failure(lane: &str, limit: Duration) -> String {
        match verdict(lane, limit) {
            Verdict::Fail(why) => why,
            other => panic!("{other}"),
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn commands_run_in_order_in_the_workspace_with_the_environment() {
        let script = "test -d target/report && test \"$WHERE\" = \"$PWD/x\" && test ! -t 0 && touch done";
        let lane = format!(
            "fresh = ['target/report']\nrun = [['sh', '-c', '{script}'], ['test', '-e', '{{root}}/done']]\nenv = {{ WHERE = '{{root}}/x' }}"
        );
        assert!(matches!(verdict(&lane, LONG), Verdict::Pass));
    }

    #[test]
    fn every_command_runs_and_every_failure_is_named() {
        let why =
            failure("run = [['true'], ['sh', '-c', 'exit 3'], ['touch', 'done'], ['test', '!', '-e', 'done']]", LONG);
        assert_eq!(why, "exit status: 3: sh -c 'exit 3'; exit status: 1: test '!' -e done");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let root = tempfile::tempdir().unwrap();
        let lane = parse("lane", &format!("{HEAD}run = [['no-such-program-of-ours']]")).unwrap();
        let outcome = runner(root.path()).run(&lane);
        assert!(
            matches!(&outcome.verdict, Verdict::Fail(why) if why.contains("no-such-program-of-ours")),
            "{outcome:?}"
        );
    }

    #[test]
    fn the_limit_is_enforced_on_the_whole_tree() {
        let start = Instant::now();
        let why = failure(
            "run = [['sh', '-c', 'setsid sleep 311 & sleep 312'], ['touch', 'done']]",
            Duration::from_millis(700),
        );
        assert_eq!(why, "killed at the lane's limit: sh -c 'setsid sleep 311 & sleep 312'");
        assert!(start.elapsed() < Duration::from_secs(40), "took {:?}", start.elapsed());
    }

    #[test]
    fn a_process_left_behind_fails_the_lane() {
        let why = failure("run = [['sh', '-c', 'setsid sleep 313 >/dev/null 2>&1 &']]", LONG);
        assert!(why.contains("left processes behind: sleep ("), "{why}");
    }

    #[test]
    fn an_old_report_is_removed_first() {
        let root = tempfile::tempdir().unwrap();
        let old = root.path().join("target/report/old.jsonl");
        fs::create_dir_all(old.parent().unwrap()).unwrap();
        fs::write(&old, "old").unwrap();
        let lane = parse("lane", &format!("{HEAD}fresh = ['target/report']\nrun = [['true']]")).unwrap();
        assert!(matches!(runner(root.path()).attempt(&lane, Instant::now() + LONG).unwrap(), Verdict::Pass));
        assert!(!old.exists() && old.parent().unwrap().is_dir());
    }

    #[test]
    fn a_missing_secret_is_named_and_a_set_one_is_not() {
        let lane = parse("lane", &format!("{HEAD}secrets = ['A_KEY', 'B_KEY']\nrun = [['true']]")).unwrap();
        assert_eq!(missing_secret(&lane, |name| name == "A_KEY"), Some("B_KEY"));
        assert_eq!(missing_secret(&lane, |_| true), None);
    }

    #[test]
    fn a_lane_without_its_secret_is_skipped_with_the_reason() {
        let lane = parse("lane", &format!("{HEAD}secrets = ['NO_SUCH_SECRET_OF_OURS']\nrun = [['true']]")).unwrap();
        let outcome = runner(Path::new(".")).run(&lane);
        assert!(
            matches!(&outcome.verdict, Verdict::Skipped(why) if why.contains("NO_SUCH_SECRET_OF_OURS")),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_lane_with_its_secret_runs() {
        // Every process has a path.
        let lane = parse("lane", &format!("{HEAD}secrets = ['PATH']\nrun = [['true']]")).unwrap();
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(runner(root.path()).run(&lane).verdict, Verdict::Pass));
    }

    #[test]
    fn a_lane_of_another_system_is_skipped_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let lane = parse("lane", &format!("{HEAD}os = 'macos'\nrun = [['touch', 'done']]")).unwrap();
        let outcome = runner(root.path()).run(&lane);
        assert!(
            matches!(&outcome.verdict, Verdict::Skipped(why) if why == "it runs on macos, this is linux"),
            "{outcome:?}"
        );
        assert!(!root.path().join("done").exists());
    }

    #[test]
    fn a_canary_that_fails_leaves_the_text_of_an_issue_and_another_lane_does_not() {
        let left = |more: &str, run: &str| {
            let root = tempfile::tempdir().unwrap();
            let lane = parse("live/x", &format!("{HEAD}{more}\nrun = [['{run}']]")).unwrap();
            runner(root.path()).run(&lane);
            fs::read_to_string(root.path().join("target/churn/live-x.md")).ok()
        };
        assert!(left("canary = true", "false").is_some_and(|text| text.contains("cargo xtask ci --lane live/x")));
        assert_eq!((left("canary = true", "true"), left("", "false")), (None, None));
    }

    #[test]
    fn a_compiler_that_cannot_be_had_skips_the_lane_and_says_so() {
        let Verdict::Skipped(why) = verdict("needs = ['rust:0.0.1']\nrun = [['true']]", LONG) else { panic!("ran") };
        assert!(why.contains("need rust:0.0.1"), "{why}");
    }

    #[test]
    fn an_image_that_cannot_be_had_fails_the_lane() {
        let why = failure("needs = ['image:none']\nrun = [['true']]", LONG);
        assert_eq!(why, "need image:none: exit status: 1");
    }
}
