//! The conformance page in a real browser: what is seen, read, pressed and typed. Skipped, visibly, where there is none.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says where")]

#[path = "browser/chromium.rs"]
mod chromium;
#[path = "browser/picture.rs"]
mod picture;
mod support;

use chromium::{Browser, Scheme};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use picture::Picture;
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use support::{run, sandbox};

type Row = (&'static str, fn(&Browser));

const ROWS: &[Row] = &[
    ("nothing_is_loaded_and_nothing_overflows", nothing_is_loaded_and_nothing_overflows),
    ("every_text_is_readable_in_light_and_dark", every_text_is_readable_in_light_and_dark),
    ("a_cell_opens_its_rows", a_cell_opens_its_rows),
    ("keys_and_filters_work", keys_and_filters_work),
    ("states_differ_in_shape_as_pictures", states_differ_in_shape_as_pictures),
    ("light_is_light_and_dark_is_dark", light_is_light_and_dark_is_dark),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let browser = Browser::find();
    let required = env::var("SANDBOX_BROWSER").is_ok_and(|value| value == "require");
    if browser.is_none() && !arguments.list {
        eprintln!("{}: {}", if required { "failed" } else { "ignored" }, chromium::MISSING);
    }
    let ignored = browser.is_none() && !required;
    let trials = ROWS.iter().map(|(name, row)| {
        let browser = browser.clone();
        let trial = Trial::ignorable_test(*name, move || match &browser {
            Some(browser) => {
                row(browser);
                Ok(Completion::Completed)
            }
            None if required => Err(Failed::from(chromium::MISSING)),
            None => Ok(Completion::ignored_with(chromium::MISSING)),
        });
        // This runner sees exit codes alone, so it has to know before; others print the reason.
        trial.with_ignored_flag(ignored && env::var_os("NEXTEST").is_some())
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A page with every state there is, made by the command itself from reports of three backends.
struct Page(tempfile::TempDir);

impl Page {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, tree, pids) in [
            ("first+plain", json!({ "emulated": "the image's tar" }), "pass"),
            ("second", json!({ "absent": "there are no directories, only names that look like some" }), "fail"),
            ("third", json!("native"), "unproven"),
        ] {
            let report = dir.path().join(name);
            fs::create_dir(&report).unwrap();
            let support = json!({ "RUN": "native", "TREE": tree, "PIDS": "native", "LIST": { "absent": "none <b>" } });
            let isolation = json!({ "tier": "container", "source": "measured", "date": "2026-11-30" });
            let facts = json!({ "name": name, "support": support, "isolation": isolation, "default_pids": 7 });
            let row = |row: &str, verdict: &str, reason: &str, needs: &[&str]| {
                let line = json!({ "row": row, "verdict": verdict, "reason": reason, "duration_ms": 1, "edition": 1, "needs": needs, "backend": name, "facts": facts });
                format!("{line}\n")
            };
            let of_tree = if name == "second" { "absent" } else { "pass" };
            let lines = [
                row("run::a_program_runs", "pass", "", &["RUN"]),
                row(
                    "files::a_tree_goes_up_and_comes_down_again_with_all_that_is_in_it",
                    of_tree,
                    "TREE: so",
                    &["TREE"],
                ),
                row("create::a_fork_bomb_is_contained", pids, "it went on & on", &["PIDS"]),
                row("lifecycle::list_shows_created", "absent", "LIST: none <b>", &["LIST"]),
                row("info::is_instant", "pass", "", &[]),
            ];
            fs::write(report.join("1.jsonl"), lines.concat()).unwrap();
        }
        let mut command = sandbox(["conformance", "--into"]);
        let reports = ["first+plain", "second", "third"].map(|name| dir.path().join(name));
        let done = run(command.arg(dir.path()).args(reports));
        assert_eq!(done.code, Some(0), "{done:?}");
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("conformance.html")
    }
}

/// The page that is committed, with what the suites really found.
fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.html")
}

const WIDTHS: [u32; 3] = [1280, 390, 320];

fn nothing_is_loaded_and_nothing_overflows(browser: &Browser) {
    let page = Page::new();
    for path in [page.path(), committed()] {
        for width in WIDTHS {
            let seen = browser.ask(&path, (width, 900), Scheme::Light, "look()");
            assert_eq!((&seen["width"], &seen["loaded"]), (&json!(width), &json!(0)), "{seen}");
            assert!(seen["scroll"].as_u64().unwrap() <= u64::from(width), "{width}: {seen}");
            assert_eq!(seen["errors"], json!([]), "{seen}");
        }
    }
}

fn every_text_is_readable_in_light_and_dark(browser: &Browser) {
    let page = Page::new();
    for path in [page.path(), committed()] {
        for scheme in [Scheme::Light, Scheme::Dark] {
            let seen = browser.ask(&path, (1280, 900), scheme, "contrasts()");
            assert!(seen["texts"].as_u64().unwrap() > 40, "{seen}");
            assert_eq!(seen["faint"], json!([]), "{scheme:?}: a contrast below 4.5 to 1");
        }
    }
}

fn a_cell_opens_its_rows(browser: &Browser) {
    let seen = browser.ask(&Page::new().path(), (1280, 900), Scheme::Light, "open()");
    assert_eq!(
        (&seen["before"], &seen["after"], &seen["closed"]),
        (&json!(false), &json!(true), &json!(false)),
        "{seen}"
    );
    let text = seen["text"].as_str().unwrap();
    for part in ["PIDS on second", "a fork bomb is contained", "fail it went on & on", "as of 20"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(seen["focus"], json!(true), "the focus is back on the cell");
    assert_eq!(
        seen["tip"],
        json!(["none", "block"]),
        "the hint is there for who stands on the cell, and else not: {seen}"
    );
}

fn keys_and_filters_work(browser: &Browser) {
    let seen = browser.ask(&Page::new().path(), (1280, 900), Scheme::Light, "keys()");
    assert_eq!(seen["down"], json!(["TREE", "first+plain"]), "{seen}");
    assert_eq!(seen["right"], json!(["TREE", "second"]), "{seen}");
    assert_eq!((&seen["all"], &seen["found"], &seen["none"]), (&json!(4), &json!(["TREE"]), &json!(true)), "{seen}");
    assert_eq!(seen["differing"], json!(["TREE"]), "{seen}");
}

/// Told apart by a person who sees no colours: how much of an icon is filled, from nothing but brightness.
fn states_differ_in_shape_as_pictures(browser: &Browser) {
    let page = Page::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let size = (1280, 1400);
        let shapes = browser.ask(&page.path(), size, scheme, "shapes()");
        let picture = Picture::read(&browser.picture(&page.path(), size, scheme));
        let filled = |state: &str| picture.filled(&rectangle(&shapes[state]));
        let (native, emulated, absent) = (filled("native"), filled("emulated"), filled("absent"));
        assert!(native > emulated + 0.1 && emulated > absent + 0.1, "{native} {emulated} {absent}");
        assert!(absent > 0.02, "it is there: {absent}");
    }
}

fn light_is_light_and_dark_is_dark(browser: &Browser) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    fs::create_dir_all(&out).unwrap();
    for (name, size, scheme) in [
        ("light", (1280, 3200), Scheme::Light),
        ("dark", (1280, 3200), Scheme::Dark),
        ("narrow", (390, 2400), Scheme::Light),
    ] {
        let bytes = browser.picture(&committed(), size, scheme);
        fs::write(out.join(format!("{name}.png")), &bytes).unwrap();
        let picture = Picture::read(&bytes);
        assert_eq!((picture.width, picture.height), size);
        let brightness = picture.brightness();
        match scheme {
            Scheme::Light => assert!(brightness > 0.8, "{name}: {brightness}"),
            Scheme::Dark => assert!(brightness < 0.25, "{name}: {brightness}"),
        }
        assert!(picture.colours() > 40, "{name} is not blank: {}", picture.colours());
    }
}

fn rectangle(value: &Value) -> [f64; 4] {
    let numbers: Vec<f64> = value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
    numbers.try_into().unwrap()
}
