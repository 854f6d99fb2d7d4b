//! What a scripted command does.

use super::RunCall;
use crate::program::{Proc, Program, program};
use bytes::Bytes;
use sandbox_core::Error;
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// What a scripted command does: it writes, waits by the fake's clock, and ends. It is a process like any other: seen in the
/// process table, killed by deadlines, held back by a reader who does not read.
///
/// Text is a program that writes it to stdout and ends with 0; a number is the exit code of one that says nothing.
#[derive(Clone)]
pub struct Reply(Kind);

#[derive(Clone)]
enum Kind {
    Script(Vec<Step>, End),
    Program(Program),
    Error(Error),
    Of(Arc<dyn Fn(&RunCall) -> Reply + Send + Sync>),
}

#[derive(Debug, Clone)]
enum Step {
    Stdout(Bytes),
    Stderr(Bytes),
    Wait(Duration),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Exit(i32),
    Signal(i32),
    Hang,
}

/// What becomes of a command, decided.
pub(crate) enum Done {
    Runs(Program),
    Fails(Error),
}

impl Reply {
    /// Ends with 0.
    pub fn ok() -> Self {
        Self::exit(0)
    }

    /// Ends with this code.
    pub fn exit(code: i32) -> Self {
        Self(Kind::Script(Vec::new(), End::Exit(code)))
    }

    /// Dies of this signal.
    pub fn signal(number: i32) -> Self {
        Self(Kind::Script(Vec::new(), End::Signal(number)))
    }

    /// Never ends by itself: the way to a timeout.
    pub fn hang() -> Self {
        Self(Kind::Script(Vec::new(), End::Hang))
    }

    /// Cannot be started, with this error; see [`failure`](crate::failure) for the usual ones.
    pub fn error(error: Error) -> Self {
        Self(Kind::Error(error))
    }

    /// Runs a program, as [`Fake::program`](crate::Fake::program) has them.
    pub fn program<F>(run: impl Fn(Proc) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        Self(Kind::Program(program(run)))
    }

    /// Asks the closure, which sees the command as it is recorded.
    pub fn with(reply: impl Fn(&RunCall) -> Self + Send + Sync + 'static) -> Self {
        Self(Kind::Of(Arc::new(reply)))
    }

    /// Then writes to stdout. Only for a reply of steps; on any other this changes nothing.
    pub fn stdout(self, bytes: impl Into<Bytes>) -> Self {
        self.then(Step::Stdout(bytes.into()))
    }

    /// Then writes to stderr. Only for a reply of steps; on any other this changes nothing.
    pub fn stderr(self, bytes: impl Into<Bytes>) -> Self {
        self.then(Step::Stderr(bytes.into()))
    }

    /// Then waits, by the fake's clock. Only for a reply of steps; on any other this changes nothing.
    pub fn wait(self, time: Duration) -> Self {
        self.then(Step::Wait(time))
    }

    fn then(mut self, step: Step) -> Self {
        if let Kind::Script(steps, _) = &mut self.0 {
            steps.push(step);
        }
        self
    }

    pub(crate) fn decide(self, call: &RunCall) -> Done {
        match self.0 {
            Kind::Error(error) => Done::Fails(error),
            Kind::Program(program) => Done::Runs(program),
            Kind::Of(reply) => reply(call).decide(call),
            Kind::Script(steps, end) => Done::Runs(program(move |p| play(p, steps.clone(), end))),
        }
    }
}

async fn play(p: Proc, steps: Vec<Step>, end: End) -> i32 {
    for step in steps {
        match step {
            Step::Stdout(bytes) => p.print(bytes).await,
            Step::Stderr(bytes) => p.eprint(bytes).await,
            Step::Wait(time) => p.sleep(time).await,
        }
    }
    match end {
        End::Exit(code) => code,
        End::Signal(number) => {
            p.raise(number).await;
            128 + number
        }
        End::Hang => {
            p.hang().await;
            0
        }
    }
}

impl From<&'static str> for Reply {
    fn from(text: &'static str) -> Self {
        Self::ok().stdout(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::ok().stdout(text)
    }
}

impl From<i32> for Reply {
    fn from(code: i32) -> Self {
        Self::exit(code)
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::error(error)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Script(steps, end) => f.debug_tuple("Script").field(steps).field(end).finish(),
            Kind::Program(_) => f.write_str("Program(…)"),
            Kind::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Kind::Of(_) => f.write_str("With(…)"),
        }
    }
}
