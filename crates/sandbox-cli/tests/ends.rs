//! Ends that are not the program's own: signals, readers that leave; and what a terminal sees.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use rustix::process::Signal;
use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _},
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};
use support::{Running, sandbox};

/// Says that it is there, and then computes for ever: with a virtual clock, whoever waits does not wait for long.
const LOOP: [&str; 5] = ["run", "--backend", "fake://", "--shell", "echo ready; while true; do true; done"];
/// The same, but it writes on.
const WRITE: [&str; 5] = ["run", "--backend", "fake://", "--shell", "echo ready; while true; do echo more; done"];

/// A command whose program has said `ready`, and its stdout.
fn ready(command: &mut Command) -> (Running, BufReader<ChildStdout>) {
    let mut running = Running::unread(command);
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended without being ready");
    }
    (running, stdout)
}

#[test]
fn a_signal_ends_it_with_its_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let (running, mut stdout) = ready(&mut sandbox(LOOP));
        running.signal(signal);
        let done = running.finish();
        assert_eq!((done.code, done.err()), (Some(code), String::new()));
        assert!(done.took < Duration::from_secs(30), "promptly: {:?}", done.took);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn a_signal_is_the_last_document() {
    let (running, mut stdout) = ready(sandbox(LOOP).arg("--json"));
    running.signal(Signal::INT);
    let done = running.finish();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let last: serde_json::Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(
        (done.code, last["status"].as_str(), last["exit"].as_i64()),
        (Some(130), Some("interrupted"), Some(130))
    );
}

#[test]
fn a_signal_ends_it_although_nobody_reads_its_output() {
    let (running, _unread) = ready(sandbox(WRITE).arg("--json"));
    // The pipe is full by then.
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::INT);
    assert_eq!(running.finish().code, Some(130));
}

#[test]
fn a_reader_that_leaves_ends_it_without_noise() {
    for program in [WRITE, LOOP] {
        for json in [&[][..], &["--json"]] {
            let (running, stdout) = ready(sandbox(program).args(json));
            drop(stdout);
            let done = running.finish();
            assert_eq!((done.code, done.err()), (Some(141), String::new()), "{program:?} {json:?}");
            assert!(done.took < Duration::from_secs(30), "promptly: {:?}", done.took);
        }
    }
}

#[test]
fn progress_is_for_terminals_alone() {
    let seen = |mut command: Command| {
        let (ours, theirs) = terminal();
        command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        drop(command); // It holds the terminal's other end.
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert!(child.wait().unwrap().success());
        (stdout, all(ours))
    };
    let program = || sandbox(["run", "--backend", "fake://", "--shell", "echo out"]);
    let (stdout, stderr) = seen(program());
    assert_eq!(stdout, "out\n");
    assert!(stderr.contains("creating the sandbox"), "{stderr:?}");
    assert!(stderr.contains("\u{1b}[36m"), "it has a colour: {stderr:?}");
    let mut plain = program();
    plain.env("NO_COLOR", "1");
    let (_, stderr) = seen(plain);
    assert!(stderr.contains("creating the sandbox") && !stderr.contains("\u{1b}[36m"), "{stderr:?}");
    let done = support::run(&mut program());
    assert_eq!(done.err(), "");
}

/// Both ends of a terminal.
fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    (File::from(ours), OpenOptions::new().read(true).write(true).open(name).unwrap())
}

/// Everything until the other end is closed, which a terminal tells as an error.
fn all(mut terminal: File) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        all.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}
