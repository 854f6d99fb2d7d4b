//! Rows of the area `stream`: a command while it runs.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    measure,
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
};
use sandbox::{Command, Limits, Process, ProcessEvent, Sandbox};
use sandbox_core::{
    Capability::{Background, KillOne, ProcessTree, Run, Signals, Stdin, Stream, StreamExact, Term},
    Error, ErrorKind, Fate, Signal, Status,
};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) static ROWS: &[Row] = &[
    row!("stream::an_unstarted_command_starts_nothing", an_unstarted_command).needs(&[Run]),
    row!("stream::output_arrives_before_the_end", arrives_before_the_end).needs(&[Run, Stream]),
    row!("stream::pieces_carry_their_stream_in_order", pieces_carry_their_stream).needs(&[Run, Stream]),
    row!("stream::pieces_add_up_to_what_run_gives", add_up).needs(&[Run, Stream, StreamExact]),
    row!("stream::there_is_one_end_after_all_output", one_end).facade().needs(&[Run, Stream]),
    row!("stream::wait_answers_the_same_twice", wait_twice).needs(&[Run, Stream]),
    row!("stream::wait_drains_output_that_nobody_read", wait_drains).needs(&[Run, Stream]),
    row!("stream::a_full_read_ends_nothing_else", a_full_read).needs(&[Run, Stream, Background]),
    row!("stream::an_early_drop_ends_the_command", an_early_drop).needs(&[Run, Stream, KillOne]),
    row!("stream::an_error_in_the_readers_block_ends_the_command", an_error_in_the_block)
        .needs(&[Run, Stream, KillOne]),
    row!("stream::a_cancelled_reader_ends_the_command", a_cancelled_reader).needs(&[Run, Stream, KillOne]),
    row!("stream::next_is_cancel_safe", next_is_cancel_safe).needs(&[Run, Stdin, Stream]),
    row!("stream::a_slow_reader_loses_nothing_and_delays_nobody", a_slow_reader).needs(&[Run, Stream]),
    row!("stream::a_reader_who_does_not_read_holds_the_program_back", holds_back).facade().needs(&[Run, Stream]),
    row!("stream::memory_of_a_slow_reader_is_bounded", memory_is_bounded).needs(&[Run, Stream]),
    row!("stream::a_cut_connection_is_connection_lost", a_cut_connection).needs(&[Run, Stream]),
    row!("stream::a_failure_to_start_is_an_error_of_start", a_failure_to_start).needs(&[Run]),
    row!("stream::a_kill_ends_exactly_its_command", a_kill).needs(&[Run, KillOne]),
    row!("stream::a_kill_reaches_the_whole_tree", a_kill_of_a_tree).needs(&[Run, KillOne, ProcessTree]),
    row!("stream::term_asks_the_program_to_end", term).needs(&[Run, Stream, Term]),
    row!("stream::signals_reach_the_program_alone", signals).needs(&[Run, Stream, Signals, KillOne]),
];

/// A command is a value: nothing happens until it is handed to a sandbox, and nobody can await it by mistake.
///
/// ```compile_fail,E0277
/// async fn forgotten() {
///     sandbox::Command::new("true").await;
/// }
/// ```
async fn an_unstarted_command(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let trace = format!("{}/contract-trace", sandbox.cwd().trim_end_matches('/'));
    let spawns = cx.meddling().calls(Point::Spawn);
    let command = cx.probes().bump(&trace);
    drop(command.clone());
    drop(sandbox.start(command.clone()));
    drop(sandbox.run(command.clone()));
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "commands that were sent");
    cx.text(&sandbox, command).await?;
    // The control, and that it ran once.
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns + 1, "commands that were sent, with one run");
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&trace)).await?, "x", "the trace of one run");
    Ok(())
}

async fn arrives_before_the_end(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    // It never ends, so what is seen is seen before the end.
    let mut process = sandbox.start(cx.probes().output_then_hang("early", &marker)).await?;
    let mut seen = Vec::new();
    while seen.len() < "early\n".len() {
        match cx.within(20, "output of a command that runs on", process.next()).await?? {
            Some(ProcessEvent::Stdout(bytes)) => seen.extend_from_slice(&bytes),
            other => fail!("expected output, got {other:?}"),
        }
    }
    expect_eq!(String::from_utf8_lossy(&seen), "early\n", "its output");
    cx.appears(&sandbox, &marker).await
}

async fn pieces_carry_their_stream(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let read = read(cx, &sandbox, cx.probes().both("to stdout", "to stderr")).await?;
    expect_eq!((&*read.stdout, &*read.stderr), (&b"to stdout\n"[..], &b"to stderr\n"[..]), "stdout and stderr");
    let read = self::read(cx, &sandbox, cx.probes().lines(3000_u32)).await?;
    let expected: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    expect_eq!(String::from_utf8_lossy(&read.stdout), expected, "three thousand lines");
    expect_eq!(read.stderr, Vec::<u8>::new(), "stderr of lines on stdout");
    Ok(())
}

async fn add_up(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for command in [cx.probes().bytes256(), cx.probes().flood(3_u64 << 20), cx.probes().fail(9)] {
        let (read, run) = (read(cx, &sandbox, command.clone()).await?, cx.run(&sandbox, command).await?);
        ensure!(!run.stdout.bytes().is_empty(), "it writes nothing: {run:?}");
        expect_eq!(read.stdout, run.stdout.bytes().into_owned(), "stdout, in pieces and as a whole");
        expect_eq!(read.stderr, run.stderr.bytes().into_owned(), "stderr, in pieces and as a whole");
        expect_eq!(read.ends, vec![run.status], "the end, in pieces and as a whole");
    }
    Ok(())
}

async fn one_end(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for (command, status) in [
        (cx.probes().fail(7), Status::Code(7)),
        (cx.probes().lines(500_u32), Status::Code(0)),
        (cx.probes().succeed(), Status::Code(0)),
    ] {
        let read = read(cx, &sandbox, command.clone()).await?;
        expect_eq!(read.ends, vec![status], "the ends of {command:?}");
        ensure!(!read.output_after_the_end, "output came after the end of {command:?}");
    }
    Ok(())
}

struct Read {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ends: Vec<Status>,
    output_after_the_end: bool,
}

/// Reads to `None`, and looks once more.
async fn read(cx: &Ctx, sandbox: &Sandbox, command: Command) -> Result<Read, Stop> {
    let what = format!("{command:?}");
    let mut process = sandbox.start(command).await?;
    let mut read = Read { stdout: Vec::new(), stderr: Vec::new(), ends: Vec::new(), output_after_the_end: false };
    while let Some(event) = cx.within(60, &what, process.next()).await?? {
        match event {
            ProcessEvent::Stdout(bytes) => {
                read.stdout.extend_from_slice(&bytes);
                read.output_after_the_end |= !read.ends.is_empty();
            }
            ProcessEvent::Stderr(bytes) => {
                read.stderr.extend_from_slice(&bytes);
                read.output_after_the_end |= !read.ends.is_empty();
            }
            ProcessEvent::Exited(status) => read.ends.push(status),
            other => fail!("{what}: an event that this suite does not know: {other:?}"),
        }
    }
    expect_eq!(cx.within(20, &what, process.next()).await??, None, "the event after the last of {what}");
    Ok(read)
}

async fn wait_twice(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().exit(42)).await?;
    for time in ["first", "second", "third"] {
        let status = cx.within(30, "wait", process.wait()).await??;
        expect_eq!(status, Status::Code(42), "the {time} answer of `wait`");
    }
    expect_eq!(process.next().await?, None, "the event after `wait`");
    Ok(())
}

async fn wait_drains(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    // Far more than anything between here and there holds, so that it ends only if it is drained.
    let mut process = sandbox.start(cx.probes().flood(100_u64 << 20)).await?;
    let status = cx.within(60, "wait for a command whose output nobody reads", process.wait()).await??;
    expect_eq!(status, Status::Code(3), "the status");
    expect_eq!(process.wait().await?, Status::Code(3), "the status, asked again");
    Ok(())
}

async fn a_full_read(cx: &Ctx) -> Done {
    let (sandbox, daemon) = (cx.sandbox().await?, cx.marker());
    let started = cx.run(&sandbox, cx.probes().daemonize(&daemon)).await?;
    ensure!(started.success(), "the probe `daemonize`: {started:?}");
    cx.appears(&sandbox, &daemon).await?;
    let (kills, destroys) = (cx.meddling().calls(Point::Kill), cx.meddling().calls(Point::Destroy));
    let mut process = sandbox.start(cx.probes().lines(100_u32)).await?;
    while cx.within(30, "its output", process.next()).await??.is_some() {}
    drop(process);
    // Whatever the drop might set off has had its time.
    tokio::time::sleep(cx.secs(1)).await;
    expect_eq!(cx.meddling().calls(Point::Kill), kills, "kills after a command was read to its end");
    expect_eq!(cx.meddling().calls(Point::Destroy), destroys, "destroys after a command was read to its end");
    ensure!(cx.alive(&sandbox, &daemon).await? > 0, "a daemon of an earlier command died");
    Ok(())
}

async fn an_early_drop(cx: &Ctx) -> Done {
    ends(cx, async |mut process| {
        some_output(cx, &mut process).await?;
        drop(process);
        Ok(())
    })
    .await
}

async fn an_error_in_the_block(cx: &Ctx) -> Done {
    ends(cx, async |mut process| {
        let block = async {
            some_output(cx, &mut process).await?;
            Err::<(), _>(Stop::from(Error::new(ErrorKind::Protocol, "the block's own")))
        };
        let result = block.await;
        ensure!(matches!(&result, Err(Stop::Fail(text)) if text.contains("the block's own")), "the block: {result:?}");
        drop(process);
        Ok(())
    })
    .await
}

async fn a_cancelled_reader(cx: &Ctx) -> Done {
    ends(cx, async |mut process| {
        some_output(cx, &mut process).await?;
        let reader = async move { while let Ok(Some(_)) = process.next().await {} };
        let cancelled = tokio::time::timeout(Duration::from_millis(300), reader).await;
        ensure!(cancelled.is_err(), "the reader of a command that runs on came to an end");
        Ok(())
    })
    .await
}

async fn some_output(cx: &Ctx, process: &mut Process) -> Done {
    match cx.within(20, "the first output", process.next()).await?? {
        Some(ProcessEvent::Stdout(_)) => Ok(()),
        other => fail!("expected output, got {other:?}"),
    }
}

/// What is done to a command that writes and runs on ends it, and nothing else.
async fn ends(cx: &Ctx, act: impl AsyncFnOnce(Process) -> Done) -> Done {
    let sandbox = cx.sandbox().await?;
    let (victim, neighbour) = (cx.marker(), cx.marker());
    let beside = sandbox.start(cx.probes().hang(&neighbour).timeout(cx.secs(3000))).await?;
    let process = sandbox.start(cx.probes().output_then_hang("some", &victim).timeout(cx.secs(3000))).await?;
    cx.appears(&sandbox, &neighbour).await?;
    cx.appears(&sandbox, &victim).await?;
    act(process).await?;
    cx.vanishes(&sandbox, &victim).await?;
    ensure!(cx.alive(&sandbox, &neighbour).await? > 0, "the neighbour {neighbour} died too");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    drop(beside);
    Ok(())
}

async fn next_is_cancel_safe(cx: &Ctx) -> Done {
    const LINES: usize = 60;
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().cat().pipe()).await?;
    let (mut seen, mut dropped, mut written, mut status) = (Vec::new(), 0, 0, None);
    let until = Instant::now() + cx.secs(60);
    while status.is_none() {
        ensure!(Instant::now() < until, "it does not end");
        // Polled once and dropped: certainly before anything was written, and mostly between the lines.
        match tokio::time::timeout(Duration::ZERO, process.next()).await {
            Err(_) => dropped += 1,
            Ok(event) => match event? {
                Some(ProcessEvent::Stdout(bytes)) => seen.extend_from_slice(&bytes),
                Some(ProcessEvent::Exited(exited)) => status = Some(exited),
                other => fail!("expected output or the end, got {other:?}"),
            },
        }
        if written < LINES {
            cx.within(20, "write", process.write(format!("line {written}\n"))).await??;
            written += 1;
        } else {
            process.close_stdin();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(dropped > 0, "no `next` was ever dropped");
    let expected: String = (0..LINES).map(|n| format!("line {n}\n")).collect();
    expect_eq!(String::from_utf8_lossy(&seen), expected, "what was seen by a reader who dropped {dropped} looks");
    expect_eq!(status, Some(Status::Code(0)), "the status");
    Ok(())
}

async fn a_slow_reader(cx: &Ctx) -> Done {
    const SIZE: u64 = 100 << 20;
    let sandbox = cx.sandbox().await?;
    let mut slow = sandbox.start(cx.probes().flood(SIZE).timeout(cx.secs(3000))).await?;
    // Until nothing moves any more: everything between here and there is full.
    let mut pulled = cx.meddling().calls(Point::Next);
    loop {
        cx.sleep(Duration::from_millis(500)).await;
        let now = cx.meddling().calls(Point::Next);
        if std::mem::replace(&mut pulled, now) == now {
            break;
        }
    }
    for _ in 0..3 {
        let beside = cx.within(20, "a command beside a slow reader", sandbox.run(cx.probes().echo("beside"))).await??;
        expect_eq!(beside.stdout.text(), "beside\n", "echo beside a slow reader");
    }
    let (mut bytes, mut pieces) = (0, 0_u32);
    let mut status = None;
    let reading = async {
        while let Some(event) = slow.next().await? {
            match event {
                ProcessEvent::Stdout(piece) => {
                    ensure!(piece.iter().all(|byte| *byte == b'x'), "other bytes came than were written");
                    bytes += piece.len() as u64;
                    pieces += 1;
                    if pieces < 20 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                ProcessEvent::Exited(exited) => status = Some(exited),
                other => fail!("expected output, got {other:?}"),
            }
        }
        Ok(())
    };
    cx.within(100, "the slow reader", reading).await??;
    expect_eq!((bytes, status), (SIZE, Some(Status::Code(3))), "bytes that the slow reader got, and the status");
    Ok(())
}

async fn holds_back(cx: &Ctx) -> Done {
    /// Far more pieces than the engine holds, which bounds their bytes.
    const MANY: usize = 100_000;
    let sandbox = cx.sandbox().await?;
    let before = cx.meddling().calls(Point::Next);
    let pulled = || cx.meddling().calls(Point::Next) - before;
    let mut process = sandbox.start(cx.probes().endless().timeout(cx.secs(3000))).await?;
    let (mut last, mut still) = (0, 0);
    // Half a second without a piece, three times in a row, is standing still.
    while still < 3 {
        cx.sleep(Duration::from_millis(500)).await;
        still = if pulled() == last { still + 1 } else { 0 };
        last = pulled();
        ensure!(last < MANY, "nobody reads, and {last} pieces of output were taken from the backend all the same");
    }
    // The control: with a reader, it goes on and on.
    let reading = async {
        while pulled() < last * 2 + 1000 {
            match process.next().await? {
                Some(ProcessEvent::Stdout(_)) => {}
                other => fail!("a program that writes for ever: expected output, got {other:?}"),
            }
        }
        Ok(())
    };
    cx.within(60, "output of a program that writes for ever", reading).await??;
    cx.note(format_args!("{last} pieces while nobody read"));
    Ok(())
}

async fn memory_is_bounded(cx: &Ctx) -> Done {
    measure::bounded(cx, measure::Job::SlowReader).await
}

async fn a_cut_connection(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let (sandbox, marker) = (world.sandbox().await?, world.marker());
    expect_eq!(world.text(&sandbox, world.probes().echo("control")).await?, "control", "echo before");
    let cut = Error::new(ErrorKind::ConnectionLost, "cut by the contract suite");
    world.meddling().set(Point::Next, Fault::Fail(cut));
    let run = world.within(60, "a run whose wire is cut", sandbox.run(world.probes().hang(&marker))).await?;
    let error = expect_kind!(run, ConnectionLost, "a run whose wire is cut");
    ensure!(error.may_have_applied(), "the command ran, and the error denies it: {error:?}");
    ensure!(error.to_string().contains("cut by the contract suite"), "the wire's words are lost: {error}");
    let quick = world.within(60, "a quick run whose wire is cut", sandbox.run(world.probes().succeed())).await?;
    ensure!(quick.is_err(), "an end that nobody saw passes for one: {quick:?}");
    world.meddling().clear();
    // What may still run, and nobody hears of, is dead.
    if world.has(KillOne) {
        world.vanishes(&sandbox, &marker).await?;
    } else {
        let run = world.within(60, "run afterwards", sandbox.run(world.probes().echo("x"))).await?;
        expect_kind!(run, Gone, "run after a command that could only be ended with its sandbox");
    }
    drop(sandbox);
    world.end().await
}

async fn a_failure_to_start(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    match cx.within(30, "start", sandbox.start(Command::new("contract-no-such-program"))).await? {
        Err(error) => expect_eq!(error.kind(), ErrorKind::ProgramNotFound, "the kind of {error:?}"),
        // Where the backend cannot tell, it is the code of a shell.
        Ok(mut process) => {
            let status = cx.within(30, "wait", process.wait()).await??;
            expect_eq!(status, Status::Code(127), "the status of a program that is not there");
        }
    }
    let start = cx.within(30, "start", sandbox.start(cx.probes().echo("x").cwd("/contract-no-such-dir"))).await?;
    let error = expect_kind!(start, PathNotFound, "start in a directory that is not there");
    ensure!(!error.may_have_applied(), "nothing ran, and the error denies it: {error:?}");
    // A failed start is the end of nothing else.
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

async fn a_kill(cx: &Ctx) -> Done {
    ends(cx, async |mut process| {
        let fate = cx.within(30, "kill", process.kill()).await??;
        expect_eq!(fate, Fate::Dead, "the fate that `kill` tells");
        let ended = cx.within(30, "wait after kill", process.wait()).await?;
        ensure!(!matches!(ended, Ok(Status::Code(0))), "a killed command succeeded");
        expect_eq!(cx.within(30, "the second kill", process.kill()).await??, Fate::Dead, "the second kill");
        Ok(())
    })
    .await
}

async fn a_kill_of_a_tree(cx: &Ctx) -> Done {
    type Shape = fn(&Ctx, &str) -> Command;
    const SHAPES: [(&str, Shape); 5] = [
        ("a child", |cx, marker| cx.probes().spawn_child(marker)),
        ("a grandchild", |cx, marker| cx.probes().spawn_grandchild(marker)),
        ("a child in its own session", |cx, marker| cx.probes().setsid_child(marker)),
        ("a double-forked daemon", |cx, marker| cx.probes().daemonize_then_hang(marker)),
        ("a program that ignores TERM", |cx, marker| cx.probes().term_ignorer(marker)),
    ];
    let (sandbox, neighbour) = (cx.sandbox().await?, cx.marker());
    let beside = sandbox.start(cx.probes().hang(&neighbour).timeout(cx.secs(3000))).await?;
    for (what, shape) in SHAPES {
        let marker = cx.marker();
        let mut process = sandbox.start(shape(cx, &marker).timeout(cx.secs(3000))).await?;
        cx.appears(&sandbox, &marker).await.map_err(|stop| stop.during(what))?;
        expect_eq!(cx.within(30, "kill", process.kill()).await??, Fate::Dead, "the fate of {what}");
        cx.vanishes(&sandbox, &marker).await.map_err(|stop| stop.during(what))?;
    }
    ensure!(cx.alive(&sandbox, &neighbour).await? > 0, "the neighbour {neighbour} died too");
    drop(beside);
    Ok(())
}

async fn term(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().term_reporter(&marker).timeout(cx.secs(3000))).await?;
    some_output(cx, &mut process).await?;
    cx.within(20, "TERM", process.signal(Signal::Terminate)).await??;
    let output = cx.within(30, "the end after TERM", process.output()).await??;
    expect_eq!((&*output.stdout.text(), output.status), ("got TERM\n", Status::Code(0)), "what it says and its status");
    let late = cx.within(20, "TERM after the end", process.signal(Signal::Terminate)).await?;
    expect_kind!(late, WrongState, "TERM after the end");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

async fn signals(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        let marker = cx.marker();
        let mut process = sandbox.start(cx.probes().output_then_hang("runs", &marker).timeout(cx.secs(3000))).await?;
        some_output(cx, &mut process).await?;
        cx.appears(&sandbox, &marker).await?;
        cx.within(20, "a signal", process.signal(signal)).await??;
        let status = cx.within(30, "the end after a signal", process.wait()).await??;
        expect_eq!(status.as_code(), 128 + signal.number(), "the status after {signal:?}");
        cx.vanishes(&sandbox, &marker).await?;
        let late = cx.within(20, "a signal after the end", process.signal(signal)).await?;
        expect_kind!(late, WrongState, "{signal:?} after the end");
    }
    // Only a kill reaches the tree; a signal is for the program.
    let marker = cx.marker();
    let mut process = sandbox.start(cx.probes().spawn_child(&marker).timeout(cx.secs(3000))).await?;
    cx.appears(&sandbox, &marker).await?;
    cx.within(20, "a signal", process.signal(Signal::Kill)).await??;
    cx.within(30, "the end after KILL", process.wait()).await??;
    if cx.has(Background) {
        ensure!(cx.alive(&sandbox, &marker).await? > 0, "a signal to the program ended its child too");
    }
    Ok(())
}
