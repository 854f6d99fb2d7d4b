//! The end of a sandbox: once, whoever asks for it, and reported where it failed.

use crate::common::{
    Host, LONG, any, limits, ms, open_spec, poll_once, runtime,
    scripted::{Script, Step, after, error, hook, never, out, panics, script, script_of},
    spawn, spec, until, until_blocking,
};
use sandbox::{Client, ErrorKind, Fate, Sandbox, SandboxId, Spec};
use sandbox_core::{Attempt, Boxed, Clock, Ended, Event, Status};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

#[tokio::test]
async fn a_close_that_nobody_waits_for_still_reports_its_failure() {
    let (client, _log) = Script { destroy: after(ms(300), Err(error(ErrorKind::Internal))), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(tokio::time::timeout(ms(50), sandbox.close()).await.is_err());
    until("it is reported", || !client.orphans().is_empty()).await;
    let orphan = client.orphans().remove(0);
    assert_eq!((orphan.backend.as_str(), orphan.id.as_ref()), ("scripted", Some(sandbox.id())));
    assert_eq!(orphan.error.unwrap().kind(), ErrorKind::Internal);
}

#[tokio::test]
async fn a_refused_destroy_is_an_error_that_says_what_to_do() {
    let (client, _log) = Script { destroy: after(ms(0), Err(error(ErrorKind::RateLimited))), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.close().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation(), error.sandbox()),
        (ErrorKind::TeardownFailed, Some("close"), Some(sandbox.id()))
    );
    assert!(error.hint().unwrap().contains("sweep"));
    assert_eq!(sandbox.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed, "every caller hears it");
    assert_eq!(client.orphans().len(), 1);
}

#[tokio::test]
async fn a_panicking_destroy_is_reported_and_holds_nobody_up() {
    let (client, _log) = Script { destroy: panics(), ..script_of() }.client();
    drop(client.create(spec()).await.unwrap());
    until("it is reported", || !client.orphans().is_empty()).await;
    let begun = Instant::now();
    drop(client);
    assert!(begun.elapsed() < ms(3000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn close_ends_readers_at_once() {
    let (client, _log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any().timeout(LONG)).await.unwrap();
    sandbox.close().await.unwrap();
    let told = tokio::time::timeout(ms(5000), process.next()).await.unwrap();
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn close_tells_running_commands_first_and_destroys_once() {
    let (client, log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    let (one, two) = tokio::join!(sandbox.close(), sandbox.close());
    one.and(two).unwrap();
    let error = process.next().await.unwrap_err();
    assert_eq!((error.kind(), error.fate(), error.may_have_applied()), (ErrorKind::Gone, Some(Fate::Dead), true));
    assert!(process.next().await.unwrap().is_none());
    assert_eq!(process.wait().await.unwrap_err().kind(), ErrorKind::Gone, "a wait answers the same again");
    drop((process, sandbox, client));
    assert_eq!((log.count("destroy"), log.count("kill")), (1, 0));
}

#[tokio::test]
async fn an_escalated_kill_is_the_sandboxs_one_end() {
    let (client, log) = Script { kill: after(ms(0), Ok(Fate::Unknown)), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.run(any().timeout(ms(100))).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.fate(), log.count("destroyed")),
        (ErrorKind::ExecutionTimeout, Some(Fate::Dead), 1)
    );
    let refused = sandbox.start(any()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.may_have_applied()), (ErrorKind::Gone, false));
    sandbox.close().await.unwrap();
    assert_eq!(log.count("destroy"), 1, "{:?}", log.all());
}

#[tokio::test]
async fn a_start_in_flight_does_not_outlive_a_close() {
    let (client, log) = Script { spawn: after(ms(300), Ok(())), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let starting = spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.start(any().timeout(LONG)).await }
    });
    until("it has begun", || log.count("spawn") == 1).await;
    sandbox.close().await.unwrap();
    let started = tokio::time::timeout(LONG, starting).await.unwrap().unwrap();
    assert!(started.is_err(), "a command runs in a closed sandbox: {:?}", log.all());
}

#[test]
fn the_last_handle_may_go_on_an_engines_thread() {
    let slot: Arc<Mutex<Option<(Sandbox, Client)>>> = Arc::default();
    let held = Arc::clone(&slot);
    let kill = hook(move |()| {
        let held = Arc::clone(&held);
        async move {
            drop(held.lock().unwrap().take());
            Ok(Fate::Dead)
        }
    });
    let (client, log) = Script { kill, destroy: after(ms(50), Ok(())), ..script_of() }.client();
    let runtime = runtime();
    let sandbox = runtime.block_on(client.create(spec())).unwrap();
    let process = runtime.block_on(sandbox.start(any().timeout(LONG))).unwrap();
    *slot.lock().unwrap() = Some((sandbox, client));
    drop(process);
    until_blocking("it is ended", || log.count("destroyed") == 1);
    until_blocking("the backend goes", || log.count("drop backend") == 1);
    assert_eq!(log.count("destroy"), 1);
}

#[test]
fn the_last_handle_may_live_in_a_thread_local() {
    thread_local! { static HELD: std::cell::RefCell<Option<Sandbox>> = const { std::cell::RefCell::new(None) } }
    let (client, log) = script_of().client();
    let thread = std::thread::spawn(move || {
        let sandbox = runtime().block_on(client.create(spec())).unwrap();
        drop(client);
        HELD.with(|held| *held.borrow_mut() = Some(sandbox));
    });
    thread.join().unwrap();
    assert_eq!(log.count("destroyed"), 1);
}

#[test]
fn the_last_handle_may_go_anywhere() {
    for place in ["a task", "a blocking task", "an aborted task", "a runtime that ends"] {
        let (client, log) = Script { destroy: after(ms(20), Ok(())), ..script_of() }.client();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        drop(client);
        let hold = async move {
            let _sandbox = sandbox;
            std::future::pending::<()>().await
        };
        match place {
            "a task" => runtime.block_on(async { spawn(async move { drop(hold) }).await.unwrap() }),
            "a blocking task" => {
                runtime.block_on(async { tokio::task::spawn_blocking(move || drop(hold)).await.unwrap() });
            }
            "an aborted task" => {
                let task = runtime.spawn(hold);
                std::thread::sleep(ms(20));
                task.abort();
                until_blocking("it is ended", || log.count("destroyed") == 1);
            }
            _ => {
                runtime.spawn(hold);
                std::thread::sleep(ms(20));
                drop(runtime);
            }
        }
        assert_eq!(log.count("destroyed"), 1, "{place}");
    }
}

#[test]
fn the_last_handle_outside_a_runtime_cleans_up() {
    let runtime = runtime();
    let Host { client, dir } = Host::new();
    let sandbox = runtime.block_on(client.create(open_spec())).unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    drop((runtime, client));
    drop(sandbox);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_clock_that_never_resolves_does_not_hold_up_a_close() {
    struct Never;
    impl Clock for Never {
        fn sleep(&self, _: Duration) -> Boxed<'static, ()> {
            Box::pin(std::future::pending())
        }
    }
    let script = Script { destroy: never(), clock: Box::new(|()| Some(Arc::new(Never))), ..script_of() };
    let (client, _log) = script.limited(limits().teardown(ms(800)));
    let closed = runtime().block_on(async {
        let sandbox = client.create(spec()).await.unwrap();
        tokio::time::timeout(LONG, sandbox.close()).await
    });
    assert_eq!(closed.unwrap().unwrap_err().kind(), ErrorKind::TeardownTimeout);
}

#[test]
fn one_engine_that_waits_for_another_holds_up_no_deadline() {
    let (inner, inner_log) = Script { destroy: after(ms(3000), Ok(())), ..script_of() }.client();
    let runtime = runtime();
    let held = Arc::new(Mutex::new(Some(runtime.block_on(inner.create(spec())).unwrap())));
    drop(inner);
    let dropped = Box::new(move |what| {
        if what == "instance" {
            drop(held.lock().unwrap().take());
        }
    });
    let (client, log) = Script { dropped, destroy: after(ms(50), Ok(())), ..script_of() }.client();
    runtime.block_on(async {
        let (one, two) = (client.create(spec()).await.unwrap(), client.create(spec()).await.unwrap());
        drop(one);
        until("the inner one's end begins", || inner_log.count("destroy") == 1).await;
        let begun = Instant::now();
        let error = two.run(any().timeout(ms(200))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExecutionTimeout);
        assert!(begun.elapsed() < ms(2500) && inner_log.count("destroyed") == 0, "{:?}", begun.elapsed());
    });
    drop(client);
    drop(runtime);
    assert_eq!(log.count("drop backend"), 1);
}

#[test]
fn a_destroy_may_need_the_users_runtime() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    let destroy = hook(move |_: SandboxId| {
        let task = handle.spawn(async {});
        async move { task.await.map_err(|_| error(ErrorKind::Unavailable)) }
    });
    // The last handle goes on the very thread that the destroy needs: it waits no longer than its grace.
    let (client, log) = Script { destroy, ..script_of() }.limited(limits().drop_grace(ms(300)));
    runtime.block_on(async {
        let sandbox = client.create(spec()).await.unwrap();
        drop(client);
        drop(sandbox);
        until("it is ended", || log.count("destroyed") == 1).await;
    });
}

#[tokio::test]
async fn the_sandboxs_tasks_end_after_its_destroy() {
    struct Tell(Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("task ended");
        }
    }
    let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let (tasks, ends) = (Arc::clone(&order), Arc::clone(&order));
    let create = hook(move |(_, attempt): (Spec, Attempt)| {
        let tell = Tell(Arc::clone(&tasks));
        attempt.tasks().spawn(async move {
            let _tell = tell;
            std::future::pending().await
        });
        async { Ok(()) }
    });
    let destroy = hook(move |_: SandboxId| {
        ends.lock().unwrap().push("destroy");
        async { Ok(()) }
    });
    let (client, _log) = Script { create, destroy, ..script_of() }.client();
    client.create(spec()).await.unwrap().close().await.unwrap();
    until("both are over", || order.lock().unwrap().len() == 2).await;
    assert_eq!(*order.lock().unwrap(), ["destroy", "task ended"]);
}

#[tokio::test]
async fn a_panicking_task_takes_the_sandbox_with_it() {
    let create = hook(|(_, attempt): (Spec, Attempt)| async move {
        attempt.tasks().spawn(async {
            tokio::time::sleep(ms(100)).await;
            panic!("adapter bug")
        });
        Ok(())
    });
    let (client, log) = Script { create, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.run(any()).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Some(Fate::Dead)));
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    sandbox.close().await.unwrap();
    assert_eq!((log.count("destroy"), log.count("kill")), (1, 0));
}

#[tokio::test]
async fn a_death_by_another_hand_ends_everything_once() {
    let (client, log) = Script { gone: after(ms(300), error(ErrorKind::Gone)), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let runs: Vec<_> = (0..20)
        .map(|_| {
            let sandbox = sandbox.clone();
            spawn(async move { sandbox.run(any()).await.unwrap_err() })
        })
        .collect();
    for run in runs {
        assert_eq!(run.await.unwrap().kind(), ErrorKind::Gone);
    }
    let begun = Instant::now();
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    assert!(begun.elapsed() < ms(1000), "{:?}", begun.elapsed());
    sandbox.close().await.unwrap();
    assert_eq!((log.count("destroy"), log.count("kill")), (1, 0));
}

#[tokio::test]
async fn a_kill_that_nobody_asked_for_waits_for_the_news_of_the_sandbox() {
    for status in [Status::Code(137), Status::Signal(9)] {
        let killed = || script(vec![out("x"), Step::Say(Event::Ended(Ended::program(status)))]);
        // The news comes a moment after the exit, on which this sandbox has its eyes from the create on.
        let (client, _log) =
            Script { gone: after(ms(60), error(ErrorKind::Gone)), next: killed(), ..script_of() }.client();
        let sandbox = client.create(spec()).await.unwrap();
        assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
        let (client, _log) = Script { next: killed(), ..script_of() }.client();
        let output = client.create(spec()).await.unwrap().run(any()).await.unwrap();
        assert_eq!((&*output.stdout.bytes(), output.status), (&b"x"[..], status));
    }
}

#[test]
fn what_the_engine_could_not_do_is_reported_and_its_thread_ends() {
    let runtime = runtime();
    let (client, log) =
        Script { create: never(), ..script_of() }.limited(limits().teardown(ms(300)).drop_grace(ms(100)));
    runtime.block_on(async {
        let mut create = Box::pin(client.create(spec()));
        assert!(poll_once(create.as_mut()).await.is_pending());
    });
    let begun = Instant::now();
    drop(client);
    assert!(begun.elapsed() < ms(2500), "{:?}", begun.elapsed());
    until_blocking("the engine's own thread has finished", || log.count("drop backend") == 1);
}

#[test]
fn many_engines_begin_and_end() {
    let all: Vec<_> = (0..100).map(|_| script_of().client()).collect();
    runtime().block_on(async {
        for (client, _) in &all {
            client.create(spec()).await.unwrap().close().await.unwrap();
        }
    });
    let begun = Instant::now();
    drop(all);
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_reports_are_bounded_and_the_latest_stay() {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let destroy = hook(move |id: SandboxId| {
        assert_eq!(id.as_str(), "s");
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move { Err(sandbox::Error::new(ErrorKind::TeardownFailed, format!("number {n}"))) }
    });
    let (client, _log) = Script { destroy, ..script_of() }.client();
    for _ in 0..1005 {
        assert!(client.destroy("s").await.is_err());
    }
    let orphans = client.orphans();
    let last = orphans.last().unwrap().error.as_ref().unwrap().to_string();
    assert_eq!(orphans.len(), 1000);
    assert!(last.contains("number 1004"), "{last}");
    assert!(orphans[0].error.as_ref().unwrap().to_string().contains("number 5"));
}

#[tokio::test]
async fn a_client_that_closes_ends_all_its_sandboxes_and_makes_no_more() {
    let (client, log) = Script { destroy: after(ms(300), Ok(())), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    client.close().await.unwrap();
    client.close().await.unwrap();
    assert_eq!((log.count("destroy"), log.count("destroyed")), (1, 1));
    assert_eq!(process.next().await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    let refused = client.create(spec()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.operation(), log.count("create")), (ErrorKind::WrongState, Some("create"), 1));
}

#[tokio::test]
async fn a_client_that_closes_does_not_lose_a_create_in_flight() {
    let (client, log) = Script { create: after(ms(400), Ok(())), ..script_of() }.client();
    let making = spawn({
        let client = client.clone();
        async move { client.create(spec()).await }
    });
    until("it has begun", || log.count("create") == 1).await;
    client.close().await.unwrap();
    assert!(log.count("destroyed") > 0, "{:?}", log.all());
    assert_eq!(making.await.unwrap().unwrap_err().kind(), ErrorKind::WrongState);
}

#[tokio::test]
async fn a_client_whose_sandbox_does_not_end_says_so() {
    let (client, _log) =
        Script { destroy: never(), ..script_of() }.limited(limits().teardown(ms(400)).drop_grace(ms(0)));
    let _held = client.create(spec()).await.unwrap();
    let error = client.close().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::TeardownTimeout, Some("close")));
    assert!(error.message().contains("sandbox s") || error.sandbox().is_some(), "{error:?}");
    until("it is reported", || client.orphans().len() == 1).await;
}

#[tokio::test]
async fn a_client_whose_sandbox_is_refused_its_end_says_so() {
    let (client, _log) = Script { destroy: after(ms(50), Err(error(ErrorKind::Unavailable))), ..script_of() }.client();
    let _held = client.create(spec()).await.unwrap();
    let error = client.close().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::TeardownFailed, Some("close")));
    assert_eq!(client.orphans().len(), 1);
}

#[tokio::test]
async fn a_scope_ends_its_sandbox_however_its_block_ends() {
    let (client, log) = script_of().client();
    let value = client.scope(spec(), async |sandbox| Ok::<_, sandbox::Error>(sandbox.id().to_string())).await.unwrap();
    assert_eq!((value.as_str(), log.count("destroyed")), ("s", 1));
    let failed = client.scope(spec(), async |_| Err::<(), _>(error(ErrorKind::WrongState))).await.unwrap_err();
    assert_eq!((failed.kind(), log.count("destroyed")), (ErrorKind::WrongState, 2));
    let panicked = spawn({
        let client = client.clone();
        async move { client.scope(spec(), async |_| -> sandbox::Result<()> { panic!("user's own") }).await }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    until("the third is ended", || log.count("destroyed") == 3).await;
    let scope = client.scope(spec(), async |_| std::future::pending::<sandbox::Result<()>>().await);
    assert!(tokio::time::timeout(ms(200), scope).await.is_err());
    until("the fourth is ended", || log.count("destroyed") == 4).await;
    // A teardown that fails does not hide the value.
    let (client, _log) = Script { destroy: after(ms(0), Err(error(ErrorKind::Internal))), ..script_of() }.client();
    assert_eq!(client.scope(spec(), async |_| Ok::<_, sandbox::Error>(7)).await.unwrap(), 7);
    assert_eq!(client.orphans().len(), 1);
}

#[tokio::test]
async fn a_second_close_of_the_client_hears_what_the_first_did() {
    let (client, _log) = Script { destroy: after(ms(50), Err(error(ErrorKind::Unavailable))), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(tokio::time::timeout(ms(1), client.close()).await.is_err(), "this one leaves");
    for _ in 0..2 {
        let again = client.clone();
        let (one, two) = tokio::join!(client.close(), again.close());
        assert_eq!(one.unwrap_err().kind(), ErrorKind::TeardownFailed);
        assert_eq!(two.unwrap_err().kind(), ErrorKind::TeardownFailed);
    }
    drop(sandbox);
    assert_eq!(client.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed, "with no handle left");
}

#[test]
fn nothing_is_made_after_the_close_of_the_client() {
    for round in 0..150 {
        let (client, log) = script_of().client();
        let other = client.clone();
        let creates = std::thread::spawn(move || {
            runtime().block_on(async {
                let create = || async { other.create(spec()).await.map(drop) };
                let _ = tokio::join!(create(), create(), create(), create());
            });
        });
        if round % 3 > 0 {
            std::thread::sleep(Duration::from_micros(round * 7));
        }
        runtime().block_on(client.close()).unwrap();
        let alive = |log: &crate::common::scripted::Log| log.count("create") - log.count("destroyed");
        assert_eq!(alive(&log), 0, "round {round}: {:?}", log.all());
        let made = log.count("create");
        creates.join().unwrap();
        assert_eq!(log.count("create"), made, "round {round}: made after the close");
    }
}

#[test]
fn a_limit_of_zero_is_refused() {
    use sandbox::Limits;
    type Set = fn(Limits, Duration) -> Limits;
    let zero: [(&str, Set); 5] = [
        ("operation", Limits::operation),
        ("late", Limits::late),
        ("kill", Limits::kill),
        ("tell", Limits::tell),
        ("teardown", Limits::teardown),
    ];
    for (name, set) in zero {
        let build = |limit| Client::builder(script_of().backend().0).limits(set(limits(), limit)).build();
        let error = build(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(name), "{error}");
        assert!(build(Duration::MAX).is_ok(), "{name}");
    }
    let none = limits().drop_grace(Duration::ZERO).quiet(Duration::ZERO);
    assert!(Client::builder(script_of().backend().0).limits(none).build().is_ok(), "not to wait is fine");
}
