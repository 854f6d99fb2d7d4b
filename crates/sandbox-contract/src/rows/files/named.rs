//! What names say: of links, of directories, of files of the host, of whose files they are.

use super::host::{HostDir, host, set_mode, symlink};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::Done,
};
use sandbox::{Overrides, TreeOptions};
use sandbox_core::{Capability, ErrorKind, FileKind};
use std::fs;

pub(super) async fn a_chain_of_links(cx: &Ctx) -> Done {
    let (sandbox, to, from) = (cx.sandbox().await?, HostDir::new(cx)?, HostDir::new(cx)?);
    let files = sandbox.files();
    to.write("secret", "of the host")?;
    files.write("tree/file", "inside").await?;
    // Each `s` is the directory that it is in, so that as many of them as there are steps up lead out of everything.
    let climb = format!("{}/{}secret", ["s"; 20].join("/"), "../".repeat(20));
    for (target, path) in [(".", "tree/s"), (climb.as_str(), "tree/out")] {
        let made = cx.run(&sandbox, cx.probes().symlink(target, path)).await?;
        ensure!(made.success(), "the probe `symlink`: {made:?}");
    }
    let down = files.download_dir("tree", to.join("target")).await;
    expect_kind!(down, InvalidArgument, "download of a link through links");
    ensure!(fs::symlink_metadata(to.join("target/out")).is_err(), "the link was made on the host");
    files.download_dir_with("tree", to.join("target"), &TreeOptions::new().exclude("out")).await?;
    expect_eq!(host(fs::read_to_string(to.join("target/s/s/file")))?, "inside", "a file behind a link that stays");
    from.write("file", "x")?;
    if symlink(".", &from.join("s"))? && symlink(&climb, &from.join("out"))? {
        let sent = files.upload_dir(from.path(), "up").await;
        expect_kind!(sent, InvalidArgument, "upload of a link through links");
        ensure!(!files.exists("up").await?, "something was sent of a tree that is refused");
    }
    Ok(())
}

pub(super) async fn links_as_spelled(cx: &Ctx) -> Done {
    let (files, from) = (cx.sandbox().await?.files(), HostDir::new(cx)?);
    let long = format!("./{}//x", "n".repeat(150));
    let targets = ["a", "./a//b/", "a/./b", "a/", long.as_str()];
    for (n, target) in targets.iter().enumerate() {
        if !symlink(target, &from.join(&n.to_string()))? {
            unproven!("this host has no links");
        }
    }
    files.upload_dir(from.path(), "links").await?;
    for (n, target) in targets.iter().enumerate() {
        let info = files.stat(format!("links/{n}")).await?;
        expect_eq!(info.target.as_deref(), Some(*target), "what a link leads to that was sent");
    }
    Ok(())
}

pub(super) async fn trees_by_their_paths(cx: &Ctx) -> Done {
    let (sandbox, to) = (cx.sandbox().await?, HostDir::new(cx)?);
    let files = sandbox.files();
    files.write("tree/w/x/deep", "1").await?;
    files.write("tree/v/x/deep", "2").await?;
    let made = cx.run(&sandbox, cx.probes().symlink("tree", "link")).await?;
    ensure!(made.success(), "the probe `symlink`: {made:?}");
    for (n, path) in ["tree", "tree/", "./tree/.", "tree/w/..", "link", "link/"].into_iter().enumerate() {
        let target = to.join(&n.to_string());
        expect_eq!(files.download_dir(path, &target).await?.files, 2, "files of {path}");
        for (below, content) in [("w/x/deep", "1"), ("v/x/deep", "2")] {
            expect_eq!(host(fs::read_to_string(target.join(below)))?, content, "{below} of {path}");
        }
    }
    Ok(())
}

pub(super) async fn a_slash_at_the_end(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("dir/inside", "inside").await?;
    files.write("file", "file").await?;
    for path in ["new/", "dir/", "file/", "new/.", "."] {
        expect_kind!(files.write(path, "x").await, IsADirectory, "a write to {path}");
        expect_kind!(files.read(path).await, IsADirectory, "a read of {path}");
        expect_kind!(files.remove(path).await, IsADirectory, "remove of {path}");
    }
    ensure!(!files.exists("new").await?, "something was made of `new/`");
    ensure!(!files.exists("file/").await?, "a file is said to be a directory");
    expect_kind!(files.rename("file", "new/").await, NotADirectory, "rename of a file to `new/`");
    expect_eq!(files.read_text("file").await?, "file", "the file");
    files.rename("dir/", "moved/").await?;
    expect_eq!(files.read_text("moved/inside").await?, "inside", "a file in a directory that was moved");
    Ok(())
}

pub(super) async fn globs(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    for path in ["target/debug/big", "src/target/small", "top"] {
        from.write(path, path)?;
    }
    files.upload_dir(from.path(), "all").await?;
    for (options, expected) in [
        (TreeOptions::new().exclude("target/"), 2),
        (TreeOptions::new().exclude("./target"), 2),
        (TreeOptions::new().exclude("/target"), 2),
        (TreeOptions::new().exclude("top/"), 3),
        (TreeOptions::new().include("target/"), 1),
        (TreeOptions::new().include("/target/debug/big"), 1),
    ] {
        let up = files.upload_dir_with(from.path(), "part", &options).await?;
        let down = files.download_dir_with("all", to.join("part"), &options).await?;
        expect_eq!((up.files, down.files), (expected, expected), "files up and down of {options:?}");
    }
    for glob in ["", "/", "../x", "a//b"] {
        let none = TreeOptions::new().exclude(glob);
        expect_kind!(files.upload_dir_with(from.path(), "none", &none).await, InvalidArgument, "the glob {glob:?}");
        expect_kind!(
            files.download_dir_with("all", to.join("none"), &none).await,
            InvalidArgument,
            "the glob {glob:?}"
        );
    }
    ensure!(!files.exists("none").await? && !to.join("none").exists(), "something was made by a glob that is none");
    Ok(())
}

pub(super) async fn bounded_trees(cx: &Ctx) -> Done {
    let (files, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?);
    files.write("tree/a", vec![b'a'; 600]).await?;
    files.write("tree/b", vec![b'b'; 400]).await?;
    for (options, fits) in [
        (TreeOptions::new().max_bytes(1000).max_entries(2), true),
        (TreeOptions::new().max_bytes(999), false),
        (TreeOptions::new().max_entries(1), false),
    ] {
        let down = files.download_dir_with("tree", to.join("down"), &options).await;
        match fits {
            true => expect_eq!(down?.bytes, 1000, "bytes of a tree that fits"),
            false => drop(expect_kind!(down, ResourceExhausted, "a tree with {options:?}")),
        }
    }
    Ok(())
}

pub(super) async fn no_files_of_the_host(cx: &Ctx) -> Done {
    let (files, from) = (cx.sandbox().await?.files(), HostDir::new(cx)?);
    let mut seen = 0;
    for path in ["/dev/zero", "/dev/null"].map(std::path::Path::new).into_iter().filter(|path| path.exists()) {
        let sent = cx.within(30, "an upload of a device", files.upload(path, "x")).await?;
        expect_kind!(sent, NotAFile, "upload of {}", path.display());
        seen += 1;
    }
    ensure!(!files.exists("x").await?, "something was made of a device");
    // A file that says to be empty, and is not.
    let version = std::path::Path::new("/proc/version");
    if version.exists() {
        files.upload(version, "version").await?;
        expect_eq!(files.read("version").await?, host(fs::read(version))?, "a file that the kernel makes up");
        seen += 1;
    }
    from.write("file", "content")?;
    if symlink("file", &from.join("link"))? {
        files.upload(from.join("link"), "x").await?;
        expect_eq!(files.read_text("x").await?, "content", "a file behind a link of the host");
    }
    if seen == 0 {
        unproven!("this host has neither /dev nor /proc");
    }
    Ok(())
}

pub(super) async fn onto_what_the_host_has(cx: &Ctx) -> Done {
    let (files, from, to) = (cx.sandbox().await?.files(), HostDir::new(cx)?, HostDir::new(cx)?);
    files.write("file", "content").await?;
    let null = std::path::Path::new("/dev/null");
    if null.exists() {
        expect_kind!(files.download("file", null).await, NotAFile, "a download onto a device");
        ensure!(!host(fs::symlink_metadata(null))?.is_file(), "the device was replaced");
    }
    // A link is replaced, and what it leads to left alone.
    to.write("real", "real")?;
    if symlink("real", &to.join("link"))? {
        files.download("file", to.join("link")).await?;
        expect_eq!(host(fs::read_to_string(to.join("link")))?, "content", "what was a link");
        expect_eq!(host(fs::read_to_string(to.join("real")))?, "real", "what it led to");
    }
    from.write("private", "private")?;
    to.write("kept", "old")?;
    if set_mode(&from.join("private"), 0o600)? && set_mode(&to.join("kept"), 0o640)? && cx.has(Capability::FileMeta) {
        files.upload(from.join("private"), "private").await?;
        for (name, expected) in [("new", 0o600), ("kept", 0o640)] {
            files.download("private", to.join(name)).await?;
            expect_eq!(mode(&to.join(name))?, expected, "the mode of {name} on the host");
        }
    }
    Ok(())
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> Result<u32, crate::row::Stop> {
    let there = host(fs::metadata(path))?;
    Ok(std::os::unix::fs::PermissionsExt::mode(&there.permissions()) & 0o7777)
}

#[cfg(not(unix))]
fn mode(_: &std::path::Path) -> Result<u32, crate::row::Stop> {
    Ok(0)
}

pub(super) async fn of_the_views_user(cx: &Ctx) -> Done {
    const USER: u32 = 65534;
    let sandbox = cx.sandbox().await?;
    let (own, path) = (sandbox.files(), "/tmp/contract-view/file");
    let view = sandbox.with(Overrides::new().user(USER.to_string())).files();
    own.write("/tmp/contract-own", "own").await?;
    match cx.within(60, "a write of a view", view.write(path, "x")).await? {
        Ok(()) => {
            let info = own.stat(path).await?;
            expect_eq!((info.kind, info.meta.uid), (FileKind::File, USER), "what a view's user has written");
            expect_eq!(view.read_text(path).await?, "x", "what a view's user reads");
        }
        // Without a shell there is nobody who would do it as that user; then nobody else does it.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            ensure!(!own.exists(path).await?, "it was refused, and is there");
            unproven!("this sandbox has no shell to act as another user: {error}");
        }
        other => fail!("a write of a view: {other:?}"),
    }
    let foreign = "/contract-of-root";
    let denied = view.write(foreign, "x").await;
    expect_kind!(denied, PermissionDenied, "a view's write to what is not its user's");
    ensure!(!own.exists(foreign).await?, "it is there all the same");
    Ok(())
}
