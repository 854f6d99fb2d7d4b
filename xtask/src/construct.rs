//! `cargo xtask construct`: making a client and asking what it can do touches no network, seen from outside.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{engine::installed, process::output_within, workspace};

/// Calls that reach, or prepare to reach, anybody outside the process. A pair of sockets within it is none of them.
const CALLS: &str = "socket,connect,bind,sendto,sendmsg,sendmmsg";
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run() -> Result<()> {
    ensure!(installed("strace"), "strace is not installed; install it, for example `apt-get install strace`");
    let root = workspace::root();
    let program = build(&root)?;
    let mut credentials = Command::new(&program);
    let names = text(output_within(credentials.arg("--credentials"), LIMIT)?, "--credentials")?;
    let names: Vec<_> = names.lines().map(str::to_string).collect();
    let (opened, calls) = watch(&root, &program, &[], &names)?;
    print!("{opened}");
    ensure!(opened.lines().count() > 1, "it opened fewer than two backends");
    let (_, control) = watch(&root, &program, &["--connect"], &names)?;
    judge(&calls, &control)?;
    println!("none of them called {CALLS}; a connection made on purpose was seen");
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--locked", "--package", "sandbox-cli", "--example", "construct"])
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the example `construct` of sandbox-cli does not build: {status}");
    workspace::built("examples/construct")
}

/// What the program printed, and the calls that it and its threads made.
fn watch(root: &Path, program: &Path, arguments: &[&str], credentials: &[String]) -> Result<(String, String)> {
    let trace = root.join("target/construct.strace");
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "-qq", "--trace", CALLS, "--output"]).arg(&trace).arg(program).args(arguments);
    // Nobody is asked whether they are right.
    command.envs(credentials.iter().map(|name| (name, "not-a-secret")));
    let printed = text(output_within(&mut command, LIMIT)?, "strace")?;
    let calls = fs::read_to_string(&trace).with_context(|| format!("strace left no {}", trace.display()))?;
    Ok((printed, calls))
}

fn text(output: Output, what: &str) -> Result<String> {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{what} failed ({}): {}", output.status, stderr.trim());
    Ok(stdout.into_owned())
}

fn judge(calls: &str, control: &str) -> Result<()> {
    ensure!(
        control.contains("connect(") && control.contains("127.0.0.1"),
        "a connection made on purpose was not seen, so nothing is proven; strace saw: {control}"
    );
    let found: BTreeSet<_> = calls.lines().filter(|line| line.contains('(')).collect();
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = found.into_iter().collect();
    bail!(
        "constructing clients made system calls for the network:\n{}\nmove the work into the backend's first operation; \
         `Provider::open` and `Backend::info` are offline",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str = "7 socket(AF_INET, SOCK_STREAM, 0) = 3\n7 connect(3, {sa_family=AF_INET, sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1\n";

    #[test]
    fn silence_beside_a_seen_connection_is_proof() {
        assert!(judge("", CONTROL).is_ok());
    }

    #[test]
    fn silence_that_is_deaf_proves_nothing() {
        let error = judge("", "7 socket(AF_INET, SOCK_STREAM, 0) = 3\n").unwrap_err().to_string();
        assert!(error.contains("nothing is proven"), "{error}");
    }

    #[test]
    fn a_socket_is_found_and_shown() {
        let error = judge("9 socket(AF_UNIX, SOCK_STREAM, 0) = 4\n", CONTROL).unwrap_err().to_string();
        assert!(error.contains("9 socket(AF_UNIX"), "{error}");
    }

    /// The watching itself, on a program that is at hand.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_program_does_on_the_network_is_seen() {
        assert!(installed("strace"), "strace is not installed; install it, for example `apt-get install strace`");
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("target")).unwrap();
        let watched = |program: &str, arguments: &[&str]| {
            watch(root.path(), Path::new(program), arguments, &["A_KEY".into()]).unwrap()
        };
        // No shell: without SHELL in its environment, bash looks its user up, which may ask a daemon.
        assert_eq!(watched("printenv", &["A_KEY"]), ("not-a-secret\n".into(), String::new()));
        let (_, calls) = watched("bash", &["-c", "(: </dev/tcp/127.0.0.1/9) 2>&-; true"]);
        assert!(judge(&calls, &calls).is_err(), "{calls}");
    }
}
