//! The command over the fake backend.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use serde_json::json;
use std::{fs, process::Stdio};
use support::{Running, run, run_with, sandbox};

fn fake<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--backend", "fake://"], arguments].concat()
}

#[test]
fn a_shell_pipeline_runs_over_an_uploaded_directory() {
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("names.txt"), "b\na\nb\n").unwrap();
    fs::create_dir(host.path().join("deep")).unwrap();
    fs::write(host.path().join("deep/more.txt"), "c\n").unwrap();
    let upload = format!("{}:/work", host.path().display());
    let text = "cat names.txt deep/more.txt | sort | uniq -c | sort -rn | head -n 1";
    let done = run(&mut sandbox(fake(&["--upload", &upload, "--workdir", "/work", "--shell", text])));
    assert_eq!((done.code, done.out().trim()), (Some(0), "2 b"), "{done:?}");
}

#[test]
fn a_file_goes_into_a_directory_under_its_name() {
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("one"), "1").unwrap();
    let one = host.path().join("one");
    let (slash, plain) = (format!("{}:/data/", one.display()), format!("{}:/data/two", one.display()));
    let done =
        run(&mut sandbox(fake(&["--upload", &slash, "--upload", &plain, "--", "cat", "/data/one", "/data/two"])));
    assert_eq!((done.code, done.out()), (Some(0), "11".into()), "{done:?}");
}

#[test]
fn streams_stay_apart_and_the_code_is_the_programs() {
    for code in [0, 1, 7, 126, 127, 240, 255] {
        let text = format!("echo out; echo err >&2; exit {code}");
        let done = run(&mut sandbox(fake(&["--shell", &text])));
        assert_eq!((done.code, done.out(), done.err()), (Some(code), "out\n".into(), "err\n".into()));
    }
}

#[test]
fn a_program_with_a_code_of_ours_is_told_from_us() {
    let program = run(&mut sandbox(fake(&["--json", "--shell", "exit 240"])));
    assert_eq!(program.code, Some(240));
    assert_eq!((&program.end()["status"], &program.end()["code"]), (&json!("exited"), &json!(240)));
    let ours = run(&mut sandbox(fake(&["--json", "--upload", "/no/such/thing:/work", "--shell", "exit 0"])));
    assert_eq!(ours.code, Some(240));
    assert_eq!((&ours.end()["status"], &ours.end()["code"]), (&json!("failed"), &json!(null)));
}

#[test]
fn arguments_arrive_as_they_are() {
    let odd = ["", "a b", "$HOME", "`x`", "'", "\"", "--json", "é\n"];
    let mut arguments = fake(&["--json", "--", "printf", "[%s]"]);
    arguments.extend(odd);
    let done = run(&mut sandbox(arguments));
    let text: String = done.documents().iter().filter_map(|d| d["text"].as_str()).collect();
    assert_eq!(text, odd.map(|one| format!("[{one}]")).concat(), "{done:?}");
}

#[test]
fn input_is_passed_on_byte_for_byte() {
    let input: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let done = run_with(&mut sandbox(fake(&["-i", "--", "cat"])), input.clone());
    assert_eq!((done.code, done.err()), (Some(0), String::new()));
    assert!(done.stdout == input, "{} bytes came back", done.stdout.len());
}

#[test]
fn a_program_that_ignores_its_input_is_not_held_by_it() {
    let mut running = Running::start(sandbox(fake(&["-i", "--", "echo", "done"])).stdin(Stdio::piped()));
    let open = running.child.stdin.take();
    let done = running.finish();
    assert_eq!((done.code, done.out()), (Some(0), "done\n".into()), "{done:?}");
    drop(open);
}

#[test]
fn input_is_passed_on_only_where_that_is_asked_for() {
    let done = run_with(&mut sandbox(fake(&["--", "cat"])), "unseen");
    assert_eq!((done.code, done.out()), (Some(0), String::new()), "{done:?}");
    // Nor does an input that nobody writes or closes hold anything up.
    let mut running = Running::start(sandbox(fake(&["--shell", "cat; echo done"])).stdin(Stdio::piped()));
    let open = running.child.stdin.take();
    let done = running.finish();
    assert_eq!((done.code, done.out()), (Some(0), "done\n".into()), "{done:?}");
    drop(open);
}

#[test]
fn documents_hold_text_and_other_bytes() {
    let text = run(&mut sandbox(fake(&["--json", "--shell", "echo é; echo err >&2; exit 3"])));
    let documents = text.documents();
    assert_eq!(documents[0]["event"], "created", "{text:?}");
    assert!(documents[0]["sandbox"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(documents.contains(&json!({ "event": "stdout", "text": "é\n" })), "{text:?}");
    assert!(documents.contains(&json!({ "event": "stderr", "text": "err\n" })), "{text:?}");
    let end = text.end();
    assert_eq!((&end["status"], &end["code"], &end["errors"]), (&json!("exited"), &json!(3), &json!([])));
    assert_eq!(end["stdout"], json!({ "bytes": 3, "dropped": 0 }));
    assert_eq!(text.err(), "");

    let bytes = run_with(&mut sandbox(fake(&["--json", "-i", "--", "cat"])), b"a\xff\x00b".to_vec());
    assert!(bytes.documents().contains(&json!({ "event": "stdout", "base64": "Yf8AYg==" })), "{bytes:?}");
}

#[test]
fn downloads_happen_whatever_the_code() {
    let host = tempfile::tempdir().unwrap();
    let file = format!("/out/report:{}", host.path().join("report.txt").display());
    let tree = format!("/out:{}", host.path().join("tree").display());
    let into = format!("/out/report:{}", host.path().display());
    let text = "mkdir -p /out/deep; printf fine > /out/report; printf x > /out/deep/x; exit 5";
    let done =
        run(&mut sandbox(fake(&["--download", &file, "--download", &tree, "--download", &into, "--shell", text])));
    assert_eq!((done.code, done.err()), (Some(5), String::new()));
    let read = |path: &str| fs::read_to_string(host.path().join(path)).unwrap();
    assert_eq!((read("report.txt"), read("report")), ("fine".into(), "fine".into()));
    assert_eq!((read("tree/report"), read("tree/deep/x")), ("fine".into(), "x".into()));
}

#[test]
fn a_download_that_fails_is_an_error_of_its_own() {
    let host = tempfile::tempdir().unwrap();
    let download = format!("/no/such:{}", host.path().join("x").display());
    for (text, code) in [("echo out", 248), ("echo out; exit 3", 3)] {
        let done = run(&mut sandbox(fake(&["--json", "--download", &download, "--shell", text])));
        assert_eq!(done.code, Some(code), "{done:?}");
        let end = done.end();
        assert_eq!((&end["status"], end["errors"].as_array().unwrap().len()), (&json!("exited"), 1));
        let error = &end["errors"][0];
        assert_eq!((&error["phase"], &error["kind"]), (&json!("download"), &json!("path-not-found")));
        assert!(done.err().contains("sandbox: error: ") && done.err().contains("[path-not-found]"), "{done:?}");
    }
    assert!(!host.path().join("x").exists());
}

#[test]
fn what_is_missing_on_the_host_is_said_before_anything_is_made() {
    let host = tempfile::tempdir().unwrap();
    let up = format!("{}:/work", host.path().join("gone").display());
    let down = format!("/work/x:{}", host.path().join("gone/x").display());
    for option in [["--upload", &up], ["--download", &down]] {
        let done = run(&mut sandbox(fake(&["--json", option[0], option[1], "--shell", "echo ran"])));
        assert_eq!(done.code, Some(240), "{done:?}");
        assert_eq!(done.documents().len(), 1, "nothing was created: {done:?}");
        assert_eq!(done.end()["errors"][0]["kind"], "path-not-found");
        assert!(done.err().contains("on this host") && done.err().contains("gone"), "{done:?}");
    }
}

#[test]
fn without_a_backend_the_schemes_are_listed() {
    for arguments in [&["run", "--", "true"][..], &["ls"], &["kill", "x"]] {
        let done = run(&mut sandbox(arguments));
        assert_eq!((done.code, done.out()), (Some(241), String::new()), "{done:?}");
        let error = done.err();
        assert!(error.contains("[backend-missing]") && error.contains("SANDBOX_BACKEND"), "{error}");
        assert!(error.contains("fake://") && error.contains("docker+plain://"), "{error}");
    }
    let done = run(sandbox(["run", "--shell", "echo there"]).env("SANDBOX_BACKEND", "fake://"));
    assert_eq!((done.code, done.out()), (Some(0), "there\n".into()), "{done:?}");
    let wins = ["run", "--backend", "fake://", "--shell", "echo there"];
    let done = run(sandbox(wins).env("SANDBOX_BACKEND", "nothing://"));
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn an_unknown_scheme_lists_what_is_there() {
    let done = run(&mut sandbox(["run", "--backend", "nothing://x", "--", "true"]));
    assert_eq!(done.code, Some(241), "{done:?}");
    let error = done.err();
    assert!(error.contains("[backend-unknown]") && error.contains("nothing"), "{error}");
    assert!(error.contains("fake://") && error.contains("docker+plain://"), "{error}");
}

#[test]
fn an_engine_that_is_not_there_is_told_as_such() {
    let backend = "docker+plain://x?host=unix:///no/such/engine.sock";
    for command in [&["run", "--json", "--backend", backend, "--", "true"][..], &["ls", "--json", "--backend", backend]]
    {
        let done = run(&mut sandbox(command));
        assert_eq!((done.code, done.documents().len()), (Some(241), 1), "{done:?}");
        assert_eq!(done.end()["errors"][0]["kind"], "backend-missing");
    }
}

#[test]
fn a_dsn_with_a_credential_is_refused_unprinted() {
    let done = run(&mut sandbox(["run", "--json", "--backend", "fake://?api_key=hunter2", "--", "true"]));
    assert_eq!(done.code, Some(240), "{done:?}");
    assert_eq!(done.end()["errors"][0]["kind"], "invalid-argument");
    assert!(done.err().contains("api_key") && !format!("{}{}", done.out(), done.err()).contains("hunter2"), "{done:?}");
}

#[test]
fn a_timeout_is_told_from_an_exit_and_keeps_the_output() {
    let done =
        run(&mut sandbox(fake(&["--json", "--timeout", "2s", "--shell", "echo before; sleep 1000; echo after"])));
    assert_eq!(done.code, Some(245), "{done:?}");
    let end = done.end();
    assert_eq!((&end["status"], &end["errors"][0]["kind"]), (&json!("timed-out"), &json!("execution-timeout")));
    let text: String = done.documents().iter().filter_map(|d| d["text"].as_str()).collect();
    assert_eq!(text, "before\n");
    let in_time = run(&mut sandbox(fake(&["--timeout", "2000s", "--shell", "sleep 1000; echo after"])));
    assert_eq!((in_time.code, in_time.out()), (Some(0), "after\n".into()), "{in_time:?}");
}

#[test]
fn an_output_limit_keeps_head_and_tail() {
    let done = run(&mut sandbox(fake(&["--output-limit", "8", "--shell", "printf 'head%s' 0123456789tail; exit 2"])));
    assert_eq!((done.code, done.out()), (Some(2), "headtail".into()), "{done:?}");
    assert!(done.err().contains("10 bytes of stdout were dropped"), "{done:?}");
}

#[test]
fn environment_and_user_reach_the_program() {
    let done = run(&mut sandbox(fake(&["--env", "A=1", "--env", "B=x=y", "--env", "A=2", "--shell", "echo $A $B"])));
    assert_eq!((done.code, done.out()), (Some(0), "2 x=y\n".into()), "{done:?}");
}

#[test]
fn what_can_never_be_right_is_refused_before_anything_is_made() {
    for (arguments, word) in [
        (&["--lifetime", "-5s", "--", "true"][..], "--lifetime"),
        (&["--lifetime", "0", "--", "true"], "--lifetime"),
        (&["--timeout", "0s", "--", "true"], "--timeout"),
        (&["--memory", "-1m", "--", "true"], "--memory"),
        (&["--cpus", "none", "--", "true"], "--cpus"),
        (&["--pids", "0", "--", "true"], "--pids"),
        (&["--network", "sometimes", "--", "true"], "--network"),
        (&["--network", "allow=no host", "--", "true"], "write a host"),
        (&["--env", "novalue", "--", "true"], "NAME=VALUE"),
        (&["--upload", "nowhere", "--", "true"], "HOST:PATH"),
        (&["--shell", "true", "--", "true"], "--shell"),
        (&[], "--shell"),
        (&["--no-such-option", "--", "true"], "--no-such-option"),
        (&["--label", "sandbox.marker=x", "--", "true"], "sandbox."),
        (&["--env", "A\u{1}=x", "--workdir", "/a\u{0}", "--", "true"][..2], "A"),
    ] {
        let done = run(&mut sandbox(fake(&[&["--json"], arguments].concat())));
        assert_eq!(done.code, Some(240), "{arguments:?} {done:?}");
        assert_eq!((done.documents().len(), done.end()["status"].as_str()), (1, Some("failed")), "{done:?}");
        assert!(done.err().starts_with("sandbox: error: ") && done.err().contains(word), "{arguments:?} {done:?}");
        assert!(!done.err().contains("error: error"), "{done:?}");
    }
}

#[test]
fn a_program_that_is_not_there_never_looks_like_success() {
    let done = run(&mut sandbox(fake(&["--json", "--", "no-such-program"])));
    match done.end()["status"].as_str() {
        Some("failed") => {
            assert_eq!((done.code, &done.end()["errors"][0]["kind"]), (Some(244), &json!("program-not-found")))
        }
        status => assert_eq!((status, done.code), (Some("exited"), Some(127)), "{done:?}"),
    }
}

#[test]
fn listing_and_killing_answer_in_both_forms() {
    let list = run(&mut sandbox(["ls", "--backend", "fake://"]));
    assert_eq!((list.code, list.out(), list.err()), (Some(0), String::new(), String::new()));
    let list = run(&mut sandbox(["ls", "--backend", "fake://", "--label", "a=b", "--json"]));
    assert_eq!((&list.end()["status"], &list.end()["sandboxes"]), (&json!("ok"), &json!([])));
    let kill = run(&mut sandbox(["kill", "--backend", "fake://", "one", "two"]));
    assert_eq!((kill.code, kill.out()), (Some(0), "one\ntwo\n".into()), "{kill:?}");
    let kill = run(&mut sandbox(["kill", "--backend", "fake://", "--json", "one", ""]));
    assert_ne!(kill.code, Some(0), "an id that is none");
    assert_eq!((&kill.end()["status"], &kill.end()["destroyed"]), (&json!("failed"), &json!(["one"])), "{kill:?}");
}

#[test]
fn help_has_examples_and_the_table_of_codes() {
    let help = run(&mut sandbox(["--help"]));
    assert_eq!((help.code, help.err()), (Some(0), String::new()));
    assert!(help.out().contains("Examples:") && help.out().contains("SANDBOX_BACKEND"), "{}", help.out());
    let help = run(&mut sandbox(["run", "--help"])).out();
    assert!(help.contains("Exit codes:") && help.contains("  245  ") && help.contains("Examples:"), "{help}");
    for command in ["ls", "kill", "reap", "doctor", "explain", "conformance", "demo", "completions"] {
        assert!(run(&mut sandbox([command, "-h"])).out().contains("Examples:"));
    }
    let version = run(&mut sandbox(["--version"]));
    assert_eq!(version.out(), format!("sandbox {}\n", env!("CARGO_PKG_VERSION")));
    let version = run(&mut sandbox(["--json", "--version"]));
    assert_eq!(version.documents()[0]["version"], env!("CARGO_PKG_VERSION"));
}

#[cfg(unix)]
#[test]
fn what_cannot_be_right_is_told_before_anything_is_made() {
    let host = tempfile::tempdir().unwrap();
    let socket = host.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let special = format!("/etc/hostname:{}", socket.display());
    let wrong: [(&str, &[&str]); 4] = [
        ("a timeout over the lifetime", &["--timeout", "2h", "--", "true"]),
        ("an empty program", &["--", ""]),
        ("an empty working directory", &["--workdir", "", "--", "true"]),
        ("a target that is no file", &["--download", &special, "--", "true"]),
    ];
    for (what, arguments) in wrong {
        let done = run(&mut sandbox(fake(arguments)));
        assert_eq!(done.code, Some(240), "{what}: {done:?}");
        assert!(done.err().contains("sandbox: hint: "), "{what}: {done:?}");
    }
    let fine = run(&mut sandbox(fake(&["--timeout", "2h", "--lifetime", "3h", "--workdir", "/tmp", "--", "true"])));
    assert_eq!(fine.code, Some(0), "the control: {fine:?}");
}

#[test]
fn a_download_into_a_directory_that_is_not_there_makes_it() {
    let host = tempfile::tempdir().unwrap();
    let into = host.path().join("new");
    let download = format!("/tmp/one:{}/", into.display());
    let done = run(&mut sandbox(fake(&["--download", &download, "--shell", "echo 1 > /tmp/one"])));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(fs::read_to_string(into.join("one")).unwrap(), "1\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_list_that_nobody_gets_is_no_success() {
    for arguments in
        [&["ls", "--backend", "fake://"][..], &["--json", "ls", "--backend", "fake://"], &["explain", "gone"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = sandbox(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let empty = arguments == ["ls", "--backend", "fake://"];
        assert_eq!(done.status.code(), Some(if empty { 0 } else { 250 }), "{arguments:?}: {said}");
    }
}

#[test]
fn an_image_is_built_from_a_directory() {
    let host = tempfile::tempdir().unwrap();
    let dockerfile = "FROM default\nCOPY . /ctx\nWORKDIR /ctx\nRUN [\"/bin/sh\", \"-c\", \"cat a >>made\"]\n";
    fs::write(host.path().join("Dockerfile"), dockerfile).unwrap();
    fs::write(host.path().join("a"), "A").unwrap();
    let directory = host.path().display().to_string();
    let done = run(&mut sandbox(fake(&["--build", &directory, "--shell", "cat made; ls"])));
    assert_eq!((done.code, done.out()), (Some(0), "ADockerfile\na\nmade\n".into()), "{done:?}");
    let both = run(&mut sandbox(fake(&["--build", &directory, "--image", "default", "--", "true"])));
    assert!(both.code == Some(240) && both.err().contains("--image"), "{both:?}");
    fs::write(host.path().join("Dockerfile"), "FROM default\nRUN [\"cat\", \"/nope\"]\n").unwrap();
    let failed = run(&mut sandbox(fake(&["--build", &directory, "--", "true"])));
    assert!(failed.code != Some(0) && failed.err().contains("/nope"), "{failed:?}");
    let nothing = run(&mut sandbox(fake(&["--build", "/no/such/dir", "--", "true"])));
    assert!(nothing.code == Some(240) && nothing.err().contains("on this host"), "{nothing:?}");
}
