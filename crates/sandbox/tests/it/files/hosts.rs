//! Files of the host that are not what they seem.

use super::{WAYS, Way, place, temporaries};
use crate::common::{
    LONG,
    scripted::{Script, hook, script_of},
    spec,
};
use sandbox::{Body, Capability, Command, ErrorKind, TreeOptions};
use sandbox_core::PutTree;
use std::{
    ffi::OsStr,
    fs,
    future::Future,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    sync::{Arc, Mutex},
};

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it hangs")
}

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn what_is_no_regular_file_is_not_sent() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        fifo(&host.path().join("fifo"));
        symlink("fifo", host.path().join("link")).unwrap();
        let _socket = UnixListener::bind(host.path().join("socket")).unwrap();
        for path in ["fifo", "link", "socket", "/dev/zero", "/dev/null"] {
            let error = within(files.upload(host.path().join(path), "x")).await.expect_err(path);
            assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::NotAFile, false), "{way:?} {path}");
            assert!(error.message().contains("on the host"), "{error:?}");
        }
        assert!(!files.exists("x").await.unwrap(), "{way:?}");
        fs::write(host.path().join("file"), "content").unwrap();
        symlink("file", host.path().join("to-file")).unwrap();
        files.upload(host.path().join("to-file"), "x").await.unwrap();
        assert_eq!(files.read_text("x").await.unwrap(), "content", "{way:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_that_a_kernel_makes_up_are_sent_as_they_read() {
    for way in WAYS {
        let place = place(way).await;
        let files = place.sandbox.files();
        files.upload("/proc/version", "version").await.unwrap();
        assert_eq!(files.read("version").await.unwrap(), fs::read("/proc/version").unwrap(), "{way:?}");
        let one = TreeOptions::new().include("boot_id");
        let report = files.upload_dir_with("/proc/sys/kernel/random", "random", &one).await.unwrap();
        let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!((report.files, report.bytes), (1, id.len() as u64), "{way:?}");
        assert_eq!(files.read("random/boot_id").await.unwrap(), id, "{way:?}");
        // One that says to be more than it is.
        let page = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
        if page.exists() {
            files.upload(page, "page").await.unwrap();
            assert_eq!(files.read("page").await.unwrap(), fs::read(page).unwrap(), "{way:?}");
        }
    }
}

/// A sandbox that changes the host's files when it has taken so many pieces, and keeps what comes.
async fn meddling(pieces: usize, change: impl Fn() + Send + Sync + 'static) -> (sandbox::Files, Arc<Mutex<Vec<u8>>>) {
    let change = Arc::new(change);
    let got: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&got);
    let taken = Arc::new(move |mut body: Body| {
        let (change, kept) = (Arc::clone(&change), Arc::clone(&kept));
        async move {
            for n in 0.. {
                if n == pieces {
                    change();
                }
                let Some(piece) = body.next().await? else { break };
                kept.lock().unwrap().extend_from_slice(&piece);
            }
            Ok(())
        }
    });
    let whole = Arc::clone(&taken);
    let script = Script {
        put_tree: hook(move |(_, body): (PutTree, Body)| taken(body)),
        write_file: hook(move |(_, body): (sandbox::WriteFile, Body)| whole(body)),
        made: Box::new(|made| made.ids(0, 0)),
        ..script_of()
    };
    let (client, log) = script.having([Capability::Files, Capability::Tree]).client();
    let files = client.create(spec()).await.unwrap().files();
    std::mem::forget(log);
    (files, got)
}

#[tokio::test]
async fn what_took_a_files_place_is_not_sent_for_it() {
    for (what, swapped) in [("file", true), ("dir", true), ("nothing", false)] {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("src/sub")).unwrap();
        fs::create_dir_all(host.path().join("outside")).unwrap();
        fs::write(host.path().join("src/sub/f"), "mine").unwrap();
        fs::write(host.path().join("outside/f"), "secret").unwrap();
        let root = host.path().to_path_buf();
        let (files, got) = meddling(0, move || match what {
            "file" => {
                fs::remove_file(root.join("src/sub/f")).unwrap();
                symlink("../../outside/f", root.join("src/sub/f")).unwrap();
            }
            "dir" => {
                fs::rename(root.join("src/sub"), root.join("away")).unwrap();
                symlink("../outside", root.join("src/sub")).unwrap();
            }
            _ => {}
        })
        .await;
        let done = within(files.upload_dir(host.path().join("src"), "/x")).await;
        let got = String::from_utf8_lossy(&got.lock().unwrap()).into_owned();
        assert!(!got.contains("secret"), "{what}: {got:?}");
        assert_eq!(got.contains("mine"), !swapped, "{what}");
        match done {
            Ok(_) => assert!(!swapped, "{what}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error:?}"),
        }
    }
    // A FIFO that takes its place is not waited for.
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("f");
    fs::write(&path, "mine").unwrap();
    let (files, _got) = meddling(0, move || {
        fs::remove_file(&path).unwrap();
        fifo(&path);
    })
    .await;
    let error = within(files.upload_dir(host.path(), "/x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
}

#[tokio::test]
async fn a_file_that_becomes_shorter_is_the_same_error_everywhere() {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("f");
    let (files, _got) = meddling(1, {
        let path = path.clone();
        move || fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap()
    })
    .await;
    for operation in ["files.upload", "files.upload_dir"] {
        fs::write(&path, vec![7; 4 << 20]).unwrap();
        let done = match operation {
            "files.upload" => files.upload(&path, "/x").await,
            _ => files.upload_dir(host.path(), "/x").await.map(drop),
        };
        let error = done.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some(operation)), "{error:?}");
        assert!(error.message().contains("shorter") && error.message().contains("on the host"), "{error:?}");
    }
}

#[tokio::test]
async fn paths_that_no_file_can_have_are_the_callers() {
    let (place, host) = (place(Way::Commands).await, tempfile::tempdir().unwrap());
    let files = place.sandbox.files();
    files.write("x", "x").await.unwrap();
    symlink("loop", host.path().join("loop")).unwrap();
    let long = "n".repeat(300);
    for (name, kind) in [
        ("a\0b", ErrorKind::InvalidArgument),
        (long.as_str(), ErrorKind::InvalidArgument),
        ("loop", ErrorKind::PathNotFound),
        ("missing", ErrorKind::PathNotFound),
    ] {
        let path = host.path().join(name);
        let error = files.upload(&path, "x").await.expect_err(name);
        assert_eq!((error.kind(), error.operation()), (kind, Some("files.upload")), "{name:?}: {error:?}");
        let error = files.upload_dir(&path, "y").await.expect_err(name);
        assert_eq!((error.kind(), error.operation()), (kind, Some("files.upload_dir")), "{name:?}: {error:?}");
        if kind == ErrorKind::InvalidArgument {
            assert_eq!(files.download("x", &path).await.expect_err(name).kind(), kind, "{name:?}");
            files.make_dir("d").await.unwrap();
            assert_eq!(files.download_dir("d", &path).await.expect_err(name).kind(), kind, "{name:?}");
        }
    }
    // What the sandbox refuses of an upload is refused of an upload.
    fs::write(host.path().join("f"), "x").unwrap();
    let error = files.upload(host.path().join("f"), "d").await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::IsADirectory, Some("files.upload")), "{error:?}");
}

#[tokio::test]
async fn only_files_and_links_are_replaced_by_a_download() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        files.write("d/f", "content").await.unwrap();
        let at = |name: &str| host.path().join(name);
        fifo(&at("fifo"));
        symlink("fifo", at("to-fifo")).unwrap();
        symlink(host.path(), at("to-dir")).unwrap();
        for (name, kind) in [
            ("fifo", ErrorKind::NotAFile),
            ("to-fifo", ErrorKind::NotAFile),
            ("/dev/null", ErrorKind::NotAFile),
            ("to-dir", ErrorKind::IsADirectory),
        ] {
            let error = within(files.download("d/f", at(name))).await.expect_err(name);
            assert_eq!(error.kind(), kind, "{way:?} {name}: {error:?}");
        }
        assert!(fs::symlink_metadata(at("fifo")).unwrap().file_type().is_fifo(), "{way:?}");
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device(), "{way:?}");
        assert!(at("to-fifo").is_symlink() && at("to-dir").is_symlink(), "{way:?}");
        // A link is replaced, and what it leads to left alone.
        fs::write(at("real"), "real").unwrap();
        symlink("real", at("to-file")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for name in ["to-file", "dangling"] {
            files.download("d/f", at(name)).await.unwrap();
            assert!(!at(name).is_symlink() && fs::read_to_string(at(name)).unwrap() == "content", "{way:?} {name}");
        }
        assert_eq!(fs::read_to_string(at("real")).unwrap(), "real", "{way:?}");
        // In a tree, too.
        fs::create_dir(at("tree")).unwrap();
        fifo(&at("tree/f"));
        let error = within(files.download_dir("d", at("tree"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFile, "{way:?} {error:?}");
        assert!(fs::symlink_metadata(at("tree/f")).unwrap().file_type().is_fifo(), "{way:?}");
        assert!(temporaries(host.path()).is_empty() && temporaries(&at("tree")).is_empty());
    }
}

#[tokio::test]
async fn a_download_has_the_mode_of_the_file_or_keeps_what_is_there() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        for bits in [0o600, 0o640, 0o755, 0o4711] {
            files.write("f", "content").await.unwrap();
            fs::set_permissions(place.dir.join("f"), fs::Permissions::from_mode(bits)).unwrap();
            let new = host.path().join(format!("new-{bits:o}"));
            files.download("f", &new).await.unwrap();
            assert_eq!(mode(&new), bits & 0o777, "{way:?}");
            let old = host.path().join(format!("old-{bits:o}"));
            fs::write(&old, "old").unwrap();
            fs::set_permissions(&old, fs::Permissions::from_mode(0o620)).unwrap();
            files.download("f", &old).await.unwrap();
            assert_eq!((mode(&old), fs::read(&old).unwrap()), (0o620, b"content".to_vec()), "{way:?}");
        }
    }
}

#[tokio::test]
async fn links_are_spelled_as_they_were() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let (files, src) = (place.sandbox.files(), host.path().join("src"));
        fs::create_dir(&src).unwrap();
        let long = format!("./{}//f", "n".repeat(150));
        let targets = ["./x//y/", "a/./b", "x/", "./.", long.as_str()];
        for (n, target) in targets.iter().enumerate() {
            symlink(target, src.join(n.to_string())).unwrap();
        }
        files.upload_dir(&src, "up").await.unwrap();
        files.download_dir("up", host.path().join("back")).await.unwrap();
        for (n, target) in targets.iter().enumerate() {
            let read = |dir: &Path| fs::read_link(dir.join(n.to_string())).unwrap().into_os_string();
            assert_eq!(read(&place.dir.join("up")), *target, "{way:?} up");
            assert_eq!(read(&host.path().join("back")), *target, "{way:?} back");
        }
    }
}

#[tokio::test]
async fn names_that_are_no_text_can_be_left_out() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let (files, odd) = (place.sandbox.files(), OsStr::from_bytes(b"bad\xff"));
        for dir in [&place.dir.join("d"), &host.path().join("src")] {
            fs::create_dir_all(dir.join(odd)).unwrap();
            fs::write(dir.join(odd).join("in"), "x").unwrap();
            fs::write(dir.join("fine"), "x").unwrap();
        }
        let src = host.path().join("src");
        let (up, down) = (files.upload_dir(&src, "up").await, files.download_dir("d", host.path().join("1")).await);
        for error in [up.unwrap_err(), down.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{way:?} {error:?}");
            assert!(error.hint().unwrap().contains("exclude"), "{error:?}");
        }
        for glob in ["bad*", "bad?", "bad?/"] {
            let without = TreeOptions::new().exclude(glob);
            assert_eq!(files.upload_dir_with(&src, "up", &without).await.unwrap().files, 1, "{way:?} {glob}");
            let down = files.download_dir_with("d", host.path().join("2"), &without).await;
            assert_eq!(down.unwrap().files, 1, "{way:?} {glob}");
        }
        assert_eq!(fs::read_dir(host.path().join("2")).unwrap().count(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn globs_mean_what_they_say_or_are_refused() {
    for way in [Way::Commands, Way::Trees] {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let (files, src) = (place.sandbox.files(), host.path().join("src"));
        for path in ["target/debug/big", "src/target/small", "top"] {
            fs::create_dir_all(src.join(path).parent().unwrap()).unwrap();
            fs::write(src.join(path), "x").unwrap();
        }
        files.upload_dir(&src, "all").await.unwrap();
        for (options, expected) in [
            (TreeOptions::new().exclude("target/"), 2),
            (TreeOptions::new().exclude("./target"), 2),
            (TreeOptions::new().exclude("/target"), 2),
            (TreeOptions::new().exclude("**/target/"), 1),
            (TreeOptions::new().exclude("top/"), 3),
            (TreeOptions::new().include("target/"), 1),
            (TreeOptions::new().include("/target/debug/big"), 1),
            (TreeOptions::new().include("./src/").include("top"), 2),
        ] {
            let up = files.upload_dir_with(&src, "part", &options).await.unwrap();
            let down = files.download_dir_with("all", host.path().join("part"), &options).await.unwrap();
            assert_eq!((up.files, down.files), (expected, expected), "{way:?} {options:?}");
        }
        for glob in ["", "/", "..", "../x", "a//b", "a/../b"] {
            for options in [TreeOptions::new().exclude(glob), TreeOptions::new().include(glob)] {
                let error = files.upload_dir_with(&src, "none", &options).await.expect_err(glob);
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{glob}");
                let error = files.download_dir_with("all", host.path().join("none"), &options).await.expect_err(glob);
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{glob}");
            }
        }
        assert!(!place.dir.join("none").exists() && !host.path().join("none").exists());
    }
}

#[tokio::test]
async fn a_chain_of_links_does_not_lead_to_the_host() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let (files, out) = (place.sandbox.files(), host.path().join("out"));
        fs::write(host.path().join("secret"), "of the host").unwrap();
        let climb =
            format!("{}/{}{}/secret", ["s"; 20].join("/"), "../".repeat(20), &host.path().display().to_string()[1..]);
        assert!(place.sandbox.run(Command::shell("mkdir w; ln -s . w/s")).await.unwrap().success());
        assert!(place.sandbox.run(Command::new("ln").args(["-s", &climb, "w/x"])).await.unwrap().success());
        let error = files.download_dir("w", &out).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{way:?} {error:?}");
        assert!(fs::symlink_metadata(out.join("x")).is_err(), "{way:?}");
        files.download_dir_with("w", &out, &TreeOptions::new().exclude("x")).await.unwrap();
        assert!(out.join("s").is_symlink(), "{way:?}: a link that stays is kept");
        // The same up.
        fs::create_dir(host.path().join("src")).unwrap();
        symlink(".", host.path().join("src/s")).unwrap();
        symlink(&climb, host.path().join("src/x")).unwrap();
        let error = files.upload_dir(host.path().join("src"), "up").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{way:?} {error:?}");
        assert!(!place.dir.join("up").exists(), "{way:?}");
    }
}
