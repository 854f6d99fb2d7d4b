//! What a command writes and how it ends: whole, apart, in order, once.

use crate::common::{
    Host, LONG, any, ms, runtime,
    scripted::{Script, Step, code, hook, out, script, script_of},
    spec, until,
};
use bytes::Bytes;
use sandbox::{Command, ErrorKind, ProcessEvent, Status};
use sandbox_core::{Ended, Event, Exec};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

#[tokio::test]
async fn streams_are_apart_and_a_code_is_data() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let output = sandbox.run(Command::shell("echo hi; echo no >&2; exit 3")).await.unwrap();
    assert_eq!((&*output.stdout.bytes(), &*output.stderr.bytes()), (&b"hi\n"[..], &b"no\n"[..]));
    assert_eq!((output.status, output.code(), output.success()), (Status::Code(3), 3, false));
    let error = output.check().unwrap_err();
    assert_eq!((error.kind(), &*error.output().unwrap().stderr.text()), (ErrorKind::NonZeroExit, "no\n"));
    sandbox.close().await.unwrap();
    sandbox.close().await.unwrap();
    let error = sandbox.run(Command::new("true")).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Gone, Some("run")));
    assert_eq!((error.backend(), error.sandbox()), (Some("folder"), Some(sandbox.id())));
}

#[tokio::test]
async fn only_the_first_end_counts() {
    let (client, _log) = Script { next: script(vec![code(0), code(7)]), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    let mut ends = Vec::new();
    while let Some(event) = process.next().await.unwrap() {
        if let ProcessEvent::Exited(status) = event {
            ends.push(status);
        }
    }
    assert_eq!(ends, [Status::Code(0)]);
}

#[tokio::test]
async fn a_child_that_floods_does_not_hide_the_exit() {
    let (client, _log) = Script { next: script(vec![code(0), Step::Flood]), ..script_of() }.client();
    let (sandbox, begun) = (client.create(spec()).await.unwrap(), Instant::now());
    let output = sandbox.run(any().timeout(LONG)).await.unwrap();
    assert_eq!(output.status, Status::Code(0));
    assert!(begun.elapsed() < ms(6000), "{:?}", begun.elapsed()); // The linger is 2 s at most.
}

#[tokio::test]
async fn an_error_after_the_end_does_not_lose_the_status() {
    for after in [Step::Fail(ErrorKind::ConnectionLost), Step::Panic] {
        let (client, _log) = Script { next: script(vec![code(3), after]), ..script_of() }.client();
        let output = client.create(spec()).await.unwrap().run(any()).await.unwrap();
        assert_eq!(output.status, Status::Code(3));
    }
}

#[tokio::test]
async fn an_error_after_the_end_costs_no_sandbox() {
    for after in [Step::Fail(ErrorKind::ConnectionLost), Step::Panic] {
        let script = Script { next: script(vec![code(3), after]), ..script_of() };
        let (client, log) = script.without_kill().client();
        let sandbox = client.create(spec()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(sandbox.run(any()).await.unwrap().status, Status::Code(3));
        }
        assert_eq!(log.count("destroy"), 0, "the program had ended; nothing was left to kill");
    }
}

#[tokio::test]
async fn a_slow_reader_is_not_told_of_a_timeout_after_an_end() {
    // The program is over at once; what follows fills the queue; the reader comes back after the deadline.
    let steps = [vec![code(0)], vec![out("z"); 100]].concat();
    let (client, _log) = Script { next: script(steps), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any().timeout(ms(200))).await.unwrap();
    tokio::time::sleep(ms(500)).await;
    assert_eq!(process.wait().await.unwrap(), Status::Code(0));
}

#[test]
fn no_output_is_lost_between_two_polls() {
    // Threads that compete for the processors stand for a preemption: between `recv` saying that there is nothing and the
    // end being asked, the pump sends its last output and the end.
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..2 * std::thread::available_parallelism().map_or(2, usize::from))
        .map(|n| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut pause = 7 + n as u64;
                while !stop.load(SeqCst) {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_micros(150) {
                        std::hint::spin_loop();
                    }
                    pause = pause.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    std::thread::sleep(Duration::from_micros(100 + (pause >> 16) % 97));
                }
            })
        })
        .collect();
    let next = hook(|n| async move {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(3) {
            std::hint::spin_loop();
        }
        Ok(Some(if n < 20 {
            Event::Stdout(Bytes::from_static(b"x"))
        } else {
            Event::Ended(Ended::program(Status::Code(0)))
        }))
        .map(|event| event.filter(|_| n <= 20))
    });
    let (client, _log) = Script { next, ..script_of() }.client();
    let (mut runs, begun) = (0, Instant::now());
    let mut lost = None;
    runtime().block_on(async {
        let sandbox = client.create(spec()).await.unwrap();
        while begun.elapsed() < ms(8000) && lost.is_none() {
            runs += 1;
            let got = sandbox.run(any()).await.unwrap().stdout.bytes().len();
            lost = (got != 20).then_some(20 - got);
        }
    });
    stop.store(true, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(lost, None, "chunks lost of 20 in run {runs}");
    assert!(runs > 50, "{runs}");
}

#[tokio::test]
async fn no_output_is_lost_on_a_task_that_has_spent_its_budget() {
    let steps = [vec![out("x"); 40], vec![code(0)]].concat();
    let (client, _log) = Script { next: script(steps), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    tokio::time::sleep(ms(300)).await;
    for _ in 0..110 {
        tokio::task::consume_budget().await;
    }
    let mut pieces = 0;
    while let Some(event) = process.next().await.unwrap() {
        pieces += usize::from(matches!(event, ProcessEvent::Stdout(_)));
    }
    assert_eq!(pieces, 40);
}

#[tokio::test]
async fn a_child_in_the_background_does_not_hold_a_run() {
    let host = Host::new();
    let (sandbox, begun) = (host.sandbox().await, Instant::now());
    let output = sandbox.run(Command::shell("sleep 15 & echo done").timeout(ms(9000))).await.unwrap();
    assert_eq!((output.code(), &*output.stdout.text()), (0, "done\n"));
    assert!(begun.elapsed() < ms(6000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_real_child_that_floods_does_not_hide_the_exit() {
    let host = Host::new();
    let (sandbox, begun) = (host.sandbox().await, Instant::now());
    let output = sandbox.run(Command::shell("yes & exit 3").timeout(LONG)).await.unwrap();
    assert_eq!(output.status, Status::Code(3));
    assert!(begun.elapsed() < ms(9000), "{:?}", begun.elapsed()); // The linger is 2 s at most.
}

#[tokio::test]
async fn large_pieces_are_split() {
    let (client, _log) = Script { next: script(vec![out(vec![7; 5 << 20]), code(0)]), ..script_of() }.client();
    let mut process = client.create(spec()).await.unwrap().start(any()).await.unwrap();
    let (mut all, mut largest) = (0, 0);
    while let Some(event) = process.next().await.unwrap() {
        if let ProcessEvent::Stdout(bytes) = event {
            (all, largest) = (all + bytes.len(), largest.max(bytes.len()));
        }
    }
    assert_eq!((all, largest), (5 << 20, 1 << 20));
}

#[tokio::test]
async fn adapters_see_what_was_resolved() {
    let seen: Arc<Mutex<Option<Exec>>> = Arc::default();
    let execs = Arc::clone(&seen);
    let spawn = hook(move |exec: Exec| {
        *execs.lock().unwrap() = Some(exec);
        async { Ok(()) }
    });
    let next = script(vec![out(vec![b'x'; 100]), code(0)]);
    let (client, _log) = Script { spawn, next, ..script_of() }.client();
    let sandbox = client.create(spec().command_timeout(ms(7000))).await.unwrap();
    let output = sandbox.run(Command::new("x").arg("y").output_limit(10)).await.unwrap();
    assert_eq!((output.stdout.head.len(), output.stdout.tail.len(), output.stdout.dropped), (5, 5, 90));
    let exec = seen.lock().unwrap().take().unwrap();
    assert_eq!((exec.timeout, exec.output_limit), (ms(7000), 10));
    assert_eq!(exec.argv, ["x", "y"]);
}

#[tokio::test]
async fn head_and_tail_of_a_real_flood_are_exact() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    // Lines of eight bytes, 24 MB on each stream.
    let flood = "seq -f %07.0f 0 2999999; seq -f %07.0f 1000000 1000099 >&2";
    let output = sandbox.run(Command::shell(flood).output_limit(1000)).await.unwrap();
    let line = |n: usize| format!("{n:07}\n");
    let whole_head: String = (0..63).map(line).collect();
    let whole_tail: String = (2_999_937..3_000_000).map(line).collect();
    assert_eq!(output.stdout.head, whole_head.as_bytes()[..500]);
    assert_eq!(output.stdout.tail, whole_tail.as_bytes()[4..]);
    assert_eq!(output.stdout.dropped, 24_000_000 - 1000);
    assert_eq!(output.stderr.bytes(), (1_000_000..1_000_100).map(line).collect::<String>().as_bytes());
    assert_eq!(output.stderr.dropped, 0);
}

#[tokio::test]
async fn argv_arrives_byte_for_byte() {
    let host = Host::new();
    let args = ["", " ", "a b", "'\"$HOME`id`", "*", "-n", "\\n", "line\nbreak", "ünï", "--"];
    let output = host.sandbox().await.run(Command::new("printf").arg("%s\\0").args(args)).await.unwrap();
    let got: Vec<_> =
        output.stdout.head.split(|b| *b == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    assert_eq!(got[..args.len()], args);
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    std::fs::write(host.dir.path().join("plain"), "").unwrap();
    let plain = host.dir.path().join("plain").to_string_lossy().into_owned();
    for (command, kind) in [
        (Command::new("no-such-program"), ErrorKind::ProgramNotFound),
        (Command::new(plain.clone()), ErrorKind::StartFailed),
        (Command::new("true").cwd("missing"), ErrorKind::PathNotFound),
        (Command::new("true").cwd(plain), ErrorKind::NotADirectory),
        (Command::new("true").arg("x".repeat(1 << 20)), ErrorKind::ArgumentTooLarge),
    ] {
        let error = sandbox.run(command.clone()).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (kind, false), "{command:?}: {error:?}");
        let error = sandbox.start(command).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (kind, Some("start")));
    }
    assert!(sandbox.run(Command::new("true")).await.unwrap().success());
}

#[tokio::test]
async fn a_late_reader_of_many_small_pieces_holds_nothing_back() {
    let pieces = (0..5000).map(|n| out(format!("{n:4}\n"))).chain([code(0)]).collect();
    let (client, _log) = Script { next: script(pieces), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any().timeout(ms(1500))).await.unwrap();
    tokio::time::sleep(ms(2500)).await;
    let output = process.output().await.unwrap();
    assert_eq!((output.status, output.stdout.head.len()), (Status::Code(0), 25_000));
}

#[tokio::test]
async fn a_reader_who_does_not_read_bounds_what_is_kept() {
    let sent = Arc::new(AtomicUsize::new(0));
    let next = hook({
        let sent = Arc::clone(&sent);
        move |_| {
            sent.fetch_add(1 << 20, SeqCst);
            async { Ok(Some(Event::Stdout(Bytes::from(vec![b'x'; 1 << 20])))) }
        }
    });
    let (client, _log) = Script { next, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let process = sandbox.start(any().timeout(LONG)).await.unwrap();
    until("it is held back", || sent.load(SeqCst) >= 16 << 20).await;
    tokio::time::sleep(ms(300)).await;
    let kept = sent.load(SeqCst);
    assert!(kept <= 18 << 20, "{kept} bytes");
    drop(process);
}

#[tokio::test]
async fn empty_pieces_without_end_stop_nobody() {
    let next = hook(|_| async { Ok(Some(Event::Stdout(Bytes::new()))) });
    let (client, log) = Script { next, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let busy = [sandbox.start(any()).await.unwrap(), sandbox.start(any()).await.unwrap()];
    let other = client.create(spec()).await.unwrap();
    tokio::time::timeout(ms(10_000), sandbox.close()).await.unwrap().unwrap();
    assert_eq!(log.count("destroyed"), 1);
    drop((busy, other));
}
