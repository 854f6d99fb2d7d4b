//! The commands that run nothing for anybody: doctor, explain, demo, completions, conformance.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use serde_json::json;
use std::fs;
use support::{run, sandbox};

/// Every command that can be called without anything else, as people and as programs call it.
#[test]
fn every_command_answers_programs_with_what_it_tells_people() {
    for (command, field) in [
        (&["doctor", "--backend", "fake://"][..], "backends"),
        (&["explain", "gone"], "codes"),
        (&["demo"], "steps"),
        (&["completions", "bash"], "script"),
        (&["reap", "--backend", "fake://"], "sandboxes"),
        (&["ls", "--backend", "fake://"], "sandboxes"),
        (&["kill", "--backend", "fake://", "fake-1"], "destroyed"),
    ] {
        let people = run(&mut sandbox(command));
        assert_eq!((people.code, people.err()), (Some(0), String::new()), "{people:?}");
        let programs = run(sandbox(command).arg("--json"));
        let end = programs.end();
        assert_eq!((programs.code, &end["status"]), (Some(0), &json!("ok")), "{programs:?}");
        assert!(!end[field].is_null(), "{command:?}: {end}");
    }
}

#[test]
fn the_demo_does_the_main_job_and_leaves_nothing() {
    let done = run(&mut sandbox(["demo"]));
    assert_eq!((done.code, done.err()), (Some(0), String::new()), "{done:?}");
    for part in ["3 the", "[execution-timeout]", "[isolation-too-weak]", "nothing is left"] {
        assert!(done.out().contains(part), "{part}: {}", done.out());
    }
}

#[test]
fn doctor_tells_an_engine_that_is_not_there_from_one_that_is() {
    let done = run(&mut sandbox(["doctor", "--backend", "docker+plain://?host=unix:///no/such.sock", "--json"]));
    let one = &done.end()["backends"][0];
    assert_eq!((done.code, &one["usable"]), (Some(241), &json!(false)), "{done:?}");
    let probe = &one["checks"][1];
    assert_eq!(
        (&probe["check"], &probe["outcome"], &probe["kind"]),
        (&json!("probe"), &json!("failed"), &json!("backend-missing"))
    );
    assert!(probe["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{probe}");
    let both = ["doctor", "--backend", "fake://", "--backend", "docker+plain://?host=unix:///no/such.sock"];
    let done = run(&mut sandbox(both));
    assert_eq!(done.code, Some(241), "one of them is not usable");
    assert!(done.out().contains("fake://: usable\n") && done.out().contains("NOT USABLE\n"), "{}", done.out());
    assert_eq!(run(&mut sandbox(["doctor", "--backend", "nothing://"])).code, Some(241));
}

#[test]
fn codes_of_every_list_are_explained() {
    let done = run(&mut sandbox(["explain", "execution-timeout", "kill-one", "[gone]", "245"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    for part in
        ["execution-timeout: error kind", "what to do: ", "KILL_ONE: capability", "gone: error kind", "245: exit code"]
    {
        assert!(done.out().contains(part), "{part}: {}", done.out());
    }
    let wrong = run(&mut sandbox(["explain", "--json", "exection-timeout", "gone"]));
    let end = wrong.end();
    assert_eq!((wrong.code, end["codes"].as_array().map(Vec::len)), (Some(240), Some(1)), "{wrong:?}");
    assert!(end["errors"][0]["hint"].as_str().unwrap().contains("execution-timeout"), "{end}");
    let all = run(&mut sandbox(["explain"])).out();
    assert!(["internal ", "OWNER_LEASE ", "250 "].iter().all(|code| all.contains(code)), "{all}");
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = run(&mut sandbox(["completions", shell]));
        assert_eq!(done.code, Some(0));
        for command in ["run", "ls", "kill", "reap", "doctor", "explain", "conformance", "demo", "completions"] {
            assert!(done.out().contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(run(&mut sandbox(["completions", "dash"])).code, Some(240));
}

const ROW: &str = r#"{"row":"run::it_runs","verdict":"pass","reason":"","duration_ms":7,"edition":1,"needs":["RUN"],"backend":"mine","facts":{"name":"mine","support":{"RUN":"native"}}}"#;

#[test]
fn a_report_becomes_pages_that_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (report, docs) = (dir.path().join("report"), dir.path().join("docs"));
    fs::create_dir_all(&report).unwrap();
    fs::create_dir_all(&docs).unwrap();
    fs::write(report.join("1.jsonl"), format!("{ROW}\n")).unwrap();
    let conformance = |more: &[&str]| {
        let mut command = sandbox(["conformance"]);
        run(command.arg(&report).args(more))
    };
    assert!(conformance(&[]).out().contains("● native 1/1"), "{:?}", conformance(&[]));
    assert_eq!(conformance(&["--json"]).end()["backends"][0]["name"], "mine");

    let into = ["--into", docs.to_str().unwrap()];
    let check = [into[0], into[1], "--check"];
    assert_eq!(conformance(&check).code, Some(251), "nothing is there yet");
    assert_eq!(conformance(&into).code, Some(0));
    assert_eq!(conformance(&check).code, Some(0), "{:?}", conformance(&check));
    let text = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    assert!(text("conformance.md").contains("| RUN |") && text("conformance.html").contains("<code>RUN</code>"));

    // The speed of a machine is no difference, a verdict is one.
    fs::write(report.join("1.jsonl"), ROW.replace(":7,", ":8,")).unwrap();
    assert_eq!(conformance(&check).code, Some(0));
    fs::write(report.join("1.jsonl"), ROW.replace("pass", "unproven")).unwrap();
    let stale = conformance(&check);
    assert_eq!(stale.code, Some(251), "{stale:?}");
    assert!(stale.err().contains("run::it_runs"), "{stale:?}");
    let pages = sandbox(["conformance", "--into", docs.to_str().unwrap(), "--check"]).output().unwrap();
    assert_eq!(pages.status.code(), Some(0), "without a report the pages are still what their data give");

    fs::write(report.join("2.jsonl"), "no row").unwrap();
    assert_eq!(conformance(&[]).code, Some(240));
    assert_eq!(run(&mut sandbox(["conformance"])).code, Some(240));
}
