//! `sandbox run`.

use crate::{
    args, backend,
    bound::Bound,
    exit::{self, Own, Phase},
    job::{self, Outcome},
    plan::{Feed, Plan},
    progress::Progress,
    report::Report,
    signal::{Signals, Stop},
    sink::{self, Sink},
};
use sandbox::{Client, Error, ErrorKind, Registry, Sandbox, SandboxId, Status};
use serde::Serialize;
use std::{
    cell::OnceCell,
    time::{Duration, Instant},
};

/// Runs a program in a sandbox of its own, and gives the code to end with.
pub(crate) async fn run(registry: &Registry, args: args::Run, json: bool) -> u8 {
    let report = Report::new(json);
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            let error =
                Error::new(ErrorKind::Internal, format!("signals cannot be taken over: {error}")).with_source(error);
            return report.failed(Phase::Usage, &error);
        }
    };
    let wanted = args.stdin;
    let client = match backend::open(registry, &args.backend) {
        Ok(client) => client,
        Err(error) => return report.failed(Phase::Open, &error),
    };
    let plan = match Plan::of(args) {
        Ok(plan) => plan,
        Err(error) => return report.failed(Phase::Usage, &error),
    };
    let feed = match Feed::of(wanted, client.facts()) {
        Ok(feed) => feed,
        Err(error) => return report.failed(Phase::Create, &error),
    };

    let (begun, progress, mut sink, made) = (Instant::now(), Progress::new(), Sink::new(json), OnceCell::new());
    let work = job::work(&client, plan, feed, &made, &mut sink, &progress);
    let end = tokio::select! {
        biased;
        stop = signals.next() => End::Stopped(stop),
        outcome = Box::pin(work) => End::Over(Box::new(outcome)),
        () = sink::closed() => End::Unread,
    };
    progress.clear();
    let run = Run { report, signals, progress, sink, client, sandbox: made.into_inner(), begun };
    run.finish(end).await
}

/// Why the work is over.
enum End {
    Stopped(Stop),
    Unread,
    Over(Box<Outcome>),
}

/// Where the work left things.
struct Run {
    report: Report,
    signals: Signals,
    progress: Progress,
    sink: Sink,
    client: Client,
    sandbox: Option<Sandbox>,
    begun: Instant,
}

impl Run {
    async fn finish(mut self, end: End) -> u8 {
        let id = self.sandbox.as_ref().map(|sandbox| sandbox.id().clone());
        let mut stopped = if let End::Stopped(stop) = end { Some(stop) } else { None };
        if self.sink.at_line_start() {
            self.progress.say("removing the sandbox");
        }
        let Some(torn_down) = self.teardown(&mut stopped).await else { return self.leave(stopped, id.as_ref()) };
        self.progress.clear();

        let (outcome, unread) = match end {
            End::Over(outcome) => {
                let unread = outcome.unread;
                (Some(outcome), unread)
            }
            End::Unread => (None, true),
            End::Stopped(_) => (None, false),
        };
        let mut own = None;
        for (phase, error) in outcome.iter().flat_map(|outcome| &outcome.failures) {
            self.report.error(*phase, error);
            own = own.or_else(|| Some(exit::code(*phase, error)));
        }
        if let Err(error) = torn_down {
            self.report.error(Phase::Teardown, &error);
            own = own.or(Some(Own::Teardown));
        }
        for orphan in self.client.orphans() {
            self.report.warning(orphan.to_string());
            own = own.or(Some(Own::Teardown));
        }
        self.describe(outcome.as_deref(), stopped, id.as_ref());
        let program = outcome.as_ref().and_then(|outcome| outcome.status);
        let (status, code) = verdict(stopped, unread, program, own);
        if !unread {
            self.last_words(status, code, stopped).await;
        }
        code
    }

    /// Says how it ended. Whoever reads us may have stopped: then nobody shall wait for long, and a signal ends the wait.
    async fn last_words(mut self, status: &str, code: u8, stopped: Option<Stop>) {
        let last = self.report.last(status, code);
        let words = async {
            self.sink.finish().await?;
            match last {
                Some(last) => self.sink.line(last).await,
                None => Ok(()),
            }
        };
        let patience = if stopped.is_some() { PATIENCE } else { Duration::MAX };
        tokio::select! {
            _ = words => {} // A reader that is gone needs no words.
            _ = self.signals.next() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    /// Removes the sandbox and waits for it. The first signal is a wish that we are already at; `None` is the second.
    async fn teardown(&mut self, stopped: &mut Option<Stop>) -> Option<sandbox::Result<()>> {
        let Self { client, sandbox, signals, .. } = self;
        let close = async {
            let sandbox = match sandbox {
                Some(sandbox) => sandbox.close().await,
                None => Ok(()),
            };
            sandbox.and(client.close().await)
        };
        let mut close = std::pin::pin!(close);
        loop {
            tokio::select! {
                biased;
                result = &mut close => return Some(result),
                stop = signals.next() => {
                    if stopped.replace(stop).is_some() {
                        return None;
                    }
                }
            }
        }
    }

    /// Ends at once. The handles are given up unseen: to drop them would be to wait for them.
    fn leave(mut self, stopped: Option<Stop>, id: Option<&SandboxId>) -> u8 {
        self.progress.clear();
        self.report.warning(match id {
            Some(id) => format!("sandbox {id} may be left until its lifetime ends; `sandbox kill {id}` removes it"),
            None => {
                "a sandbox that was being created may be left until its lifetime ends; `sandbox ls` shows it".into()
            }
        });
        std::mem::forget((self.client, self.sandbox));
        stopped.map_or(Own::Internal, Stop::own).code()
    }

    fn describe(&mut self, outcome: Option<&Outcome>, stopped: Option<Stop>, id: Option<&SandboxId>) {
        let Self { report, client, begun, .. } = self;
        let ended = Ended::of(outcome, stopped, id, client.facts().name(), begun.elapsed());
        report.add(&ended);
        for (name, stream) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            if let Some(Counted { dropped: dropped @ 1.., .. }) = stream {
                report.warning(format!("{dropped} bytes of {name} were dropped, past --output-limit"));
            }
        }
        let Some(outcome) = outcome else { return };
        if !outcome.skipped.is_empty() {
            report.warning(format!("not copied, since they are no files: {}", outcome.skipped.join(", ")));
        }
    }
}

/// The fields of the last document. People get the program's own output, and warnings.
#[derive(Debug, Serialize)]
struct Ended<'a> {
    sandbox: Option<&'a str>,
    backend: &'a str,
    stopped_by: Option<&'static str>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<Counted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<Counted>,
}

/// How much of a stream came, and how much of it was not passed on.
#[derive(Debug, Serialize)]
struct Counted {
    bytes: u64,
    dropped: u64,
}

impl<'a> Ended<'a> {
    fn of(
        outcome: Option<&Outcome>,
        stopped: Option<Stop>,
        id: Option<&'a SandboxId>,
        backend: &'a str,
        took: Duration,
    ) -> Self {
        let counted = |bound: &Bound| Counted { bytes: bound.seen(), dropped: bound.dropped() };
        let (code, signal) = match outcome.and_then(|outcome| outcome.status) {
            Some(Status::Code(code)) => (Some(code), None),
            Some(Status::Signal(signal)) => (None, Some(signal)),
            _ => (None, None),
        };
        Self {
            sandbox: id.map(SandboxId::as_str),
            backend,
            stopped_by: stopped.map(Stop::name),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            code,
            signal,
            stdout: outcome.map(|outcome| counted(&outcome.stdout)),
            stderr: outcome.map(|outcome| counted(&outcome.stderr)),
        }
    }
}

/// What became of the program, in a word, and the code to end with. A program that failed says more than what failed after it.
fn verdict(stopped: Option<Stop>, unread: bool, program: Option<Status>, own: Option<Own>) -> (&'static str, u8) {
    if let Some(stop) = stopped {
        return ("interrupted", stop.own().code());
    }
    if unread {
        return ("unread", Own::Pipe.code());
    }
    let Some(ended) = program else {
        let status = if own == Some(Own::Timeout) { "timed-out" } else { "failed" };
        return (status, own.unwrap_or(Own::Internal).code());
    };
    let status = if matches!(ended, Status::Signal(_)) { "signalled" } else { "exited" };
    match (u8::try_from(ended.as_code()).unwrap_or(u8::MAX), own) {
        (0, Some(own)) => (status, own.code()),
        (code, _) => (status, code),
    }
}

/// How long the last words may take once we were asked to end.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_before_what_failed_after_it() {
        let code = |code| Some(Status::Code(code));
        assert_eq!(verdict(None, false, code(0), None), ("exited", 0));
        assert_eq!(verdict(None, false, code(3), Some(Own::Files)), ("exited", 3));
        assert_eq!(verdict(None, false, code(0), Some(Own::Files)), ("exited", 248));
        assert_eq!(verdict(None, false, Some(Status::Signal(9)), None), ("signalled", 137));
        assert_eq!(verdict(None, false, code(4096), None), ("exited", 255));
        assert_eq!(verdict(None, false, None, Some(Own::Timeout)), ("timed-out", 245));
        assert_eq!(verdict(None, false, None, None), ("failed", 250));
        assert_eq!(verdict(None, true, None, None), ("unread", 141));
        assert_eq!(verdict(Some(Stop::Interrupt), false, code(0), None), ("interrupted", 130));
    }
}
