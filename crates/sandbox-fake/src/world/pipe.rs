//! A pipe between processes, or from the user to one.

use super::After;
use bytes::{Bytes, BytesMut};
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

/// As on Linux.
pub(crate) const CAPACITY: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Pipe {
    queue: VecDeque<Bytes>,
    held: usize,
    /// Ends held by processes.
    readers: usize,
    writers: usize,
    /// The user may still write.
    outer: bool,
    read_wakers: Vec<Waker>,
    write_wakers: Vec<Waker>,
}

impl Pipe {
    /// The input of a command: what is known, and whether more may come.
    pub(crate) fn input(known: Bytes, more: bool) -> Self {
        let held = known.len();
        let queue = if known.is_empty() { VecDeque::new() } else { [known].into() };
        Self { queue, held, outer: more, ..Self::default() }
    }

    /// From a process to its parent, which holds the other end.
    pub(crate) fn output() -> Self {
        Self { readers: 1, ..Self::default() }
    }

    /// One direction of a connection.
    pub(crate) fn between() -> Self {
        Self { readers: 1, writers: 1, ..Self::default() }
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn has_writers(&self) -> bool {
        self.writers > 0
    }

    /// Lets everybody look again.
    pub(crate) fn wake(&mut self, after: &mut After) {
        after.wakers.append(&mut self.read_wakers);
        after.wakers.append(&mut self.write_wakers);
    }

    /// Someone waits for the user to write.
    pub(crate) fn waits_for_outside(&self) -> bool {
        self.outer && self.queue.is_empty() && !self.read_wakers.is_empty()
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.readers == 0 && self.writers == 0 && !self.outer
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.readers > 0
    }

    pub(crate) fn add_reader(&mut self) {
        self.readers += 1;
    }

    pub(crate) fn add_writer(&mut self) {
        self.writers += 1;
    }

    pub(crate) fn drop_reader(&mut self, after: &mut After) {
        self.readers -= 1;
        if self.readers == 0 {
            self.queue.clear();
            self.held = 0;
            after.wakers.append(&mut self.write_wakers);
        }
    }

    pub(crate) fn drop_writer(&mut self, after: &mut After) {
        self.writers -= 1;
        self.tell_end(after);
    }

    pub(crate) fn close_outer(&mut self, after: &mut After) {
        self.outer = false;
        self.tell_end(after);
    }

    /// At most so many bytes, or what comes up to and with `until`; nothing is the end.
    pub(crate) fn poll_read(
        &mut self,
        most: usize,
        until: Option<u8>,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<Bytes> {
        let taken = match (self.queue.front_mut(), until) {
            (None, _) => Bytes::new(),
            (Some(front), None) => front.split_to(front.len().min(most)),
            (Some(_), Some(end)) => match self.line(end, most) {
                Some(line) => line,
                None => return self.wait_to_read(cx),
            },
        };
        if taken.is_empty() {
            if most == 0 || (self.writers == 0 && !self.outer) {
                return Poll::Ready(taken);
            }
            return self.wait_to_read(cx);
        }
        self.held -= taken.len();
        if self.queue.front().is_some_and(Bytes::is_empty) {
            self.queue.pop_front();
        }
        after.wakers.append(&mut self.write_wakers);
        Poll::Ready(taken)
    }

    /// Takes as much as there is room for. An error is that nobody reads.
    pub(crate) fn poll_write(
        &mut self,
        data: &mut Bytes,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<Result<(), Closed>> {
        if self.readers == 0 {
            return Poll::Ready(Err(Closed));
        }
        let room = CAPACITY.saturating_sub(self.held).min(data.len());
        if room > 0 {
            self.push(data.split_to(room), after);
        }
        if data.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.write_wakers.push(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until nobody reads.
    pub(crate) fn poll_no_readers(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.readers == 0 {
            return Poll::Ready(());
        }
        self.write_wakers.push(cx.waker().clone());
        Poll::Pending
    }

    /// Takes a piece from the user whole, however long it is.
    pub(crate) fn push(&mut self, data: Bytes, after: &mut After) {
        self.held += data.len();
        match self.queue.back_mut() {
            Some(last) if last.len() + data.len() <= 4096 => {
                let mut joined = BytesMut::with_capacity(4096);
                joined.extend_from_slice(last);
                joined.extend_from_slice(&data);
                *last = joined.freeze();
            }
            _ if data.is_empty() => {}
            _ => self.queue.push_back(data),
        }
        after.wakers.append(&mut self.read_wakers);
    }

    /// Waits until there is room for the next piece.
    pub(crate) fn poll_room(&mut self, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        if self.readers == 0 {
            return Poll::Ready(Err(Closed));
        }
        if self.held < CAPACITY {
            return Poll::Ready(Ok(()));
        }
        self.write_wakers.push(cx.waker().clone());
        Poll::Pending
    }

    /// A whole line; at the end of the stream, what there is; `None` where the line may still grow.
    fn line(&mut self, end: u8, most: usize) -> Option<Bytes> {
        let mut length = 0;
        for piece in &self.queue {
            match piece.iter().position(|byte| *byte == end) {
                Some(at) => {
                    length += at + 1;
                    return Some(self.take(length.min(most)));
                }
                None => length += piece.len(),
            }
        }
        let no_more = self.writers == 0 && !self.outer;
        (no_more || length >= most || self.held >= CAPACITY).then(|| self.take(length.min(most)))
    }

    fn take(&mut self, length: usize) -> Bytes {
        match self.queue.front_mut() {
            Some(front) if front.len() >= length => front.split_to(length),
            _ => {
                let mut taken = BytesMut::with_capacity(length);
                while taken.len() < length {
                    let Some(front) = self.queue.front_mut() else { break };
                    taken.extend_from_slice(&front.split_to(front.len().min(length - taken.len())));
                    if front.is_empty() {
                        self.queue.pop_front();
                    }
                }
                taken.freeze()
            }
        }
    }

    fn wait_to_read(&mut self, cx: &Context<'_>) -> Poll<Bytes> {
        self.read_wakers.push(cx.waker().clone());
        Poll::Pending
    }

    fn tell_end(&mut self, after: &mut After) {
        if self.writers == 0 && !self.outer {
            after.wakers.append(&mut self.read_wakers);
        }
    }
}

/// Nobody reads.
#[derive(Debug)]
pub(crate) struct Closed;
