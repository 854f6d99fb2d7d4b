//! Sandboxes whose files outlive what runs in them.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind},
    meddle::Point,
    row::Done,
};
use sandbox_core::{
    Capability::{Background, Files},
    Error,
};
use std::time::Duration;

pub(super) async fn keeps_files(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_STOP", "set")).await?;
    let (id, marker) = (sandbox.id().clone(), cx.marker());
    cx.text(&sandbox, cx.probes().write_file("contract-stop", "kept")).await?;
    let mut process = sandbox.start(cx.probes().output_then_hang("heard", &marker).timeout(cx.secs(600))).await?;
    cx.appears(&sandbox, &marker).await?;
    if cx.has(Background) {
        let output = cx.run(&sandbox, cx.probes().daemonize(&marker)).await?;
        ensure!(output.success(), "the probe `daemonize`: {output:?}");
    }
    cx.within(90, "stop", sandbox.stop()).await??;
    let ended = cx.within(30, "a command of a sandbox that was stopped", process.output()).await?;
    let error = expect_kind!(ended, Gone, "a command of a sandbox that was stopped");
    expect_eq!(error.fate(), Some(sandbox::Fate::Dead), "the fate of {error:?}");
    let heard = error.output().map(|output| output.stdout.text().into_owned());
    expect_eq!(heard.as_deref(), Some("heard\n"), "what the command had written");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 1, "sandboxes while it is stopped");
    }
    if cx.hooks().survivors.is_some() {
        expect_eq!(cx.survivors(&id, &marker).await?, 0, "processes of a stopped sandbox");
    }
    cx.within(90, "restart", sandbox.restart()).await??;
    expect_eq!(sandbox.id(), &id, "the id after the restart");
    expect_eq!(cx.text(&sandbox, cx.probes().read_file("contract-stop")).await?, "kept", "a file after the restart");
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_STOP")).await?, "set", "a variable after the restart");
    expect_eq!(cx.text(&sandbox, cx.probes().pwd()).await?, sandbox.cwd(), "the directory after the restart");
    expect_eq!(cx.alive(&sandbox, &marker).await?, 0, "processes from before the stop");
    Ok(())
}

pub(super) async fn work_is_wrong_state(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("control")).await?, "control", "echo before the stop");
    sandbox.stop().await?;
    let calls = || (cx.meddling().calls(Point::Spawn), cx.meddling().calls(Point::Files));
    let before = calls();
    let hinted = |what: &str, error: Error| -> Done {
        let hint = error.hint().unwrap_or_default();
        ensure!(hint.contains("restart"), "{what}: the hint does not say how to go on: {error:?}");
        Ok(())
    };
    let run = cx.within(20, "run", sandbox.run(cx.probes().echo("x"))).await?;
    hinted("run", expect_kind!(run, WrongState, "run in a stopped sandbox"))?;
    hinted(
        "start",
        expect_kind!(sandbox.start(cx.probes().echo("x")).await, WrongState, "start in a stopped sandbox"),
    )?;
    if cx.has(Files) {
        hinted("read", expect_kind!(sandbox.files().read("x").await, WrongState, "read in a stopped sandbox"))?;
    }
    expect_eq!(calls(), before, "what was sent to a stopped sandbox");
    sandbox.restart().await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after the restart");
    Ok(())
}

pub(super) async fn twice_is_fine(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    sandbox.restart().await?;
    for _ in 0..2 {
        sandbox.stop().await?;
        sandbox.clone().stop().await?;
        expect_kind!(sandbox.run(cx.probes().echo("x")).await, WrongState, "run in a sandbox that was stopped twice");
        sandbox.restart().await?;
        sandbox.clone().restart().await?;
        expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after two restarts");
    }
    Ok(())
}

pub(super) async fn close_works(cx: &Ctx) -> Done {
    for by_close in [true, false] {
        let sandbox = cx.sandbox().await?;
        sandbox.stop().await?;
        if by_close {
            cx.within(60, "close of a stopped sandbox", sandbox.close()).await??;
            expect_kind!(sandbox.restart().await, Gone, "restart after close");
        }
        drop(sandbox);
        if cx.can_count() {
            cx.settles_at(0, "after the end of a stopped sandbox").await?;
        }
    }
    Ok(())
}

pub(super) async fn gets_what_remains(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(20))).await?;
    sandbox.stop().await?;
    cx.sleep(Duration::from_secs(6)).await;
    sandbox.restart().await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo within the lifetime");
    cx.sleep(Duration::from_secs(18)).await;
    let run = cx.within(30, "run after the lifetime", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run after the lifetime, of which a part went by while it was stopped");
    if cx.can_count() {
        cx.settles_at(0, "after the lifetime").await?;
    }
    cx.within(30, "close after the lifetime", sandbox.close()).await??;
    Ok(())
}
