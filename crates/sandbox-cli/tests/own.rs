//! A command line with a provider of its own: this program is one where `SHELF_CLI` is set, else it is the test of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "own/shelf.rs"]
mod shelf;
mod support;

use libtest_mimic::{Arguments, Trial};
use sandbox::{Registry, labels};
use serde_json::json;
use shelf::{Shelf, TOKEN};
use std::{
    collections::BTreeMap,
    fs,
    process::{Command, ExitCode},
    time::SystemTime,
};
use support::{Done, Running};

const ROWS: &[(&str, fn())] = &[
    ("its_own_scheme_is_known", its_own_scheme_is_known),
    ("ls_shows_what_it_lists", ls_shows_what_it_lists),
    ("reap_only_shows_unless_it_shall_end", reap_only_shows_unless_it_shall_end),
    ("reap_ends_what_is_past_its_lifetime_and_ours", reap_ends_what_is_past_its_lifetime_and_ours),
    ("reap_ends_live_ones_by_label_alone", reap_ends_live_ones_by_label_alone),
    ("reap_says_what_it_could_not_end", reap_says_what_it_could_not_end),
    ("doctor_tells_set_empty_and_missing_apart", doctor_tells_set_empty_and_missing_apart),
    ("doctor_tells_present_from_accepted", doctor_tells_present_from_accepted),
    ("doctor_never_shows_a_secret", doctor_never_shows_a_secret),
    ("doctor_does_not_wait_for_ever", doctor_does_not_wait_for_ever),
    ("doctor_looks_at_every_backend_it_is_asked_for", doctor_looks_at_every_backend_it_is_asked_for),
];

fn main() -> ExitCode {
    if std::env::var_os("SHELF_CLI").is_some() {
        return sandbox_cli::main(Registry::new().register(Shelf).unwrap());
    }
    let trials = ROWS.iter().map(|(name, row)| {
        Trial::test(*name, || {
            row();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Sandboxes on a shelf: a folder with a file for each.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With one that is over, one that lives, one that is stuck, and one that somebody else put there.
    fn full() -> Self {
        let place = Self::new();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        place.put("old", &[(labels::CREATED, &(now - 500).to_string()), (labels::EXPIRES, &(now - 90).to_string())]);
        place.put("live", &[(labels::EXPIRES, &(now + 5000).to_string()), ("job", "x")]);
        place.put("foreign", &[("job", "x")]);
        place
    }

    fn put(&self, id: &str, labels: &[(&str, &str)]) {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        fs::write(self.0.path().join(id), serde_json::to_string(&labels).unwrap()).unwrap();
    }

    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn dsn(&self, more: &str) -> String {
        format!("shelf://?dir={}{more}", self.0.path().display())
    }

    fn run(&self, command: &[&str]) -> Done {
        let dsn = self.dsn("");
        finish(cli(&[&command[..1], &["--backend", &dsn], &command[1..]].concat()).env(TOKEN, "a token to use"))
    }
}

fn cli(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("SHELF_CLI", "1").env_remove("SANDBOX_BACKEND").env_remove(TOKEN).args(arguments);
    command.stdin(std::process::Stdio::null());
    command
}

fn finish(command: &mut Command) -> Done {
    Running::start(command).finish()
}

fn its_own_scheme_is_known() {
    let done = finish(&mut cli(&["ls"]));
    assert_eq!(done.code, Some(241), "{done:?}");
    assert!(done.err().contains("shelf://") && !done.err().contains("docker"), "{done:?}");
    let done = Place::new().run(&["run", "--", "true"]);
    assert_eq!(done.code, Some(242), "it cannot run anything: {done:?}");
    assert!(done.err().contains("[unsupported]"), "{done:?}");
}

fn ls_shows_what_it_lists() {
    let done = Place::full().run(&["ls", "--json"]);
    let end = done.end();
    let ids: Vec<_> = end["sandboxes"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "{end}");
    assert!(Place::full().run(&["ls"]).out().contains("job=x"));
}

fn reap_only_shows_unless_it_shall_end() {
    let place = Place::full();
    let done = place.run(&["reap"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let out = done.out();
    assert!(out.contains("old") && out.contains("would be ended") && out.contains("past its lifetime for 1m"), "{out}");
    assert!(!out.contains("live") && !out.contains("foreign") && out.contains("--apply"), "{out}");
    assert_eq!(place.left(), ["foreign", "live", "old"]);
}

fn reap_ends_what_is_past_its_lifetime_and_ours() {
    let place = Place::full();
    let done = place.run(&["reap", "--apply", "--json"]);
    let end = done.end();
    assert_eq!((done.code, &end["applied"], &end["status"]), (Some(0), &json!(true), &json!("ok")));
    let [one] = &end["sandboxes"].as_array().unwrap()[..] else { panic!("not one: {end}") };
    assert_eq!((&one["id"], &one["outcome"]), (&json!("old"), &json!("ended")));
    assert_eq!(place.left(), ["foreign", "live"]);
    assert_eq!(place.run(&["reap", "--apply"]).out(), "nothing to reap\n");
}

fn reap_ends_live_ones_by_label_alone() {
    let place = Place::full();
    let done = place.run(&["reap", "--live", "--apply"]);
    assert_eq!(done.code, Some(240), "whose they are has to be said: {done:?}");
    assert_eq!(place.left().len(), 3);
    let done = place.run(&["reap", "--live", "--label", "job=y", "--apply"]);
    assert_eq!((done.code, done.out()), (Some(0), "nothing to reap\n".into()));
    let done = place.run(&["reap", "--live", "--label", "job=x", "--apply"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out().contains("label job=x") && done.out().contains("may live 1h"), "{done:?}");
    assert_eq!(place.left(), ["foreign", "old"], "what is not ours stays, although it has the label");
}

fn reap_says_what_it_could_not_end() {
    let place = Place::full();
    place.put("stuck", &[(labels::EXPIRES, "1")]);
    let done = place.run(&["reap", "--apply", "--json"]);
    let end = done.end();
    assert_eq!((done.code, &end["errors"][0]["kind"]), (Some(249), &json!("teardown-failed")), "{done:?}");
    let outcomes: Vec<_> =
        end["sandboxes"].as_array().unwrap().iter().map(|one| (&one["id"], &one["outcome"])).collect();
    assert_eq!(outcomes, [(&json!("stuck"), &json!("failed")), (&json!("old"), &json!("ended"))]);
    assert_eq!(place.left(), ["foreign", "live", "stuck"]);
}

/// The one backend of a doctor's answer.
fn only(done: &Done) -> serde_json::Value {
    let end = done.end();
    assert_eq!(end["backends"].as_array().map(Vec::len), Some(1), "{done:?}");
    assert_eq!(end["usable"], end["backends"][0]["usable"]);
    assert_eq!(end["usable"].as_bool(), Some(done.code == Some(0)), "{done:?}");
    end["backends"][0].clone()
}

fn doctor_tells_set_empty_and_missing_apart() {
    let place = Place::new();
    let dsn = place.dsn("");
    for (value, state, code) in
        [(None, "missing", 241), (Some(""), "empty", 241), (Some("a token to use"), "present", 0)]
    {
        let mut command = cli(&["doctor", "--json", "--backend", &dsn]);
        value.map(|value| command.env(TOKEN, value));
        let done = finish(&mut command);
        assert_eq!(done.code, Some(code), "{state}: {done:?}");
        let one = only(&done);
        assert_eq!(
            (&one["credentials"][0]["variable"], &one["credentials"][0]["state"]),
            (&json!(TOKEN), &json!(state))
        );
        let open = &one["checks"][0];
        assert_eq!((open["check"].as_str(), open["outcome"] == "ok"), (Some("open"), code == 0), "{one}");
        if code != 0 {
            assert!(open["fix"].as_str().unwrap().contains(TOKEN), "{one}");
            let words = finish(&mut cli(&["doctor", "--backend", &dsn]));
            assert!(words.out().contains("NOT USABLE") && words.out().contains("fix: "), "{words:?}");
        }
    }
    assert_eq!(place.left(), Vec::<String>::new(), "nothing was made");
}

fn doctor_tells_present_from_accepted() {
    let place = Place::new();
    let doctor =
        |more: &str| finish(cli(&["doctor", "--json", "--backend", &place.dsn(more)]).env(TOKEN, "a token to use"));
    let accepted = only(&doctor(""));
    assert!(accepted["credentials"][0]["says"].as_str().unwrap().contains("the provider answered"), "{accepted}");
    assert_eq!(accepted["facts"]["isolation"]["tier"], "gvisor");
    assert_eq!(accepted["facts"]["isolation"]["source"], "its maker says so");
    let refused = only(&doctor("&refuse=yes"));
    assert_eq!((&refused["checks"][2]["check"], &refused["checks"][2]["kind"]), (&json!("list"), &json!("auth")));
    let says = &refused["credentials"][0];
    assert_eq!(says["state"], "present");
    assert!(says["says"].as_str().unwrap().contains("was not seen"), "{refused}");
    assert!(!refused["checks"][2]["fix"].as_str().unwrap().is_empty(), "{refused}");
}

fn doctor_never_shows_a_secret() {
    let place = Place::new();
    for more in ["&leak=yes", "&refuse=leak"] {
        for json in [&[][..], &["--json"]] {
            let dsn = place.dsn(more);
            let arguments = [&["doctor", "--backend", &dsn], json].concat();
            let done = finish(cli(&arguments).env(TOKEN, "hunter2hunter2"));
            assert_eq!(done.code, Some(241), "{done:?}");
            assert!(done.out().contains("the token ["), "it is there, by its name: {done:?}");
            assert!(!done.out().contains("hunter2") && !done.err().contains("hunter2"), "{done:?}");
        }
    }
    let done = finish(&mut cli(&["doctor", "--backend", "shelf://?api_key=hunter2hunter2"]));
    assert!(done.code == Some(240) && !done.out().contains("hunter2") && !done.err().contains("hunter2"), "{done:?}");
}

fn doctor_does_not_wait_for_ever() {
    let place = Place::new();
    let dsn = place.dsn("&refuse=hang");
    let done = finish(cli(&["doctor", "--json", "--timeout", "1s", "--backend", &dsn]).env(TOKEN, "a token to use"));
    let one = only(&done);
    assert_eq!(one["checks"][2]["kind"], "operation-timeout", "{one}");
    assert!(done.took < std::time::Duration::from_secs(30), "{done:?}");
}

fn doctor_looks_at_every_backend_it_is_asked_for() {
    let place = Place::new();
    let (good, bad) = (place.dsn(""), place.dsn("&refuse=yes"));
    let done = finish(cli(&["doctor", "--json", "--backend", &good, "--backend", &bad]).env(TOKEN, "a token to use"));
    let end = done.end();
    let usable: Vec<_> =
        end["backends"].as_array().unwrap().iter().map(|one| one["usable"].as_bool().unwrap()).collect();
    assert_eq!((done.code, usable, &end["usable"]), (Some(241), vec![true, false], &json!(false)));
    // Without any it is every scheme, that of the environment in the place of the bare one.
    let done = finish(cli(&["doctor", "--json"]).env(TOKEN, "a token to use").env("SANDBOX_BACKEND", &good));
    assert_eq!((done.code, only(&done)["usable"].as_bool()), (Some(0), Some(true)), "{done:?}");
}
