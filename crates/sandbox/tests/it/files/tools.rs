//! Tools of a sandbox that fail half-way, or lie.

use crate::common::{Host, limits, ms, open_spec, until};
use bytes::Bytes;
use sandbox::{Body, Chunks, Command, ErrorKind, Files, Result};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// Files by commands, where one of the tools is this script.
async fn with(tool: &str, script: &str) -> (Files, PathBuf, Host) {
    let host = Host::of(|folder| folder.files_by_commands());
    let bin = host.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join(tool), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let sandbox = host.client.create(open_spec().env("PATH", path)).await.unwrap();
    (sandbox.files(), sandbox.cwd().into(), host)
}

#[tokio::test]
async fn a_range_that_could_not_be_read_is_no_short_one() {
    let (files, dir, _host) =
        with("tail", "printf ab; echo 'tail: error reading: Input/output error' >&2; exit 1").await;
    fs::write(dir.join("f"), "0123456789").unwrap();
    let error = files.read_range("f", 3, 5).await.unwrap_err();
    assert!(error.message().contains("Input/output"), "{error:?}");
    assert!(files.read_range("f", 3, u64::MAX).await.is_err());
    // Who has all he asked for does not care.
    assert_eq!(files.read_range("f", 3, 2).await.unwrap(), "ab");
    // The control: without the tool that fails all is well, also where it is cut off for having too much.
    let (files, dir, _host) = with("another", "").await;
    fs::File::create(dir.join("f")).unwrap().set_len(64 << 20).unwrap();
    for (offset, length, got) in [(3, 5, 5), (3, 1 << 20, 1 << 20), ((64 << 20) - 2, 5, 2), (u64::MAX, 5, 0), (3, 0, 0)]
    {
        let read = files.read_range("f", offset, length).await;
        assert_eq!(read.unwrap_or_else(|e| panic!("{offset} {length}: {e:?}")).len(), got, "{offset} {length}");
    }
}

#[tokio::test]
async fn a_tree_that_was_not_packed_whole_is_an_error() {
    for (end, whole) in [("exit 2", false), ("kill -9 $$", false), ("exit 1", true), ("exit 0", true)] {
        // The end of GNU tar with 1 says that a file has changed meanwhile.
        let tar = format!("PATH=${{PATH#*:}}\n[ \"$1\" != --version ] || exec tar \"$@\"\ntar \"$@\"\n{end}");
        let (files, dir, host) = with("tar", &tar).await;
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/f"), "content").unwrap();
        let done = files.download_dir("d", host.dir.path().join("down")).await;
        assert_eq!(done.is_ok(), whole, "{end}: {done:?}");
    }
}

#[tokio::test]
async fn a_listing_has_names_alone() {
    for (path, fine) in [("/d/name", true), ("/d/..", false), ("/d/.", false), ("/d/", false), ("", false)] {
        let (files, dir, _host) = with("stat", &format!("printf '%s 81a4 5 0 0 1 {path}\\n' \"${{2%% *}}\"")).await;
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/name"), "").unwrap();
        match files.list("d").await {
            Ok(all) => assert!(fine && all[0].name == "name", "{path}: {all:?}"),
            Err(error) => assert!(!fine && error.kind() == ErrorKind::Protocol, "{path}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_given_up_spares_a_sandbox_whose_commands_cannot_be_killed_alone() {
    // What is given up has so long to notice, which a shell that has yet to start needs.
    let host = Host::limited(|folder| folder.files_by_commands().without_kill(), limits().kill(ms(4000)));
    let sandbox = host.sandbox().await;
    let (files, dir) = (sandbox.files(), PathBuf::from(sandbox.cwd()));
    fs::write(dir.join("large"), vec![b'x'; 40 << 20]).unwrap();
    let mut body = files.open("large").await.unwrap();
    assert!(body.next().await.unwrap().is_some());
    drop(body);
    assert!(tokio::time::timeout(ms(20), files.read("large")).await.is_err(), "given up");
    let halves = |n: usize| if n == 0 { Some(Bytes::from(vec![b'y'; 1 << 20])) } else { None };
    let body = Body::new(Some(2 << 20), HalfWay(0, halves));
    assert!(tokio::time::timeout(ms(300), files.write_from("new", body)).await.is_err(), "given up");
    tokio::time::sleep(ms(4500)).await;
    assert!(sandbox.run(Command::new("true")).await.unwrap().success());
    until("no temporary is left", || fs::read_dir(&dir).unwrap().count() == 1).await;
    // The control: a command of the user's takes the sandbox along.
    drop(sandbox.start(Command::new("sleep").arg("60")).await.unwrap());
    until("it is gone", || crate::common::block_on(sandbox.run(Command::new("true"))).is_err()).await;
}

/// Hands out a part, and then nothing for ever.
struct HalfWay(usize, fn(usize) -> Option<Bytes>);

impl Chunks for HalfWay {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.0 += 1;
        match (self.1)(self.0 - 1) {
            Some(piece) => Ok(Some(piece)),
            None => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn a_listing_beside_changes_is_of_what_stays() {
    let (files, dir, host) = with("another", "").await;
    for name in [".dot", "..dots", "a b", "-n", "*"] {
        fs::write(dir.join(name), "x").unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let busy = std::thread::spawn({
        let (stop, dir) = (Arc::clone(&stop), dir.clone());
        move || {
            while !stop.load(SeqCst) {
                for n in 0..20 {
                    fs::write(dir.join(format!("t{n}")), "").unwrap();
                }
                for n in 0..20 {
                    fs::remove_file(dir.join(format!("t{n}"))).unwrap();
                }
            }
        }
    });
    for _ in 0..40 {
        let listed = files.list(".").await.unwrap();
        let stays: Vec<_> = listed.iter().map(|one| &*one.name).filter(|name| !name.starts_with('t')).collect();
        assert_eq!(stays, ["*", "-n", "..dots", ".dot", "a b"]);
    }
    stop.store(true, SeqCst);
    busy.join().unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    assert!(files.list("empty").await.unwrap().is_empty());
    drop(host);
}
