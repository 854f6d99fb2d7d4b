//! Trees of a sandbox that means harm: nothing of them reaches the host outside the target.

use crate::common::{
    scripted::{Script, hook, script_of},
    spec,
};
use bytes::Bytes;
use sandbox::{Body, Capability, ErrorKind, Result, TreeReport};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tar::EntryType;

/// A tar as nobody's library would write it: names go in as they are.
#[derive(Default)]
pub(super) struct Tar(pub(super) Vec<u8>);

impl Tar {
    pub(super) fn add(mut self, kind: EntryType, name: &str, link: &str, content: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o4755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(super) fn root() -> Self {
        Self::default().dir("t/")
    }

    pub(super) fn dir(self, name: &str) -> Self {
        self.add(EntryType::Directory, name, "", b"")
    }

    pub(super) fn file(self, name: &str, content: &[u8]) -> Self {
        self.add(EntryType::Regular, name, "", content)
    }

    pub(super) fn link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, name, target, b"")
    }

    pub(super) fn hard(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Link, name, target, b"")
    }

    pub(super) fn fifo(self, name: &str) -> Self {
        self.add(EntryType::Fifo, name, "", b"")
    }

    pub(super) fn end(mut self) -> Bytes {
        self.0.resize(self.0.len() + 1024, 0);
        self.0.into()
    }
}

/// A host directory with something outside the target that has to stay as it is.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        Self { dir }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    fn assert_untouched(&self, what: &str) {
        let mut names: Vec<_> = fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        let fine = names == ["outside"] || names == ["outside", "target"];
        assert!(fine, "{what}: {names:?}");
        assert_eq!(fs::read(self.dir.path().join("outside/secret")).unwrap(), b"secret", "{what}");
        assert_eq!(fs::read_dir(self.dir.path().join("outside")).unwrap().count(), 1, "{what}");
    }
}

pub(super) async fn download(tar: Bytes, target: &Path) -> Result<TreeReport> {
    let get_tree = hook(move |_| {
        let body = Body::from(tar.clone());
        async { Ok(body) }
    });
    let (client, _log) = Script { get_tree, ..script_of() }.having([Capability::Files, Capability::Tree]).client();
    client.create(spec()).await.unwrap().files().download_dir("/t", target).await
}

#[tokio::test]
async fn the_way_of_making_such_trees_makes_honest_ones_too() {
    let ground = Ground::new();
    let tar = Tar::root().dir("t/d/").file("t/d/f", b"x").link("t/l", "d/f").hard("t/h", "t/d/f").end();
    let report = download(tar, &ground.target()).await.unwrap();
    assert_eq!((report.files, report.bytes), (3, 2));
    assert_eq!(fs::read(ground.target().join("l")).unwrap(), b"x");
    assert_eq!(fs::read(ground.target().join("h")).unwrap(), b"x");
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(ground.target().join("d/f")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755, "no set-uid bit reaches the host");
    ground.assert_untouched("honest");
}

#[tokio::test]
async fn hard_links_to_what_is_no_file_lose_nothing_else() {
    let ground = Ground::new();
    let tar = Tar::root().dir("t/d/").link("t/d/s", "../f").hard("t/d/s2", "t/d/s").fifo("t/p").hard("t/p2", "t/p");
    let report = download(tar.file("t/f", b"x").end(), &ground.target()).await.unwrap();
    assert_eq!((report.files, &*report.skipped), (3, &["p".to_string(), "p2".to_string()][..]));
    assert_eq!(fs::read_link(ground.target().join("d/s2")).unwrap(), Path::new("../f"));
    assert_eq!(fs::read(ground.target().join("f")).unwrap(), b"x");
    // The text of a link means something else from another directory.
    let tar = Tar::root().dir("t/d/").dir("t/d/e/").link("t/d/e/s", "../../f").hard("t/s2", "t/d/e/s").end();
    let error = download(tar, &ground.target()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    ground.assert_untouched("hard links");
}

#[tokio::test]
async fn members_and_links_that_leave_are_refused() {
    for (what, tar) in [
        ("dots", Tar::root().file("t/../../outside/new", b"x")),
        ("dots alone", Tar::root().file("../outside/new", b"x")),
        ("dots in the root", Tar::default().dir("../t/")),
        ("dots behind a directory", Tar::root().dir("t/a/").file("t/a/../../../outside/new", b"x")),
        ("a directory of dots", Tar::root().dir("t/../../outside/dir/")),
        ("an absolute link", Tar::root().link("t/l", "/etc/passwd")),
        ("a link out", Tar::root().link("t/l", "../outside/secret")),
        ("a link that goes up again", Tar::root().link("t/s", ".").link("t/l", "s/../../outside/secret")),
        ("a link up from a directory's link", Tar::root().dir("t/d/").link("t/d/s", "..").link("t/d/l", "s/..")),
        ("a link to nothing", Tar::root().link("t/l", "")),
        ("a link out of a directory", Tar::root().dir("t/d/").link("t/d/l", "../../outside")),
        ("a hard link out", Tar::root().hard("t/h", "../outside/secret")),
        ("a hard link with dots", Tar::root().hard("t/h", "t/../../outside/secret")),
    ] {
        let ground = Ground::new();
        let error = download(tar.end(), &ground.target()).await.expect_err(what);
        assert!(matches!(error.kind(), ErrorKind::Protocol | ErrorKind::InvalidArgument), "{what}: {error:?}");
        assert_eq!(error.operation(), Some("files.download_dir"));
        ground.assert_untouched(what);
    }
}

#[tokio::test]
async fn absolute_names_stay_below_the_target() {
    let ground = Ground::new();
    let secret = ground.dir.path().join("outside/secret");
    let name = secret.to_str().unwrap().to_string();
    assert!(name.len() < 100);
    let done = download(Tar::root().file(&name, b"x").hard("t/h", "/etc/hostname").end(), &ground.target()).await;
    ground.assert_untouched("absolute");
    assert!(done.is_err(), "there is no such file in the tree to link to");
}

#[tokio::test]
async fn nothing_is_written_through_a_link() {
    for (what, tar) in [
        ("a file through a link", Tar::root().link("t/l", "d").dir("t/d/").file("t/l/f", b"x")),
        ("a directory through a link", Tar::root().dir("t/d/").link("t/l", "d").dir("t/l/sub/")),
        ("a link through a link", Tar::root().dir("t/d/").link("t/l", "d").link("t/l/m", "x")),
        (
            "a hard link through a link",
            Tar::root().dir("t/d/").file("t/d/f", b"x").link("t/l", "d").hard("t/h", "t/l/f"),
        ),
        // Two links, each inside by its text, that together lead out.
        (
            "links that add up",
            Tar::root()
                .dir("t/a/")
                .dir("t/a/b/")
                .link("t/a/b/up", "../..")
                .link("t/out", "a/b/up/..")
                .file("t/out/outside/new", b"x"),
        ),
    ] {
        let ground = Ground::new();
        let error = download(tar.end(), &ground.target()).await.expect_err(what);
        assert!(
            matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Protocol | ErrorKind::InvalidArgument),
            "{what}: {error:?}"
        );
        ground.assert_untouched(what);
    }
}

#[tokio::test]
async fn a_link_is_replaced_not_followed() {
    let ground = Ground::new();
    fs::create_dir(ground.target()).unwrap();
    std::os::unix::fs::symlink("../outside/secret", ground.target().join("f")).unwrap();
    download(Tar::root().file("t/f", b"new").end(), &ground.target()).await.unwrap();
    assert_eq!(fs::read(ground.target().join("f")).unwrap(), b"new");
    ground.assert_untouched("a link of the host's own");
    let ground = Ground::new();
    download(Tar::root().file("t/real", b"old").link("t/f", "real").file("t/f", b"new").end(), &ground.target())
        .await
        .unwrap();
    assert_eq!(fs::read(ground.target().join("real")).unwrap(), b"old");
    // A hard link is a copy: to write to one of both changes no other.
    let ground = Ground::new();
    let tar = Tar::root().file("t/real", b"old").hard("t/h", "t/real").file("t/h", b"new").end();
    download(tar, &ground.target()).await.unwrap();
    assert_eq!(fs::read(ground.target().join("real")).unwrap(), b"old");
}

#[tokio::test]
async fn devices_and_fifos_are_not_made() {
    let ground = Ground::new();
    let tar = Tar::root()
        .add(EntryType::Block, "t/block", "", b"")
        .add(EntryType::Char, "t/char", "", b"")
        .add(EntryType::Fifo, "t/fifo", "", b"")
        .file("t/f", b"x");
    let report = download(tar.end(), &ground.target()).await.unwrap();
    assert_eq!((report.files, report.skipped), (1, ["block", "char", "fifo"].map(String::from).to_vec()));
    assert_eq!(fs::read_dir(ground.target()).unwrap().count(), 1);
    // A hard link to what was not made has nothing to copy, and what the host has there is not taken for it.
    let ground = Ground::new();
    fs::create_dir_all(ground.target()).unwrap();
    std::os::unix::fs::symlink("../outside/secret", ground.target().join("s")).unwrap();
    assert!(download(Tar::root().hard("t/h", "t/s").end(), &ground.target()).await.is_err());
    assert!(!ground.target().join("h").exists());
}

#[tokio::test]
async fn a_stream_that_is_cut_or_broken_is_an_error() {
    let whole = Tar::root().file("t/f", &[7; 3000]).end();
    for (what, tar) in [
        ("nothing", Bytes::new()),
        ("half a header", whole.slice(..700)),
        ("half a file", whole.slice(..2000)),
        ("no end", whole.slice(..whole.len() - 1024)),
        ("half an end", whole.slice(..whole.len() - 700)),
        ("more after the end", Bytes::from([&whole[..], &[b'x'; 2 << 20]].concat())),
        ("no tar", Bytes::from(vec![b'x'; 4096])),
        ("a first member that is no directory", Tar::default().file("t", b"x").end()),
    ] {
        let ground = Ground::new();
        let error = download(tar, &ground.target()).await.expect_err(what);
        assert!(matches!(error.kind(), ErrorKind::Protocol | ErrorKind::NotADirectory), "{what}: {error:?}");
        // A file that came whole stays.
        let left = fs::read_dir(ground.target()).into_iter().flatten().map(|e| e.unwrap().file_name());
        assert!(left.into_iter().all(|name| name == "f" && what.contains("end")), "{what}");
        ground.assert_untouched(what);
    }
}
