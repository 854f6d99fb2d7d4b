//! What a program reads.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    row::Done,
    rows::files::pattern,
};
use bytes::Bytes;
use sandbox::ProcessEvent;
use sandbox_core::{Captured, ErrorKind, Status};
use std::time::Duration;
use tokio::time::Instant;

pub(super) async fn arrives_exactly(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let every: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let cases = [Bytes::from_static(b"text\n"), Bytes::from_static(b"no newline"), Bytes::new(), Bytes::from(every)];
    for input in cases {
        let output = cx.run(&sandbox, cx.probes().cat().input(input.clone())).await?;
        expect_eq!(output.stdout, Captured::whole(input), "what came back");
        expect_eq!(output.status, Status::Code(0), "the status");
    }
    Ok(())
}

pub(super) async fn none_is_its_end(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().cat()).await?;
    expect_eq!((output.stdout, output.status), (Captured::default(), Status::Code(0)), "a copy of no input");
    expect_eq!(cx.text(&sandbox, cx.probes().count_stdin()).await?, "0", "bytes of no input");
    Ok(())
}

pub(super) async fn fifty_mib(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let input = Bytes::from(pattern(50 << 20, 2));
    let count = cx.text(&sandbox, cx.probes().count_stdin().input(input.clone())).await?;
    expect_eq!(count, input.len().to_string(), "bytes that arrived");
    // Back again, at the same time, in a smaller piece: neither side may wait for the other.
    let part = input.slice(..8 << 20);
    let limit = cx.facts().largest_output().unwrap_or(u64::MAX);
    if limit >= part.len() as u64 {
        let output = cx.run(&sandbox, cx.probes().cat().input(part.clone())).await?;
        ensure!(output.stdout.head == part, "other bytes came back: {} of {}", output.stdout.head.len(), part.len());
    }
    Ok(())
}

pub(super) async fn nobody_reads(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let input = Bytes::from(vec![b'x'; 8 << 20]);
    let output = cx.run(&sandbox, cx.probes().succeed().input(input.clone())).await?;
    expect_eq!(output.status, Status::Code(0), "the status of a program that reads nothing");
    let output = cx.run(&sandbox, cx.probes().fail(5).input(input)).await?;
    expect_eq!(
        (output.code(), &*output.stdout.text()),
        (5, "out\n"),
        "code and output of a program that reads nothing"
    );
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

pub(super) async fn while_it_runs(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().cat().pipe()).await?;
    // Each answer is seen before the next piece is written.
    for text in ["one\n", "two\n", "ünïcödé\n"] {
        cx.within(20, "write", process.write(text)).await??;
        let mut seen = Vec::new();
        while seen.len() < text.len() {
            match cx.within(20, "the answer to a piece of input", process.next()).await?? {
                Some(ProcessEvent::Stdout(bytes)) => seen.extend_from_slice(&bytes),
                other => fail!("after {text:?}: expected output, got {other:?}"),
            }
        }
        expect_eq!(String::from_utf8_lossy(&seen), text, "the answer");
    }
    process.close_stdin();
    let output = cx.within(20, "the end after the end of input", process.output()).await??;
    expect_eq!((output.stdout, output.status), (Captured::default(), Status::Code(0)), "the rest");
    expect_kind!(process.write("late").await, WrongState, "a write after `close_stdin`");
    Ok(())
}

pub(super) async fn closed_midway(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().count_stdin().pipe()).await?;
    for _ in 0..10 {
        cx.within(20, "write", process.write(vec![b'x'; 1000])).await??;
    }
    drop(process.take_input());
    let output = cx.within(20, "the end after the end of input", process.output()).await??;
    expect_eq!(output.stdout.text().trim(), "10000", "bytes that arrived before input was closed");
    // Without a single write.
    let mut process = sandbox.start(cx.probes().count_stdin().pipe()).await?;
    process.close_stdin();
    let output = cx.within(20, "the end after the end of input", process.output()).await??;
    expect_eq!(output.stdout.text().trim(), "0", "bytes of an input that was closed at once");
    Ok(())
}

pub(super) async fn at_the_readers_pace(cx: &Ctx) -> Done {
    const MOST: usize = 64 << 20;
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let piece = Bytes::from(vec![b'x'; 256 << 10]);
    // A program that reads everything takes all of it.
    let mut process = sandbox.start(cx.probes().count_stdin().pipe()).await?;
    for _ in 0..64 {
        cx.within(30, "a write to a program that reads", process.write(piece.clone())).await??;
    }
    process.close_stdin();
    let output = cx.within(30, "the end", process.output()).await??;
    expect_eq!(output.stdout.text().trim(), (64 * piece.len()).to_string(), "bytes that arrived");
    // One that reads nothing makes the writer wait.
    let process = sandbox.start(cx.probes().hang(&marker).pipe()).await?;
    let mut written = 0;
    loop {
        tokio::select! {
            biased;
            wrote = process.write(piece.clone()) => wrote?,
            () = cx.sleep(Duration::from_secs(2)) => break,
        }
        written += piece.len();
        ensure!(
            written < MOST,
            "a program that reads nothing was sent {written} bytes, which somebody holds in memory"
        );
    }
    cx.note(format_args!("{written} bytes were taken that nobody reads"));
    // And it does not make others wait.
    expect_eq!(cx.text(&sandbox, cx.probes().echo("beside")).await?, "beside", "echo beside it");
    Ok(())
}

pub(super) async fn after_the_end(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().succeed().pipe()).await?;
    // `wait` closes what nobody has taken.
    let Some(input) = process.take_input() else { fail!("a command with a pipe has no input") };
    let status = cx.within(30, "the end of a program that reads nothing", process.wait()).await??;
    expect_eq!(status, Status::Code(0), "the status");
    let until = Instant::now() + cx.secs(20);
    loop {
        match cx.within(20, "a write after the end", input.write("late")).await? {
            Err(error) if error.kind() == ErrorKind::ConnectionLost => return Ok(()),
            Err(error) => fail!("a write after the end: expected `connection-lost`, got {error:?}"),
            Ok(()) => ensure!(Instant::now() < until, "writes after the end succeed for ever"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
