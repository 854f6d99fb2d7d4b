use super::*;
use bytes::Bytes;
use sandbox_core::{
    Body, Chunks, ErrorKind, FileKind, GetTree, ListDir, MakeDir, PutTree, ReadFile, Remove, Rename, Result, SetMeta,
    Stat, WriteFile,
};
use std::time::{SystemTime, UNIX_EPOCH};

async fn all(mut body: Body) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = body.next().await? {
        all.extend(piece);
    }
    assert!(body.len.is_none_or(|len| len == all.len() as u64));
    Ok(all)
}

async fn read(sandbox: &FakeSandbox, path: &str) -> Result<Vec<u8>> {
    all(sandbox.read_file(&ReadFile::new(path)).await?).await
}

async fn write(sandbox: &FakeSandbox, path: &str, data: impl Into<Bytes>) -> Result<()> {
    sandbox.write_file(&WriteFile::new(path), Body::from(data.into())).await
}

async fn listed(sandbox: &FakeSandbox, path: &str) -> Vec<String> {
    let all = sandbox.list_dir(&ListDir::new(path)).await.unwrap();
    all.into_iter().map(|file| file.name).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn reads_what_was_written() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        for name in ["a b", "-x", "é", "new\nline", &"n".repeat(255), "deep/er/file"] {
            let path = format!("/data/{name}");
            for text in ["short", "something longer", "tiny", ""] {
                write(&sandbox, &path, text).await.unwrap();
                assert_eq!(read(&sandbox, &path).await.unwrap(), text.as_bytes(), "{name}");
            }
        }
        assert_eq!(kind(write(&sandbox, &format!("/{}", "n".repeat(256)), "x").await), ErrorKind::InvalidArgument);
        write(&sandbox, "/r", "0123456789").await.unwrap();
        for (offset, length, text) in
            [(0, Some(3), "012"), (8, Some(9), "89"), (10, None, ""), (99, None, ""), (4, Some(0), "")]
        {
            let request = ReadFile::new("/r").offset(offset).length(length);
            assert_eq!(all(sandbox.read_file(&request).await.unwrap()).await.unwrap(), text.as_bytes());
        }
        let large = Bytes::from(vec![7; 100 << 20]);
        write(&sandbox, "/large", large.clone()).await.unwrap();
        assert!(read(&sandbox, "/large").await.unwrap() == large);
    });
}

#[test]
fn errors_have_their_kinds_and_paths() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        run(&sandbox, &exec("mkfifo /fifo")).await;
        run(&sandbox, &exec("ln -s /loop /loop")).await;
        use ErrorKind::*;
        for (path, expected) in [
            ("/missing", PathNotFound),
            ("/etc", IsADirectory),
            ("/etc/passwd/x", NotADirectory),
            ("/fifo", NotAFile),
            ("/dev/zero", NotAFile),
            ("/loop", InvalidArgument),
        ] {
            let error = read(&sandbox, path).await.unwrap_err();
            assert!(error.kind() == expected && error.message().contains(path), "{path}: {error:?}");
        }
        assert_eq!(kind(write(&sandbox, "/etc", "x").await), IsADirectory);
        assert_eq!(kind(write(&sandbox, "/etc/passwd/x/y", "x").await), NotADirectory);
        assert_eq!(kind(write(&sandbox, "/sys/x", "x").await), ReadOnly);
        assert_eq!(kind(write(&sandbox, "/sys/new/x", "x").await), ReadOnly);
        assert_eq!(kind(sandbox.list_dir(&ListDir::new("/etc/passwd")).await), NotADirectory);
        assert_eq!(kind(sandbox.make_dir(&MakeDir::new("/etc/passwd")).await), AlreadyExists);
        assert_eq!(kind(sandbox.make_dir(&MakeDir::new("/etc/passwd/x")).await), NotADirectory);
        assert_eq!(kind(sandbox.make_dir(&MakeDir::new("/etc/passwd/x/y")).await), NotADirectory);
        assert_eq!(kind(sandbox.remove(&Remove::new("/missing")).await), PathNotFound);
        assert_eq!(kind(sandbox.remove(&Remove::new("/etc")).await), IsADirectory);
        assert_eq!(kind(sandbox.stat(&Stat::new("/missing")).await), PathNotFound);
        sandbox.make_dir(&MakeDir::new("/tmp")).await.unwrap();
        let user = lab.create(Spec::new().user("app")).await.unwrap().instance;
        assert_eq!(kind(read(&user, "/root/x").await), PermissionDenied);
        assert_eq!(kind(write(&user, "/etc/passwd", "x").await), PermissionDenied);
        assert_eq!(kind(write(&user, "/new/x", "x").await), PermissionDenied);
        write(&user, "/home/app/x", "mine").await.unwrap();
        let meta = user.stat(&Stat::new("/home/app/x")).await.unwrap().meta;
        assert_eq!((meta.uid, meta.gid, meta.mode), (1000, 1000, 0o644));
    });
}

#[test]
fn the_disk_fills_up() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.create(capped(Resources::new().disk(10_000))).await.unwrap().instance;
        write(&sandbox, "/a", vec![0; 5000]).await.unwrap();
        assert_eq!(kind(write(&sandbox, "/b", vec![0; 9000]).await), ErrorKind::DiskFull);
        assert_eq!(kind(sandbox.stat(&Stat::new("/b")).await), ErrorKind::PathNotFound);
        assert_eq!(kind(write(&sandbox, "/a", vec![1; 50_000]).await), ErrorKind::DiskFull);
        assert_eq!(read(&sandbox, "/a").await.unwrap(), vec![0; 5000], "the old one stays");
        sandbox.remove(&Remove::new("/a")).await.unwrap();
        write(&sandbox, "/b", vec![0; 5000]).await.unwrap();
        assert_eq!(run(&sandbox, &exec("tee /c")).await.status(), Status::Code(0));
    });
}

#[test]
fn a_write_is_whole_or_not_at_all() {
    struct Cut(bool);
    impl Chunks for Cut {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            if std::mem::replace(&mut self.0, true) {
                Err(Error::new(ErrorKind::ConnectionLost, "cut"))
            } else {
                Ok(Some(Bytes::from_static(b"new")))
            }
        }
    }
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        write(&sandbox, "/f", "old").await.unwrap();
        let cut = sandbox.write_file(&WriteFile::new("/f"), Body::new(None, Cut(false))).await;
        assert_eq!(kind(cut), ErrorKind::ConnectionLost);
        assert_eq!(read(&sandbox, "/f").await.unwrap(), b"old");
        for stated in [2, 4] {
            let body = Body::from(Bytes::from_static(b"new"));
            struct Of(Body);
            impl Chunks for Of {
                async fn next(&mut self) -> Result<Option<Bytes>> {
                    self.0.next().await
                }
            }
            let lying = sandbox.write_file(&WriteFile::new("/f"), Body::new(Some(stated), Of(body))).await;
            assert_eq!(kind(lying), ErrorKind::InvalidArgument, "{stated}");
        }
        assert_eq!(read(&sandbox, "/f").await.unwrap(), b"old");
        let cut = sandbox.write_file(&WriteFile::new("/new/f"), Body::new(None, Cut(false))).await;
        assert_eq!(kind(cut), ErrorKind::ConnectionLost);
        assert_eq!(kind(sandbox.stat(&Stat::new("/new")).await), ErrorKind::PathNotFound);
    });
}

#[test]
fn names_move_and_links_are_not_followed() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let rename = async |from: &str, to: &str| sandbox.rename(&Rename::new(from, to)).await;
        write(&sandbox, "/d/a", "a").await.unwrap();
        write(&sandbox, "/d/b", "b").await.unwrap();
        rename("/d/a", "/d/b").await.unwrap();
        assert_eq!(read(&sandbox, "/d/b").await.unwrap(), b"a");
        assert_eq!(listed(&sandbox, "/d").await, ["b"]);
        rename("/d", "/e").await.unwrap();
        assert_eq!(kind(rename("/e", "/e/inside").await), ErrorKind::InvalidArgument);
        assert_eq!(kind(rename("/e/b", "/tmp").await), ErrorKind::IsADirectory);
        assert_eq!(kind(rename("/tmp", "/e/b").await), ErrorKind::NotADirectory);
        assert_eq!(kind(rename("/tmp", "/e").await), ErrorKind::AlreadyExists);
        assert_eq!(kind(rename("/missing", "/x").await), ErrorKind::PathNotFound);

        run(&sandbox, &exec("ln -s /e /link")).await;
        let info = sandbox.stat(&Stat::new("/link")).await.unwrap();
        assert_eq!((info.kind, info.target.as_deref(), &*info.name), (FileKind::Symlink, Some("/e"), "link"));
        run(&sandbox, &exec("ln -s b /e/other")).await;
        assert_eq!(read(&sandbox, "/e/other").await.unwrap(), b"a");
        write(&sandbox, "/e/other", "own").await.unwrap();
        assert_eq!(
            (read(&sandbox, "/e/other").await.unwrap(), read(&sandbox, "/e/b").await.unwrap()),
            (b"own".into(), b"a".into())
        );
        assert_eq!(read(&sandbox, "/link/../e/./b").await.unwrap(), b"a");
        sandbox.remove(&Remove::new("/link").recursive(true)).await.unwrap();
        assert_eq!(read(&sandbox, "/e/b").await.unwrap(), b"a", "the target stays");
        sandbox.remove(&Remove::new("/e").recursive(true)).await.unwrap();
        sandbox.remove(&Remove::new("/e").recursive(true)).await.unwrap();
        assert_eq!(kind(sandbox.stat(&Stat::new("/e")).await), ErrorKind::PathNotFound);
        run(&sandbox, &exec("ln -s nowhere/at/all /dangling")).await;
        assert_eq!(kind(sandbox.make_dir(&MakeDir::new("/dangling/x")).await), ErrorKind::PathNotFound);
        sandbox.make_dir(&MakeDir::new(vec!["d"; 1000].join("/"))).await.unwrap();
    });
}

#[test]
fn metadata() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        write(&sandbox, "/f", "x").await.unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let set = SetMeta::new("/f").mode(Some(0o4751)).owner(Some((7, 8))).mtime(Some(time));
        sandbox.set_meta(&set).await.unwrap();
        let meta = sandbox.stat(&Stat::new("/f")).await.unwrap().meta;
        assert_eq!((meta.mode, meta.uid, meta.gid, meta.mtime), (0o4751, 7, 8, 1_000_000));
        sandbox.write_file(&WriteFile::new("/f"), Bytes::new().into()).await.unwrap();
        let meta = sandbox.stat(&Stat::new("/f")).await.unwrap().meta;
        assert_eq!((meta.mode, meta.uid), (0o4751, 7), "a write keeps them");
        sandbox.write_file(&WriteFile::new("/f").mode(Some(0o600)), Bytes::new().into()).await.unwrap();
        assert_eq!(sandbox.stat(&Stat::new("/f")).await.unwrap().meta.mode, 0o600);
        // Files that programs make have the virtual time.
        run(&sandbox, &exec("sleep 100")).await;
        run(&sandbox, &exec("touch /late")).await;
        let (early, late) =
            (sandbox.stat(&Stat::new("/etc")).await.unwrap(), sandbox.stat(&Stat::new("/late")).await.unwrap());
        assert!((100..110).contains(&(late.meta.mtime - early.meta.mtime)));
        assert!(UNIX_EPOCH + Duration::from_secs(1_000_000) < SystemTime::now());
    });
}

#[test]
fn trees_there_and_back() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let long = "long".repeat(60);
        write(&sandbox, "/t/a", "a").await.unwrap();
        write(&sandbox, &format!("/t/{long}/{long}/{long}"), "deep").await.unwrap();
        write(&sandbox, "/t/big", vec![3; 1_000_001]).await.unwrap();
        write(&sandbox, "/t/empty", "").await.unwrap();
        sandbox.make_dir(&MakeDir::new("/t/hollow")).await.unwrap();
        run(&sandbox, &exec("ln -s a /t/link")).await;
        sandbox.set_meta(&SetMeta::new("/t/a").mode(Some(0o755)).owner(Some((1000, 1000)))).await.unwrap();
        sandbox.set_meta(&SetMeta::new("/t/hollow").mode(Some(0o555)).mtime(Some(UNIX_EPOCH))).await.unwrap();
        let tar = all(sandbox.get_tree(&GetTree::new("/t")).await.unwrap()).await.unwrap();
        assert_eq!(tar.len() % 512, 0);
        let mut archive = tar::Archive::new(&tar[..]);
        let first = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!((&*first.path_bytes(), first.header().entry_type()), (&b"t"[..], tar::EntryType::Directory));

        sandbox.make_dir(&MakeDir::new("/copy")).await.unwrap();
        for _ in 0..2 {
            sandbox.put_tree(&PutTree::new("/copy"), Bytes::from(tar.clone()).into()).await.unwrap();
        }
        assert_eq!(listed(&sandbox, "/copy/t").await, listed(&sandbox, "/t").await);
        for path in ["a".into(), "big".into(), "empty".into(), format!("{long}/{long}/{long}")] {
            let (old, new) = (format!("/t/{path}"), format!("/copy/t/{path}"));
            assert!(read(&sandbox, &old).await.unwrap() == read(&sandbox, &new).await.unwrap(), "{path}");
        }
        for path in ["a", "hollow", "link", "big"] {
            let old = sandbox.stat(&Stat::new(format!("/t/{path}"))).await.unwrap();
            let new = sandbox.stat(&Stat::new(format!("/copy/t/{path}"))).await.unwrap();
            assert_eq!((old.kind, old.target, old.meta), (new.kind, new.target, new.meta), "{path}");
        }
        let one = all(sandbox.get_tree(&GetTree::new("/t/a")).await.unwrap()).await.unwrap();
        assert_eq!(one.len(), 512 * 4);
        let put = sandbox.put_tree(&PutTree::new("/missing"), Bytes::from(one.clone()).into()).await;
        assert_eq!(kind(put), ErrorKind::PathNotFound);
        let put = sandbox.put_tree(&PutTree::new("/etc/passwd"), Bytes::from(one).into()).await;
        assert_eq!(kind(put), ErrorKind::NotADirectory);
        let put = sandbox.put_tree(&PutTree::new("/tmp"), Bytes::from_static(&[1; 2000]).into()).await;
        assert_eq!(kind(put), ErrorKind::Protocol);
        assert_eq!(kind(sandbox.get_tree(&GetTree::new("/missing")).await), ErrorKind::PathNotFound);
    });
}

#[test]
fn ten_thousand_entries() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let mut builder = tar::Builder::new(Vec::new());
        for number in 0..10_000 {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            builder.append_data(&mut header, format!("many/{number}"), &b"x"[..]).unwrap();
        }
        let tar = Bytes::from(builder.into_inner().unwrap());
        sandbox.put_tree(&PutTree::new("/tmp"), tar.into()).await.unwrap();
        assert_eq!(listed(&sandbox, "/tmp/many").await.len(), 10_000);
        let back = all(sandbox.get_tree(&GetTree::new("/tmp/many")).await.unwrap()).await.unwrap();
        assert_eq!(tar::Archive::new(&back[..]).entries().unwrap().count(), 10_001);
        assert_eq!(read(&sandbox, "/tmp/many/9999").await.unwrap(), b"x");
    });
}
