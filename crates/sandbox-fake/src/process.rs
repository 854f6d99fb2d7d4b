//! One running command, from outside.

use crate::{
    double::Number,
    reattach,
    world::{After, Kernel, Lie, State, Stream, gone, lock},
};
use bytes::Bytes;
use sandbox_core::{Cause, Control, Ended, Error, ErrorKind, Event, Events, Fate, ProcessId, Resize, Result, Signal};
use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

/// The handle on a command of a [`FakeSandbox`](crate::FakeSandbox).
pub struct FakeControl {
    kernel: Arc<Kernel>,
    room: u64,
    command: u64,
    /// In the record of calls.
    call: Number,
}

impl FakeControl {
    pub(crate) fn new(kernel: &Arc<Kernel>, room: u64, command: u64, call: Number) -> Self {
        Self { kernel: Arc::clone(kernel), room, command, call }
    }
}

impl Control for FakeControl {
    fn id(&self) -> Option<ProcessId> {
        Some(reattach::id(self.command))
    }

    async fn kill(&self) -> Result<Fate> {
        self.kernel.act(|state, after| {
            // Gone means that all of them are dead.
            state.kill_command(self.room, self.command, Cause::Killed, after);
            Ok(Fate::Dead)
        })
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        self.kernel.act(|state, after| {
            let room = state.room(self.room)?;
            match room.commands.get(&self.command) {
                Some(command) if command.running => {
                    let main = command.main;
                    state.signal(self.room, main, signal.number(), after);
                    Ok(())
                }
                _ => Err(Error::new(ErrorKind::WrongState, "the command has ended").applied(false)),
            }
        })
    }

    async fn write(&self, data: Bytes) -> Result<()> {
        lock(&self.kernel.double).calls.written(self.call, &data);
        let mut data = Some(data);
        poll_fn(|cx| {
            self.kernel.act(|state, after| {
                if let Some(data) = data.take_if(|_| self.has_terminal(state)) {
                    self.type_in(&data, state, after);
                }
                let command = state.rooms.get_mut(&self.room).and_then(|room| room.commands.get_mut(&self.command));
                if let Some(command) = command {
                    match &mut command.terminal {
                        Some(_) if !command.running => return Poll::Ready(Err(no_more())),
                        Some(terminal) => return terminal.poll_room(cx).map(Ok),
                        None => {}
                    }
                }
                let Some(room) = state.rooms.get_mut(&self.room) else { return Poll::Ready(Err(gone())) };
                let pipe = room.commands.get(&self.command).and_then(|command| command.stdin);
                let Some(pipe) = pipe.and_then(|pipe| room.pipes.get_mut(&pipe)) else {
                    return Poll::Ready(Err(no_more()));
                };
                if let Some(data) = data.take() {
                    if !pipe.has_readers() {
                        return Poll::Ready(Err(no_more()));
                    }
                    pipe.push(data, after);
                }
                pipe.poll_room(cx).map_err(|_| no_more())
            })
        })
        .await
    }

    async fn close_stdin(&self) -> Result<()> {
        self.kernel.act(|state, after| {
            let Some(room) = state.rooms.get_mut(&self.room) else { return };
            let Some(pipe) = room.commands.get(&self.command).and_then(|command| command.stdin) else { return };
            if let Some(end) = room.pipes.get_mut(&pipe) {
                end.close_outer(after);
            }
            room.forget_pipe(pipe);
        });
        Ok(())
    }

    async fn resize(&self, request: &Resize) -> Result<()> {
        self.kernel.act(|state, after| {
            let wrong = |what: &'static str| Err(Error::new(ErrorKind::WrongState, what).applied(false));
            let room = state.room(self.room)?;
            let Some(command) = room.commands.get_mut(&self.command).filter(|command| command.running) else {
                return wrong("the command has ended");
            };
            let Some(terminal) = &mut command.terminal else { return wrong("the command has no terminal") };
            if std::mem::replace(&mut terminal.size, request.size) != request.size {
                let main = command.main;
                state.signal_group(self.room, self.command, main, Signal::WindowChange.number(), after);
            }
            Ok(())
        })
    }
}

impl FakeControl {
    fn has_terminal(&self, state: &State) -> bool {
        let command = state.rooms.get(&self.room).and_then(|room| room.commands.get(&self.command));
        command.is_some_and(|command| command.terminal.is_some() && command.running)
    }

    fn type_in(&self, data: &[u8], state: &mut State, after: &mut After) {
        let silent = state.lie == Some(Lie::TerminalsDoNotEcho);
        let command = state.rooms.get_mut(&self.room).and_then(|room| room.commands.get_mut(&self.command));
        let Some(command) = command else { return };
        let Some(terminal) = &mut command.terminal else { return };
        let typed = terminal.type_in(data, after);
        if !silent {
            command.output.push(Stream::Stdout, &typed.echo, after);
        }
        let main = command.main;
        for signal in typed.signals {
            state.signal_group(self.room, self.command, main, signal, after);
        }
    }
}

impl fmt::Debug for FakeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeControl").field("command", &self.command).finish_non_exhaustive()
    }
}

/// What comes out of a command of a [`FakeSandbox`](crate::FakeSandbox).
///
/// What it writes once these are dropped goes nowhere, and stops nobody.
pub struct FakeEvents {
    kernel: Arc<Kernel>,
    room: u64,
    command: u64,
    /// Which of those who watch the command this is.
    watcher: u64,
    /// How a command ended that is otherwise forgotten.
    ended: Option<Ended>,
}

impl FakeEvents {
    /// Of the one who starts the command.
    pub(crate) fn new(kernel: &Arc<Kernel>, room: u64, command: u64) -> Self {
        Self::again(kernel, room, command, 0, None)
    }

    /// Of one who comes later.
    pub(crate) fn again(kernel: &Arc<Kernel>, room: u64, command: u64, watcher: u64, ended: Option<Ended>) -> Self {
        Self { kernel: Arc::clone(kernel), room, command, watcher, ended }
    }

    fn poll(&self, waker: Option<&Waker>) -> Poll<Result<Option<Event>>> {
        self.kernel.with(|state, after| {
            let Some(room) = state.rooms.get_mut(&self.room) else { return Poll::Ready(Err(gone())) };
            let Some(command) = room.commands.get_mut(&self.command) else { return Poll::Ready(Ok(None)) };
            command.output.pop(self.watcher, command.running, waker, after).map(Ok)
        })
    }
}

impl Events for FakeEvents {
    async fn next(&mut self) -> Result<Option<Event>> {
        self.kernel.stir();
        if let Some(ended) = self.ended.take() {
            return Ok(Some(Event::Ended(ended)));
        }
        poll_fn(|cx| {
            let polled = self.poll(None);
            if polled.is_ready() {
                return polled;
            }
            self.kernel.run();
            self.poll(Some(cx.waker()))
        })
        .await
    }
}

impl Drop for FakeEvents {
    fn drop(&mut self) {
        self.kernel.with(|state, after| {
            let Some(room) = state.rooms.get_mut(&self.room) else { return };
            if let Some(command) = room.commands.get_mut(&self.command) {
                command.output.leave(self.watcher, after);
            }
            room.forget_command(self.command, after);
        });
    }
}

impl fmt::Debug for FakeEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEvents").field("command", &self.command).finish_non_exhaustive()
    }
}

fn no_more() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the program takes no more input").applied(false)
}
