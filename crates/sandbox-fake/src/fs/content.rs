//! The bytes of a file.

use bytes::{Bytes, BytesMut};

/// Pieces up to this size are run together, so that many small writes do not become many pieces.
const PIECE: usize = 16 << 10;

/// The bytes of a file, in pieces that are shared with whoever reads or wrote them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pieces: Vec<Bytes>,
    len: u64,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.len += piece.len() as u64;
        match self.pieces.last_mut() {
            Some(last) if last.len() + piece.len() <= PIECE => {
                let mut joined = BytesMut::with_capacity((last.len() + piece.len()).next_power_of_two());
                joined.extend_from_slice(last);
                joined.extend_from_slice(&piece);
                *last = joined.freeze();
            }
            _ => self.pieces.push(piece),
        }
    }

    /// The pieces of a range, without a copy; what lies beyond the end is left out.
    pub(crate) fn range(&self, offset: u64, length: Option<u64>) -> Self {
        let (mut skip, mut left) = (offset, length.unwrap_or(u64::MAX));
        let mut range = Self::default();
        for piece in &self.pieces {
            let len = piece.len() as u64;
            if skip >= len {
                skip -= len;
                continue;
            }
            let take = (len - skip).min(left);
            if take == 0 {
                break;
            }
            // Both fit: they are at most the length of a piece in memory.
            range.pieces.push(piece.slice(skip as usize..(skip + take) as usize));
            range.len += take;
            (skip, left) = (0, left - take);
        }
        range
    }

    /// Everything as one piece; a copy only where there are several.
    pub(crate) fn whole(&self) -> Bytes {
        match &self.pieces[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }

    pub(crate) fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }
}

impl From<Bytes> for Content {
    fn from(all: Bytes) -> Self {
        let mut content = Self::default();
        content.push(all);
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_pieces_and_stop_at_the_end() {
        let mut content = Content::default();
        for byte in [b'a', b'b', b'c'] {
            content.push(vec![byte; PIECE].into());
        }
        assert_eq!(content.pieces.len(), 3);
        let range = content.range(PIECE as u64 - 1, Some(PIECE as u64 + 2)).whole();
        assert_eq!((range.len(), range[0], range[1], range[range.len() - 1]), (PIECE + 2, b'a', b'b', b'c'));
        assert_eq!(content.range(content.len(), None).len(), 0);
        assert_eq!(content.range(content.len() - 1, Some(9)).whole(), "c");
    }

    #[test]
    fn small_writes_run_together() {
        let mut content = Content::default();
        (0..10_000).for_each(|_| content.push(Bytes::from_static(b"xy")));
        assert_eq!((content.len(), content.pieces.len()), (20_000, 2));
    }
}
