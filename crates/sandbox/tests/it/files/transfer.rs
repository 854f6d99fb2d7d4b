//! Single files between host and sandbox.

use super::{WAYS, Way, place, temporaries};
use crate::common::{
    LONG, limits, ms,
    scripted::{Script, hook, never, script_of},
    spec, until,
};
use bytes::Bytes;
use sandbox::{Body, Capability, Chunks, ErrorKind, Result};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

#[tokio::test]
async fn files_go_both_ways_whole() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        let content: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.to_le_bytes()).collect();
        fs::write(host.path().join("up"), &content).unwrap();
        fs::set_permissions(host.path().join("up"), fs::Permissions::from_mode(0o751)).unwrap();
        files.upload(host.path().join("up"), "dir/up").await.unwrap();
        let there = place.dir.join("dir/up");
        assert!(fs::read(&there).unwrap() == content, "{way:?}");
        assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o751, "{way:?}");
        fs::write(host.path().join("down"), "what was there").unwrap();
        files.download("dir/up", host.path().join("down")).await.unwrap();
        assert!(fs::read(host.path().join("down")).unwrap() == content, "{way:?}");
        fs::write(host.path().join("empty"), "").unwrap();
        files.upload(host.path().join("empty"), "empty").await.unwrap();
        files.download("empty", host.path().join("down")).await.unwrap();
        assert_eq!(fs::read(host.path().join("down")).unwrap(), b"", "{way:?}");
        assert!(temporaries(host.path()).is_empty() && place.temporaries().is_empty());
    }
}

#[tokio::test]
async fn the_hosts_own_errors_name_the_host_and_nothing_is_sent() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        for (path, kind) in [("missing", ErrorKind::PathNotFound), ("", ErrorKind::IsADirectory)] {
            let error = files.upload(host.path().join(path), "x").await.unwrap_err();
            assert_eq!((error.kind(), error.may_have_applied()), (kind, false));
            assert!(error.message().contains("on the host") && error.operation() == Some("files.upload"), "{error}");
        }
        assert!(!files.exists("x").await.unwrap());
        files.write("x", "content").await.unwrap();
        for (path, kind) in [("missing/below", ErrorKind::PathNotFound), ("", ErrorKind::IsADirectory)] {
            let error = files.download("x", host.path().join(path)).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{way:?} {error:?}");
            assert!(error.message().contains("on the host") && error.operation() == Some("files.download"), "{error}");
        }
        fs::write(host.path().join("kept"), "kept").unwrap();
        let error = files.download("missing", host.path().join("kept")).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::PathNotFound, Some("files.download")), "{way:?}");
        assert_eq!(fs::read(host.path().join("kept")).unwrap(), b"kept");
        assert!(temporaries(host.path()).is_empty());
    }
}

/// Endless, and counted.
struct Endless(Arc<AtomicU64>);

impl Chunks for Endless {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.0.fetch_add(64 << 10, SeqCst);
        tokio::time::sleep(ms(1)).await;
        Ok(Some(Bytes::from_static(&[0; 64 << 10])))
    }
}

#[tokio::test]
async fn a_download_that_is_given_up_leaves_nothing_on_the_host() {
    let sent = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&sent);
    let read_file = hook(move |_| {
        let body = Body::new(None, Endless(Arc::clone(&source)));
        async { Ok(body) }
    });
    let (client, _log) = Script { read_file, ..script_of() }.having([Capability::Files]).client();
    let (files, host) = (client.create(spec()).await.unwrap().files(), tempfile::tempdir().unwrap());
    fs::write(host.path().join("kept"), "kept").unwrap();
    assert!(tokio::time::timeout(ms(500), files.download("/x", host.path().join("kept"))).await.is_err());
    until("the temporary is gone", || temporaries(host.path()).is_empty()).await;
    assert_eq!(fs::read(host.path().join("kept")).unwrap(), b"kept");
    let seen = sent.load(SeqCst);
    assert!(seen > 0);
    tokio::time::sleep(ms(300)).await;
    assert!(sent.load(SeqCst) - seen <= 1 << 20, "it goes on");
    for way in [Way::Commands, Way::Trees] {
        let place = place(way).await;
        fs::File::create(place.dir.join("large")).unwrap().set_len(64 << 30).unwrap();
        let files = place.sandbox.files();
        // The future goes while the copy is at it.
        let given_up = tokio::time::timeout(ms(400), files.download("large", host.path().join("kept"))).await;
        assert!(given_up.is_err(), "{way:?}");
        until("the temporary is gone", || temporaries(host.path()).is_empty()).await;
        assert_eq!(fs::read(host.path().join("kept")).unwrap(), b"kept", "{way:?}");
    }
}

#[tokio::test]
async fn a_download_whose_source_fails_leaves_nothing_on_the_host() {
    let read_file = hook(|_| async { Ok(super::Zeros::body(None, 1 << 20, super::Then::Fail)) });
    let (client, _log) = Script { read_file, ..script_of() }.having([Capability::Files]).client();
    let (files, host) = (client.create(spec()).await.unwrap().files(), tempfile::tempdir().unwrap());
    let error = files.download("/x", host.path().join("new")).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, Some("files.download")));
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn where_a_download_cannot_land_nothing_is_asked_for() {
    let (client, log) = script_of().having([Capability::Files]).client();
    let (files, host) = (client.create(spec()).await.unwrap().files(), tempfile::tempdir().unwrap());
    for (path, kind) in [("missing/below", ErrorKind::PathNotFound), ("", ErrorKind::IsADirectory)] {
        assert_eq!(files.download("/x", host.path().join(path)).await.unwrap_err().kind(), kind);
    }
    assert_eq!(log.count("read file"), 0);
    files.download("/x", host.path().join("there")).await.unwrap();
    assert_eq!(log.count("read file"), 1);
}

#[tokio::test]
async fn an_upload_that_is_given_up_leaves_nothing_in_the_sandbox() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        files.write("kept", "kept").await.unwrap();
        fs::File::create(host.path().join("large")).unwrap().set_len(64 << 30).unwrap();
        assert!(
            tokio::time::timeout(ms(300), files.upload(host.path().join("large"), "kept")).await.is_err(),
            "{way:?}"
        );
        until("the temporary is gone", || place.temporaries().is_empty()).await;
        assert_eq!(files.read_text("kept").await.unwrap(), "kept", "{way:?}");
        place.sandbox.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_transfer_that_stands_still_is_an_error_and_one_that_moves_is_not() {
    let stuck = Script {
        write_file: never(),
        read_file: hook(|_| async { Ok(super::Zeros::body(None, 9, super::Then::Hang)) }),
        ..script_of()
    };
    let (client, _log) = stuck.having([Capability::Files]).limited(limits().operation(ms(400)));
    let files = client.create(spec()).await.unwrap().files();
    assert_eq!(files.write("/x", "y").await.unwrap_err().kind(), ErrorKind::OperationTimeout);
    assert_eq!(files.read("/x").await.unwrap_err().kind(), ErrorKind::OperationTimeout);
    // A source that takes its time is not the sandbox standing still; neither is a slow receiver that goes on.
    let slow = hook(|(_, mut body): (sandbox::WriteFile, Body)| async move {
        while body.next().await?.is_some() {
            tokio::time::sleep(ms(60)).await;
        }
        Ok(())
    });
    let (client, _log) =
        Script { write_file: slow, ..script_of() }.having([Capability::Files]).limited(limits().operation(ms(700)));
    let files = client.create(spec()).await.unwrap().files();
    struct Slow(u32);
    impl Chunks for Slow {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            self.0 += 1;
            if self.0 == 1 {
                tokio::time::sleep(ms(1500)).await;
            }
            Ok((self.0 < 20).then(|| Bytes::from_static(b"x")))
        }
    }
    tokio::time::timeout(LONG, files.write_from("/x", Body::new(None, Slow(0)))).await.unwrap().unwrap();
}
