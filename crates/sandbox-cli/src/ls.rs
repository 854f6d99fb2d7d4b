//! `sandbox ls`.

use crate::{
    args::Backend,
    backend,
    exit::Phase,
    listed::{Entry, now},
    report::{Payload, Report},
    table::table,
    values,
};
use clap::Args;
use sandbox::{Query, Registry};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ls {
    #[command(flatten)]
    backend: Backend,
    /// Only sandboxes with this label; several have to match all
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    label: Vec<(String, String)>,
}

const EXAMPLES: &str = "\
Examples:
  sandbox ls --backend docker+plain:// --label job=nightly
  sandbox ls --backend docker+plain:// --json";

/// What is there, the oldest first.
#[derive(Debug, Serialize)]
struct Found {
    sandboxes: Vec<Entry>,
    /// When it was looked up, in seconds since 1970.
    #[serde(skip)]
    now: u64,
}

impl Payload for Found {
    fn words(&self) -> String {
        if self.sandboxes.is_empty() {
            return String::new();
        }
        let head = ["ID", "AGE", "EXPIRES IN", "LABELS"].map(String::from);
        let rows =
            self.sandboxes.iter().map(|one| [one.id.clone(), one.age(self.now), one.left(self.now), one.own_labels()]);
        table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    }
}

/// Lists sandboxes, and gives the code to end with.
pub(crate) async fn ls(registry: &Registry, args: Ls, json: bool) -> u8 {
    let report = Report::new(json);
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let query = args.label.into_iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let mut sandboxes: Vec<Entry> = match client.list(query).await {
        Ok(found) => found.iter().map(Entry::from).collect(),
        Err(error) => return report.failed(Phase::List, &error),
    };
    sandboxes.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    report.give(&Found { sandboxes, now: now() }, "ok", 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::{Listed, SandboxId, labels};
    use serde_json::json;

    fn entry(id: &str, labels: &[(&str, &str)]) -> Entry {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Entry::from(&Listed::new(SandboxId::new(id), labels))
    }

    #[test]
    fn ages_and_ends_come_from_the_labels() {
        let sandboxes = vec![
            entry("a", &[(labels::CREATED, "9910"), (labels::EXPIRES, "13600"), ("job", "x")]),
            entry("long-id", &[(labels::CREATED, "9999"), (labels::EXPIRES, "9999")]),
            entry("bare", &[]),
        ];
        let expected = "\
ID       AGE     EXPIRES IN  LABELS
a        1m 30s  1h 0m       job=x
long-id  1s      over
bare     ?       ?
";
        assert_eq!(Found { sandboxes, now: 10_000 }.words(), expected);
        assert_eq!(Found { sandboxes: Vec::new(), now: 0 }.words(), "");
    }

    #[test]
    fn documents_keep_every_label() {
        let found = Found { sandboxes: vec![entry("a", &[(labels::CREATED, "5"), ("job", "x")])], now: 7 };
        let one = json!({ "id": "a", "created": 5, "expires": null, "labels": { "job": "x", "sandbox.created": "5" } });
        assert_eq!(serde_json::to_value(&found).unwrap(), json!({ "sandboxes": [one] }));
    }
}
