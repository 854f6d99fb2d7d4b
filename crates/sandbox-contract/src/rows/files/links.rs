//! Links, and ways out.

use super::host::{HostDir, host};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::{Done, Stop},
};
use sandbox::Sandbox;
use sandbox_core::{ErrorKind, FileKind};

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
