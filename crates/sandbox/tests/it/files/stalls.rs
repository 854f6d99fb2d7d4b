//! Nothing of a transfer waits without a limit, and no transfer keeps others waiting.

use super::{Then, Zeros};
use crate::common::{
    LONG, limits, ms,
    scripted::{Script, hook, script_of},
    spec,
};
use bytes::Bytes;
use sandbox::{Body, Capability, Chunks, ErrorKind, Files, Limits, Result};
use sandbox_core::PutTree;
use std::{future::Future, time::Duration};

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it hangs")
}

/// Single files as trees of one.
async fn of_trees(script: Script, limits: Limits) -> Files {
    let made = Box::new(|made: sandbox_core::Made<_>| made.ids(0, 0));
    let facts = script.facts.clone().emulated(Capability::Files, "by trees of one");
    let (client, log) = Script { facts, made, ..script }.having([Capability::Tree]).limited(limits);
    let files = client.create(spec()).await.unwrap().files();
    std::mem::forget(log);
    files
}

struct Head<C>(Option<Bytes>, C);

impl<C: Chunks> Chunks for Head<C> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        match self.0.take() {
            Some(head) => Ok(Some(head)),
            None => self.1.next().await,
        }
    }
}

/// More than there are threads for work that blocks.
const MANY: usize = 600;

#[tokio::test]
async fn open_bodies_that_nobody_reads_keep_nobody_waiting() {
    const SIZE: u64 = 4 << 20;
    let get_tree = hook(|_| {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..1].copy_from_slice(b"f");
        header.set_size(SIZE);
        header.set_mode(0o644);
        header.set_cksum();
        let head = Some(Bytes::copy_from_slice(header.as_bytes()));
        async move { Ok(Body::new(None, Head(head, Zeros { left: SIZE + 1024, then: Then::End }))) }
    });
    let files = of_trees(Script { get_tree, ..script_of() }, limits()).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(within(files.open("/f")).await.unwrap());
    }
    assert_eq!(within(files.read_range("/f", 7, 3)).await.unwrap(), [0; 3][..]);
    let host = tempfile::tempdir().unwrap();
    within(files.download("/f", host.path().join("f"))).await.unwrap();
    within(files.upload(host.path().join("f"), "/up")).await.unwrap();
    // Those that were waited for go on, too.
    let mut last = open.pop().unwrap();
    let mut got = 0;
    while let Some(piece) = within(last.next()).await.unwrap() {
        got += piece.len() as u64;
    }
    assert_eq!(got, SIZE);
}

#[tokio::test]
async fn uploads_that_begin_together_come_to_an_end() {
    use tokio::sync::Semaphore;
    // All have begun before the first is let through.
    let (arrived, enough) = (std::sync::Arc::new(Semaphore::new(0)), MANY as u32);
    let put_tree = hook(move |(_, mut body): (PutTree, Body)| {
        let arrived = std::sync::Arc::clone(&arrived);
        async move {
            let first = body.next().await?;
            arrived.add_permits(1);
            drop(arrived.acquire_many(enough).await);
            let mut sent = first.map_or(0, |piece| piece.len());
            while let Some(piece) = body.next().await? {
                sent += piece.len();
            }
            assert!(sent > 1_500_000, "{sent}");
            Ok(())
        }
    });
    let files = of_trees(Script { put_tree, ..script_of() }, limits()).await;
    let host = tempfile::tempdir().unwrap();
    std::fs::File::create(host.path().join("f")).unwrap().set_len(1_500_000).unwrap();
    let mut uploads = tokio::task::JoinSet::new();
    for n in 0..MANY {
        let (files, path) = (files.clone(), host.path().join("f"));
        uploads.spawn(async move { files.upload(path, format!("/{n}")).await });
    }
    let all = tokio::time::timeout(LONG * 4, uploads.join_all()).await.expect("they hang");
    for done in all {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_tree_that_does_not_begin_has_a_limit() {
    struct Dripping;
    impl Chunks for Dripping {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            tokio::time::sleep(ms(100)).await;
            Ok(Some(Bytes::from_static(b"x")))
        }
    }
    let get_tree = hook(|_| async { Ok(Body::new(None, Dripping)) });
    let files = of_trees(Script { get_tree, ..script_of() }, limits().operation(ms(700))).await;
    let host = tempfile::tempdir().unwrap();
    assert_eq!(within(files.read("/f")).await.unwrap_err().kind(), ErrorKind::OperationTimeout);
    assert_eq!(within(files.download_dir("/f", host.path())).await.unwrap_err().kind(), ErrorKind::OperationTimeout);
}

#[tokio::test]
async fn pieces_of_nothing_are_no_progress() {
    struct Nothing;
    impl Chunks for Nothing {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            Ok(Some(Bytes::new()))
        }
    }
    let read_file = hook(|_| async { Ok(Body::new(None, Nothing)) });
    let script = Script { read_file, ..script_of() }.having([Capability::Files]);
    let (client, _log) = script.limited(limits().operation(ms(500)));
    let files = client.create(spec()).await.unwrap().files();
    assert_eq!(within(files.read("/f")).await.unwrap_err().kind(), ErrorKind::OperationTimeout);
}

#[tokio::test]
async fn a_receiver_that_gives_its_question_up_stands_still_all_the_same() {
    let write_file = hook(|(_, mut body): (sandbox::WriteFile, Body)| async move {
        let _ = tokio::time::timeout(ms(50), body.next()).await;
        std::future::pending().await
    });
    let script = Script { write_file, ..script_of() }.having([Capability::Files]);
    let (client, _log) = script.limited(limits().operation(ms(500)));
    let files = client.create(spec()).await.unwrap().files();
    let write = files.write_from("/f", Zeros::body(None, 0, Then::Hang));
    assert_eq!(within(write).await.unwrap_err().kind(), ErrorKind::OperationTimeout);
}

#[tokio::test]
async fn a_limit_without_an_end_is_none() {
    let script = Script { made: Box::new(|made| made.ids(0, 0)), ..script_of() };
    let script = script.having([Capability::Files, Capability::Tree]);
    let (client, _log) = script.limited(limits().operation(Duration::MAX));
    let files = client.create(spec()).await.unwrap().files();
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("f"), "x").unwrap();
    within(files.write("/f", "x")).await.unwrap();
    within(files.upload(host.path().join("f"), "/f")).await.unwrap();
    within(files.upload_dir(host.path(), "/d")).await.unwrap();
    within(files.download("/f", host.path().join("f"))).await.unwrap();
}

#[tokio::test]
async fn more_than_was_asked_for_is_an_error() {
    let read_file = hook(|_| async { Ok(Bytes::from_static(b"content").into()) });
    let (client, _log) = Script { read_file, ..script_of() }.having([Capability::Files]).client();
    let files = client.create(spec()).await.unwrap().files();
    assert_eq!(files.read_range("/f", 0, 7).await.unwrap(), "content");
    assert_eq!(files.read_range("/f", 0, 6).await.unwrap_err().kind(), ErrorKind::Protocol);
}

/// The command of a transfer may run for long, and has to start within the limit of one step.
#[tokio::test]
async fn a_command_for_files_that_never_starts_is_no_wait_without_end() {
    let spawn = hook(|_| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let script = Script { spawn, ..script_of() };
    let facts = script.facts.clone().emulated(Capability::Files, "by commands");
    let limits = limits().operation(ms(400));
    let (client, _log) = Script { facts, ..script }.limited(limits);
    for write in [false, true] {
        let files = client.create(spec()).await.unwrap().files();
        let error = match write {
            false => within(files.read("/f")).await.unwrap_err(),
            true => within(files.write("/f", "new")).await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::OperationTimeout, "write {write}: {error:?}");
    }
}
