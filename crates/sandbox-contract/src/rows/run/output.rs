//! What a program wrote, and how it ended.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind},
    measure,
    row::Done,
    rows::lifecycle::all,
};
use sandbox::Output;
use sandbox_core::{Captured, ErrorKind, Status};

pub(super) async fn stdout_is_exact(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let text = "  two  blanks, a tab\tand ünïcödé 日本  ";
    let output = cx.run(&sandbox, cx.probes().echo(text)).await?;
    expect_eq!(output.stdout, Captured::whole(format!("{text}\n")), "stdout");
    expect_eq!(output.stderr, Captured::default(), "stderr");
    expect_eq!(output.status, Status::Code(0), "the status");
    let silent = cx.run(&sandbox, cx.probes().succeed()).await?;
    expect_eq!(
        (silent.stdout, silent.stderr),
        (Captured::default(), Captured::default()),
        "what a silent program wrote"
    );
    Ok(())
}

pub(super) async fn stderr_is_exact(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().stderr(" only here ")).await?;
    expect_eq!(output.stderr, Captured::whole(" only here \n"), "stderr");
    expect_eq!(output.stdout, Captured::default(), "stdout");
    expect_eq!(output.status, Status::Code(0), "the status");
    Ok(())
}

pub(super) async fn the_streams_are_apart(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().both("to stdout", "to stderr")).await?;
    expect_eq!(output.stdout, Captured::whole("to stdout\n"), "stdout");
    expect_eq!(output.stderr, Captured::whole("to stderr\n"), "stderr");
    Ok(())
}

pub(super) async fn every_byte_value_passes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().bytes256()).await?;
    let every: Vec<u8> = (0..=255).collect();
    expect_eq!(output.stdout, Captured::whole(every.clone()), "stdout");
    expect_eq!(output.stderr, Captured::whole(every), "stderr");
    // The view as text replaces what is no text, and keeps the rest.
    let text = output.stdout.text();
    ensure!(
        text.starts_with("\0\u{1}") && text.contains("xyz") && text.contains('\u{fffd}'),
        "the text view: {text:?}"
    );
    Ok(())
}

pub(super) async fn an_exit_code_is_data(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for code in [0, 1, 3, 7, 42, 126, 127, 255] {
        let output = cx.run(&sandbox, cx.probes().exit(code)).await?;
        expect_eq!(output.status, Status::Code(code), "the status of a program that ends with {code}");
        expect_eq!((output.code(), output.success()), (code, code == 0), "code and success of {code}");
    }
    let output = cx.run(&sandbox, cx.probes().fail(7)).await?;
    expect_eq!(output.status, Status::Code(7), "the status");
    expect_eq!((&*output.stdout.text(), &*output.stderr.text()), ("out\n", "err\n"), "what it wrote before");
    Ok(())
}

pub(super) async fn check_makes_an_error(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let good = cx.run(&sandbox, cx.probes().echo("fine")).await?.check()?;
    expect_eq!(good.stdout.text(), "fine\n", "what `check` hands through");
    let error = expect_kind!(cx.run(&sandbox, cx.probes().fail(3)).await?.check(), NonZeroExit, "check of code 3");
    let Some(partial) = error.output() else { return Err(crate::row::Stop::fail("the error holds no output")) };
    expect_eq!((&*partial.stdout.text(), &*partial.stderr.text()), ("out\n", "err\n"), "the output in the error");
    ensure!(error.to_string().contains('3'), "the error does not say the code: {error}");
    Ok(())
}

pub(super) async fn a_death_by_signal_is_told(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for signal in [9, 11, 15] {
        let output = cx.run(&sandbox, cx.probes().signal(signal)).await?;
        expect_eq!(output.status, Status::Signal(signal), "the status of a program that dies of signal {signal}");
        expect_eq!(output.code(), 128 + signal, "the same as one number");
        // A program may well end with that number by itself.
        let output = cx.run(&sandbox, cx.probes().exit(128 + signal)).await?;
        expect_eq!(output.status, Status::Code(128 + signal), "the status of a program that ends with 128 + {signal}");
    }
    Ok(())
}

pub(super) async fn a_death_by_signal_is_never_success(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for signal in [9, 11, 15] {
        let output = cx.run(&sandbox, cx.probes().signal(signal)).await?;
        ensure!(!output.success(), "a program that died of signal {signal} succeeded: {output:?}");
        expect_eq!(output.code(), 128 + signal, "the code of a death by signal {signal}");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}

pub(super) async fn sixty_four_mib_of_output(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    // The default limit is just so much, or what the wire can carry.
    let size = cx.facts().largest_output().unwrap_or(u64::MAX).min(64 << 20);
    let output = cx.run(&sandbox, cx.probes().flood(size)).await?;
    expect_eq!((output.stdout.dropped, output.stdout.head.len() as u64), (0, size), "bytes dropped and kept");
    ensure!(output.stdout.head.iter().all(|byte| *byte == b'x'), "it is not what was written");
    expect_eq!(output.status, Status::Code(3), "the status");
    Ok(())
}

pub(super) async fn output_over_its_limit(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let all: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    for limit in [1001_usize, 1000, 1] {
        let output = cx.run(&sandbox, cx.probes().lines(20_000_u32).output_limit(limit as u64)).await?;
        let (head, tail) = (limit - limit / 2, limit / 2);
        let expected = Captured::cut(
            all.as_bytes()[..head].to_vec(),
            all.as_bytes()[all.len() - tail..].to_vec(),
            (all.len() - limit) as u64,
        );
        expect_eq!(output.stdout, expected, "stdout with a limit of {limit}");
        expect_eq!(output.status, Status::Code(0), "the status with a limit of {limit}");
    }
    // Exactly as much as the limit is nothing too much.
    let output = cx.run(&sandbox, cx.probes().lines(20_000_u32).output_limit(all.len() as u64)).await?;
    expect_eq!(output.stdout, Captured::whole(all.clone()), "stdout with a limit of its own length");
    let output = cx.run(&sandbox, cx.probes().lines(20_000_u32).output_limit(all.len() as u64 - 1)).await?;
    expect_eq!(output.stdout.dropped, 1, "bytes dropped with a limit of one less");
    // Far more, and the code survives.
    let output = cx.run(&sandbox, cx.probes().flood(20_u64 << 20).output_limit(1 << 20)).await?;
    let (head, tail) = (output.stdout.head.len(), output.stdout.tail.len());
    expect_eq!((head, tail, output.stdout.dropped), (1 << 19, 1 << 19, 19 << 20), "head, tail, dropped of a flood");
    expect_eq!(output.status, Status::Code(3), "the status of a flood");
    Ok(())
}

pub(super) async fn memory_for_output_is_bounded(cx: &Ctx) -> Done {
    measure::bounded(cx, measure::Job::Output).await
}

pub(super) async fn a_flood_on_stderr(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let size = cx.facts().largest_output().unwrap_or(u64::MAX).min(16 << 20);
    let output = cx.run(&sandbox, cx.probes().flood_stderr(size)).await?;
    expect_eq!(output.stdout, Captured::whole("done\n"), "stdout");
    expect_eq!((output.stderr.head.len() as u64, output.stderr.dropped), (size, 0), "bytes of stderr kept and dropped");
    expect_eq!(output.status, Status::Code(0), "the status");
    Ok(())
}

pub(super) async fn ten_thousand_tiny_writes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let output = cx.run(&sandbox, cx.probes().tiny_writes(10_000_u32)).await?;
    let expected: String = (0..10_000).map(|n| format!("{n}\n")).collect();
    expect_eq!(output.stdout, Captured::whole(expected), "stdout");
    Ok(())
}

pub(super) async fn sixty_four_at_once(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let texts: Vec<_> = (0..64).map(|n| (format!("out of {n}"), format!("err of {n}"))).collect();
    let runs = texts.iter().map(|(out, err)| Box::pin(sandbox.run(cx.probes().both(out, err)))).collect();
    let outputs: Vec<Result<Output, _>> = cx.within(100, "64 commands at once", all(runs)).await?;
    for (output, (out, err)) in outputs.into_iter().zip(&texts) {
        let output = output?;
        expect_eq!(output.stdout, Captured::whole(format!("{out}\n")), "stdout of one of 64");
        expect_eq!(output.stderr, Captured::whole(format!("{err}\n")), "stderr of one of 64");
        expect_eq!(output.status, Status::Code(0), "the status of one of 64");
    }
    Ok(())
}

/// Texts that engines write where a program never ran, with the codes that they give then.
const LOOKS: &[(&str, i32)] = &[
    (
        "OCI runtime exec failed: exec failed: unable to start container process: exec: \"x\": executable file not found in $PATH: unknown",
        127,
    ),
    (
        "OCI runtime exec failed: exec failed: chdir to cwd (\"/x\") set in config.json failed: no such file or directory",
        126,
    ),
    ("unable to find user x: no matching entries in passwd file", 126),
    ("{\"message\":\"No such container: x\"}", 1),
    ("rpc error: code = NotFound desc = sandbox not found", 0),
];

pub(super) async fn looks_like_an_engine_error(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for (text, code) in LOOKS {
        let output = match cx.within(60, text, sandbox.run(cx.probes().say_and_exit(*text, *code))).await? {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::Gone => {
                return Err(crate::row::Stop::fail(format_args!("output ended the sandbox: {text:?}: {error:?}")));
            }
            Err(error) => return Err(error.into()),
        };
        expect_eq!(output.stdout, Captured::whole(format!("{text}\n")), "stdout of a program that exits with {code}");
        expect_eq!(output.status, Status::Code(*code), "the status of a program that writes {text:?}");
    }
    Ok(())
}
