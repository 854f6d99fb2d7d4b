//! Rows of the area `stream`: commands on a terminal.

use super::signals::wait_for;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind},
    meddle::Point,
    row::{Done, Row, row},
};
use sandbox::{Command, PtySize};
use sandbox_core::{
    Capability::{KillOne, Pty, Run, Stream},
    Fate, Status,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("stream::a_pty_is_a_terminal_inside", is_a_terminal).needs(&[Run, Pty]),
    row!("stream::a_pty_has_its_size_before_the_program_runs", has_its_size).needs(&[Run, Pty]),
    row!("stream::a_pty_shows_its_new_size_inside", is_resized).needs(&[Run, Stream, Pty]),
    row!("stream::a_pty_merges_both_streams_into_stdout", merges).needs(&[Run, Pty]),
    row!("stream::a_pty_echoes_and_edits_lines", echoes).needs(&[Run, Stream, Pty]),
    row!("stream::a_pty_turns_ctrl_c_into_an_interrupt", ctrl_c).needs(&[Run, Stream, Pty]),
    row!("stream::a_pty_does_not_outlast_its_timeout", timeout).needs(&[Run, Stream, Pty]),
    row!("stream::a_dropped_pty_ends_its_command", dropped).needs(&[Run, Stream, Pty, KillOne]),
    row!("stream::a_pty_that_cannot_be_is_refused", refused).facade().needs(&[Run, Pty]),
];

async fn is_a_terminal(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let plain = cx.text(&sandbox, cx.probes().terminals()).await?;
    expect_eq!(plain, "0 none\n1 none\n2 none", "the streams of a command without a terminal");
    let output = cx.run(&sandbox, cx.probes().terminals().pty(PtySize::default())).await?;
    let expected = "0 terminal\r\n1 terminal\r\n2 terminal\r\n";
    expect_eq!(&*output.stdout.text(), expected, "the streams of a command with a terminal");
    expect_eq!(output.status, Status::Code(0), "the status");
    Ok(())
}

async fn has_its_size(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for size in [PtySize::new(80, 24), PtySize::new(132, 50), PtySize::new(1, 1), PtySize::new(1000, 3)] {
        let output = cx.run(&sandbox, cx.probes().terminal_size().pty(size)).await?;
        let expected = format!("{} {}\r\n", size.rows, size.cols);
        expect_eq!(&*output.stdout.text(), expected, "rows and columns of a terminal of {size}");
    }
    Ok(())
}

async fn is_resized(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().terminal_sizes().pty(PtySize::new(80, 24))).await?;
    process.write("\n").await?;
    wait_for(cx, &mut process, "24 80\r\n").await?;
    for size in [PtySize::new(100, 40), PtySize::new(20, 7)] {
        cx.within(20, "a resize", process.resize(size)).await??;
        process.write("\n").await?;
        wait_for(cx, &mut process, &format!("{} {}\r\n", size.rows, size.cols)).await?;
    }
    process.write("\x04").await?;
    let status = cx.within(30, "the end after an end of file", process.wait()).await??;
    expect_eq!(status, Status::Code(0), "the status after an end of file");
    expect_kind!(process.resize(PtySize::default()).await, WrongState, "a resize after the end");
    Ok(())
}

async fn merges(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().both("one", "two").pty(PtySize::default())).await?;
    expect_eq!(&*output.stdout.text(), "one\r\ntwo\r\n", "what both streams wrote");
    expect_eq!(&*output.stderr.text(), "", "stderr of a command on a terminal");
    // The status is told as without a terminal.
    let output = cx.run(&sandbox, cx.probes().fail(7).pty(PtySize::default())).await?;
    expect_eq!((&*output.stdout.text(), output.status), ("out\r\nerr\r\n", Status::Code(7)), "output and status");
    Ok(())
}

async fn echoes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().cat().pty(PtySize::default())).await?;
    // The last character is taken back before the line is entered.
    process.write("hellx\x7fo").await?;
    process.write("\r").await?;
    let seen = wait_for(cx, &mut process, "hello\r\n").await?;
    ensure!(seen.starts_with("hellx\x08 \x08o\r\n"), "the echo of a line that was edited: {seen:?}");
    process.write("\x04").await?;
    // Nobody types any more: that alone ends nothing, the end of file before it does.
    process.close_stdin();
    let output = cx.within(30, "the end after an end of file", process.output()).await??;
    expect_eq!((&*output.stdout.text(), output.status), ("", Status::Code(0)), "output and status at the end");
    Ok(())
}

async fn ctrl_c(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let (deaf, polite) = (cx.marker(), cx.marker());
    let command = cx.probes().output_then_hang("runs", &deaf).timeout(cx.secs(3000));
    let mut process = sandbox.start(command.pty(PtySize::default())).await?;
    wait_for(cx, &mut process, "runs").await?;
    cx.appears(&sandbox, &deaf).await?;
    process.write("\x03").await?;
    let status = cx.within(30, "the end after ctrl-C", process.wait()).await??;
    expect_eq!(status.as_code(), 130, "the status after ctrl-C");
    cx.vanishes(&sandbox, &deaf).await?;
    let command = cx.probes().signal_reporter(&polite).timeout(cx.secs(3000));
    let mut process = sandbox.start(command.pty(PtySize::default())).await?;
    wait_for(cx, &mut process, "ready").await?;
    for _ in 0..2 {
        process.write("\x03").await?;
        wait_for(cx, &mut process, "got INT").await?;
    }
    process.write("\x1c").await?;
    wait_for(cx, &mut process, "got QUIT").await?;
    drop(process);
    Ok(())
}

async fn timeout(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let command = cx.probes().output_then_hang("runs", &marker).pty(PtySize::default());
    let mut process = sandbox.start(command.timeout(cx.secs(6))).await?;
    wait_for(cx, &mut process, "runs").await?;
    let ended = cx.by_clock(Duration::from_secs(30), "a command after its deadline", process.wait()).await?;
    let error = expect_kind!(ended, ExecutionTimeout, "a command on a terminal after its deadline");
    expect_eq!(error.fate(), Some(Fate::Dead), "the fate in {error:?}");
    if cx.has(KillOne) {
        cx.vanishes(&sandbox, &marker).await?;
        expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    }
    Ok(())
}

async fn dropped(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let command = cx.probes().output_then_hang("runs", &marker).timeout(cx.secs(3000));
    let mut process = sandbox.start(command.pty(PtySize::default())).await?;
    wait_for(cx, &mut process, "runs").await?;
    cx.appears(&sandbox, &marker).await?;
    drop(process);
    cx.vanishes(&sandbox, &marker).await
}

async fn refused(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let (spawns, resizes) = (cx.meddling().calls(Point::Spawn), cx.meddling().calls(Point::Resize));
    let echo = || -> Command { cx.probes().echo("x") };
    for size in [PtySize::new(0, 24), PtySize::new(80, 0), PtySize::new(0, 0)] {
        expect_kind!(sandbox.run(echo().pty(size)).await, InvalidArgument, "a terminal of {size}");
    }
    let whole = cx.probes().cat().input("all of it").pty(PtySize::default());
    expect_kind!(sandbox.run(whole).await, InvalidArgument, "a terminal whose input is whole");
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "commands that were sent");
    let plain = sandbox.start(cx.probes().hang(cx.marker())).await?;
    expect_kind!(plain.resize(PtySize::default()).await, WrongState, "a resize without a terminal");
    let on_terminal = sandbox.start(cx.probes().hang(cx.marker()).pty(PtySize::default())).await?;
    expect_kind!(on_terminal.resize(PtySize::new(80, 0)).await, InvalidArgument, "a resize to zero lines");
    expect_eq!(cx.meddling().calls(Point::Resize), resizes, "resizes that were sent");
    cx.within(20, "the control: a resize", on_terminal.resize(PtySize::new(81, 25))).await??;
    expect_eq!(cx.meddling().calls(Point::Resize), resizes + 1, "resizes that were sent, with the control");
    Ok(())
}
