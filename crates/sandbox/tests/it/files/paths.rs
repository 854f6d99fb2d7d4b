//! What a path says about what is there, and whose files they are.

use super::{WAYS, Way, place};
use crate::common::{
    scripted::{Script, code, hook, script, script_of},
    spec,
};
use sandbox::{Capability, ErrorKind, Overrides, SetMeta};
use sandbox_core::Exec;
use std::{
    fs,
    os::unix::fs::symlink,
    sync::{Arc, Mutex},
};

#[tokio::test]
async fn a_slash_at_the_end_says_that_it_is_a_directory() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        files.write("dir/in", "x").await.unwrap();
        files.write("file", "x").await.unwrap();
        fs::write(host.path().join("up"), "x").unwrap();
        for path in ["new/", "new/.", "new/..", "dir/", "file/", ".", ".."] {
            for (what, done) in [
                ("write", files.write(path, "x").await),
                ("read", files.read(path).await.map(drop)),
                ("open", files.open(path).await.map(drop)),
                ("remove", files.remove(path).await),
                ("upload", files.upload(host.path().join("up"), path).await),
                ("download", files.download(path, host.path().join("down")).await),
            ] {
                let error = done.expect_err(&format!("{way:?} {what} {path}"));
                assert_eq!(error.kind(), ErrorKind::IsADirectory, "{way:?} {what} {path}: {error:?}");
            }
        }
        assert!(!place.dir.join("new").exists() && place.dir.join("file").exists(), "{way:?}");
        assert_eq!(files.stat("file/").await.unwrap_err().kind(), ErrorKind::NotADirectory, "{way:?}");
        assert!(files.exists("dir/").await.unwrap() && !files.exists("file/").await.unwrap(), "{way:?}");
        for (from, to) in [("file", "new/"), ("file/", "new")] {
            assert_eq!(files.rename(from, to).await.unwrap_err().kind(), ErrorKind::NotADirectory, "{way:?}");
        }
        files.rename("dir/", "moved/").await.unwrap();
        assert!(place.dir.join("moved/in").exists() && place.dir.join("file").exists(), "{way:?}");
        files.make_dir("made/").await.unwrap();
        files.remove_all("made/").await.unwrap();
        assert!(!place.dir.join("made").exists(), "{way:?}");
    }
}

#[tokio::test]
async fn a_directory_behind_a_link_is_one_for_trees_too() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        files.write("real/in", "content").await.unwrap();
        symlink("real", place.dir.join("link")).unwrap();
        symlink(place.dir.join("link"), place.dir.join("again")).unwrap();
        symlink("loop", place.dir.join("loop")).unwrap();
        symlink("real/in", place.dir.join("to-file")).unwrap();
        for (n, path) in ["link", "link/", "link/.", "again"].into_iter().enumerate() {
            let down = host.path().join(n.to_string());
            let done = files.download_dir(path, &down).await;
            assert_eq!(done.unwrap_or_else(|e| panic!("{way:?} {path}: {e:?}")).files, 1);
            assert_eq!(fs::read_to_string(down.join("in")).unwrap(), "content", "{way:?} {path}");
        }
        let error = files.download_dir("to-file", host.path().join("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory, "{way:?}");
        assert!(files.download_dir("loop", host.path().join("x")).await.is_err(), "{way:?}");
        assert!(!host.path().join("x").exists(), "{way:?}");
    }
}

#[tokio::test]
async fn a_path_that_goes_up_is_a_tree_like_any_other() {
    let (place, host) = (place(Way::Commands).await, tempfile::tempdir().unwrap());
    let files = place.sandbox.files();
    files.write("up/w/x/deep", "1").await.unwrap();
    files.write("up/v/x/deep", "2").await.unwrap();
    files.download_dir("up/w/..", host.path()).await.unwrap();
    assert_eq!(fs::read_to_string(host.path().join("w/x/deep")).unwrap(), "1");
    assert_eq!(fs::read_to_string(host.path().join("v/x/deep")).unwrap(), "2");
}

#[tokio::test]
async fn up_is_up_from_where_a_link_leads() {
    for way in WAYS {
        let (place, host) = (place(way).await, tempfile::tempdir().unwrap());
        let files = place.sandbox.files();
        files.write("a/b/in", "x").await.unwrap();
        files.write("c/wrong", "x").await.unwrap();
        files.write("a/c/right", "x").await.unwrap();
        symlink("a/b", place.dir.join("link")).unwrap();
        let listed: Vec<_> = files.list("link/../c").await.unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(listed, ["right"], "{way:?}");
        files.download_dir("link/../c", host.path().join("down")).await.unwrap();
        assert!(host.path().join("down/right").exists(), "{way:?}");
        files.upload_dir(host.path().join("down"), "link/../d").await.unwrap();
        assert!(place.dir.join("a/d/right").exists() && !place.dir.join("d").exists(), "{way:?}");
    }
}

#[tokio::test]
async fn files_of_a_view_are_its_users() {
    let seen: Arc<Mutex<Vec<Exec>>> = Arc::default();
    let execs = Arc::clone(&seen);
    let spawn = hook(move |exec: Exec| {
        execs.lock().unwrap().push(exec);
        async { Ok(()) }
    });
    let script = Script { spawn, next: script(vec![code(0)]), ..script_of() };
    let (client, log) =
        script.having([Capability::Files, Capability::FileMeta, Capability::Tree, Capability::User]).client();
    let sandbox = client.create(spec()).await.unwrap();
    let view = sandbox.with(Overrides::new().user("nobody").cwd("/there")).files();
    view.write("f", "x").await.unwrap();
    view.make_dir("d").await.unwrap();
    view.remove("f").await.unwrap();
    view.set_meta(SetMeta::new("f").mode(Some(0o600))).await.unwrap();
    view.read("f").await.unwrap();
    let execs: Vec<_> = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(execs.len(), 5);
    for exec in execs {
        assert_eq!(exec.user.as_deref(), Some("nobody"));
        assert!(exec.argv.iter().any(|arg| arg.starts_with("/there/")), "{:?}", exec.argv);
    }
    assert_eq!(log.count("write file") + log.count("make dir") + log.count("remove") + log.count("read file"), 0);
    assert_eq!(log.count("set meta") + log.count("get tree") + log.count("put tree"), 0);
    // Views of anything else stay with the backend's own operations.
    let view = sandbox.with(Overrides::new().env("A", "b")).files();
    view.write("f", "x").await.unwrap();
    assert_eq!((log.count("write file"), seen.lock().unwrap().len()), (1, 0));
}
