//! Services: they end with their sandbox, alone, or with a create that fails, and are destroyed once.

use crate::common::{
    any, ms,
    scripted::{Log, Script, after, error, hook, script_of},
    spec, until,
};
use sandbox::{Capability, Client, Error, ErrorKind, Fate, Sandbox, SandboxId, Service, Spec};

fn with_db() -> Spec {
    spec().service("db", Service::new("postgres").cwd("/data"))
}

fn script() -> Script {
    script_of().having([Capability::Services, Capability::Attach])
}

async fn made(script: Script) -> (Client, Log, Sandbox, Sandbox) {
    let (client, log) = script.client();
    let sandbox = client.create(with_db()).await.unwrap();
    let db = sandbox.service("db").unwrap();
    (client, log, sandbox, db)
}

fn destroyed(log: &Log) -> Vec<String> {
    log.all().iter().filter_map(|line| line.strip_prefix("destroyed ")).map(str::to_string).collect()
}

#[tokio::test]
async fn one_ends_with_its_sandbox_and_is_not_destroyed_itself() {
    let (client, log, sandbox, db) = made(script()).await;
    assert_eq!((db.id().as_str(), db.cwd()), ("s-db", "/data"));
    let mut process = db.start(any()).await.unwrap();
    sandbox.close().await.unwrap();
    let ended = process.wait().await.unwrap_err();
    assert_eq!((ended.kind(), ended.fate()), (ErrorKind::Gone, Some(Fate::Dead)));
    let gone = db.run(any()).await.unwrap_err();
    assert_eq!((gone.kind(), gone.sandbox()), (ErrorKind::Gone, Some(db.id())));
    assert!(gone.message().contains("the service has ended"), "{gone}");
    db.close().await.unwrap();
    db.close().await.unwrap();
    drop((process, db, sandbox));
    client.close().await.unwrap();
    drop(client);
    assert_eq!(destroyed(&log), ["s"]);
}

#[tokio::test]
async fn a_stopped_one_is_destroyed_once_and_takes_nobody_along() {
    let (client, log, sandbox, db) = made(script()).await;
    let mut beside = sandbox.start(any()).await.unwrap();
    let mut inside = db.start(any()).await.unwrap();
    let again = sandbox.service("db").unwrap();
    let (one, two) = tokio::join!(db.close(), again.close());
    one.and(two).unwrap();
    assert_eq!(inside.wait().await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(sandbox.service("db").unwrap().run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(destroyed(&log), ["s-db"]);
    assert!(tokio::time::timeout(ms(100), beside.wait()).await.is_err(), "the sandbox's own command goes on");
    sandbox.close().await.unwrap();
    drop((beside, inside, again, db, sandbox, client));
    assert_eq!(destroyed(&log), ["s-db", "s"]);
}

#[tokio::test]
async fn a_handle_keeps_the_sandbox_and_ends_nothing() {
    let (client, log, sandbox, db) = made(script()).await;
    drop(sandbox.service("db").unwrap());
    drop(sandbox);
    let process = db.start(any()).await.unwrap();
    drop(db);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(destroyed(&log), [""; 0]);
    drop(process);
    until("the last handle has ended it", || destroyed(&log) == ["s"]).await;
    drop(client);
    assert_eq!(destroyed(&log), ["s"]);
}

#[tokio::test]
async fn a_create_that_fails_ends_all_that_it_claimed() {
    let create = hook(|_| async { Err(error(ErrorKind::CreateFailed)) });
    let (client, log) = Script { create, ..script() }.client();
    assert_eq!(client.create(with_db()).await.unwrap_err().kind(), ErrorKind::CreateFailed);
    client.close().await.unwrap();
    drop(client);
    let mut all = destroyed(&log);
    all.sort();
    assert_eq!(all, ["s", "s-db"]);
}

#[tokio::test]
async fn the_failure_of_a_sandboxs_end_is_that_of_its_services() {
    let (client, log, sandbox, db) = made(Script {
        destroy: hook(|id: SandboxId| async move {
            if id.as_str() == "s" { Err(error(ErrorKind::RateLimited)) } else { Ok(()) }
        }),
        ..script()
    })
    .await;
    assert_eq!(sandbox.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed);
    assert_eq!(db.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed, "it may still be there");
    assert_eq!((log.count("destroy"), client.orphans().len()), (1, 1));
}

#[tokio::test]
async fn what_is_attached_and_left_keeps_its_services() {
    let (client, log) = Script { attached: &["db"], ..script() }.client();
    let attached = client.attach("x").await.unwrap();
    let db = attached.service("db").unwrap();
    drop(attached);
    drop(db.start(any()).await.unwrap());
    drop(db);
    let again = client.attach("x").await.unwrap();
    let db = again.service("db").unwrap();
    client.close().await.unwrap();
    assert_eq!(db.run(any()).await.unwrap_err().kind(), ErrorKind::Gone, "the client was closed");
    assert_eq!(destroyed(&log), [""; 0]);
    // As a sandbox that was left can still be ended, so can its service.
    db.close().await.unwrap();
    assert_eq!(destroyed(&log), ["x-db"]);
    again.close().await.unwrap();
    assert_eq!(destroyed(&log), ["x-db", "x"]);
}

#[tokio::test]
async fn a_sandbox_that_is_ended_after_it_was_left_takes_its_services_along() {
    let (client, log) = Script { attached: &["db"], ..script() }.client();
    let attached = client.attach("x").await.unwrap();
    let db = attached.service("db").unwrap();
    client.close().await.unwrap();
    attached.close().await.unwrap();
    db.close().await.unwrap();
    assert_eq!(destroyed(&log), ["x"]);
}

#[tokio::test]
async fn a_timeout_that_cannot_end_one_command_ends_its_service_alone() {
    let (_client, log, sandbox, db) = made(script().without_kill()).await;
    let late = db.run(any().timeout(ms(100))).await.unwrap_err();
    assert_eq!((late.kind(), late.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Dead)));
    assert_eq!(destroyed(&log), ["s-db"]);
    assert_eq!(db.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    drop(sandbox.start(any()).await.unwrap());
}

#[tokio::test]
async fn a_slow_end_of_one_holds_nobody_up() {
    let (_client, log, sandbox, db) = made(Script {
        destroy: hook(|id: SandboxId| async move {
            if id.as_str() == "s-db" {
                tokio::time::sleep(ms(3000)).await;
            }
            Ok(())
        }),
        ..script()
    })
    .await;
    let ends = async {
        let begun = std::time::Instant::now();
        sandbox.close().await.unwrap();
        begun.elapsed()
    };
    let (took, stopped) = tokio::join!(ends, db.close());
    stopped.unwrap();
    assert!(took < ms(2500), "{took:?}");
    let mut all = destroyed(&log);
    all.sort();
    assert!(all == ["s", "s-db"] || all == ["s"], "{all:?}");
}

#[tokio::test]
async fn what_an_adapter_hands_over_is_looked_at() {
    for (what, spoil) in [
        ("made without", (|made| made.services.clear()) as fn(&mut sandbox_core::Made<_>)),
        ("is not absolute", |made| {
            made.services.values_mut().for_each(|service| service.cwd = Some("data".into()));
        }),
        ("claims more", |made| {
            let facts = script_of().facts.native([Capability::Snapshot]);
            made.services.values_mut().for_each(|service| service.facts = Some(facts.clone()));
        }),
    ] {
        let hand_over = move |mut made| {
            spoil(&mut made);
            made
        };
        let (client, log) = Script { made: Box::new(hand_over), ..script() }.client();
        let refused = client.create(with_db()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Internal, "{what}: {refused:?}");
        assert!(refused.message().contains(what) && refused.message().contains("`db`"), "{what}: {refused}");
        drop(client);
        assert!(destroyed(&log).contains(&"s".to_string()), "{what}: {:?}", log.all());
    }
}

#[tokio::test]
async fn what_is_of_the_whole_sandbox_names_it() {
    let every = Capability::ALL.iter().copied();
    let (_client, log, sandbox, db) = made(script_of().having(every)).await;
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("sandbox `s`")), "{error:?}");
        assert!(error.message().contains("`db`"), "{error:?}");
    };
    refused(db.pause().await.unwrap_err());
    refused(db.detach().await.unwrap_err());
    refused(db.service("db").unwrap_err());
    assert!(!db.facts().has(Capability::Pause) && db.facts().has(Capability::Pty));
    assert_eq!(log.count("pause") + log.count("detach"), 0);
    // Where the sandbox cannot either, it is no help to name it.
    let (_client, _log, poor, db) = made(script()).await;
    let error = db.pause().await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| !hint.contains("sandbox `s`")), "{error:?}");
    assert_eq!(poor.pause().await.unwrap_err().message(), error.message());
    sandbox.pause().await.unwrap();
    assert!(db.start(any()).await.is_ok(), "a pause leaves services running");
}

#[tokio::test]
async fn an_unknown_name_says_which_there_are() {
    let (client, _log, sandbox, _db) = made(script()).await;
    let error = sandbox.service("web").unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, Some("service")));
    assert!(error.message().contains("`web`") && error.message().contains("`db`") && !error.may_have_applied());
    let alone = client.create(spec()).await.unwrap();
    assert!(alone.service("db").unwrap_err().message().contains("none"));
    let (client, _log) = Script { destroy: after(ms(0), Ok(())), ..script_of() }.client();
    let none = client.create(spec()).await.unwrap();
    assert_eq!(none.service("db").unwrap_err().kind(), ErrorKind::Unsupported);
}
