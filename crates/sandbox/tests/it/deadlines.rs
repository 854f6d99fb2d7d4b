//! Deadlines of commands: kept beside the work, so that no adapter can hold one up.

use crate::common::{
    Host, LONG, any, block_on, limits, ms, open_spec, runtime,
    scripted::{Script, Step, after, code, hook, never, script, script_of},
    spawn, spec, until,
};
use sandbox::{Capability, Command, ErrorKind, Fate, Signal, Status};
use sandbox_core::{Boxed, Clock, Ended, Event, OUTSIDE_TRAILS};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

#[tokio::test]
async fn a_kill_that_hangs_does_not_hang_a_run() {
    let (client, _log) = Script { kill: never(), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let run = tokio::time::timeout(LONG, sandbox.run(any().timeout(ms(200)))).await;
    let error = run.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Dead)));
}

#[tokio::test]
async fn a_caller_who_leaves_during_the_kill_does_not_lose_it() {
    let (client, log) = Script { kill: after(ms(300), Ok(Fate::Dead)), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let run = spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(any().timeout(ms(100))).await }
    });
    until("the kill has begun", || log.count("kill") == 1).await;
    run.abort();
    client.create(spec()).await.unwrap().close().await.unwrap();
    until("its events go", || log.count("drop events") == 1).await;
    assert_eq!((log.count("kill"), log.count("destroy")), (1, 1), "one kill, and the end of the other sandbox");
}

#[test]
fn a_flood_does_not_starve_the_deadline() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let seen = runtime().block_on(async {
            let (client, _log) = Script { next: script(vec![Step::Flood]), ..script_of() }.client();
            let sandbox = client.create(spec()).await.unwrap();
            let mut process = sandbox.start(any().timeout(ms(200))).await.unwrap();
            loop {
                if let Err(error) = process.next().await {
                    return error.kind();
                }
            }
        });
        let _ = tell.send(seen);
    });
    assert_eq!(told.recv_timeout(LONG), Ok(ErrorKind::ExecutionTimeout));
}

#[tokio::test]
async fn a_spawn_that_hangs_is_bounded() {
    let (client, _log) = Script { spawn: never(), ..script_of() }.limited(limits().late(ms(500)));
    let sandbox = client.create(spec()).await.unwrap();
    let run = tokio::time::timeout(LONG, sandbox.run(any().timeout(ms(200)))).await.unwrap();
    assert_eq!(run.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
}

#[tokio::test]
async fn what_may_not_be_dead_has_an_unknown_fate() {
    let (client, _log) = Script { spawn: never(), ..script_of() }.limited(limits().tell(ms(300)));
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.run(any().timeout(ms(100))).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Unknown)));
}

#[test]
fn a_deadline_is_kept_on_an_executor_that_is_not_tokio() {
    let kind = std::thread::spawn(|| {
        let Host { client, dir: _dir } = Host::new();
        let run = async {
            let sandbox = client.create(open_spec()).await?;
            sandbox.run(Command::shell("sleep 66").timeout(ms(200))).await.map(drop)
        };
        block_on(run).unwrap_err().kind()
    });
    assert_eq!(kind.join().unwrap(), ErrorKind::ExecutionTimeout);
}

#[tokio::test]
async fn a_process_that_nobody_polls_has_its_deadline() {
    let (client, log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    let _process = sandbox.start(any().timeout(ms(200))).await.unwrap();
    until("it is killed", || log.count("kill") == 1).await;
}

#[tokio::test]
async fn neither_kill_nor_teardown_holds_up_the_answer() {
    let (client, _log) = Script { kill: never(), destroy: never(), ..script_of() }.client();
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    let run = tokio::time::timeout(LONG, sandbox.run(any().timeout(ms(200)))).await.unwrap();
    assert_eq!(run.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    assert!(begun.elapsed() < ms(6000), "{:?}", begun.elapsed()); // 200 ms and `tell`, where a teardown has ten seconds.
}

#[tokio::test]
async fn a_slow_kill_delays_the_answer_by_its_limit_at_most() {
    let limits = limits().kill(ms(300)).tell(ms(800)).teardown(ms(2000));
    let (client, log) = Script { kill: never(), destroy: never(), ..script_of() }.limited(limits);
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    let error = sandbox.run(any().timeout(ms(100))).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Unknown)));
    assert!(begun.elapsed() < ms(2300), "{:?}", begun.elapsed());
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(sandbox.close().await.unwrap_err().kind(), ErrorKind::TeardownTimeout);
    assert_eq!((log.count("destroy"), client.orphans().len()), (1, 1));
}

#[tokio::test]
async fn a_panicking_clock_does_not_lose_the_kill() {
    struct Bad(Arc<AtomicUsize>);
    impl Clock for Bad {
        fn sleep(&self, duration: Duration) -> Boxed<'static, ()> {
            if self.0.fetch_add(1, SeqCst) > 0 {
                panic!("clock")
            }
            Box::pin(tokio::time::sleep(duration))
        }
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let clock = {
        let asked = Arc::clone(&asked);
        Box::new(move |()| Some(Arc::new(Bad(Arc::clone(&asked))) as Arc<dyn Clock>))
    };
    let (client, log) = Script { clock, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    for (round, kind) in [(1, ErrorKind::ExecutionTimeout), (2, ErrorKind::Internal)] {
        let run = tokio::time::timeout(LONG, sandbox.run(any().timeout(ms(200)))).await.unwrap();
        assert_eq!((run.unwrap_err().kind(), log.count("kill")), (kind, round), "{:?}", log.all());
    }
}

#[tokio::test]
async fn an_instance_whose_drop_blocks_holds_up_no_deadline() {
    let dropped = Box::new(|what| {
        if what == "instance" {
            std::thread::sleep(ms(3000));
        }
    });
    let (client, log) = Script { dropped, destroy: after(ms(50), Ok(())), ..script_of() }.client();
    let (one, two) = (client.create(spec()).await.unwrap(), client.create(spec()).await.unwrap());
    drop(one);
    until("the first is being dropped", || log.count("drop instance") == 1).await;
    let begun = Instant::now();
    assert_eq!(two.run(any().timeout(ms(200))).await.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    assert!(begun.elapsed() < ms(2200), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_adapter_that_blocks_in_create_holds_up_no_deadline() {
    let count = AtomicUsize::new(0);
    let made = Box::new(move |made| {
        if count.fetch_add(1, SeqCst) == 1 {
            std::thread::sleep(ms(3000));
        }
        made
    });
    let (client, log) = Script { made, ..script_of() }.client();
    let one = client.create(spec()).await.unwrap();
    let two = spawn({
        let client = client.clone();
        async move { drop(client.create(spec()).await) }
    });
    until("the second is being made", || log.count("create") == 2).await;
    let begun = Instant::now();
    assert_eq!(one.run(any().timeout(ms(200))).await.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    assert!(begun.elapsed() < ms(2200), "{:?}", begun.elapsed());
    two.await.unwrap();
}

#[tokio::test]
async fn a_timeout_of_zero_is_refused_and_none_is_past_the_lifetime() {
    let slow = script(vec![Step::After(ms(50), Event::Ended(Ended::program(Status::Code(0))))]);
    let (client, log) = Script { next: slow, ..script_of() }.client();
    let sandbox = client.create(spec().lifetime(LONG)).await.unwrap();
    let error = sandbox.run(any().timeout(ms(0))).await.unwrap_err();
    assert_eq!((error.kind(), log.count("spawn")), (ErrorKind::InvalidArgument, 0));
    let error = sandbox.run(any().timeout(Duration::MAX)).await.unwrap_err();
    assert_eq!((error.kind(), log.count("spawn")), (ErrorKind::InvalidArgument, 0));
    assert!(sandbox.run(any().timeout(LONG)).await.is_ok());
}

#[tokio::test]
async fn a_program_that_floods_meets_its_deadline() {
    let host = Host::new();
    let (sandbox, begun) = (host.sandbox().await, Instant::now());
    let error = sandbox.run(Command::shell("exec yes").timeout(ms(1500)).output_limit(1 << 16)).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Dead)));
    assert!(begun.elapsed() < ms(15_000), "{:?}", begun.elapsed());
    let stdout = &error.output().unwrap().stdout;
    assert!(stdout.head.starts_with(b"y\ny\n") && stdout.head.len() + stdout.tail.len() <= 1 << 16);
}

#[tokio::test]
async fn a_computing_adapter_cannot_hold_up_an_exit() {
    let next = hook(|n| async move {
        if n == 1 {
            std::thread::sleep(ms(6000));
        }
        Ok((n == 0).then_some(Event::Ended(Ended::program(Status::Code(3)))))
    });
    let (client, _log) = Script { next, ..script_of() }.client();
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    assert_eq!(sandbox.run(any()).await.unwrap().status, Status::Code(3));
    assert!(begun.elapsed() < ms(4500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_deadline_inside_is_heard_before_the_one_outside() {
    let inside =
        script(vec![Step::After(ms(300), Event::Ended(Ended::new(Status::Signal(9), sandbox_core::Cause::Deadline)))]);
    let (client, log) = Script { next: inside, ..script_of() }.having([Capability::Deadline]).client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.run(any().timeout(ms(300))).await.unwrap_err();
    assert_eq!((error.kind(), error.fate(), log.count("kill")), (ErrorKind::ExecutionTimeout, Some(Fate::Dead), 0));
    let (client, log) = script_of().having([Capability::Deadline]).client();
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    let error = sandbox.run(any().timeout(ms(300))).await.unwrap_err();
    assert_eq!((error.kind(), log.count("kill")), (ErrorKind::ExecutionTimeout, 1));
    assert!(begun.elapsed() >= OUTSIDE_TRAILS + ms(300), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_memory_cap_is_told_from_other_deaths() {
    let oom = script(vec![Step::Say(Event::Ended(Ended::new(Status::Signal(9), sandbox_core::Cause::OutOfMemory)))]);
    let (client, _log) = Script { next: oom, ..script_of() }.client();
    let error = client.create(spec()).await.unwrap().run(any()).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ResourceExhausted, Some(Fate::Dead)));
}

#[tokio::test]
async fn term_comes_a_grace_before_the_deadline() {
    let signals: Arc<Mutex<Vec<(Signal, Instant)>>> = Arc::default();
    let seen = Arc::clone(&signals);
    let signal = hook(move |signal| {
        seen.lock().unwrap().push((signal, Instant::now()));
        async { Ok(()) }
    });
    let (client, log) = Script { signal, ..script_of() }.having([Capability::Term]).client();
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    let error = sandbox.run(any().timeout(ms(1500)).grace(ms(1200))).await.unwrap_err();
    assert_eq!((error.kind(), log.count("kill")), (ErrorKind::ExecutionTimeout, 1));
    let seen = signals.lock().unwrap().clone();
    assert!(seen.len() == 1 && seen[0].0 == Signal::Terminate && seen[0].1 - begun >= ms(300), "{seen:?}");
    // A real program that heeds it ends by itself.
    let host = Host::new();
    let trap = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    let output = host.sandbox().await.run(Command::shell(trap).timeout(LONG).grace(LONG - ms(700))).await.unwrap();
    assert_eq!((output.code(), &*output.stdout.text()), (3, "up\nbye\n"));
}

#[tokio::test]
async fn waiting_goes_by_the_backends_clock() {
    struct Instantly(Arc<Mutex<Vec<Duration>>>);
    impl Clock for Instantly {
        fn sleep(&self, duration: Duration) -> Boxed<'static, ()> {
            self.0.lock().unwrap().push(duration);
            Box::pin(async {})
        }
    }
    let asked: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let times = Arc::clone(&asked);
    let script = Script { clock: Box::new(move |()| Some(Arc::new(Instantly(Arc::clone(&times))))), ..script_of() };
    let (client, _log) = script.client();
    tokio::time::timeout(LONG, client.sleep(Duration::from_secs(3600))).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), [Duration::from_secs(3600)]);
    let (client, _log) = script_of().client();
    let begun = Instant::now();
    client.sleep(ms(200)).await;
    assert!(begun.elapsed() >= ms(200));
}

#[tokio::test]
async fn an_exit_that_was_seen_is_not_turned_into_a_timeout() {
    // The program is over at once; its deadline passes while its output may still go on.
    let (client, _log) = Script { next: script(vec![code(0), Step::Hang]), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(sandbox.run(any().timeout(ms(200))).await.unwrap().status, Status::Code(0));
}

#[tokio::test]
async fn a_start_in_doubt_that_cannot_be_killed_alone_does_not_run_on() {
    let (client, log) = Script { spawn: never(), ..script_of() }.without_kill().client();
    let sandbox = client.create(spec()).await.unwrap();
    let begun = Instant::now();
    let error = sandbox.run(any().timeout(ms(200))).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ExecutionTimeout, Some(Fate::Dead)));
    assert_eq!(log.count("destroyed"), 1);
    assert!(begun.elapsed() < LONG, "it took {:?}", begun.elapsed());
}
