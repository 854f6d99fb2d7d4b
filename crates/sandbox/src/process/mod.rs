//! One running command: a task on the workers pumps its output, a watch on the time thread ends it.

mod pump;
mod queue;
mod state;
mod watch;

use crate::{
    Command, Sandbox,
    capture::Capture,
    engine::Here,
    validate::{self, Place},
};
use bytes::Bytes;
use pump::{Pump, Source};
use sandbox_core::{
    Capability, Error, ErrorKind, Event, Fate, OUTSIDE_TRAILS, Output, PartialOutput, ProcessId, PtySize, Reattach,
    Resize, Result, Signal, Status, Stdin,
};
use state::{End, State};
use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch as channel};
use watch::{Plan, Watch};

/// A running command. Dropping it kills the command.
///
/// The kill reaches the whole tree where `KILL_ONE` and `PROCESS_TREE` are declared; elsewhere the sandbox ends. One that was
/// [reached again](Sandbox::reattach) is only watched, and dropping it leaves the command as it is.
#[must_use = "dropping it kills the command"]
pub struct Process(Here<Inner>);

struct Inner {
    output: queue::Output,
    end: channel::Receiver<End>,
    over: bool,
    input: Option<Input>,
    limit: u64,
    /// Whether it has a terminal, where that is known.
    terminal: Option<bool>,
    state: Arc<State>,
    /// Last: that nobody reads is seen before the sandbox ends.
    sandbox: Sandbox,
}

/// What comes out of a [`Process`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessEvent {
    /// Bytes of its stdout.
    Stdout(Bytes),
    /// Bytes of its stderr.
    Stderr(Bytes),
    /// Its end: exactly one, and the last.
    Exited(Status),
}

impl Process {
    /// Answers once the command runs.
    pub(crate) async fn start(sandbox: Sandbox, command: Command) -> Result<Self> {
        Self::begin(sandbox, command, "start")?.begun("start").await
    }

    /// Answers once the command is reached.
    pub(crate) async fn reattach(sandbox: Sandbox, request: Reattach) -> Result<Self> {
        let request = {
            let lease = sandbox.lease()?;
            validate::reattach(request, &lease.facts).map_err(lease.stamp("reattach"))?
        };
        Self::launch(sandbox, Source::Running(request), false, "reattach")?.begun("reattach").await
    }

    async fn begun(self, operation: &'static str) -> Result<Self> {
        let inner = self.0.get()?;
        let mut end = inner.end.clone();
        let failed = match end.wait_for(|end| !matches!(end, End::Starting | End::Ending)).await.as_deref() {
            Ok(End::Over(Err(error))) if inner.state.begun.get().is_none() => Some(error.clone()),
            _ => None,
        };
        match failed {
            Some(error) => Err(inner.sandbox.lease()?.stamp(operation)(error)),
            None => Ok(self),
        }
    }

    /// Answers at once: whether the command runs is said with its first event.
    pub(crate) fn begin(sandbox: Sandbox, command: Command, operation: &'static str) -> Result<Self> {
        let ours = command.ours;
        let exec = {
            let lease = sandbox.lease()?;
            let facts = &lease.facts;
            let place =
                Place { facts, cwd: &lease.cwd, timeout: lease.command_timeout, longest: sandbox.longest_command() };
            validate::resolve(command, sandbox.overrides(), &place).map_err(lease.stamp(operation))?
        };
        Self::launch(sandbox, Source::Start(exec), ours, operation)
    }

    fn launch(sandbox: Sandbox, source: Source, ours: bool, operation: &'static str) -> Result<Self> {
        let lease = sandbox.lease()?;
        let (s, facts) = (Arc::clone(&lease.spawner), &lease.facts);
        let ticket = lease.life.enter().map_err(lease.stamp(operation))?;
        let inside = facts.has(Capability::Deadline);
        let kill_one = facts.has(Capability::KillOne);
        // It ends by itself once nobody reads or feeds it, and need not take its sandbox along.
        let spared = if ours && !kill_one { s.limits.kill } else { Duration::ZERO };
        let (plan, limit, terminal, piped) = match &source {
            Source::Start(exec) => {
                let plan = Plan {
                    limit: Some(exec.timeout.saturating_add(if inside { OUTSIDE_TRAILS } else { Duration::ZERO })),
                    term: exec.grace.filter(|_| !inside).map(|grace| exec.timeout - grace),
                    kill_one,
                    keeps: !inside,
                    spared,
                };
                (plan, exec.output_limit, Some(exec.pty.is_some()), matches!(exec.stdin, Stdin::Pipe))
            }
            // Whoever started it sees to its deadline.
            Source::Running(request) => {
                let plan = Plan { limit: None, term: None, kill_one, keeps: false, spared };
                (plan, request.output_limit, None, true)
            }
        };
        let (out, output) = queue::queue();
        let (begun, spawned) = oneshot::channel();
        let (exited, lingers) = oneshot::channel();
        let (pieces, fed) = piped.then(|| mpsc::channel(1)).unzip();
        let state = Arc::new(State::default());
        if let Source::Running(_) = source {
            state.stay();
        }
        let end = state.end.subscribe();
        let input = pieces.map(|p| Input(Here::new((p, Arc::clone(&state)))));
        // From here on, to leave is to kill.
        let (state_of, sandbox_of) = (Arc::clone(&state), sandbox.clone());
        let inner = Inner { output, end, over: false, input, limit, terminal, state: state_of, sandbox: sandbox_of };
        let process = Self(Here::new(inner));
        let stops = ticket.watcher();
        let pump = Pump { state: Arc::clone(&state), out: out.clone(), begun, exited, stops: stops.clone() };
        let work = s.workers.run(pump.run(s.workers.clone(), Arc::clone(&lease.instance), source, fed));
        let watch = Watch {
            state: Arc::clone(&state),
            out,
            spawned,
            lingers,
            life: Arc::clone(&lease.life),
            ticket,
            stops,
            s: Arc::clone(&s),
        };
        s.watch("a command", watch.until_the_end(plan, work));
        Ok(process)
    }

    /// What names it for [`Sandbox::reattach`], where the backend has such names. `REATTACH`.
    pub fn id(&self) -> Option<ProcessId> {
        self.0.get().ok()?.state.id.get().cloned()
    }

    /// Leaves it running, with its input open. Its deadline still holds: inside the sandbox where `DEADLINE` is declared, else
    /// by this client for as long as it lives, else it ends with the sandbox, which this does not keep: hold the
    /// [`Sandbox`], or [detach](Sandbox::detach) it too. `REATTACH`.
    ///
    /// # Errors
    ///
    /// `unsupported`, `gone`: the command then ends as by a drop.
    ///
    /// # Cancel safety
    ///
    /// Done when it is first polled; before that it is a drop.
    pub async fn detach(self) -> Result<ProcessId> {
        let this = self.0.get()?;
        let lease = this.sandbox.lease()?;
        let stamp = lease.stamp("detach");
        validate::need(&lease.facts, Capability::Reattach).map_err(&stamp)?;
        lease.life.check().map_err(&stamp)?;
        let nameless = || Error::new(ErrorKind::Internal, "the adapter declares REATTACH and gave the command no id");
        let id = this.state.id.get().cloned().ok_or_else(nameless).map_err(&stamp)?;
        this.state.stay();
        Ok(id)
    }

    /// The next piece of output, then its end, then `None`.
    ///
    /// # Errors
    ///
    /// `execution-timeout`, `gone`, `resource-exhausted`, and the transport kinds: it did not end by itself. The error tells
    /// its fate; output that came before is handed out first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>> {
        let this = self.0.get_mut()?;
        if this.over {
            return Ok(None);
        }
        let event = tokio::select! {
            biased;
            Some(event) = this.output.recv() => Some(event),
            _ = this.end.wait_for(|end| matches!(end, End::Over(_))) => {
                this.output.close();
                // What was sent before the end is still there, whatever `recv` has just said.
                this.output.try_recv()
            }
        };
        match event {
            Some(Event::Stdout(bytes)) => return Ok(Some(ProcessEvent::Stdout(bytes))),
            Some(Event::Stderr(bytes)) => return Ok(Some(ProcessEvent::Stderr(bytes))),
            _ => {}
        }
        this.over = true;
        this.ended().map(|status| Some(ProcessEvent::Exited(status)))
    }

    /// Waits for its end; output that nobody has read is dropped. May be called again, and answers the same. A stdin that
    /// was not [taken](Self::take_input) is closed first: nobody could write to it meanwhile. That of a command which is only
    /// watched stays as it is.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but output that was passed over is gone.
    pub async fn wait(&mut self) -> Result<Status> {
        self.close_own_stdin();
        while self.next().await?.is_some() {}
        self.0.get()?.ended()
    }

    /// Collects the rest of its output, within the command's output limit, and waits for its end. A stdin that was not
    /// [taken](Self::take_input) is closed first.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next); the error holds the output so far.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: what was collected is lost. The process goes on as long as it is held.
    pub async fn output(&mut self) -> Result<Output> {
        let limit = self.0.get()?.limit;
        self.close_own_stdin();
        let (mut stdout, mut stderr) = (Capture::new(limit), Capture::new(limit));
        let status = loop {
            match self.next().await {
                Ok(Some(ProcessEvent::Stdout(bytes))) => stdout.add(bytes),
                Ok(Some(ProcessEvent::Stderr(bytes))) => stderr.add(bytes),
                Ok(Some(ProcessEvent::Exited(status))) => break Ok(status),
                Ok(None) => break self.0.get()?.ended(),
                Err(error) => break Err(error),
            }
        };
        match status {
            Ok(status) => Ok(Output::new(status, stdout.finish(), stderr.finish())),
            Err(error) => {
                let output = PartialOutput::new(stdout.finish(), stderr.finish());
                // A command that never ran has no output, not an empty one.
                Err(if error.fate().is_some() || output != PartialOutput::default() {
                    error.with_output(output)
                } else {
                    error
                })
            }
        }
    }

    /// Writes to its stdin, for a command with [`Command::pipe`], or types on its terminal; see [`Input::write`].
    ///
    /// # Errors
    ///
    /// `wrong-state` without an open stdin; `connection-lost` where the program takes no more.
    pub async fn write(&self, data: impl Into<Bytes>) -> Result<()> {
        match &self.0.get()?.input {
            Some(input) => input.write(data).await,
            None => Err(Error::new(ErrorKind::WrongState, "this command has no open stdin")
                .with_hint("start it with `Command::pipe`, and write before `close_stdin`")),
        }
    }

    /// Closes its stdin, after what was written.
    pub fn close_stdin(&mut self) {
        drop(self.take_input());
    }

    /// Its stdin, for writing while somebody else reads. Dropping it closes stdin.
    pub fn take_input(&mut self) -> Option<Input> {
        self.0.get_mut().ok()?.input.take()
    }

    /// Sends a signal to the program alone. `SIGNALS`, or `TERM` for [`Signal::Terminate`].
    ///
    /// # Errors
    ///
    /// `unsupported`; `wrong-state` when it has ended, and in a paused sandbox; `gone`; the transport kinds.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        let lease = self.0.get()?.sandbox.lease()?;
        let stamp = lease.stamp("signal");
        let needed = if signal == Signal::Terminate { Capability::Term } else { Capability::Signals };
        validate::need(&lease.facts, needed).map_err(&stamp)?;
        lease.life.check().map_err(&stamp)?;
        let control = self.control().map_err(&stamp)?;
        let work = async move { control.get().signal(signal).await };
        lease.spawner.operate("a signal", Some(Arc::clone(&lease.life)), work).await.map_err(&stamp)
    }

    /// Changes the size of its terminal; what runs on it is told by WINCH. `PTY`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `invalid-argument` for a size of zero; `wrong-state` when it has ended, or has no terminal; `gone`; the
    /// transport kinds.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been changed.
    pub async fn resize(&self, size: PtySize) -> Result<()> {
        let this = self.0.get()?;
        let lease = this.sandbox.lease()?;
        let stamp = lease.stamp("resize");
        validate::need(&lease.facts, Capability::Pty).map_err(&stamp)?;
        validate::size(size).map_err(&stamp)?;
        if this.terminal == Some(false) {
            let error = Error::new(ErrorKind::WrongState, "this command has no terminal");
            return Err(stamp(error.with_hint("start it with `Command::pty`")));
        }
        let control = self.control().map_err(&stamp)?;
        let work = async move { control.get().resize(&Resize::new(size)).await };
        lease.spawner.operate("a resize", Some(Arc::clone(&lease.life)), work).await.map_err(&stamp)
    }

    /// Kills it and all its descendants; says whether their death was seen. `KILL_ONE`.
    ///
    /// # Errors
    ///
    /// `unsupported` (dropping the process ends it with its sandbox); `gone`; the transport kinds.
    pub async fn kill(&mut self) -> Result<Fate> {
        let lease = self.0.get()?.sandbox.lease()?;
        let stamp = lease.stamp("kill");
        validate::need(&lease.facts, Capability::KillOne).map_err(&stamp)?;
        let Ok(control) = self.control() else { return Ok(Fate::Dead) };
        let work = async move { control.get().kill().await };
        lease.spawner.operate("a kill", Some(Arc::clone(&lease.life)), work).await.map_err(&stamp)
    }

    /// A command that is only watched may have its input from somebody else.
    fn close_own_stdin(&mut self) {
        if self.0.get().is_ok_and(|this| !this.state.stays()) {
            self.close_stdin();
        }
    }

    fn control(&self) -> Result<state::Handle> {
        let control = self.0.get()?.state.control();
        control.ok_or_else(|| Error::new(ErrorKind::WrongState, "the command has ended"))
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("sandbox", self.0.peek().sandbox.id()).finish_non_exhaustive()
    }
}

impl Inner {
    fn ended(&self) -> Result<Status> {
        let Ok(lease) = self.sandbox.lease() else { return Err(Error::new(ErrorKind::Forked, "forked")) };
        match &*self.end.borrow() {
            End::Over(result) => result.clone().map(|ended| ended.status).map_err(lease.stamp("run")),
            _ => Err(Error::new(ErrorKind::Internal, "the engine ended first")),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An input that the user has taken out closes with whoever holds it.
        if self.input.is_some() && self.state.stays() {
            self.state.input_stays.store(true, SeqCst);
        }
    }
}

/// The open stdin of a command; dropping it closes it, after what was written.
pub struct Input(Here<(mpsc::Sender<Bytes>, Arc<State>)>);

impl Input {
    /// Writes at the program's pace: waits until what came before is on its way.
    ///
    /// # Errors
    ///
    /// `connection-lost` where the program takes no more; its source says why.
    ///
    /// # Cancel safety
    ///
    /// Dropped, none of `data` is sent.
    pub async fn write(&self, data: impl Into<Bytes>) -> Result<()> {
        let (pieces, state) = self.0.get()?;
        pieces.send(data.into()).await.map_err(|_| {
            let error =
                Error::new(ErrorKind::ConnectionLost, "the command takes no more input").with_operation("write");
            match state.input.get() {
                Some(fault) => error.with_source(fault.clone()),
                None => error,
            }
        })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Input(…)")
    }
}
