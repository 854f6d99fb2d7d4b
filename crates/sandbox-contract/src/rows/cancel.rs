//! Rows of the area `cancel`: whoever leaves, however he leaves, leaves nothing running.
//!
//! Where `KILL_ONE` is declared, exactly the command is dead, its neighbour lives and the sandbox is usable. Elsewhere the
//! sandbox has ended, and says so.

use super::lifecycle::all;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
};
use sandbox::{Limits, ProcessEvent, Sandbox};
use sandbox_core::{
    Capability::{KillOne, Labels, Run, Stdin, Stream},
    ErrorKind, SandboxId,
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    task::Poll,
    time::Duration,
};
use tokio::{runtime, time::Instant};

pub(crate) static ROWS: &[Row] = &[
    row!("cancel::a_dropped_run_kills_its_command", a_dropped_run).needs(&[Run]),
    row!("cancel::a_dropped_process_kills_its_command", a_dropped_process).needs(&[Run]),
    row!("cancel::a_process_dropped_midway_through_its_output", a_process_dropped_midway).needs(&[Run, Stream]),
    row!("cancel::a_process_dropped_midway_through_its_input", a_process_dropped_with_open_stdin).needs(&[Run, Stdin]),
    row!("cancel::an_aborted_task_kills_its_command", an_aborted_task).needs(&[Run]),
    row!("cancel::a_lost_select_kills_its_command", a_lost_select).needs(&[Run]),
    row!("cancel::a_runtime_that_shuts_down_kills_its_commands", a_runtime_that_shuts_down).needs(&[Run]),
    row!("cancel::unwinding_kills_its_command", unwinding).needs(&[Run]),
    row!("cancel::a_handle_dropped_without_a_runtime_kills_its_command", without_a_runtime).needs(&[Run]),
    row!("cancel::a_create_that_is_never_polled_sends_nothing", a_create_that_is_never_polled).facade(),
    row!("cancel::a_create_dropped_at_any_point_leaves_nothing", a_create_dropped_at_any_point).limit(400),
    row!("cancel::a_create_dropped_after_its_answer_leaves_nothing", a_create_dropped_after_its_answer),
    row!("cancel::a_dropped_close_still_destroys", a_dropped_close).needs(&[Run]),
    row!("cancel::a_hanging_teardown_returns_at_its_limit_and_is_reported", a_hanging_teardown).facade(),
    row!("cancel::the_last_handle_returns_at_the_grace_of_a_hanging_teardown", the_last_handle_of_a_hanging_teardown)
        .facade()
        .serial(),
    row!("cancel::close_while_commands_run_ends_them_as_gone", close_while_commands_run).needs(&[Run]),
    row!("cancel::close_during_close_is_one_end", close_during_close).facade(),
    row!("cancel::fifty_dropped_at_once_leave_nothing", fifty_dropped_at_once).limit(400),
];

async fn a_dropped_run(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let mut run = Box::pin(sandbox.run(cx.probes().hang(marker)));
        beside(cx, &sandbox, marker, &mut run).await?;
        drop(run);
        Ok(())
    })
    .await
}

async fn a_dropped_process(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let process = sandbox.start(cx.probes().hang(marker)).await?;
        cx.appears(&sandbox, marker).await?;
        drop(process);
        Ok(())
    })
    .await
}

async fn a_process_dropped_midway(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let mut process = sandbox.start(cx.probes().output_then_hang("midway", marker)).await?;
        let event = cx.within(30, "the first output", process.next()).await??;
        let Some(ProcessEvent::Stdout(bytes)) = event else { fail!("expected output, got {event:?}") };
        ensure!(b"midway\n".starts_with(&bytes[..]), "the first output: {bytes:?}");
        cx.appears(&sandbox, marker).await?;
        // A `next` that is dropped is no cancel of the command, the drop of the process is.
        let next = tokio::time::timeout(Duration::from_millis(300), process.next()).await;
        ensure!(!matches!(next, Ok(Ok(None | Some(ProcessEvent::Exited(_))))), "it ended by itself: {next:?}");
        drop(process);
        Ok(())
    })
    .await
}

async fn a_process_dropped_with_open_stdin(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let process = sandbox.start(cx.probes().hang(marker).pipe()).await?;
        cx.within(30, "write", process.write("some of it")).await??;
        cx.appears(&sandbox, marker).await?;
        drop(process);
        Ok(())
    })
    .await
}

async fn an_aborted_task(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let (other, command) = (sandbox.clone(), cx.probes().hang(marker));
        let runtime = on_another_thread(async move { other.run(command).await.map(|output| output.code()) })?;
        cx.appears(&sandbox, marker).await?;
        runtime.abort();
        match cx.within(30, "the aborted task", runtime.joined()).await? {
            // Cancellation is the runtime's word; an error of ours never stands for it.
            Err(error) if error.is_cancelled() => Ok(()),
            other => fail!("an aborted task ended as {other:?}"),
        }
    })
    .await
}

async fn a_lost_select(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let run = sandbox.run(cx.probes().hang(marker));
        tokio::select! {
            biased;
            ended = run => fail!("it ended by itself: {ended:?}"),
            seen = cx.appears(&sandbox, marker) => seen,
        }
    })
    .await
}

async fn a_runtime_that_shuts_down(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let (other, command) = (sandbox.clone(), cx.probes().hang(marker));
        let runtime = on_another_thread(async move { other.run(command).await.map(|output| output.code()) })?;
        cx.appears(&sandbox, marker).await?;
        drop(runtime);
        Ok(())
    })
    .await
}

async fn unwinding(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let process = sandbox.start(cx.probes().hang(marker)).await?;
        cx.appears(&sandbox, marker).await?;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _held = process;
            // Not `panic!`: the hook would print a trace for what is meant.
            resume_unwind(Box::new("unwinding"));
        }));
        ensure!(panic.is_err(), "there was no panic");
        Ok(())
    })
    .await
}

async fn without_a_runtime(cx: &Ctx) -> Done {
    killed(cx, async |sandbox, marker| {
        let process = sandbox.start(cx.probes().hang(marker)).await?;
        cx.appears(&sandbox, marker).await?;
        let thread = std::thread::spawn(move || drop(process));
        let until = Instant::now() + cx.secs(20);
        while !thread.is_finished() {
            ensure!(Instant::now() < until, "the drop does not return");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ensure!(thread.join().is_ok(), "the drop panicked");
        Ok(())
    })
    .await
}

/// Starts and cancels a victim by `act`, and looks what became of it.
async fn killed(cx: &Ctx, act: impl AsyncFnOnce(Sandbox, &str) -> Done) -> Done {
    let sandbox = cx.sandbox().await?;
    let (victim, neighbour) = (cx.marker(), cx.marker());
    if !cx.has(KillOne) {
        act(sandbox.clone(), &victim).await?;
        return ended(cx, &sandbox).await;
    }
    let beside = sandbox.start(cx.probes().hang(&neighbour)).await?;
    cx.appears(&sandbox, &neighbour).await?;
    act(sandbox.clone(), &victim).await?;
    cx.vanishes(&sandbox, &victim).await?;
    ensure!(cx.alive(&sandbox, &neighbour).await? > 0, "the neighbour {neighbour} died too");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    drop(beside);
    Ok(())
}

/// The whole sandbox ends, and says why.
async fn ended(cx: &Ctx, sandbox: &Sandbox) -> Done {
    let until = Instant::now() + cx.secs(40);
    let error = loop {
        match cx.within(60, "run afterwards", sandbox.run(cx.probes().echo("x"))).await? {
            Err(error) if error.kind() == ErrorKind::Gone => break error,
            Err(error) => fail!("run afterwards: expected `gone`, got {error:?}"),
            Ok(_) => {
                ensure!(Instant::now() < until, "without KILL_ONE the sandbox has to end, and it still runs commands")
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    ensure!(
        error.to_string().contains("command"),
        "the error does not say that a command took the sandbox along: {error}"
    );
    if cx.can_count() {
        cx.settles_at(0, "after a command that could only be ended with its sandbox").await?;
    }
    cx.within(60, "close afterwards", sandbox.close()).await??;
    Ok(())
}

/// Polls a run until its command is seen.
async fn beside<T: std::fmt::Debug>(
    cx: &Ctx,
    sandbox: &Sandbox,
    marker: &str,
    run: &mut (impl Future<Output = T> + Unpin),
) -> Done {
    tokio::select! {
        biased;
        ended = run => fail!("it ended by itself: {ended:?}"),
        seen = cx.appears(sandbox, marker) => seen,
    }
}

/// A runtime of a caller's, with one task on it.
struct Elsewhere<T> {
    task: Option<tokio::task::JoinHandle<T>>,
    driver: Option<std::thread::JoinHandle<()>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

fn on_another_thread<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<Elsewhere<T>, Stop> {
    let failed = |error: std::io::Error| Stop::fail(format_args!("no runtime: {error}"));
    // The caller's is a current-thread one, the poorest there is.
    let runtime = runtime::Builder::new_current_thread().build().map_err(failed)?;
    let task = runtime.spawn(work);
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let driver = std::thread::Builder::new().name("contract-caller".into()).spawn(move || {
        runtime.block_on(async { _ = stopping.await });
        // Shut down with the task still on it.
        drop(runtime);
    });
    Ok(Elsewhere { task: Some(task), driver: Some(driver.map_err(failed)?), stop: Some(stop) })
}

impl<T> Elsewhere<T> {
    fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    async fn joined(mut self) -> Result<T, tokio::task::JoinError> {
        let task = self.task.take().expect("joined once");
        task.await
    }
}

impl<T> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(driver) = self.driver.take() {
            _ = driver.join();
        }
    }
}

async fn a_create_that_is_never_polled(cx: &Ctx) -> Done {
    let creates = cx.creates();
    drop(cx.client().create(cx.spec()));
    tokio::time::sleep(cx.secs(1)).await;
    cx.nothing_provisioned(creates, "a create that was never polled")?;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes");
    }
    Ok(())
}

/// Drops the work at a point in time. Timers count whole milliseconds, so an earlier cut is after the first poll.
async fn cut<T>(at: Duration, work: impl Future<Output = T>) -> Result<T, ()> {
    if at >= Duration::from_millis(1) {
        return tokio::time::timeout(at, work).await.map_err(drop);
    }
    let mut work = pin!(work);
    match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => Err(()),
    }
}

async fn a_create_dropped_at_any_point(cx: &Ctx) -> Done {
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    // How long a create takes here, so that the cuts fall before, into and behind it.
    let begun = Instant::now();
    let sandbox = cx.sandbox().await?;
    let whole = begun.elapsed().clamp(Duration::from_millis(2), Duration::from_secs(20));
    expect_eq!(cx.count().await?, 1, "sandboxes, the control");
    sandbox.close().await?;
    let mut answered = 0;
    for part in 0..CUTS {
        // Spread over 1.25 times the whole, in an order that is not the order of time.
        let at = whole.mul_f64(f64::from(part * 7 % CUTS) * 1.25 / f64::from(CUTS));
        match cut(at, cx.client().create(cx.spec())).await {
            Ok(Ok(sandbox)) => {
                answered += 1;
                drop(sandbox);
            }
            Ok(Err(error)) => return Err(Stop::from(error).during("a create that was not cut")),
            Err(_) => {}
        }
    }
    cx.note(format!("{CUTS} creates, cut within {:?}; {answered} answered before their cut", whole.mul_f64(1.25)));
    ensure!(answered < CUTS, "no create was cut");
    cx.settles_at(0, "after creates that were cut").await?;
    // What comes late comes now.
    cx.within(120, "close of the client", cx.client().close()).await??;
    tokio::time::sleep(cx.secs(2)).await;
    expect_eq!(cx.count().await?, 0, "sandboxes that came late");
    forgive_doubts(cx)
}

/// A name in doubt is reported although it was destroyed until quiet: that is right, and no leak.
fn forgive_doubts(cx: &Ctx) -> Done {
    for orphan in cx.client().orphans() {
        ensure!(
            orphan.marker.is_some() && !orphan.backend.is_empty(),
            "a report without marker or backend: {orphan:?}"
        );
    }
    cx.orphans_are_fine();
    Ok(())
}

const CUTS: u32 = 40;

async fn a_create_dropped_after_its_answer(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let mut create = Box::pin(world.client().create(world.spec()));
    let until = Instant::now() + cx.secs(90);
    // Polled until the adapter has answered, and not once more.
    while world.meddling().calls(Point::Created) == 0 {
        if tokio::time::timeout(Duration::from_millis(2), &mut create).await.is_ok() {
            break;
        }
        ensure!(Instant::now() < until, "the create has no answer");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(create);
    if !world.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    world.settles_at(0, "after a create that was dropped with its answer").await?;
    world.end().await
}

async fn a_dropped_close(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().echo("control")).await?;
    let keep = sandbox.clone();
    {
        let mut close = Box::pin(sandbox.close());
        // Polled once, then dropped.
        _ = tokio::time::timeout(Duration::ZERO, &mut close).await;
    }
    expect_kind!(keep.run(cx.probes().echo("x")).await, Gone, "run after a close that was dropped");
    if cx.can_count() {
        cx.settles_at(0, "after a close that was dropped, with a handle still held").await?;
    }
    cx.within(60, "close again", keep.close()).await??;
    Ok(())
}

async fn a_hanging_teardown(cx: &Ctx) -> Done {
    let limit = cx.pace().await?.secs(3);
    let world = cx.limited(Limits::new().teardown(limit))?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Destroy, Fault::Hang);
    let begun = Instant::now();
    let closed = cx.within(60, "a close that hangs", sandbox.close()).await?;
    expect_kind!(closed, TeardownTimeout, "a close that hangs");
    ensure!(begun.elapsed() >= limit, "it gave up before its limit, after {:?}", begun.elapsed());
    let orphans = world.client().orphans();
    let Some(orphan) = orphans.iter().find(|orphan| orphan.id.as_ref() == Some(sandbox.id())) else {
        fail!("not reported: {orphans:?}")
    };
    expect_eq!(orphan.backend, world.facts().name(), "the backend of the report");
    if world.has(Labels) {
        for (name, value) in world.labels() {
            expect_eq!(orphan.labels.get(name), Some(value), "label {name} of the report");
        }
    }
    ensure!(orphan.to_string().contains(sandbox.id().as_str()), "the report's text does not name it: {orphan}");
    reap(&world, sandbox).await
}

async fn reap(world: &crate::ctx::World, sandbox: Sandbox) -> Done {
    let id: SandboxId = sandbox.id().clone();
    world.meddling().clear();
    world.client().destroy(id.as_str()).await?;
    Ok(())
}

async fn the_last_handle_of_a_hanging_teardown(cx: &Ctx) -> Done {
    let pace = cx.pace().await?;
    let grace = pace.secs(2);
    let world = cx.limited(Limits::new().drop_grace(grace).teardown(pace.secs(6)))?;
    let sandbox = world.sandbox().await?;
    let id = sandbox.id().clone();
    world.meddling().set(Point::Destroy, Fault::Hang);
    let begun = Instant::now();
    let thread = std::thread::spawn(move || {
        drop(sandbox);
        drop(world);
    });
    let until = Instant::now() + cx.secs(40);
    while !thread.is_finished() {
        ensure!(Instant::now() < until, "the last handle waits for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(thread.join().is_ok(), "the drop of the last handle panicked");
    let took = begun.elapsed();
    ensure!(took >= grace.mul_f64(0.9), "the last handle did not wait for its grace, but {took:?}");
    ensure!(took < grace + cx.secs(20), "the last handle waited {took:?}, its grace is {grace:?}");
    // It is still there; a client without faults ends it.
    cx.client().destroy(id.as_str()).await?;
    Ok(())
}

async fn close_while_commands_run(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let (one, two) = (cx.marker(), cx.marker());
    let mut process = sandbox.start(cx.probes().hang(&one)).await?;
    let mut run = Box::pin(sandbox.run(cx.probes().hang(&two)));
    cx.appears(&sandbox, &one).await?;
    beside(cx, &sandbox, &two, &mut run).await?;
    let (ran, closed) =
        cx.within(90, "close beside two commands", async { tokio::join!(run, sandbox.close()) }).await?;
    closed?;
    let error = expect_kind!(ran, Gone, "a run across close");
    ensure!(error.to_string().contains("closed"), "it does not say why: {error}");
    let waited = cx.within(30, "wait", process.wait()).await?;
    expect_kind!(waited, Gone, "a process across close");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes after close");
    }
    Ok(())
}

async fn close_during_close(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let destroys = cx.meddling().calls(Point::Destroy);
    let handles: Vec<_> = (0..8).map(|_| sandbox.clone()).collect();
    let closes = handles.iter().map(|handle| Box::pin(handle.close())).collect();
    for closed in cx.within(90, "eight closes", all(closes)).await? {
        closed?;
    }
    expect_eq!(cx.meddling().calls(Point::Destroy) - destroys, 1, "destroys of eight closes at once");
    Ok(())
}

async fn fifty_dropped_at_once(cx: &Ctx) -> Done {
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    let creates = (0..50).map(|_| Box::pin(cx.sandbox())).collect();
    let mut sandboxes = Vec::new();
    for made in all(creates).await {
        sandboxes.push(made?);
    }
    expect_eq!(cx.count().await?, 50, "sandboxes while all live");
    drop(sandboxes);
    cx.within(120, "close of the client", cx.client().close()).await??;
    cx.settles_at(0, "after fifty were dropped at once").await
}
