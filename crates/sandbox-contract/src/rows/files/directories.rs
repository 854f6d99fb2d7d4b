//! Directories, and what is told about what is in them.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind},
    row::Done,
};
use sandbox_core::FileKind;

pub(super) async fn a_list(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.make_dir("listed/empty").await?;
    expect_eq!(files.list("listed/empty").await?, Vec::new(), "the listing of an empty directory");
    // Sorted by bytes: in no language's order, and not as numbers.
    let names = ["10", "9", "B", "Z", "_", "a", "b", "empty", "ä"];
    for name in names.iter().rev().filter(|name| **name != "empty") {
        files.write(format!("listed/{name}"), "x".repeat(name.len())).await?;
    }
    files.write("listed/.hidden", "").await?;
    let listed = files.list("listed").await?;
    let shown: Vec<_> = listed.iter().map(|info| info.name.as_str()).collect();
    expect_eq!(shown, [&[".hidden"][..], &names[..]].concat(), "the names");
    for info in &listed {
        let expected = match info.name.as_str() {
            "empty" => (FileKind::Directory, None),
            ".hidden" => (FileKind::File, Some(0)),
            name => (FileKind::File, Some(name.len() as u64)),
        };
        let size = (info.kind == FileKind::File).then_some(info.size);
        expect_eq!((info.kind, size), expected, "kind and size of {}", info.name);
        ensure!(info.meta.mode & 0o400 != 0, "the mode of {} is {:o}", info.name, info.meta.mode);
        ensure!(info.meta.mtime > 1_000_000_000, "the time of {} is {}", info.name, info.meta.mtime);
    }
    Ok(())
}

pub(super) async fn ten_thousand(cx: &Ctx) -> Done {
    const COUNT: u32 = 10_000;
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("many").await?;
    let output = cx.run(&sandbox, cx.probes().many_files("many", COUNT)).await?;
    ensure!(output.success(), "the probe `many_files`: {output:?}");
    let listed = cx.within(60, "the listing", files.list("many")).await??;
    let mut names: Vec<_> = (0..COUNT).map(|n| n.to_string()).collect();
    names.sort();
    ensure!(
        listed.iter().map(|info| &info.name).eq(&names),
        "{} entries of {COUNT}, or in another order",
        listed.len()
    );
    ensure!(listed.iter().all(|info| info.kind == FileKind::File && info.size == 0), "not all are empty files");
    cx.within(60, "remove_all", files.remove_all("many")).await??;
    ensure!(!files.exists("many").await?, "it is still there");
    Ok(())
}

pub(super) async fn stat(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("dir/file", "12345").await?;
    let output = cx.run(&sandbox, cx.probes().symlink("dir/file", "link")).await?;
    ensure!(output.success(), "the probe `symlink`: {output:?}");
    let file = files.stat("dir/file").await?;
    expect_eq!((&*file.name, file.kind, file.size, file.target), ("file", FileKind::File, 5, None), "stat of a file");
    let dir = files.stat("dir").await?;
    expect_eq!((&*dir.name, dir.kind), ("dir", FileKind::Directory), "stat of a directory");
    expect_eq!(files.stat("dir/").await?.kind, FileKind::Directory, "stat of a directory with a slash");
    let link = files.stat("link").await?;
    expect_eq!((link.kind, link.target.as_deref()), (FileKind::Symlink, Some("dir/file")), "stat of a link");
    expect_eq!(files.stat("/").await?.kind, FileKind::Directory, "stat of the root");
    expect_eq!(files.stat(".").await?.kind, FileKind::Directory, "stat of the working directory");
    let listed = files.list("dir").await?;
    expect_eq!(listed, vec![files.stat("dir/file").await?], "the same in a listing");
    Ok(())
}

pub(super) async fn make_dir(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.make_dir("a/b/c").await?;
    files.write("a/b/c/file", "kept").await?;
    files.make_dir("a/b/c").await?;
    files.make_dir("a").await?;
    files.make_dir("/").await?;
    files.make_dir("a/b/c/d/").await?;
    expect_eq!(files.read_text("a/b/c/file").await?, "kept", "a file in a directory that was made again");
    expect_eq!(files.stat("a/b/c/d").await?.kind, FileKind::Directory, "the last one");
    Ok(())
}

pub(super) async fn rename(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("one", "one").await?;
    files.rename("one", "two").await?;
    ensure!(!files.exists("one").await?, "it is still at the old name");
    expect_eq!(files.read_text("two").await?, "one", "the file at its new name");
    files.write("three", "a longer one").await?;
    files.rename("two", "three").await?;
    expect_eq!(files.read_text("three").await?, "one", "the file that replaced another");
    files.write("dir/inside", "inside").await?;
    files.rename("dir", "moved").await?;
    ensure!(!files.exists("dir").await?, "the directory is still at its old name");
    expect_eq!(files.read_text("moved/inside").await?, "inside", "a file in a directory that was moved");
    files.rename("three", "moved/three").await?;
    expect_eq!(files.read_text("moved/three").await?, "one", "a file moved to another directory");
    // A directory is never replaced, and nothing is moved into it unasked.
    files.write("file", "file").await?;
    expect_kind!(files.rename("file", "moved").await, IsADirectory, "rename of a file onto a directory");
    expect_eq!(files.read_text("file").await?, "file", "the file");
    ensure!(!files.exists("moved/file").await?, "the file was moved into the directory");
    expect_eq!(files.read_text("moved/inside").await?, "inside", "what is in the directory");
    let nowhere = files.rename("file", "no-such-dir/file").await;
    expect_kind!(nowhere, PathNotFound, "rename into a directory that is not there");
    Ok(())
}

pub(super) async fn remove(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("dir/a/b", "x").await?;
    files.write("dir/c", "x").await?;
    files.write("beside", "beside").await?;
    files.remove("dir/c").await?;
    ensure!(!files.exists("dir/c").await?, "a removed file is there");
    ensure!(files.exists("dir/a/b").await?, "a file beside it is gone");
    expect_kind!(files.remove("dir").await, IsADirectory, "remove of a directory");
    ensure!(files.exists("dir/a/b").await?, "`remove` took what is in a directory");
    files.remove_all("dir").await?;
    ensure!(!files.exists("dir").await?, "the directory is still there");
    files.remove_all("dir").await?;
    files.remove_all("beside").await?;
    ensure!(!files.exists("beside").await?, "`remove_all` of a file left it");
    Ok(())
}
