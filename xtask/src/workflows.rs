//! `cargo xtask workflows`: GitHub's workflows, made from the lanes so that no lane is forgotten there.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anyhow::Result;

use crate::{
    ci::{self, Lane, Os, When},
    generated::Folder,
    workspace,
};

const WRITER: &str = "cargo xtask workflows";
/// By commit, since a tag may be moved. It is v4.2.2.
const CHECKOUT: &str = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683";
/// Installing tools and building `xtask` come on top of the lane's own limit.
const SETUP_MINUTES: u32 = 15;

pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    folder(&ci::load(&root.join("ci/lanes"))?).write(&root)
}

/// What is out of date, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    folder(&ci::load(&root.join("ci/lanes"))?).check(root)
}

fn folder(lanes: &[Lane]) -> Folder {
    let due = |when: When| lanes.iter().filter(move |lane| lane.when == when);
    let mut files = BTreeMap::from([("manual.yml".to_string(), manual(lanes))]);
    for (name, when, trigger) in [
        ("change", When::Change, "on:\n  pull_request:\n  push:\n    branches: [main]\n"),
        ("nightly", When::Nightly, "on:\n  schedule:\n    - cron: \"17 2 * * *\"\n  workflow_dispatch:\n"),
    ] {
        // A workflow without a job is no workflow.
        if due(when).next().is_some() {
            let jobs: String = due(when).map(job).collect();
            files.insert(format!("{name}.yml"), format!("{}{jobs}", head(name, trigger)));
        }
    }
    Folder { path: ".github/workflows", extension: "yml", files, writer: WRITER }
}

fn head(name: &str, trigger: &str) -> String {
    format!(
        "# Written by `{WRITER}` from ci/lanes: change it there.\nname: {name}\n{trigger}permissions:\n  contents: read\n\
         concurrency:\n  group: {name}-${{{{ github.ref }}}}\n  cancel-in-progress: {}\njobs:\n",
        name == "change"
    )
}

fn job(lane: &Lane) -> String {
    let mut text = format!("  {}:\n    name: {}\n", identifier(&lane.name), quoted(&lane.name));
    let _ = writeln!(text, "    runs-on: {}", machine(lane.os));
    let _ = writeln!(text, "    timeout-minutes: {}", lane.minutes + SETUP_MINUTES);
    if !lane.required {
        text.push_str("    continue-on-error: true\n");
    }
    if lane.canary {
        text.push_str("    permissions:\n      contents: read\n      issues: write\n");
    }
    text.push_str(&steps(lane.os, &lane.name, &secrets(lane.secrets.iter())));
    if lane.canary {
        let _ = write!(
            text,
            "      - name: file the issue\n        if: failure()\n        env:\n          GH_TOKEN: ${{{{ github.token }}}}\n\
             \x20       run: gh issue create --title {} --label provider-churn --body-file target/churn/{}.md\n",
            quoted(&format!("provider-churn: {}", lane.name)),
            lane.name.replace('/', "-")
        );
    }
    text
}

fn steps(os: Os, lane: &str, env: &BTreeMap<&str, String>) -> String {
    let run = match os {
        // The script installs packages, and so is root's.
        Os::Linux => format!(
            "sudo --preserve-env env \"PATH=$PATH\" \"CARGO_HOME=$HOME/.cargo\" \"RUSTUP_HOME=$HOME/.rustup\" bash .ci/run --lane {lane}"
        ),
        Os::Macos | Os::Windows => format!("cargo --locked xtask ci --lane {lane}"),
    };
    let mut text = format!(
        "    steps:\n      - uses: {CHECKOUT}\n        with:\n          fetch-depth: 0\n          persist-credentials: false\n\
         \x20     - name: the lane\n        shell: bash\n        run: {run}\n"
    );
    if !env.is_empty() {
        text.push_str("        env:\n");
    }
    for (name, value) in env {
        let _ = writeln!(text, "          {name}: {value}");
    }
    text
}

/// A secret that is not set is empty, and its lane is skipped with its name.
fn secrets<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, String> {
    names.map(|name| (name.as_str(), format!("${{{{ secrets.{name} }}}}"))).collect()
}

/// Any lane by hand, on the system that is its own.
fn manual(lanes: &[Lane]) -> String {
    let mut trigger = String::from(
        "on:\n  workflow_dispatch:\n    inputs:\n      lane:\n        type: choice\n        required: true\n        description: The lane to run\n        options:\n",
    );
    for lane in lanes {
        let _ = writeln!(trigger, "          - {}", quoted(&lane.name));
    }
    let mut text = head("manual", &trigger);
    for os in [Os::Linux, Os::Macos, Os::Windows] {
        let here: Vec<_> = lanes.iter().filter(|lane| lane.os == os).collect();
        let Some(minutes) = here.iter().map(|lane| lane.minutes).max() else { continue };
        let names: Vec<_> = here.iter().map(|lane| format!("\"{}\"", lane.name)).collect();
        let mut env = secrets(here.iter().flat_map(|lane| &lane.secrets));
        // What was chosen is no part of the script's text, so that it cannot become one.
        env.insert("LANE", "${{ inputs.lane }}".into());
        let _ = write!(
            text,
            "  {}:\n    if: contains(fromJSON('[{}]'), inputs.lane)\n    runs-on: {}\n    timeout-minutes: {}\n",
            os.name(),
            names.join(", "),
            machine(os),
            minutes + SETUP_MINUTES
        );
        text.push_str(&steps(os, "\"$LANE\"", &env));
    }
    text
}

fn machine(os: Os) -> &'static str {
    match os {
        Os::Linux => "ubuntu-24.04",
        Os::Macos => "macos-15",
        Os::Windows => "windows-2025",
    }
}

fn identifier(lane: &str) -> String {
    lane.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, more: &str) -> Lane {
        ci::parse(name, &format!("required = true\nminutes = 7\nrun = [['true']]\n{more}")).unwrap()
    }

    fn files(lanes: &[Lane]) -> BTreeMap<String, String> {
        folder(lanes).files
    }

    #[test]
    fn each_lane_is_a_job_of_the_workflow_when_it_is_due() {
        let lanes = [lane("a", "when = 'change'"), lane("b/c", "when = 'nightly'"), lane("d", "when = 'manual'")];
        let files = files(&lanes);
        assert!(files["change.yml"].contains("\n  a:\n") && !files["change.yml"].contains("b/c"));
        assert!(
            files["nightly.yml"].contains("\n  b-c:\n    name: \"b/c\"\n")
                && files["nightly.yml"].contains("--lane b/c\n")
        );
        for name in ["a", "b/c", "d"] {
            assert!(files["manual.yml"].contains(&format!("          - \"{name}\"\n")), "{}", files["manual.yml"]);
        }
        assert_eq!(files.len(), 3);
    }

    #[test]
    fn limits_systems_and_what_is_not_required_are_kept() {
        let mac = job(&lane("m", "when = 'change'\nos = 'macos'"));
        assert!(
            mac.contains("runs-on: macos-15\n    timeout-minutes: 22\n") && mac.contains("cargo --locked xtask ci"),
            "{mac}"
        );
        let tried = ci::parse("x", "when = 'change'\nrequired = false\nminutes = 1\nrun = [['true']]").unwrap();
        assert!(job(&tried).contains("continue-on-error: true") && !mac.contains("continue-on-error"));
    }

    #[test]
    fn secrets_reach_the_lane_alone_and_by_name() {
        let lanes = [lane("live", "when = 'change'\nsecrets = ['B_KEY', 'A_KEY']"), lane("a", "when = 'change'")];
        let text = "        env:\n          A_KEY: ${{ secrets.A_KEY }}\n          B_KEY: ${{ secrets.B_KEY }}\n";
        assert!(job(&lanes[0]).ends_with(text), "{}", job(&lanes[0]));
        assert!(!job(&lanes[1]).contains("secrets"));
        assert!(manual(&lanes).contains("          B_KEY: ${{ secrets.B_KEY }}\n          LANE: ${{ inputs.lane }}\n"));
    }

    #[test]
    fn only_a_canary_may_file_issues() {
        let canary = job(&lane("canary/sdk", "when = 'nightly'\ncanary = true"));
        assert!(
            canary.contains("issues: write") && canary.contains("--body-file target/churn/canary-sdk.md\n"),
            "{canary}"
        );
        assert!(!job(&lane("a", "when = 'change'")).contains("issues"));
    }

    #[test]
    fn a_lane_that_was_added_puts_the_workflows_out_of_date() {
        let root = tempfile::tempdir().unwrap();
        let one = [lane("a", "when = 'change'")];
        folder(&one).write(root.path()).unwrap();
        assert_eq!(folder(&one).check(root.path()).unwrap(), Vec::<String>::new());
        let two = [lane("a", "when = 'change'"), lane("b", "when = 'nightly'")];
        let found = folder(&two).check(root.path()).unwrap();
        assert!(found.iter().any(|finding| finding.contains("nightly.yml is missing")), "{found:?}");
        assert!(found.iter().any(|finding| finding.contains("manual.yml is out of date")), "{found:?}");
        folder(&two).write(root.path()).unwrap();
        assert!(
            folder(&one)
                .check(root.path())
                .unwrap()
                .iter()
                .any(|finding| finding.contains("nightly.yml stands for nothing"))
        );
    }
}
