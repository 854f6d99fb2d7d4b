//! One exec per command.
//!
//! The engine answers the start of an exec before it has started anything: a failure then arrives as text on stdout, with
//! exit code 126 and no pid. And it ends the stream when the last holder of the pipes has closed them, which may be long
//! after the program's end. So both the start and the end are asked for, beside the stream.

use crate::{
    error::{self, Meaning},
    look::{Look, look},
    wire::{self, Link},
};
use bollard::{container::LogOutput, errors::Error as Wire, exec::StartExecResults, models::ExecConfig};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sandbox_core::{Control, Ended, Error, ErrorKind, Event, Events, Exec, Result, Status, Stdin, Tasks};
use std::{collections::VecDeque, fmt, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{Mutex, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

/// The longest single argument or variable that Linux takes, its end mark included (`MAX_ARG_STRLEN`, with pages of 4 KiB).
const LONGEST_ARGUMENT: usize = 128 << 10;

/// What all of them may take together: a quarter of the usual 8 MiB of stack, less room for the image's own environment.
const ALL_ARGUMENTS: usize = (2 << 20) - (32 << 10);

/// After the end, the stream is quiet for this long before it counts as emptied of what the program wrote.
const QUIET: Duration = Duration::from_millis(400);

/// How long it is waited in all for such a quiet moment. The engine cuts the stream after two seconds.
const PATIENCE: Duration = Duration::from_millis(1500);

/// More than this cannot have been in pipes and sockets when the program ended.
const IN_FLIGHT: usize = 4 << 20;

/// No text of a failed start is longer; what is longer is output.
const LONGEST_REFUSAL: usize = 256 << 10;

pub(crate) async fn spawn(
    link: &Arc<Link>,
    container: &str,
    tasks: &Tasks,
    exec: &Exec,
) -> Result<(Input, ExecEvents)> {
    check_size(exec)?;
    let config = ExecConfig {
        attach_stdin: Some(!matches!(exec.stdin, Stdin::Null)),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some(exec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        cmd: Some(exec.argv.clone()),
        working_dir: exec.cwd.clone(),
        user: exec.user.clone(),
        ..ExecConfig::default()
    };
    let failed = |wire| error::fault("starting the command", Meaning::EXEC, wire);
    // Made and started in one go; one that is made and never started runs nothing, and goes with the container.
    let made = link.docker.create_exec(container, config).await.map_err(|wire| failed(wire).applied(false))?;
    if !wire::sound(&made.id) {
        return Err(Error::new(ErrorKind::Protocol, format!("the engine calls a command {:?}", made.id)).applied(false));
    }
    let StartExecResults::Attached { output, input } = link.docker.start_exec(&made.id, None).await.map_err(failed)?
    else {
        return Err(Error::new(ErrorKind::Protocol, "the engine started the command without its streams"));
    };
    let mut events = ExecEvents {
        link: Arc::clone(link),
        exec: made.id,
        stream: Some(output),
        early: VecDeque::new(),
        phase: Phase::Running,
        since: Instant::now(),
        look_at: Instant::now(),
        takes_input: None,
    };
    let (takes, over) = watch::channel(());
    events.takes_input = Some(takes);
    let writer = match &exec.stdin {
        Stdin::Pipe => Some(input),
        Stdin::Whole(all) => {
            tasks.spawn(feed(input, all.clone(), over.clone()));
            None
        }
        _ => None,
    };
    events.started(exec).await?;
    Ok((Input { writer: Mutex::new(writer), over }, events))
}

fn check_size(exec: &Exec) -> Result<()> {
    let arguments = exec.argv.iter().map(|argument| argument.len() + 1);
    let variables = exec.env.iter().map(|(name, value)| name.len() + value.len() + 2);
    let (mut longest, mut all) = (0, 0);
    for size in arguments.chain(variables) {
        longest = longest.max(size);
        all += size + size_of::<usize>();
    }
    if longest > LONGEST_ARGUMENT || all > ALL_ARGUMENTS {
        let message = format!("the longest argument takes {longest} bytes, and all arguments and variables take {all}");
        return Err(Error::new(ErrorKind::ArgumentTooLarge, message)
            .with_hint("at most 131071 bytes each and about 2 MB in all; pass the rest as input or as a file"));
    }
    Ok(())
}

type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Writes all of the input at the program's pace, until there is nobody left to read it.
async fn feed(mut input: Writer, all: Bytes, mut over: watch::Receiver<()>) {
    let write = async {
        // A program that takes no more has ended or closed its input; both are its own affair.
        if input.write_all(&all).await.is_ok() {
            drop(input.shutdown().await);
        }
    };
    tokio::select! {
        () = write => {}
        _ = over.changed() => {}
    }
}

/// The handle on a running command: its input. Nothing else can be done to one exec.
pub struct Input {
    writer: Mutex<Option<Writer>>,
    /// Closed once the program has ended: the engine then reads no more, and a write would wait for ever.
    over: watch::Receiver<()>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl Control for Input {
    async fn write(&self, data: Bytes) -> Result<()> {
        let mut input = self.writer.lock().await;
        let Some(writer) = input.as_mut() else {
            return Err(Error::new(ErrorKind::ConnectionLost, "the command's input is closed").applied(false));
        };
        let written = async {
            writer.write_all(&data).await?;
            writer.flush().await
        };
        let refused = || Error::new(ErrorKind::ConnectionLost, "the command takes no more input");
        let mut over = self.over.clone();
        tokio::select! {
            biased;
            _ = over.changed() => Err(refused()),
            written = written => written.map_err(|e| refused().with_source(e)),
        }
    }

    async fn close_stdin(&self) -> Result<()> {
        if let Some(mut writer) = self.writer.lock().await.take() {
            // A program that has ended has no input left to close.
            drop(writer.shutdown().await);
        }
        Ok(())
    }
}

type Frames = Pin<Box<dyn Stream<Item = Result<LogOutput, Wire>> + Send>>;

/// What comes out of one exec.
pub struct ExecEvents {
    link: Arc<Link>,
    exec: String,
    /// `None` once it has ended.
    stream: Option<Frames>,
    /// What came while it was not known yet whether the program had started.
    early: VecDeque<Event>,
    phase: Phase,
    since: Instant,
    /// When the engine is asked next whether the program still runs.
    look_at: Instant,
    /// Dropped with the events, which ends the feeding of the input.
    takes_input: Option<watch::Sender<()>>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    /// Ended, and what it wrote may still be on its way.
    Ended {
        code: i32,
        at: Instant,
        waited: Duration,
        bytes: usize,
    },
    /// Ended, and said so.
    Told,
}

impl fmt::Debug for ExecEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecEvents")
            .field("exec", &self.exec)
            .field("phase", &self.phase)
            .field("input", &self.takes_input.is_some())
            .finish_non_exhaustive()
    }
}

impl Events for ExecEvents {
    async fn next(&mut self) -> Result<Option<Event>> {
        // It was started before: whatever is wrong now, it may have run.
        self.advance().await.map_err(|error| error.applied(true))
    }
}

impl ExecEvents {
    async fn advance(&mut self) -> Result<Option<Event>> {
        if let Some(event) = self.early.pop_front() {
            return Ok(Some(event));
        }
        if matches!(self.phase, Phase::Running) {
            if let Some(event) = self.running().await? {
                return Ok(Some(event));
            }
        }
        match self.phase {
            Phase::Ended { code, at, waited, bytes } => self.emptying(code, at, waited, bytes).await,
            _ => self.left_behind().await,
        }
    }

    /// Resolves when the program runs or has run; an error says whether it may have.
    async fn started(&mut self, exec: &Exec) -> Result<()> {
        let (mut pause, mut held) = (Duration::from_millis(25), 0);
        loop {
            match &mut self.stream {
                // Either there is output, or the stream is over, or a while has passed: each is a reason to look.
                Some(stream) => match timeout(pause, frame(stream)).await {
                    Ok(Some(event)) => {
                        let event = event.map_err(|error| error.applied(true))?;
                        held += size(&event);
                        self.early.push_back(event);
                    }
                    Ok(None) => self.stream = None,
                    Err(_) => pause = (pause * 2).min(Duration::from_millis(400)),
                },
                None => {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(400));
                }
            }
            if held > LONGEST_REFUSAL {
                return Ok(());
            }
            match look(&self.link, &self.exec).await.map_err(|error| error.applied(true))? {
                Look::Starting if self.stream.is_none() && self.since.elapsed() > Duration::from_secs(30) => {
                    return Err(Error::new(
                        ErrorKind::Protocol,
                        "the engine ended the stream of a command that it never started",
                    ));
                }
                Look::Starting => {}
                Look::NotStarted => return Err(self.refusal(exec).await),
                Look::Cut => return Err(cut()),
                Look::Running => {
                    self.look_later();
                    return Ok(());
                }
                Look::Ended(code) => {
                    self.ended(code);
                    return Ok(());
                }
                Look::Died => return Err(died().applied(true)),
            }
        }
    }

    /// Why it did not start: all that the stream holds is the engine's text.
    async fn refusal(&mut self, exec: &Exec) -> Error {
        let mut text = Vec::new();
        let mut add = |event: &Event| match event {
            Event::Stdout(bytes) | Event::Stderr(bytes) if text.len() < LONGEST_REFUSAL => {
                text.extend_from_slice(bytes)
            }
            _ => {}
        };
        self.early.iter().for_each(&mut add);
        let rest = async {
            while let Some(stream) = &mut self.stream {
                match frame(stream).await {
                    Some(Ok(event)) => add(&event),
                    _ => break,
                }
            }
        };
        // The text is complete when the engine closes the stream, which it does at once.
        drop(timeout(Duration::from_secs(3), rest).await);
        let program = exec.argv.first().map_or("", String::as_str);
        error::not_started(&String::from_utf8_lossy(&text), program, exec.cwd.as_deref(), exec.user.as_deref())
    }

    /// What the program writes; `None` once it has ended.
    async fn running(&mut self) -> Result<Option<Event>> {
        loop {
            // Also while output flows: what the program left behind may write for ever.
            if Instant::now() >= self.look_at {
                match look(&self.link, &self.exec).await? {
                    Look::Ended(code) => {
                        self.ended(code);
                        return Ok(None);
                    }
                    Look::Died => return Err(died()),
                    Look::Cut => return Err(cut()),
                    Look::NotStarted => {
                        return Err(Error::new(ErrorKind::Protocol, "the engine forgot that the command runs"));
                    }
                    Look::Starting | Look::Running => self.look_later(),
                }
            }
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep_until(self.look_at).await;
                continue;
            };
            match timeout_at(self.look_at, frame(stream)).await {
                Ok(Some(event)) => return event.map(Some),
                // The end of the stream is most often that of the program.
                Ok(None) => {
                    self.stream = None;
                    self.since = Instant::now();
                    self.look_at = self.since;
                }
                Err(_) => {}
            }
        }
    }

    /// The program has ended: first what it wrote, then the news.
    async fn emptying(&mut self, code: i32, at: Instant, waited: Duration, bytes: usize) -> Result<Option<Event>> {
        let ended = Ok(Some(Event::Ended(Ended::program(Status::Code(code)))));
        let began = Instant::now();
        let patience = PATIENCE.saturating_sub(waited).min(QUIET);
        if let Some(stream) = self.stream.as_mut().filter(|_| bytes < IN_FLIGHT && !patience.is_zero()) {
            match timeout(patience, frame(stream)).await {
                Ok(Some(Ok(event))) => {
                    // Only waiting counts: output that is there is taken, however slow its reader.
                    let (waited, bytes) = (waited + began.elapsed(), bytes + size(&event));
                    self.phase = Phase::Ended { code, at, waited, bytes };
                    return Ok(Some(event));
                }
                Ok(None) => self.stream = None,
                // The engine itself cuts the stream two seconds after the end.
                Ok(Some(Err(_))) if at.elapsed() > Duration::from_secs(1) => self.stream = None,
                Ok(Some(Err(error))) => return Err(error),
                Err(_) => {}
            }
        }
        self.phase = Phase::Told;
        ended
    }

    /// Output of what outlived the program. How its stream ends says nothing about the program.
    async fn left_behind(&mut self) -> Result<Option<Event>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match frame(stream).await {
            Some(Ok(event)) => Ok(Some(event)),
            _ => {
                self.stream = None;
                Ok(None)
            }
        }
    }

    fn ended(&mut self, code: i32) {
        self.phase = Phase::Ended { code, at: Instant::now(), waited: Duration::ZERO, bytes: 0 };
        self.takes_input = None;
    }

    /// Asking costs a connection, so it is done ever more seldom; at once after the stream's end, when an answer is due.
    fn look_later(&mut self) {
        let least = if self.stream.is_none() { 10 } else { 100 };
        let pause = (self.since.elapsed() / 4).clamp(Duration::from_millis(least), Duration::from_secs(1));
        self.look_at = Instant::now() + pause;
    }
}

/// The next piece of output; `None` is the end of the stream.
async fn frame(stream: &mut Frames) -> Option<Result<Event>> {
    loop {
        return match stream.next().await? {
            Ok(LogOutput::StdOut { message } | LogOutput::StdErr { message }) if message.is_empty() => continue,
            Ok(LogOutput::StdOut { message }) => Some(Ok(Event::Stdout(message))),
            Ok(LogOutput::StdErr { message }) => Some(Ok(Event::Stderr(message))),
            Ok(LogOutput::StdIn { .. }) => continue,
            // The client hands out what is left of a frame that was cut as if it came from a terminal.
            Ok(LogOutput::Console { .. }) => Some(Err(cut())),
            Err(wire) => Some(Err(error::fault("reading the command's output", Meaning::EXEC, wire))),
        };
    }
}

fn cut() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the stream of the command's output was cut")
}

fn died() -> Error {
    Error::new(ErrorKind::Gone, "the container ended, and the command with it")
}

fn size(event: &Event) -> usize {
    match event {
        Event::Stdout(bytes) | Event::Stderr(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_before_anything_is_sent() {
        let kind = |exec: &Exec| check_size(exec).map_err(|error| error.kind());
        assert_eq!(kind(&Exec::new(["x".repeat(LONGEST_ARGUMENT - 1)])), Ok(()));
        assert_eq!(kind(&Exec::new(["x".repeat(LONGEST_ARGUMENT)])), Err(ErrorKind::ArgumentTooLarge));
        assert_eq!(kind(&Exec::new(vec!["x".repeat(100_000); 20])), Ok(()));
        assert_eq!(kind(&Exec::new(vec!["x".repeat(100_000); 21])), Err(ErrorKind::ArgumentTooLarge));
        let mut exec = Exec::new(["x"]);
        exec.env = vec![("A".into(), "x".repeat(LONGEST_ARGUMENT - 3))];
        assert_eq!(kind(&exec), Ok(()));
        exec.env = vec![("A".into(), "x".repeat(LONGEST_ARGUMENT - 2))];
        assert_eq!(kind(&exec), Err(ErrorKind::ArgumentTooLarge));
    }
}
