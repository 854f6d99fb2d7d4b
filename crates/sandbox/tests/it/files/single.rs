//! One file or directory at a time.

use super::{Place, Then, WAYS, Way, Zeros, place};
use crate::common::{ms, until};
use bytes::Bytes;
use sandbox::{Body, Command, ErrorKind, FileKind, Result, SetMeta, WriteFile};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    time::{Duration, SystemTime},
};

fn mode(path: impl AsRef<std::path::Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn what_is_written_is_read() {
    for way in WAYS {
        let Place { sandbox, dir, _host } = &place(way).await;
        let files = sandbox.files();
        for content in [&b""[..], b"x", b"line\n", b"\0\xff\r\n\0", &vec![7; 300_000]] {
            files.write("note", Bytes::copy_from_slice(content)).await.unwrap();
            assert_eq!(files.read("note").await.unwrap(), content, "{way:?}");
            assert_eq!(fs::read(dir.join("note")).unwrap(), content, "{way:?}");
        }
        files.write("note", "much longer than what comes next").await.unwrap();
        files.write("note", "short").await.unwrap();
        assert_eq!(files.read_text("note").await.unwrap(), "short");
        files.write(dir.join("absolute").to_str().unwrap(), "a").await.unwrap();
        assert_eq!(files.read_text("./absolute").await.unwrap(), "a");
        files.write_from("unknown length", Zeros::body(None, 1000, Then::End)).await.unwrap();
        assert_eq!(files.read("unknown length").await.unwrap(), [0; 1000][..]);
    }
}

#[tokio::test]
async fn parents_are_made_and_bits_are_kept() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        files.write("a/b/c/note", "deep").await.unwrap();
        assert_eq!(files.read_text("a/b/c/note").await.unwrap(), "deep");
        assert_eq!(mode(dir.join("a/b/c/note")), 0o644, "{way:?}");
        fs::set_permissions(dir.join("a/b/c/note"), fs::Permissions::from_mode(0o750)).unwrap();
        files.write("a/b/c/note", "again").await.unwrap();
        assert_eq!(mode(dir.join("a/b/c/note")), 0o750, "{way:?}");
        files
            .write_with(WriteFile::new("a/b/c/note").mode(Some(0o4711)), Bytes::from_static(b"x").into())
            .await
            .unwrap();
        assert_eq!(mode(dir.join("a/b/c/note")), 0o4711, "{way:?}");
        assert_eq!(place.temporaries(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn ranges() {
    for way in WAYS {
        let place = place(way).await;
        let files = place.sandbox.files();
        files.write("note", "0123456789").await.unwrap();
        for (offset, length, expected) in [
            (0, 4, "0123"),
            (3, 4, "3456"),
            (8, 9, "89"),
            (10, 1, ""),
            (99, 9, ""),
            (0, 0, ""),
            (5, 0, ""),
            (0, u64::MAX, "0123456789"),
            (9, 1, "9"),
        ] {
            let got = files.read_range("note", offset, length).await;
            assert_eq!(
                got.unwrap_or_else(|e| panic!("{way:?} {offset} {length}: {e:?}")),
                expected,
                "{way:?} {offset} {length}"
            );
        }
        // A range of a large file does not wait for, and is not refused because of, the rest.
        fs::File::create(place.dir.join("large")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(files.read_range("large", 4096, 3).await.unwrap(), [0; 3][..], "{way:?}");
    }
}

#[tokio::test]
async fn a_file_is_read_whole_up_to_what_is_held_in_memory() {
    for way in [Way::Commands, Way::Trees] {
        let place = place(way).await;
        let files = place.sandbox.files();
        fs::File::create(place.dir.join("large")).unwrap().set_len((256 << 20) + 1).unwrap();
        let error = files.read("large").await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::ResourceExhausted, Some("files.read")), "{way:?}");
        assert!(error.hint().unwrap().contains("read_range"));
    }
}

#[tokio::test]
async fn what_is_not_there_or_no_file_has_its_kind() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        fs::create_dir(dir.join("dir")).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        assert!(place.sandbox.run(Command::new("mkfifo").arg("fifo")).await.unwrap().success());
        use ErrorKind::*;
        for (path, kind) in [
            ("missing", PathNotFound),
            ("missing/below", PathNotFound),
            ("dangling", PathNotFound),
            ("dir", IsADirectory),
            ("file/below", NotADirectory),
            ("fifo", NotAFile),
        ] {
            let error = files.read(path).await.unwrap_err();
            assert_eq!(error.kind(), kind, "read {path} {way:?}: {error:?}");
            assert_eq!((error.operation(), error.backend()), (Some("files.read"), Some("folder")));
            assert_eq!(error.sandbox(), Some(place.sandbox.id()));
            assert_eq!(files.read_range(path, 1, 1).await.unwrap_err().kind(), kind, "range {path} {way:?}");
            let opened = match files.open(path).await {
                Ok(mut body) => body.next().await.map(drop),
                Err(error) => Err(error),
            };
            assert_eq!(opened.unwrap_err().kind(), kind, "open {path} {way:?}");
        }
        assert!(files.read("loop").await.is_err());
        for (path, kind) in [("dir", IsADirectory), ("file/below", NotADirectory)] {
            let error = files.write(path, "x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.operation()),
                (kind, Some("files.write")),
                "write {path} {way:?}: {error:?}"
            );
            assert!(error.to_string().contains(path), "write {path} {way:?}: {error}");
        }
        for (path, kind) in [("missing", PathNotFound), ("missing/below", PathNotFound), ("file/below", NotADirectory)]
        {
            assert_eq!(files.stat(path).await.unwrap_err().kind(), kind, "stat {path} {way:?}");
            assert!(!files.exists(path).await.unwrap());
            assert_eq!(files.remove(path).await.unwrap_err().kind(), kind, "remove {path} {way:?}");
            assert_eq!(files.rename(path, "x").await.unwrap_err().kind(), kind, "rename {path} {way:?}");
            let set = files.set_meta(SetMeta::new(path).mode(Some(0o600))).await;
            assert_eq!(set.unwrap_err().kind(), kind, "set meta {path} {way:?}");
            assert_eq!(files.list(path).await.unwrap_err().kind(), kind, "list {path} {way:?}");
        }
        for path in ["file", "fifo"] {
            assert_eq!(files.list(path).await.unwrap_err().kind(), NotADirectory, "list {path} {way:?}");
        }
        for (path, kind) in [("file", AlreadyExists), ("dangling", AlreadyExists), ("file/below", NotADirectory)] {
            assert_eq!(files.make_dir(path).await.unwrap_err().kind(), kind, "make {path} {way:?}");
        }
        assert_eq!(files.remove("dir").await.unwrap_err().kind(), IsADirectory, "{way:?}");
        assert_eq!(files.rename("file", "dir").await.unwrap_err().kind(), IsADirectory, "{way:?}");
        assert_eq!(files.rename("file", "missing/x").await.unwrap_err().kind(), PathNotFound, "{way:?}");
        assert!(
            files.exists("dir").await.unwrap()
                && files.exists("dangling").await.unwrap()
                && files.exists("file").await.unwrap()
        );
        assert_eq!(fs::read(dir.join("file")).unwrap(), b"x", "nothing has touched it");
    }
}

#[tokio::test]
async fn stat_and_list_tell_what_is_there() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        fs::create_dir_all(dir.join("d/sub")).unwrap();
        fs::write(dir.join("d/file"), "12345").unwrap();
        fs::set_permissions(dir.join("d/file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", dir.join("d/link")).unwrap();
        symlink("no where\n", dir.join("d/odd link")).unwrap();
        assert!(place.sandbox.run(Command::new("mkfifo").arg("d/fifo")).await.unwrap().success());
        let file = files.stat("d/file").await.unwrap();
        let real = fs::metadata(dir.join("d/file")).unwrap();
        assert_eq!((file.name.as_str(), file.kind, file.size), ("file", FileKind::File, 5), "{way:?}");
        assert_eq!((file.meta.mode, file.meta.uid, file.meta.mtime), (0o640, real.uid(), real.mtime()), "{way:?}");
        assert_eq!(files.stat("d").await.unwrap().kind, FileKind::Directory);
        assert_eq!(files.stat("d/fifo").await.unwrap().kind, FileKind::Other);
        let link = files.stat("d/link").await.unwrap();
        assert_eq!((link.kind, link.target.as_deref()), (FileKind::Symlink, Some("file")), "{way:?}");
        assert_eq!(files.stat("d/odd link").await.unwrap().target.as_deref(), Some("no where\n"), "{way:?}");
        let all = files.list("d").await.unwrap();
        let names: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.kind)).collect();
        let kinds = [FileKind::Other, FileKind::File, FileKind::Symlink, FileKind::Symlink, FileKind::Directory];
        let there: Vec<_> = ["fifo", "file", "link", "odd link", "sub"].into_iter().zip(kinds).collect();
        assert_eq!(names, there, "{way:?}");
        assert_eq!((all[1].size, all[1].meta.mode), (5, 0o640), "{way:?}");
        assert!(files.list("d/sub").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn directories_are_made_moved_and_removed() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        files.make_dir("a/b/c").await.unwrap();
        files.make_dir("a/b/c").await.unwrap();
        files.write("a/b/c/note", "x").await.unwrap();
        files.rename("a/b", "moved").await.unwrap();
        assert_eq!(fs::read(dir.join("moved/c/note")).unwrap(), b"x");
        files.write("other", "y").await.unwrap();
        files.rename("moved/c/note", "other").await.unwrap();
        assert_eq!(files.read_text("other").await.unwrap(), "x", "a file that is there is replaced");
        files.remove("other").await.unwrap();
        assert!(!files.exists("other").await.unwrap());
        // Links are never followed.
        fs::write(dir.join("kept"), "kept").unwrap();
        symlink("../kept", dir.join("moved/link")).unwrap();
        symlink("..", dir.join("moved/up")).unwrap();
        files.remove("moved/up").await.unwrap();
        symlink("..", dir.join("moved/up")).unwrap();
        files.remove_all("moved").await.unwrap();
        files.remove_all("moved").await.unwrap();
        assert!(!dir.join("moved").exists() && fs::read(dir.join("kept")).unwrap() == b"kept", "{way:?}");
        symlink("kept", dir.join("link")).unwrap();
        files.remove("link").await.unwrap();
        assert!(dir.join("kept").exists());
    }
}

#[tokio::test]
async fn links_are_read_through_and_written_over() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        fs::create_dir_all(dir.join("deep/er")).unwrap();
        fs::write(dir.join("deep/real"), "real").unwrap();
        symlink("../real", dir.join("deep/er/one")).unwrap();
        symlink(dir.join("deep/er/one"), dir.join("two")).unwrap();
        symlink("deep", dir.join("dir link")).unwrap();
        assert_eq!(files.read_text("two").await.unwrap(), "real", "{way:?}");
        assert_eq!(files.read_text("dir link/real").await.unwrap(), "real", "{way:?}");
        assert_eq!(files.read_range("two", 1, 2).await.unwrap(), "ea", "{way:?}");
        files.write("dir link/new", "new").await.unwrap();
        assert_eq!(fs::read(dir.join("deep/new")).unwrap(), b"new", "{way:?}");
        files.write("two", "own").await.unwrap();
        assert!(fs::symlink_metadata(dir.join("two")).unwrap().is_file(), "{way:?}");
        assert_eq!(fs::read(dir.join("deep/real")).unwrap(), b"real", "{way:?}");
    }
}

#[tokio::test]
async fn metadata_is_set() {
    for way in WAYS {
        let place = place(way).await;
        let (files, dir) = (place.sandbox.files(), &place.dir);
        files.write("note", "x").await.unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let set = SetMeta::new("note").mode(Some(0o2755)).owner(Some((1234, 2345))).mtime(Some(at));
        files.set_meta(set).await.unwrap();
        let there = fs::metadata(dir.join("note")).unwrap();
        assert_eq!((there.uid(), there.gid(), there.mtime()), (1234, 2345, 1_000_000_000), "{way:?}");
        let told = files.stat("note").await.unwrap().meta;
        assert_eq!(
            (told.uid, told.gid, told.mtime, told.mode),
            (1234, 2345, 1_000_000_000, there.mode() & 0o7777),
            "{way:?}"
        );
        assert_eq!(there.mode() & 0o7777, 0o2755, "{way:?}");
        files.set_meta(SetMeta::new("note")).await.unwrap();
        assert_eq!(fs::metadata(dir.join("note")).unwrap().mtime(), 1_000_000_000);
    }
}

#[tokio::test]
async fn a_source_that_fails_leaves_the_old_file_and_nothing_else() {
    for way in WAYS {
        let place = place(way).await;
        let files = place.sandbox.files();
        files.write("note", "old").await.unwrap();
        for (len, sent, then, kind) in [
            (Some(900_000), 300_000, Then::Fail, ErrorKind::Unavailable),
            (None, 300_000, Then::Fail, ErrorKind::Unavailable),
            (Some(900_000), 300_000, Then::End, ErrorKind::InvalidArgument),
            (Some(300_000), 900_000, Then::End, ErrorKind::InvalidArgument),
            (Some(1), 0, Then::End, ErrorKind::InvalidArgument),
        ] {
            for path in ["note", "new"] {
                let written: Result<()> = files.write_from(path, Zeros::body(len, sent, then)).await;
                let error = written.expect_err(&format!("{way:?} {len:?} {sent}"));
                assert_eq!(
                    (error.kind(), error.operation()),
                    (kind, Some("files.write")),
                    "{way:?} {len:?} {sent}: {error:?}"
                );
            }
        }
        until("temporaries are gone", || place.temporaries().is_empty()).await;
        assert_eq!(files.read_text("note").await.unwrap(), "old", "{way:?}");
        assert!(!files.exists("new").await.unwrap(), "{way:?}");
    }
}

#[tokio::test]
async fn a_write_that_is_given_up_leaves_the_old_file_and_nothing_else() {
    for way in WAYS {
        let place = place(way).await;
        let files = place.sandbox.files();
        files.write("note", "old").await.unwrap();
        for len in [Some(900_000), None] {
            let write = files.write_from("note", Zeros::body(len, 300_000, Then::Hang));
            assert!(tokio::time::timeout(ms(400), write).await.is_err());
        }
        until("temporaries are gone", || place.temporaries().is_empty()).await;
        assert_eq!(files.read_text("note").await.unwrap(), "old", "{way:?}");
    }
}

#[tokio::test]
async fn a_read_that_is_given_up_leaves_no_process() {
    for way in WAYS {
        let place = place(way).await;
        fs::File::create(place.dir.join("large")).unwrap().set_len(1 << 30).unwrap();
        let mut body = place.sandbox.files().open("large").await.unwrap();
        assert!(!body.next().await.unwrap().unwrap().is_empty());
        drop(body);
        place.sandbox.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_its_reader_does_not_read_has_its_end_with_the_sandbox() {
    for way in WAYS {
        let place = place(way).await;
        fs::File::create(place.dir.join("large")).unwrap().set_len(1 << 30).unwrap();
        let mut body: Body = place.sandbox.files().open("large").await.unwrap();
        assert!(!body.next().await.unwrap().unwrap().is_empty());
        place.sandbox.close().await.unwrap();
        let end = async {
            loop {
                match body.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{way:?}: cut short, and said to be whole"),
                    Err(error) => break error,
                }
            }
        };
        let error = tokio::time::timeout(crate::common::LONG, end).await.unwrap();
        assert!(matches!(error.kind(), ErrorKind::Gone | ErrorKind::ConnectionLost), "{way:?} {error:?}");
    }
}

#[tokio::test]
async fn many_entries_are_listed() {
    for way in [Way::Commands, Way::Trees] {
        let place = place(way).await;
        fs::create_dir(place.dir.join("many")).unwrap();
        let names: Vec<String> = (0..10_000).map(|n| format!("entry {n:05}")).collect();
        names.iter().for_each(|name| drop(fs::File::create(place.dir.join("many").join(name)).unwrap()));
        let all = place.sandbox.files().list("many").await.unwrap();
        assert!(all.iter().map(|one| &one.name).eq(&names), "{way:?}");
    }
}
