//! Rows of the area `timeout`: nothing goes on for longer than it may, and what is ended is dead.

use crate::{
    Ctx,
    ctx::{Pace, World},
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
    rows::lifecycle::all,
};
use bytes::Bytes;
use sandbox::{Command, Limits, Output, ProcessEvent, Sandbox};
use sandbox_core::{
    Capability::{Attach, Deadline, Files, KillOne, Labels, List, ProcessTree, Run, Stdin, StdinWhole, Stream, Term},
    Error, ErrorKind, Fate, Query, Result, Status,
};
use std::{fmt::Debug, future::Future, time::Duration};
use tokio::time::Instant;

pub(crate) static ROWS: &[Row] = &[
    row!("timeout::fires_after_its_deadline_and_not_much_later", fires).needs(&[Run]).serial(),
    row!("timeout::tells_partial_output_and_fate", tells_partial_output_and_fate).needs(&[Run, Stream]),
    row!("timeout::afterwards_the_sandbox_is_usable_or_gone", afterwards).needs(&[Run]),
    row!("timeout::spares_the_neighbours", spares_the_neighbours).needs(&[Run, KillOne]).serial(),
    row!("timeout::reaches_the_whole_tree", reaches_the_whole_tree).needs(&[Run, KillOne, ProcessTree]).serial(),
    row!("timeout::none_inherits_that_of_the_spec", none_inherits).needs(&[Run]),
    row!("timeout::zero_and_too_long_are_refused", zero_and_too_long).facade().needs(&[Run]),
    row!("timeout::holds_for_a_command_that_is_read", holds_while_read).needs(&[Run, Stream]),
    row!("timeout::holds_for_a_command_that_nobody_reads", holds_unread).needs(&[Run, Stream]),
    row!("timeout::holds_for_a_command_that_takes_no_input", holds_in_input).needs(&[Run, Stdin]),
    row!("timeout::holds_for_a_command_that_ignores_its_input", holds_with_input).needs(&[Run, StdinWhole]),
    row!("timeout::holds_while_a_command_starts", holds_while_starting).facade().needs(&[Run]),
    row!("timeout::files_that_never_answer_are_operation_timeout", silent_files).facade().needs(&[Run, Files]),
    row!("timeout::a_list_that_never_answers_is_operation_timeout", silent_list).facade().needs(&[List, Labels]),
    row!("timeout::an_attach_that_never_answers_is_operation_timeout", silent_attach).facade().needs(&[Attach]),
    row!("timeout::grace_sends_term_first", grace_sends_term_first).needs(&[Run, Stream, Term, KillOne]).serial(),
    row!("timeout::without_grace_nothing_is_asked", without_grace).needs(&[Run, Stream, Term]),
    row!("timeout::fires_inside_with_everybody_outside_stalled", fires_inside)
        .needs(&[Run, Deadline, KillOne])
        .serial(),
    row!("timeout::a_program_that_ended_before_it_is_no_timeout", ended_before).needs(&[Run]),
];

/// Long enough to see that a command runs: short on a clock that really passes. On one that jumps when nothing happens, a
/// short time is over before a busy machine has done anything, and a long one costs nothing.
async fn short_timeout(cx: &Ctx) -> Duration {
    let begun = Instant::now();
    cx.client().sleep(Duration::from_millis(200)).await;
    Duration::from_secs(if begun.elapsed() < Duration::from_millis(100) { 200 } else { 3 })
}

/// How much later than its deadline a command may be heard of, on a machine that is busy.
const MARGIN: Duration = Duration::from_secs(20);

async fn fires(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let timeout = cx.scale(short);
    let mut run = Box::pin(sandbox.run(cx.probes().hang(&marker).timeout(timeout)));
    cx.outlasts(short.mul_f64(0.8), "a command with a timeout", &mut run).await?;
    let ended = cx.by_clock(short + MARGIN, "a command after its deadline", run).await?;
    expect_timeout(ended, "a command after its deadline").map(drop)
}

async fn tells_partial_output_and_fate(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let command = cx.probes().output_then_hang("before the end", &marker).timeout(cx.scale(short));
    let ended = cx.by_clock(short + MARGIN, "a command after its deadline", sandbox.run(command)).await?;
    let error = expect_timeout(ended, "a command after its deadline")?;
    let Some(partial) = error.output() else { fail!("the error holds no output: {error:?}") };
    expect_eq!(partial.stdout.text(), "before the end\n", "stdout in the error");
    expect_eq!(partial.stderr.text(), "", "stderr in the error");
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    ensure!(error.may_have_applied(), "the command ran, and the error denies it: {error:?}");
    Ok(())
}

async fn afterwards(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    // Where it can be seen from outside, that it lived is seen.
    let mut process = sandbox.start(cx.probes().hang(&marker).timeout(cx.scale(short * 2))).await?;
    cx.appears(&sandbox, &marker).await?;
    let ended = cx.by_clock(short * 2 + MARGIN, "a command after its deadline", process.wait()).await?;
    expect_timeout(ended, "a command after its deadline")?;
    expect_timeout(process.wait().await, "the same asked again")?;
    if cx.has(KillOne) {
        cx.vanishes(&sandbox, &marker).await?;
        expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo right after the timeout");
        return Ok(());
    }
    gone(cx, &sandbox).await?;
    if cx.hooks().survivors.is_some() {
        expect_eq!(cx.survivors(sandbox.id(), &marker).await?, 0, "processes that survived, seen from outside");
    }
    Ok(())
}

/// Without `KILL_ONE` the sandbox ends with its command, and says why.
async fn gone(cx: &Ctx, sandbox: &Sandbox) -> Done {
    let run = cx.within(60, "run after the timeout", sandbox.run(cx.probes().echo("x"))).await?;
    let error = expect_kind!(run, Gone, "run after a timeout that only the end of the sandbox could keep");
    ensure!(
        error.to_string().contains("command"),
        "the error does not say that a command took the sandbox along: {error}"
    );
    if cx.can_count() {
        cx.settles_at(0, "after a timeout that only the end of the sandbox could keep").await?;
    }
    Ok(())
}

async fn spares_the_neighbours(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let sandbox = cx.sandbox().await?;
    let (victim, neighbour) = (cx.marker(), cx.marker());
    let beside = sandbox.start(cx.probes().hang(&neighbour).timeout(cx.secs(3000))).await?;
    cx.appears(&sandbox, &neighbour).await?;
    let mut process = sandbox.start(cx.probes().hang(&victim).timeout(cx.scale(short * 2))).await?;
    cx.appears(&sandbox, &victim).await?;
    let ended = cx.by_clock(short * 2 + MARGIN, "a command after its deadline", process.wait()).await?;
    expect_timeout(ended, "a command after its deadline")?;
    // Usable at once, before anything else is looked at.
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo right after the timeout");
    cx.vanishes(&sandbox, &victim).await?;
    ensure!(cx.alive(&sandbox, &neighbour).await? > 0, "the neighbour {neighbour} died too");
    drop(beside);
    cx.vanishes(&sandbox, &neighbour).await
}

async fn reaches_the_whole_tree(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    type Shape = fn(&Ctx, &str) -> Command;
    const SHAPES: [(&str, Shape); 5] = [
        ("a child", |cx, marker| cx.probes().spawn_child(marker)),
        ("a grandchild", |cx, marker| cx.probes().spawn_grandchild(marker)),
        ("a child in its own session", |cx, marker| cx.probes().setsid_child(marker)),
        ("a double-forked daemon", |cx, marker| cx.probes().daemonize_then_hang(marker)),
        ("a program that ignores TERM", |cx, marker| cx.probes().term_ignorer(marker)),
    ];
    let (sandbox, timeout) = (cx.sandbox().await?, short * 3);
    let neighbour = cx.marker();
    let beside = sandbox.start(cx.probes().hang(&neighbour).timeout(cx.secs(3000))).await?;
    let mut started = Vec::new();
    for (what, shape) in SHAPES {
        let marker = cx.marker();
        let process = sandbox.start(shape(cx, &marker).timeout(cx.scale(timeout))).await?;
        cx.appears(&sandbox, &marker).await.map_err(|stop| stop.during(what))?;
        started.push((what, marker, process));
    }
    for (what, _, process) in &mut started {
        let ended = cx.by_clock(timeout + MARGIN, what, process.wait()).await?;
        expect_timeout(ended, what)?;
    }
    for (what, marker, _) in &started {
        cx.vanishes(&sandbox, marker).await.map_err(|stop| stop.during(what))?;
    }
    cx.appears(&sandbox, &neighbour).await?;
    drop(beside);
    Ok(())
}

async fn none_inherits(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let sandbox = cx.sandbox_of(cx.spec().command_timeout(cx.scale(short))).await?;
    // A command's own wins, be it longer.
    let longer = cx.probes().two_with_pause(u32::try_from(cx.scale(short).as_millis()).unwrap_or(u32::MAX) + 1000);
    let output = cx.run(&sandbox, longer.timeout(cx.scale(short * 3))).await?;
    expect_eq!(output.stdout.text(), "first\nsecond\n", "a command with a timeout of its own");
    let mut run = Box::pin(sandbox.run(cx.probes().hang(cx.marker())));
    cx.outlasts(short.mul_f64(0.8), "a command without a timeout", &mut run).await?;
    let ended = cx.by_clock(short + MARGIN, "a command without a timeout, after the spec's", run).await?;
    expect_timeout(ended, "a command without a timeout, after the spec's").map(drop)
}

async fn zero_and_too_long(cx: &Ctx) -> Done {
    let lifetime = cx.secs(600);
    let sandbox = cx.sandbox_of(cx.spec().lifetime(lifetime)).await?;
    let spawns = cx.meddling().calls(Point::Spawn);
    let longer = lifetime + Duration::from_secs(1);
    for (what, timeout) in [("zero", Duration::ZERO), ("over the lifetime", longer), ("for ever", Duration::MAX)] {
        let run = sandbox.run(cx.probes().echo("x").timeout(timeout)).await;
        let error = expect_kind!(run, InvalidArgument, "a timeout {what}");
        ensure!(error.hint().is_some(), "a timeout {what}: no hint: {error:?}");
    }
    if let Some(most) = cx.facts().longest_command().filter(|most| *most < lifetime) {
        let over = sandbox.run(cx.probes().echo("x").timeout(most + Duration::from_secs(1))).await;
        expect_kind!(over, InvalidArgument, "a timeout over the backend's maximum");
    }
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "commands that were sent");
    let most = cx.facts().longest_command().map_or(lifetime, |most| most.min(lifetime));
    expect_eq!(cx.text(&sandbox, cx.probes().echo("x").timeout(most)).await?, "x", "echo with the longest timeout");
    Ok(())
}

async fn holds_while_read(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let command = cx.probes().output_then_hang("first", &marker).timeout(cx.scale(short));
    let mut process = sandbox.start(command).await?;
    let first = cx.within(20, "the first output", process.next()).await??;
    ensure!(matches!(&first, Some(ProcessEvent::Stdout(bytes)) if bytes.starts_with(b"first")), "first came {first:?}");
    let ended = cx.by_clock(short + MARGIN, "the next output", to_the_end(&mut process)).await?;
    expect_timeout(ended, "a command that is read").map(drop)
}

/// Reads everything; the status comes from the end.
async fn to_the_end(process: &mut sandbox::Process) -> Result<Option<Status>> {
    let mut status = None;
    while let Some(event) = process.next().await? {
        if let ProcessEvent::Exited(exited) = event {
            status = Some(exited);
        }
    }
    Ok(status)
}

async fn holds_unread(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let sandbox = cx.sandbox().await?;
    // It writes for ever, and is held back because nobody reads.
    let mut process = sandbox.start(cx.probes().endless().timeout(cx.scale(short))).await?;
    cx.sleep(short + Duration::from_secs(2)).await;
    let ended = cx.by_clock(short + MARGIN, "a command that nobody reads", process.wait()).await?;
    expect_timeout(ended, "a command that nobody reads").map(drop)
}

async fn holds_in_input(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().hang(&marker).pipe().timeout(cx.scale(short))).await?;
    let Some(input) = process.take_input() else { fail!("a command with a pipe has no input") };
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let writes = async {
        // Until the program's end shows; a program that takes nothing makes the writer wait.
        loop {
            if let Err(error) = input.write(piece.clone()).await {
                break error;
            }
        }
    };
    let both = async { tokio::join!(writes, process.wait()) };
    let (write, ended) = cx.by_clock(short + MARGIN, "a command that takes no input", both).await?;
    expect_timeout(ended, "a command that takes no input")?;
    expect_eq!(write.kind(), ErrorKind::ConnectionLost, "the write that was waiting");
    Ok(())
}

async fn holds_with_input(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let command = cx.probes().hang(&marker).input(vec![b'x'; 8 << 20]).timeout(cx.scale(short));
    let ended = cx.by_clock(short + MARGIN, "a command that ignores its input", sandbox.run(command)).await?;
    expect_timeout(ended, "a command that ignores its input").map(drop)
}

async fn holds_while_starting(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let world = cx.limited(impatient(cx.pace().await?))?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Spawn, Fault::Hang);
    let run = sandbox.run(world.probes().echo("x").timeout(cx.scale(short)));
    let ended = world.within(60, "a command that never starts", run).await?;
    expect_kind!(ended, ExecutionTimeout, "a command that never starts");
    drop(sandbox);
    world.end().await
}

/// The engine's own limits, short.
fn impatient(pace: Pace) -> Limits {
    Limits::new().operation(pace.secs(5)).late(pace.secs(5)).tell(pace.secs(8))
}

async fn silent_files(cx: &Ctx) -> Done {
    let pace = cx.pace().await?;
    silent(cx, pace, "a read", async |sandbox| sandbox.files().read("contract").await.map(|bytes| bytes.len())).await?;
    silent(cx, pace, "a write", async |sandbox| sandbox.files().write("contract", "new").await).await?;
    silent(cx, pace, "a listing", async |sandbox| sandbox.files().list(".").await.map(|all| all.len())).await
}

async fn silent<T: Debug>(cx: &Ctx, pace: Pace, what: &str, act: impl AsyncFnOnce(&Sandbox) -> Result<T>) -> Done {
    let world = cx.limited(impatient(pace))?;
    let sandbox = world.sandbox().await?;
    // The control; it is of no use as a proof of silence that a file is not there.
    sandbox.files().write("contract", "old").await?;
    expect_eq!(sandbox.files().read_text("contract").await?, "old", "the file");
    for point in [Point::Files, Point::Spawn] {
        world.meddling().set(point, Fault::Hang);
    }
    let told = format!("{what}, whose adapter never answers, and which `Limits::operation` has to end");
    let answer = world.within(60, &told, act(&sandbox)).await?;
    expect_kind!(answer, OperationTimeout, "{what} without an answer");
    drop(sandbox);
    world.end().await
}

async fn silent_list(cx: &Ctx) -> Done {
    let world = cx.limited(impatient(cx.pace().await?))?;
    unanswered(&world, Point::List, "a list", world.client().list(Query::new().label("contract.none", "x"))).await?;
    let all = world.client().list(Query::new().label("contract.none", "x")).await?;
    expect_eq!(all.len(), 0, "sandboxes in a list that is answered");
    world.end().await
}

async fn silent_attach(cx: &Ctx) -> Done {
    let world = cx.limited(impatient(cx.pace().await?))?;
    let sandbox = world.sandbox().await?;
    unanswered(&world, Point::Attach, "an attach", world.client().attach(sandbox.id().as_str())).await?;
    drop(world.client().attach(sandbox.id().as_str()).await?);
    drop(sandbox);
    world.end().await
}

async fn unanswered<T: Debug>(world: &World, point: Point, what: &str, act: impl Future<Output = Result<T>>) -> Done {
    world.meddling().set(point, Fault::Hang);
    let answer = world.within(60, what, act).await?;
    let error = expect_kind!(answer, OperationTimeout, "{what} without an answer");
    expect_eq!(error.backend(), Some(world.facts().name()), "the backend that the error names");
    world.meddling().clear();
    Ok(())
}

async fn grace_sends_term_first(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let sandbox = cx.sandbox().await?;
    let (polite, deaf) = (cx.marker(), cx.marker());
    let (timeout, grace) = (cx.scale(short * 4), cx.scale(short * 3));
    let mut process = sandbox.start(cx.probes().term_reporter(&polite).timeout(timeout).grace(grace)).await?;
    ready(cx, &mut process).await?;
    let output = cx.by_clock(short * 4 + MARGIN, "a command that is asked to end", process.output()).await?;
    let output =
        output.map_err(|error| Stop::from(error).during("a command that ends when it is asked is no timeout"))?;
    expect_eq!((&*output.stdout.text(), output.status), ("got TERM\n", Status::Code(0)), "what it says and its status");
    // Who does not listen is killed at the deadline.
    let mut process = sandbox.start(cx.probes().term_ignorer(&deaf).timeout(timeout).grace(grace)).await?;
    cx.appears(&sandbox, &deaf).await?;
    let ended = cx.by_clock(short * 4 + MARGIN, "a command that ignores TERM", process.wait()).await?;
    expect_timeout(ended, "a command that ignores TERM")?;
    cx.vanishes(&sandbox, &deaf).await
}

async fn ready(cx: &Ctx, process: &mut sandbox::Process) -> Done {
    match cx.within(20, "the first output", process.next()).await?? {
        Some(ProcessEvent::Stdout(bytes)) if bytes.starts_with(b"ready") => Ok(()),
        other => fail!("the first output: expected `ready`, got {other:?}"),
    }
}

async fn without_grace(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().term_reporter(&marker).timeout(cx.scale(short))).await?;
    ready(cx, &mut process).await?;
    let ended = cx.by_clock(short + MARGIN, "a command after its deadline", process.output()).await?;
    let error = expect_timeout(ended, "a command after its deadline")?;
    let said = error.output().map(|partial| partial.stdout.text().into_owned()).unwrap_or_default();
    expect_eq!(said, "", "what a program says that was not asked to end");
    Ok(())
}

async fn fires_inside(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    // The engine hears nothing of this command and its kill does not get through, so only the backend can have ended it.
    let world = cx.limited(Limits::new().kill(cx.secs(12)).tell(cx.secs(12)))?;
    let (sandbox, marker) = (world.sandbox().await?, world.marker());
    let asked = world.meddling().calls(Point::Next);
    world.meddling().set(Point::Next, Fault::Hang);
    let process = sandbox.start(world.probes().hang(&marker).timeout(cx.scale(short * 2))).await?;
    let stalled = async {
        while world.meddling().calls(Point::Next) == asked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    world.within(20, "the first look for output", stalled).await?;
    world.meddling().clear();
    world.meddling().set(Point::Kill, Fault::Hang);
    world.appears(&sandbox, &marker).await?;
    world.sleep(short * 2).await;
    world.vanishes(&sandbox, &marker).await?;
    expect_eq!(world.text(&sandbox, world.probes().echo("spared")).await?, "spared", "echo afterwards");
    world.meddling().clear();
    drop(process);
    drop(sandbox);
    world.end().await
}

async fn ended_before(cx: &Ctx) -> Done {
    let short = short_timeout(cx).await;
    let sandbox = cx.sandbox().await?;
    let timeout = cx.secs(10);
    let runs = (1..=4_u32).map(|n| Box::pin(sandbox.run(cx.probes().two_with_pause(n * 300).timeout(timeout))));
    let outputs: Vec<Result<Output>> = cx.within(60, "commands that end in time", all(runs.collect())).await?;
    for output in outputs {
        let output = output?;
        expect_eq!((&*output.stdout.text(), output.code()), ("first\nsecond\n", 0), "a command that ends in time");
    }
    // A deadline that has passed means nothing to a command that is over, nor to its sandbox.
    let mut process = sandbox.start(cx.probes().exit(7).timeout(cx.scale(short))).await?;
    expect_eq!(cx.within(30, "its end", process.wait()).await??, Status::Code(7), "the status");
    cx.sleep(short + Duration::from_secs(2)).await;
    expect_eq!(process.wait().await?, Status::Code(7), "the status, asked after the deadline");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo after the deadline");
    Ok(())
}

/// The error of a command that its deadline ended, whose death was seen.
fn expect_timeout<T: Debug>(ended: Result<T>, what: &str) -> Result<Error, Stop> {
    let error = expect_kind!(ended, ExecutionTimeout, "{what}");
    expect_eq!(error.fate(), Some(Fate::Dead), "{what}: the fate in {error:?}");
    Ok(error)
}
