//! Every method of the adapter traits is reached through the facade: the scripted adapter has them all, or does not pass the
//! lints.

use crate::common::{
    any, ms,
    scripted::{Script, script_of},
    spec,
};
use bytes::Bytes;
use sandbox::{
    Capability, Definition, ErrorKind, ForkSandbox, NetworkPolicy, Overrides, PtySize, Query, Reattach, Sandbox,
    SetMeta, Signal, Spec, TakeSnapshot, WatchDir,
};
use sandbox_core::{Attempt, Body};

/// What the scripted adapter notes, one line a method, read off its source: it has every method of the traits, or the lint
/// in it speaks up.
fn methods() -> Vec<&'static str> {
    let source = include_str!("../common/scripted/adapter.rs");
    let (_, traits) = source.split_once("impl Backend for Scripted").unwrap();
    let functions =
        traits.lines().map(str::trim_start).filter(|line| line.starts_with("fn ") || line.starts_with("async fn "));
    let noted = traits.split("notes.say(\"").skip(1).map(|rest| rest.split_once('"').unwrap().0);
    let noted: Vec<_> = noted.filter(|line| !["destroyed", "spawned"].contains(line)).collect();
    assert_eq!(functions.count(), noted.len() + 1, "each method but `next` notes that it was called");
    noted
}

/// A tar of one regular file.
fn tree_of_one(name: &str, content: &[u8]) -> Body {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_data(&mut header, name, content).unwrap();
    Bytes::from(tar.into_inner().unwrap()).into()
}

#[tokio::test]
async fn every_method_of_an_adapter_is_reached() {
    let every = Capability::ALL.iter().copied();
    let (client, said) = {
        let script = script_of().having(every.clone());
        let facts = script.facts.clone().absent(Capability::Deadline, "so that TERM and KILL are ours");
        let (client, log) = Script { facts, ..script }.client();
        (client, log)
    };
    assert!(client.build(Definition::new("FROM a")).await.unwrap().starts_with("built:"));
    let sandbox = client.create(spec().ready_port(80)).await.unwrap();
    assert!(client.attach("x").await.is_ok());
    assert!(client.list(Query::new()).await.unwrap().is_empty());
    let mut process = sandbox.start(any().pipe()).await.unwrap();
    process.write("x").await.unwrap();
    process.close_stdin();
    process.signal(Signal::Interrupt).await.unwrap();
    crate::common::until("stdin is closed", || said.count("close stdin") == 1).await;
    process.kill().await.unwrap();
    drop(process);
    let process = sandbox.start(any().pty(PtySize::default())).await.unwrap();
    process.resize(PtySize::new(100, 40)).await.unwrap();
    let again = sandbox.reattach(Reattach::new(process.id().unwrap())).await.unwrap();
    drop((process, again));
    let files = sandbox.files();
    assert_eq!(files.read("/x").await.unwrap(), "content");
    files.write("/x", "y").await.unwrap();
    assert_eq!(files.stat("/x").await.unwrap().size, 7);
    assert_eq!(files.list("/x").await.unwrap().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    files.make_dir("/x").await.unwrap();
    files.remove("/x").await.unwrap();
    files.rename("/x", "/y").await.unwrap();
    files.set_meta(SetMeta::new("/x").mode(Some(0o600))).await.unwrap();
    drop(files.watch(WatchDir::new("/x")).await.unwrap());
    sandbox.pause().await.unwrap();
    sandbox.resume().await.unwrap();
    sandbox.extend(ms(60_000)).await.unwrap();
    sandbox.set_network(NetworkPolicy::Open).await.unwrap();
    sandbox.set_network(NetworkPolicy::Open).await.unwrap();
    assert_eq!(said.count("set network"), 1, "an equal policy is no change");
    let names: Vec<_> = sandbox.destinations().await.unwrap().into_iter().filter_map(|one| one.name).collect();
    assert_eq!(names, ["a.test", "b.test"]);
    let endpoint = sandbox.port(2).await.unwrap();
    assert_eq!((&*endpoint.url, endpoint.headers[0].1.expose().as_str()), ("https://x.test", "hunter2"));
    assert!(!format!("{endpoint:?}").contains("hunter2"), "{endpoint:?}");
    let snapshot = sandbox.snapshot(TakeSnapshot::new().label("a", "b")).await.unwrap();
    assert_eq!(client.snapshots(Query::new()).await.unwrap()[0].id, snapshot);
    client.delete_snapshot(&snapshot).await.unwrap();
    let copy = sandbox.fork(ForkSandbox::new()).await.unwrap();
    assert_eq!(copy.id().as_str(), "s-copy");
    copy.close().await.unwrap();
    sandbox.stop().await.unwrap();
    sandbox.restart().await.unwrap();
    sandbox.detach().await.unwrap();
    sandbox.close().await.unwrap();
    let mut seen: Vec<String> = said.all();
    drop((sandbox, files, client));
    // Trees of one, where single files are not native.
    let script = Script {
        get_tree: crate::common::scripted::hook(|_| async { Ok(tree_of_one("x", b"one")) }),
        made: Box::new(|made| made.ids(0, 0)),
        ..script_of()
    };
    let facts = script.facts.clone().native([Capability::Tree]).emulated(Capability::Files, "by trees of one");
    let (client, log) = Script { facts, ..script }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(sandbox.files().read("/x").await.unwrap(), "one");
    sandbox.files().write("/x", "two").await.unwrap();
    seen.extend(log.all());
    for method in methods() {
        assert!(seen.iter().any(|line| line == method), "`{method}` was never reached: {seen:?}");
    }
}

#[tokio::test]
async fn handles_are_cheap_and_tell_what_they_are() {
    let (client, _log) = script_of().client();
    let sandbox = client.create(Spec::new()).await.unwrap();
    let shown = format!("{client:?} {sandbox:?} {:?}", sandbox.with(Overrides::new().env("K", "hunter2")));
    assert!(shown.contains("scripted") && shown.contains("\"s\"") && !shown.contains("hunter2"), "{shown}");
    fn sendable<T: Send + Sync + Clone + 'static>() {}
    sendable::<sandbox::Client>();
    sendable::<Sandbox>();
    sendable::<sandbox::Files>();
    sendable::<Attempt>();
    fn sends(_: impl Send) {}
    let files = sandbox.files();
    sends(client.create(Spec::new()));
    sends(client.build(Definition::new("FROM a")));
    sends(sandbox.run(any()));
    sends(sandbox.close());
    sends(files.upload_dir("/x", "/y"));
    sends(files.download("/x", "/y"));
    assert_eq!(sandbox.run(any().timeout(ms(10))).await.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
}
