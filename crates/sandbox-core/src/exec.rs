//! A command as adapters see it.

use crate::PtySize;
use bytes::Bytes;
use std::time::Duration;

/// An adapter that can end a command inside does so at [`Exec::timeout`] and declares `DEADLINE`. The engine's own deadline
/// then trails by this much: the end from inside is heard first, exact, and spares the sandbox.
pub const OUTSIDE_TRAILS: Duration = Duration::from_secs(1);

/// A command, resolved: adapters derive nothing again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exec {
    /// Program and arguments; never empty, no NUL bytes.
    pub argv: Vec<String>,
    /// What is added to the sandbox's own environment, call and overrides merged; names are valid and unique. `Spec::env` is not
    /// among it: the adapter keeps that with the sandbox, also for whoever attaches.
    pub env: Vec<(String, String)>,
    /// The working directory, absolute; `None` is the sandbox's own.
    pub cwd: Option<String>,
    /// A user's name or uid; `None` is the sandbox's own.
    pub user: Option<String>,
    /// Where its input comes from; [`Stdin::Pipe`] with a terminal.
    pub stdin: Stdin,
    /// The terminal that its three streams are, with the modes that a new one has: it echoes, edits lines, turns control
    /// characters into signals and line ends into CR LF. What comes out of it is [`Event::Stdout`](crate::Event::Stdout);
    /// what is written to stdin is typed on it. It has this size before the program runs. `PTY`.
    pub pty: Option<PtySize>,
    /// How long it may run. The engine enforces it from outside; see [`OUTSIDE_TRAILS`].
    pub timeout: Duration,
    /// How long before the timeout TERM is sent, where `DEADLINE` and `TERM` are declared; else the engine sends it.
    pub grace: Option<Duration>,
    /// Bytes of each stream that somebody will look at; a wire that answers in one piece may cut there.
    pub output_limit: u64,
}

impl Exec {
    /// A command with nothing set: no input, 300 s, 64 MiB of each stream.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: None,
            stdin: Stdin::Null,
            pty: None,
            timeout: Duration::from_secs(300),
            grace: None,
            output_limit: 64 << 20,
        }
    }
}

/// Where a command's input comes from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Stdin {
    /// Nowhere: the program reads end of file at once.
    #[default]
    Null,
    /// Known before the start: goes with the request where the wire can. `STDIN_WHOLE`.
    Whole(Bytes),
    /// Written piece by piece through [`Control::write`](crate::Control::write). `STDIN`.
    Pipe,
}
