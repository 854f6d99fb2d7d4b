//! Which commands a scripted reply is for.

use super::{Reply, RunCall};
use sandbox_core::{Error, ErrorKind};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// Which commands a [`Reply`] is for. An array of words is a whole command line: `["git", "status"]`.
#[derive(Clone)]
pub struct On {
    what: What,
    times: Option<usize>,
}

type Predicate = Arc<dyn Fn(&RunCall) -> bool + Send + Sync>;

#[derive(Clone)]
enum What {
    Any,
    Argv(Vec<String>),
    Program(String),
    Prefix(Vec<String>),
    Shell(String),
    When(Predicate),
}

impl On {
    /// Every command.
    pub fn any() -> Self {
        Self::of(What::Any)
    }

    /// The command with exactly this command line.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(What::Argv(argv.into_iter().map(Into::into).collect()))
    }

    /// Commands of this program, named as given or by the last part of its path.
    pub fn program(name: impl Into<String>) -> Self {
        Self::of(What::Program(name.into()))
    }

    /// Commands whose command line begins with these words.
    pub fn prefix(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(What::Prefix(argv.into_iter().map(Into::into).collect()))
    }

    /// The shell form with exactly this text, as `Command::shell` makes it, whatever arguments follow.
    pub fn shell(text: impl Into<String>) -> Self {
        Self::of(What::Shell(text.into()))
    }

    /// Commands for which the closure says yes.
    pub fn when(is_it: impl Fn(&RunCall) -> bool + Send + Sync + 'static) -> Self {
        Self::of(What::When(Arc::new(is_it)))
    }

    /// Replies so many times; what comes later is for the rules after this one. `World::unmet` names a rule that was not used
    /// so often.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Replies once.
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn of(what: What) -> Self {
        Self { what, times: None }
    }

    fn matches(&self, call: &RunCall) -> bool {
        let argv = &call.argv;
        match &self.what {
            What::Any => true,
            What::Argv(all) => argv == all,
            What::Program(name) => argv.first().is_some_and(|first| first == name || base(first) == name),
            What::Prefix(start) => argv.starts_with(start),
            What::Shell(text) => {
                matches!(argv.as_slice(), [shell, option, script, ..]
                    if matches!(base(shell), "sh" | "bash") && option == "-c" && script == text)
            }
            What::When(is_it) => is_it(call),
        }
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for On {
    fn from(argv: [T; N]) -> Self {
        Self::argv(argv)
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Any => f.write_str("any command"),
            What::Argv(argv) => write!(f, "{argv:?}"),
            What::Program(name) => write!(f, "program {name:?}"),
            What::Prefix(argv) => write!(f, "{argv:?} and more"),
            What::Shell(text) => write!(f, "shell {text:?}"),
            What::When(_) => f.write_str("a predicate"),
        }?;
        match self.times {
            Some(times) => write!(f, ", {times} times"),
            None => Ok(()),
        }
    }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// A matcher with its reply, and how often it was used.
#[derive(Debug)]
pub(crate) struct Rule {
    on: On,
    reply: Reply,
    used: AtomicUsize,
}

impl Rule {
    pub(crate) fn new(on: On, reply: Reply) -> Self {
        Self { on, reply, used: AtomicUsize::new(0) }
    }

    /// Uses it once, if it is for this call and not used up. The closures of the test run here, under no lock.
    pub(crate) fn take(&self, call: &RunCall) -> Option<Reply> {
        if !self.on.matches(call) {
            return None;
        }
        let most = self.on.times.unwrap_or(usize::MAX);
        let taken = self.used.fetch_update(SeqCst, SeqCst, |used| (used < most).then(|| used.saturating_add(1)));
        taken.ok().map(|_| self.reply.clone())
    }

    /// What it still waits for, in words.
    pub(crate) fn unmet(&self) -> Option<String> {
        let used = self.used.load(SeqCst);
        self.on.times.filter(|times| used < *times).map(|_| format!("{}: called {used} times", self.on))
    }

    fn told(&self) -> String {
        format!("{} (used {} times)", self.on, self.used.load(SeqCst))
    }
}

/// What was called, and what was expected.
pub(crate) fn unexpected(call: &RunCall, rules: &[Arc<Rule>]) -> Error {
    let expected: Vec<_> = rules.iter().map(|rule| rule.told()).collect();
    let expected = if expected.is_empty() { "no command at all".to_string() } else { expected.join("; ") };
    Error::new(ErrorKind::UnexpectedCall, format!("{:?} was called; expected: {expected}", call.argv))
        .with_hint("add a rule for it with `on_run`, or make the fake without `strict`")
}
