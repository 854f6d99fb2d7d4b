//! Signals that end the command.

use crate::exit::Own;
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
};

/// A wish that the command shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// Asked to end.
    #[cfg(unix)]
    Terminate,
    /// The terminal is gone.
    #[cfg(unix)]
    Hangup,
}

impl Stop {
    /// The signal's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            #[cfg(unix)]
            Self::Terminate => "SIGTERM",
            #[cfg(unix)]
            Self::Hangup => "SIGHUP",
        }
    }

    /// The code to end with.
    pub(crate) fn own(self) -> Own {
        match self {
            Self::Interrupt => Own::Interrupt,
            #[cfg(unix)]
            Self::Terminate => Own::Terminate,
            #[cfg(unix)]
            Self::Hangup => Own::Hangup,
        }
    }
}

/// The signals of this process, from its making on.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Stop, Source)>);

impl Signals {
    /// The next one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Stop {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        for (stop, source) in &mut self.0 {
            if let Poll::Ready(Some(())) = source.poll_recv(cx) {
                return Poll::Ready(*stop);
            }
        }
        Poll::Pending
    }
}

#[cfg(unix)]
type Source = tokio::signal::unix::Signal;

#[cfg(unix)]
impl Signals {
    /// Takes the signals over. One that whoever started us ignores (`nohup`, `&` in a script) stays ignored.
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored();
        let all = [
            (Stop::Interrupt, SignalKind::interrupt()),
            (Stop::Terminate, SignalKind::terminate()),
            (Stop::Hangup, SignalKind::hangup()),
        ];
        let ours = all.into_iter().filter(|(_, kind)| ignored & (1 << (kind.as_raw_value() - 1)) == 0);
        ours.map(|(stop, kind)| Ok((stop, signal(kind)?))).collect::<io::Result<_>>().map(Self)
    }
}

/// The mask of ignored signals, where the system tells it as text: asking it otherwise is unsafe code.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(windows)]
type Source = tokio::signal::windows::CtrlC;

#[cfg(windows)]
impl Signals {
    /// Takes Ctrl-C over.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(vec![(Stop::Interrupt, tokio::signal::windows::ctrl_c()?)]))
    }
}
