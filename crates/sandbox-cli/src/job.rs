//! The work of a run, from the sandbox's making to its last download.

use crate::{
    bound::Bound,
    exit::Phase,
    files,
    plan::{Feed, Plan},
    progress::Progress,
    sink::{Sink, Stream},
};
use bytes::Bytes;
use sandbox::{Client, Command, Error, ErrorKind, Input, Process, ProcessEvent, Sandbox, Status};
use serde_json::json;
use std::{cell::OnceCell, future::pending, io};
use tokio::io::AsyncReadExt as _;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How the program ended, if it did so by itself.
    pub(crate) status: Option<Status>,
    /// What failed, in order.
    pub(crate) failures: Vec<(Phase, Error)>,
    /// Nobody reads our output any more.
    pub(crate) unread: bool,
    /// FIFOs, sockets and devices, which are not copied.
    pub(crate) skipped: Vec<String>,
    pub(crate) stdout: Bound,
    pub(crate) stderr: Bound,
}

/// Why it cannot go on.
enum Fault {
    Failed(Phase, Error),
    Unread,
}

/// Does it. The program ends with the future; the sandbox stays in `made`, for its teardown.
pub(crate) async fn work(
    client: &Client,
    plan: Plan,
    feed: Feed,
    made: &OnceCell<Sandbox>,
    sink: &mut Sink,
    progress: &Progress,
) -> Outcome {
    let (stdout, stderr) = (Bound::new(plan.output_limit), Bound::new(plan.output_limit));
    let outcome = Outcome { status: None, failures: Vec::new(), unread: false, skipped: Vec::new(), stdout, stderr };
    let mut job = Job { client, made, sink, progress, outcome };
    match job.steps(plan, feed).await {
        Ok(()) => {}
        Err(Fault::Failed(phase, error)) => job.outcome.failures.push((phase, error)),
        Err(Fault::Unread) => job.outcome.unread = true,
    }
    job.outcome
}

struct Job<'a> {
    client: &'a Client,
    made: &'a OnceCell<Sandbox>,
    sink: &'a mut Sink,
    progress: &'a Progress,
    outcome: Outcome,
}

impl Job<'_> {
    async fn steps(&mut self, plan: Plan, feed: Feed) -> Result<(), Fault> {
        let command = match feed {
            Feed::Nothing => plan.command,
            Feed::Pipe => plan.command.pipe(),
            Feed::Whole => {
                self.progress.say("reading stdin");
                plan.command.input(whole().await.map_err(failed(Phase::Usage))?)
            }
        };
        self.progress.say("creating the sandbox");
        let sandbox = self.client.create(plan.spec).await.map_err(failed(Phase::Create))?;
        let sandbox = self.made.get_or_init(|| sandbox);
        let created = json!({ "event": "created", "sandbox": sandbox.id(), "backend": sandbox.facts().name() });
        self.sink.document(&created).await.map_err(unwritten)?;
        for item in &plan.uploads {
            self.progress.say(format!("uploading {}", item.host.display()));
            let skipped = files::upload(sandbox, item).await.map_err(failed(Phase::Upload))?;
            self.outcome.skipped.extend(skipped);
        }
        let ended = self.program(sandbox, command).await;
        let over = match ended {
            Ok(status) => {
                self.outcome.status = Some(status);
                true
            }
            // What it had made by then may be just what is wanted.
            Err(Fault::Failed(phase, error)) => {
                let over = matches!(error.kind(), ErrorKind::ExecutionTimeout | ErrorKind::ResourceExhausted);
                self.outcome.failures.push((phase, error));
                over
            }
            Err(Fault::Unread) => return Err(Fault::Unread),
        };
        for item in plan.downloads.iter().filter(|_| over) {
            self.say_behind_output(format!("downloading {}", item.inside));
            match files::download(sandbox, item).await {
                Ok(skipped) => self.outcome.skipped.extend(skipped),
                Err(error) => self.outcome.failures.push((Phase::Download, error)),
            }
        }
        Ok(())
    }

    async fn program(&mut self, sandbox: &Sandbox, command: Command) -> Result<Status, Fault> {
        self.progress.say("starting the program");
        let mut process = sandbox.start(command).await.map_err(failed(Phase::Start))?;
        self.progress.say("running");
        let input = process.take_input();
        let ended = tokio::select! {
            ended = self.output(&mut process) => ended,
            error = feed(input) => Err(Fault::Failed(Phase::Run, error)),
        };
        self.progress.clear();
        if !matches!(ended, Err(Fault::Unread)) {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let rest = self.bound(stream).rest();
                self.sink.write(stream, &rest).await.map_err(unwritten)?;
            }
        }
        ended
    }

    /// Passes the program's output on, at our readers' pace.
    async fn output(&mut self, process: &mut Process) -> Result<Status, Fault> {
        let mut status = None;
        loop {
            let (stream, bytes) = match process.next().await.map_err(failed(Phase::Run))? {
                Some(ProcessEvent::Stdout(bytes)) => (Stream::Stdout, bytes),
                Some(ProcessEvent::Stderr(bytes)) => (Stream::Stderr, bytes),
                Some(ProcessEvent::Exited(with)) => {
                    status = Some(with);
                    continue;
                }
                Some(_) => continue,
                None => break,
            };
            let now = self.bound(stream).push(bytes);
            if !now.is_empty() {
                self.progress.clear();
                self.sink.write(stream, &now).await.map_err(unwritten)?;
            }
        }
        let lost = || Error::new(ErrorKind::Internal, "the program's end was not told");
        status.ok_or_else(|| Fault::Failed(Phase::Run, lost()))
    }

    fn bound(&mut self, stream: Stream) -> &mut Bound {
        match stream {
            Stream::Stdout => &mut self.outcome.stdout,
            Stream::Stderr => &mut self.outcome.stderr,
        }
    }

    /// A line that is drawn where the program left off in the middle of one would wipe it out.
    fn say_behind_output(&self, what: String) {
        if self.sink.at_line_start() {
            self.progress.say(what);
        }
    }
}

fn failed(phase: Phase) -> impl Fn(Error) -> Fault {
    move |error| Fault::Failed(phase, error)
}

fn unwritten(error: io::Error) -> Fault {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Fault::Unread;
    }
    let error =
        Error::new(ErrorKind::Internal, format!("cannot pass the program's output on: {error}")).with_source(error);
    Fault::Failed(Phase::Run, error)
}

/// Passes our stdin on, at the program's pace, and its end. Resolves only where our stdin cannot be read: how the program
/// takes its input is the program's affair.
async fn feed(input: Option<Input>) -> Error {
    let Some(input) = input else { return pending().await };
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; PIECE];
    loop {
        match stdin.read(&mut buffer).await {
            Ok(0) => break,
            Ok(length) => {
                if input.write(Bytes::copy_from_slice(&buffer[..length])).await.is_err() {
                    break;
                }
            }
            Err(error) => return unreadable(error),
        }
    }
    drop(input);
    pending().await
}

/// All of our stdin, for a backend that takes it in one piece.
async fn whole() -> Result<Bytes, Error> {
    let mut all = Vec::new();
    tokio::io::stdin().take(MOST + 1).read_to_end(&mut all).await.map_err(unreadable)?;
    if all.len() as u64 > MOST {
        let error = Error::invalid(format!("stdin has more than {MOST} bytes, and this backend takes it in one piece"));
        return Err(error.with_hint("upload it as a file"));
    }
    Ok(all.into())
}

fn unreadable(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot read stdin: {error}")).with_source(error)
}

const PIECE: usize = 64 << 10;
const MOST: u64 = 64 << 20;
