//! Sandboxes that stand still for a while.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::{Overrides, Process, ProcessEvent, Sandbox};
use sandbox_core::{Capability::Files, Error};
use std::time::Duration;

pub(super) async fn keeps_memory_and_files(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().write_file("contract-pause", "kept")).await?;
    let mut ticks = Ticks::start(cx, &sandbox, 600).await?;
    for _ in 0..3 {
        cx.within(30, "a tick, the control", ticks.next()).await??;
    }
    sandbox.pause().await?;
    let last = ticks.drain(cx).await?;
    cx.outlasts(Duration::from_secs(3), "a tick of a paused sandbox", ticks.next()).await?;
    sandbox.resume().await?;
    let next = cx.within(30, "a tick after the pause", ticks.next()).await??;
    expect_eq!(next, last + 1, "the first tick after the pause: the count is in the program's memory");
    expect_eq!(cx.text(&sandbox, cx.probes().read_file("contract-pause")).await?, "kept", "a file after the pause");
    Ok(())
}

pub(super) async fn work_is_wrong_state(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("control")).await?, "control", "echo before the pause");
    sandbox.pause().await?;
    let calls = || (cx.meddling().calls(Point::Spawn), cx.meddling().calls(Point::Files));
    let before = calls();
    let view = sandbox.with(Overrides::new().env("A", "b"));
    let hinted = |what: &str, error: Error| -> Done {
        let hint = error.hint().unwrap_or_default();
        ensure!(hint.contains("resume"), "{what}: the hint does not say how to go on: {error:?}");
        ensure!(!error.may_have_applied(), "{what}: nothing was sent: {error:?}");
        expect_eq!(error.sandbox(), Some(sandbox.id()), "{what}: the sandbox that the error names");
        Ok(())
    };
    let run = cx.within(20, "run", sandbox.run(cx.probes().echo("x"))).await?;
    hinted("run", expect_kind!(run, WrongState, "run in a paused sandbox"))?;
    hinted("start", expect_kind!(sandbox.start(cx.probes().echo("x")).await, WrongState, "start in a paused sandbox"))?;
    hinted("a view", expect_kind!(view.run(cx.probes().echo("x")).await, WrongState, "run by a view"))?;
    if cx.has(Files) {
        let read = cx.within(20, "read", sandbox.files().read("x")).await?;
        hinted("read", expect_kind!(read, WrongState, "read in a paused sandbox"))?;
        hinted("write", expect_kind!(sandbox.files().write("x", "y").await, WrongState, "write in a paused sandbox"))?;
    }
    expect_eq!(calls(), before, "what was sent to a paused sandbox");
    sandbox.resume().await?;
    expect_eq!(cx.text(&view, cx.probes().echo("lives")).await?, "lives", "echo after the pause");
    Ok(())
}

pub(super) async fn twice_is_fine(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    sandbox.resume().await?;
    for _ in 0..2 {
        sandbox.pause().await?;
        sandbox.clone().pause().await?;
        expect_kind!(sandbox.run(cx.probes().echo("x")).await, WrongState, "run in a sandbox that was paused twice");
        sandbox.resume().await?;
        sandbox.clone().resume().await?;
        expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after two resumes");
    }
    Ok(())
}

pub(super) async fn a_late_command_ends(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut ticks = Ticks::start(cx, &sandbox, 15).await?;
    cx.within(30, "a tick, the control", ticks.next()).await??;
    sandbox.pause().await?;
    cx.sleep(Duration::from_secs(20)).await;
    sandbox.resume().await?;
    let ended = cx.within(60, "the end of a command that was late in a pause", ticks.process.wait()).await?;
    let error = expect_kind!(ended, ExecutionTimeout, "a command whose deadline passed in a pause");
    ensure!(error.fate().is_some(), "its fate is not told: {error:?}");
    Ok(())
}

pub(super) async fn close_works(cx: &Ctx) -> Done {
    for by_close in [true, false] {
        let sandbox = cx.sandbox().await?;
        let (marker, id) = (cx.marker(), sandbox.id().clone());
        let mut process = sandbox.start(cx.probes().hang(&marker).timeout(cx.secs(600))).await?;
        cx.appears(&sandbox, &marker).await?;
        sandbox.pause().await?;
        if by_close {
            cx.within(60, "close of a paused sandbox", sandbox.close()).await??;
            let ended = cx.within(30, "its command", process.wait()).await?;
            expect_kind!(ended, Gone, "a command of a paused sandbox that was closed");
            expect_kind!(sandbox.resume().await, Gone, "resume after close");
        } else {
            drop((process, sandbox));
        }
        if cx.can_count() {
            cx.settles_at(0, "after the end of a paused sandbox").await?;
        }
        if cx.hooks().survivors.is_some() {
            expect_eq!(cx.survivors(&id, &marker).await?, 0, "processes of a paused sandbox that has ended");
        }
    }
    Ok(())
}

pub(super) async fn the_lifetime_goes_on(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(8))).await?;
    sandbox.pause().await?;
    cx.sleep(Duration::from_secs(12)).await;
    if cx.can_count() {
        cx.settles_at(0, "after the lifetime of a paused sandbox").await?;
    }
    let resumed = cx.within(30, "resume after the lifetime", sandbox.resume()).await?;
    expect_kind!(resumed, Gone, "resume after the lifetime");
    cx.within(30, "close after the lifetime", sandbox.close()).await??;
    Ok(())
}

/// A program that counts, as it is heard.
pub(super) struct Ticks {
    pub(super) process: Process,
    text: String,
    last: u64,
}

impl Ticks {
    pub(super) async fn start(cx: &Ctx, sandbox: &Sandbox, seconds: u64) -> Result<Self, Stop> {
        let process = sandbox.start(cx.probes().ticker().timeout(cx.secs(seconds))).await?;
        Ok(Self { process, text: String::new(), last: 0 })
    }

    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Result<u64, Stop> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let Some(Ok(tick)) = line.strip_prefix("tick ").map(str::parse) else {
                    fail!("the probe `ticker` wrote {line:?}")
                };
                (self.text, self.last) = (rest.to_string(), tick);
                return Ok(tick);
            }
            match self.process.next().await? {
                Some(ProcessEvent::Stdout(piece)) => self.text.push_str(&String::from_utf8_lossy(&piece)),
                other => fail!("the probe `ticker` ended: {other:?}"),
            }
        }
    }

    /// What was on its way; the last tick of all.
    pub(super) async fn drain(&mut self, cx: &Ctx) -> Result<u64, Stop> {
        loop {
            tokio::select! {
                biased;
                tick = self.next() => drop(tick?),
                () = cx.sleep(Duration::from_secs(2)) => return Ok(self.last),
            }
        }
    }
}
