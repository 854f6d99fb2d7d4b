//! Commands as they begin.

use super::{
    After, Kernel, Launch, Output, Sink, Source, State, Stream, Timer, command::Command, pipe::Pipe, process::INIT,
    state::Birth, terminal::Terminal,
};
use bytes::Bytes;
use sandbox_core::{Capability, Error, ErrorKind, Exec, PtySize, Stdin};
use std::sync::Arc;

impl State {
    /// Starts a command; its number.
    pub(crate) fn command(
        &mut self,
        kernel: &Arc<Kernel>,
        room: u64,
        launch: Launch,
        exec: &Exec,
        after: &mut After,
    ) -> Result<u64, Error> {
        let entry = self.working(room)?;
        if entry.is_full() {
            let text = format!("the sandbox already has {} processes", entry.processes.len());
            return Err(Error::new(ErrorKind::StartFailed, text)
                .with_hint("end some of them, or raise the cap on processes of the sandbox")
                .applied(false));
        }
        let stdin = match &exec.stdin {
            _ if exec.pty.is_some() => None,
            Stdin::Whole(all) => Some(Pipe::input(all.clone(), false)),
            Stdin::Pipe => Some(Pipe::input(Bytes::new(), true)),
            _ => None,
        };
        let number = self.enter(kernel, room, launch, stdin, exec.pty, after)?;
        let mut timers = Vec::new();
        let inside = !self.absent.contains(&Capability::Deadline);
        if inside {
            timers.push(self.timers.set(exec.timeout, Timer::Deadline(room, number)));
        }
        if let Some(grace) = exec.grace.filter(|_| inside) {
            timers.push(self.timers.set(exec.timeout.saturating_sub(grace), Timer::Term(room, number)));
        }
        after.armed = true;
        if let Some(command) = self.room(room)?.commands.get_mut(&number) {
            command.timers = timers;
        }
        Ok(number)
    }

    /// Starts a command that nothing ends; its number.
    pub(super) fn enter(
        &mut self,
        kernel: &Arc<Kernel>,
        room: u64,
        launch: Launch,
        stdin: Option<Pipe>,
        pty: Option<PtySize>,
        after: &mut After,
    ) -> Result<u64, Error> {
        let entry = self.room(room)?;
        let number = entry.number();
        let stdin = stdin.map(|pipe| entry.pipe(pipe));
        let command = Command {
            main: 0,
            running: true,
            processes: 0,
            stdin,
            terminal: pty.map(Terminal::new),
            timers: Vec::new(),
            cause: None,
            out_of_memory: false,
            output: Output::default(),
        };
        entry.commands.insert(number, command);
        let (stdin, stdout, stderr) = match pty {
            Some(_) => (Source::Terminal, Sink::Terminal, Sink::Terminal),
            None => {
                let stdin = stdin.map_or(Source::Null, Source::Pipe);
                (stdin, Sink::Command(Stream::Stdout), Sink::Command(Stream::Stderr))
            }
        };
        let birth = Birth { parent: INIT, command: number, stdin, stdout, stderr, session: true, orphan: false };
        let (pid, _) = self.birth(kernel, room, launch, birth, after)?;
        if let Some(command) = self.room(room)?.commands.get_mut(&number) {
            command.main = pid;
        }
        Ok(number)
    }
}
