//! What cannot be done is told by kind and path, and harms nothing.

use super::host::pattern;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::Point,
    row::Done,
};
use sandbox::{Result, SetMeta};
use sandbox_core::{Capability, Error, ErrorKind, FileKind, Resource, Resources};
use std::{fmt::Debug, future::Future};

pub(super) async fn not_there(cx: &Ctx) -> Done {
    use ErrorKind::PathNotFound;
    let files = cx.sandbox().await?.files();
    let path = "no-such/file";
    told(cx, PathNotFound, path, "files.read", files.read(path)).await?;
    told(cx, PathNotFound, path, "files.open", files.open(path)).await?;
    told(cx, PathNotFound, path, "files.stat", files.stat(path)).await?;
    told(cx, PathNotFound, path, "files.list", files.list(path)).await?;
    told(cx, PathNotFound, path, "files.remove", files.remove(path)).await?;
    told(cx, PathNotFound, path, "files.rename", files.rename(path, "elsewhere")).await?;
    if cx.has(Capability::FileMeta) {
        let change = SetMeta::new(path).mode(Some(0o600));
        told(cx, PathNotFound, path, "files.set_meta", files.set_meta(change)).await?;
    }
    files.remove_all(path).await?;
    ensure!(!files.exists(path).await?, "it is said to be there");
    ensure!(!files.exists("elsewhere").await?, "something was moved that is not there");
    Ok(())
}

pub(super) async fn of_the_wrong_kind(cx: &Ctx) -> Done {
    use ErrorKind::{AlreadyExists, IsADirectory, NotADirectory};
    let files = cx.sandbox().await?.files();
    files.write("dir/inside", "inside").await?;
    files.write("file", "file").await?;
    told(cx, IsADirectory, "dir", "files.read", files.read("dir")).await?;
    told(cx, IsADirectory, "dir", "files.write", files.write("dir", "x")).await?;
    told(cx, IsADirectory, "dir", "files.remove", files.remove("dir")).await?;
    told(cx, NotADirectory, "file", "files.list", files.list("file")).await?;
    told(cx, NotADirectory, "file/x", "files.read", files.read("file/x")).await?;
    told(cx, NotADirectory, "file/x", "files.stat", files.stat("file/x")).await?;
    told(cx, NotADirectory, "file/x", "files.write", files.write("file/x", "x")).await?;
    told(cx, AlreadyExists, "file", "files.make_dir", files.make_dir("file")).await?;
    // A file in the way is both: taken, and no directory.
    match files.make_dir("file/x").await {
        Err(error) if matches!(error.kind(), AlreadyExists | NotADirectory) => {}
        other => fail!("make_dir below a file: expected `not-a-directory` or `already-exists`, got {other:?}"),
    }
    ensure!(!files.exists("file/x").await?, "something is there below a file");
    expect_eq!(files.read_text("file").await?, "file", "the file afterwards");
    expect_eq!(files.read_text("dir/inside").await?, "inside", "the file in the directory afterwards");
    Ok(())
}

pub(super) async fn not_permitted(cx: &Ctx) -> Done {
    use ErrorKind::PermissionDenied;
    // Somebody who is not root: nothing is forbidden to root.
    let sandbox = cx.sandbox_of(cx.spec().user("65534")).await?;
    if cx.text(&sandbox, cx.probes().uid()).await? == "0" {
        fail!("a sandbox for user 65534 runs as root");
    }
    let files = sandbox.files();
    let dir = "/tmp/contract-permission";
    files.write(format!("{dir}/closed"), "secret").await?;
    files.write(format!("{dir}/open"), "open").await?;
    let closed = format!("{dir}/closed");
    let output = cx.run(&sandbox, cx.probes().chmod(&closed, "000")).await?;
    ensure!(output.success(), "the probe `chmod`: {output:?}");
    expect_eq!(files.read_text(format!("{dir}/open")).await?, "open", "the file that is permitted");
    told(cx, PermissionDenied, &closed, "files.read", files.read(&closed)).await?;
    // What belongs to root.
    let foreign = "/contract-of-root";
    told(cx, PermissionDenied, foreign, "files.write", files.write(foreign, "x")).await?;
    told(cx, PermissionDenied, foreign, "files.make_dir", files.make_dir(foreign)).await?;
    ensure!(!files.exists(foreign).await?, "it is there all the same");
    Ok(())
}

pub(super) async fn a_full_disk(cx: &Ctx) -> Done {
    // The usual small file system of containers, where the whole disk cannot be made small.
    const SMALL: &str = "/dev/shm";
    let limited = cx.facts().honours(Resource::Disk).limit;
    let spec = match limited {
        true => cx.spec().resources(Resources::new().disk(32 << 20)),
        false => cx.spec(),
    };
    let sandbox = cx.sandbox_of(spec).await?;
    let (files, place) = (sandbox.files(), if limited { "full" } else { SMALL });
    if limited {
        files.make_dir(place).await?;
    } else if !files.exists(place).await? {
        unproven!("no small file system is known here: {place} is not there, and the disk cannot be limited");
    }
    let path = format!("{place}/contract-full");
    files.write(&path, "fits").await?;
    let names = async || -> std::result::Result<Vec<String>, crate::row::Stop> {
        Ok(files.list(place).await?.into_iter().map(|info| info.name).collect())
    };
    let before = names().await?;
    let written = cx.within(60, "a write of 200 MiB", files.write(&path, pattern(200 << 20, 1))).await?;
    let error = match written {
        Err(error) => error,
        Ok(()) if limited => fail!("200 MiB fit onto a disk of 32"),
        Ok(()) => unproven!("200 MiB fit into {place}, so it did not get full"),
    };
    expect_eq!(error.kind(), ErrorKind::DiskFull, "the kind of {error:?}");
    ensure!(error.to_string().contains(&path), "the error does not name the path: {error}");
    expect_eq!(names().await?, before, "what is there afterwards");
    files.write(&path, "fits again").await?;
    expect_eq!(files.read_text(&path).await?, "fits again", "a small file afterwards");
    Ok(())
}

pub(super) async fn a_read_only_place(cx: &Ctx) -> Done {
    // The usual read-only file system of containers.
    const PLACE: &str = "/sys";
    let files = cx.sandbox().await?.files();
    if !files.exists(PLACE).await? {
        unproven!("no read-only file system is known here: {PLACE} is not there");
    }
    let path = format!("{PLACE}/contract-read-only");
    match cx.within(60, "a write", files.write(&path, "x")).await? {
        Err(error) if error.kind() == ErrorKind::ReadOnly => {
            ensure!(error.to_string().contains(&path), "the error does not name the path: {error}");
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            unproven!("{PLACE} is not read-only here: {error}")
        }
        other => fail!("a write into {PLACE}: expected `read-only`, got {other:?}"),
    }
    let made = cx.within(60, "make_dir", files.make_dir(&path)).await?;
    expect_kind!(made, ReadOnly, "make_dir in {PLACE}");
    Ok(())
}

pub(super) async fn bad_paths(cx: &Ctx) -> Done {
    use ErrorKind::InvalidArgument;
    let files = cx.sandbox().await?.files();
    let calls = || (cx.meddling().calls(Point::Files), cx.meddling().calls(Point::Spawn));
    let before = calls();
    for path in ["", "a\0b", "/a\0"] {
        told(cx, InvalidArgument, "", "files.read", files.read(path)).await?;
        told(cx, InvalidArgument, "", "files.write", files.write(path, "x")).await?;
        told(cx, InvalidArgument, "", "files.stat", files.stat(path)).await?;
        told(cx, InvalidArgument, "", "files.list", files.list(path)).await?;
        told(cx, InvalidArgument, "", "files.make_dir", files.make_dir(path)).await?;
        told(cx, InvalidArgument, "", "files.remove", files.remove(path)).await?;
        told(cx, InvalidArgument, "", "files.remove_all", files.remove_all(path)).await?;
        told(cx, InvalidArgument, "", "files.rename", files.rename(path, "x")).await?;
        told(cx, InvalidArgument, "", "files.rename", files.rename("x", path)).await?;
    }
    told(cx, InvalidArgument, "", "files.remove_all", files.remove_all("/")).await?;
    told(cx, InvalidArgument, "", "files.remove_all", files.remove_all("//./")).await?;
    if cx.has(Capability::FileMeta) {
        let change = SetMeta::new("x").mode(Some(0o10_000));
        told(cx, InvalidArgument, "", "files.set_meta", files.set_meta(change)).await?;
    }
    expect_eq!(calls(), before, "calls of the adapter, on files and to spawn");
    files.write("./a//b/./c", "fine").await?;
    expect_eq!(files.read_text("a/b/c").await?, "fine", "a path with more in it than it needs");
    Ok(())
}

pub(super) async fn a_fifo(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    let output = cx.run(&sandbox, cx.probes().fifo("pipe")).await?;
    if !output.success() {
        unproven!("the probe `fifo` makes none: {output:?}");
    }
    expect_eq!(files.stat("pipe").await?.kind, FileKind::Other, "the kind of a FIFO");
    told(cx, ErrorKind::NotAFile, "pipe", "files.read", files.read("pipe")).await?;
    told(cx, ErrorKind::NotAFile, "pipe", "files.read", files.read_range("pipe", 0, 10)).await?;
    let listed = files.list(".").await?;
    ensure!(listed.iter().any(|info| info.name == "pipe" && info.kind == FileKind::Other), "the listing: {listed:?}");
    files.remove("pipe").await?;
    ensure!(!files.exists("pipe").await?, "it is still there");
    Ok(())
}

pub(super) async fn devices_and_proc(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let mut seen = 0;
    for path in ["/dev/zero", "/dev/null"] {
        if files.exists(path).await? {
            told(cx, ErrorKind::NotAFile, path, "files.read", files.read(path)).await?;
            expect_eq!(files.stat(path).await?.kind, FileKind::Other, "the kind of {path}");
            seen += 1;
        }
    }
    // A file whose size says 0 and which has content all the same.
    if files.exists("/proc/self/status").await? {
        let status = cx.within(30, "a read of /proc/self/status", files.read_text("/proc/self/status")).await??;
        ensure!(status.contains("Pid:"), "/proc/self/status: {status:?}");
        let listed = cx.within(30, "a listing of /proc", files.list("/proc")).await??;
        ensure!(listed.iter().any(|info| info.name == "1"), "the listing of /proc has no process 1");
        seen += 1;
    }
    if seen == 0 {
        unproven!("this sandbox has neither /dev nor /proc");
    }
    Ok(())
}

/// It fails with this kind, promptly; the error names path, operation, backend and sandbox.
async fn told<T: Debug>(
    cx: &Ctx,
    kind: ErrorKind,
    path: &str,
    operation: &str,
    act: impl Future<Output = Result<T>>,
) -> Result<Error, crate::row::Stop> {
    let error = match cx.within(30, operation, act).await? {
        Err(error) if error.kind() == kind => error,
        Err(error) => fail!("{operation} of {path:?}: expected `{kind}`, got {error:?}"),
        Ok(value) => fail!("{operation} of {path:?}: expected `{kind}`, got success: {}", crate::expect::short(&value)),
    };
    ensure!(error.to_string().contains(path), "{operation}: the error does not name {path:?}: {error}");
    expect_eq!(error.operation(), Some(operation), "the operation that the error names");
    expect_eq!(error.backend(), Some(cx.facts().name()), "{operation}: the backend that the error names");
    ensure!(error.sandbox().is_some(), "{operation}: the error names no sandbox: {error:?}");
    Ok(error)
}
