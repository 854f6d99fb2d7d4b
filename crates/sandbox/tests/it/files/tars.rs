//! Tars that say more than they hold, or say it oddly.

use super::{
    WAYS,
    hostile::{Tar, download},
    place,
};
use crate::common::{
    LONG,
    scripted::{Script, hook, script_of},
    spec,
};
use bytes::Bytes;
use sandbox::{Body, Capability, Chunks, ErrorKind, Files, Result, TreeOptions};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};
use tar::EntryType;

/// A sandbox whose single files are trees of one, and every tree is this.
async fn of_trees(body: impl Fn() -> Body + Send + Sync + 'static) -> Files {
    let get_tree = hook(move |_| {
        let body = body();
        async { Ok(body) }
    });
    let script = Script { get_tree, made: Box::new(|made| made.ids(0, 0)), ..script_of() };
    let script = Script { facts: script.facts.clone().emulated(Capability::Files, "by trees of one"), ..script };
    let (client, log) = script.having([Capability::Tree]).client();
    let files = client.create(spec()).await.unwrap().files();
    std::mem::forget(log);
    files
}

/// A head, and then as many MiB as are asked for, up to a bound.
struct Endless {
    head: Option<Bytes>,
    given: Arc<AtomicU64>,
}

const MOST: u64 = 256;

impl Chunks for Endless {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        static MIB: [u8; 1 << 20] = [b'a'; 1 << 20];
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        let more = self.given.fetch_add(1, SeqCst) < MOST;
        Ok(more.then(|| Bytes::from_static(&MIB)))
    }
}

#[tokio::test]
async fn what_describes_a_member_is_bounded() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(64 << 30);
        header.set_cksum();
        let head = Bytes::copy_from_slice(header.as_bytes());
        let given = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&given);
        let body = move || Body::new(None, Endless { head: Some(head.clone()), given: Arc::clone(&counted) });
        let (files, host) = (of_trees(body).await, tempfile::tempdir().unwrap());
        let error = files.download_dir("/t", host.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{kind:?}: {error:?}");
        let error = files.read("/t").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{kind:?}: {error:?}");
        assert!(given.load(SeqCst) < MOST / 4, "{kind:?}: {given:?} MiB were taken");
    }
    // A chain of small ones describes nothing either.
    let mut tar = Tar::root();
    for _ in 0..100 {
        tar = tar.add(EntryType::XGlobalHeader, "g", "", b"13 comment=x\n");
    }
    let host = tempfile::tempdir().unwrap();
    assert_eq!(download(tar.file("t/f", b"x").end(), host.path()).await.unwrap_err().kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn holes_are_refused_at_once() {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(0);
    header.set_mode(0o644);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.name[..5].copy_from_slice(b"t/big");
    gnu.set_real_size(8 << 30);
    gnu.sparse[0].offset.copy_from_slice(b"100000000000");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let mut tar = Tar::root();
    tar.0.extend_from_slice(header.as_bytes());
    let pax = Tar::root().add(EntryType::XHeader, "x", "", b"22 GNU.sparse.major=1\n").file("t/big", b"1\n0\n");
    for tar in [tar.end(), pax.end()] {
        let host = tempfile::tempdir().unwrap();
        let done = tokio::time::timeout(LONG, download(tar.clone(), host.path())).await.unwrap();
        let error = done.unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("t/big"), "{error:?}");
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
        // The same as a single file.
        let one = tar.slice(512..);
        let error = of_trees(move || one.clone().into()).await.read("/t").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    }
}

/// A record of the kind that GNU tar has no room for.
fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (rest..).find(|n| rest + n.to_string().len() == *n).unwrap();
    format!("{length} {key}={value}\n").into_bytes()
}

#[tokio::test]
async fn names_in_records_are_names_whatever_is_in_them() {
    let host = tempfile::tempdir().unwrap();
    let long = format!("t/{}", "ü".repeat(127));
    let tar = Tar::root()
        .add(EntryType::XHeader, "x", "", &record("path", "t/new\nline ü\n"))
        .file("t/other", b"1")
        .add(EntryType::XHeader, "x", "", &record("path", &long))
        .file("t/other", b"2")
        .add(EntryType::XHeader, "x", "", &[record("path", "t/odd"), record("linkpath", "new\nline ü\n")].concat())
        .link("t/other", "nowhere")
        .add(EntryType::XHeader, "x", "", &record("size", "3"))
        .file("t/sized", b"123");
    let report = download(tar.end(), host.path()).await.unwrap();
    assert_eq!((report.files, report.bytes), (4, 5));
    assert_eq!(fs::read(host.path().join("new\nline ü\n")).unwrap(), b"1");
    assert_eq!(fs::read(host.path().join("ü".repeat(127))).unwrap(), b"2");
    assert_eq!(fs::read(host.path().join("odd")).unwrap(), b"1", "a link to the first");
    assert_eq!(fs::read(host.path().join("sized")).unwrap(), b"123");
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 4);
    for broken in [&b"path=t/x\n"[..], b"99 path=t/x\n", b"3 path=t/x\n", b"12 path=t/xy", b"10 path t\n"] {
        let tar = Tar::root().add(EntryType::XHeader, "x", "", broken).file("t/other", b"1");
        let error = download(tar.end(), host.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{broken:?}: {error:?}");
    }
}

#[tokio::test]
async fn just_the_trees_own_name_is_left_off() {
    let files = |tar: Tar, root: &str| {
        tar.file(&format!("{root}top"), b"0")
            .dir(&format!("{root}w/x/"))
            .file(&format!("{root}w/x/deep"), b"1")
            .dir(&format!("{root}v/x/"))
            .file(&format!("{root}v/x/deep"), b"2")
            .hard(&format!("{root}h"), &format!("{root}top"))
            .end()
    };
    for (dir, root) in [("./", "./"), ("/", "/"), ("/", ""), ("t/", "t/"), ("./t/", "./t/"), ("/t/", "t/"), ("t", "t/")]
    {
        let host = tempfile::tempdir().unwrap();
        let done = download(files(Tar::default().dir(dir), root), host.path()).await;
        assert_eq!(done.unwrap_or_else(|e| panic!("{dir} {root}: {e:?}")).files, 4, "{dir} {root}");
        for (path, content) in [("top", b"0"), ("w/x/deep", b"1"), ("v/x/deep", b"2"), ("h", b"0")] {
            assert_eq!(fs::read(host.path().join(path)).unwrap(), content, "{dir} {root} {path}");
        }
    }
    // What is beside the tree is none of it.
    let host = tempfile::tempdir().unwrap();
    let error = download(Tar::root().file("other/f", b"x").end(), host.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_of_two_names_has_its_content_under_each() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        fs::create_dir_all(place.dir.join("d/sub")).unwrap();
        fs::write(place.dir.join("d/a"), "content").unwrap();
        fs::hard_link(place.dir.join("d/a"), place.dir.join("d/b")).unwrap();
        fs::hard_link(place.dir.join("d/a"), place.dir.join("d/sub/c")).unwrap();
        let all = files.download_dir("d", host.path().join("all")).await.unwrap();
        assert_eq!((all.files, all.bytes), (3, 21), "{way:?}");
        for gone in ["a", "b", "sub/c"] {
            let down = host.path().join(gone.replace('/', "-"));
            fs::create_dir_all(down.join("sub")).unwrap();
            fs::write(down.join(gone), "of the host").unwrap();
            let left_out = TreeOptions::new().exclude(gone);
            let done = files.download_dir_with("d", &down, &left_out).await;
            assert_eq!(done.unwrap_or_else(|e| panic!("{way:?} {gone}: {e:?}")).files, 2, "{way:?} {gone}");
            for name in ["a", "b", "sub/c"] {
                let expected = if name == gone { "of the host" } else { "content" };
                assert_eq!(fs::read_to_string(down.join(name)).unwrap(), expected, "{way:?} without {gone}: {name}");
            }
            assert_eq!(fs::metadata(down.join("b")).unwrap().nlink(), 1, "{way:?}");
        }
        let one = TreeOptions::new().include("sub/c");
        files.download_dir_with("d", host.path().join("one"), &one).await.unwrap();
        assert_eq!(fs::read_to_string(host.path().join("one/sub/c")).unwrap(), "content", "{way:?}");
    }
    // What the host has is never taken for what the tree says.
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("a"), "of the host").unwrap();
    let error = download(Tar::root().hard("t/b", "t/a").end(), host.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error:?}");
    assert!(!host.path().join("b").exists());
}
