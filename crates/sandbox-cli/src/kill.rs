//! `sandbox kill`.

use crate::{
    args::Backend,
    backend,
    exit::{self, Phase},
    report::{Payload, Report},
};
use clap::Args;
use sandbox::Registry;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kill {
    #[command(flatten)]
    backend: Backend,
    /// The sandboxes; one that has ended already is no failure
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sandbox kill --backend docker+plain:// ID ID";

#[derive(Debug, Default, Serialize)]
struct Killed {
    destroyed: Vec<String>,
}

impl Payload for Killed {
    fn words(&self) -> String {
        self.destroyed.iter().map(|id| format!("{id}\n")).collect()
    }
}

/// Ends sandboxes, and gives the code to end with: that of the first one that failed.
pub(crate) async fn kill(registry: &Registry, args: Kill, json: bool) -> u8 {
    let mut report = Report::new(json);
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let (mut killed, mut failed) = (Killed::default(), None);
    for id in args.ids {
        match client.destroy(&id).await {
            Ok(()) => killed.destroyed.push(id),
            Err(error) => {
                report.error(Phase::Teardown, &error);
                failed.get_or_insert_with(|| exit::code(Phase::Teardown, &error));
            }
        }
    }
    match failed {
        None => report.give(&killed, "ok", 0),
        Some(own) => report.give(&killed, "failed", own.code()),
    }
}
