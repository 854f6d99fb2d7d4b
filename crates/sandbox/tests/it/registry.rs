//! Backends by name.

use crate::common::{
    ms,
    scripted::{Script, Scripted, hook, script_of},
};
use sandbox::{
    Capability, CredentialVariable, Error, ErrorKind, Honoured, Isolation, IsolationFact, NetworkPolicy, Provider,
    Registry, Resource, Result, Spec,
};
use sandbox_core::{Attempt, Parameter, Parameters};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

type Seen = Arc<Mutex<Option<(Parameters, Spec)>>>;

struct Opens {
    scheme: &'static str,
    parameters: &'static [Parameter],
    credentials: &'static [CredentialVariable],
    seen: Seen,
}

impl Opens {
    fn new(scheme: &'static str) -> Self {
        let parameters = const {
            &[Parameter::new("region", "where sandboxes run; `north` unless set"), Parameter::new("speed", "a number")]
        };
        Self { scheme, parameters, credentials: &[], seen: Seen::default() }
    }
}

impl Provider for Opens {
    type Backend = Scripted;

    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.parameters
    }

    fn credentials(&self) -> &'static [CredentialVariable] {
        self.credentials
    }

    fn open(&self, parameters: &Parameters) -> Result<Scripted> {
        if parameters.get("speed").is_some_and(|speed| speed.parse::<u32>().is_err()) {
            return Err(Error::invalid("the speed is no number"));
        }
        let (seen, parameters) = (Arc::clone(&self.seen), parameters.clone());
        let create = hook(move |(spec, _): (Spec, Attempt)| {
            *seen.lock().unwrap() = Some((parameters.clone(), spec));
            async { Ok(()) }
        });
        let script = Script { create, ..script_of() }.having([Capability::User, Capability::Pids]);
        let facts = script.facts.clone();
        let facts = facts.isolation(IsolationFact::new(Isolation::Gvisor, "scripted", "2026-11-30"));
        let facts = facts.resource(Resource::Memory, Honoured::limit(1)).resource(Resource::Cpu, Honoured::limit(1));
        Ok(Script { facts, ..script }.backend().0)
    }
}

async fn opened(dsn: &str) -> (Parameters, Spec) {
    let provider = Opens::new("here");
    let seen = Arc::clone(&provider.seen);
    let client = Registry::new().register(provider).unwrap().open(dsn).unwrap();
    client.create(Spec::new()).await.unwrap().close().await.unwrap();
    let seen = seen.lock().unwrap().take();
    seen.unwrap()
}

#[tokio::test]
async fn a_dsn_opens_a_client_with_its_defaults() {
    let (parameters, spec) = opened(
        "here://python:3.12-slim?lifetime=10m&timeout=90s&network=open&memory=512m&cpus=1.5&pids=64&isolation=container\
         &user=nobody&cwd=%2Fwork&region=south&speed=7",
    )
    .await;
    assert_eq!(parameters.iter().collect::<Vec<_>>(), [("region", "south"), ("speed", "7")]);
    assert_eq!(spec.image.as_deref(), Some("python:3.12-slim"));
    assert_eq!((spec.lifetime, spec.command_timeout), (Some(ms(600_000)), Some(ms(90_000))));
    assert_eq!((spec.network, spec.isolation), (Some(NetworkPolicy::Open), Some(Isolation::Container)));
    assert_eq!((spec.user.as_deref(), spec.cwd.as_deref()), (Some("nobody"), Some("/work")));
    let amount = |resource| spec.resources.get(resource).unwrap().value;
    assert_eq!((amount(Resource::Memory), amount(Resource::Cpu), spec.resources.pids), (512 << 20, 1500, Some(64)));
    let (parameters, spec) = opened("here://").await;
    assert_eq!((parameters, spec.image, spec.lifetime), (Parameters::default(), None, Some(Duration::from_secs(3600))));
}

#[tokio::test]
async fn more_can_be_set_before_the_client_starts() {
    let provider = Opens::new("here");
    let seen = Arc::clone(&provider.seen);
    let registry = Registry::new().register(provider).unwrap();
    let builder = registry.builder("here://img?lifetime=10m").unwrap();
    let client = builder.with_defaults(|spec| spec.env("A", "1")).build().unwrap();
    assert_eq!(client.defaults().image.as_deref(), Some("img"));
    client.create(Spec::new()).await.unwrap().close().await.unwrap();
    let spec = seen.lock().unwrap().take().unwrap().1;
    assert_eq!((spec.env["A"].as_str(), spec.lifetime), ("1", Some(ms(600_000))));
}

fn refused(registry: &Registry, dsn: &str) -> Error {
    let error = registry.open(dsn).expect_err(dsn);
    assert_eq!((error.operation(), error.may_have_applied()), (Some("open"), false));
    error
}

#[test]
fn an_unknown_scheme_names_those_that_are_there() {
    let registry = Registry::new().register(Opens::new("here")).unwrap().register(Opens::new("there+far")).unwrap();
    assert_eq!(registry.schemes(), ["here", "there+far"]);
    let error = refused(&registry, "nowhere://");
    assert_eq!(error.kind(), ErrorKind::BackendUnknown);
    assert!(
        error.message().contains("`here://`, `there+far://`") && error.hint().unwrap().contains("register"),
        "{error}"
    );
    let error = refused(&Registry::new(), "here://");
    assert!(error.kind() == ErrorKind::BackendUnknown && error.message().contains("none is"), "{error}");
}

#[test]
fn a_scheme_is_registered_once_and_is_one() {
    let registry = Registry::new().register(Opens::new("here")).unwrap();
    assert_eq!(registry.register(Opens::new("here")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    for scheme in ["", "Here", "he re", "here?", "1here"] {
        assert_eq!(
            Registry::new().register(Opens::new(scheme)).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{scheme}"
        );
    }
}

#[test]
fn an_unknown_parameter_names_those_that_are_there() {
    let registry = Registry::new().register(Opens::new("here")).unwrap();
    let error = refused(&registry, "here://?regoin=south");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("`regoin`"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("region (where sandboxes run") && hint.contains("lifetime (how long"), "{hint}");
    assert_eq!(registry.parameters("here").len(), 2);
    assert!(registry.parameters("nowhere").is_empty());
}

#[test]
fn values_that_are_none_are_refused() {
    let registry = Registry::new().register(Opens::new("here")).unwrap();
    for (parameter, fine) in [
        ("lifetime=soon", "lifetime=1h"),
        ("timeout=-1", "timeout=1"),
        ("network=maybe", "network=deny"),
        ("memory=1t", "memory=1g"),
        ("cpus=1.", "cpus=0.5"),
        ("pids=-1", "pids=1"),
        ("pids=+5", "pids=5"),
        ("isolation=strong", "isolation=micro-vm"),
        ("speed=fast", "speed=1"),
        ("region", "region="),
        ("region=a&region=b", "region=a"),
        ("region=%2", "region=%20"),
    ] {
        let error = refused(&registry, &format!("here://?{parameter}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{parameter}: {error}");
        assert!(registry.open(&format!("here://?{fine}")).is_ok(), "{fine}");
    }
}

#[test]
fn a_credential_in_a_dsn_is_refused_naming_its_variable() {
    const NAMED: &[CredentialVariable] = &[CredentialVariable::new("HERE_API_KEY", "from the console")];
    let registry = Registry::new().register(Opens { credentials: NAMED, ..Opens::new("here") }).unwrap();
    let registry = registry.register(Opens::new("free")).unwrap();
    for name in ["api_key", "TOKEN", "x-secret", "password", "authorization"] {
        let error = refused(&registry, &format!("here://?{name}=hunter2"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.hint().unwrap().contains("`HERE_API_KEY`"), "{error:?}");
        let error = refused(&registry, &format!("free://?{name}=hunter2"));
        assert!(error.hint().unwrap().contains("needs no credential"), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("hunter2"));
    }
    assert_eq!(registry.credentials("here"), NAMED);
    assert!(registry.credentials("nowhere").is_empty());
}

#[test]
fn a_credential_does_not_show_where_a_dsn_is_otherwise_wrong() {
    let registry = Registry::new().register(Opens::new("here")).unwrap();
    for dsn in [
        "here://?token=hunter2&token=hunter2",
        "here://?token=hunter2%2",
        "here://a b?token=hunter2",
        "here://?regoin=hunter2",
        "here://?token%3Dhunter2",
        "here://?hunter2",
        "here://?=hunter2",
    ] {
        let error = refused(&registry, dsn);
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn a_provider_whose_names_mislead_is_refused() {
    for scheme in ["", "a://b", "a://b?x=1", "A", "1a", "a b"] {
        let error = Registry::new().register(Opens::new(scheme)).unwrap_err();
        assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::InvalidArgument, true), "{scheme}");
    }
    const COMMON: &[Parameter] = &[Parameter::new("memory", "another one")];
    let error = Registry::new().register(Opens { parameters: COMMON, ..Opens::new("here") }).unwrap_err();
    assert!(error.to_string().contains("`memory`"), "{error}");
}

#[test]
fn what_a_provider_declares_is_no_credential() {
    const OWN: &[Parameter] =
        &[Parameter::new("auth_mode", "`user` or `machine`"), Parameter::new("keyboard", "a layout")];
    let registry = Registry::new().register(Opens { parameters: OWN, ..Opens::new("here") }).unwrap();
    assert!(registry.open("here://?auth_mode=user&keyboard=x").is_ok());
    assert!(refused(&registry, "here://?auth=user").to_string().contains("credential"), "the control");
}
