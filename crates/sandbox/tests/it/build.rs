//! Images from definitions: built once for all who ask at a time, for as long as somebody waits, and remembered.

use crate::common::{
    ms,
    scripted::{Log, Script, error, hook, never, script_of},
    spec, until,
};
use sandbox::{Capability, Client, Definition, Error, ErrorKind, Limits, Result, Spec};
use sandbox_core::{Attempt, Body, BuildImage};
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::JoinSet;

fn text() -> Definition {
    Definition::new("FROM a\nRUN b\n")
}

/// Builds, after a while, what the test's own count says.
fn builder(time: Duration, answer: impl Fn(usize) -> Result<String> + Send + Sync + 'static) -> Script {
    let count = AtomicUsize::new(0);
    let answer = Arc::new(answer);
    let build = hook(move |_: (BuildImage, Body)| {
        let (n, answer) = (count.fetch_add(1, SeqCst), Arc::clone(&answer));
        async move {
            tokio::time::sleep(time).await;
            answer(n)
        }
    });
    Script { build, ..script_of().having([Capability::Build]) }
}

async fn ten(client: &Client, definition: &Definition) -> Vec<Result<sandbox::Sandbox>> {
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (client, spec) = (client.clone(), spec().build(definition.clone()));
        tasks.spawn(async move { client.create(spec).await });
    }
    tasks.join_all().await
}

/// The images that creates were asked for.
fn seen(script: Script) -> (Script, Arc<Mutex<Vec<Spec>>>) {
    let specs = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&specs);
    let create = hook(move |(spec, _): (Spec, Attempt)| {
        kept.lock().unwrap().push(spec);
        async { Ok(()) }
    });
    (Script { create, ..script }, specs)
}

#[tokio::test]
async fn the_adapter_creates_from_an_image_and_never_sees_a_definition() {
    let (script, specs) = seen(builder(ms(0), |_| Ok("an-image".into())));
    let (client, log) = script.client();
    drop(client.create(spec().build(text())).await.unwrap());
    let specs = specs.lock().unwrap().clone();
    assert_eq!((specs[0].image.as_deref(), &specs[0].build), (Some("an-image"), &None));
    assert_eq!((log.count("build"), log.count("create")), (1, 1));
}

#[tokio::test]
async fn ten_at_once_share_one_build() {
    let (client, log) = builder(ms(300), |n| Ok(format!("image-{n}"))).client();
    assert!(ten(&client, &text()).await.iter().all(Result::is_ok));
    assert_eq!((log.count("build"), log.count("create")), (1, 10));
    drop(client.create(spec().build(text())).await.unwrap());
    assert_eq!(client.build(text()).await.unwrap(), "image-0");
    assert_eq!(log.count("build"), 1, "it is remembered");
    assert_eq!(client.build(Definition::new("FROM other")).await.unwrap(), "image-1");
    assert_eq!(client.build(text().rebuild()).await.unwrap(), "image-2");
    assert_eq!(client.build(text()).await.unwrap(), "image-2", "the last one is the known one");
}

#[tokio::test]
async fn ten_at_once_share_one_failure_and_the_next_tries_again() {
    let answer = |n| if n == 0 { Err(error(ErrorKind::Unavailable)) } else { Ok("image".into()) };
    let (client, log) = builder(ms(500), answer).client();
    let all = ten(&client, &text()).await;
    let kinds: Vec<_> = all.into_iter().filter_map(|made| made.err().map(|e| (e.kind(), e.operation()))).collect();
    assert_eq!(kinds, [(ErrorKind::Unavailable, Some("create")); 10]);
    assert_eq!((log.count("build"), log.count("create")), (1, 0));
    client.build(text()).await.unwrap();
    assert_eq!(log.count("build"), 2);
}

#[tokio::test]
async fn each_rebuild_is_one_of_its_own() {
    let (client, log) = builder(ms(100), |n| Ok(format!("image-{n}"))).client();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let client = client.clone();
        tasks.spawn(async move { client.build(text().rebuild()).await.unwrap() });
    }
    let mut names = tasks.join_all().await;
    names.sort();
    assert_eq!((names, log.count("build")), (["image-0", "image-1", "image-2"].map(String::from).into(), 3));
}

#[tokio::test]
async fn whoever_leaves_ends_his_build_and_the_next_goes_on() {
    let (client, log) = builder(ms(2000), |n| Ok(format!("image-{n}"))).client();
    let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
    let start = |tasks: &mut JoinSet<Result<String>>| {
        let client = client.clone();
        tasks.spawn(async move { client.build(text()).await });
    };
    start(&mut first);
    until("it is being built", || log.count("build") == 1).await;
    start(&mut second);
    tokio::time::sleep(ms(300)).await;
    assert_eq!(log.count("build"), 1);
    first.shutdown().await;
    assert_eq!(second.join_next().await.unwrap().unwrap().unwrap(), "image-1");
    assert_eq!(log.count("build"), 2);
}

#[tokio::test]
async fn a_build_has_the_prepare_timeout_and_the_create_its_own() {
    let (client, log) = builder(ms(600), |_| Ok("image".into())).client();
    client.create(spec().create_timeout(ms(300)).build(text())).await.unwrap().close().await.unwrap();
    let other = Definition::new("FROM b");
    let late = client.create(spec().prepare_timeout(ms(200)).build(other.clone())).await.unwrap_err();
    assert_eq!((late.kind(), late.may_have_applied(), log.count("create")), (ErrorKind::CreateTimeout, false, 1));
    assert!(late.hint().unwrap().contains("prepare_timeout"), "{late:?}");
    let (backend, _log) = Script { build: never(), ..builder(ms(0), |_| Ok(String::new())) }.backend();
    let client = Client::builder(backend).defaults(Spec::new().prepare_timeout(ms(200))).build().unwrap();
    let late = client.build(other).await.unwrap_err();
    assert_eq!((late.kind(), late.operation()), (ErrorKind::OperationTimeout, Some("build")));
    assert!(late.hint().unwrap().contains("prepare_timeout"), "{late:?}");
}

#[tokio::test]
async fn a_remembered_image_that_is_gone_is_built_anew_once() {
    let there = Arc::new(Mutex::new("image-0".to_string()));
    let now = Arc::clone(&there);
    let create = hook(move |(spec, _): (Spec, Attempt)| {
        let there = spec.image == Some(now.lock().unwrap().clone());
        async move { if there { Ok(()) } else { Err(error(ErrorKind::ImageNotFound)) } }
    });
    let (client, log) = Script { create, ..builder(ms(0), |n| Ok(format!("image-{n}"))) }.client();
    client.create(spec().build(text())).await.unwrap().close().await.unwrap();
    *there.lock().unwrap() = "image-1".into();
    client.create(spec().build(text())).await.unwrap().close().await.unwrap();
    assert_eq!((log.count("build"), log.count("create")), (2, 3));
    // One that is gone right after it was built is no reason to build for ever.
    *there.lock().unwrap() = "nothing".into();
    let error = client.create(spec().build(text())).await.unwrap_err();
    assert_eq!((error.kind(), log.count("build"), log.count("create")), (ErrorKind::ImageNotFound, 3, 5));
    let error = client.create(spec().build(text().rebuild())).await.unwrap_err();
    assert_eq!((error.kind(), log.count("build"), log.count("create")), (ErrorKind::ImageNotFound, 4, 6));
}

#[tokio::test]
async fn an_adapter_that_panics_or_answers_no_name_is_told_and_the_next_build_works() {
    let answer = |n| match n {
        0 => panic!("adapter bug"),
        1 => Ok(String::new()),
        2 => Ok("a b".into()),
        _ => Ok("image".into()),
    };
    let (client, log) = builder(ms(0), answer).client();
    for _ in 0..3 {
        assert_eq!(client.build(text()).await.unwrap_err().kind(), ErrorKind::Internal);
    }
    assert_eq!((client.build(text()).await.unwrap().as_str(), log.count("build")), ("image", 4));
}

#[tokio::test]
async fn what_is_sent_is_what_was_hashed_also_when_it_changes_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(root.path().join("big"), &bytes).unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let (kept, path) = (Arc::clone(&got), root.path().join("big"));
    let build = hook(move |(request, mut context): (BuildImage, Body)| {
        let (kept, path) = (Arc::clone(&kept), path.clone());
        async move {
            fs::write(path, "other").unwrap();
            let mut all = Vec::new();
            while let Some(piece) = context.next().await? {
                all.extend_from_slice(&piece);
            }
            assert_eq!(context.len, Some(all.len() as u64));
            kept.lock().unwrap().push((request.digest, all));
            Ok("image".into())
        }
    });
    let (client, _log) = Script { build, ..script_of().having([Capability::Build]) }.client();
    let definition = || text().context(root.path());
    client.build(definition()).await.unwrap();
    client.build(definition()).await.unwrap();
    let got = got.lock().unwrap().clone();
    let mut archive = tar::Archive::new(&got[0].1[..]);
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut archive.entries().unwrap().next().unwrap().unwrap(), &mut content).unwrap();
    assert!(content == bytes, "{} bytes", content.len());
    assert_ne!(got[0].0, got[1].0, "another content is another definition");
}

#[tokio::test]
async fn what_cannot_be_built_asks_nobody() {
    let (client, log) = builder(ms(0), |_| Ok("image".into())).client();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(".dockerignore"), "[a").unwrap();
    for (spec, kind) in [
        (Spec::new().image("a").build(text()), ErrorKind::InvalidArgument),
        (Spec::new().build(Definition::new("")), ErrorKind::InvalidArgument),
        (Spec::new().build(Definition::new("RUN x")), ErrorKind::InvalidArgument),
        (Spec::new().build(text().arg("A=B", "c")), ErrorKind::InvalidArgument),
        (Spec::new().build(text().context(root.path().join("no"))), ErrorKind::PathNotFound),
        (Spec::new().build(text().context(root.path())), ErrorKind::InvalidArgument),
    ] {
        let shown = format!("{spec:?}");
        let told: Error = client.create(spec.clone()).await.expect_err(&shown);
        assert_eq!((told.kind(), told.may_have_applied()), (kind, false), "{shown}: {told:?}");
        if spec.image.is_none() {
            let told = client.build(*spec.build.unwrap()).await.expect_err(&shown);
            assert_eq!((told.kind(), told.operation()), (kind, Some("build")), "{shown}: {told:?}");
        }
    }
    assert_eq!((log.count("build"), log.count("create")), (0, 0));
    let (client, log) = script_of().client();
    for told in [client.build(text()).await.err(), client.create(spec().build(text())).await.err()] {
        assert_eq!(told.map(|e| (e.kind(), e.hint().is_some())), Some((ErrorKind::Unsupported, true)));
    }
    assert_eq!(log.count("build"), 0);
}

#[tokio::test]
async fn a_client_that_is_closed_builds_nothing() {
    let (client, log): (Client, Log) = builder(ms(0), |_| Ok("image".into())).limited(Limits::new());
    client.close().await.unwrap();
    assert_eq!(client.build(text()).await.unwrap_err().kind(), ErrorKind::WrongState);
    assert_eq!(log.count("build"), 0);
}
