use crate::lab::{Lab, out};
use bytes::Bytes;
use sandbox_core::{Body, Chunks, Error, ErrorKind, FileKind, GetTree, Instance, PutTree, Result, Stat};
use sandbox_docker::Container;
use std::io::Read;

/// A tar of members: name, kind, contents (or what a link points to).
fn tar(members: &[(&str, tar::EntryType, &str)]) -> Body {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, text) in members {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(if kind.is_dir() { 0o750 } else { 0o640 });
        header.set_uid(1000);
        header.set_gid(1000);
        header.set_mtime(1_000_000_000);
        if kind.is_symlink() {
            header.set_size(0);
            builder.append_link(&mut header, name, text).unwrap();
        } else {
            header.set_size(text.len() as u64);
            builder.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
    }
    Bytes::from(builder.into_inner().unwrap()).into()
}

const FILE: tar::EntryType = tar::EntryType::Regular;
const DIR: tar::EntryType = tar::EntryType::Directory;
const LINK: tar::EntryType = tar::EntryType::Symlink;

async fn put(room: &Container, path: &str, body: Body) -> Result<(), ErrorKind> {
    room.put_tree(&PutTree::new(path), body).await.map_err(|error| error.kind())
}

async fn get(room: &Container, path: &str) -> Result<Vec<(String, tar::EntryType, String)>> {
    let mut body = room.get_tree(&GetTree::new(path)).await?;
    let mut all = Vec::new();
    while let Some(piece) = body.next().await? {
        all.extend_from_slice(&piece);
    }
    let mut archive = tar::Archive::new(&all[..]);
    let members = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        if let Some(target) = entry.link_name().unwrap() {
            text = target.to_str().unwrap().into();
        }
        (entry.path().unwrap().to_str().unwrap().to_string(), entry.header().entry_type(), text)
    });
    Ok(members.collect())
}

pub(crate) async fn trees_go_in_and_come_out(lab: Lab) {
    let made = lab.sandbox().await;
    let room = &made.instance;
    let members = [
        ("d", DIR, ""),
        ("d/-é x", FILE, ""),
        ("d/a\nb", FILE, ""),
        ("d/empty", DIR, ""),
        ("d/f", FILE, "text"),
        ("d/l", LINK, "f"),
    ];
    put(room, "/work", tar(&members)).await.unwrap();
    assert_eq!(out(room, "stat -c '%a %u %g %Y' d/f").await, "640 1000 1000 1000000000");
    assert_eq!(out(room, "readlink d/l; cat d/l").await, "f\ntext");
    let mut back = get(room, "/work/d").await.unwrap();
    assert_eq!(back[0], ("d/".into(), DIR, String::new()));
    back.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<_> = back.iter().map(|(name, _, _)| name.trim_end_matches('/')).collect();
    assert_eq!(names, ["d", "d/-é x", "d/a\nb", "d/empty", "d/f", "d/l"]);
    assert_eq!(get(room, "/work/d/f").await.unwrap(), [("f".into(), FILE, "text".into())]);
    assert_eq!(get(room, "/work/d/l").await.unwrap(), [("l".into(), LINK, "f".into())]);
    // A shorter file truncates a longer one.
    put(room, "/work/d", tar(&[("f", FILE, "t")])).await.unwrap();
    assert_eq!(out(room, "cat d/f").await, "t");
    lab.destroy(made).await;
}

pub(crate) async fn targets_that_cannot_be_written(lab: Lab) {
    let made = lab.sandbox().await;
    let room = &made.instance;
    let one = || tar(&[("x", FILE, "new")]);
    assert_eq!(put(room, "/no/such/place", one()).await, Err(ErrorKind::PathNotFound));
    assert_eq!(put(room, "/etc/passwd", one()).await, Err(ErrorKind::NotADirectory));
    out(room, "mkdir -p /work/x && echo kept > /work/x/inside && echo file > /work/y").await;
    assert_eq!(put(room, "/work", one()).await, Err(ErrorKind::IsADirectory));
    assert_eq!(out(room, "cat x/inside").await, "kept");
    assert_eq!(put(room, "/work", tar(&[("y", DIR, "")])).await, Err(ErrorKind::NotADirectory));
    assert_eq!(out(room, "cat y").await, "file");
    assert_eq!(put(room, "/tmp", one()).await, Ok(()));
    // The engine mounts this one, so it cannot be replaced.
    assert_eq!(put(room, "/etc", tar(&[("hosts", FILE, "")])).await, Err(ErrorKind::PermissionDenied));
    assert_eq!(put(room, "/etc", tar(&[("hosts.allow", FILE, "")])).await, Ok(()));
    assert_eq!(get(room, "/no/such/file").await.unwrap_err().kind(), ErrorKind::PathNotFound);
    let gone = made.id.clone();
    assert_eq!(get(room, "/tmp/x").await.unwrap(), [("x".into(), FILE, "new".into())]);
    sandbox_core::Backend::destroy(&*lab.plain, &gone).await.unwrap();
    assert_eq!(get(room, "/tmp/x").await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(put(room, "/tmp", one()).await, Err(ErrorKind::Gone));
}

pub(crate) async fn what_is_at_a_path(lab: Lab) {
    use FileKind as K;
    let made = lab.sandbox().await;
    let room = &made.instance;
    out(room, "mkfifo p; ln -s /etc/passwd l; ln -s loop loop; mkdir d; chmod 1750 d; echo text > f; chmod 4711 f")
        .await;
    for (path, kind, size, mode) in [
        ("/work/f", K::File, Some(5), 0o4711),
        ("/work/p", K::Other, None, 0o644),
        ("/work/l", K::Symlink, None, 0o777),
        ("/work/d", K::Directory, None, 0o1750),
        ("/", K::Directory, None, 0o755),
    ] {
        let found = room.stat_tree(&Stat::new(path)).await.unwrap();
        assert_eq!((found.kind, found.meta.mode), (kind, mode), "{path}");
        assert!(size.is_none_or(|size| size == found.size), "{path}: {}", found.size);
        assert_eq!(found.name, if path == "/" { "/" } else { path.rsplit('/').next().unwrap() });
    }
    for (path, kind) in [
        ("/work/nope", ErrorKind::PathNotFound),
        ("/work/loop", ErrorKind::PathNotFound),
        ("/work/f/below", ErrorKind::NotADirectory),
    ] {
        assert_eq!(room.stat_tree(&Stat::new(path)).await.unwrap_err().kind(), kind, "{path}");
    }
    sandbox_core::Backend::destroy(&*lab.plain, &made.id).await.unwrap();
    assert_eq!(room.stat_tree(&Stat::new("/work/f")).await.unwrap_err().kind(), ErrorKind::Gone);
}

pub(crate) async fn trees_too_deep_for_the_engine(lab: Lab) {
    let made = lab.sandbox().await;
    let nest = |name: &str, depth: u32| {
        format!(
            "mkdir {name}; cd {name}; i=0; while [ $i -lt {depth} ]; do mkdir some-dir; cd some-dir; i=$((i+1)); done; echo x > a-file-with-a-long-name"
        )
    };
    out(&made.instance, &nest("control", 400)).await;
    let whole = get(&made.instance, "/work/control").await.unwrap();
    assert_eq!(whole.len(), 402);
    assert!(whole.last().unwrap().0.ends_with("/a-file-with-a-long-name"));
    // The file's path is too long, that of its directory is not.
    out(&made.instance, &nest("deep", 453)).await;
    let error = get(&made.instance, "/work/deep").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.message().contains("/work/deep") && error.hint().is_some_and(|hint| hint.contains("tar")));
    lab.destroy(made).await;
}

/// A tar with one file of zeros, made as it is read.
struct Zeros {
    header: Option<Bytes>,
    left: usize,
    most_ahead: usize,
}

impl Chunks for Zeros {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header));
        }
        let piece = self.left.min(self.most_ahead);
        self.left -= piece;
        Ok((piece > 0).then(|| Bytes::from(vec![0; piece])))
    }
}

pub(crate) async fn constant_memory(lab: Lab) {
    let made = lab.sandbox().await;
    const SIZE: usize = 300 << 20;
    let mut header = tar::Header::new_gnu();
    header.set_path("big").unwrap();
    header.set_size(SIZE as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let zeros =
        Zeros { header: Some(Bytes::copy_from_slice(header.as_bytes())), left: SIZE + 1024, most_ahead: 1 << 16 };
    let before = peak();
    put(&made.instance, "/work", Body::new(None, zeros)).await.unwrap();
    assert_eq!(out(&made.instance, "stat -c %s big").await, SIZE.to_string());
    let mut body = made.instance.get_tree(&GetTree::new("/work/big")).await.unwrap();
    let mut size = 0;
    while let Some(piece) = body.next().await.unwrap() {
        size += piece.len();
    }
    assert!(size > SIZE, "{size}");
    let grown = peak().saturating_sub(before);
    assert!(grown < 150 << 10, "the peak grew by {grown} KiB");
    lab.destroy(made).await;
}

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

pub(crate) async fn a_source_that_fails(lab: Lab) {
    struct Failing(Option<Bytes>);
    impl Chunks for Failing {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            match self.0.take() {
                Some(piece) => Ok(Some(piece)),
                None => Err(Error::new(ErrorKind::PermissionDenied, "the host's file cannot be read")),
            }
        }
    }
    let made = lab.sandbox().await;
    let mut header = tar::Header::new_gnu();
    header.set_path("part").unwrap();
    header.set_size(100_000);
    header.set_mode(0o644);
    header.set_cksum();
    let body = Body::new(None, Failing(Some(Bytes::copy_from_slice(header.as_bytes()))));
    let error = made.instance.put_tree(&PutTree::new("/work"), body).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::PermissionDenied, "the host's file cannot be read"));
    assert_eq!(out(&made.instance, "echo usable").await, "usable");
    lab.destroy(made).await;
}

pub(crate) async fn what_the_engine_does_not_see(lab: Lab) {
    let facts = sandbox_core::Backend::info(&*lab.plain);
    let made = lab.sandbox().await;
    for (path, there) in [("/proc/version", true), ("/dev/null", true), ("/sys/kernel", true), ("/etc/passwd", false)] {
        out(&made.instance, &format!("test -e {path}")).await;
        assert_eq!(get(&made.instance, path).await.is_err(), there, "{path}");
        assert_eq!(facts.is_blind(path), there, "{path}");
    }
    // Every other file system that is mounted inside is seen.
    let mounts = out(&made.instance, "cut -d' ' -f2 /proc/mounts").await;
    for mount in mounts.lines().filter(|mount| !facts.is_blind(mount) && *mount != "/") {
        assert!(get(&made.instance, mount).await.is_ok(), "{mount} is not seen, and not declared");
    }
    lab.destroy(made).await;
}
