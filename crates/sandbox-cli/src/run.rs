//! `sandbox run`.

use crate::{
    args, backend,
    exit::{self, Own, Phase},
    job::{self, Outcome},
    plan::{Feed, Plan},
    progress::Progress,
    report::Report,
    signal::{Signals, Stop},
    sink::{self, Sink},
};
use sandbox::{Client, Error, ErrorKind, Registry, Sandbox, SandboxId, Status};
use std::{
    cell::OnceCell,
    io::{self, IsTerminal as _},
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
    let wanted = !args.no_stdin && !io::stdin().is_terminal();
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
    let end = tokio::select! {
        biased;
        stop = signals.next() => End::Stopped(stop),
        outcome = job::work(&client, plan, feed, &made, &mut sink, &progress) => End::Over(outcome),
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
    Over(Outcome),
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
        let backend = self.client.facts().name().to_string();
        let (mut stopped, outcome, unread) = match end {
            End::Stopped(stop) => (Some(stop), None, false),
            End::Unread => (None, None, true),
            End::Over(outcome) => {
                let unread = outcome.unread;
                (None, Some(outcome), unread)
            }
        };
        if self.sink.at_line_start() {
            self.progress.say("removing the sandbox");
        }
        let torn_down = match self.teardown(&mut stopped).await {
            Some(result) => result,
            None => return self.leave(stopped, id.as_ref()),
        };
        self.progress.clear();

        let mut own = None;
        for (phase, error) in outcome.iter().flat_map(|outcome| &outcome.failures) {
            self.report.error(*phase, error);
            own.get_or_insert(exit::code(*phase, error));
        }
        if let Err(error) = torn_down {
            self.report.error(Phase::Teardown, &error);
            own.get_or_insert(Own::Teardown);
        }
        for orphan in self.client.orphans() {
            self.report.warning(orphan.to_string());
            own.get_or_insert(Own::Teardown);
        }
        self.describe(outcome.as_ref(), id.as_ref(), &backend);
        let ended = outcome.as_ref().and_then(|outcome| outcome.status);
        if let Some(stop) = stopped {
            self.report.set("stopped_by", stop.name());
        }
        let code = match (stopped, unread, ended, own) {
            (Some(stop), ..) => stop.own().code(),
            (_, true, ..) => Own::Pipe.code(),
            (_, _, Some(status), own) => match (u8::try_from(status.as_code()).unwrap_or(u8::MAX), own) {
                (0, Some(own)) => own.code(),
                (code, _) => code,
            },
            (_, _, None, own) => own.unwrap_or(Own::Internal).code(),
        };
        let status = match (stopped, unread, ended, own) {
            (Some(_), ..) => "interrupted",
            (_, true, ..) => "unread",
            (_, _, Some(Status::Signal(_)), _) => "signalled",
            (_, _, Some(_), _) => "exited",
            (_, _, None, Some(Own::Timeout)) => "timed-out",
            _ => "failed",
        };
        if unread {
            return code;
        }
        let last = std::mem::replace(&mut self.report, Report::new(false)).last(status, code);
        let Self { sink, signals, .. } = &mut self;
        let words = async {
            if sink.finish().await.is_ok() {
                if let Some(last) = last {
                    _ = sink.line(last).await;
                }
            }
        };
        // Whoever reads us may have stopped; then nobody shall wait for long, and a signal ends the wait at once.
        let patience = if stopped.is_some() { PATIENCE } else { Duration::MAX };
        tokio::select! {
            () = words => {}
            _ = signals.next() => {}
            () = tokio::time::sleep(patience) => {}
        }
        code
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

    fn describe(&mut self, outcome: Option<&Outcome>, id: Option<&SandboxId>, backend: &str) {
        let report = &mut self.report;
        report.set("sandbox", id.map(SandboxId::as_str));
        report.set("backend", backend);
        report.set("duration_ms", u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let Some(outcome) = outcome else { return };
        match outcome.status {
            Some(Status::Code(code)) => report.set("code", code),
            Some(Status::Signal(signal)) => report.set("signal", signal),
            _ => {}
        }
        if !outcome.skipped.is_empty() {
            report.warning(format!("not copied, since they are no files: {}", outcome.skipped.join(", ")));
        }
        for (name, bound) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
            report.set(name, serde_json::json!({ "bytes": bound.seen(), "dropped": bound.dropped() }));
            if bound.dropped() > 0 {
                report.warning(format!("{} bytes of {name} were dropped, past --output-limit", bound.dropped()));
            }
        }
    }
}

/// How long the last words may take once we were asked to end.
const PATIENCE: Duration = Duration::from_secs(2);
