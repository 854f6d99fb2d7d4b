//! What is about the whole process: its threads, its memory. One at a time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, unused_imports, reason = "this binary uses a part of it")]
mod common;

use bytes::Bytes;
use common::{
    Host, ms, runtime,
    scripted::{Script, after, script_of},
    spec, until_blocking,
};
use sandbox::{Body, Chunks, Result};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn no_thread_is_left() {
    let _alone = alone();
    let threads = || -> BTreeSet<OsString> {
        std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = threads();
    let runtime = runtime();
    let (client, _log) = script_of().client();
    runtime.block_on(async { client.create(spec()).await.unwrap().close().await.unwrap() });
    let during: Vec<_> = threads().difference(&before).cloned().collect();
    drop(client);
    let after = threads();
    assert!(during.len() >= 3 && during.iter().all(|thread| !after.contains(thread)), "{during:?} then {after:?}");
}

/// Counts the warnings of one backend.
#[derive(Clone, Default)]
struct Warned(Arc<AtomicUsize>);

impl tracing::Subscriber for Warned {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Left<'a>(&'a AtomicUsize);
        impl tracing::field::Visit for Left<'_> {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if format!("{value:?}").contains("may be left over") {
                    self.0.fetch_add(1, SeqCst);
                }
            }
        }
        event.record(&mut Left(&self.0));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_destroy_longer_than_the_grace_is_finished_or_reported_by_the_engines_own_thread() {
    let _alone = alone();
    let warned = Warned::default();
    tracing::subscriber::set_global_default(warned.clone()).unwrap();
    // Longer than the last handle waits, within what a teardown may take.
    let limits = || common::limits().drop_grace(ms(200));
    let (client, log) = Script { destroy: after(ms(1500), Ok(())), ..script_of() }.limited(limits());
    let sandbox = runtime().block_on(client.create(spec())).unwrap();
    drop(client);
    drop(sandbox);
    assert_eq!((log.count("destroy"), log.count("destroyed")), (1, 0), "it goes on alone");
    until_blocking("it is ended", || log.count("destroyed") == 1);
    until_blocking("the backend goes", || log.count("drop backend") == 1);
    assert_eq!(warned.0.load(SeqCst), 0);
    // Longer than a teardown may take.
    let script = Script { destroy: common::scripted::never(), ..script_of() };
    let (client, log) = script.limited(limits().teardown(ms(800)));
    let sandbox = runtime().block_on(client.create(spec())).unwrap();
    drop(client);
    drop(sandbox);
    until_blocking("it is reported", || warned.0.load(SeqCst) > 0);
    until_blocking("the backend goes", || log.count("drop backend") == 1);
}

/// Half of it is twice what output under way takes at most, with what the allocator keeps beside.
const LARGE: u64 = 128 << 20;

/// How much more memory than now the process needs at most while it works, in bytes.
fn peak(work: impl FnOnce()) -> u64 {
    let read = |field: &str| -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    std::fs::write("/proc/self/clear_refs", "5").unwrap(); // The peak begins anew.
    let before = read("VmRSS:");
    work();
    read("VmHWM:").saturating_sub(before)
}

/// Pieces that differ, so that what arrives can be checked.
struct Pieces(u64);

impl Chunks for Pieces {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let n = self.0;
        self.0 += 1;
        Ok((n < LARGE >> 16).then(|| Bytes::from(vec![(n % 251) as u8; 1 << 16])))
    }
}

#[test]
fn large_files_go_both_ways_at_constant_memory() {
    let _alone = alone();
    let runtime = runtime();
    for trees in [false, true] {
        let host = Host::of(|folder| if trees { folder.trees() } else { folder.files_by_commands() });
        let other = tempfile::tempdir().unwrap();
        let (down, again) = (other.path().join("down"), other.path().join("again"));
        let sandbox = runtime.block_on(host.sandbox());
        let files = sandbox.files();
        let there = std::path::Path::new(sandbox.cwd()).join("large");
        // What code and threads need when they work for the first time is no part of it.
        runtime.block_on(async {
            files.write("small", "small").await.unwrap();
            files.download("small", &down).await.unwrap();
            files.upload_dir(other.path(), "tree").await.unwrap();
            files.download_dir("tree", &again).await.unwrap();
        });
        let used = peak(|| {
            runtime.block_on(async {
                files.write_from("large", Body::new(Some(LARGE), Pieces(0))).await.unwrap();
                files.download("large", &down).await.unwrap();
                files.upload(&down, "again").await.unwrap();
                files.upload_dir(other.path(), "tree").await.unwrap();
                files.download_dir("tree", &again).await.unwrap();
                let (mut body, mut n) = (files.open("again").await.unwrap(), 0u64);
                while let Some(piece) = body.next().await.unwrap() {
                    assert!(piece.iter().zip(n..).all(|(byte, at)| u64::from(*byte) == (at >> 16) % 251));
                    n += piece.len() as u64;
                }
                assert_eq!(n, LARGE);
            });
        });
        assert!(used < LARGE / 2, "{used} bytes, trees {trees}");
        for copy in [down, again.join("down"), there] {
            assert_eq!(std::fs::metadata(&copy).unwrap().len(), LARGE);
            let tail = std::os::unix::fs::FileExt::read_at;
            let mut byte = [0];
            tail(&std::fs::File::open(&copy).unwrap(), &mut byte, LARGE - 1).unwrap();
            assert_eq!(u64::from(byte[0]), ((LARGE - 1) >> 16) % 251);
        }
        // What is held whole shows that the measure sees it.
        assert!(peak(|| drop(runtime.block_on(files.read("again")).unwrap())) > LARGE / 2);
    }
}
