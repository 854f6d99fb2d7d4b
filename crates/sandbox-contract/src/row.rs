//! A row of the suite and how it can end.

use crate::{Ctx, subject::Make};
use sandbox_core::{Capability, Error, ErrorKind};
use std::{fmt, future::Future, panic::Location, pin::Pin};

/// One claim of the contract, and the code that proves or refutes it on a backend.
///
/// A row is data: it is listed without running anything. [`rows`](crate::rows) has them all.
pub struct Row {
    name: &'static str,
    needs: &'static [Capability],
    serial: bool,
    provisions: bool,
    facade: bool,
    edition: u32,
    limit: u64,
    body: Body,
}

/// What a row does.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Row(RowFn),
    /// About the suite's expression itself, so it runs also where that has no backend to give.
    Expression(fn(&Make) -> Done),
}

/// What the body of a row answers.
pub(crate) type Done = Result<(), Stop>;

/// The body of a row.
pub(crate) type RowFn = for<'a> fn(&'a Ctx) -> Pin<Box<dyn Future<Output = Done> + 'a>>;

impl Row {
    /// An always row of the first edition that makes sandboxes; usually written as [`row!`](crate::row).
    pub(crate) const fn new(name: &'static str, run: RowFn) -> Self {
        Self {
            name,
            needs: &[],
            serial: false,
            provisions: true,
            facade: false,
            edition: 1,
            limit: 120,
            body: Body::Row(run),
        }
    }

    /// An always row about the suite's expression.
    pub(crate) const fn expression(name: &'static str, body: fn(&Make) -> Done) -> Self {
        Self {
            name,
            needs: &[],
            serial: false,
            provisions: false,
            facade: false,
            edition: 1,
            limit: 120,
            body: Body::Expression(body),
        }
    }

    /// The capabilities it is about. Where one is absent, the refuses twin runs in its place.
    pub(crate) const fn needs(mut self, needs: &'static [Capability]) -> Self {
        self.needs = needs;
        self
    }

    /// It races time: nothing else of this process runs beside it, and it is listed as `area::claim::serial`.
    pub(crate) const fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// It makes no sandbox, so it runs where no engine is.
    pub(crate) const fn offline(mut self) -> Self {
        self.provisions = false;
        self
    }

    /// No backend can break it, only the facade: a mutation of the facade kills it, in `ci/mutations.toml`.
    pub(crate) const fn facade(mut self) -> Self {
        self.facade = true;
        self
    }

    /// The edition it came with.
    #[cfg_attr(not(test), expect(dead_code, reason = "the suite is in its first edition"))]
    pub(crate) const fn edition(mut self, edition: u32) -> Self {
        self.edition = edition;
        self
    }

    /// How long it may take at most, in seconds, before scaling; 120 unless set.
    pub(crate) const fn limit(mut self, seconds: u64) -> Self {
        self.limit = seconds;
        self
    }

    /// Its name, `area::claim`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its area: the part of its name before `::`.
    pub fn area(&self) -> &'static str {
        self.name.split_once("::").map_or(self.name, |(area, _)| area)
    }

    /// The capabilities it is about; none for an always row.
    pub const fn capabilities(&self) -> &'static [Capability] {
        self.needs
    }

    /// Whether it races time and has to run alone.
    pub const fn is_serial(&self) -> bool {
        self.serial
    }

    /// Whether it runs without an engine.
    pub const fn is_offline(&self) -> bool {
        !self.provisions
    }

    /// Whether only the facade can break it, no backend.
    pub const fn is_facade(&self) -> bool {
        self.facade
    }

    /// The edition of the suite that it came with.
    pub const fn since(&self) -> u32 {
        self.edition
    }

    pub(crate) const fn is_expression(&self) -> bool {
        matches!(self.body, Body::Expression(_))
    }

    pub(crate) const fn seconds(&self) -> u64 {
        self.limit
    }

    pub(crate) const fn body(&self) -> Body {
        self.body
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// Makes a [`Row`] of an `async fn(&Ctx) -> Done`: `row!("area::claim", body)`, setters may follow.
macro_rules! row {
    ($name:literal, $body:path) => {
        $crate::row::Row::new($name, |cx| Box::pin($body(cx)))
    };
}
pub(crate) use row;

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The claim holds.
    Pass,
    /// The claim does not hold.
    Fail,
    /// The backend says that it cannot, and refuses as it has to.
    Absent,
    /// A probe or a positive control is missing, so nothing is known.
    Unproven,
    /// There is no engine or no credential here.
    Unavailable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Absent => "absent",
            Self::Unproven => "unproven",
            Self::Unavailable => "unavailable",
        })
    }
}

/// Why a row stops before its end. `?` makes one of a [`sandbox::Error`], with the place.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    /// The claim does not hold; the text is the evidence.
    Fail(String),
    /// Nothing is known, because of this.
    Unproven(String),
    /// This capability was taken away at run time; its refusal is still to be seen.
    Absent(Capability, String),
    /// The backend cannot, and the row has seen how it refuses.
    Refused(String),
    /// No engine, no credential.
    Unavailable(String),
}

impl Stop {
    #[track_caller]
    pub(crate) fn fail(evidence: impl fmt::Display) -> Self {
        Self::Fail(format!("{evidence}\n  at {}", Location::caller()))
    }

    pub(crate) fn unproven(why: impl Into<String>) -> Self {
        Self::Unproven(why.into())
    }

    /// The same with words in front that say what was under way.
    pub(crate) fn during(self, what: &str) -> Self {
        match self {
            Self::Fail(evidence) => Self::Fail(format!("{what}: {evidence}")),
            other => other,
        }
    }
}

impl From<Error> for Stop {
    #[track_caller]
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::BackendMissing => Self::Unavailable(told(&error)),
            _ => Self::fail(format_args!("unexpected error: {error:?}")),
        }
    }
}

/// An error with its hint, for people.
pub(crate) fn told(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
