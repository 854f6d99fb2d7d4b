//! Programs that do not start, do not end, or leave something behind.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::Done,
};
use sandbox::{Command, Limits, Output, ProcessEvent};
use sandbox_core::{ErrorKind, Result, Status};
use std::time::Duration;
use tokio::time::Instant;

pub(super) async fn an_unknown_program(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for program in ["contract-no-such-program", "/contract/no/such/program"] {
        let run = cx.within(30, program, sandbox.run(Command::new(program).arg("x"))).await?;
        never_ran(run, ErrorKind::ProgramNotFound, 127, program)?;
    }
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

pub(super) async fn no_program(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let path = format!("{}/contract-text", sandbox.cwd().trim_end_matches('/'));
    cx.text(&sandbox, cx.probes().write_file(&path, "no program")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&path)).await?, "no program", "the file");
    let run = cx.within(30, "run of a file without permission", sandbox.run(Command::new(&path))).await?;
    never_ran(run, ErrorKind::StartFailed, 126, &path)?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

/// An error of this kind where the backend can tell, else a program that ended with this code.
fn never_ran(run: Result<Output>, kind: ErrorKind, code: i32, program: &str) -> Done {
    match run {
        Err(error) if error.kind() == kind => {
            ensure!(error.to_string().contains(program), "the error does not name {program}: {error}");
            ensure!(!error.may_have_applied(), "nothing ran, and the error denies it: {error:?}");
        }
        Err(error) => fail!("{program}: expected `{kind}` or code {code}, got {error:?}"),
        Ok(output) => expect_eq!(output.status, Status::Code(code), "the status of {program}, which is no program"),
    }
    Ok(())
}

pub(super) async fn delays_no_other(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    // Its end is never, so that whoever waits for it waits for ever.
    let process = sandbox.start(cx.probes().hang(&marker)).await?;
    for _ in 0..3 {
        let begun = Instant::now();
        let output = cx.within(20, "a command beside one that goes on", sandbox.run(cx.probes().succeed())).await??;
        expect_eq!(output.status, Status::Code(0), "the status of the command beside");
        cx.note(format_args!("the command beside took {:?}", begun.elapsed()));
    }
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "the command that goes on did not go on");
    drop(process);
    Ok(())
}

/// What the contract grants to output after the end.
const LINGER: Duration = Duration::from_secs(2);
const MARGIN: u64 = 8;

pub(super) async fn left_behind(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let begun = Instant::now();
    let output = cx.run(&sandbox, cx.probes().background_holder(&marker)).await?;
    let took = begun.elapsed();
    expect_eq!(output.stdout.text(), "started\n", "stdout");
    expect_eq!(output.status, Status::Code(0), "the status");
    ensure!(took < LINGER + cx.secs(MARGIN), "a child that holds stdout open held `run` for {took:?}");
    cx.appears(&sandbox, &marker).await?;
    // It lives on, and holds nothing else either.
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "what was left behind did not live on");
    Ok(())
}

pub(super) async fn writes_on(cx: &Ctx) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let begun = Instant::now();
    let output = cx.run(&sandbox, cx.probes().background_writer(&marker)).await?;
    let took = begun.elapsed();
    let text = output.stdout.text();
    ensure!(text.starts_with("started\n"), "stdout does not begin with what the program wrote: {:.80}", text);
    expect_eq!(output.status, Status::Code(0), "the status");
    ensure!(took < LINGER + cx.secs(MARGIN), "a child that writes for ever held `run` for {took:?}");
    ensure!(text.contains("more\n"), "nothing of the child's output was taken while it flowed: {:.80}", text);
    cx.appears(&sandbox, &marker).await?;
    Ok(())
}

pub(super) async fn no_zombies(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let count = async || -> std::result::Result<usize, crate::row::Stop> {
        let text = cx.text(&sandbox, cx.probes().zombies()).await?;
        text.trim().parse().map_err(|_| crate::row::Stop::fail(format_args!("the probe `zombies` wrote {text:?}")))
    };
    let mut process = sandbox.start(cx.probes().zombie_until_eof().pipe()).await?;
    let until = Instant::now() + cx.secs(10);
    while count().await? == 0 {
        if Instant::now() > until {
            unproven!("the probe `zombie_until_eof` made no zombie that the probe `zombies` sees");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    process.close_stdin();
    cx.within(30, "the end of the zombie's parent", process.wait()).await??;
    let until = Instant::now() + cx.secs(15);
    loop {
        let left = count().await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{left} zombies whose parent has ended are never collected");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(super) async fn a_sandbox_that_dies(cx: &Ctx) -> Done {
    let Some(expire) = &cx.hooks().expire else { unproven!("the behaviour probe `expire` is missing") };
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let mut process = sandbox.start(cx.probes().output_then_hang("before", &marker)).await?;
    let mut wrote = Vec::new();
    while wrote != b"before\n" {
        match cx.within(60, "what it writes first", process.next()).await?? {
            Some(ProcessEvent::Stdout(bytes)) => wrote.extend_from_slice(&bytes),
            other => fail!("it ended by itself: {other:?}, after {:?}", String::from_utf8_lossy(&wrote)),
        }
    }
    cx.appears(&sandbox, &marker).await?;
    cx.within(60, "the probe `expire`", expire(sandbox.id().clone())).await??;
    let ended = cx.within(40, "a command whose sandbox died", process.wait()).await?;
    expect_kind!(ended, Gone, "a command whose sandbox died: never an exit code");
    Ok(())
}

pub(super) async fn a_panic(cx: &Ctx) -> Done {
    for point in [Point::Spawn, Point::Next] {
        let world = cx.limited(Limits::new())?;
        let sandbox = world.sandbox().await?;
        expect_eq!(world.text(&sandbox, world.probes().echo("control")).await?, "control", "echo before");
        world.meddling().set(point, Fault::Panic);
        let run = world.within(60, "a run whose adapter panics", sandbox.run(world.probes().echo("x"))).await?;
        expect_kind!(run, Internal, "a run whose adapter panics at {point:?}");
        world.meddling().clear();
        // The engine lives, whatever became of the sandbox.
        let other = world.sandbox().await?;
        expect_eq!(world.text(&other, world.probes().echo("lives")).await?, "lives", "echo in another sandbox");
        drop((sandbox, other));
        world.end().await?;
    }
    Ok(())
}
