//! On the workers: starts the command and moves its output, at the reader's pace.

use super::{
    queue::Outlet,
    state::{End, Handle, State, by_kill},
};
use crate::{
    engine::{Held, Workers, guard},
    erase::DynInstance,
    life::Stops,
};
use bytes::Bytes;
use sandbox_core::{Error, ErrorKind, Event, Exec, Reattach, Result};
use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

/// Where a command comes from.
pub(super) enum Source {
    Start(Exec),
    Running(Reattach),
}

pub(super) struct Pump {
    pub(super) state: Arc<State>,
    pub(super) out: Outlet,
    /// Whether it may run.
    pub(super) begun: oneshot::Sender<bool>,
    pub(super) exited: oneshot::Sender<()>,
    pub(super) stops: Stops,
}

impl Pump {
    pub(super) async fn run(
        self,
        workers: Workers,
        instance: Arc<Held<Box<dyn DynInstance>>>,
        source: Source,
        pieces: Option<mpsc::Receiver<Bytes>>,
    ) -> Result<()> {
        // A terminal has no end: that nobody types any more is no news to it.
        let closes = !matches!(&source, Source::Start(Exec { pty: Some(_), .. }));
        let spawned = match &source {
            Source::Start(exec) => guard(instance.get().spawn(exec)).await,
            Source::Running(request) => guard(instance.get().reattach(request)).await,
        };
        let (control, mut events) = match spawned.map(|(c, e)| (Arc::new(workers.hold(c)), workers.hold(e))) {
            Ok(both) => both,
            Err(error) => {
                let _ = self.begun.send(error.may_have_applied());
                return Err(error);
            }
        };
        if let Some(id) = control.get().id() {
            let _ = self.state.id.set(id);
        }
        self.state.set_control(Some(Arc::clone(&control)));
        if let End::Starting = self.state.advance(|end| matches!(end, End::Starting).then_some(End::Running)) {
            let _ = self.state.begun.set(());
        }
        let _ = self.begun.send(true);
        let lost = || Error::new(ErrorKind::ConnectionLost, "the output ended and the command did not");
        let output = async {
            loop {
                // An adapter that always has something more must not keep others from this thread.
                consume_budget().await;
                match guard(events.get_mut().next()).await?.ok_or_else(lost)? {
                    Event::Ended(ended) => break Ok(ended),
                    Event::NotStarted(error) => break Err(error.applied(false)),
                    output => forward(&self.out, output).await,
                }
            }
        };
        let ended = match pieces {
            None => output.await?,
            Some(pieces) => {
                tokio::select! { ended = output => ended?, never = feed(pieces, &control, closes, &self.state) => match never {} }
            }
        };
        if !matches!(self.state.advance(|end| matches!(end, End::Running).then_some(End::Exited(ended))), End::Running)
        {
            return Ok(()); // Not the program's own end.
        }
        let _ = self.exited.send(());
        let most = Instant::now() + LINGER;
        while Instant::now() < most {
            consume_budget().await;
            match timeout_at(most.min(Instant::now() + QUIET), guard(events.get_mut().next())).await {
                Ok(Ok(Some(output))) => drop(timeout_at(most, forward(&self.out, output)).await),
                _ => break, // Quiet, closed, or broken: the end is known.
            }
        }
        let last = self.state.set_control(None);
        drop((last, control, events)); // Here, where they belong.
        if !by_kill(&ended) && !self.stops.begun() {
            self.state.over_by_itself(ended); // Straight to the reader; the watch hears of it a moment later.
        }
        Ok(())
    }
}

async fn forward(out: &Outlet, event: Event) {
    let (stream, mut bytes): (fn(Bytes) -> Event, _) = match event {
        Event::Stdout(bytes) => (Event::Stdout, bytes),
        Event::Stderr(bytes) => (Event::Stderr, bytes),
        _ => return, // Only the first end counts.
    };
    while !bytes.is_empty() {
        out.send(stream(bytes.split_to(bytes.len().min(PIECE)))).await;
    }
}

/// Never resolves: output alone ends a command.
async fn feed(mut pieces: mpsc::Receiver<Bytes>, control: &Handle, closes: bool, state: &State) -> Infallible {
    let fed = async {
        while let Some(mut data) = pieces.recv().await {
            while !data.is_empty() {
                guard(control.get().write(data.split_to(data.len().min(PIECE)))).await?;
            }
        }
        if closes && !state.input_stays.load(SeqCst) { guard(control.get().close_stdin()).await } else { Ok(()) }
    };
    let _ = fed.await.map_err(|error| state.input.set(error));
    drop(pieces);
    pending().await
}

/// After the program's end its output may go on: so long without any, and so long in all.
pub(super) const QUIET: Duration = Duration::from_millis(250);
pub(super) const LINGER: Duration = Duration::from_secs(2);
const PIECE: usize = 1 << 20;
