//! One running command, from outside.

use crate::{
    double::Number,
    world::{Kernel, gone, lock},
};
use bytes::Bytes;
use sandbox_core::{Cause, Control, Error, ErrorKind, Event, Events, Fate, Result, Signal};
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
}

impl FakeEvents {
    pub(crate) fn new(kernel: &Arc<Kernel>, room: u64, command: u64) -> Self {
        Self { kernel: Arc::clone(kernel), room, command }
    }

    fn poll(&self, waker: Option<&Waker>) -> Poll<Result<Option<Event>>> {
        self.kernel.with(|state, after| {
            let Some(room) = state.rooms.get_mut(&self.room) else { return Poll::Ready(Err(gone())) };
            let Some(command) = room.commands.get_mut(&self.command) else { return Poll::Ready(Ok(None)) };
            command.output.pop(command.running, waker, after).map(Ok)
        })
    }
}

impl Events for FakeEvents {
    async fn next(&mut self) -> Result<Option<Event>> {
        self.kernel.stir();
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
                command.output.ignore(after);
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
