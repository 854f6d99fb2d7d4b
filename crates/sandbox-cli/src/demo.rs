//! `sandbox demo`.

use crate::{
    exit::{self, Phase},
    report::{Payload, Report},
};
use clap::Args;
use sandbox::{
    Client, Command, Error, ErrorKind, Fate, Isolation, ProcessEvent, Query, Registry, Resources, Result, Sandbox, Spec,
};
use sandbox_fake::FakeProvider;
use serde::Serialize;
use std::{fs, io, path::Path, time::Duration};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {}

const EXAMPLES: &str = "\
Examples:
  sandbox demo

It runs on fake://, a backend in memory: nothing is installed, nothing is sent anywhere, and nothing is isolated. The same
steps on a backend that isolates are `sandbox run --backend docker+plain://IMAGE …`.";

/// What was done, and what was seen. A step whose result is not what it has to be is an error.
#[derive(Debug, Default, Serialize)]
struct Steps {
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    does: &'static str,
    saw: Vec<String>,
}

impl Payload for Steps {
    fn words(&self) -> String {
        let steps = self.steps.iter().enumerate().map(|(index, step)| {
            let saw: String = step.saw.iter().map(|line| format!("   {line}\n")).collect();
            format!("{}. {}\n{saw}", index + 1, step.does)
        });
        steps.collect()
    }
}

/// Does the main job, and gives the code to end with.
pub(crate) async fn demo(_: Demo, json: bool) -> u8 {
    let (mut report, mut steps) = (Report::new(json), Steps::default());
    match steps.all().await {
        Ok(()) => report.give(&steps, "ok", 0),
        Err(error) => {
            report.error(Phase::Run, &error);
            report.give(&steps, "failed", exit::code(Phase::Run, &error).code())
        }
    }
}

impl Steps {
    async fn all(&mut self) -> Result<()> {
        let place = tempfile::tempdir().map_err(host)?;
        let (project, result) = (place.path().join("project"), place.path().join("words.txt"));
        lay(&project).map_err(host)?;

        let client = Registry::new().register(FakeProvider::new())?.open("fake://")?;
        self.saw(
            "open the backend fake://",
            [format!("its isolation is `{}`: it is for trying and testing", client.facts().tier())],
        );

        let sandbox = client.create(spec()).await?;
        self.saw(
            "create a sandbox: no network, 256 MiB, over after ten minutes",
            [format!("its id is {}", sandbox.id())],
        );

        sandbox.files().upload_dir(&project, "/work").await?;
        let names =
            sandbox.files().list("/work").await?.into_iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
        self.saw("upload a directory to /work", [names]);

        let lines = stream(&sandbox, Command::shell(COUNT).cwd("/work")).await?;
        ensure(lines.first().is_some_and(|line| line.trim() == "3 the"), "the counts are wrong")?;
        self.saw("run a pipeline on it, and see its output as it comes", lines);

        sandbox.files().download("/work/words.txt", &result).await?;
        let words = fs::read_to_string(&result).map_err(host)?;
        ensure(words.lines().count() == 7, "the result is not whole")?;
        self.saw("download the result", [format!("{} lines, {} bytes", words.lines().count(), words.len())]);

        self.deadline(&sandbox).await?;
        self.refusal(&client).await?;

        sandbox.close().await?;
        let left = client.list(Query::new()).await?.len();
        ensure(left == 0 && client.orphans().is_empty(), "something was left behind")?;
        self.saw("close the sandbox", ["nothing is left".into()]);
        client.close().await
    }

    /// A timeout ends its command, and spares the sandbox.
    async fn deadline(&mut self, sandbox: &Sandbox) -> Result<()> {
        let late = sandbox.run(Command::new("sleep").arg("9999").timeout(Duration::from_secs(60))).await;
        let error = late.err().ok_or_else(|| wrong("a command went on past its timeout"))?;
        ensure(error.kind() == ErrorKind::ExecutionTimeout && error.fate() == Some(Fate::Dead), "the end is another")?;
        ensure(sandbox.run(Command::new("true")).await?.success(), "the sandbox is not usable any more")?;
        let saw = [error.to_string(), "it is dead, and the sandbox goes on".into()];
        self.saw("run a command that takes too long, for at most a minute of the backend's own clock", saw);
        Ok(())
    }

    /// What a backend cannot do is refused before anything is made.
    async fn refusal(&mut self, client: &Client) -> Result<()> {
        let refused = client.create(spec().isolation(Isolation::MicroVm)).await;
        let error = refused.err().ok_or_else(|| wrong("a tier that the backend does not have was taken"))?;
        ensure(error.kind() == ErrorKind::IsolationTooWeak, "the refusal is of another kind")?;
        self.saw("ask for an isolation that this backend does not have", [error.to_string()]);
        Ok(())
    }

    fn saw(&mut self, does: &'static str, saw: impl IntoIterator<Item = String>) {
        self.steps.push(Step { does, saw: saw.into_iter().collect() });
    }
}

/// Takes the lines of stdout as they come.
async fn stream(sandbox: &Sandbox, command: Command) -> Result<Vec<String>> {
    let (mut process, mut out) = (sandbox.start(command).await?, Vec::new());
    while let Some(event) = process.next().await? {
        match event {
            ProcessEvent::Stdout(bytes) => out.extend_from_slice(&bytes),
            ProcessEvent::Exited(status) => ensure(status.as_code() == 0, "the pipeline failed")?,
            _ => {}
        }
    }
    Ok(String::from_utf8_lossy(&out).lines().map(String::from).collect())
}

fn spec() -> Spec {
    Spec::new().resources(Resources::new().memory(256 << 20)).lifetime(Duration::from_secs(600))
}

/// A small directory to work on.
fn lay(project: &Path) -> io::Result<()> {
    fs::create_dir_all(project)?;
    fs::write(project.join("one.txt"), "the sandbox and the file\n")?;
    fs::write(project.join("two.txt"), "the file and a word alone\n")
}

const COUNT: &str = "cat *.txt | tr -s ' ' '\\n' | sort | uniq -c | sort -rn > words.txt; head -n 3 words.txt";

fn ensure(holds: bool, otherwise: &'static str) -> Result<()> {
    if holds { Ok(()) } else { Err(wrong(otherwise)) }
}

fn wrong(what: &'static str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

fn host(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("this host has no place for temporary files: {error}")).with_source(error)
}
