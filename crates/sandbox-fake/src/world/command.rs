//! A command: one program that the user started, and all that descends from it.

use super::{After, Key, pipe::CAPACITY};
use bytes::{Bytes, BytesMut};
use sandbox_core::{Cause, Ended, Event};
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

/// Pieces up to this size are run together while nobody has taken them.
const PIECE: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// The process that the user started.
    pub(crate) main: u32,
    /// Whether that process lives.
    pub(crate) running: bool,
    /// How many of its processes live.
    pub(crate) processes: usize,
    /// The pipe that its input comes through.
    pub(crate) stdin: Option<u64>,
    /// Its deadline, and TERM before that.
    pub(crate) timers: Vec<Key>,
    /// Who is ending it.
    pub(crate) cause: Option<Cause>,
    /// One of its processes met the memory cap.
    pub(crate) out_of_memory: bool,
    pub(crate) output: Output,
}

/// What it writes, in the order in which it is written; its end has its place in between.
#[derive(Debug, Default)]
pub(crate) struct Output {
    queue: VecDeque<Item>,
    held: [usize; 2],
    /// Ends held by processes.
    writers: usize,
    /// Nobody looks any more: what is written goes nowhere.
    ignored: bool,
    reader: Option<Waker>,
    blocked: [Vec<Waker>; 2],
}

#[derive(Debug)]
enum Item {
    Piece(Stream, BytesMut),
    Ended(Ended),
}

impl Output {
    pub(crate) fn add_writer(&mut self) {
        self.writers += 1;
    }

    pub(crate) fn drop_writer(&mut self, after: &mut After) {
        self.writers -= 1;
        if self.writers == 0 {
            after.wakers.extend(self.reader.take());
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        stream: Stream,
        data: &mut Bytes,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<()> {
        if self.ignored {
            return Poll::Ready(());
        }
        let held = &mut self.held[stream as usize];
        let room = CAPACITY.saturating_sub(*held).min(data.len());
        if room > 0 {
            *held += room;
            let data = data.split_to(room);
            match self.queue.back_mut() {
                Some(Item::Piece(last, piece)) if *last == stream && piece.len() + room <= PIECE => {
                    piece.extend_from_slice(&data);
                }
                _ => self.queue.push_back(Item::Piece(stream, BytesMut::from(data))),
            }
            after.wakers.extend(self.reader.take());
        }
        if data.is_empty() {
            return Poll::Ready(());
        }
        self.blocked[stream as usize].push(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn end(&mut self, ended: Ended, after: &mut After) {
        if !self.ignored {
            self.queue.push_back(Item::Ended(ended));
        }
        after.wakers.extend(self.reader.take());
    }

    /// The next event; `None` once nobody can write any more.
    pub(crate) fn pop(&mut self, running: bool, waker: Option<&Waker>, after: &mut After) -> Poll<Option<Event>> {
        match self.queue.pop_front() {
            Some(Item::Piece(stream, piece)) => {
                self.held[stream as usize] -= piece.len();
                after.wakers.append(&mut self.blocked[stream as usize]);
                let piece = piece.freeze();
                Poll::Ready(Some(match stream {
                    Stream::Stdout => Event::Stdout(piece),
                    Stream::Stderr => Event::Stderr(piece),
                }))
            }
            Some(Item::Ended(ended)) => Poll::Ready(Some(Event::Ended(ended))),
            None if !running && self.writers == 0 => Poll::Ready(None),
            None => {
                self.reader = waker.cloned();
                Poll::Pending
            }
        }
    }

    /// Nobody will look any more; nobody is stopped by that.
    pub(crate) fn ignore(&mut self, after: &mut After) {
        self.ignored = true;
        self.queue.clear();
        self.reader = None;
        self.blocked.iter_mut().for_each(|blocked| after.wakers.append(blocked));
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.ignored
    }

    /// A process waits for somebody to take what it writes.
    pub(crate) fn waits_for_outside(&self) -> bool {
        self.blocked.iter().any(|blocked| !blocked.is_empty())
    }
}
