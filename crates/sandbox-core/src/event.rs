//! What a running command reports.

use crate::Error;
use bytes::Bytes;
use std::fmt;

/// One report of a running command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Bytes of its stdout.
    Stdout(Bytes),
    /// Bytes of its stderr.
    Stderr(Bytes),
    /// Exactly one, after all that the program itself wrote. Output of processes that outlive it may follow.
    Ended(Ended),
    /// Instead of `Ended`, and the last event: it never ran, so there is nothing to kill.
    NotStarted(Error),
}

/// How a command ended. A deadline enforced inside is a cause here, not a signal that the program died of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Exit code or signal.
    pub status: Status,
    /// By whose doing.
    pub cause: Cause,
}

impl Ended {
    /// An end with its cause.
    pub fn new(status: Status, cause: Cause) -> Self {
        Self { status, cause }
    }

    /// The program's own end.
    pub fn program(status: Status) -> Self {
        Self::new(status, Cause::Program)
    }
}

/// An exit code or a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The program's exit code. Without `SIGNAL_STATUS`, a death by signal `n` is code `128 + n`.
    Code(i32),
    /// The number of the signal that the program died of. Only where `SIGNAL_STATUS` is declared.
    Signal(i32),
}

impl Status {
    /// One number for both, as shells count: the code, or 128 and the signal.
    pub fn as_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// By whose doing a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Its own.
    Program,
    /// The deadline inside the sandbox.
    Deadline,
    /// A kill that the adapter was asked for.
    Killed,
    /// The memory cap.
    OutOfMemory,
}

/// What is known of a command's processes after an end that was not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// Their death was seen. It says nothing of the sandbox: see [`Capability::KillOne`](crate::Capability::KillOne).
    Dead,
    /// They may still run.
    Unknown,
}
