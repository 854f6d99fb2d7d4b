//! A sandbox is handed over once its ready command succeeds.

use crate::common::{
    Host, LONG, folder, ms, open_spec,
    scripted::{Script, Step, code, error, hook, out, script, script_of},
    spec, until,
};
use sandbox::{Capability, ErrorKind, Spec};
use sandbox_core::{Ended, Event, Status};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Instant,
};

#[tokio::test]
async fn it_is_repeated_until_it_succeeds() {
    let tries = AtomicUsize::new(0);
    let next = hook(move |n| {
        let code = i32::from(n == 0 && tries.fetch_add(1, SeqCst) < 3);
        async move { Ok((n == 0).then_some(Event::Ended(Ended::program(Status::Code(code))))) }
    });
    let (client, log) = Script { next, ..script_of() }.client();
    let sandbox = client.create(Spec::new().create_timeout(LONG).ready(["x"])).await.unwrap();
    assert_eq!((log.count("spawn"), log.count("destroy")), (4, 0));
    drop(sandbox);
    let host = Host::new();
    let text = "[ -e up ] && exit 0; touch up; exit 7";
    let sandbox = host.client.create(open_spec().ready(["/bin/sh", "-c", text])).await.unwrap();
    assert!(sandbox.run(sandbox::Command::new("test").args(["-e", "up"])).await.unwrap().success());
}

#[tokio::test]
async fn what_is_not_ready_in_time_is_ended_and_says_what_the_command_wrote() {
    let (client, log) = Script { next: script(vec![out("no server yet"), code(7)]), ..script_of() }.client();
    let begun = Instant::now();
    let error = client.create(Spec::new().create_timeout(ms(700)).ready(["x"])).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::CreateTimeout, Some("create")));
    assert!(error.message().contains("no server yet") && error.message().contains("exit code 7"), "{error}");
    assert!(begun.elapsed() < LONG);
    until("it is ended", || log.count("destroyed") == 1).await;
    // One that hangs is cut.
    let (client, log) = Script { next: script(vec![Step::Hang]), ..script_of() }.client();
    let error = client.create(Spec::new().create_timeout(ms(700)).ready(["x"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CreateTimeout);
    until("it is ended", || log.count("destroyed") == 1).await;
    assert_eq!(log.count("kill"), log.count("spawned"));
}

#[tokio::test]
async fn a_port_is_looked_at_until_somebody_listens() {
    let (client, log) = script_of().having([Capability::Ports]).client();
    let sandbox = client.create(Spec::new().create_timeout(LONG).ready_port(80)).await.unwrap();
    assert_eq!((log.count("look at 80"), log.count("spawn"), log.count("destroy")), (3, 0, 0));
    drop(sandbox);
    let error = client.create(Spec::new().create_timeout(ms(1)).ready_port(81)).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::CreateTimeout, Some("create")));
    assert!(error.message().contains("nobody listens at port 81"), "{error}");
}

/// Where ports are not the backend's own, what Linux shows inside is looked at.
#[tokio::test]
async fn a_port_is_found_in_the_table_of_sockets() {
    let host = Host::of(folder::Folder::files_by_commands);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sandbox = host.client.create(open_spec().ready_port(port)).await.unwrap();
    sandbox.close().await.unwrap();
    drop(listener);
    let error = host.client.create(open_spec().create_timeout(ms(1500)).ready_port(port)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CreateTimeout, "{error}");
    assert!(error.message().contains("nobody listens"), "{error}");
}

#[tokio::test]
async fn one_that_cannot_succeed_is_said_at_once() {
    let host = Host::new();
    let begun = Instant::now();
    let error = host.client.create(open_spec().ready(["no-such-program"])).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::CreateFailed, Some("create")));
    assert!(begun.elapsed() < LONG);
    host.client.close().await.unwrap();
    assert_eq!(std::fs::read_dir(&host.dir).unwrap().count(), 0);
}

#[tokio::test]
async fn a_caller_who_leaves_meanwhile_does_not_lose_the_sandbox() {
    let (client, log) = Script { next: script(vec![Step::Hang]), ..script_of() }.client();
    assert!(tokio::time::timeout(ms(300), client.create(spec().create_timeout(LONG).ready(["x"]))).await.is_err());
    until("it is ended", || log.count("destroyed") == 1).await;
}

#[tokio::test]
async fn a_ready_program_that_is_missing_fails_the_create() {
    let spawn = hook(|_| async { Err(error(ErrorKind::ProgramNotFound)) });
    let (client, log) = Script { spawn, ..script_of() }.client();
    let error = client.create(spec().ready(["x"])).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::CreateFailed, Some("create")), "{error}");
    assert!(error.hint().is_some() && std::error::Error::source(&error).is_some());
    assert_eq!(log.count("destroyed"), 1);
}
