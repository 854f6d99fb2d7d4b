//! What lanes left on the engine: containers, networks and volumes that carry the label of a sandbox.

use std::{
    collections::BTreeSet,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::summary::{Outcome, Verdict};
use crate::process;

/// What stands in the summary in place of a lane's name.
pub(crate) const NAME: &str = "leftovers";
/// Every sandbox has it, on every provider that keeps labels.
const LABEL: &str = "sandbox.marker";
const ANSWER: Duration = Duration::from_secs(20);
/// What is being ended when the last lane returns may take a moment.
const SETTLE: Duration = Duration::from_secs(20);

/// Compares the engine before and after. What was there before is somebody else's.
#[derive(Debug)]
pub(crate) struct Watch {
    program: String,
    before: BTreeSet<String>,
    settle: Duration,
}

impl Watch {
    /// An engine that does not answer yet has nothing.
    pub(crate) fn begin(program: &str) -> Self {
        Self { program: program.into(), before: list(program).unwrap_or_default(), settle: SETTLE }
    }

    /// A line of the summary.
    pub(crate) fn end(self) -> Outcome {
        let start = Instant::now();
        let verdict = self.verdict();
        Outcome { lane: NAME.into(), required: true, verdict, took: start.elapsed() }
    }

    fn verdict(&self) -> Verdict {
        let start = Instant::now();
        loop {
            let now = match list(&self.program) {
                Ok(now) => now,
                Err(why) => return Verdict::Fail(format!("no engine tells what is left: {why:#}")),
            };
            let left: Vec<_> = now.difference(&self.before).cloned().collect();
            if left.is_empty() {
                return Verdict::Pass;
            }
            if start.elapsed() >= self.settle {
                return Verdict::Fail(format!(
                    "left on the engine: {}; remove them with `docker KIND rm --force NAME`, and find the test that leaves them",
                    left.join(", ")
                ));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

fn list(program: &str) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for (kind, arguments) in [
        ("container", ["ps", "--all", "--format", "{{.Names}}"].as_slice()),
        ("network", &["network", "ls", "--format", "{{.Name}}"]),
        ("volume", &["volume", "ls", "--format", "{{.Name}}"]),
    ] {
        let mut command = Command::new(program);
        command.args(arguments).args(["--filter", &format!("label={LABEL}")]);
        let output = process::output_within(&mut command, ANSWER)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        all.extend(String::from_utf8_lossy(&output.stdout).lines().map(|name| format!("{kind} {name}")));
    }
    Ok(all)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;

    /// An engine that has what three files say.
    fn engine(folder: &Path) -> String {
        let program = folder.join("docker");
        let script = "#!/bin/sh\ncase \"$*\" in *--filter\\ label=sandbox.marker) ;; *) exit 9;; esac\ncat \"$(dirname \"$0\")/$1\"\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for kind in ["ps", "network", "volume"] {
            fs::write(folder.join(kind), format!("old-{kind}\n")).unwrap();
        }
        program.display().to_string()
    }

    fn begun(program: &str) -> Watch {
        Watch { settle: Duration::from_millis(100), ..Watch::begin(program) }
    }

    #[test]
    fn what_was_there_before_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let watch = begun(&engine(folder.path()));
        fs::write(folder.path().join("network"), "").unwrap();
        assert!(matches!(watch.end().verdict, Verdict::Pass));
    }

    #[test]
    fn each_kind_that_is_left_is_named() {
        for (kind, word) in [("ps", "container new"), ("network", "network new"), ("volume", "volume new")] {
            let folder = tempfile::tempdir().unwrap();
            let watch = begun(&engine(folder.path()));
            fs::write(folder.path().join(kind), format!("old-{kind}\nnew\n")).unwrap();
            let verdict = watch.end().verdict;
            assert!(matches!(&verdict, Verdict::Fail(why) if why.contains(&format!("engine: {word};"))), "{verdict}");
        }
    }

    #[test]
    fn an_engine_that_is_gone_since_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let watch = begun(&engine(folder.path()));
        fs::remove_file(folder.path().join("ps")).unwrap();
        let verdict = watch.end().verdict;
        assert!(matches!(&verdict, Verdict::Fail(why) if why.contains("no engine tells")), "{verdict}");
    }
}
