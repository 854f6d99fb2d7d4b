//! The command on a Docker engine, judged by Docker's own command: what runs while it runs, and that nothing is left.
#![cfg_attr(not(unix), allow(unused, reason = "there is nothing to run there"))]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says where")]

mod support;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{env, process::ExitCode};
#[cfg(unix)]
use support::engine;

#[cfg(unix)]
#[path = "docker/ends.rs"]
mod ends;
#[cfg(unix)]
#[path = "docker/project.rs"]
mod project;
#[cfg(unix)]
#[path = "docker/runs.rs"]
mod runs;

type Row = (&'static str, fn());

/// Signals and sockets are spoken to here as Unix has them.
#[cfg(not(unix))]
fn main() {
    eprintln!("ignored: these tests need a Unix host");
}

#[cfg(unix)]
fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one engine, and count what is on it.
    arguments.test_threads.get_or_insert(1);
    let reason = engine::missing();
    let required = env::var("SANDBOX_CONTRACT").is_ok_and(|value| value == "require");
    if let (Some(reason), false) = (&reason, arguments.list) {
        eprintln!("{}: {reason}", if required { "failed" } else { "ignored" });
    }
    let rows = [runs::ROWS, ends::ROWS, project::ROWS].concat();
    let trials = rows.into_iter().map(|(name, test)| {
        let reason = reason.clone();
        let ignored = reason.is_some() && !required;
        let trial = Trial::ignorable_test(name, move || match reason {
            Some(reason) if required => Err(Failed::from(reason)),
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => {
                test();
                Ok(Completion::Completed)
            }
        });
        // This runner sees exit codes alone, so it has to know before; others print the reason.
        trial.with_ignored_flag(ignored && env::var_os("NEXTEST").is_some())
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
