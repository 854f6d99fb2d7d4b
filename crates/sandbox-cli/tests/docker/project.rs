//! The main job: the tests of a real project, in a sandbox without network.

use crate::{
    Row,
    support::{
        Done, Running,
        engine::{Label, PYTHON, inspect},
        sandbox,
    },
};
use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

pub(crate) const ROWS: &[Row] = &[
    ("project::tests_pass", tests_pass),
    ("project::a_broken_file_fails_them", a_broken_file_fails_them),
    ("project::the_library_does_the_same", the_library_does_the_same),
];

/// A pure project whose source distribution holds its tests, and what they need. All of them without native code.
const PROJECT: &str = "toolz==1.0.0";
const WHEELS: [&str; 4] = ["pytest==8.3.5", "pluggy==1.5.0", "iniconfig==2.0.0", "packaging==24.2"];

const TESTS: &str = "
python3 -m pip install --quiet --no-index --find-links /work/wheels --target /work/site pytest &&
exec python3 -m pytest -p no:cacheprovider --junitxml=/work/report.xml";

fn tests_pass() {
    let label = Label::new("project");
    let place = Place::new();
    let (done, network) = place.run(&label, &["--user", "app"]);
    assert_eq!(done.code, Some(0), "{}\n{}", done.out(), done.err());
    assert_eq!(network, "none");
    assert!(done.out().contains(" passed"), "{}", done.out());
    let report = place.report();
    assert!(number(&report, "tests") >= 150, "{report:.300}");
    assert_eq!((number(&report, "failures"), number(&report, "errors")), (0, 0), "{report:.300}");
    label.nothing_left();
}

fn a_broken_file_fails_them() {
    let label = Label::new("broken");
    let place = Place::new();
    place.break_it();
    let (done, _) = place.run(&label, &[]);
    assert_eq!(done.code, Some(1), "{}\n{}", done.out(), done.err());
    assert!(done.out().contains(" failed"), "{}", done.out());
    let report = place.report();
    assert!(number(&report, "tests") >= 150 && number(&report, "failures") > 0, "{report:.300}");
    label.nothing_left();
}

fn the_library_does_the_same() {
    for broken in [false, true] {
        let place = Place::new();
        if broken {
            place.break_it();
        }
        let label = Label::named("python-project", "library");
        let mut command = Command::new(example());
        command.args([place.project(), place.wheels(), place.dir.path().join("report.xml")]);
        let done = Running::start(command.args([PYTHON, label.value()])).finish();
        assert_eq!(done.code, Some(i32::from(broken)), "{}\n{}", done.out(), done.err());
        let report = place.report();
        assert!(number(&report, "tests") >= 150, "{report:.300}");
        assert_eq!(number(&report, "failures") > 0, broken, "{report:.300}");
        label.nothing_left();
    }
}

/// The project and the wheels, in a folder of its own.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fetched = FETCHED.get_or_init(fetch).path().join(".");
        complete(Command::new("cp").arg("-R").arg(fetched).arg(dir.path()));
        Self { dir }
    }

    fn project(&self) -> PathBuf {
        fs::read_dir(self.dir.path().join("unpacked")).unwrap().next().unwrap().unwrap().path()
    }

    fn wheels(&self) -> PathBuf {
        self.dir.path().join("wheels")
    }

    fn break_it(&self) {
        let module = self.project().join("toolz/dicttoolz.py");
        let text = fs::read_to_string(&module).unwrap();
        fs::write(module, text + "\n\ndef merge(*dicts, **kwargs):\n    return {}\n").unwrap();
    }

    /// Runs the tests, and says what network they had while they ran.
    fn run(&self, label: &Label, options: &[&str]) -> (Done, String) {
        let backend = format!("docker+plain://{PYTHON}?pull=never");
        let mut command = sandbox(["run", "--backend", &backend, "--label", label.as_str(), "--network", "deny"]);
        let upload = |from: &Path, to: &str| format!("{}:{to}", from.display());
        command.arg("--upload").arg(upload(&self.project(), "/work/project"));
        command.arg("--upload").arg(upload(&self.wheels(), "/work/wheels"));
        command.arg("--download").arg(format!("/work/report.xml:{}", self.dir.path().join("report.xml").display()));
        command.args(["--workdir", "/work/project", "--env", "PYTHONPATH=/work/site", "--env", "PYTHONUNBUFFERED=1"]);
        command.args(["--timeout", "150s", "--lifetime", "170s"]).args(options).args(["--shell", TESTS]);
        let mut running = Running::unread(&mut command);
        let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
        let mut all = Vec::new();
        // Its first words are here while it still runs.
        stdout.read_until(b'\n', &mut all).unwrap();
        let network = match &label.running()[..] {
            [id] => inspect(id, "{{.HostConfig.NetworkMode}}"),
            other => format!("{} containers", other.len()),
        };
        stdout.read_to_end(&mut all).unwrap();
        let mut done = running.finish();
        done.stdout = all;
        (done, network)
    }

    fn report(&self) -> String {
        fs::read_to_string(self.dir.path().join("report.xml")).unwrap()
    }
}

/// Once per process: from then on it is copied.
static FETCHED: OnceLock<tempfile::TempDir> = OnceLock::new();

/// The unpacked project and the wheels, from the package index that pip uses here.
fn fetch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let pip = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        complete(command.args(arguments).current_dir(dir.path()));
    };
    pip(&["--no-binary", ":all:", "--dest", "source", PROJECT]);
    pip(&[&["--only-binary", ":all:", "--dest", "wheels"], &WHEELS[..]].concat());
    let archive = fs::read_dir(dir.path().join("source")).unwrap().next().unwrap().unwrap().path();
    let unpacked = dir.path().join("unpacked");
    complete(Command::new("python3").args(["-m", "tarfile", "--extract"]).arg(archive).arg(unpacked));
    dir
}

/// The first attribute of this name in a report.
fn number(report: &str, name: &str) -> u32 {
    let (_, rest) = report.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name}: {report:.300}"));
    rest.split('"').next().unwrap().parse().unwrap()
}

fn complete(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// The example, which is built along with the tests unless one of them was asked for alone.
fn example() -> PathBuf {
    let name = format!("docker_python_project{}", env::consts::EXE_SUFFIX);
    let path = Path::new(env!("CARGO_BIN_EXE_sandbox")).with_file_name("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sandbox-docker/examples/python_project.rs");
    let changed = |path: &Path| path.metadata().and_then(|there| there.modified()).ok();
    if changed(&path) < changed(&source) {
        let mut build = Command::new(env!("CARGO"));
        complete(build.args(["build", "--quiet", "--package", "sandbox-cli", "--example", "docker_python_project"]));
    }
    path
}
