//! `cargo xtask bench`: runs benches that print one JSON line a figure, and writes `docs/bench.md`.

use std::{fmt::Write as _, fs, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{flags::Bench, workspace::root};

/// One figure as a bench prints it. `raw` is the same without the facade, in the same run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    unit: String,
    median: f64,
    p95: Option<f64>,
    n: u64,
    raw: Option<f64>,
}

/// What a figure ought to be.
#[derive(Debug, Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

const GOALS: &[(&str, Goal)] = &[
    ("run", Goal::AtMost(20.0)),
    ("stream", Goal::AtLeast(1.0)),
    ("stream memory", Goal::AtMost(16.0)),
    ("thousand sandboxes", Goal::AtMost(200.0)),
    ("contract of the fake", Goal::AtMost(20.0)),
];

const BENCHES: &[(&str, &str)] = &[("sandbox", "facade"), ("sandbox-fake", "thousand")];

pub(crate) fn run(flags: &Bench) -> Result<()> {
    ensure!(flags.part == "facade", "there is no bench `{}`\nhint: the only one is `facade`", flags.part);
    let mut figures = Vec::new();
    for (package, bench) in BENCHES {
        figures.extend(measured(package, bench)?);
    }
    figures.push(contract()?);
    for (name, _) in GOALS {
        ensure!(figures.iter().any(|figure| figure.name == *name), "no bench prints the figure `{name}`");
    }
    let page = page(&figures, &machine()?);
    print!("{page}");
    let missed: Vec<_> = figures.iter().filter(|figure| missed(figure)).map(|figure| figure.name.as_str()).collect();
    if flags.check {
        ensure!(
            missed.is_empty(),
            "missed: {}\nhint: measure on an idle machine before you believe it",
            missed.join(", ")
        );
        return Ok(());
    }
    fs::write(root().join("docs/bench.md"), page).context("cannot write docs/bench.md")
}

fn measured(package: &str, bench: &str) -> Result<Vec<Figure>> {
    let output = Command::new("cargo")
        .args(["bench", "--quiet", "--package", package, "--bench", bench])
        .current_dir(root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run bench `{bench}`"))?;
    ensure!(output.status.success(), "bench `{bench}` of `{package}` failed: {}", output.status);
    parsed(&String::from_utf8_lossy(&output.stdout))
}

fn parsed(text: &str) -> Result<Vec<Figure>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("this is no figure: {line}"))).collect()
}

/// The whole suite on the fake, wall time; built before the clock starts.
fn contract() -> Result<Figure> {
    let cargo = |more: &[&str]| {
        let args = [
            "nextest",
            "run",
            "--package",
            "sandbox-fake",
            "--features",
            "shell",
            "--test",
            "contract",
            "--test-threads",
            "8",
        ];
        let report = root().join("target/contract/bench");
        let status = Command::new("cargo")
            .args(args)
            .args(more)
            // Without it rows that are expected to be unproven fail.
            .env("SANDBOX_CONTRACT_REPORT", report)
            .current_dir(root())
            .output();
        let output = status.context("cannot run the contract of the fake")?;
        if !output.status.success() {
            bail!("the contract of the fake failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    };
    cargo(&["--no-run"])?;
    let begun = Instant::now();
    cargo(&[])?;
    let median = begun.elapsed().as_secs_f64();
    Ok(Figure { name: "contract of the fake".into(), unit: "seconds".into(), median, p95: None, n: 1, raw: None })
}

fn goal(name: &str) -> Option<Goal> {
    GOALS.iter().find(|(known, _)| *known == name).map(|(_, goal)| *goal)
}

fn missed(figure: &Figure) -> bool {
    match goal(&figure.name) {
        Some(Goal::AtMost(most)) => figure.median > most,
        Some(Goal::AtLeast(least)) => figure.median < least,
        None => false,
    }
}

fn page(figures: &[Figure], machine: &str) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nWritten by `cargo xtask bench facade`. Figures of one machine, side by side in one run: take ratios before \
         absolute values.\n\n",
    );
    let _ = writeln!(page, "{machine}\n");
    page.push_str(
        "| figure | unit | n | median | p95 | without the facade | goal | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for figure in figures {
        let optional = |value: Option<f64>| value.map_or_else(|| "–".to_string(), number);
        let goal = match goal(&figure.name) {
            Some(Goal::AtMost(most)) => format!("≤ {most}"),
            Some(Goal::AtLeast(least)) => format!("≥ {least}"),
            None => "–".into(),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {goal} | {} |",
            figure.name,
            figure.unit,
            figure.n,
            number(figure.median),
            optional(figure.p95),
            optional(figure.raw),
            if missed(figure) { "missed" } else { "met" },
        );
    }
    page.push_str(NOTES);
    for figure in figures.iter().filter(|figure| missed(figure)) {
        let why = WHY.iter().find(|(name, _)| *name == figure.name).map_or("nobody has looked why", |(_, why)| why);
        let _ = write!(page, "\nThe goal of *{}* is missed: {why}.\n", figure.name);
    }
    page
}

fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn machine() -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, m)| m.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_string();
    let rustc = String::from_utf8_lossy(&rustc.stdout).trim().to_string();
    // What follows the number names one build of it.
    let kernel = kernel.trim().split('-').next().unwrap_or_default().to_string();
    Ok(format!("{model}, {cores} cores, Linux {kernel}, {rustc}; load {load} at the end."))
}

const NOTES: &str = "
- *run*: a whole command over an adapter that answers at once, awaited on a current-thread runtime: two wakes of the caller across \
  threads, the rest is bookkeeping. Without the facade it is one poll.
- *stream*: 4 GiB of stdout in pieces of 64 KiB, read to the end; *stream memory*: by how much that raises the process's peak. Without \
  the facade it is a loop over one buffer.
- *thousand sandboxes*: resident memory of a process with 1,000 sandboxes of the fake alive, each of which has run one command.
- *contract of the fake*: wall time of the whole suite, a process a row, eight at a time.
- That 50 creates at once on Docker, half of them dropped at random points, leave nothing on the engine is not a figure but a test of \
  `sandbox-docker`.
";

/// Why a goal is missed, written where it is.
const WHY: &[(&str, &str)] = &[
    (
        "run",
        "it is two wakes of the caller across threads and three of the engine's own: a wake was measured at 3 to 6 µs on such a machine, \
         bookkeeping is the rest; the next step is to spare the watch's wake while a command is shorter than its first deadline",
    ),
    (
        "contract of the fake",
        "rows that wait for real-time limits (teardown, operation, late answers) take the time, and a dozen that race time run alone, not the \
         fake itself",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "noise\n{\"name\":\"run\",\"unit\":\"us\",\"median\":25.0,\"p95\":30.5,\"n\":9,\"raw\":0.2}\n";

    #[test]
    fn a_missed_goal_shows() {
        let figures = parsed(LINES).unwrap();
        assert!(missed(&figures[0]));
        assert!(page(&figures, "a machine").contains("| run | us | 9 | 25.0 | 30.5 | 0.2 | ≤ 20 | missed |"));
    }

    /// What `docs/bench.md` owes its readers; `written` is the page.
    fn owed(written: &str) -> Vec<String> {
        let row =
            |name: &str| written.lines().find(|line| line.starts_with(&format!("| {name} |"))).map(str::to_string);
        let explained = |name: &str| {
            let why = written.split_once(&format!("The goal of *{name}* is missed: ")).map(|(_, why)| why);
            why.is_some_and(|why| !why.starts_with("nobody"))
        };
        let names = GOALS.iter().map(|(name, _)| *name);
        names
            .filter_map(|name| match row(name) {
                None => Some(format!("no figure `{name}`: run `cargo xtask bench facade`")),
                Some(row) if row.ends_with("| missed |") && !explained(name) => {
                    Some(format!("`{name}` is missed without a word of why"))
                }
                Some(_) => None,
            })
            .collect()
    }

    #[test]
    fn the_committed_page_holds_every_figure_and_explains_what_is_missed() {
        let written = fs::read_to_string(root().join("docs/bench.md")).unwrap();
        assert_eq!(owed(&written), Vec::<String>::new());
        assert_eq!(owed("").len(), GOALS.len());
    }

    #[test]
    fn a_missed_goal_is_explained_where_it_is_missed_and_nowhere_else() {
        let figure = |name: &str, median: f64| Figure { name: name.into(), median, ..parsed(LINES).unwrap().remove(0) };
        let page = |median: f64| page(&[figure("run", median), figure("stream", 0.5)], "a machine");
        let unexplained =
            |page: &str| owed(page).into_iter().filter(|line| line.contains("without a word")).collect::<Vec<_>>();
        assert_eq!(unexplained(&page(25.0)), ["`stream` is missed without a word of why"]);
        assert!(
            page(25.0).contains("The goal of *run* is missed: it is two wakes")
                && !page(15.0).contains("goal of *run*")
        );
    }

    #[test]
    fn what_is_no_figure_is_an_error() {
        assert!(parsed("{\"name\":\"run\"}").is_err());
    }
}
