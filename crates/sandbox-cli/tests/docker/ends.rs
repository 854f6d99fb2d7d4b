//! Ends that are not the program's own leave nothing.

use super::runs::{labelled, ready};
use crate::{
    Row,
    support::{
        Running,
        engine::{BUSYBOX, Label, inspect, remove},
        sandbox, until,
    },
};
use rustix::process::Signal;
use std::{
    env,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) const ROWS: &[Row] = &[
    ("ends::signals_leave_nothing", signals_leave_nothing),
    ("ends::signals_during_create_leave_nothing", signals_during_create_leave_nothing),
    ("ends::an_ignored_signal_stays_ignored", an_ignored_signal_stays_ignored),
    ("ends::a_second_signal_leaves_at_once", a_second_signal_leaves_at_once),
    ("ends::readers_that_leave_leave_nothing", readers_that_leave_leave_nothing),
    ("ends::killed_holders_leave_nothing_past_the_lifetime", killed_holders_leave_nothing_past_the_lifetime),
];

fn signals_leave_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let label = Label::new("signal");
        let (running, _stdout) = ready(&mut labelled(&label, &["--shell", "echo ready; sleep 600"]));
        assert_eq!(label.running().len(), 1);
        running.signal(signal);
        let done = running.finish();
        assert_eq!((done.code, done.err()), (Some(code), String::new()));
        label.nothing_left();
    }
}

fn signals_during_create_leave_nothing() {
    for tenths in [0, 1, 2, 4, 8] {
        let label = Label::new("create");
        let running = Running::start(&mut labelled(&label, &["--", "sleep", "600"]));
        // Its signals are its own once it is past its first steps.
        thread::sleep(Duration::from_millis(60 + 100 * tenths));
        running.signal(Signal::INT);
        let done = running.finish();
        assert_eq!(done.code, Some(130), "after {tenths} tenths: {done:?}");
        label.nothing_left();
    }
}

fn an_ignored_signal_stays_ignored() {
    let label = Label::new("ignored");
    let run = labelled(&label, &["-i", "--shell", "echo ready; cat"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
    let (mut running, mut stdout) = ready(command.stdin(Stdio::piped()));
    running.signal(Signal::HUP);
    thread::sleep(Duration::from_secs(1));
    running.child.stdin.take().unwrap().write_all(b"still there\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((running.finish().code, rest.as_str()), (Some(0), "still there\n"));
    label.nothing_left();
}

fn a_second_signal_leaves_at_once() {
    let label = Label::new("second");
    let relay = Relay::start();
    let backend = format!("docker+plain://{BUSYBOX}?pull=never&host=tcp://127.0.0.1:{}", relay.port);
    let options = ["--label", label.as_str(), "--lifetime", "120s", "--shell", "echo ready; sleep 600"];
    let (running, _stdout) = ready(sandbox(["run", "--backend", &backend]).args(options));
    let [id] = &label.running()[..] else { panic!("not one container") };
    relay.stalled.store(true, Ordering::SeqCst);
    running.signal(Signal::INT);
    thread::sleep(Duration::from_secs(1));
    let begun = std::time::Instant::now();
    running.signal(Signal::INT);
    let done = running.finish();
    assert_eq!(done.code, Some(130), "{done:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "it left at once: {:?}", begun.elapsed());
    let name = inspect(id, "{{.Name}} {{.Id}}");
    let said = done.err();
    let named = said.split_whitespace().any(|word| word.len() > 5 && name.contains(word));
    assert!(said.starts_with("sandbox: warning: ") && named, "{said} {name}");
    assert_eq!(label.running().len(), 1, "what was said to be left is left");
    remove(id);
    label.nothing_left();
}

/// The engine at a port, until it is stalled: then requests are taken and not answered.
struct Relay {
    port: u16,
    stalled: Arc<AtomicBool>,
}

impl Relay {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, stalled) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let stall = Arc::clone(&stalled);
        let host = env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let socket = host.strip_prefix("unix://").expect("the engine answers at a socket").to_string();
        // It ends with this process.
        thread::spawn(move || {
            let mut held = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                if stall.load(Ordering::SeqCst) {
                    held.push(client);
                    continue;
                }
                let engine = UnixStream::connect(&socket).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
                thread::spawn(move || {
                    _ = io::copy(&mut from, &mut to);
                    _ = to.shutdown(Shutdown::Write);
                });
                thread::spawn(move || back(engine, client));
            }
        });
        Self { port, stalled }
    }
}

fn back(mut engine: UnixStream, mut client: TcpStream) {
    _ = io::copy(&mut engine, &mut client);
    _ = client.shutdown(Shutdown::Write);
}

fn readers_that_leave_leave_nothing() {
    // One that would write on, and one that is silent from then on.
    for text in ["echo ready; yes", "echo ready; sleep 600"] {
        let label = Label::new("pipe");
        let (running, stdout) = ready(&mut labelled(&label, &["--shell", text]));
        assert_eq!(label.running().len(), 1);
        drop(stdout);
        let done = running.finish();
        assert_eq!((done.code, done.err()), (Some(141), String::new()), "{text}");
        label.nothing_left();
    }
}

fn killed_holders_leave_nothing_past_the_lifetime() {
    let label = Label::new("killed");
    let options = ["--lifetime", "20s", "--timeout", "20s", "--", "sleep", "600"];
    let holders: Vec<_> = (0..5).map(|_| Running::start(labelled(&label, &options).stdin(Stdio::null()))).collect();
    until("five sandboxes run", Duration::from_secs(15), || label.running().len() == 5);
    for mut holder in holders {
        holder.child.kill().unwrap();
        assert_eq!(holder.finish().code, None, "it was killed");
    }
    assert_eq!(label.running().len(), 5, "nobody is left who could end them");
    until("none of the five is left", Duration::from_secs(60), || label.containers().is_empty());
    label.nothing_left();
}
