//! `sandbox doctor`.

mod credentials;
mod words;

use crate::{
    backend,
    exit::{self, Phase},
    report::Report,
    values,
};
use clap::Args;
use credentials::{Credential, Secrets};
use sandbox::{
    Capability, Client, Error, Facts, IsolationFact, Limits, Query, Registry, Resource, Spec, Support, labels,
};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// A backend to look at; may be repeated [default: every one that this binary knows]
    #[arg(long, value_name = "DSN")]
    backend: Vec<String>,
    /// How long each answer may take
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "20s", allow_hyphen_values = true)]
    timeout: Duration,
}

const EXAMPLES: &str = "\
Examples:
  sandbox doctor
  sandbox doctor --backend docker+plain:// --backend fake://
  sandbox doctor --json

Nothing is created, and no value of a credential is shown. It ends with 0 where every backend is usable.";

/// What was found out about each backend.
#[derive(Debug, Serialize)]
struct Checkups {
    usable: bool,
    backends: Vec<Checkup>,
}

#[derive(Debug, Serialize)]
struct Checkup {
    /// The DSN, without values that may be secret.
    backend: String,
    usable: bool,
    checks: Vec<Check>,
    credentials: Vec<Credential>,
    facts: Option<Told>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    outcome: Outcome,
    /// What the outcome rests on.
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Ok,
    Failed,
    NotChecked,
}

/// What the backend says of itself.
#[derive(Debug, Serialize)]
struct Told {
    name: String,
    isolation: Option<IsolationFact>,
    native: Vec<Capability>,
    emulated: BTreeMap<Capability, String>,
    absent: BTreeMap<Capability, String>,
    /// What is honoured, with its limit where nothing is asked for.
    resources: BTreeMap<String, sandbox::Honoured>,
    pids_by_default: Option<u32>,
    longest_lifetime_s: Option<u64>,
    longest_command_s: Option<u64>,
}

/// Looks at backends, and gives the code to end with: that of the first one that cannot be used.
pub(crate) async fn doctor(registry: &Registry, args: Doctor, json: bool) -> u8 {
    let report = Report::new(json);
    let (mut backends, mut failed) = (Vec::new(), None);
    for dsn in chosen(registry, args.backend) {
        let (checkup, error) = checkup(registry, &dsn, args.timeout).await;
        failed = failed.or_else(|| error.map(|error| exit::code(Phase::Open, &error).code()));
        backends.push(checkup);
    }
    let checkups = Checkups { usable: failed.is_none() && !backends.is_empty(), backends };
    match failed {
        None if checkups.backends.is_empty() => {
            let error = Error::new(sandbox::ErrorKind::BackendMissing, "this binary knows no backend");
            report.failed(Phase::Open, &error.with_hint("register a provider in the `main` of the binary"))
        }
        None => report.give(&checkups, "ok", 0),
        Some(code) => report.give(&checkups, "failed", code),
    }
}

/// The backends to look at: those asked for, else every one, that of the environment in the place of its scheme's own.
fn chosen(registry: &Registry, asked: Vec<String>) -> Vec<String> {
    if !asked.is_empty() {
        return asked;
    }
    let mut all: Vec<_> = registry.schemes().into_iter().map(|scheme| format!("{scheme}://")).collect();
    if let Some(set) = backend::from_environment() {
        match all.iter_mut().find(|bare| set.starts_with(bare.as_str())) {
            Some(bare) => *bare = set,
            None => all.push(set),
        }
    }
    all
}

async fn checkup(registry: &Registry, dsn: &str, timeout: Duration) -> (Checkup, Option<Error>) {
    let scheme = dsn.split_once("://").map_or("", |(scheme, _)| scheme);
    let mut credentials = Credential::all(registry.credentials(scheme));
    let secrets = Secrets::of(registry.credentials(scheme));
    let mut checks = Checks { all: Vec::new(), failed: None, secrets };
    let limits = Limits::new().operation(timeout);
    let opened = registry.builder(dsn).and_then(|builder| builder.limits(limits).build());
    let mut facts = None;
    match opened {
        Err(error) => checks.failed("open", error),
        Ok(client) => {
            checks.ok("open", "the DSN is right; nothing was sent for this");
            facts = Some(checks.ask(&client, timeout).await);
        }
    }
    let answered = checks.all.iter().any(|check| check.check == "list" && check.outcome == Outcome::Ok);
    for credential in &mut credentials {
        credential.judge(answered);
    }
    let Checks { all: checks, failed, secrets } = checks;
    let facts = facts.map(|facts| Told::of(&facts));
    let backend = secrets.without(&shown(registry, dsn));
    (Checkup { backend, usable: failed.is_none(), checks, credentials, facts }, failed)
}

/// The checks of one backend, and the first failure.
struct Checks {
    all: Vec<Check>,
    failed: Option<Error>,
    secrets: Secrets,
}

impl Checks {
    /// Asks the provider what can be asked without making anything.
    async fn ask(&mut self, client: &Client, timeout: Duration) -> Facts {
        let facts = match within(timeout, client.probe(&Spec::new())).await {
            Ok(facts) => {
                self.ok("probe", "nothing stands against making a sandbox; none was made");
                facts
            }
            Err(error) => {
                self.failed("probe", error);
                return client.facts().clone();
            }
        };
        if !facts.has(Capability::List) {
            self.add("list", Outcome::NotChecked, "this backend cannot list, so nothing was asked of it".into());
            return facts;
        }
        // A label that no sandbox bears: what is wanted is an answer, not a list.
        match within(timeout, client.list(Query::new().label(labels::MARKER, "asked-by-doctor"))).await {
            Ok(_) => self.ok("list", "the provider answered a request"),
            Err(error) => self.failed("list", error),
        }
        facts
    }

    fn ok(&mut self, check: &'static str, says: &str) {
        self.add(check, Outcome::Ok, says.into());
    }

    fn failed(&mut self, check: &'static str, error: Error) {
        let fix = error.hint().unwrap_or_else(|| error.kind().fix());
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let says = causes.fold(error.message().to_string(), |says, cause| format!("{says}: {cause}"));
        let (says, fix) = (self.secrets.without(&says), self.secrets.without(fix));
        let kind = Some(error.kind().code());
        self.all.push(Check { check, outcome: Outcome::Failed, says, kind, fix: Some(fix) });
        self.failed.get_or_insert(error);
    }

    fn add(&mut self, check: &'static str, outcome: Outcome, says: String) {
        self.all.push(Check { check, outcome, says, kind: None, fix: None });
    }
}

/// The adapter's own patience may be longer.
async fn within<T>(timeout: Duration, work: impl Future<Output = sandbox::Result<T>>) -> sandbox::Result<T> {
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => {
            let error = Error::new(sandbox::ErrorKind::OperationTimeout, format!("no answer within {timeout:?}"));
            Err(error.with_hint("check the address and the network, or give it longer with --timeout"))
        }
    }
}

/// The DSN with the values of parameters that the provider knows; any other may be a secret that was put there by mistake.
fn shown(registry: &Registry, dsn: &str) -> String {
    let Some((head, query)) = dsn.split_once('?') else { return dsn.into() };
    let scheme = head.split_once("://").map_or("", |(scheme, _)| scheme);
    let known = registry.parameters(scheme);
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !known.iter().any(|parameter| parameter.name == name) => format!("{name}=…"),
        _ => pair.into(),
    });
    format!("{head}?{}", pairs.collect::<Vec<_>>().join("&"))
}

impl Told {
    fn of(facts: &Facts) -> Self {
        let (mut native, mut emulated, mut absent) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for capability in Capability::ALL.iter().copied() {
            match facts.support(capability) {
                Support::Native => native.push(capability),
                Support::Emulated(how) => _ = emulated.insert(capability, how.into_owned()),
                Support::Absent(why) => _ = absent.insert(capability, why.into_owned()),
                _ => {}
            }
        }
        let honoured = Resource::ALL.iter().map(|resource| (resource.to_string(), facts.honours(*resource)));
        Self {
            name: facts.name().into(),
            isolation: facts.isolation_fact().cloned(),
            native,
            emulated,
            absent,
            resources: honoured.filter(|(_, honoured)| honoured.limit || honoured.request).collect(),
            pids_by_default: facts.pids_by_default(),
            longest_lifetime_s: facts.longest_lifetime().map(|longest| longest.as_secs()),
            longest_command_s: facts.longest_command().map(|longest| longest.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_fake::FakeProvider;

    #[test]
    fn what_may_be_a_secret_in_a_dsn_is_not_shown() {
        let registry = Registry::new().register(FakeProvider::new()).unwrap();
        assert_eq!(shown(&registry, "fake://image?token=abc&lifetime=5"), "fake://image?token=…&lifetime=…");
        assert_eq!(shown(&registry, "fake://image"), "fake://image");
    }
}
