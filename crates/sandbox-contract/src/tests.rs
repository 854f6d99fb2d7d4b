//! The harness itself: each verdict, on a backend that does next to nothing.

use crate::{
    Ctx, EDITION, Labels, Probes, Record, Row, Settings, Subject, Suite, Verdict,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    harness::{conclude, sweep, trials},
    meddle::Point,
    report,
    row::{Done, row},
    subject::{Make, maker},
};
use libtest_mimic::Completion;
use sandbox_core::{
    Attempt, Backend, Capability, Control, Ended, Error, ErrorKind, Event, Events, Exec, Facts, Fate, Instance, Listed,
    Made, Page, Query, Result, SandboxId, Spec, Status, Tasks,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// A provider in memory. Its only program ends at once with code zero.
#[derive(Clone)]
struct Toy {
    facts: Facts,
    missing: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: usize,
    calls: usize,
    alive: BTreeMap<String, Labels>,
}

impl Toy {
    fn new() -> Self {
        use Capability::*;
        let facts = Facts::new("toy").native([Run, Labels, List, Attach, Deny]);
        Self { facts, missing: false, state: Arc::default() }
    }

    fn touch<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap();
        state.calls += 1;
        work(&mut state)
    }

    fn alive(&self) -> usize {
        self.state.lock().unwrap().alive.len()
    }

    fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }

    fn suite(&self) -> Suite {
        self.with(&[])
    }

    fn with(&self, environment: &[(&str, &str)]) -> Suite {
        let toy = self.clone();
        Suite::with(maker(move || toy.clone()), settings(environment))
    }
}

/// Times are a tenth, so that what has to wait in vain does not wait long.
fn settings(environment: &[(&str, &str)]) -> Settings {
    let find = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string());
    Settings::read(|name| find(name).or_else(|| (name == "SANDBOX_CONTRACT_SCALE").then(|| "0.1".into()))).unwrap()
}

impl Backend for Toy {
    type Instance = Room;

    fn info(&self) -> Facts {
        self.facts.clone()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<Room>> {
        if self.missing {
            return Err(Error::new(ErrorKind::BackendMissing, "no toy here").with_hint("start the toy"));
        }
        let id = self.touch(|state| {
            state.next += 1;
            let id = format!("toy-{}", state.next);
            state.alive.insert(id.clone(), spec.labels.clone());
            id
        });
        Ok(Made::new(attempt.claim(SandboxId::new(id)), Room))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.touch(|state| state.alive.remove(id.as_str()));
        Ok(())
    }

    async fn probe(&self, _: &Spec) -> Result<Option<Facts>> {
        self.touch(|_| Ok(None))
    }

    async fn attach(&self, id: &SandboxId, _: &Tasks) -> Result<Made<Room>> {
        match self.touch(|state| state.alive.contains_key(id.as_str())) {
            true => Ok(Made::new(id.clone(), Room)),
            false => Err(Error::new(ErrorKind::NotFound, "no such toy")),
        }
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let items = self.touch(|state| {
            let fitting = state.alive.iter().filter(|(_, labels)| query.fits(labels));
            fitting.map(|(id, labels)| Listed::new(SandboxId::new(id), labels.clone())).collect()
        });
        Ok(Page::last(items))
    }
}

struct Room;
struct Nothing;
struct Script(VecDeque<Event>);

impl Instance for Room {
    type Control = Nothing;
    type Events = Script;

    async fn spawn(&self, exec: &Exec) -> Result<(Nothing, Script)> {
        let said = Event::Stdout(format!("{}\n", exec.argv.last().unwrap()).into());
        Ok((Nothing, Script([said, Event::Ended(Ended::program(Status::Code(0)))].into())))
    }
}

impl Control for Nothing {
    async fn kill(&self) -> Result<Fate> {
        Ok(Fate::Dead)
    }
}

impl Events for Script {
    async fn next(&mut self) -> Result<Option<Event>> {
        Ok(self.0.pop_front())
    }
}

static PASSES: Row = row!("test::passes", passes).needs(&[Capability::Run]);
static FAILS: Row = row!("test::fails", fails);
static PANICS: Row = row!("test::panics", panics);
static WAITS: Row = row!("test::waits", waits).limit(10);
static BLOCKS: Row = row!("test::blocks", blocks).limit(10).serial();
static LEAKS: Row = row!("test::leaks", leaks).needs(&[Capability::Attach]);
static UNPROVEN: Row = row!("test::unproven", is_unproven);
static EXPECTS: Row = row!("test::expects", expects);
static NEEDS_FILES: Row = row!("test::needs_files", passes).needs(&[Capability::Run, Capability::Files]);
static NEEDS_LIST: Row = row!("test::needs_list", passes).needs(&[Capability::List]);
static NEEDS_OOM: Row = row!("test::needs_oom", passes).needs(&[Capability::OomStatus]);
static NEEDS_DENY: Row = row!("test::needs_deny", passes).needs(&[Capability::Deny]);
static ALONE: Row = row!("test::alone", passes).serial();
static NEW: Row = row!("test::new", fails).edition(EDITION);
static MAKES: Row = Row::expression("test::makes", makes);

async fn passes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    expect_eq!(cx.text(&sandbox, cx.probes().plain(vec!["said".to_string()])).await?, "said", "what the toy says");
    expect_eq!(cx.meddling().calls(Point::Spawn), 1, "spawns");
    expect_eq!(cx.count().await?, 1, "sandboxes");
    Ok(())
}

async fn fails(cx: &Ctx) -> Done {
    cx.note("what was seen before");
    fail!("the evidence is {}", 6 * 7)
}

async fn panics(cx: &Ctx) -> Done {
    let _sandbox = cx.sandbox().await?;
    std::panic::resume_unwind(Box::new("words of the panic"))
}

async fn waits(_: &Ctx) -> Done {
    std::future::pending().await
}

async fn blocks(_: &Ctx) -> Done {
    std::thread::sleep(Duration::from_secs(5));
    Ok(())
}

async fn leaks(cx: &Ctx) -> Done {
    cx.sandbox().await?.detach().await?;
    Ok(())
}

async fn is_unproven(_: &Ctx) -> Done {
    unproven!("the control cannot be made")
}

async fn expects(cx: &Ctx) -> Done {
    let error = expect_kind!(cx.client().attach("a/b").await, InvalidArgument, "attach");
    ensure!(error.hint().is_some(), "no hint");
    expect_kind!(cx.client().attach("unknown").await, Gone, "the wrong kind");
    Ok(())
}

fn makes(make: &Make) -> Done {
    ensure!(make().is_ok() || make().is_err(), "it is one of both");
    Ok(())
}

fn verdict(suite: &Suite, row: &'static Row) -> (Verdict, String) {
    let record = suite.run(row);
    (record.verdict, record.reason)
}

#[test]
fn a_row_that_holds_passes_and_leaves_nothing() {
    let toy = Toy::new();
    let record = toy.suite().run(&PASSES);
    assert_eq!((record.verdict, &*record.reason, &*record.row), (Verdict::Pass, "", "test::passes"));
    assert_eq!((&*record.backend, record.edition, toy.alive()), ("toy", EDITION, 0));
    assert!(record.facts.unwrap().has(Capability::Run));
}

#[test]
fn a_scale_that_means_nothing_is_refused_at_once() {
    for bad in [0.0, -1.0, 0.09, 100.1, f64::NAN, f64::INFINITY] {
        let scaled = std::panic::catch_unwind(|| Suite::new(Toy::new).scale(bad)).unwrap_err();
        let words = scaled.downcast_ref::<String>().unwrap();
        assert!(words.contains("from 0.1 to 100") && words.contains(&bad.to_string()), "{words}");
    }
    for fine in [0.1, 1.0, 100.0] {
        assert_eq!(Suite::new(Toy::new).scale(fine).settings.scale, fine);
    }
}

#[test]
fn a_failure_carries_evidence_place_and_notes() {
    let (verdict, reason) = verdict(&Toy::new().suite(), &FAILS);
    assert_eq!(verdict, Verdict::Fail);
    for part in ["the evidence is 42", "tests.rs:", "note: what was seen before"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn a_wrong_kind_is_shown_with_its_whole_error() {
    let (verdict, reason) = verdict(&Toy::new().suite(), &EXPECTS);
    assert_eq!(verdict, Verdict::Fail);
    assert!(reason.contains("expected `gone`") && reason.contains("no such toy"), "{reason}");
}

#[test]
fn a_panic_is_a_failure_and_its_sandbox_ends() {
    let toy = Toy::new();
    let (verdict, reason) = verdict(&toy.suite(), &PANICS);
    assert!(verdict == Verdict::Fail && reason.contains("words of the panic"), "{verdict} {reason}");
    assert_eq!((toy.alive(), toy.calls() > 0), (0, true));
}

#[test]
fn a_row_that_does_not_end_fails_in_time() {
    for row in [&WAITS, &BLOCKS] {
        let begun = Instant::now();
        let (verdict, reason) = verdict(&Toy::new().suite(), row);
        assert!(verdict == Verdict::Fail && reason.contains("not over"), "{verdict} {reason}");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
}

#[test]
fn what_a_row_leaves_behind_fails_it_and_is_ended() {
    let toy = Toy::new();
    let (verdict, reason) = verdict(&toy.suite(), &LEAKS);
    assert!(verdict == Verdict::Fail && reason.contains("left behind"), "{verdict} {reason}");
    assert_eq!(toy.alive(), 0);
}

#[test]
fn an_absent_capability_is_refused_and_told() {
    let mut toy = Toy::new();
    toy.facts = toy.facts.absent(Capability::Files, "toys have no files");
    let (verdict, reason) = verdict(&toy.suite(), &NEEDS_FILES);
    assert_eq!((verdict, &*reason), (Verdict::Absent, "FILES: toys have no files"));
    toy.facts = toy.facts.absent(Capability::List, "toys are not listed").absent(Capability::OomStatus, "no memory");
    for (row, code) in [(&NEEDS_LIST, "LIST: toys are not listed"), (&NEEDS_OOM, "OOM_STATUS: no memory")] {
        let record = toy.suite().run(row);
        assert_eq!((record.verdict, &*record.reason), (Verdict::Absent, code));
    }
}

#[test]
fn a_backend_that_cannot_deny_refuses_even_the_default() {
    let mut toy = Toy::new();
    toy.facts = toy.facts.absent(Capability::Deny, "toys are open");
    let (verdict, reason) = verdict(&toy.suite(), &NEEDS_DENY);
    assert_eq!((verdict, &*reason), (Verdict::Absent, "DENY: toys are open"));
    assert_eq!(toy.alive(), 0);
}

#[test]
fn an_absence_without_a_reason_fails() {
    let mut toy = Toy::new();
    toy.facts = toy.facts.absent(Capability::List, " ");
    let (verdict, reason) = verdict(&toy.suite(), &NEEDS_LIST);
    assert!(verdict == Verdict::Fail && reason.contains("without a reason"), "{verdict} {reason}");
}

#[test]
fn a_missing_control_is_unproven() {
    assert_eq!(verdict(&Toy::new().suite(), &UNPROVEN), (Verdict::Unproven, "the control cannot be made".into()));
}

#[test]
fn a_missing_engine_is_unavailable_and_another_error_is_not() {
    let made = |kind| Suite::new(move || Err::<Toy, _>(Error::new(kind, "why").with_hint("do this")));
    for kind in [ErrorKind::BackendMissing, ErrorKind::Auth] {
        let (verdict, reason) = verdict(&made(kind), &PASSES);
        assert!(verdict == Verdict::Unavailable && reason.contains("do this"), "{verdict} {reason}");
    }
    assert_eq!(verdict(&made(ErrorKind::InvalidArgument), &PASSES).0, Verdict::Fail);
    let mut toy = Toy::new();
    toy.missing = true;
    let (verdict, reason) = verdict(&toy.suite(), &PASSES);
    assert!(verdict == Verdict::Unavailable && reason.contains("start the toy"), "{verdict} {reason}");
}

#[test]
fn a_panic_of_the_expression_is_a_failure() {
    let suite = Suite::new(|| -> Toy { std::panic::resume_unwind(Box::new("no toy")) });
    let (verdict, reason) = verdict(&suite, &PASSES);
    assert!(verdict == Verdict::Fail && reason.contains("no toy"), "{verdict} {reason}");
}

#[test]
fn a_new_row_warns_an_older_adapter() {
    let suite = |edition| Suite::new(move || Subject::new(Toy::new()).edition(edition));
    let (verdict_of_old, reason) = verdict(&suite(EDITION - 1), &NEW);
    assert!(verdict_of_old == Verdict::Unproven && reason.contains("the evidence is 42"), "{reason}");
    assert_eq!(verdict(&suite(EDITION), &NEW).0, Verdict::Fail);
}

#[test]
fn what_the_runner_is_told() {
    let record = |verdict| Record::new(&PASSES, verdict, "why", Duration::ZERO);
    let told = |environment: &[(&str, &str)], verdict| conclude(&settings(environment), &record(verdict));
    let completed = |told| matches!(told, Ok(Completion::Completed));
    let ignored = |told| matches!(told, Ok(Completion::Ignored { reason: Some(why) }) if why.contains("why"));
    assert!(completed(told(&[], Verdict::Pass)));
    assert!(told(&[], Verdict::Fail).is_err());
    assert!(completed(told(&[], Verdict::Absent)));
    assert!(told(&[], Verdict::Unproven).is_err());
    assert!(ignored(told(&[("SANDBOX_CONTRACT_REPORT", "dir")], Verdict::Unproven)));
    assert!(ignored(told(&[("SANDBOX_CONTRACT_UNPROVEN", "test::passes")], Verdict::Unproven)));
    assert!(told(&[("SANDBOX_CONTRACT_UNPROVEN", "test::other")], Verdict::Unproven).is_err());
    assert!(ignored(told(&[], Verdict::Unavailable)));
    assert!(told(&[("SANDBOX_CONTRACT", "require")], Verdict::Unavailable).is_err());
    // nextest would show what is ignored at run time as PASS.
    assert!(told(&[("NEXTEST", "1")], Verdict::Unavailable).is_err());
}

#[test]
fn listing_asks_nothing_and_is_quick() {
    let mut toy = Toy::new();
    toy.facts = toy.facts.absent(Capability::Files, "toys have no files");
    let suite = Arc::new(toy.suite());
    let begun = Instant::now();
    let all = trials(&suite, crate::rows(), true);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(toy.calls(), 0);
    let names: BTreeSet<_> = all.iter().map(|trial| trial.name().to_string()).collect();
    assert_eq!(names.len(), all.len(), "names are unique");
}

#[test]
fn an_absent_row_is_listed_beside_its_twin() {
    let mut toy = Toy::new();
    toy.facts = toy.facts.absent(Capability::Files, "toys have no files");
    let listed = |environment: &[(&str, &str)], listing| -> Vec<(String, bool)> {
        let trials = trials(&Arc::new(toy.with(environment)), [&PASSES, &NEEDS_FILES, &ALONE], listing);
        trials.iter().map(|trial| (trial.name().to_string(), trial.has_ignored_flag())).collect()
    };
    let expected = |ignored| {
        [
            ("test::passes", false),
            ("test::needs_files", ignored),
            ("test::needs_files::refuses", false),
            ("test::alone::serial", false),
        ]
        .map(|(name, ignored)| (name.to_string(), ignored))
    };
    assert_eq!(listed(&[("NEXTEST", "1")], false), expected(true));
    assert_eq!(listed(&[], true), expected(true));
    // Run by `cargo test`, it says why.
    assert_eq!(listed(&[], false), expected(false));
}

#[test]
fn without_an_engine_rows_are_marked_unless_it_is_required() {
    let listed = |environment: &[(&str, &str)]| -> Vec<bool> {
        let make = maker(|| Err::<Toy, _>(Error::new(ErrorKind::BackendMissing, "no toy")));
        let suite = Arc::new(Suite::with(make, settings(environment)));
        trials(&suite, [&PASSES, &MAKES], true).iter().map(libtest_mimic::Trial::has_ignored_flag).collect()
    };
    // A row about the expression runs all the same, so that not everything is skipped.
    assert_eq!(listed(&[("NEXTEST", "1")]), [true, false]);
    assert_eq!(listed(&[("NEXTEST", "1"), ("SANDBOX_CONTRACT", "require")]), [false, false]);
}

#[test]
fn names_are_areas_and_claims() {
    let mut seen = BTreeSet::new();
    for row in crate::rows() {
        let parts: Vec<_> = row.name().split("::").collect();
        assert!(parts.len() == 2 && parts[0] == row.area(), "{}", row.name());
        let fine = |part: &&str| part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert!(parts.iter().all(|part| fine(part) && part.len() > 2), "{}", row.name());
        assert!((1..=EDITION).contains(&row.since()), "{}", row.name());
        assert!(seen.insert(row.name()), "{} is there twice", row.name());
        let of_area = row.name().starts_with(parts[0]);
        assert!(of_area);
    }
    assert!(seen.len() > 80, "{} rows", seen.len());
}

#[test]
fn the_report_is_lines_that_parse() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not/yet/there");
    let records = [Toy::new().suite().run(&PASSES), Toy::new().suite().run(&FAILS)];
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (path, records) = (&path, &records);
            // Two processes of four threads each.
            scope.spawn(move || report::write(path, if n < 4 { "one" } else { "two" }, &records[n % 2]).unwrap());
        }
    });
    let mut lines = 0;
    for file in ["one.jsonl", "two.jsonl"] {
        for line in std::fs::read_to_string(path.join(file)).unwrap().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            assert_eq!(keys, ["backend", "duration_ms", "edition", "facts", "needs", "reason", "row", "verdict"]);
            assert!(value["verdict"] == "pass" || value["verdict"] == "fail", "{line}");
            assert_eq!(value["backend"], "toy");
            assert!(value["duration_ms"].is_u64() && value["facts"].is_object(), "{line}");
            lines += 1;
        }
    }
    assert_eq!(lines, 8);
}

#[test]
fn the_sweep_fails_on_what_is_still_alive_and_ends_it() {
    let toy = Toy::new();
    let suite = toy.suite();
    assert_eq!(sweep(&suite), Ok(()));
    let own: Labels = [("contract.process".to_string(), suite.settings.process.clone())].into();
    toy.touch(|state| state.alive.insert("left".into(), own));
    toy.touch(|state| state.alive.insert("of-another".into(), Labels::new()));
    let why = sweep(&suite).unwrap_err();
    assert!(why.contains("1 sandboxes") && why.contains("left"), "{why}");
    assert_eq!(toy.alive(), 1);
    assert_eq!(sweep(&suite), Ok(()));
}

#[test]
fn the_sweep_asks_the_probe_where_there_is_one() {
    let make = || Subject::new(Toy::new()).probes(Probes::new().count(|_| async { Ok(3) }));
    let why = sweep(&Suite::new(make)).unwrap_err();
    assert!(why.contains("3 sandboxes"), "{why}");
}

#[test]
fn probes_can_be_overridden_and_are_named() {
    let probes = Probes::new().echo(|text| sandbox::Command::new("say").arg(text));
    let command = format!("{:?}", crate::probes::Commands::of(&probes).echo("x"));
    assert!(command.contains("say") && command.contains('x'), "{command}");
    assert!(Probes::COMMANDS.contains(&"echo") && Probes::BEHAVIOURS.contains(&"survivors"));
    assert!(format!("{:?}", Probes::new().count(|_| async { Ok(0) })).contains("count"));
}
