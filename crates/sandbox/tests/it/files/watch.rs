//! Changes of files on their way to whoever watches.

use crate::common::{
    scripted::{Log, Script, hook, script_of},
    spec, until,
};
use sandbox::{Capability, Change, ChangeKind, ErrorKind, Files, Result, WatchDir};
use sandbox_core::{ChangeSource, Changes};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// Tells of so many files, then does what it was made for.
#[derive(Clone)]
struct Many {
    left: usize,
    then: Then,
    told: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

#[derive(Clone, Copy)]
enum Then {
    Silence,
    End,
    Fail,
    Panic,
}

impl ChangeSource for Many {
    async fn next(&mut self) -> Result<Option<Change>> {
        if self.left > 0 {
            self.left -= 1;
            let number = self.told.fetch_add(1, SeqCst);
            return Ok(Some(Change::new(ChangeKind::Created, format!("/x/{number}"))));
        }
        match self.then {
            Then::Silence => pending().await,
            Then::End => Ok(None),
            Then::Fail => Err(sandbox::Error::new(ErrorKind::ConnectionLost, "scripted")),
            Then::Panic => panic!("adapter bug"),
        }
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
    }
}

fn many(left: usize, then: Then) -> Many {
    Many { left, then, told: Arc::default(), dropped: Arc::default() }
}

async fn watched(source: Many) -> (Files, Log) {
    let watch = hook(move |()| {
        let source = source.clone();
        async move { Ok(Changes::new(source)) }
    });
    let (client, log) = Script { watch, ..script_of() }.having([Capability::Watch, Capability::Files]).client();
    (client.create(spec()).await.unwrap().files(), log)
}

#[tokio::test]
async fn a_late_reader_is_told_that_something_was_lost_and_where() {
    let source = many(5000, Then::Silence);
    let told = Arc::clone(&source.told);
    let (files, _log) = watched(source).await;
    let mut watcher = files.watch(WatchDir::new("x")).await.unwrap();
    until("all is told, although nobody reads", || told.load(SeqCst) == 5000).await;
    for number in 0..1024 {
        assert_eq!(watcher.next().await.unwrap().unwrap(), Change::new(ChangeKind::Created, format!("/x/{number}")));
    }
    assert_eq!(watcher.next().await.unwrap().unwrap(), Change::new(ChangeKind::Overflow, "/x"));
    let more = tokio::time::timeout(crate::common::ms(200), watcher.next()).await;
    assert!(more.is_err(), "one mark stands for all that was lost: {more:?}");
}

#[tokio::test]
async fn a_reader_who_keeps_up_is_told_of_everything() {
    let (files, _log) = watched(many(1000, Then::End)).await;
    let mut watcher = files.watch(WatchDir::new("/x")).await.unwrap();
    for number in 0..1000 {
        assert_eq!(watcher.next().await.unwrap().unwrap().path, format!("/x/{number}"));
    }
    assert_eq!((watcher.next().await.unwrap(), watcher.next().await.unwrap()), (None, None));
}

#[tokio::test]
async fn what_breaks_a_watch_is_told_once() {
    for (then, kind) in [(Then::Fail, ErrorKind::ConnectionLost), (Then::Panic, ErrorKind::Internal)] {
        let (files, _log) = watched(many(1, then)).await;
        let mut watcher = files.watch(WatchDir::new("/x")).await.unwrap();
        assert_eq!(watcher.next().await.unwrap().unwrap().kind, ChangeKind::Created);
        let error = watcher.next().await.unwrap_err();
        assert_eq!((error.kind(), error.operation(), error.backend()), (kind, Some("files.watch"), Some("scripted")));
        assert_eq!(watcher.next().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_watcher_does_not_keep_its_sandbox_and_ends_with_it() {
    let source = many(1, Then::Silence);
    let dropped = Arc::clone(&source.dropped);
    let (files, log) = watched(source).await;
    let mut watcher = files.watch(WatchDir::new("/x")).await.unwrap();
    assert_eq!(watcher.next().await.unwrap().unwrap().path, "/x/0");
    drop(files);
    assert_eq!(watcher.next().await.unwrap_err().kind(), ErrorKind::Gone);
    until("the sandbox is destroyed", || log.count("destroyed") == 1).await;
    until("the source is dropped", || dropped.load(SeqCst) > 0).await;
}

#[tokio::test]
async fn a_watcher_that_is_dropped_ends_its_source() {
    let source = many(1, Then::Silence);
    let dropped = Arc::clone(&source.dropped);
    let (files, _log) = watched(source).await;
    let watcher = files.watch(WatchDir::new("/x")).await.unwrap();
    let before = dropped.load(SeqCst);
    drop(watcher);
    until("the source is dropped", || dropped.load(SeqCst) == before + 1).await;
}
