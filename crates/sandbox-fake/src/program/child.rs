//! Children of a program.

use super::{Proc, Program, find, join, program};
use crate::world::{Birth, End, Kernel, Launch, Pipe, Sink, Source, lock};
use bytes::{Bytes, BytesMut};
use sandbox_core::{ErrorKind, Status};
use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    sync::{Arc, Mutex},
    task::Poll,
};

/// A child to be started: a program of the sandbox, or a closure.
pub struct Fork {
    argv: Arc<[String]>,
    program: Option<Program>,
    env: Option<Vec<(String, String)>>,
    cwd: Option<String>,
    input: Option<Bytes>,
    session: bool,
    daemon: bool,
    silent: bool,
    piped: bool,
    piped_error: bool,
}

impl Fork {
    /// Runs a command line.
    pub fn program(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            program: None,
            env: None,
            cwd: None,
            input: None,
            session: false,
            daemon: false,
            silent: false,
            piped: false,
            piped_error: false,
        }
    }

    /// Runs a closure as a process with this command line.
    pub fn closure<F>(
        argv: impl IntoIterator<Item = impl Into<String>>,
        run: impl Fn(Proc) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        Self { program: Some(program(run)), ..Self::program(argv) }
    }

    /// Replaces its environment.
    pub fn env(mut self, env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        self.env = Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// In another working directory; a relative one starts at the parent's.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// With this as its stdin.
    pub fn input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// In a session and group of its own.
    pub fn session(mut self) -> Self {
        self.session = true;
        self
    }

    /// As a daemon: by a double fork, so that process 1 is its parent, in a session of its own, without streams.
    pub fn daemon(mut self) -> Self {
        self.daemon = true;
        self.session().silent()
    }

    /// Without streams: its stdin is empty, and what it writes goes nowhere.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// With its stdout in a pipe to its parent, which has to read it: see [`Child::read`].
    pub fn piped(mut self) -> Self {
        self.piped = true;
        self
    }

    /// The same for its stderr: see [`Child::read_error`].
    pub fn piped_error(mut self) -> Self {
        self.piped_error = true;
        self
    }

    pub(crate) fn start(self, parent: &Proc) -> io::Result<Child> {
        let env = match self.env {
            Some(env) => Arc::new(env.into_iter().collect()),
            None => Arc::clone(parent.env()),
        };
        let user = parent.identity().clone();
        let cwd = join(parent.cwd(), self.cwd.as_deref().unwrap_or("."));
        let cwd = if self.cwd.is_none() { parent.cwd().to_string() } else { cwd };
        let (program, argv) = match self.program {
            Some(program) => (program, self.argv),
            None => {
                let path = env.get("PATH").map(String::as_str);
                let found = find(parent.kernel(), parent.files(), self.argv, path, &cwd, user.who()).map_err(system)?;
                (found.program, found.argv)
            }
        };
        lock(parent.files()).enter(&cwd, user.who())?;
        let launch = Launch { program, argv, env, cwd, user };
        let kernel = Arc::clone(parent.kernel());
        let room = parent.room();
        let born = kernel.with(|state, after| {
            let process = state.process(room, parent.pid()).ok_or_else(|| io::Error::other("the parent has ended"))?;
            let mut birth = Birth {
                parent: parent.pid(),
                command: process.command,
                stdin: process.stdin,
                stdout: process.stdout,
                stderr: process.stderr,
                session: self.session,
                orphan: self.daemon,
            };
            if self.silent {
                (birth.stdin, birth.stdout, birth.stderr) = (Source::Null, Sink::Null, Sink::Null);
            }
            let entry = state.room(room).map_err(system)?;
            if let Some(input) = self.input {
                birth.stdin = Source::Pipe(entry.pipe(Pipe::input(input, false)));
            }
            let pipes = [self.piped, self.piped_error].map(|piped| piped.then(|| entry.pipe(Pipe::output())));
            birth.stdout = pipes[0].map_or(birth.stdout, Sink::Pipe);
            birth.stderr = pipes[1].map_or(birth.stderr, Sink::Pipe);
            let input = birth.stdin;
            match state.birth(&kernel, room, launch, birth, after) {
                Ok((pid, end)) => Ok((pid, end, pipes)),
                Err(error) => {
                    if let Ok(entry) = state.room(room) {
                        pipes.into_iter().flatten().for_each(|pipe| entry.close_reader(pipe, after));
                        if let Source::Pipe(pipe) = input {
                            entry.forget_pipe(pipe);
                        }
                    }
                    Err(system(error))
                }
            }
        });
        let (pid, end, pipes) = born?;
        Ok(Child { kernel, room, pid, end, pipes })
    }
}

/// A child that was started. Dropping it does not end it.
pub struct Child {
    kernel: Arc<Kernel>,
    room: u64,
    pid: u32,
    end: Arc<Mutex<End>>,
    /// Of its stdout and its stderr.
    pipes: [Option<u64>; 2],
}

impl Child {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end. Until then, what has ended stays a zombie while its parent lives.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and repeatable.
    pub async fn wait(&self) -> Status {
        let status = poll_fn(|cx| {
            let mut end = lock(&self.end);
            match end.status {
                Some(status) => Poll::Ready(status),
                None => {
                    end.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.kernel.with(|state, _| {
            if let Ok(room) = state.room(self.room) {
                room.zombies.remove(&self.pid);
            }
        });
        status
    }

    /// Reads a piece of what it writes to its pipe; an empty one is the end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read(&self) -> Bytes {
        self.read_from(0).await
    }

    /// The same for its stderr.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read_error(&self) -> Bytes {
        self.read_from(1).await
    }

    /// Reads what it writes to its pipe, to the end.
    pub async fn read_to_end(&self) -> Bytes {
        let mut all = BytesMut::new();
        loop {
            let piece = self.read().await;
            if piece.is_empty() {
                return all.freeze();
            }
            all.extend_from_slice(&piece);
        }
    }

    async fn read_from(&self, stream: usize) -> Bytes {
        let Some(pipe) = self.pipes[stream] else { return Bytes::new() };
        poll_fn(|cx| {
            self.kernel.with(|state, after| {
                let pipe = state.rooms.get_mut(&self.room).and_then(|room| room.pipes.get_mut(&pipe));
                pipe.map_or(Poll::Ready(Bytes::new()), |pipe| pipe.poll_read(64 << 10, None, cx, after))
            })
        })
        .await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.pipes == [None, None] {
            return;
        }
        self.kernel.with(|state, after| {
            if let Ok(room) = state.room(self.room) {
                self.pipes.into_iter().flatten().for_each(|pipe| room.close_reader(pipe, after));
            }
        });
    }
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("argv", &self.argv).finish_non_exhaustive()
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// An error as a program sees it.
fn system(error: sandbox_core::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::ProgramNotFound => io::ErrorKind::NotFound,
        ErrorKind::ArgumentTooLarge => io::ErrorKind::ArgumentListTooLong,
        ErrorKind::StartFailed if error.message().contains("temporarily") => io::ErrorKind::WouldBlock,
        _ => io::ErrorKind::PermissionDenied,
    };
    io::Error::new(kind, error.message().to_string())
}
