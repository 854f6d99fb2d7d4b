//! Rows of the area `stream`: running commands that are reached again.

use super::signals::wait_for;
use crate::{
    Ctx,
    ctx::World,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::Point,
    row::{Done, Row, Stop, row},
};
use sandbox::{Limits, Process, ProcessEvent, ProcessId, Reattach, Replay, Sandbox};
use sandbox_core::{
    Capability::{self, Attach, KillOne, Run, Stdin, Stream},
    ErrorKind, Status,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("stream::a_detached_command_runs_on", runs_on).needs(&[Run, Stream, REATTACH, KillOne]),
    row!("stream::reattach_brings_output_as_declared", as_declared).needs(&[Run, Stream, Stdin, REATTACH]),
    row!("stream::two_watchers_see_the_same", two_watchers).needs(&[Run, Stream, Stdin, REATTACH]),
    row!("stream::a_dropped_watcher_leaves_its_command", a_dropped_watcher).needs(&[Run, Stream, REATTACH, KillOne]),
    row!("stream::another_client_reaches_a_running_command", another_client)
        .needs(&[Run, Stream, Stdin, REATTACH, KillOne, Attach]),
    row!("stream::a_detached_command_outlives_its_client", outlives_its_client)
        .needs(&[Run, Stream, REATTACH, KillOne, Attach]),
    row!("stream::a_detached_command_keeps_its_deadline", keeps_its_deadline).needs(&[Run, Stream, REATTACH, KillOne]),
    row!("stream::an_ended_command_is_told_or_not_found", an_ended_command).needs(&[Run, Stream, REATTACH]),
    row!("stream::reattach_to_an_unknown_command_is_not_found", an_unknown_command).needs(&[Run, Stream, REATTACH]),
    row!("stream::close_ends_a_detached_command", close_ends_it).needs(&[Run, Stream, REATTACH]),
];

const REATTACH: Capability = Capability::Reattach;

/// A command that was left to itself, and has shown its marker.
async fn detached(world: &World, sandbox: &Sandbox, marker: &str) -> Result<ProcessId, Stop> {
    let process = sandbox.start(world.probes().hang(marker).timeout(world.secs(3000))).await?;
    world.appears(sandbox, marker).await?;
    let named = process.id();
    let id = process.detach().await?;
    expect_eq!(Some(&id), named.as_ref(), "the id that detach gives");
    Ok(id)
}

async fn reached(world: &World, sandbox: &Sandbox, id: &ProcessId) -> Result<Process, Stop> {
    Ok(world.within(20, "reattach", sandbox.reattach(Reattach::new(id.clone()))).await??)
}

async fn runs_on(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let kills = cx.meddling().calls(Point::Kill);
    let id = detached(cx, &sandbox, &marker).await?;
    tokio::time::sleep(cx.secs(1)).await;
    expect_eq!(cx.meddling().calls(Point::Kill), kills, "kills after detach");
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "a detached command died");
    let mut process = reached(cx, &sandbox, &id).await?;
    expect_eq!(process.id(), Some(id), "the id of the command that was reached");
    cx.within(20, "a kill", process.kill()).await??;
    cx.vanishes(&sandbox, &marker).await?;
    cx.within(20, "the end of what was killed", process.wait()).await??;
    Ok(())
}

async fn as_declared(cx: &Ctx) -> Done {
    let Some(replay) = cx.facts().replay_of_output() else {
        fail!("REATTACH is declared, and the facts do not say what output comes: state it with `Facts::replay`")
    };
    let sandbox = cx.sandbox().await?;
    let mut first = sandbox.start(cx.probes().cat().pipe().timeout(cx.secs(3000))).await?;
    first.write("before\n").await?;
    wait_for(cx, &mut first, "before\n").await?;
    let id = first.detach().await?;
    // Its input stays open, although the handle that held it is gone.
    let mut again = reached(cx, &sandbox, &id).await?;
    again.write("after\n").await?;
    let expected = match replay {
        Replay::FromNow => "after\n",
        Replay::FromStart => "before\nafter\n",
        other => fail!("a replay that this suite does not know: {other:?}"),
    };
    expect_eq!(wait_for(cx, &mut again, "after\n").await?, expected, "the output, as {replay:?}");
    again.close_stdin();
    let status = cx.within(30, "the end after the end of its input", again.wait()).await??;
    expect_eq!(status, Status::Code(0), "the status");
    Ok(())
}

async fn two_watchers(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut first = sandbox.start(cx.probes().cat().pipe().timeout(cx.secs(3000))).await?;
    let Some(id) = first.id() else { fail!("REATTACH is declared, and a command has no id") };
    let (mut second, mut third) = (reached(cx, &sandbox, &id).await?, reached(cx, &sandbox, &id).await?);
    first.write("for all of you\n").await?;
    for (one, what) in [(&mut first, "first"), (&mut second, "second"), (&mut third, "third")] {
        let seen = wait_for(cx, one, "\n").await?;
        expect_eq!(seen, "for all of you\n", "what the {what} sees");
    }
    first.close_stdin();
    for (one, what) in [(&mut first, "first"), (&mut second, "second"), (&mut third, "third")] {
        let end = cx.within(30, "the end", one.next()).await??;
        expect_eq!(end, Some(ProcessEvent::Exited(Status::Code(0))), "what the {what} sees at the end");
    }
    Ok(())
}

async fn a_dropped_watcher(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let process = sandbox.start(cx.probes().hang(&marker).timeout(cx.secs(3000))).await?;
    cx.appears(&sandbox, &marker).await?;
    let Some(id) = process.id() else { fail!("REATTACH is declared, and a command has no id") };
    let kills = cx.meddling().calls(Point::Kill);
    drop(reached(cx, &sandbox, &id).await?);
    tokio::time::sleep(cx.secs(1)).await;
    expect_eq!(cx.meddling().calls(Point::Kill), kills, "kills after a watcher was dropped");
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "a dropped watcher took the command along");
    // The one who started it still ends it.
    drop(process);
    cx.vanishes(&sandbox, &marker).await
}

/// A client of its own on the same sandbox; unproven where another client sees another provider.
async fn attached(world: &World, sandbox: &Sandbox) -> Result<Sandbox, Stop> {
    match world.within(30, "attach", world.client().attach(sandbox.id().as_str())).await? {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            unproven!("the suite's expression makes backends that do not see each other's sandboxes")
        }
        attached => Ok(attached?),
    }
}

async fn another_client(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut piped = sandbox.start(cx.probes().cat().pipe().timeout(cx.secs(3000))).await?;
    piped.write("ready\n").await?;
    wait_for(cx, &mut piped, "ready\n").await?;
    let (piped, hangs) = (piped.detach().await?, detached(cx, &sandbox, &marker).await?);
    let other = cx.another()?;
    let there = attached(&other, &sandbox).await?;
    let mut piped = reached(&other, &there, &piped).await?;
    piped.write("hello\n").await?;
    wait_for(cx, &mut piped, "hello\n").await?;
    let mut hangs = reached(&other, &there, &hangs).await?;
    other.within(20, "a kill", hangs.kill()).await??;
    cx.vanishes(&sandbox, &marker).await?;
    drop((piped, hangs, there));
    other.end().await
}

async fn outlives_its_client(cx: &Ctx) -> Done {
    let marker = cx.marker();
    let owner = cx.limited(Limits::new())?;
    let sandbox = owner.sandbox().await?;
    let pid = detached(&owner, &sandbox, &marker).await?;
    let id = sandbox.detach().await?;
    // Kept until the owner is gone, so that it can be looked for there.
    let there = attached(cx, &sandbox).await;
    drop(sandbox);
    owner.end().await?;
    let there = match there {
        Ok(there) => there,
        Err(stop) => return Err(stop),
    };
    ensure!(cx.alive(&there, &marker).await? > 0, "a detached command ended with the client that had started it");
    let mut process = reached(cx, &there, &pid).await?;
    cx.within(20, "a kill", process.kill()).await??;
    cx.vanishes(&there, &marker).await?;
    drop((process, there));
    cx.client().destroy(id.as_str()).await?;
    Ok(())
}

async fn keeps_its_deadline(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let process = sandbox.start(cx.probes().hang(&marker).timeout(cx.secs(8))).await?;
    cx.appears(&sandbox, &marker).await?;
    let id = process.detach().await?;
    let mut watcher = reached(cx, &sandbox, &id).await?;
    // The kill of an engine outside, or the deadline inside: the watcher sees the end in either case.
    let end = cx.by_clock(Duration::from_secs(40), "the end of a detached command", watcher.wait()).await?;
    match end {
        Ok(status) => expect_eq!(status.as_code(), 137, "the status of a detached command after its deadline"),
        Err(error) if error.kind() == ErrorKind::ExecutionTimeout => {}
        Err(error) => fail!("a detached command after its deadline: {error:?}"),
    }
    cx.vanishes(&sandbox, &marker).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

async fn an_ended_command(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().exit(7)).await?;
    let Some(id) = process.id() else { fail!("REATTACH is declared, and a command has no id") };
    expect_eq!(cx.within(30, "its end", process.wait()).await??, Status::Code(7), "the status");
    drop(process);
    match cx.within(20, "reattach", sandbox.reattach(Reattach::new(id))).await? {
        Ok(mut ended) => {
            let status = cx.within(20, "its end, asked again", ended.wait()).await??;
            expect_eq!(status, Status::Code(7), "the status, asked again");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => fail!("reattach to an ended command: expected its status or `not-found`, got {error:?}"),
    }
    Ok(())
}

async fn an_unknown_command(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let id = detached(cx, &sandbox, &marker).await?;
    let other = cx.within(20, "reattach", sandbox.reattach(Reattach::new("contract-never-was"))).await?;
    expect_kind!(other, NotFound, "reattach to an unknown command");
    let reattaches = cx.meddling().calls(Point::Reattach);
    for wrong in ["", "a\0b", "a\n"] {
        expect_kind!(sandbox.reattach(Reattach::new(wrong)).await, InvalidArgument, "reattach to what is no id");
    }
    let none = Reattach::new(id.clone()).output_limit(0);
    expect_kind!(sandbox.reattach(none).await, InvalidArgument, "reattach with an output limit of zero");
    expect_eq!(cx.meddling().calls(Point::Reattach), reattaches, "what was sent of that");
    drop(reached(cx, &sandbox, &id).await?);
    Ok(())
}

async fn close_ends_it(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let id = detached(cx, &sandbox, &marker).await?;
    let mut watcher = reached(cx, &sandbox, &id).await?;
    let known = sandbox.id().clone();
    cx.within(60, "close", sandbox.close()).await??;
    let ended = cx.within(20, "the end that a watcher sees", watcher.wait()).await?;
    expect_kind!(ended, Gone, "a watcher after the close of the sandbox");
    expect_kind!(sandbox.reattach(Reattach::new(id)).await, Gone, "reattach after the close");
    if cx.hooks().survivors.is_some() {
        expect_eq!(cx.survivors(&known, &marker).await?, 0, "processes after the close");
    }
    Ok(())
}
