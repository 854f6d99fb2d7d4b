//! Several sandboxes beside each other, and their handles.

use super::all;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, unproven},
    row::Done,
};
use sandbox::{Limits, Overrides};
use sandbox_core::Capability::Run;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

pub(super) async fn two_sandboxes_share_nothing(cx: &Ctx) -> Done {
    let (one, two) = (cx.sandbox_of(cx.spec().env("CONTRACT_ONE", "1")).await?, cx.sandbox().await?);
    ensure!(one.id() != two.id(), "both have the id {}", one.id());
    let (path, marker) = (format!("{}/contract-one", one.cwd().trim_end_matches('/')), cx.marker());
    cx.text(&one, cx.probes().write_file(&path, "secret")).await?;
    expect_eq!(cx.text(&one, cx.probes().read_file(&path)).await?, "secret", "the file, where it was written");
    let read = cx.run(&two, cx.probes().read_file(&path)).await?;
    ensure!(!read.success(), "the other sandbox reads the file: {read:?}");
    expect_eq!(cx.text(&one, cx.probes().env("CONTRACT_ONE")).await?, "1", "the variable, where it was set");
    expect_eq!(cx.text(&two, cx.probes().env("CONTRACT_ONE")).await?, "unset", "the variable in the other sandbox");
    let _process = one.start(cx.probes().hang(&marker)).await?;
    cx.appears(&one, &marker).await?;
    expect_eq!(cx.alive(&two, &marker).await?, 0, "processes of one that the other sees");
    Ok(())
}

pub(super) async fn ten_creates_at_once(cx: &Ctx) -> Done {
    let mut creates = Vec::new();
    for _ in 0..10 {
        creates.push(Box::pin(cx.sandbox()));
    }
    let mut sandboxes = Vec::new();
    for made in all(creates).await {
        sandboxes.push(made?);
    }
    let ids: BTreeSet<_> = sandboxes.iter().map(|sandbox| sandbox.id().clone()).collect();
    expect_eq!(ids.len(), 10, "different ids");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 10, "sandboxes at the provider");
    }
    let echoes =
        sandboxes.iter().enumerate().map(|(n, sandbox)| Box::pin(cx.text(sandbox, cx.probes().echo(n.to_string()))));
    for (n, text) in all(echoes.collect()).await.into_iter().enumerate() {
        expect_eq!(text?, n.to_string(), "echo in sandbox {n}");
    }
    let closes = sandboxes.iter().map(|sandbox| Box::pin(sandbox.close())).collect();
    for closed in all(closes).await {
        closed?;
    }
    Ok(())
}

pub(super) async fn the_last_handle_ends_the_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let (second, view) = (sandbox.clone(), sandbox.with(Overrides::new().env("A", "b")));
    drop(sandbox);
    drop(second);
    expect_eq!(cx.text(&view, cx.probes().echo("still")).await?, "still", "echo by the last handle");
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    expect_eq!(cx.count().await?, 1, "sandboxes while a handle is held");
    drop(view);
    cx.settles_at(0, "after the last handle").await
}

pub(super) async fn a_process_keeps_its_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().two_with_pause(700_u32)).await?;
    drop(sandbox);
    let output = cx.within(30, "a process whose sandbox was dropped", process.output()).await??;
    expect_eq!(output.stdout.text(), "first\nsecond\n", "its output");
    drop(process);
    if cx.can_count() {
        cx.settles_at(0, "after the process").await?;
    }
    Ok(())
}

pub(super) async fn no_engine_thread_is_left(cx: &Ctx) -> Done {
    let Some(mut before) = engine_threads() else {
        unproven!("threads are counted in /proc, which this host does not have")
    };
    // A thread has its name a moment after it has been made.
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        match engine_threads().unwrap_or_default() {
            now if now == before => break,
            now => before = now,
        }
    }
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    if world.has(Run) {
        world.text(&sandbox, world.probes().echo("x")).await?;
    }
    let during = engine_threads().unwrap_or_default();
    ensure!(during > before, "no engine thread is seen while a client lives: {before} before, {during} during");
    drop(sandbox);
    drop(world);
    let until = Instant::now() + cx.secs(20);
    loop {
        let now = engine_threads().unwrap_or(usize::MAX);
        if now <= before {
            return Ok(());
        }
        ensure!(Instant::now() < until, "engine threads after the last handle: {now}, before it was made: {before}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The engine names its threads; this row runs alone in its process.
fn engine_threads() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    Some(names.filter(|name| name.starts_with("sandbox-")).count())
}
