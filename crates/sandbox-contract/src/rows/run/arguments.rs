//! argv and the shell form.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::Done,
};
use sandbox::{Command, Overrides};
use sandbox_core::{Capability, ErrorKind, Status};
use std::time::Duration;

/// What shells, quoting and splitting trip over.
const ODD: &[&str] = &[
    "plain",
    "two words",
    "  blanks around  ",
    "",
    "$HOME",
    "${HOME}",
    "$(id)",
    "`id`",
    "'single'",
    "\"double\"",
    "it's",
    "a\\b\\",
    "\\n",
    "line\nbreak",
    "\nlines around\n",
    "tab\there",
    "*",
    "?",
    "[a-z]",
    "~",
    "#no comment",
    "a;b",
    "a|b",
    "a&b",
    "a>b<c",
    "!history",
    "{a,b}",
    "%s%n",
    "-n",
    "--",
    "-",
    "\u{1}\u{7f}\u{1b}[31m",
    "ünïcödé 日本語 🦀",
    "\r\n",
    "",
];

pub(super) async fn arrive_byte_for_byte(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let all: Vec<String> = ODD.iter().map(|arg| (*arg).to_string()).collect();
    let output = cx.run(&sandbox, cx.probes().args(all)).await?;
    expect_eq!(split(&output.stdout.head), ODD, "the arguments as the program saw them");
    expect_eq!(output.status, Status::Code(0), "the status");
    Ok(())
}

/// The arguments that the probe `args` wrote.
fn split(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut all: Vec<_> = text.split('\0').map(str::to_string).collect();
    // The last one is ended too.
    all.pop();
    all
}

pub(super) async fn no_shell_looks_at_them(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let all = ["$HOME", "*", "`id`", "$(id)", "a  b", "'q'", ";", "|", ">x"].map(str::to_string).to_vec();
    let expected = format!("{}\n", all.join(" "));
    let output = cx.run(&sandbox, cx.probes().plain(all)).await?;
    expect_eq!(output.stdout.text(), expected, "what the program wrote");
    // The control: a shell does look at them.
    let text = cx.text(&sandbox, cx.probes().shell("echo \"$HOME\"").env("HOME", "/of/the/control")).await?;
    expect_eq!(text, "/of/the/control", "the same in the shell form");
    Ok(())
}

/// Each with what it writes; a backend without a shell has to give the same effect for these texts.
const SHELL: &[(&str, &str)] = &[
    ("printf 'b\\na\\n' | sort", "a\nb\n"),
    ("echo one > contract-shell && cat contract-shell", "one\n"),
    ("echo two >> contract-shell && cat < contract-shell", "one\ntwo\n"),
    ("false || echo after", "after\n"),
    ("false && echo never", ""),
    ("cat <<'END'\nhere $HOME\nEND\n", "here $HOME\n"),
    ("X='a b'; echo \"$X\"", "a b\n"),
];

pub(super) async fn the_shell_form(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for (text, expected) in SHELL {
        let output = cx.run(&sandbox, cx.probes().shell(*text)).await?;
        expect_eq!(output.stdout.text(), *expected, "stdout of {text:?}; its stderr: {:?}", output.stderr.text());
        expect_eq!(output.success(), !text.starts_with("false &&"), "the success of {text:?}");
    }
    Ok(())
}

pub(super) async fn a_mebibyte(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let many: Vec<String> = (0..32).map(|n| format!("{n:02}{}", "a".repeat((32 << 10) - 2))).collect();
    let one = vec!["b".repeat(1 << 20)];
    for (what, all) in [("32 arguments of 32 KiB", many), ("one argument of 1 MiB", one)] {
        match cx.within(60, what, sandbox.run(cx.probes().args(all.clone()))).await? {
            Ok(output) => {
                ensure!(output.success(), "{what}: {:?}, stderr {:?}", output.status, output.stderr.text());
                ensure!(split(&output.stdout.head) == all, "{what}: other arguments arrived than were sent");
            }
            Err(error) if error.kind() == ErrorKind::ArgumentTooLarge => {
                ensure!(!error.may_have_applied(), "{what}: nothing ran, and the error denies it: {error:?}");
                cx.note(format_args!("{what}: {error}"));
            }
            Err(error) => fail!("{what}: expected success or `argument-too-large`, got {error:?}"),
        }
        expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo after {what}");
    }
    Ok(())
}

pub(super) async fn what_cannot_be_right(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let echo = || cx.probes().echo("x");
    let mut cases: Vec<(&str, Command)> = vec![
        ("an empty program", Command::new("")),
        ("a NUL in the program", Command::new("ec\0ho")),
        ("a NUL in an argument", echo().arg("a\0b")),
        ("a variable without a name", echo().env("", "x")),
        ("a variable with a `=` in its name", echo().env("A=B", "x")),
        ("a variable with a NUL in its name", echo().env("A\0", "x")),
        ("a variable with a NUL in its value", echo().env("A", "x\0y")),
        ("an empty working directory", echo().cwd("")),
        ("a working directory with a NUL", echo().cwd("/a\0b")),
        ("an output limit of zero", echo().output_limit(0)),
        ("a timeout of zero", echo().timeout(Duration::ZERO)),
    ];
    if cx.has(Capability::User) {
        cases.push(("an empty user", echo().user("")));
        cases.push(("a user that looks like an option", echo().user("-x")));
        cases.push(("a user with a NUL", echo().user("a\0")));
    }
    if cx.has(Capability::Term) {
        let timeout = Duration::from_secs(5);
        cases.push(("a grace of zero", echo().timeout(timeout).grace(Duration::ZERO)));
        cases.push(("a grace of the whole timeout", echo().timeout(timeout).grace(timeout)));
        cases.push(("a grace over the timeout", echo().timeout(timeout).grace(timeout * 2)));
    }
    let spawns = cx.meddling().calls(Point::Spawn);
    for (what, command) in cases {
        let error =
            expect_kind!(cx.within(20, what, sandbox.run(command.clone())).await?, InvalidArgument, "run: {what}");
        ensure!(error.hint().is_some(), "{what}: no hint: {error:?}");
        ensure!(!error.may_have_applied(), "{what}: nothing was sent, and the error says otherwise: {error:?}");
        expect_kind!(sandbox.start(command).await, InvalidArgument, "start: {what}");
    }
    let views = [
        ("a view's variable with a `=` in its name", Overrides::new().env("A=B", "x")),
        ("a view's working directory with a NUL", Overrides::new().cwd("a\0b")),
    ];
    for (what, overrides) in views {
        expect_kind!(sandbox.with(overrides).run(echo()).await, InvalidArgument, "{what}");
    }
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "commands that were sent");
    // The control: the same command with nothing wrong.
    expect_eq!(cx.text(&sandbox, echo().env("A", "x=y").timeout(cx.secs(30))).await?, "x", "echo");
    ensure!(cx.meddling().calls(Point::Spawn) > spawns, "commands are not counted");
    Ok(())
}
