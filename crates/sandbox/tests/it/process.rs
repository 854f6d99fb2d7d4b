//! A running command and who holds it: to let go is to kill, wherever and whenever that happens.

use crate::common::{
    Host, LONG, any, ms, own_sleep, runtime,
    scripted::{Script, after, error, hook, script_of},
    sleepers, spawn, spec, until,
};
use sandbox::{Capability, Command, ErrorKind, Fate, Signal, Status};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

#[test]
fn dropping_a_process_needs_no_runtime() {
    let runtime = runtime();
    #[expect(clippy::disallowed_methods, reason = "an adapter may do it in its drop: that works on a worker alone")]
    let dropped = Box::new(|what| {
        if what == "events" {
            tokio::spawn(async {});
        }
    });
    let (client, log) = Script { dropped, ..script_of() }.client();
    let sandbox = runtime.block_on(client.create(spec())).unwrap();
    let process = runtime.block_on(sandbox.start(any())).unwrap();
    drop(runtime);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(process))).is_ok());
    drop((sandbox, client));
    assert_eq!((log.count("kill"), log.count("drop events")), (1, 1));
}

#[tokio::test]
async fn a_process_outlives_the_handles_of_its_sandbox_and_is_killed() {
    let (client, log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    let process = sandbox.start(any()).await.unwrap();
    drop(sandbox);
    drop(client);
    assert_eq!(log.count("kill") + log.count("destroy"), 0, "the process holds them");
    drop(process);
    assert_eq!((log.count("kill"), log.count("destroyed")), (1, 1));
}

#[tokio::test]
async fn a_process_alone_can_still_be_read() {
    let (client, _log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any().timeout(ms(400))).await.unwrap();
    drop(sandbox);
    drop(client);
    let read = spawn(async move { process.next().await.map(drop).map_err(|e| e.kind()) });
    let read = tokio::time::timeout(LONG, read).await.unwrap().unwrap();
    assert_eq!(read, Err(ErrorKind::ExecutionTimeout));
}

#[tokio::test]
async fn a_command_that_started_after_its_caller_left_is_killed() {
    let (client, log) = Script { spawn: after(ms(300), Ok(())), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(tokio::time::timeout(ms(50), sandbox.run(any())).await.is_err());
    drop(sandbox);
    drop(client);
    assert_eq!((log.count("spawned"), log.count("kill"), log.count("destroyed")), (1, 1, 1), "{:?}", log.all());
}

#[test]
fn a_start_dropped_at_any_time_is_killed() {
    let (client, log) = Script { spawn: after(ms(1), Ok(())), ..script_of() }.client();
    runtime().block_on(async {
        let sandbox = client.create(spec()).await.unwrap();
        for n in 0..500u64 {
            let _ = tokio::time::timeout(Duration::from_micros(n * 7), sandbox.start(any())).await;
        }
        until("all that was spawned is killed", || log.count("spawned") == log.count("kill")).await;
        tokio::time::sleep(ms(300)).await;
        assert_eq!((log.count("spawned") - log.count("kill"), log.count("destroy")), (0, 0));
        assert!(log.count("spawned") > 0);
    });
}

#[tokio::test]
async fn timeouts_and_drops_leave_no_process() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let (one, two) = (own_sleep(81, "timeouts"), own_sleep(82, "timeouts"));
    let run = sandbox.run(Command::shell(format!("sleep {one} & sleep {one} & wait")).timeout(ms(1500)));
    let (run, ()) = tokio::join!(run, until("both run", || sleepers(&one) == 2));
    let error = run.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Dead)));
    assert_eq!(sleepers(&one), 0, "their death was seen");
    let hangs = spawn({
        let (sandbox, two) = (sandbox.clone(), two.clone());
        async move { sandbox.run(Command::shell(format!("sleep {two} & sleep {two} & wait"))).await }
    });
    until("both run", || sleepers(&two) == 2).await;
    hangs.abort();
    until("both are dead", || sleepers(&two) == 0).await;
    assert!(sandbox.run(Command::new("true")).await.is_ok());
}

#[tokio::test]
async fn close_leaves_no_command_running() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let duration = own_sleep(86, "close");
    let _process = sandbox.start(Command::shell(format!("exec sleep {duration}"))).await.unwrap();
    until("it runs", || sleepers(&duration) == 1).await;
    sandbox.close().await.unwrap();
    assert_eq!(sleepers(&duration), 0);
}

#[tokio::test]
async fn close_ends_what_outlived_its_command() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let duration = own_sleep(87, "background");
    assert!(sandbox.run(Command::shell(format!("sleep {duration} & exit 0"))).await.unwrap().success());
    assert_eq!(sleepers(&duration), 1, "it may outlive its command");
    sandbox.close().await.unwrap();
    assert_eq!(sleepers(&duration), 0);
}

#[tokio::test]
async fn signals_and_kills_reach_the_program() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let mut process = sandbox.start(Command::new("sleep").arg("60")).await.unwrap();
    process.signal(Signal::Interrupt).await.unwrap();
    assert_eq!(process.wait().await.unwrap(), Status::Signal(2));
    let error = process.signal(Signal::Terminate).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::WrongState, Some("signal")));
    assert_eq!(process.kill().await.unwrap(), Fate::Dead, "what has ended is dead");
    let mut process = sandbox.start(Command::new("sleep").arg("60")).await.unwrap();
    assert_eq!(process.kill().await.unwrap(), Fate::Dead);
    assert_eq!(process.wait().await.unwrap(), Status::Signal(9));
    assert_eq!(process.wait().await.unwrap(), Status::Signal(9), "a wait answers the same again");
}

#[tokio::test]
async fn signals_and_kills_are_refused_where_they_are_absent() {
    let (client, log) = script_of().without_kill().client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    for signal in [Signal::Interrupt, Signal::Terminate] {
        assert_eq!(process.signal(signal).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(process.kill().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!((log.count("signal"), log.count("kill")), (0, 0));
    let (client, log) = script_of().having([Capability::Signals, Capability::Term]).client();
    let process = client.create(spec()).await.unwrap().start(any()).await.unwrap();
    for signal in [Signal::Interrupt, Signal::Terminate] {
        process.signal(signal).await.unwrap();
    }
    assert_eq!(log.count("signal"), 2);
}

#[tokio::test]
async fn an_operation_of_the_adapters_that_hangs_is_bounded() {
    let script = Script { signal: crate::common::scripted::never(), ..script_of() }.having([Capability::Signals]);
    let (client, _log) = script.limited(crate::common::limits().operation(ms(300)));
    let sandbox = client.create(spec()).await.unwrap();
    let process = sandbox.start(any()).await.unwrap();
    assert_eq!(process.signal(Signal::Kill).await.unwrap_err().kind(), ErrorKind::OperationTimeout);
    // With the sandbox it ends at once.
    let script = Script { signal: crate::common::scripted::never(), ..script_of() }.having([Capability::Signals]);
    let (client, _log) = script.client();
    let sandbox = client.create(spec()).await.unwrap();
    let process = sandbox.start(any()).await.unwrap();
    let begun = Instant::now();
    let (signal, closed) = tokio::join!(process.signal(Signal::Kill), sandbox.close());
    closed.unwrap();
    assert_eq!(signal.unwrap_err().kind(), ErrorKind::Gone);
    assert!(begun.elapsed() < LONG);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawn_that_plainly_failed_costs_no_sandbox_however_late() {
    let spawns = hook(|_| async {
        tokio::time::sleep(ms(3)).await;
        Err(error(ErrorKind::ProgramNotFound))
    });
    let (client, log) = Script { spawn: spawns, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    for round in 0..1500 {
        assert!(sandbox.run(any().timeout(ms(1))).await.is_err());
        assert_eq!(log.count("destroy"), 0, "run {round}");
    }
}
