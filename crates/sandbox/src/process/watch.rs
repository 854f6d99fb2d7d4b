//! On the time thread: beside the work, so that no adapter can hold up a deadline.

use super::{
    pump::{LINGER, QUIET},
    queue::Outlet,
    state::{End, State, by_kill},
};
use crate::{
    engine::{Spawner, Task, done},
    life::{Life, Stops, Ticket},
};
use sandbox_core::{Error, ErrorKind, Fate, Signal};
use std::{future::pending, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

/// When a command is to end, and how.
pub(super) struct Plan {
    /// From outside; `None` where somebody else sees to it.
    pub(super) limit: Option<Duration>,
    /// When TERM is sent from outside.
    pub(super) term: Option<Duration>,
    pub(super) kill_one: bool,
    /// The limit is kept here also for a command that was left to itself.
    pub(super) keeps: bool,
    /// How long it may go on after its handle was dropped.
    pub(super) spared: Duration,
}

pub(super) struct Watch {
    pub(super) s: Arc<Spawner>,
    pub(super) life: Arc<Life>,
    pub(super) ticket: Ticket,
    pub(super) stops: Stops,
    pub(super) state: Arc<State>,
    pub(super) out: Outlet,
    pub(super) spawned: oneshot::Receiver<bool>,
    pub(super) lingers: oneshot::Receiver<()>,
}

impl Watch {
    pub(super) async fn until_the_end(mut self, plan: Plan, mut work: Task<()>) {
        // Whether it may run is what its error says.
        let must_end = |error: Error| Why::Ended(error.applied(true));
        let lingered = async {
            match (&mut self.lingers).await {
                Ok(()) => sleep(LINGER + QUIET).await, // The pump is done by then, unless it computes.
                Err(_) => pending().await,
            }
        };
        let mut stop = tokio::select! {
            biased;
            told = &mut work => match done(told) {
                Ok(()) => Why::Over,
                Err(error) if self.state.stays() => Why::Lost(error),
                Err(error) => Why::Ended(error),
            },
            reason = self.life.ending() => match self.state.stays() && !self.life.is_to_be_destroyed() {
                true => Why::Lost(reason),
                false => must_end(reason),
            },
            reason = self.stops.done() => must_end(reason),
            error = deadline(&self.s, &self.state, &self.life, plan.limit) => must_end(error),
            () = ask_to_end(&self.s, &self.state, plan.term) => Why::Over,
            () = dropped(&self.out, &self.state, &plan) => match self.state.stays() {
                true => Why::Lost(Error::new(ErrorKind::Gone, "nobody watches the command any more")),
                false => must_end(Error::new(ErrorKind::Gone, "its `Process` was dropped while it ran")),
            },
            () = lingered => Why::Over,
        };
        let before = self.state.advance(|end| matches!(end, End::Starting | End::Running).then_some(End::Ending));
        if let End::Exited(ended) = before {
            if let Some(reason) = self.stops.outcome().await {
                return self.state.over(Err(reason.with_fate(Fate::Dead)));
            }
            let dead = if by_kill(&ended) { timeout(AFTER_KILL, self.life.ending()).await.ok() } else { None };
            match dead {
                Some(reason) => stop = must_end(reason),
                None => return self.state.over_by_itself(ended),
            }
        }
        let error = match stop {
            _ if matches!(before, End::Over(_)) => return,
            Why::Over => return,
            Why::Ended(error) => error,
            // It may run on, and is left to.
            Why::Lost(error) if self.state.begun.get().is_none() => return self.state.over(Err(error)),
            Why::Lost(error) => return self.state.over(Err(error.with_fate(Fate::Unknown))),
        };
        let (state, tell) = (Arc::clone(&self.state), self.s.limits.tell);
        let mut ending = pin!(self.end(plan.kill_one, matches!(before, End::Starting), error.clone()));
        let end = match timeout(tell, &mut ending).await {
            Ok(end) => end,
            Err(_) => {
                state.over(Err(error.clone().with_fate(Fate::Unknown)));
                ending.await
            }
        };
        drop(work);
        drop(state.set_control(None)); // Input that outlives the command does not hold it.
        state.over(Err(match end {
            Ending::NeverRan => error,
            Ending::Stopped(_) if error.kind() == ErrorKind::ExecutionTimeout => error.with_fate(Fate::Dead),
            Ending::Stopped(reason) => reason.with_source(error).with_fate(Fate::Dead),
            Ending::Alone(fate) => error.with_fate(fate),
            Ending::WithSandbox(fate) if error.kind() == ErrorKind::ExecutionTimeout => {
                error.with_fate(fate).with_hint(TAKEN_ALONG)
            }
            Ending::WithSandbox(fate) => error.with_fate(fate),
        }));
    }

    /// Bounded; what cannot be killed by itself goes down with its sandbox.
    async fn end(self, kill_one: bool, starting: bool, error: Error) -> Ending {
        // Where the sandbox goes down with it, to know more would only spare a sandbox while a command may run.
        let late = if kill_one { self.s.limits.late } else { self.s.limits.kill };
        let may_run = match starting {
            // The adapter has time to say whether it runs, as long as there is a sandbox.
            true => tokio::select! {
                said = self.spawned => said.unwrap_or(true),
                _ = self.life.ended() => true,
                () = sleep(late) => true,
            },
            false => error.may_have_applied(),
        };
        if !may_run {
            return Ending::NeverRan;
        }
        if let Some(reason) = self.stops.outcome().await {
            return Ending::Stopped(reason);
        }
        let alone = kill_one && (self.out.is_closed() || !self.life.is_ending());
        if let Some(control) = self.state.control().filter(|_| alone) {
            let kill = Box::pin(async move { control.get().kill().await });
            if let Ok(Fate::Dead) = self.s.workers.bounded(self.s.limits.kill, kill).await {
                return Ending::Alone(Fate::Dead);
            }
        }
        let message = format!("a command could only be ended with its sandbox: {}", error.message());
        // A sandbox that was left has no commands.
        let _ = self.life.end(Error::new(ErrorKind::Gone, message).with_source(error));
        drop(self.ticket);
        Ending::WithSandbox(self.life.ended().await.map_or(Fate::Unknown, |()| Fate::Dead))
    }
}

/// Why a command is watched no longer.
enum Why {
    /// It has ended, or is about to by itself.
    Over,
    /// It has to end.
    Ended(Error),
    /// It is only watched, and that is over.
    Lost(Error),
}

/// What an end that was not the program's own came to.
enum Ending {
    NeverRan,
    Stopped(Error),
    Alone(Fate),
    WithSandbox(Fate),
}

/// Resolves with the error of a command that is not over in time. A clock of the backend's own may run ahead of a start that
/// is on its way, so it is given a moment of real time first. In a frozen sandbox nothing can be seen to die: what is late by
/// then ends when it goes on, or with the sandbox.
async fn deadline(s: &Arc<Spawner>, state: &State, life: &Life, limit: Option<Duration>) -> Error {
    let Some(limit) = limit else { return pending().await };
    if s.has_clock() {
        let mut end = state.end.subscribe();
        let _ = timeout(limit.min(START), end.wait_for(|end| !matches!(end, End::Starting))).await;
    }
    let late = s.deadline(limit).await;
    life.running().await;
    late
}

/// Resolves when nobody holds the command any more, and nothing is to be kept for it.
async fn dropped(out: &Outlet, state: &State, plan: &Plan) {
    out.closed().await;
    if state.stays() && plan.keeps {
        pending().await
    }
    if !plan.spared.is_zero() {
        sleep(plan.spared).await;
    }
}

/// Never resolves: the program's own end is what is hoped for.
async fn ask_to_end(s: &Arc<Spawner>, state: &State, after: Option<Duration>) {
    if let Some(after) = after {
        if s.pass(after).await.is_ok() {
            if let Some(control) = state.control() {
                let term = Box::pin(async move { control.get().signal(Signal::Terminate).await });
                let _ = s.workers.bounded(s.limits.kill, term).await;
            }
        }
    }
    pending().await
}

const TAKEN_ALONG: &str = "the sandbox was ended with the command, because one command cannot be ended alone here (KILL_ONE): \
                           make another sandbox, or give the command a longer `timeout`";
/// How long a start may take before a clock that may run ahead of it counts.
const START: Duration = Duration::from_secs(5);
/// A death by KILL is often the first sign of the sandbox's own.
const AFTER_KILL: Duration = Duration::from_secs(1);
