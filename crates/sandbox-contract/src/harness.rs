//! `contract_suite!` as a test program: libtest-mimic, one trial a row.

use crate::{
    Record, Row, Settings, Suite, Verdict,
    ctx::absence,
    measure,
    meddle::Meddling,
    owner, report,
    row::Stop,
    rows,
    subject::{IntoSubject, maker},
    suite::{PROCESS, no_subject},
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sandbox::Query;
use sandbox_core::{Capability, Facts};
use std::{process::ExitCode, sync::Arc, time::Duration};

/// What `contract_suite!` expands to calls this.
#[doc(hidden)]
pub fn run<By, T: IntoSubject<By>>(make: impl Fn() -> T + Send + Sync + 'static) -> ExitCode {
    let settings = match Settings::from_env() {
        Ok(settings) => settings,
        Err(why) => return say(&why),
    };
    let make = maker(make);
    if let Some(end) = owner::run(&make, &settings) {
        return end;
    }
    if let Some(end) = measure::run(&make, &settings) {
        return end;
    }
    owner::this_is_a_harness();
    let suite = Arc::new(Suite::with(make, settings));
    let arguments = Arguments::from_args();
    let listing = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials(&suite, all(), listing));
    if listing {
        return conclusion.exit_code();
    }
    match sweep(&suite) {
        Ok(()) => conclusion.exit_code(),
        Err(why) => say(&why),
    }
}

#[expect(clippy::print_stderr, reason = "the harness speaks to whoever runs it")]
fn say(why: &str) -> ExitCode {
    eprintln!("contract suite: {why}");
    ExitCode::FAILURE
}

/// The trials of these rows, decided by what `info` says, offline.
pub(crate) fn trials(suite: &Arc<Suite>, rows: impl IntoIterator<Item = &'static Row>, listing: bool) -> Vec<Trial> {
    let facts = suite.subject().and_then(|subject| subject.info());
    let mut trials = Vec::new();
    for row in rows {
        match &facts {
            Ok(facts) => match missing(row, facts) {
                None => trials.push(trial(suite, row, name(row))),
                Some(capability) => {
                    let why = format!("{capability} is absent: {}", absence(facts, capability));
                    trials.push(ignored(suite, name(row), why, listing));
                    trials.push(trial(suite, row, format!("{}::refuses", row.name())));
                }
            },
            Err(error) => match no_subject(error.clone()) {
                Stop::Unavailable(why) if !suite.settings.require && !row.is_expression() => {
                    trials.push(unavailable(suite, row, why, listing));
                }
                // It says what is wrong when it runs.
                _ => trials.push(trial(suite, row, name(row))),
            },
        }
    }
    trials
}

/// A serial row has a name of its own, so that a runner with a process for every test can be told to run these one by one.
fn name(row: &Row) -> String {
    if row.is_serial() { format!("{}::serial", row.name()) } else { row.name().into() }
}

fn missing(row: &Row, facts: &Facts) -> Option<Capability> {
    row.capabilities().iter().copied().find(|need| !facts.has(*need))
}

fn trial(suite: &Arc<Suite>, row: &'static Row, name: String) -> Trial {
    let suite = Arc::clone(suite);
    Trial::ignorable_test(name, move || {
        let record = suite.run(row);
        keep(&suite, &record)?;
        conclude(&suite.settings, &record)
    })
}

/// A row that says beforehand that nothing can be proven. nextest only sees exit codes, so for it the row is marked; `cargo
/// test` shows the reason. Where nextest is told to run it all the same, it may not look like a pass.
fn ignored(suite: &Arc<Suite>, name: String, why: String, listing: bool) -> Trial {
    let nextest = suite.settings.nextest;
    let trial =
        Trial::ignorable_test(
            name,
            move || {
                if nextest { Err(Failed::from(why)) } else { Ok(Completion::ignored_with(why)) }
            },
        );
    trial.with_ignored_flag(nextest || listing)
}

fn unavailable(suite: &Arc<Suite>, row: &'static Row, why: String, listing: bool) -> Trial {
    let why = format!("unavailable: {why}");
    if suite.settings.report.is_none() {
        return ignored(suite, name(row), why, listing);
    }
    // The report wants its line, so the row is run: it ends where its subject is made.
    trial(suite, row, name(row))
}

fn keep(suite: &Suite, record: &Record) -> Result<(), Failed> {
    let Some(directory) = &suite.settings.report else { return Ok(()) };
    report::write(directory, &suite.settings.process, record)
        .map_err(|error| Failed::from(format!("the report in {} cannot be written: {error}", directory.display())))
}

/// What the runner is told. Its PASS means least; the report has the verdict.
pub(crate) fn conclude(settings: &Settings, record: &Record) -> Result<Completion, Failed> {
    let Record { verdict, reason, .. } = record;
    // What nextest shows as PASS is only for what a report is compared for.
    let shown = !settings.nextest;
    let why = format!("{verdict}: {reason}");
    match verdict {
        Verdict::Pass => Ok(Completion::Completed),
        Verdict::Fail => Err(Failed::from(reason)),
        // The refuses twin has passed.
        Verdict::Absent => Ok(Completion::Completed),
        Verdict::Unproven if settings.may_be_unproven(&record.row) || settings.report.is_some() => {
            Ok(Completion::ignored_with(why))
        }
        Verdict::Unproven => Err(Failed::from(format!(
            "{why}\n  give the probe, or name the row in SANDBOX_CONTRACT_UNPROVEN if that cannot be done"
        ))),
        Verdict::Unavailable if settings.require => Err(Failed::from(format!("{why} (SANDBOX_CONTRACT=require)"))),
        Verdict::Unavailable if shown => Ok(Completion::ignored_with(why)),
        Verdict::Unavailable => Err(Failed::from(why)),
    }
}

/// Looks for sandboxes of this process that no row has ended, ends them, and says so.
pub(crate) fn sweep(suite: &Suite) -> Result<(), String> {
    // A missing subject was told by its rows.
    let Ok(subject) = suite.subject() else { return Ok(()) };
    let count = subject.probes.hooks.count.clone();
    let own = [(PROCESS.to_string(), suite.settings.process.clone())];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let client = subject.client(&Arc::new(Meddling::default()), None).map_err(|e| format!("sweep: {e}"))?;
    let lists = client.facts().has(Capability::List) && client.facts().has(Capability::Labels);
    let work = async {
        let left = match (&count, lists) {
            (Some(count), _) => count(own.clone().into()).await.map_err(|e| format!("sweep: {e}"))?,
            (None, true) => {
                let [(name, value)] = own.clone();
                client.list(Query::new().label(name, value)).await.map_err(|e| format!("sweep: {e}"))?.len()
            }
            (None, false) => 0,
        };
        if left == 0 {
            return Ok(());
        }
        let mut ids = Vec::new();
        if lists {
            let [(name, value)] = own;
            for one in client.list(Query::new().label(name, value)).await.unwrap_or_default() {
                let ended = client.destroy(one.id.as_str()).await;
                ids.push(format!("{} ({})", one.id, ended.map_or_else(|e| e.to_string(), |()| "ended now".into())));
            }
        }
        Err(format!("{left} sandboxes of this process were still alive at its end: {}", ids.join(", ")))
    };
    let end = runtime.block_on(async {
        match tokio::time::timeout(SWEEP, work).await {
            Ok(end) => end,
            Err(_) => Err(format!("the sweep was not over after {SWEEP:?}")),
        }
    });
    match end {
        // No engine: then nothing of ours is alive in it either, and the rows have said so.
        Err(why) if why.contains("[backend-missing]") || why.contains("[auth]") => Ok(()),
        end => end,
    }
}

const SWEEP: Duration = Duration::from_secs(45);

/// All rows of the suite, in the order of the contract.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    rows::AREAS.iter().flat_map(|area| area.iter())
}
