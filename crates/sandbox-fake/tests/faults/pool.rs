//! Rows mostly wait, so many run at once.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

/// As many as a machine of two processors bears.
const MANY: usize = 24;
/// So few that none of them is late for the others' sake.
const FEW: usize = 6;

/// What the work has to say about each, in any order.
pub(crate) fn each<T: Clone + Send + Sync, R: Send>(all: Vec<T>, work: impl Fn(T) -> Option<R> + Sync) -> Vec<R> {
    by(MANY, all, work)
}

/// The same at leisure.
pub(crate) fn few<T: Clone + Send + Sync, R: Send>(all: Vec<T>, work: impl Fn(T) -> Option<R> + Sync) -> Vec<R> {
    by(FEW, all, work)
}

fn by<T: Clone + Send + Sync, R: Send>(threads: usize, all: Vec<T>, work: impl Fn(T) -> Option<R> + Sync) -> Vec<R> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads.min(all.len()) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, SeqCst)) {
                    if let Some(said) = work(one.clone()) {
                        found.lock().expect("nobody panics here").push(said);
                    }
                }
            });
        }
    });
    found.into_inner().expect("nobody panics here")
}
