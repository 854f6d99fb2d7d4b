//! What a command wrote.

use crate::{Error, ErrorKind, Result, Status};
use bytes::Bytes;
use std::{borrow::Cow, fmt};

/// One stream of a command, within its output limit: the head and the tail of it, and how much was dropped between.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Captured {
    /// The first bytes.
    pub head: Bytes,
    /// The last bytes; empty unless something was dropped.
    pub tail: Bytes,
    /// How many bytes between head and tail were not kept.
    pub dropped: u64,
}

impl Captured {
    /// A stream of which nothing was dropped.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { head: bytes.into(), ..Self::default() }
    }

    /// A stream of which the middle is missing.
    pub fn cut(head: impl Into<Bytes>, tail: impl Into<Bytes>, dropped: u64) -> Self {
        Self { head: head.into(), tail: tail.into(), dropped }
    }

    /// What was kept, as one piece: head and tail run together, without a mark where bytes are missing.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(&self.head)
        } else {
            Cow::Owned([&self.head[..], &self.tail[..]].concat())
        }
    }

    /// What was kept, as text; bytes that are not UTF-8 are replaced, and a mark stands where bytes are missing.
    pub fn text(&self) -> Cow<'_, str> {
        if self.dropped == 0 {
            return String::from_utf8_lossy(&self.head);
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        Cow::Owned(format!("{head}\n[{} bytes dropped]\n{tail}", self.dropped))
    }
}

/// The beginning and the end as text; what is between them, and what was dropped, as numbers.
impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.bytes();
        let mut s = f.debug_struct("Captured");
        if all.len() <= 2 * SHOWN {
            s.field("text", &String::from_utf8_lossy(&all));
        } else {
            s.field("begins", &String::from_utf8_lossy(&all[..SHOWN]));
            s.field("ends", &String::from_utf8_lossy(&all[all.len() - SHOWN..]));
            s.field("bytes", &all.len());
        }
        if self.dropped > 0 {
            s.field("dropped", &self.dropped);
        }
        s.finish()
    }
}

/// Bytes of each end that `Debug` shows.
const SHOWN: usize = 2 << 10;

/// What a command wrote before it failed to end by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialOutput {
    /// Its stdout so far.
    pub stdout: Captured,
    /// Its stderr so far.
    pub stderr: Captured,
}

impl PartialOutput {
    /// Both streams.
    pub fn new(stdout: Captured, stderr: Captured) -> Self {
        Self { stdout, stderr }
    }
}

/// A command that ended by itself. A code other than zero is data, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Output {
    /// What it wrote to stdout.
    pub stdout: Captured,
    /// What it wrote to stderr.
    pub stderr: Captured,
    /// How it ended.
    pub status: Status,
}

impl Output {
    /// An output of these parts.
    pub fn new(status: Status, stdout: Captured, stderr: Captured) -> Self {
        Self { stdout, stderr, status }
    }

    /// Whether it ended with code zero.
    pub fn success(&self) -> bool {
        self.status == Status::Code(0)
    }

    /// The exit code; 128 and the signal's number for a death by signal, as shells count.
    pub fn code(&self) -> i32 {
        self.status.as_code()
    }

    /// The output itself if the command ended with code zero.
    ///
    /// # Errors
    ///
    /// `non-zero-exit`, which holds the output.
    pub fn check(self) -> Result<Self> {
        if self.success() {
            return Ok(self);
        }
        let error = Error::new(ErrorKind::NonZeroExit, format!("the command ended with {}", self.status));
        let error = error.with_hint("what it wrote is in `Error::output`");
        Err(error.with_output(PartialOutput::new(self.stdout, self.stderr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_ends_of_much_output() {
        let shown = format!("{:?}", Captured::cut(vec![b'a'; 3 << 20], "tail", 24));
        assert!(shown.len() < 10_000 && shown.contains("tail") && shown.contains("24"), "{} bytes", shown.len());
        assert_eq!(format!("{:?}", Captured::whole("a\n")), "Captured { text: \"a\\n\" }");
    }

    #[test]
    fn check_keeps_the_output() {
        let output = Output::new(Status::Code(3), Captured::whole("out"), Captured::cut("a", "z", 24));
        let error = output.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NonZeroExit);
        let partial = error.output().unwrap();
        assert_eq!((&*partial.stdout.bytes(), &*partial.stderr.bytes()), (&b"out"[..], &b"az"[..]));
        assert_eq!(partial.stderr.text(), "a\n[24 bytes dropped]\nz");
    }
}
