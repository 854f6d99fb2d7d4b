//! Runs one lane within its limit.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{
    lane::Lane,
    summary::{Outcome, Verdict},
};
use crate::process::{End, Tree};

/// What a lane that runs into its limit gets for its last words: a test runner then names the tests that hang.
const GRACE: Duration = Duration::from_secs(10);
/// Children of a finished command may take a moment to notice.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) fn run(lane: &Lane, root: &Path) -> Outcome {
    let start = Instant::now();
    println!("\n==> {} (at most {} min)", lane.name, lane.minutes);
    let verdict = match missing_secret(lane, |name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        Some(name) => Verdict::Skipped(format!("secret {name} is not set")),
        None => {
            let limit = Duration::from_secs(u64::from(lane.minutes) * 60);
            match attempt(lane, root, start + limit, GRACE) {
                Ok(None) => Verdict::Pass,
                Ok(Some(why)) => Verdict::Fail(why),
                Err(error) => Verdict::Fail(format!("{error:#}")),
            }
        }
    };
    let outcome = Outcome { lane: lane.name.clone(), required: lane.required, verdict, took: start.elapsed() };
    println!("==> {} {}", lane.name, outcome.verdict);
    outcome
}

fn missing_secret(lane: &Lane, is_set: impl Fn(&str) -> bool) -> Option<&str> {
    lane.secrets.iter().map(String::as_str).find(|name| !is_set(name))
}

/// Runs the needs and the commands; the answer is why the lane failed, if it did.
fn attempt(lane: &Lane, root: &Path, deadline: Instant, grace: Duration) -> Result<Option<String>> {
    for folder in &lane.fresh {
        match fs::remove_dir_all(root.join(folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {folder}"));
            }
            _ => fs::create_dir_all(root.join(folder)).with_context(|| format!("cannot make {folder}"))?,
        }
    }
    let tree = Tree::new();
    let failure = steps(lane, root, &tree, deadline, grace)?;
    if failure.is_none() {
        tree.settle(SETTLE);
    }
    let left = tree.end(grace);
    Ok(match failure {
        None if !left.is_empty() => Some(format!("left processes behind: {}", left.join(", "))),
        failure => failure,
    })
}

fn steps(lane: &Lane, root: &Path, tree: &Tree, deadline: Instant, grace: Duration) -> Result<Option<String>> {
    let myself = std::env::current_exe().context("cannot find this program")?;
    let place = |text: &str| text.replace("{root}", &root.to_string_lossy());
    for need in &lane.needs {
        let arguments = need.arguments();
        let mut command = Command::new(&myself);
        command.args(&arguments);
        if let Some(why) = step(tree, command.current_dir(root), deadline, grace)? {
            return Ok(Some(format!(
                "need {}: {why} (cargo xtask {})",
                String::from(need.clone()),
                arguments.join(" ")
            )));
        }
    }
    for argv in &lane.run {
        let mut command = Command::new(place(&argv[0]));
        command.args(argv[1..].iter().map(|argument| place(argument)));
        command.envs(lane.env.iter().map(|(name, value)| (name, place(value))));
        println!("$ {}", shown(argv));
        if let Some(why) = step(tree, command.current_dir(root), deadline, grace)? {
            return Ok(Some(format!("{why}: {}", shown(argv))));
        }
    }
    Ok(None)
}

fn step(tree: &Tree, command: &mut Command, deadline: Instant, grace: Duration) -> Result<Option<String>> {
    io::stdout().flush().context("cannot write to the terminal")?;
    Ok(match tree.run(command, deadline, grace)? {
        End::Exited(status) if status.success() => None,
        End::Exited(status) => Some(status.to_string()),
        End::OutOfTime => Some("killed at the lane's limit".into()),
    })
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

    fn verdict(lane: &str, limit: Duration) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let lane = parse("lane", &format!("{HEAD}{lane}")).unwrap();
        attempt(&lane, root.path(), Instant::now() + limit, Duration::from_millis(200)).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn commands_run_in_order_in_the_workspace_with_the_environment() {
        let script = "test -d target/report && test \"$WHERE\" = \"$PWD/x\" && test ! -t 0 && touch done";
        let lane = format!(
            "fresh = ['target/report']\nrun = [['sh', '-c', '{script}'], ['test', '-e', '{{root}}/done']]\nenv = {{ WHERE = '{{root}}/x' }}"
        );
        assert_eq!(verdict(&lane, LONG), None);
    }

    #[test]
    fn the_first_failure_ends_the_lane_and_names_the_command() {
        let why = verdict("run = [['true'], ['sh', '-c', 'exit 3'], ['rm', '-rf', 'target']]", LONG).unwrap();
        assert_eq!(why, "exit status: 3: sh -c 'exit 3'");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let root = tempfile::tempdir().unwrap();
        let lane = parse("lane", &format!("{HEAD}run = [['no-such-program-of-ours']]")).unwrap();
        let outcome = run(&lane, root.path());
        assert!(
            matches!(&outcome.verdict, Verdict::Fail(why) if why.contains("no-such-program-of-ours")),
            "{outcome:?}"
        );
    }

    #[test]
    fn the_limit_is_enforced_on_the_whole_tree() {
        let start = Instant::now();
        let why = verdict("run = [['sh', '-c', 'setsid sleep 311 & sleep 312']]", Duration::from_millis(700)).unwrap();
        assert!(why.contains("limit"), "{why}");
        assert!(start.elapsed() < Duration::from_secs(40), "took {:?}", start.elapsed());
    }

    #[test]
    fn a_process_left_behind_fails_the_lane() {
        let why = verdict("run = [['sh', '-c', 'setsid sleep 313 >/dev/null 2>&1 &']]", LONG).unwrap();
        assert!(why.contains("left processes behind: sleep ("), "{why}");
    }

    #[test]
    fn an_old_report_is_removed_first() {
        let root = tempfile::tempdir().unwrap();
        let old = root.path().join("target/report/old.jsonl");
        fs::create_dir_all(old.parent().unwrap()).unwrap();
        fs::write(&old, "old").unwrap();
        let lane = parse("lane", &format!("{HEAD}fresh = ['target/report']\nrun = [['true']]")).unwrap();
        assert_eq!(attempt(&lane, root.path(), Instant::now() + LONG, GRACE).unwrap(), None);
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
        let outcome = run(&lane, Path::new("."));
        assert!(
            matches!(&outcome.verdict, Verdict::Skipped(why) if why.contains("NO_SUCH_SECRET_OF_OURS")),
            "{outcome:?}"
        );
    }
}
