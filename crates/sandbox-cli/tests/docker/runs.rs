//! Runs that end by themselves, or at their timeout; listing and killing.

use crate::{
    Row,
    support::{
        Running,
        engine::{BUSYBOX, Label, inspect},
        run, run_with, sandbox, until,
    },
};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

pub(crate) const ROWS: &[Row] = &[
    ("runs::program_and_nothing_left", program_and_nothing_left),
    ("runs::input_while_it_runs", input_while_it_runs),
    ("runs::files_in_and_out", files_in_and_out),
    ("runs::caps_are_the_containers", caps_are_the_containers),
    ("runs::timeout_ends_the_sandbox", timeout_ends_the_sandbox),
    ("runs::image_not_found", image_not_found),
    ("runs::ls_and_kill", ls_and_kill),
    ("runs::reap_ends_what_a_label_names", reap_ends_what_a_label_names),
    ("runs::doctor_finds_the_engine_usable", doctor_finds_the_engine_usable),
];

/// `sandbox run` of busybox under this label.
pub(crate) fn labelled(label: &Label, arguments: &[&str]) -> Command {
    let backend = format!("docker+plain://{BUSYBOX}?pull=never");
    let mut command = sandbox(["run", "--backend", &backend, "--label", label.as_str()]);
    command.args(arguments);
    command
}

/// A run whose program has said `ready` on its stdout, which is left to the caller.
pub(crate) fn ready(command: &mut Command) -> (Running, BufReader<std::process::ChildStdout>) {
    let mut running = Running::unread(command);
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (running, stdout)
}

fn program_and_nothing_left() {
    let label = Label::new("program");
    let text = "cat; echo err >&2; echo $A; id -u; exit 7";
    let done = run_with(
        &mut labelled(&label, &["-i", "--env", "A=1 2", "--user", "1000", "--shell", text]),
        b"in\xff\n".to_vec(),
    );
    assert_eq!(done.code, Some(7), "{done:?}");
    assert_eq!((&*done.stdout, &*done.stderr), (&b"in\xff\n1 2\n1000\n"[..], &b"err\n"[..]));
    label.nothing_left();
}

fn input_while_it_runs() {
    let label = Label::new("input");
    let (mut running, mut stdout) =
        ready(labelled(&label, &["-i", "--shell", "echo ready; cat"]).stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().unwrap();
    for word in ["one\n", "two\n"] {
        stdin.write_all(word.as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, word);
    }
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((running.finish().code, rest.as_str()), (Some(0), ""));

    // Nor does input that never ends hold a program that has ended.
    let mut running = Running::start(labelled(&label, &["-i", "--", "true"]).stdin(Stdio::piped()));
    let open = running.child.stdin.take();
    assert_eq!(running.finish().code, Some(0));
    drop(open);
    label.nothing_left();
}

fn files_in_and_out() {
    let label = Label::new("files");
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(host.path().join("in/deep")).unwrap();
    std::fs::write(host.path().join("in/deep/a"), "from the host").unwrap();
    let upload = format!("{}:/work/in", host.path().join("in").display());
    let one = format!("{}:/work/in/", host.path().join("in/deep/a").display());
    let tree = format!("/work/out:{}", host.path().join("out").display());
    let file = format!("/work/out/b:{}", host.path().join("b").display());
    let text = "mkdir out && cat in/deep/a in/a > out/b && exit 3";
    let mut command =
        labelled(&label, &["--upload", &upload, "--upload", &one, "--download", &tree, "--download", &file]);
    let done = run(command.args(["--workdir", "/work", "--shell", text]));
    assert_eq!((done.code, done.err()), (Some(3), String::new()), "{done:?}");
    for path in ["out/b", "b"] {
        assert_eq!(std::fs::read_to_string(host.path().join(path)).unwrap(), "from the hostfrom the host");
    }
    label.nothing_left();
}

fn caps_are_the_containers() {
    let label = Label::new("caps");
    let options =
        ["-i", "--memory", "64m", "--cpus", "0.5", "--pids", "77", "--network", "deny", "--shell", "echo ready; cat"];
    let mut command = labelled(&label, &options);
    let (mut running, _stdout) = ready(command.stdin(Stdio::piped()));
    let [id] = &label.running()[..] else { panic!("not one container") };
    let host = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}} {{.HostConfig.NetworkMode}}";
    assert_eq!(inspect(id, host), format!("{} 500000000 77 none", 64 << 20));
    drop(running.child.stdin.take());
    assert_eq!(running.finish().code, Some(0));
    label.nothing_left();
}

fn timeout_ends_the_sandbox() {
    let label = Label::new("timeout");
    let options = ["--timeout", "3s", "--shell", "echo ready; sleep 600"];
    let (running, _stdout) = ready(&mut labelled(&label, &options));
    assert_eq!(label.running().len(), 1, "it runs while it may");
    let done = running.finish();
    assert_eq!(done.code, Some(245), "{done:?}");
    assert!(done.err().contains("[execution-timeout]"), "{done:?}");
    label.nothing_left();
}

fn image_not_found() {
    let label = Label::new("image");
    let mut command = labelled(&label, &["--json", "--image", "sandbox-test/no-such-image:0", "--", "true"]);
    let done = run(&mut command);
    assert_eq!((done.code, done.documents().len()), (Some(243), 1), "{done:?}");
    assert_eq!(done.end()["errors"][0]["kind"], "image-not-found");
    label.nothing_left();
}

fn ls_and_kill() {
    let label = Label::new("ls");
    let mut command = labelled(&label, &["-i", "--lifetime", "120s", "--shell", "echo ready; cat"]);
    let (mut running, _stdout) = ready(command.stdin(Stdio::piped()));
    let list = |label: &str| run(&mut sandbox(["ls", "--backend", "docker+plain://", "--json", "--label", label]));
    let end = list(label.as_str()).end();
    let [listed] = &end["sandboxes"].as_array().unwrap()[..] else { panic!("not one sandbox: {end}") };
    let (created, expires) = (listed["created"].as_u64().unwrap(), listed["expires"].as_u64().unwrap());
    assert!((115..=125).contains(&(expires - created)), "{listed}");
    assert_eq!(list("cli-test=another").end()["sandboxes"].as_array().map(Vec::len), Some(0));
    let id = listed["id"].as_str().unwrap();
    let table = run(&mut sandbox(["ls", "--backend", "docker+plain://", "--label", label.as_str()])).out();
    assert!(table.starts_with("ID ") && table.contains(id) && table.contains(label.as_str()), "{table}");

    let kill = run(&mut sandbox(["kill", "--backend", "docker+plain://", id]));
    assert_eq!((kill.code, kill.out()), (Some(0), format!("{id}\n")), "{kill:?}");
    label.nothing_left();
    _ = running.child.stdin.as_mut().unwrap().write_all(b"x");
    let done = running.finish();
    assert_eq!(done.code, Some(247), "its sandbox was taken away: {done:?}");
    until("the list is empty", Duration::from_secs(20), || {
        list(label.as_str()).end()["sandboxes"].as_array().unwrap().is_empty()
    });
}

fn reap_ends_what_a_label_names() {
    let label = Label::new("reap");
    let mut command = labelled(&label, &["-i", "--lifetime", "120s", "--shell", "echo ready; cat"]);
    let (mut running, _stdout) = ready(command.stdin(Stdio::piped()));
    let reap = |more: &[&str]| {
        let mut command = sandbox(["reap", "--backend", "docker+plain://", "--label", label.as_str()]);
        run(command.args(more))
    };
    assert_eq!(reap(&["--apply"]).out(), "nothing to reap\n", "it is within its lifetime");
    assert!(reap(&["--live"]).out().contains("would be ended"));
    assert_eq!(label.running().len(), 1, "it was only shown");
    let done = reap(&["--live", "--apply"]);
    assert!(done.code == Some(0) && done.out().contains("ended") && done.out().contains(label.as_str()), "{done:?}");
    label.nothing_left();
    _ = running.child.stdin.as_mut().unwrap().write_all(b"x");
    assert_eq!(running.finish().code, Some(247), "its sandbox was taken away");
}

fn doctor_finds_the_engine_usable() {
    let backend = format!("docker+plain://{BUSYBOX}?pull=never");
    let done = run(&mut sandbox(["doctor", "--json", "--backend", &backend]));
    let end = done.end();
    assert_eq!((done.code, &end["usable"]), (Some(0), &serde_json::json!(true)), "{done:?}");
    let one = &end["backends"][0];
    assert_eq!(one["facts"]["isolation"]["tier"], "container", "{one}");
    assert!(one["checks"].as_array().unwrap().iter().all(|check| check["outcome"] == "ok"), "{one}");
}
