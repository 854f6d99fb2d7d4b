//! `sandbox ls`.

use crate::{
    args, backend,
    exit::Phase,
    report::{self, Report},
};
use sandbox::{Listed, Query, Registry, labels};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// Lists sandboxes, and gives the code to end with.
pub(crate) async fn ls(registry: &Registry, args: args::Ls, json: bool) -> u8 {
    let mut report = Report::new(json);
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let query = args.label.into_iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let mut found = match client.list(query).await {
        Ok(found) => found,
        Err(error) => return report.failed(Phase::List, &error),
    };
    found.sort_by(|a, b| created(a).cmp(&created(b)).then_with(|| a.id.cmp(&b.id)));
    if report.is_json() {
        let all: Vec<_> = found.iter().map(document).collect();
        report.set("sandboxes", all);
        return report.end("ok", 0);
    }
    _ = report::write(&table(&found, SystemTime::now()));
    0
}

fn document(listed: &Listed) -> Value {
    json!({
        "id": listed.id,
        "created": created(listed).map(since_1970),
        "expires": expires(listed).map(since_1970),
        "labels": listed.labels,
    })
}

fn table(found: &[Listed], now: SystemTime) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut rows = vec![["ID", "AGE", "EXPIRES IN", "LABELS"].map(String::from)];
    rows.extend(found.iter().map(|listed| {
        let age = created(listed).map(|at| words(now.duration_since(at).unwrap_or_default()));
        let left = expires(listed).map(|at| at.duration_since(now).map_or_else(|_| "over".into(), words));
        let [age, left] = [age, left].map(|cell| cell.unwrap_or_else(|| "?".into()));
        let labels = listed.labels.iter().filter(|(name, _)| !name.starts_with(labels::RESERVED));
        let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={value}")).collect();
        [listed.id.to_string(), age, left, labels.join(",")].map(|cell| cell.replace(char::is_control, " "))
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |[id, age, left, labels]: &[String; 4]| {
        let [a, b, c] = widths;
        format!("{id:a$}  {age:b$}  {left:c$}  {labels}").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

/// When it was made: by its provider's word, else by its label.
fn created(listed: &Listed) -> Option<SystemTime> {
    listed.created.or_else(|| stamp(listed, labels::CREATED))
}

fn expires(listed: &Listed) -> Option<SystemTime> {
    stamp(listed, labels::EXPIRES)
}

fn stamp(listed: &Listed, name: &str) -> Option<SystemTime> {
    let seconds = listed.labels.get(name)?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn since_1970(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Two units at most, such as `1h 5m`.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::SandboxId;

    fn listed(id: &str, labels: &[(&str, &str)]) -> Listed {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Listed::new(SandboxId::new(id), labels)
    }

    #[test]
    fn ages_and_ends_come_from_the_labels() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let found = [
            listed("a", &[(labels::CREATED, "9910"), (labels::EXPIRES, "13600"), ("job", "x")]),
            listed("long-id", &[(labels::CREATED, "9999"), (labels::EXPIRES, "9999")]),
            listed("bare", &[]),
        ];
        let expected = "\
ID       AGE     EXPIRES IN  LABELS
a        1m 30s  1h 0m       job=x
long-id  1s      over
bare     ?       ?
";
        assert_eq!(table(&found, now), expected);
        assert_eq!(table(&[], now), "");
    }

    #[test]
    fn documents_keep_every_label() {
        let document = document(&listed("a", &[(labels::CREATED, "5"), ("job", "x")]));
        let expected =
            json!({ "id": "a", "created": 5, "expires": null, "labels": { "job": "x", "sandbox.created": "5" } });
        assert_eq!(document, expected);
    }
}
