//! Commands that are reached again.

use crate::{
    FakeControl, FakeEvents,
    double::Number,
    world::{Kernel, gone},
};
use sandbox_core::{Error, ErrorKind, ProcessId, Reattach, Result};
use std::sync::Arc;

/// What names a command outside.
pub(crate) fn id(command: u64) -> ProcessId {
    ProcessId::new(format!("command-{command}"))
}

/// What it names.
pub(crate) fn number(named: &ProcessId) -> Option<u64> {
    let number = named.as_str().strip_prefix("command-").and_then(|number| number.parse::<u64>().ok());
    number.filter(|number| id(*number) == *named)
}

/// One more who watches a command, from now on.
pub(crate) fn reattach(kernel: &Arc<Kernel>, room: u64, request: &Reattach) -> Result<(FakeControl, FakeEvents)> {
    let unknown =
        || Error::new(ErrorKind::NotFound, format!("no command `{}` in the sandbox", request.id)).applied(false);
    let number = number(&request.id).ok_or_else(unknown)?;
    let (watcher, ended) = kernel.act(|state, _| {
        let entry = state.rooms.get_mut(&room).ok_or_else(gone)?;
        let ended = entry.end_of(number);
        match entry.commands.get_mut(&number) {
            Some(command) => Ok((command.output.watch(ended.filter(|_| !command.running)), None)),
            // Nothing of it is left but how it ended.
            None => ended.map(|ended| (0, Some(ended))).ok_or_else(unknown),
        }
    })?;
    // The record has the call that started it, and not who reached it later.
    let control = FakeControl::new(kernel, room, number, Number::MAX);
    Ok((control, FakeEvents::again(kernel, room, number, watcher, ended)))
}
