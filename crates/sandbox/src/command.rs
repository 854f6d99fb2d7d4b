//! What users say about a command.

use bytes::Bytes;
use sandbox_core::{PtySize, Stdin};
use std::{fmt, time::Duration};

/// A command: a program and its arguments, which no shell interprets.
///
/// ```
/// use sandbox::Command;
/// use std::time::Duration;
///
/// let tests = Command::new("python3").args(["-m", "pytest", "-q"]).cwd("/work").timeout(Duration::from_secs(120));
/// let pipeline = Command::shell("sort names.txt | uniq -c").env("LC_ALL", "C");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Command {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) stdin: Stdin,
    pub(crate) pty: Option<PtySize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) output_limit: Option<u64>,
    /// A small command of our own, which ends soon once nobody waits for it.
    pub(crate) ours: bool,
}

impl Command {
    /// A program, found on the sandbox's own path, without arguments.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            env: Vec::new(),
            cwd: None,
            user: None,
            stdin: Stdin::Null,
            pty: None,
            timeout: None,
            grace: None,
            output_limit: None,
            ours: false,
        }
    }

    /// The program and its arguments.
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// A text for the sandbox's `/bin/sh -c`.
    pub fn shell(text: impl Into<String>) -> Self {
        Self::new("/bin/sh").arg("-c").arg(text)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment, over the sandbox's own.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets its working directory; a relative one starts at the sandbox's.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets its user, by name or uid. `USER`.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Gives it all of its input. Without this and [`pipe`](Self::pipe) it reads end of file at once. `STDIN_WHOLE`.
    pub fn input(mut self, all: impl Into<Bytes>) -> Self {
        self.stdin = Stdin::Whole(all.into());
        self
    }

    /// Lets its input come through [`Process::write`](crate::Process::write). `STDIN`.
    pub fn pipe(mut self) -> Self {
        self.stdin = Stdin::Pipe;
        self
    }

    /// Runs it on a terminal of this size. `PTY`.
    ///
    /// All that it writes, to stderr too, then arrives as stdout, as a terminal shows it: lines end with CR LF, and what is
    /// typed is echoed. Its input is the terminal: [`Process::write`](crate::Process::write) types on it, without
    /// [`pipe`](Self::pipe), and [`input`](Self::input) is refused, since a terminal has no end. Type `\x04` (ctrl-D) at the
    /// start of a line for an end of file, `\x03` (ctrl-C) to interrupt what runs. Closing the input means that nobody types
    /// any more; a program that waits for more does so until its timeout. [`Process::resize`](crate::Process::resize) changes
    /// the size.
    pub fn pty(mut self, size: PtySize) -> Self {
        self.pty = Some(size);
        self
    }

    /// Ends it when it is not over by then; where one command cannot be ended alone (`KILL_ONE`, as on plain Docker), the whole
    /// sandbox with it. Unset, it is the spec's `command_timeout`; never past the sandbox's lifetime.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends TERM so long before the timeout. `TERM`.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Keeps so many bytes of each stream at most: the head and the tail. 64 MiB unless set.
    pub fn output_limit(mut self, bytes: u64) -> Self {
        self.output_limit = Some(bytes);
        self
    }
}

/// The values of its environment stay out: they may be secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        let mut s = f.debug_struct("Command");
        s.field("argv", &self.argv).field("env", &names).field("cwd", &self.cwd).field("user", &self.user);
        s.field("pty", &self.pty).field("timeout", &self.timeout).field("grace", &self.grace).finish_non_exhaustive()
    }
}

/// What a view of a sandbox says about every command and path; see [`Sandbox::with`](crate::Sandbox::with).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Overrides {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) user: Option<String>,
    pub(crate) cwd: Option<String>,
}

impl Overrides {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable, over the command's own.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the user, over the command's own. `USER`.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets where relative paths start, and where commands run that set no directory.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Both; what `inner` sets wins.
    pub(crate) fn then(&self, inner: Self) -> Self {
        let mut env = self.env.clone();
        env.extend(inner.env);
        Self { env, user: inner.user.or_else(|| self.user.clone()), cwd: inner.cwd.or_else(|| self.cwd.clone()) }
    }
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Overrides").field("env", &names).field("user", &self.user).field("cwd", &self.cwd).finish()
    }
}
