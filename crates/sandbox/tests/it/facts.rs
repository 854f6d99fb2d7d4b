//! What a backend can do is asked once, narrows, and never widens.

use crate::common::{
    any,
    scripted::{Script, code, error, hook, script, script_of},
    spec,
};
use sandbox::{Capability, ErrorKind, Facts, ForkSandbox, Isolation, IsolationFact, Spec, Support};
use sandbox_core::Made;

fn narrow() -> Facts {
    Facts::new("scripted").native([Capability::Run, Capability::Deny, Capability::KillOne])
}

#[tokio::test]
async fn a_probe_narrows_and_its_answer_is_kept_by_key() {
    let probe = hook(|_| async { Ok(Some(narrow())) });
    let probe_key = Box::new(|spec: Spec| spec.image.unwrap_or_default());
    let (client, log) = Script { probe, probe_key, next: script(vec![code(0)]), ..script_of() }.client();
    assert!(client.facts().is_native(Capability::Stdin));
    let facts = client.probe(&Spec::new()).await.unwrap();
    assert!(!facts.has(Capability::Stdin) && facts.is_native(Capability::Run));
    for _ in 0..3 {
        assert!(client.probe(&Spec::new()).await.is_ok());
        let sandbox = client.create(spec()).await.unwrap();
        assert!(!sandbox.facts().has(Capability::Stdin));
        assert_eq!(sandbox.start(any().pipe()).await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(sandbox.run(any()).await.unwrap().success());
    }
    assert_eq!(log.count("probe"), 1);
    assert!(client.probe(&Spec::new().image("other")).await.is_ok());
    assert!(client.create(spec().image("other")).await.is_ok());
    assert_eq!(log.count("probe"), 2);
    assert!(client.facts().is_native(Capability::Stdin), "what `info` said stays");
}

#[tokio::test]
async fn what_a_probe_took_away_is_refused_before_anything_is_made() {
    let probe = hook(|_| async { Ok(Some(narrow().absent(Capability::Deny, "not this image"))) });
    let (client, log) = Script { probe, ..script_of() }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("not this image"), "{error}");
    assert_eq!(log.count("create"), 0);
}

#[tokio::test]
async fn a_probe_that_fails_is_not_kept() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let asked = AtomicUsize::new(0);
    let probe = hook(move |_| {
        let first = asked.fetch_add(1, SeqCst) == 0;
        async move { if first { Err(error(ErrorKind::BackendMissing)) } else { Ok(Some(narrow())) } }
    });
    let (client, log) = Script { probe, ..script_of() }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert_eq!((error.kind(), error.operation(), log.count("create")), (ErrorKind::BackendMissing, Some("create"), 0));
    assert!(client.create(spec()).await.is_ok());
    assert_eq!(log.count("probe"), 2);
}

#[tokio::test]
async fn facts_that_widen_are_the_adapters_fault_and_cost_the_sandbox() {
    let wide = || narrow().native([Capability::List]);
    let (client, log) = Script { probe: hook(move |_| async move { Ok(Some(wide())) }), ..script_of() }.client();
    for error in [client.probe(&Spec::new()).await.unwrap_err(), client.create(spec()).await.unwrap_err()] {
        assert!(error.kind() == ErrorKind::Internal && error.message().contains("LIST"), "{error}");
    }
    assert_eq!(log.count("create"), 0);
    let made = Box::new(move |made: Made<_>| made.facts(wide()));
    let (client, log) = Script { made, ..script_of() }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Internal && error.message().contains("LIST"), "{error}");
    client.close().await.unwrap();
    assert!(log.count("destroyed") > 0);
    let tier = |tier| IsolationFact::new(tier, "scripted", "2026-11-30");
    let made = Box::new(move |made: Made<_>| made.facts(narrow().isolation(tier(Isolation::MicroVm))));
    let script = Script { made, ..script_of() };
    let facts = script.facts.clone().isolation(tier(Isolation::Container));
    let (client, _log) = Script { facts, ..script }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Internal && error.message().contains("micro-vm"), "{error}");
}

#[tokio::test]
async fn a_sandbox_may_have_less_than_its_backend() {
    let made = Box::new(|made: Made<_>| made.facts(narrow().absent(Capability::KillOne, "no helper in this image")));
    let (client, log) = Script { made, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(sandbox.facts().support(Capability::KillOne), Support::Absent("no helper in this image".into()));
    assert!(!sandbox.facts().has(Capability::Stdin) && client.facts().has(Capability::Stdin));
    let mut process = sandbox.start(any()).await.unwrap();
    assert!(process.kill().await.unwrap_err().message().contains("no helper in this image"));
    drop(process);
    client.close().await.unwrap();
    assert_eq!((log.count("kill"), log.count("destroy")), (0, 1), "it went down with its sandbox");
}

#[tokio::test]
async fn a_sandbox_that_is_less_than_was_required_is_ended() {
    let weak = || {
        let made = |made: Made<_>| made.facts(narrow().absent(Capability::Deny, "not here"));
        Script { made: Box::new(made), ..script_of() }.having([Capability::User])
    };
    let required = [
        ("isolation", spec().isolation(Isolation::MicroVm), ErrorKind::IsolationTooWeak),
        ("deny", spec(), ErrorKind::Unsupported),
        ("user", spec().user("nobody").network(sandbox::NetworkPolicy::Open), ErrorKind::Unsupported),
    ];
    for (what, spec, kind) in required {
        let script = weak();
        let tier = IsolationFact::new(Isolation::MicroVm, "scripted", "2026-11-30");
        let (client, log) = Script { facts: script.facts.clone().isolation(tier), ..script }.client();
        let error = client.create(spec).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, Some("create")), "{what}: {error}");
        assert_eq!((log.count("create"), log.count("destroyed")), (1, 1), "{what}: {:?}", log.all());
    }
    let (client, log) = weak().client();
    drop(client.create(spec().network(sandbox::NetworkPolicy::Open)).await.unwrap());
    drop(client);
    assert_eq!(log.count("destroyed"), 1, "the control: what nobody required may be missing");
}

#[tokio::test]
async fn a_copy_that_is_less_than_its_source_is_ended() {
    let strong = || {
        let tier = IsolationFact::new(Isolation::MicroVm, "scripted", "2026-11-30");
        script_of().facts.native([Capability::Fork]).isolation(tier)
    };
    let weaker = || strong().isolation(IsolationFact::new(Isolation::Container, "scripted", "2026-11-30"));
    let open = || strong().absent(Capability::Deny, "not here");
    let (denied, allowed) = (spec(), spec().network(sandbox::NetworkPolicy::Open));
    for (what, spec, of_the_copy, kind) in [
        ("isolation", &allowed, weaker(), Some(ErrorKind::IsolationTooWeak)),
        ("deny", &denied, open(), Some(ErrorKind::Unsupported)),
        ("what its source does without", &allowed, open(), None),
        ("what nobody required", &denied, strong().absent(Capability::Stdin, "not here"), None),
        ("nothing", &denied, strong(), None),
    ] {
        let made = move |made: Made<_>| if made.id.as_str() == "s" { made } else { made.facts(of_the_copy.clone()) };
        let (client, log) = Script { facts: strong(), made: Box::new(made), ..script_of() }.client();
        let source = client.create(spec.clone()).await.unwrap();
        let copy = source.fork(ForkSandbox::new()).await;
        let told = copy.as_ref().err().map(|error| (error.kind(), error.operation()));
        assert_eq!(told, kind.map(|kind| (kind, Some("fork"))), "{what}: {copy:?}");
        let ended = log.count("destroyed s-copy");
        assert_eq!((ended, log.count("destroyed s")), (usize::from(kind.is_some()), 0), "{what}: {:?}", log.all());
        drop((copy, source, client));
        assert_eq!((log.count("destroyed s-copy"), log.count("destroyed s")), (1, 1), "{what}: {:?}", log.all());
    }
}

#[tokio::test]
async fn a_working_directory_that_is_not_absolute_is_the_adapters_fault() {
    for cwd in ["", "rel", "/a\0b", "../.."] {
        let (client, log) = Script { made: Box::new(move |made| made.cwd(cwd)), ..script_of() }.client();
        assert_eq!(client.create(spec()).await.unwrap_err().kind(), ErrorKind::Internal, "{cwd:?}");
        drop(client);
        assert_eq!(log.count("destroyed"), 1, "{cwd:?}");
    }
}
