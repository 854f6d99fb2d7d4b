//! One command: a process group and its pipes.

use super::kill;
use bytes::{Bytes, BytesMut};
use sandbox_core::{Control, Ended, Error, ErrorKind, Event, Events, Fate, Result, Signal, Status};
use std::{os::unix::process::ExitStatusExt, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::Mutex,
};

pub(crate) struct Group {
    pid: u32,
    stdin: Mutex<Option<ChildStdin>>,
}

impl Group {
    pub(super) fn new(pid: u32, stdin: Option<ChildStdin>) -> Self {
        Self { pid, stdin: Mutex::new(stdin) }
    }
}

impl Control for Group {
    async fn kill(&self) -> Result<Fate> {
        kill(9, std::iter::once(format!("-{}", self.pid))).await?;
        for _ in 0..100 {
            if !group_lives(self.pid) {
                return Ok(Fate::Dead);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Fate::Unknown)
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        kill(signal.number(), std::iter::once(self.pid.to_string())).await
    }

    async fn write(&self, data: Bytes) -> Result<()> {
        let lost = |e| Error::new(ErrorKind::ConnectionLost, "the program reads no more").with_source(e);
        match &mut *self.stdin.lock().await {
            Some(stdin) => stdin.write_all(&data).await.map_err(lost),
            None => Err(Error::new(ErrorKind::WrongState, "stdin is closed")),
        }
    }

    async fn close_stdin(&self) -> Result<()> {
        self.stdin.lock().await.take();
        Ok(())
    }
}

pub(crate) struct Pipes {
    child: Option<Child>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Popped from behind.
    queue: Vec<Event>,
}

impl Pipes {
    pub(super) fn new(mut child: Child) -> Self {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Self { child: Some(child), stdout, stderr, queue: Vec::new() }
    }
}

impl Events for Pipes {
    async fn next(&mut self) -> Result<Option<Event>> {
        let lost = |e| Error::new(ErrorKind::ConnectionLost, "a pipe broke").with_source(e);
        loop {
            if let Some(event) = self.queue.pop() {
                return Ok(Some(event));
            }
            tokio::select! {
                biased;
                status = ended(&mut self.child), if self.child.is_some() => {
                    self.child = None;
                    let status = status.map_err(lost)?;
                    let status = status.code().map_or_else(|| Status::Signal(status.signal().unwrap_or(0)), Status::Code);
                    self.queue.push(Event::Ended(Ended::program(status)));
                    // What the program wrote is in the pipes, and comes first; a pipe holds no more than one chunk.
                    self.queue.extend(at_once(&mut self.stderr).await.map(Event::Stderr));
                    self.queue.extend(at_once(&mut self.stdout).await.map(Event::Stdout));
                }
                piece = chunk(&mut self.stdout), if self.stdout.is_some() => match piece.map_err(lost)? {
                    piece if piece.is_empty() => self.stdout = None,
                    piece => return Ok(Some(Event::Stdout(piece))),
                },
                piece = chunk(&mut self.stderr), if self.stderr.is_some() => match piece.map_err(lost)? {
                    piece if piece.is_empty() => self.stderr = None,
                    piece => return Ok(Some(Event::Stderr(piece))),
                },
                else => return Ok(None),
            }
        }
    }
}

async fn chunk(pipe: &mut Option<impl AsyncReadExt + Unpin>) -> std::io::Result<Bytes> {
    let Some(pipe) = pipe else { return Ok(Bytes::new()) };
    let mut buffer = BytesMut::with_capacity(64 << 10);
    pipe.read_buf(&mut buffer).await.map(|_| buffer.freeze())
}

async fn at_once(pipe: &mut Option<impl AsyncReadExt + Unpin>) -> Option<Bytes> {
    // The runtime may say "not now" to a task that has done much, and that is no answer here.
    let read = tokio::task::unconstrained(chunk(pipe));
    tokio::select! { biased; read = read => read.ok().filter(|piece| !piece.is_empty()), () = std::future::ready(()) => None }
}

async fn ended(child: &mut Option<Child>) -> std::io::Result<std::process::ExitStatus> {
    match child {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

/// Processes of the host that have this in their environment; the dead have none.
pub(super) fn with_variable(variable: &str) -> Vec<u32> {
    let marked = |e: &std::fs::DirEntry| {
        let env = std::fs::read(e.path().join("environ")).unwrap_or_default();
        env.split(|b| *b == 0).any(|v| v == variable.as_bytes())
    };
    processes().filter(marked).filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn group_lives(group: u32) -> bool {
    processes().any(|e| {
        let stat = std::fs::read_to_string(e.path().join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let (state, group_of) = (fields.next(), fields.nth(1));
        !matches!(state, None | Some("Z" | "X")) && group_of == Some(&group.to_string())
    })
}

fn processes() -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten()
}
