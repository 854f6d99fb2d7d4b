//! Whoever watches a directory of these files.

use super::{
    Tree,
    tree::{Ino, Spot},
};
use crate::world::lock;
use sandbox_core::{Change, ChangeKind};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// Changes that are kept for whoever takes none.
const KEPT: usize = 1024;

/// All who watch the files of one sandbox; copies of the files are watched by nobody.
#[derive(Debug, Default)]
pub(crate) struct Watches(Vec<Watch>);

impl Clone for Watches {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Debug)]
struct Watch {
    directory: Ino,
    /// As it was asked for.
    path: String,
    recursive: bool,
    queue: Arc<Mutex<Queue>>,
}

/// What one of them has not taken yet. Its lock is the last of all that are held.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    changes: VecDeque<Change>,
    /// What stands for changes that were not kept.
    overflow: Option<Change>,
    end: Option<End>,
    reader: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The directory is no more.
    Removed,
    /// The sandbox is no more.
    Gone,
}

impl Watches {
    pub(super) fn add(&mut self, directory: Ino, path: &str, recursive: bool) -> Arc<Mutex<Queue>> {
        let queue = Arc::<Mutex<Queue>>::default();
        self.0.push(Watch { directory, path: path.to_string(), recursive, queue: Arc::clone(&queue) });
        queue
    }

    pub(crate) fn remove(&mut self, queue: &Arc<Mutex<Queue>>) {
        self.0.retain(|watch| !Arc::ptr_eq(&watch.queue, queue));
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn tell(&self, tree: &Tree, spot: &Spot, kind: ChangeKind) {
        for watch in &self.0 {
            if let Some(path) = watch.sees(tree, spot) {
                watch.push(Change::new(kind, path));
            }
        }
    }

    pub(super) fn tell_rename(&self, tree: &Tree, from: &Spot, to: &Spot) {
        for watch in &self.0 {
            match (watch.sees(tree, from), watch.sees(tree, to)) {
                (Some(from), Some(to)) => watch.push(Change::renamed(from, to)),
                (Some(from), None) => watch.push(Change::new(ChangeKind::Removed, from)),
                (None, Some(to)) => watch.push(Change::new(ChangeKind::Created, to)),
                (None, None) => {}
            }
        }
    }

    /// Ends those whose directory is no more, before its number means another one.
    pub(super) fn end_missing(&mut self, tree: &Tree) {
        self.0.retain(|watch| {
            let there = tree.is_there(watch.directory);
            if !there {
                watch.push(Change::new(ChangeKind::Removed, watch.path.clone()));
                lock(&watch.queue).end(End::Removed);
            }
            there
        });
    }

    /// The sandbox is no more.
    pub(crate) fn end(&mut self) {
        self.0.drain(..).for_each(|watch| lock(&watch.queue).end(End::Gone));
    }
}

impl Watch {
    /// The path of what is at a spot, where that is watched.
    fn sees(&self, tree: &Tree, spot: &Spot) -> Option<String> {
        let at = spot.way.iter().position(|directory| *directory == self.directory)?;
        if at + 1 < spot.way.len() && !self.recursive {
            return None;
        }
        let mut path = self.path.trim_end_matches('/').to_string();
        for pair in spot.way[at..].windows(2) {
            let name = tree.entries(pair[0])?.iter().find(|(_, ino)| **ino == pair[1])?.0;
            path.push('/');
            path.push_str(name);
        }
        Some(format!("{path}/{}", spot.name))
    }

    fn push(&self, change: Change) {
        let mut queue = lock(&self.queue);
        if queue.overflow.is_some() {
            return;
        }
        if queue.changes.len() < KEPT {
            queue.changes.push_back(change);
        } else {
            queue.overflow = Some(Change::new(ChangeKind::Overflow, self.path.clone()));
        }
        queue.tell();
    }
}

impl Queue {
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Change, End>> {
        let next = self.changes.pop_front().or_else(|| self.overflow.take());
        match (next, self.end) {
            (Some(change), _) => Poll::Ready(Ok(change)),
            (None, Some(end)) => Poll::Ready(Err(end)),
            (None, None) => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn end(&mut self, end: End) {
        self.end = Some(end);
        self.tell();
    }

    /// The waker is of an engine, which polls nothing here and now.
    fn tell(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
