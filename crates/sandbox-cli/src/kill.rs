//! `sandbox kill`.

use crate::{
    args, backend,
    exit::{self, Phase},
    report::{self, Report},
};
use sandbox::Registry;

/// Ends sandboxes, and gives the code to end with: that of the first one that failed.
pub(crate) async fn kill(registry: &Registry, args: args::Kill, json: bool) -> u8 {
    let mut report = Report::new(json);
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let (mut destroyed, mut failed) = (Vec::new(), None);
    for id in args.ids {
        match client.destroy(&id).await {
            Ok(()) => {
                if !json {
                    _ = report::write(&format!("{id}\n"));
                }
                destroyed.push(id);
            }
            Err(error) => {
                report.error(Phase::Teardown, &error);
                failed.get_or_insert_with(|| exit::code(Phase::Teardown, &error));
            }
        }
    }
    report.set("destroyed", destroyed);
    match failed {
        None => report.end("ok", 0),
        Some(own) => report.end("failed", own.code()),
    }
}
