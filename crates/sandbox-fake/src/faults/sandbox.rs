//! Lies about commands, before they start.

use super::{Fault, Labels, Lies, LyingControl, LyingEvents};
use crate::{FakeControl, FakeEvents, FakeSandbox, world::lock};
use sandbox_core::{
    Backend, Control, Error, ErrorKind, Exec, Instance, PtySize, Reattach, Result, SandboxId, Stdin, Tasks,
};
use std::{
    fmt,
    future::pending,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

/// A sandbox of a [`Liar`](super::Liar).
pub struct LyingSandbox {
    pub(super) inner: FakeSandbox,
    pub(super) lies: Arc<Lies>,
    pub(super) id: SandboxId,
    /// Of the spec.
    pub(super) env: Labels,
    pub(super) lifetime: Duration,
    pub(super) tasks: Tasks,
    /// Somebody else has made it.
    pub(super) attached: bool,
}

const MEBIBYTE: usize = 1 << 20;

impl LyingSandbox {
    pub(super) async fn run(&self, exec: &Exec) -> Result<(LyingControl, LyingEvents)> {
        let lies = &self.lies;
        let exec = self.changed(exec);
        while lies.is(Fault::CommandsTakeTurns) && lies.live.load(SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if lies.is(Fault::CommandsRunTwice) {
            _ = self.inner.spawn(&exec).await?;
        }
        let (control, events) = match self.inner.spawn(&exec).await {
            Err(error) => self.excuse(exec.clone(), error).await?,
            spawned => spawned?,
        };
        if lies.is(Fault::DeadlineOutlivesItsCommand) {
            if let Some(clock) = lies.fake.clock() {
                let (lies, id, sleep) = (Arc::clone(lies), self.id.clone(), clock.sleep(exec.timeout));
                self.tasks.spawn(async move {
                    sleep.await;
                    lies.end(&id);
                });
            }
        }
        *lock(&lies.last) = control.id();
        let control = LyingControl::new(control, lies, &self.id, false);
        Ok((control, LyingEvents::new(events, lies, &self.id, &exec, false)))
    }

    pub(super) async fn again(&self, request: &Reattach) -> Result<(LyingControl, LyingEvents)> {
        if self.attached && self.lies.is(Fault::CommandsAreTheirClients) {
            return Err(Error::new(ErrorKind::NotFound, format!("no command `{}`", request.id)).applied(false));
        }
        let last = lock(&self.lies.last).clone().filter(|_| self.lies.is(Fault::UnknownCommandIsTheLast));
        let (control, events) = match (self.inner.reattach(request).await, last) {
            (Err(error), Some(last)) if error.kind() == ErrorKind::NotFound => {
                self.inner.reattach(&Reattach::new(last)).await?
            }
            (reached, _) => reached?,
        };
        let control = LyingControl::new(control, &self.lies, &self.id, true);
        Ok((control, LyingEvents::new(events, &self.lies, &self.id, &Exec::new([request.id.as_str()]), true)))
    }

    /// What is started in place of what cannot be.
    async fn excuse(&self, mut exec: Exec, error: Error) -> Result<(FakeControl, FakeEvents)> {
        match (self.lies.fault, error.kind()) {
            (Fault::UnknownProgramIsSuccess, ErrorKind::ProgramNotFound | ErrorKind::StartFailed) => {
                exec.argv = vec!["true".into()];
            }
            (Fault::MissingCwdIsTheDefault, ErrorKind::PathNotFound | ErrorKind::NotADirectory) => exec.cwd = None,
            (Fault::UnknownUserIsTheDefault, ErrorKind::InvalidArgument) => exec.user = None,
            _ => return Err(error),
        }
        self.inner.spawn(&exec).await
    }

    /// The command as the provider gets it.
    fn changed(&self, exec: &Exec) -> Exec {
        let mut exec = exec.clone();
        let arguments = |exec: &mut Exec, change: &dyn Fn(&str) -> String| {
            exec.argv.iter_mut().skip(1).for_each(|arg| *arg = change(arg));
        };
        match self.lies.fault {
            Fault::ArgumentsAreTrimmed => arguments(&mut exec, &|arg| arg.trim().to_string()),
            Fault::AShellLooksAtArguments => arguments(&mut exec, &|arg| arg.replace("$HOME", "/root")),
            Fault::LongArgumentsAreCut => {
                arguments(&mut exec, &|arg| {
                    arg.chars().take(if arg.len() > 10_000 { 10_000 } else { arg.len() }).collect()
                });
            }
            Fault::ShellStopsAtAPipe => {
                if let [_, option, text, ..] = exec.argv.as_mut_slice() {
                    if option == "-c" {
                        *text = text.split(" | ").next().unwrap_or_default().to_string();
                    }
                }
            }
            Fault::EnvLeaksToTheNext => {
                let mut known = lock(&self.lies.env);
                known.extend(exec.env.iter().cloned());
                exec.env = known.clone().into_iter().collect();
            }
            Fault::EnvOfTheSpecWins => exec.env.retain(|(name, _)| !self.env.contains_key(name)),
            Fault::EnvValuesAreTrimmed => {
                exec.env.iter_mut().for_each(|(_, value)| *value = value.trim().to_string());
            }
            Fault::CwdIsIgnored => exec.cwd = None,
            Fault::UserIsIgnored => exec.user = None,
            Fault::DeadlineComesEarly => exec.timeout /= 2,
            Fault::DeadlineIsIgnored => exec.timeout *= 100,
            Fault::GraceIsIgnored => exec.grace = None,
            Fault::TermComesUnasked => exec.grace = Some(exec.timeout / 2),
            Fault::InputIsCut => cut(&mut exec.stdin, |length| length.saturating_sub(1)),
            Fault::InputStopsAtAMebibyte => cut(&mut exec.stdin, |length| length.min(MEBIBYTE)),
            Fault::TerminalsArePipes if exec.pty.is_some() => (exec.pty, exec.stdin) = (None, Stdin::Pipe),
            Fault::TerminalsHaveTheUsualSize if exec.pty.is_some() => exec.pty = Some(PtySize::default()),
            Fault::NoInputNeverEnds if matches!(exec.stdin, Stdin::Null) => exec.stdin = Stdin::Pipe,
            _ => {}
        }
        exec
    }

    pub(super) async fn death(&self) -> Error {
        if self.lies.is(Fault::DeathIsAnExit) {
            pending::<()>().await;
        }
        self.inner.gone().await
    }

    pub(super) async fn let_go(&self) -> Result<()> {
        if self.lies.is(Fault::DetachDoesNothing) {
            return Ok(());
        }
        self.inner.detach().await
    }
}

fn cut(stdin: &mut Stdin, to: impl Fn(usize) -> usize) {
    if let Stdin::Whole(all) = stdin {
        *all = all.slice(..to(all.len()));
    }
}

impl fmt::Debug for LyingSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LyingSandbox").field("fault", &self.lies.fault).field("id", &self.id).finish_non_exhaustive()
    }
}
