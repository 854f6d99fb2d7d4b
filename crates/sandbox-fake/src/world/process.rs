//! An entry of the process table.

use super::{Stream, Task};
use crate::image::User;
use sandbox_core::Status;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Waker},
};

pub(crate) const INIT: u32 = 1;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) argv: Arc<[String]>,
    pub(crate) user: User,
    /// The command that it descends from.
    pub(crate) command: u64,
    pub(crate) task: Arc<Task>,
    pub(crate) memory: u64,
    pub(crate) stdin: Source,
    pub(crate) stdout: Sink,
    pub(crate) stderr: Sink,
    pub(crate) signals: Signals,
    /// It stands still, and these signals wait until it goes on.
    pub(crate) stopped: Option<Vec<i32>>,
    /// Where its parent learns of its end.
    pub(crate) end: Arc<Mutex<End>>,
}

impl Process {
    /// What a thread of the host does for a process that stands still waits here.
    pub(crate) fn waits_to_go_on(&mut self, cx: &Context<'_>) -> bool {
        let waits = self.stopped.is_some();
        if waits {
            self.signals.wakers.push(cx.waker().clone());
        }
        waits
    }
}

/// Where a process reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Null,
    Pipe(u64),
    /// The terminal of its command.
    Terminal,
}

/// Where a process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    Null,
    Command(Stream),
    Pipe(u64),
    /// The terminal of its command.
    Terminal,
}

/// How a program's own run ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    Code(i32),
    /// As Rust programs end then.
    Panic,
}

#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) status: Option<Status>,
    pub(crate) wakers: Vec<Waker>,
}

/// What a process does with signals, one bit each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    pub(crate) ignored: u64,
    pub(crate) caught: u64,
    pub(crate) pending: VecDeque<i32>,
    pub(crate) wakers: Vec<Waker>,
}

impl Signals {
    /// What a child gets: ignored stays ignored.
    pub(crate) fn inherited(&self) -> Self {
        Self { ignored: self.ignored, ..Self::default() }
    }
}

pub(crate) fn bit(signal: i32) -> u64 {
    u32::try_from(signal).ok().and_then(|signal| 1_u64.checked_shl(signal)).unwrap_or(0)
}

/// Signals that make a process stand still, if it does nothing about it: TSTP, TTIN, TTOU.
pub(crate) fn is_terminal_stop(signal: i32) -> bool {
    matches!(signal, 20..=22)
}

/// Signals that do nothing to a process that did not ask for them: 0, CHLD, CONT, URG, WINCH.
pub(crate) fn is_harmless(signal: i32) -> bool {
    matches!(signal, 0 | 17 | 18 | 23 | 28)
}
