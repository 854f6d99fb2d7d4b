//! Whole directories between host and sandbox.

use super::{WAYS, place, temporaries};
use crate::common::{
    ms,
    scripted::{Script, script_of},
    spec, until,
};
use sandbox::{Capability, ErrorKind, TreeOptions};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, fs::symlink, net::UnixListener},
    path::Path,
};

/// A directory with a bit of everything that is kept.
fn furnish(dir: &Path) {
    fs::create_dir_all(dir.join("src/deep/empty")).unwrap();
    fs::create_dir_all(dir.join("src/target/debug")).unwrap();
    fs::write(dir.join("src/main.py"), "print()").unwrap();
    fs::write(dir.join("src/run.sh"), "#!/bin/sh").unwrap();
    fs::write(dir.join("src/deep/data.bin"), [0, 255, 7]).unwrap();
    fs::write(dir.join("src/deep/none"), "").unwrap();
    fs::write(dir.join("src/target/debug/out.py"), "out").unwrap();
    fs::set_permissions(dir.join("src/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("src/deep/data.bin"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(dir.join("src/deep/empty"), fs::Permissions::from_mode(0o711)).unwrap();
    symlink("main.py", dir.join("src/link")).unwrap();
    symlink("../main.py", dir.join("src/deep/up")).unwrap();
    symlink("nowhere", dir.join("src/dangling")).unwrap();
}

/// Every path below, with what is there.
fn all(dir: &Path) -> Vec<(String, u32, String)> {
    fn walk(root: &Path, dir: &Path, found: &mut Vec<(String, u32, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let mode = if meta.is_symlink() { 0 } else { meta.permissions().mode() & 0o7777 };
            let content = if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_file() {
                format!("{:?}", fs::read(&path).unwrap())
            } else {
                "/".into()
            };
            found.push((name, mode, content));
            if meta.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(dir, dir, &mut found);
    found.sort();
    found
}

fn names(dir: &Path) -> Vec<String> {
    all(dir).into_iter().filter(|(_, _, content)| content != "/").map(|(name, _, _)| name).collect()
}

#[tokio::test]
async fn empty_directories_modes_and_links_are_kept_both_ways() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        furnish(host.path());
        let sent = files.upload_dir(host.path().join("src"), "a/b").await.unwrap();
        assert_eq!((sent.files, sent.bytes, sent.skipped.len()), (8, 22, 0), "{way:?}");
        assert_eq!(all(&place.dir.join("a/b")), all(&host.path().join("src")), "{way:?}");
        let got = files.download_dir("a/b", host.path().join("back/again")).await.unwrap();
        assert_eq!(all(&host.path().join("back/again")), all(&host.path().join("src")), "{way:?}");
        assert_eq!((got.files, got.bytes), (sent.files, sent.bytes), "{way:?}");
        // Over what is there already.
        files.upload_dir(host.path().join("src"), "a/b").await.unwrap();
        files.download_dir("a/b", host.path().join("back/again")).await.unwrap();
        assert_eq!(all(&host.path().join("back/again")), all(&host.path().join("src")), "{way:?}");
        fs::create_dir(host.path().join("nothing")).unwrap();
        files.upload_dir(host.path().join("nothing"), "nothing").await.unwrap();
        assert!(place.dir.join("nothing").is_dir(), "{way:?}");
        assert_eq!(files.download_dir("nothing", host.path().join("none")).await.unwrap().files, 0);
        assert!(host.path().join("none").is_dir(), "{way:?}");
    }
}

#[tokio::test]
async fn a_part_of_a_tree_goes_by_globs() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        furnish(host.path());
        let src = host.path().join("src");
        let python = TreeOptions::new().include("**/*.py").exclude("target");
        files.upload_dir_with(&src, "py", &python).await.unwrap();
        assert_eq!(names(&place.dir.join("py")), ["main.py"], "{way:?}");
        let shallow = TreeOptions::new().include("*").exclude("link").exclude("dangling");
        files.upload_dir_with(&src, "shallow", &shallow).await.unwrap();
        assert_eq!(names(&place.dir.join("shallow")), ["main.py", "run.sh"], "{way:?}");
        files.upload_dir(&src, "whole").await.unwrap();
        files.download_dir_with("whole", host.path().join("py"), &python).await.unwrap();
        assert_eq!(names(&host.path().join("py")), ["main.py"], "{way:?}");
        assert!(!host.path().join("py/target").exists(), "{way:?}");
        files
            .download_dir_with("whole", host.path().join("most"), &TreeOptions::new().exclude("deep/**"))
            .await
            .unwrap();
        assert_eq!(
            names(&host.path().join("most")),
            ["dangling", "link", "main.py", "run.sh", "target/debug/out.py"],
            "{way:?}"
        );
        let wrong = TreeOptions::new().include("[");
        assert_eq!(files.upload_dir_with(&src, "x", &wrong).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let error = files.download_dir_with("whole", host.path().join("x"), &wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(!place.dir.join("x").exists() && !host.path().join("x").exists());
    }
}

#[tokio::test]
async fn a_link_that_leaves_the_tree_is_refused_before_anything_is_sent() {
    for target in ["/etc/passwd", "../outside", "deep/../../outside"] {
        for way in WAYS {
            let place = place(way).await;
            let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
            furnish(host.path());
            let src = host.path().join("src");
            symlink(target, src.join("leaves")).unwrap();
            let error = files.upload_dir(&src, "up").await.unwrap_err();
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some("files.upload_dir")));
            assert!(error.hint().unwrap().contains("exclude `leaves`"), "{error:?}");
            assert!(!place.dir.join("up").exists(), "{way:?}");
            files.upload_dir_with(&src, "up", &TreeOptions::new().exclude("leaves")).await.unwrap();
        }
    }
    let (client, log) = script_of().having([Capability::Files, Capability::Tree]).client();
    let host = tempfile::tempdir().unwrap();
    symlink("/etc/passwd", host.path().join("leaves")).unwrap();
    assert!(client.create(spec()).await.unwrap().files().upload_dir(host.path(), "/x").await.is_err());
    assert_eq!(log.count("put tree") + log.count("spawn") + log.count("make dir"), 0);
}

#[tokio::test]
async fn a_download_that_is_given_up_leaves_no_part_of_a_file() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        fs::create_dir(place.dir.join("d")).unwrap();
        fs::write(place.dir.join("d/a"), "whole").unwrap();
        fs::File::create(place.dir.join("d/large")).unwrap().set_len(64 << 30).unwrap();
        let (files, down) = (place.sandbox.files(), host.path().join("down"));
        assert!(tokio::time::timeout(ms(500), files.download_dir("d", &down)).await.is_err(), "{way:?}");
        until("the temporary is gone", || temporaries(&down).is_empty()).await;
        place.sandbox.close().await.unwrap();
        assert!(!down.join("large").exists(), "{way:?}");
    }
}

#[tokio::test]
async fn what_is_no_file_is_skipped_and_said() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        fs::create_dir(host.path().join("src")).unwrap();
        fs::write(host.path().join("src/file"), "x").unwrap();
        let _socket = UnixListener::bind(host.path().join("src/socket")).unwrap();
        let sent = files.upload_dir(host.path().join("src"), "up").await.unwrap();
        assert_eq!((sent.files, sent.skipped), (1, vec!["socket".to_string()]), "{way:?}");
        assert!(place.sandbox.run(sandbox::Command::new("mkfifo").arg("up/fifo")).await.unwrap().success());
        let got = files.download_dir("up", host.path().join("down")).await.unwrap();
        assert_eq!((got.files, got.skipped), (1, vec!["fifo".to_string()]), "{way:?}");
        assert_eq!(names(&host.path().join("down")), ["file"]);
    }
}

#[tokio::test]
async fn what_is_no_directory_is_refused() {
    for way in WAYS {
        let place = place(way).await;
        let (files, host) = (place.sandbox.files(), tempfile::tempdir().unwrap());
        fs::write(host.path().join("file"), "x").unwrap();
        files.write("file", "x").await.unwrap();
        for (from, kind) in [("missing", ErrorKind::PathNotFound), ("file", ErrorKind::NotADirectory)] {
            let error = files.upload_dir(host.path().join(from), "up").await.unwrap_err();
            assert_eq!((error.kind(), error.may_have_applied()), (kind, false), "{way:?} {error:?}");
            assert!(error.message().contains("on the host"));
            let error = files.download_dir(from, host.path().join("down")).await.unwrap_err();
            assert_eq!((error.kind(), error.operation()), (kind, Some("files.download_dir")), "{way:?} {error:?}");
            assert!(!host.path().join("down").exists(), "{way:?}");
        }
        fs::create_dir(host.path().join("dir")).unwrap();
        fs::write(host.path().join("dir/x"), "x").unwrap();
        let error = files.upload_dir(host.path().join("dir"), "file").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory, "{way:?} {error:?}");
        let error = files.upload_dir(host.path().join("dir"), "file/below").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory, "{way:?} {error:?}");
    }
}

#[tokio::test]
async fn trees_of_native_adapters_are_theirs() {
    let (client, log) = Script { made: Box::new(|made| made.ids(0, 0)), ..script_of() }
        .having([Capability::Files, Capability::Tree])
        .client();
    let host = tempfile::tempdir().unwrap();
    let files = client.create(spec()).await.unwrap().files();
    files.upload_dir(host.path(), "/x").await.unwrap();
    assert_eq!(files.download_dir("/x", host.path()).await.unwrap_err().kind(), ErrorKind::PathNotFound);
    assert_eq!((log.count("put tree"), log.count("get tree"), log.count("spawn")), (1, 1, 0));
}
