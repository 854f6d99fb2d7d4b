//! Between host and sandbox.

use super::host::{Entry, HostDir, everything, host, pattern, set_mode, symlink};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::TreeOptions;
use sandbox_core::{ErrorKind, FileKind};
use std::{collections::BTreeMap, fs};

pub(super) async fn a_file(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    let content = pattern(3_000_000, 11);
    from.write("file", &content)?;
    from.write("empty", "")?;
    let has_modes = set_mode(&from.join("file"), 0o750)?;
    files.upload(from.join("file"), "up/file").await?;
    files.upload(from.join("empty"), "up/empty").await?;
    ensure!(files.read("up/file").await? == content, "other bytes arrived than were sent");
    if has_modes {
        expect_eq!(files.stat("up/file").await?.meta.mode, 0o750, "the mode of the file that was sent");
    }
    files.download("up/file", to.join("file")).await?;
    files.download("up/empty", to.join("empty")).await?;
    ensure!(host(fs::read(to.join("file")))? == content, "other bytes came back than were sent");
    expect_eq!(host(fs::read(to.join("empty")))?, Vec::<u8>::new(), "the empty file");
    // Over what is there, both ways, with less than before.
    from.write("file", "short")?;
    files.upload(from.join("file"), "up/file").await?;
    expect_eq!(files.read_text("up/file").await?, "short", "a shorter file that was sent over it");
    files.download("up/file", to.join("file")).await?;
    expect_eq!(host(fs::read(to.join("file")))?, b"short", "a shorter file that came back over it");
    let directory = files.upload(from.path(), "up/dir").await;
    expect_kind!(directory, IsADirectory, "upload of a directory of the host");
    let missing = files.upload(from.join("no-such-file"), "up/missing").await;
    let error = expect_kind!(missing, PathNotFound, "upload of what is not there");
    let text = error.to_string();
    ensure!(text.contains("no-such-file") && text.contains("host"), "the error does not name the host's path: {error}");
    ensure!(!files.exists("up/missing").await?, "something was made of what is not there");
    Ok(())
}

/// A tree with one of everything.
fn plant(root: &HostDir) -> Result<(), Stop> {
    root.write("top", "top")?;
    root.write("empty-file", "")?;
    root.write(".hidden/inside", "hidden")?;
    root.write("deep/er/and/deeper/file", pattern(300_000, 2))?;
    root.write("names/two words", "a")?;
    root.write("names/ünïcödé 日本", "b")?;
    root.write("names/-dash", "c")?;
    root.write("names/$HOME", "d")?;
    root.write("names/new\nline", "e")?;
    root.write(&format!("names/{}", "l".repeat(200)), "long")?;
    root.write(&format!("{0}/{0}/{0}/{0}", "p".repeat(90)), "a long path")?;
    root.write("bin/tool", "#!/bin/sh\n")?;
    set_mode(&root.join("bin/tool"), 0o755)?;
    host(fs::create_dir_all(root.join("empty-dir/nested")))?;
    symlink("top", &root.join("link"))?;
    symlink("../top", &root.join("deep/up"))?;
    symlink("no-such-file", &root.join("dangling"))?;
    symlink("deep/er", &root.join("to-dir"))?;
    Ok(())
}

pub(super) async fn a_tree(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    plant(&from)?;
    let sent = everything(from.path())?;
    let (up, bytes) = sent.values().fold((0, 0), |(files, bytes), entry| match entry {
        Entry::File(content, _) => (files + 1, bytes + content.len() as u64),
        Entry::Link(_) => (files + 1, bytes),
        Entry::Directory => (files, bytes),
    });
    let report = files.upload_dir(from.path(), "a/new/place").await?;
    expect_eq!(
        (report.files, report.bytes, report.skipped),
        (up, bytes, vec![]),
        "files, bytes and skipped of the upload"
    );
    // The contents of the directory are there, not the directory itself.
    expect_eq!(files.read_text("a/new/place/top").await?, "top", "a file of the tree");
    expect_eq!(files.stat("a/new/place/empty-dir/nested").await?.kind, FileKind::Directory, "an empty directory");
    let report = files.download_dir("a/new/place", to.join("back")).await?;
    expect_eq!(
        (report.files, report.bytes, report.skipped),
        (up, bytes, vec![]),
        "files, bytes and skipped of the download"
    );
    same(&everything(&to.join("back"))?, &sent)?;
    expect_eq!(to.names()?, ["back"], "what is beside the target on the host");
    Ok(())
}

/// Both are the same, or the first difference.
fn same(got: &BTreeMap<String, Entry>, expected: &BTreeMap<String, Entry>) -> Done {
    let names = |all: &BTreeMap<String, Entry>| all.keys().cloned().collect::<Vec<_>>();
    expect_eq!(names(got), names(expected), "the paths of the tree");
    for (path, entry) in expected {
        expect_eq!(got.get(path), Some(entry), "what is at {path:?}");
    }
    Ok(())
}

pub(super) async fn lands_on_what_is_there(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    from.write("dir/replaced", "new")?;
    from.write("dir/added", "added")?;
    files.write("place/dir/replaced", "old, and longer than the new one").await?;
    files.write("place/dir/kept", "kept").await?;
    files.upload_dir(from.path(), "place").await?;
    for (path, content) in [("replaced", "new"), ("added", "added"), ("kept", "kept")] {
        expect_eq!(files.read_text(format!("place/dir/{path}")).await?, content, "{path} after the upload");
    }
    to.write("back/dir/replaced", "old, and longer than the new one")?;
    to.write("back/dir/mine", "mine")?;
    files.download_dir("place", to.join("back")).await?;
    for (path, content) in [("replaced", "new"), ("added", "added"), ("kept", "kept"), ("mine", "mine")] {
        let read = host(fs::read_to_string(to.join("back/dir").join(path)))?;
        expect_eq!(read, content, "{path} on the host after the download");
    }
    Ok(())
}

pub(super) async fn include_and_exclude(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    for path in ["a.py", "a.txt", "src/b.py", "src/deep/c.py", "src/secret.py", "target/d.py", "target/x/e.py"] {
        from.write(path, path)?;
    }
    let options = TreeOptions::new().include("**/*.py").exclude("target").exclude("**/secret.py");
    let expected = ["a.py", "src/b.py", "src/deep/c.py"];
    let found = |all: BTreeMap<String, Entry>| -> Vec<String> {
        all.into_iter().filter(|(_, entry)| matches!(entry, Entry::File(..))).map(|(path, _)| path).collect()
    };
    files.upload_dir_with(from.path(), "part", &options).await?;
    files.download_dir("part", to.join("up")).await?;
    expect_eq!(found(everything(&to.join("up"))?), expected, "files of a part that went up");
    ensure!(!to.join("up/target").exists(), "an excluded directory was made");
    files.upload_dir(from.path(), "all").await?;
    files.download_dir_with("all", to.join("down"), &options).await?;
    expect_eq!(found(everything(&to.join("down"))?), expected, "files of a part that came down");
    ensure!(!to.join("down/target").exists(), "an excluded directory was made on the host");
    let bad = files.upload_dir_with(from.path(), "bad", &TreeOptions::new().include("[")).await;
    expect_kind!(bad, InvalidArgument, "a glob that is none");
    ensure!(!files.exists("bad").await?, "something was made by a glob that is none");
    Ok(())
}

pub(super) async fn a_missing_host_path(cx: &Ctx) -> Done {
    let (files, from) = (cx.sandbox().await?.files(), HostDir::new(cx)?);
    from.write("file", "x")?;
    let calls = || (cx.meddling().calls(Point::Files), cx.meddling().calls(Point::Spawn));
    let before = calls();
    for (name, kind) in [("no-such-dir", ErrorKind::PathNotFound), ("file", ErrorKind::NotADirectory)] {
        let error = match files.upload_dir(from.join(name), "place").await {
            Err(error) if error.kind() == kind => error,
            other => fail!("upload of {name}: expected `{kind}`, got {other:?}"),
        };
        let text = error.to_string();
        ensure!(text.contains(name) && text.contains("host"), "the error does not name the host's path: {error}");
    }
    expect_eq!(calls(), before, "calls of the adapter, on files and to spawn");
    ensure!(!files.exists("place").await?, "the target was made");
    // The control: what is there is sent.
    files.upload_dir(from.path(), "place").await?;
    ensure!(calls() > before, "calls of the adapter are not counted");
    expect_eq!(files.read_text("place/file").await?, "x", "the file");
    Ok(())
}

pub(super) async fn links_that_leave(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    for target in ["/etc/passwd", "../outside", "sub/../../outside"] {
        let from = HostDir::new(cx)?;
        from.write("sub/file", "x")?;
        if !symlink(target, &from.join("link"))? {
            return Err(Stop::unproven("this host has no links"));
        }
        let sent = files.upload_dir(from.path(), "leaves").await;
        let error = expect_kind!(sent, InvalidArgument, "upload of a link to {target}");
        ensure!(error.to_string().contains("link"), "the error does not name the link: {error}");
        ensure!(!files.exists("leaves").await?, "something was sent of a tree that is refused");
        // Left out, it is no obstacle.
        files.upload_dir_with(from.path(), "without", &TreeOptions::new().exclude("link")).await?;
    }
    expect_eq!(files.read_text("without/sub/file").await?, "x", "the rest of the tree");
    for (number, target) in ["/etc/passwd", "../../outside"].into_iter().enumerate() {
        let (to, dir) = (HostDir::new(cx)?, format!("down-{number}"));
        files.write(format!("{dir}/file"), "x").await?;
        let made = cx.run(&sandbox, cx.probes().symlink(target, format!("{dir}/link"))).await?;
        ensure!(made.success(), "the probe `symlink`: {made:?}");
        let down = files.download_dir(&dir, to.join("target")).await;
        expect_kind!(down, InvalidArgument, "download of a link to {target}");
        ensure!(fs::symlink_metadata(to.join("target/link")).is_err(), "the link was made on the host");
        ensure!(!to.join("outside").exists(), "something was made beside the target");
        files.download_dir_with(&dir, to.join("without"), &TreeOptions::new().exclude("link")).await?;
        expect_eq!(host(fs::read_to_string(to.join("without/file")))?, "x", "the rest of the tree");
    }
    Ok(())
}

pub(super) async fn that_is_none(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    files.write("file", "file").await?;
    from.write("x", "x")?;
    let missing = files.download_dir("no-such-dir", to.join("target")).await;
    let error = expect_kind!(missing, PathNotFound, "download of what is not there");
    ensure!(error.to_string().contains("no-such-dir"), "the error does not name the path: {error}");
    expect_kind!(files.download_dir("file", to.join("target")).await, NotADirectory, "download_dir of a file");
    expect_eq!(to.names()?, Vec::<String>::new(), "what is on the host then");
    expect_kind!(files.upload_dir(from.path(), "file").await, NotADirectory, "upload_dir onto a file");
    expect_eq!(files.read_text("file").await?, "file", "the file in the way");
    files.make_dir("empty").await?;
    files.download_dir("empty", to.join("empty")).await?;
    expect_eq!(everything(to.path())?, BTreeMap::from([("empty".to_string(), Entry::Directory)]), "an empty tree");
    Ok(())
}

pub(super) async fn ten_thousand(cx: &Ctx) -> Done {
    const DIRECTORIES: u64 = 40;
    const EACH: u64 = 250;
    let (sandbox, from, to) = (cx.sandbox().await?, HostDir::new(cx)?, HostDir::new(cx)?);
    for directory in 0..DIRECTORIES {
        from.write(&format!("{directory}/0"), format!("content of {directory}"))?;
        for n in 1..EACH {
            // The same file by another name is another file of the tree, and quickly made.
            let path = |n| from.join(&format!("{directory}/{n}"));
            host(fs::hard_link(path(0), path(n)))?;
        }
    }
    let files = sandbox.files();
    let up = cx.within(100, "the upload", files.upload_dir(from.path(), "many")).await??;
    expect_eq!(up.files, DIRECTORIES * EACH, "files that went up");
    drop(from);
    let down = cx.within(100, "the download", files.download_dir("many", to.join("back"))).await??;
    expect_eq!(down.files, DIRECTORIES * EACH, "files that came down");
    for directory in 0..DIRECTORIES {
        let path = to.join(&format!("back/{directory}"));
        expect_eq!(host(fs::read_dir(&path))?.count() as u64, EACH, "files in directory {directory}");
        for n in [0, 1, EACH / 2, EACH - 1] {
            let content = host(fs::read_to_string(path.join(n.to_string())))?;
            expect_eq!(content, format!("content of {directory}"), "the content of {directory}/{n}");
        }
    }
    Ok(())
}
