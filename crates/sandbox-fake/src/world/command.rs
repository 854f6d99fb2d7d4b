//! A command: one program that the user started, and all that descends from it.

use super::{After, Key, pipe::CAPACITY, terminal::Terminal};
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
    pub(crate) terminal: Option<Terminal>,
    /// Its deadline, and TERM before that.
    pub(crate) timers: Vec<Key>,
    /// Who is ending it.
    pub(crate) cause: Option<Cause>,
    /// One of its processes met the memory cap.
    pub(crate) out_of_memory: bool,
    pub(crate) output: Output,
}

/// What it writes, in the order in which it is written; its end has its place in between. Each of those who watch has a queue
/// of his own, and the slowest of them sets the pace. With nobody there, what is written goes nowhere.
#[derive(Debug)]
pub(crate) struct Output {
    watchers: Vec<Watcher>,
    /// Names watchers.
    number: u64,
    /// Ends held by processes.
    writers: usize,
    blocked: [Vec<Waker>; 2],
}

#[derive(Debug, Default)]
struct Watcher {
    number: u64,
    queue: VecDeque<Item>,
    held: [usize; 2],
    reader: Option<Waker>,
}

#[derive(Debug)]
enum Item {
    Piece(Stream, BytesMut),
    Ended(Ended),
}

/// Whoever started the command watches it.
impl Default for Output {
    fn default() -> Self {
        Self { watchers: vec![Watcher::default()], number: 0, writers: 0, blocked: Default::default() }
    }
}

impl Output {
    /// One more who watches, from now on; his number.
    pub(crate) fn watch(&mut self, ended: Option<Ended>) -> u64 {
        self.number += 1;
        let queue = ended.map(Item::Ended).into_iter().collect();
        self.watchers.push(Watcher { number: self.number, queue, ..Watcher::default() });
        self.number
    }

    pub(crate) fn add_writer(&mut self) {
        self.writers += 1;
    }

    pub(crate) fn drop_writer(&mut self, after: &mut After) {
        self.writers -= 1;
        if self.writers == 0 {
            self.tell(after);
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        stream: Stream,
        data: &mut Bytes,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<()> {
        let Some(held) = self.watchers.iter().map(|watcher| watcher.held[stream as usize]).max() else {
            return Poll::Ready(());
        };
        let room = CAPACITY.saturating_sub(held).min(data.len());
        if room > 0 {
            self.push(stream, &data.split_to(room), after);
        }
        if data.is_empty() {
            return Poll::Ready(());
        }
        self.blocked[stream as usize].push(cx.waker().clone());
        Poll::Pending
    }

    /// Takes a piece whole, however long it is.
    pub(crate) fn push(&mut self, stream: Stream, data: &[u8], after: &mut After) {
        if data.is_empty() {
            return;
        }
        for watcher in &mut self.watchers {
            watcher.held[stream as usize] += data.len();
            match watcher.queue.back_mut() {
                Some(Item::Piece(last, piece)) if *last == stream && piece.len() + data.len() <= PIECE => {
                    piece.extend_from_slice(data);
                }
                _ => watcher.queue.push_back(Item::Piece(stream, BytesMut::from(data))),
            }
        }
        self.tell(after);
    }

    pub(crate) fn end(&mut self, ended: Ended, after: &mut After) {
        self.watchers.iter_mut().for_each(|watcher| watcher.queue.push_back(Item::Ended(ended)));
        self.tell(after);
    }

    /// The next event of one who watches; `None` once nobody can write any more.
    pub(crate) fn pop(
        &mut self,
        number: u64,
        running: bool,
        waker: Option<&Waker>,
        after: &mut After,
    ) -> Poll<Option<Event>> {
        let Some(watcher) = self.watchers.iter_mut().find(|watcher| watcher.number == number) else {
            return Poll::Ready(None);
        };
        match watcher.queue.pop_front() {
            Some(Item::Piece(stream, piece)) => {
                watcher.held[stream as usize] -= piece.len();
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
                watcher.reader = waker.cloned();
                Poll::Pending
            }
        }
    }

    /// One of those who watch looks no more; nobody is stopped by that.
    pub(crate) fn leave(&mut self, number: u64, after: &mut After) {
        self.watchers.retain(|watcher| watcher.number != number);
        self.blocked.iter_mut().for_each(|blocked| after.wakers.append(blocked));
    }

    /// Nobody will look any more.
    pub(crate) fn ignore(&mut self, after: &mut After) {
        self.watchers.clear();
        self.blocked.iter_mut().for_each(|blocked| after.wakers.append(blocked));
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.watchers.is_empty()
    }

    /// A process waits for somebody to take what it writes.
    pub(crate) fn waits_for_outside(&self) -> bool {
        self.blocked.iter().any(|blocked| !blocked.is_empty())
    }

    fn tell(&mut self, after: &mut After) {
        after.wakers.extend(self.watchers.iter_mut().filter_map(|watcher| watcher.reader.take()));
    }
}
