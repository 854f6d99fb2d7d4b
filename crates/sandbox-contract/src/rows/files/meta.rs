//! Modes, owners, times.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, unproven},
    row::Done,
};
use bytes::Bytes;
use sandbox::{SetMeta, WriteFile};
use sandbox_core::{Capability, FileKind};
use std::time::{Duration, SystemTime};

pub(super) async fn modes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    let mode = async |path: &str| files.stat(path).await.map(|info| info.meta.mode);
    files.write("plain", "x").await?;
    expect_eq!(mode("plain").await?, 0o644, "the mode of a new file");
    for bits in [0o755, 0o600, 0o400, 0o4711, 0o777] {
        files.write_with(WriteFile::new("given").mode(Some(bits)), Bytes::from_static(b"x").into()).await?;
        expect_eq!(mode("given").await?, bits, "the mode that a write gave, {bits:o}");
    }
    files.write_with(WriteFile::new("kept").mode(Some(0o750)), Bytes::from_static(b"old").into()).await?;
    files.write("kept", "new and longer").await?;
    expect_eq!(mode("kept").await?, 0o750, "the mode of a file that was written again");
    for bits in [0o700, 0o640, 0o2755] {
        files.set_meta(SetMeta::new("kept").mode(Some(bits))).await?;
        expect_eq!(mode("kept").await?, bits, "the mode that was set, {bits:o}");
    }
    expect_eq!(files.read_text("kept").await?, "new and longer", "the content after modes were set");
    files.make_dir("dir").await?;
    files.set_meta(SetMeta::new("dir").mode(Some(0o700))).await?;
    let info = files.stat("dir").await?;
    expect_eq!((info.kind, info.meta.mode), (FileKind::Directory, 0o700), "a directory whose mode was set");
    if cx.has(Capability::Run) {
        // What a program sets is seen too.
        let output = cx.run(&sandbox, cx.probes().chmod("plain", "640")).await?;
        ensure!(output.success(), "the probe `chmod`: {output:?}");
        expect_eq!(mode("plain").await?, 0o640, "the mode that a program set");
    }
    Ok(())
}

pub(super) async fn owners(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("owned", "x").await?;
    let owner = async |path: &str| files.stat(path).await.map(|info| (info.meta.uid, info.meta.gid));
    let own = owner("owned").await?;
    if cx.has(Capability::Run) {
        let uid = cx.text(&sandbox, cx.probes().uid()).await?;
        expect_eq!(own.0.to_string(), uid, "the owner of a file that was written");
    }
    if own.0 != 0 {
        unproven!("the sandbox's user is not root, so it can give nothing away");
    }
    files.set_meta(SetMeta::new("owned").owner(Some((1234, 2345)))).await?;
    expect_eq!(owner("owned").await?, (1234, 2345), "the owner that was set");
    expect_eq!(files.stat("owned").await?.meta.mode, 0o644, "the mode after the owner was set");
    expect_eq!(files.read_text("owned").await?, "x", "the content after the owner was set");
    Ok(())
}

pub(super) async fn times(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("timed", "x").await?;
    let now = files.stat("timed").await?.meta.mtime;
    for seconds in [1_000_000_000_u64, 1_234_567_890] {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        files.set_meta(SetMeta::new("timed").mtime(Some(at))).await?;
        expect_eq!(files.stat("timed").await?.meta.mtime, seconds as i64, "the time that was set");
    }
    let listed = files.list(".").await?;
    let time = listed.iter().find(|info| info.name == "timed").map(|info| info.meta.mtime);
    expect_eq!(time, Some(1_234_567_890), "the time in a listing");
    // A write is a change.
    files.write("timed", "new").await?;
    let after = files.stat("timed").await?.meta.mtime;
    ensure!(after >= now, "the time after a write is {after}, before it was {now}");
    // All at once.
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    files.set_meta(SetMeta::new("timed").mode(Some(0o600)).mtime(Some(at))).await?;
    let meta = files.stat("timed").await?.meta;
    expect_eq!((meta.mode, meta.mtime), (0o600, 1_500_000_000), "mode and time that were set at once");
    Ok(())
}
