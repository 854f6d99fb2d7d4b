//! Links, and ways out.

use super::host::{HostDir, host};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::{Done, Stop},
};
use sandbox::{Files, Sandbox};
use sandbox_core::{Capability::Tree, ErrorKind, FileKind};

/// Makes a link by a command.
async fn link(cx: &Ctx, sandbox: &Sandbox, target: &str, path: &str) -> Done {
    let output = cx.run(sandbox, cx.probes().symlink(target, path)).await?;
    if !output.success() {
        return Err(Stop::unproven(format!("the probe `symlink` makes none: {output:?}")));
    }
    Ok(())
}

pub(super) async fn never_the_host(cx: &Ctx) -> Done {
    let (sandbox, outside) = (cx.sandbox().await?, HostDir::new(cx)?);
    let files = sandbox.files();
    let secret = format!("of the host: {}", cx.marker());
    outside.write("secret", &secret)?;
    let Some(host_path) = outside.path().to_str() else {
        unproven!("the host's temporary directory has no plain name")
    };
    // The controls: a link that stays inside is followed, and so is `..`.
    files.write("inside/file", "inside").await?;
    let inside = format!("{}/inside", sandbox.cwd().trim_end_matches('/'));
    link(cx, &sandbox, &inside, "to-inside").await?;
    expect_eq!(files.read_text("to-inside/file").await?, "inside", "a file behind a link");
    expect_eq!(files.read_text("inside/../inside/file").await?, "inside", "a file by a path with `..`");
    link(cx, &sandbox, host_path, "to-host").await?;
    link(cx, &sandbox, &format!("../../../../../../../../..{host_path}"), "up-to-host").await?;
    link(cx, &sandbox, &format!("{host_path}/secret"), "to-secret").await?;
    let up = format!("../../../../../../../../../../..{host_path}/secret");
    for path in ["to-host/secret", "up-to-host/secret", "to-secret", &up, &format!("{host_path}/secret")] {
        match files.read(path).await {
            Err(error) if matches!(error.kind(), ErrorKind::PathNotFound | ErrorKind::NotADirectory) => {}
            other => fail!("{path} leads nowhere inside the sandbox, and gives {other:?}"),
        }
    }
    for path in ["to-host/written", "up-to-host/written", "to-secret"] {
        // Whether it succeeds inside the sandbox is all the same here.
        let written = cx.within(30, "a write through a link", files.write(path, "from inside")).await?;
        cx.note(format_args!("a write to {path}: {written:?}"));
    }
    for path in ["to-host/secret", "up-to-host/secret"] {
        drop(files.remove(path).await);
    }
    files.remove_all("to-host").await?;
    files.remove_all("up-to-host").await?;
    expect_eq!(outside.names()?, ["secret"], "what is in the host's directory");
    expect_eq!(host(std::fs::read_to_string(outside.join("secret")))?, secret, "the host's file");
    Ok(())
}

pub(super) async fn the_same_way(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    let cwd = sandbox.cwd().trim_end_matches('/').to_string();
    files.make_dir("a/b").await?;
    files.make_dir("beside").await?;
    link(cx, &sandbox, "../a/b", "beside/relative").await?;
    link(cx, &sandbox, "a/b", "deep").await?;
    link(cx, &sandbox, "deep", "twice").await?;
    link(cx, &sandbox, &format!("{cwd}/beside"), "absolute").await?;
    link(cx, &sandbox, "..", "a/b/up").await?;
    // Where it leads, by its text: the program's own way.
    for (path, place) in [
        ("beside/relative/1", "a/b/1"),
        ("twice/2", "a/b/2"),
        ("absolute/relative/3", "a/b/3"),
        // Up from where the link leads, not from where it stands.
        ("deep/../4", "a/4"),
        ("beside/relative/../5", "a/5"),
        ("absolute/../a/b/up/6", "a/6"),
    ] {
        let whole = format!("{cwd}/{path}");
        for path in [path, &*whole] {
            files.write(path, format!("files: {path}")).await?;
            for seen in [path, place] {
                let read = cx.text(&sandbox, cx.probes().read_file(seen)).await?;
                expect_eq!(read, format!("files: {path}"), "what a program reads at {seen} after a write to {path}");
            }
            cx.text(&sandbox, cx.probes().write_file(path, format!("program: {path}"))).await?;
            for seen in [path, place] {
                let read = files.read_text(seen).await?;
                expect_eq!(read, format!("program: {path}"), "the content of {seen} after a program wrote to {path}");
            }
            expect_eq!(files.stat(path).await?.size, 9 + path.len() as u64, "the size of {path}");
        }
        files.remove(path).await?;
        let there = cx.run(&sandbox, cx.probes().exists(place)).await?;
        expect_eq!(there.code(), 1, "what is at {place} after {path} was removed");
    }
    expect_eq!(names(&files, "a").await?, ["b"], "what is left where the paths led");
    expect_eq!(names(&files, "deep/../b").await?, ["up"], "a list by such a path");
    if cx.has(Tree) {
        let dir = HostDir::new(cx)?;
        dir.write("up/7", "of a tree")?;
        files.upload_dir(dir.join("up"), "deep/../c").await?;
        let read = cx.text(&sandbox, cx.probes().read_file("a/c/7")).await?;
        expect_eq!(read, "of a tree", "what a program reads of a tree that went up to deep/../c");
        files.download_dir("twice/../c", dir.join("down")).await?;
        expect_eq!(host(std::fs::read_to_string(dir.join("down/7")))?, "of a tree", "the same tree that came back");
    }
    for path in [".", "beside"] {
        let names = names(&files, path).await?;
        ensure!(
            names.iter().all(|name| name.parse::<u8>().is_err()),
            "{path} has what was written elsewhere: {names:?}"
        );
    }
    Ok(())
}

async fn names(files: &Files, path: &str) -> Result<Vec<String>, Stop> {
    Ok(files.list(path).await?.into_iter().map(|info| info.name).collect())
}

pub(super) async fn into_another_mount(cx: &Ctx) -> Done {
    /// What containers usually have mounted, and everybody may write to.
    const MOUNT: &str = "/dev/shm";
    let sandbox = cx.sandbox().await?;
    let (files, name) = (sandbox.files(), cx.marker());
    let there = format!("{MOUNT}/{name}");
    let written = cx.run(&sandbox, cx.probes().write_file(&there, "there")).await?;
    if !written.success() {
        unproven!("no other mount is known here: a program cannot write to {MOUNT}: {written:?}");
    }
    link(cx, &sandbox, MOUNT, "mount").await?;
    let here = format!("mount/{name}");
    expect_eq!(files.read_text(&here).await?, "there", "a read behind a link into {MOUNT}");
    expect_eq!(files.stat(&here).await?.size, 5, "the size behind a link into {MOUNT}");
    ensure!(names(&files, "mount").await?.contains(&name), "it is not listed behind a link into {MOUNT}");
    files.write(&here, "written").await?;
    let read = cx.text(&sandbox, cx.probes().read_file(&there)).await?;
    expect_eq!(read, "written", "what a program reads in {MOUNT} after a write behind the link");
    if cx.has(Tree) {
        let to = HostDir::new(cx)?;
        to.write("up/file", "of a tree")?;
        files.upload_dir(to.join("up"), format!("{here}-tree")).await?;
        let read = cx.text(&sandbox, cx.probes().read_file(format!("{there}-tree/file"))).await?;
        expect_eq!(read, "of a tree", "what a program reads in {MOUNT} of a tree that went up behind the link");
        files.download_dir(format!("{here}-tree"), to.join("down")).await?;
        expect_eq!(host(std::fs::read_to_string(to.join("down/file")))?, "of a tree", "the same tree that came back");
        files.remove_all(format!("{here}-tree")).await?;
    }
    files.remove(&here).await?;
    let there = cx.run(&sandbox, cx.probes().exists(&there)).await?;
    expect_eq!(there.code(), 1, "what is left in {MOUNT} of what was removed");
    Ok(())
}

pub(super) async fn followed_and_replaced(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("target", "target").await?;
    link(cx, &sandbox, "target", "link").await?;
    link(cx, &sandbox, "link", "link-to-link").await?;
    link(cx, &sandbox, "nowhere", "dangling").await?;
    link(cx, &sandbox, "loop", "loop").await?;
    expect_eq!(files.read_text("link").await?, "target", "a read of a link");
    expect_eq!(files.read_text("link-to-link").await?, "target", "a read of a link to a link");
    let info = files.stat("link").await?;
    expect_eq!((info.kind, info.target.as_deref()), (FileKind::Symlink, Some("target")), "stat of a link");
    expect_kind!(files.read("dangling").await, PathNotFound, "a read of a link that leads nowhere");
    ensure!(files.exists("dangling").await?, "a link that leads nowhere is not there");
    let looped = cx.within(30, "a read of a link to itself", files.read("loop")).await?;
    ensure!(looped.is_err(), "a read of a link to itself: {looped:?}");
    // A write replaces the link and leaves its target alone.
    files.write("link", "new").await?;
    expect_eq!(files.read_text("link").await?, "new", "what was a link");
    expect_eq!(files.stat("link").await?.kind, FileKind::File, "the kind of what was a link");
    expect_eq!(files.read_text("target").await?, "target", "the link's target");
    Ok(())
}

pub(super) async fn removing(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("kept/file", "kept").await?;
    let kept = format!("{}/kept", sandbox.cwd().trim_end_matches('/'));
    for path in ["link-1", "link-2"] {
        link(cx, &sandbox, &kept, path).await?;
        expect_eq!(files.read_text(format!("{path}/file")).await?, "kept", "the file behind the link");
    }
    files.remove("link-1").await?;
    files.remove_all("link-2").await?;
    files.make_dir("tree/below").await?;
    link(cx, &sandbox, &kept, "tree/below/link").await?;
    link(cx, &sandbox, "/", "tree/root").await?;
    files.remove_all("tree").await?;
    for path in ["link-1", "link-2", "tree"] {
        ensure!(!files.exists(path).await?, "{path} is still there");
    }
    expect_eq!(files.read_text("kept/file").await?, "kept", "the file behind the links that were removed");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    Ok(())
}
