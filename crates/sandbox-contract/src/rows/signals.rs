//! Rows of the area `stream`: signals, beside those in `stream.rs`.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, fail},
    row::{Done, Row, Stop, row},
};
use sandbox::{Process, ProcessEvent};
use sandbox_core::{
    Capability::{KillOne, Run, Signals, Stream},
    Signal, Status,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("stream::signals_end_a_program_that_does_not_care", signals_end).needs(&[Run, Stream, Signals]),
    row!("stream::signals_are_seen_by_handlers", signals_are_seen).needs(&[Run, Stream, Signals]),
    row!("stream::a_stopped_program_stands_still_until_it_goes_on", stopped).needs(&[Run, Stream, Signals, KillOne]),
];

async fn signals_end(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for signal in [Signal::Hangup, Signal::Quit, Signal::Abort, Signal::User1, Signal::User2, Signal::Alarm] {
        let marker = cx.marker();
        let mut process = sandbox.start(cx.probes().output_then_hang("runs", &marker).timeout(cx.secs(3000))).await?;
        wait_for(cx, &mut process, "runs").await?;
        cx.within(20, "a signal", process.signal(signal)).await??;
        let status = cx.within(30, "the end after a signal", process.wait()).await??;
        expect_eq!(status.as_code(), 128 + signal.number(), "the status after {signal}");
    }
    Ok(())
}

async fn signals_are_seen(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().signal_reporter(&marker).timeout(cx.secs(3000))).await?;
    wait_for(cx, &mut process, "ready").await?;
    for signal in [Signal::Hangup, Signal::Interrupt, Signal::Quit, Signal::User1, Signal::User2, Signal::Interrupt] {
        cx.within(20, "a signal", process.signal(signal)).await??;
        wait_for(cx, &mut process, &format!("got {signal}")).await?;
    }
    cx.within(20, "TERM", process.signal(Signal::Terminate)).await??;
    wait_for(cx, &mut process, "got TERM").await?;
    let status = cx.within(30, "the end after TERM", process.wait()).await??;
    expect_eq!(status, Status::Code(0), "the status of a program that handles TERM");
    Ok(())
}

async fn stopped(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().writer(&marker).timeout(cx.secs(3000))).await?;
    wait_for(cx, &mut process, "more").await?;
    cx.within(20, "STOP", process.signal(Signal::Stop)).await??;
    // What was on its way still comes; then nothing does.
    let mut late = 0;
    while cx.outlasts(Duration::from_secs(2), "output of a stopped program", process.next()).await.is_err() {
        late += 1;
        ensure!(late < 50, "a stopped program goes on writing");
    }
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "a stopped program is not there any more");
    cx.within(20, "CONT", process.signal(Signal::Continue)).await??;
    wait_for(cx, &mut process, "more").await?;
    // A stopped program can be ended all the same.
    cx.within(20, "STOP", process.signal(Signal::Stop)).await??;
    cx.within(20, "a kill", process.kill()).await??;
    cx.vanishes(&sandbox, &marker).await
}

/// Reads until stdout has this text.
pub(super) async fn wait_for(cx: &Ctx, process: &mut Process, text: &str) -> Result<String, Stop> {
    let mut seen = String::new();
    while !seen.contains(text) {
        match cx.within(20, &format!("`{text}` after {seen:?}"), process.next()).await?? {
            Some(ProcessEvent::Stdout(bytes)) => seen.push_str(&String::from_utf8_lossy(&bytes)),
            other => fail!("expected `{text}` on stdout after {seen:?}, got {other:?}"),
        }
    }
    Ok(seen)
}
