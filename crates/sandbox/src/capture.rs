//! Keeping the head and the tail of a stream.

use bytes::{Bytes, BytesMut};
use sandbox_core::Captured;
use std::collections::VecDeque;

/// One stream on its way into memory, within a limit.
#[derive(Default)]
pub(crate) struct Capture {
    head_limit: usize,
    tail_limit: usize,
    /// The only piece so far: most commands write one, which need not be copied.
    first: Bytes,
    head: BytesMut,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { head_limit: limit - limit / 2, tail_limit: limit / 2, ..Self::default() }
    }

    pub(crate) fn add(&mut self, mut piece: Bytes) {
        if self.first.is_empty() && self.head.is_empty() && piece.len() <= self.head_limit {
            self.first = piece;
            return;
        }
        if self.head.is_empty() {
            self.head.extend_from_slice(&std::mem::take(&mut self.first));
        }
        let into_head = piece.len().min(self.head_limit - self.head.len());
        self.head.extend_from_slice(&piece.split_to(into_head));
        if piece.is_empty() {
            return;
        }
        // What would push itself out is not taken in at all.
        let skip = piece.len().saturating_sub(self.tail_limit);
        let piece = &piece[skip..];
        let push_out = (self.tail.len() + piece.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..push_out);
        self.tail.extend(piece);
        self.dropped += (skip + push_out) as u64;
    }

    /// What there is by now.
    pub(crate) fn finish(&mut self) -> Captured {
        let this = std::mem::take(self);
        if !this.first.is_empty() {
            return Captured::whole(this.first);
        }
        let mut head = this.head;
        let (a, b) = this.tail.as_slices();
        if this.dropped == 0 {
            head.extend_from_slice(a);
            head.extend_from_slice(b);
            return Captured::whole(head.freeze());
        }
        Captured::cut(head.freeze(), Bytes::from([a, b].concat()), this.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: u64, pieces: &[&'static [u8]]) -> Captured {
        let mut capture = Capture::new(limit);
        pieces.iter().for_each(|piece| capture.add(Bytes::from_static(piece)));
        capture.finish()
    }

    #[test]
    fn within_the_limit_nothing_is_lost() {
        for pieces in [&[&b"abcdefghij"[..]][..], &[b"abc", b"defgh", b"ij"], &[b"a", b"", b"bcdefghij"]] {
            assert_eq!(captured(10, pieces), Captured::whole("abcdefghij"));
        }
        assert_eq!(captured(10, &[]), Captured::default());
    }

    #[test]
    fn beyond_it_head_and_tail_stay_and_the_rest_is_counted() {
        for pieces in [&[&b"abcdefghijk"[..]][..], &[b"abc", b"defgh", b"ijk"], &[b"abcdef", b"ghij", b"k"]] {
            assert_eq!(captured(4, pieces), Captured::cut("ab", "jk", 7));
        }
        assert_eq!(captured(1, &[b"ab", b"c"]), Captured::cut("a", "", 2));
        let (mut capture, total) = (Capture::new(1000), 100_000u64);
        (0..total).for_each(|i| capture.add(Bytes::copy_from_slice(&[(i % 251) as u8])));
        let got = capture.finish();
        assert_eq!(got.head.len() as u64 + got.tail.len() as u64 + got.dropped, total);
        assert_eq!(got.tail.last(), Some(&(((total - 1) % 251) as u8)));
    }
}
