//! A stream within a limit.

use bytes::Bytes;
use std::collections::VecDeque;

/// Passes the first half of a limit on as it comes, keeps the last half for the end, and counts what is between.
#[derive(Debug)]
pub(crate) struct Bound {
    /// How much more may be passed on at once; `None` is everything.
    head: Option<u64>,
    tail: VecDeque<u8>,
    most: usize,
    seen: u64,
    dropped: u64,
}

impl Bound {
    /// At most `limit` bytes; `None` is no limit.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let tail = limit.map_or(0, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
        let head = limit.map(|limit| limit - limit / 2);
        Self { head, tail: VecDeque::new(), most: tail, seen: 0, dropped: 0 }
    }

    /// Takes what came, gives what is to be passed on now.
    pub(crate) fn push(&mut self, mut bytes: Bytes) -> Bytes {
        self.seen += bytes.len() as u64;
        let Some(head) = &mut self.head else { return bytes };
        let now = bytes.split_to(bytes.len().min(usize::try_from(*head).unwrap_or(usize::MAX)));
        *head -= now.len() as u64;
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(self.most);
        self.tail.drain(..over);
        self.dropped += over as u64;
        now
    }

    /// What was kept for the end.
    pub(crate) fn rest(&mut self) -> Bytes {
        Vec::from(std::mem::take(&mut self.tail)).into()
    }

    /// How many bytes came.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// How many of them were not passed on.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(limit: Option<u64>, chunks: &[&'static [u8]]) -> (Vec<u8>, Vec<u8>, u64) {
        let mut bound = Bound::new(limit);
        let head = chunks.iter().flat_map(|chunk| bound.push(Bytes::from_static(chunk))).collect();
        let rest = bound.rest().to_vec();
        (head, rest, bound.dropped())
    }

    #[test]
    fn head_and_tail_stay_and_the_middle_is_counted() {
        assert_eq!(through(None, &[b"abc", b"def"]), (b"abcdef".to_vec(), Vec::new(), 0));
        assert_eq!(through(Some(4), &[b"abc", b"def"]), (b"ab".to_vec(), b"ef".to_vec(), 2));
        assert_eq!(through(Some(4), &[b"a", b"b", b"c", b"d"]), (b"ab".to_vec(), b"cd".to_vec(), 0));
        assert_eq!(through(Some(1), &[b"abc"]), (b"a".to_vec(), Vec::new(), 2));
        assert_eq!(through(Some(6), &[b"ab"]), (b"ab".to_vec(), Vec::new(), 0));
    }
}
