//! `sandbox reap`.

use crate::{
    args::Backend,
    backend,
    exit::{self, Phase},
    listed::{Entry, now, words},
    report::{Payload, Report},
    table::table,
    values,
};
use clap::Args;
use sandbox::{Registry, Sweep};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reap {
    #[command(flatten)]
    backend: Backend,
    /// Only sandboxes with this label; several have to match all
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    label: Vec<(String, String)>,
    /// Also those that are within their lifetime; wants a --label that says whose
    #[arg(long, requires = "label")]
    live: bool,
    /// Really end them; without this they are only shown
    #[arg(long)]
    apply: bool,
}

const EXAMPLES: &str = "\
Examples:
  sandbox reap --backend docker+plain://
  sandbox reap --backend docker+plain:// --apply
  sandbox reap --backend docker+plain:// --label job=nightly --live --apply

Only what bears the labels of this library is looked at.";

/// What was found, and what became of it.
#[derive(Debug, Serialize)]
struct Reaped {
    applied: bool,
    sandboxes: Vec<One>,
    #[serde(skip)]
    now: u64,
}

#[derive(Debug, Serialize)]
struct One {
    #[serde(flatten)]
    entry: Entry,
    why: String,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    WouldBeEnded,
    Ended,
    Failed,
}

impl Payload for Reaped {
    fn words(&self) -> String {
        if self.sandboxes.is_empty() {
            return "nothing to reap\n".into();
        }
        let head = ["ID", "AGE", "OUTCOME", "WHY", "LABELS"].map(String::from);
        let rows = self.sandboxes.iter().map(|one| {
            let outcome = match one.outcome {
                Outcome::WouldBeEnded => "would be ended",
                Outcome::Ended => "ended",
                Outcome::Failed => "FAILED",
            };
            [one.entry.id.clone(), one.entry.age(self.now), outcome.into(), one.why.clone(), one.entry.own_labels()]
        });
        let mut text = table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
        if !self.applied {
            text.push_str("nothing was ended: add --apply to end them\n");
        }
        text
    }
}

/// Finds what is left over, ends it where that was asked for, and gives the code to end with.
pub(crate) async fn reap(registry: &Registry, args: Reap, json: bool) -> u8 {
    let mut report = Report::new(json);
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let sweep = args.label.iter().fold(Sweep::new(), |sweep, (name, value)| sweep.label(name, value));
    let swept = match client.sweep(sweep.expired_only(!args.live).dry_run(!args.apply)).await {
        Ok(swept) => swept,
        Err(error) => return report.failed(Phase::List, &error),
    };
    let now = now();
    let outcome = |id: &str| {
        if !args.apply {
            Outcome::WouldBeEnded
        } else if swept.destroyed.iter().any(|ended| ended.as_str() == id) {
            Outcome::Ended
        } else {
            Outcome::Failed
        }
    };
    let one = |entry: Entry| One { why: why(&entry, &args.label, now), outcome: outcome(&entry.id), entry };
    let mut sandboxes: Vec<One> = swept.found.iter().map(|listed| one(listed.into())).collect();
    sandboxes.sort_by(|a, b| (a.entry.expires, &a.entry.id).cmp(&(b.entry.expires, &b.entry.id)));
    let reaped = Reaped { applied: args.apply, sandboxes, now };
    let mut failed = None;
    for (_, error) in &swept.failed {
        report.error(Phase::Teardown, error);
        failed.get_or_insert_with(|| exit::code(Phase::Teardown, error));
    }
    match failed {
        None => report.give(&reaped, "ok", 0),
        Some(own) => report.give(&reaped, "failed", own.code()),
    }
}

fn why(entry: &Entry, labels: &[(String, String)], now: u64) -> String {
    let mut why = match entry.expires {
        Some(at) if at < now => format!("past its lifetime for {}", words(now - at)),
        Some(at) => format!("asked for, although it may live {} more", words(at.saturating_sub(now))),
        None => "asked for, although it says nothing of its lifetime".into(),
    };
    for (name, value) in labels {
        why.push_str(&format!(", label {name}={value}"));
    }
    why
}
