//! Lies about commands that run.

use super::{Fault, Lies};
use crate::{FakeControl, FakeEvents, config::number, reattach, world::lock};
use bytes::Bytes;
use sandbox_core::{
    Cause, Control, Ended, Error, ErrorKind, Event, Events, Exec, Fate, ProcessId, Resize, Result, SandboxId, Signal,
    Status, Stdin,
};
use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    task::Poll,
};

/// The handle on a command of a [`Liar`](super::Liar).
pub struct LyingControl {
    inner: FakeControl,
    lies: Arc<Lies>,
    id: SandboxId,
    kept: Mutex<Vec<Bytes>>,
    /// Of somebody who reached it later.
    again: bool,
}

impl LyingControl {
    pub(super) fn new(inner: FakeControl, lies: &Arc<Lies>, id: &SandboxId, again: bool) -> Self {
        Self { inner, lies: Arc::clone(lies), id: id.clone(), kept: Mutex::default(), again }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Control for LyingControl {
    fn id(&self) -> Option<ProcessId> {
        self.inner.id()
    }

    async fn resize(&self, request: &Resize) -> Result<()> {
        if self.lies.is(Fault::ResizeDoesNothing) {
            return Ok(());
        }
        self.inner.resize(request).await
    }

    async fn kill(&self) -> Result<Fate> {
        match self.lies.fault {
            Fault::KillDoesNothing => return Ok(Fate::Dead),
            Fault::KillEndsTheSandbox => self.lies.end(&self.id),
            _ => {}
        }
        self.inner.kill().await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        match (self.lies.fault, signal) {
            (Fault::TermIsKill, Signal::Terminate) => self.inner.signal(Signal::Kill).await,
            (Fault::StopIsIgnored, Signal::Stop) => Ok(()),
            (Fault::SignalsAreSwallowed, other)
                if !matches!(other, Signal::Kill | Signal::Terminate | Signal::Stop | Signal::Continue) =>
            {
                Ok(())
            }
            (Fault::SignalsReachTheTree, _) => self.inner.kill().await.map(drop),
            _ => self.inner.signal(signal).await,
        }
    }

    async fn write(&self, data: Bytes) -> Result<()> {
        match self.lies.fault {
            Fault::InputWaitsForItsEnd => {
                lock(&self.kept).push(data);
                Ok(())
            }
            Fault::CtrlCIsLost if data.contains(&0x03) => {
                let rest: Bytes = data.into_iter().filter(|byte| *byte != 0x03).collect();
                self.inner.write(rest).await
            }
            Fault::WritesNeverWait => {
                let mut write = pin!(self.inner.write(data));
                poll_fn(|cx| match write.as_mut().poll(cx) {
                    Poll::Pending => Poll::Ready(Ok(())),
                    done => done,
                })
                .await
            }
            _ => self.inner.write(data).await,
        }
    }

    async fn close_stdin(&self) -> Result<()> {
        if self.lies.is(Fault::EndOfInputIsForgotten) {
            return Ok(());
        }
        let kept = std::mem::take(&mut *lock(&self.kept));
        for data in kept {
            self.inner.write(data).await?;
        }
        self.inner.close_stdin().await
    }
}

impl Drop for LyingControl {
    fn drop(&mut self) {
        let ends = match self.lies.fault {
            Fault::DetachedCommandsEnd => !self.again,
            Fault::WatchersEndTheirCommand => self.again,
            _ => false,
        };
        let Some(room) = number(&self.id).filter(|_| ends) else { return };
        let Some(command) = self.inner.id().as_ref().and_then(reattach::number) else { return };
        self.lies.fake.kernel().with(|state, after| state.kill_command(room, command, Cause::Killed, after));
    }
}

/// What comes out of a command of a [`Liar`](super::Liar).
pub struct LyingEvents {
    inner: FakeEvents,
    lies: Arc<Lies>,
    id: SandboxId,
    /// To be told, before anything else comes.
    ready: VecDeque<Event>,
    /// Held back.
    held: VecDeque<Event>,
    bytes: [u64; 2],
    pieces: usize,
    most: u64,
    input: usize,
    over: bool,
    number: usize,
    /// Of somebody who reached it later.
    again: bool,
}

impl LyingEvents {
    pub(super) fn new(inner: FakeEvents, lies: &Arc<Lies>, id: &SandboxId, exec: &Exec, again: bool) -> Self {
        lies.live.fetch_add(1, SeqCst);
        let input = if let Stdin::Whole(all) = &exec.stdin { all.len() } else { 0 };
        let most = if lies.is(Fault::OutputStopsAtAMebibyte) { 1 << 20 } else { u64::MAX };
        let (ready, held) = (VecDeque::new(), VecDeque::new());
        Self {
            inner,
            lies: Arc::clone(lies),
            id: id.clone(),
            ready,
            held,
            bytes: [0; 2],
            pieces: 0,
            most,
            input,
            over: false,
            number: lies.next(),
            again,
        }
    }

    /// What is told in place of a piece of output; nothing may be told.
    fn output(&mut self, event: Event) -> Result<()> {
        let (mut piece, mut error) = match event {
            Event::Stdout(piece) => (piece, false),
            Event::Stderr(piece) => (piece, true),
            other => {
                self.ready.push_back(other);
                return Ok(());
            }
        };
        let seen = &mut self.bytes[usize::from(error)];
        let room = usize::try_from(self.most - *seen).unwrap_or(usize::MAX).min(piece.len());
        piece.truncate(room);
        *seen += room as u64;
        self.pieces += usize::from(!error);
        match self.lies.fault {
            Fault::OutputIsTrimmed => piece = Bytes::copy_from_slice(piece.trim_ascii()),
            Fault::OutputIsText => piece = String::from_utf8_lossy(&piece).into_owned().into(),
            Fault::StderrIsLost if error => piece.clear(),
            Fault::LaterWatchersSeeNothing if self.again => piece.clear(),
            Fault::StderrComesAsStdout => error = false,
            Fault::LosesAPiece if !error && self.pieces == 2 => piece.clear(),
            Fault::EverySecondCommandIsSilent if !error && self.number % 2 == 1 => piece.clear(),
            Fault::OutputIsTakenForAnError if String::from_utf8_lossy(&piece).contains("OCI runtime") => {
                return Err(Error::new(ErrorKind::StartFailed, "the engine could not start it"));
            }
            Fault::OutputsAreMixed if self.lies.live.load(SeqCst) > 1 => {
                let other = lock(&self.lies.said).replace(piece.clone());
                piece = other.unwrap_or(piece);
            }
            _ => {}
        }
        let event = if error { Event::Stderr(piece) } else { Event::Stdout(piece) };
        match self.lies.fault {
            Fault::OutputIsHeldBack | Fault::EndComesFirst => self.held.push_back(event),
            Fault::PiecesChangePlaces if self.pieces == 1 => self.held.push_back(event),
            Fault::PiecesChangePlaces => {
                self.ready.push_back(event);
                self.ready.append(&mut self.held);
            }
            _ => self.ready.push_back(event),
        }
        Ok(())
    }

    /// What is told in place of the end.
    fn end(&mut self, mut ended: Ended) -> Result<()> {
        match (self.lies.fault, ended.status, ended.cause) {
            (Fault::NonZeroIsOne, Status::Code(code), _) if code != 0 => ended.status = Status::Code(1),
            (Fault::AnyEndIsZero, Status::Code(_), _) | (Fault::SignalIsSuccess, Status::Signal(_), Cause::Program) => {
                ended.status = Status::Code(0);
            }
            (Fault::EndedCommandsEndedWell, _, _) if self.again => ended = Ended::program(Status::Code(0)),
            (Fault::SignalsAreCodes, Status::Signal(_), _) => ended.status = Status::Code(ended.status.as_code()),
            (Fault::OomIsAKill, _, Cause::OutOfMemory) | (Fault::DeadlineIsASignal, _, Cause::Deadline) => {
                ended.cause = Cause::Program;
            }
            (Fault::OomIsSuccess, _, Cause::OutOfMemory) => ended = Ended::program(Status::Code(0)),
            (Fault::DeadlineEndsTheSandbox, _, Cause::Deadline) => self.lies.end(&self.id),
            (Fault::OutputIsHeldBack, _, cause) if cause != Cause::Program => self.held.clear(),
            (Fault::UnreadInputIsAnError, _, _) if self.input > 1 << 20 => {
                return Err(Error::new(ErrorKind::ConnectionLost, "the program took not all of its input"));
            }
            (Fault::EndOfOneEndsAll, _, _) => self.end_all(),
            _ => {}
        }
        let ended = Event::Ended(ended);
        match self.lies.fault {
            Fault::EndComesFirst => {
                self.ready.push_back(ended);
                self.ready.append(&mut self.held);
            }
            Fault::EndWaitsForTheStreams => self.held.push_back(ended),
            _ => {
                self.ready.append(&mut self.held);
                self.ready.push_back(ended);
            }
        }
        Ok(())
    }

    /// Ends every command of the sandbox.
    fn end_all(&self) {
        let Some(room) = number(&self.id) else { return };
        self.lies.fake.kernel().with(|state, after| {
            let commands: Vec<u64> =
                state.rooms.get(&room).into_iter().flat_map(|room| room.commands.keys().copied()).collect();
            commands.into_iter().for_each(|command| state.kill_command(room, command, Cause::Killed, after));
        });
    }
}

impl Events for LyingEvents {
    async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.over {
                return Ok(None);
            }
            match self.inner.next().await {
                Ok(Some(Event::Ended(ended))) => self.end(ended)?,
                Ok(Some(event)) => self.output(event)?,
                Ok(None) => {
                    self.over = true;
                    self.ready.append(&mut self.held);
                }
                Err(error) if self.lies.is(Fault::DeathIsAnExit) && error.kind() == ErrorKind::Gone => {
                    self.over = true;
                    return Ok(Some(Event::Ended(Ended::program(Status::Code(137)))));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for LyingEvents {
    fn drop(&mut self) {
        self.lies.live.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for LyingControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LyingControl").field("fault", &self.lies.fault).finish_non_exhaustive()
    }
}

impl fmt::Debug for LyingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LyingEvents").field("fault", &self.lies.fault).finish_non_exhaustive()
    }
}
