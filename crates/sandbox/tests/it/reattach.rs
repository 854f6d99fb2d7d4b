//! Commands that are left to themselves, and reached again: nothing of that ends them but what is meant to.

use crate::common::{
    any, ms,
    scripted::{Script, Step, code, out, script, script_of},
    spec, until,
};
use sandbox::{Capability, Client, ErrorKind, Fate, ProcessEvent, Reattach, Replay, Sandbox, Status};

/// A backend that can reach commands again, and knows no deadline inside.
fn reaching() -> Script {
    let script = script_of();
    let facts = script.facts.clone().native([Capability::Reattach, Capability::Attach]).replay(Replay::FromNow);
    Script { facts, ..script }
}

async fn made(script: Script) -> (Client, Sandbox, crate::common::scripted::Log) {
    let (client, log) = script.client();
    let sandbox = client.create(spec()).await.unwrap();
    (client, sandbox, log)
}

#[tokio::test]
async fn a_watcher_that_is_dropped_ends_nothing_and_closes_nothing() {
    let (_client, sandbox, log) = made(reaching()).await;
    let watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    assert_eq!(watcher.id().unwrap().as_str(), "c");
    watcher.write("x").await.unwrap();
    until("the write is there", || log.count("write") == 1).await;
    drop(watcher);
    until("its events are let go", || log.count("drop events") == 1).await;
    tokio::time::sleep(ms(200)).await;
    assert_eq!(log.count("kill") + log.count("close stdin") + log.count("destroy"), 0, "{:?}", log.all());
    // The control: what is asked for in so many words is done.
    let mut watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    watcher.close_stdin();
    until("stdin is closed", || log.count("close stdin") == 1).await;
    assert_eq!(watcher.kill().await.unwrap(), Fate::Dead);
    assert_eq!(log.count("kill"), 1);
}

#[tokio::test]
async fn waiting_for_what_is_only_watched_closes_nothing() {
    let next = script(vec![
        out("x"),
        Step::After(ms(300), sandbox_core::Event::Ended(sandbox_core::Ended::program(Status::Code(3)))),
    ]);
    let (_client, sandbox, log) = made(Script { next, ..reaching() }).await;
    let mut watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    assert_eq!(watcher.wait().await.unwrap(), Status::Code(3));
    assert_eq!(log.count("close stdin"), 0);
    // The control: one's own command.
    let mut own = sandbox.start(any().pipe()).await.unwrap();
    assert_eq!(own.wait().await.unwrap(), Status::Code(3));
    assert_eq!(log.count("close stdin"), 1);
}

#[tokio::test]
async fn a_detached_command_is_left_with_its_input_open_and_ends_at_its_deadline() {
    let (_client, sandbox, log) = made(reaching()).await;
    let process = sandbox.start(any().pipe().timeout(ms(1500))).await.unwrap();
    assert_eq!(process.detach().await.unwrap().as_str(), "c");
    tokio::time::sleep(ms(300)).await;
    assert_eq!(log.count("kill") + log.count("close stdin"), 0, "{:?}", log.all());
    until("the deadline, kept from outside", || log.count("kill") == 1).await;
    assert_eq!(log.count("destroy"), 0);
    // The control: one that is not detached dies with its handle.
    drop(sandbox.start(any()).await.unwrap());
    until("a drop", || log.count("kill") == 2).await;
}

#[tokio::test]
async fn where_the_deadline_is_kept_inside_a_detached_command_is_let_go() {
    let (_client, sandbox, log) = made(reaching().having([Capability::Deadline])).await;
    sandbox.start(any().timeout(ms(300))).await.unwrap().detach().await.unwrap();
    until("its events are let go", || log.count("drop events") == 1).await;
    // Past the deadline, with what the one from outside trails by.
    tokio::time::sleep(ms(1600)).await;
    assert_eq!(log.count("kill"), 0);
}

#[tokio::test]
async fn a_watcher_that_loses_its_connection_leaves_the_command() {
    let next = script(vec![out("x"), Step::Fail(ErrorKind::ConnectionLost)]);
    let (_client, sandbox, log) = made(Script { next, ..reaching() }).await;
    let mut watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    assert_eq!(watcher.next().await.unwrap(), Some(ProcessEvent::Stdout("x".into())));
    let error = watcher.next().await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Some(Fate::Unknown)));
    assert_eq!(log.count("kill") + log.count("destroy"), 0);
    // The control: one's own command may not run on unseen.
    let mut own = sandbox.start(any()).await.unwrap();
    assert_eq!(own.wait().await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    assert_eq!(log.count("kill"), 1);
}

#[tokio::test]
async fn the_end_of_a_sandbox_is_the_end_of_a_detached_command_and_of_its_watchers() {
    let (_client, sandbox, log) = made(reaching()).await;
    sandbox.start(any()).await.unwrap().detach().await.unwrap();
    let mut watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    sandbox.close().await.unwrap();
    assert_eq!(watcher.wait().await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(log.count("destroyed"), 1);
}

#[tokio::test]
async fn a_client_that_closes_leaves_what_was_detached_in_a_sandbox_that_was_too() {
    let (client, sandbox, log) = made(reaching()).await;
    sandbox.start(any()).await.unwrap().detach().await.unwrap();
    sandbox.detach().await.unwrap();
    let mut watcher = sandbox.reattach(Reattach::new("c")).await.unwrap();
    client.close().await.unwrap();
    let error = watcher.wait().await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Gone, Some(Fate::Unknown)));
    drop((watcher, sandbox, client));
    assert_eq!(log.count("kill") + log.count("destroy"), 0, "{:?}", log.all());
}

#[tokio::test]
async fn what_ended_is_told_as_it_ended() {
    let (_client, sandbox, _log) = made(Script { next: script(vec![code(7)]), ..reaching() }).await;
    let mut ended = sandbox.reattach(Reattach::new("c")).await.unwrap();
    assert_eq!(ended.output().await.unwrap().status, Status::Code(7));
}
