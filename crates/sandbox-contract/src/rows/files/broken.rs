//! Transfers that fail or are given up.

use super::{
    content::pieces,
    host::{HostDir, pattern},
};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::{Done, Stop},
};
use bytes::Bytes;
use sandbox::{Body, Chunks, Files, Result};
use sandbox_core::{Error, ErrorKind};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// A source that gives so many pieces and then breaks, or never gives another.
struct Source {
    left: usize,
    given: Arc<AtomicUsize>,
    breaks: bool,
}

const PIECE: usize = 64 << 10;
const OWN: &str = "the source's own words";

impl Chunks for Source {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.left > 0 {
            self.left -= 1;
            self.given.fetch_add(1, Ordering::SeqCst);
            return Ok(Some(vec![b'n'; PIECE].into()));
        }
        match self.breaks {
            true => Err(Error::new(ErrorKind::Protocol, OWN)),
            false => pending().await,
        }
    }
}

/// Says that it is twice as long as it will be.
fn source(given: &Arc<AtomicUsize>, breaks: bool) -> Body {
    let left = 32;
    Body::new(Some(2 * (left * PIECE) as u64), Source { left, given: Arc::clone(given), breaks })
}

pub(super) async fn leaves_the_old(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let old = pattern(100_000, 3);
    files.write("kept", old.clone()).await?;
    let given = Arc::default();
    let written = cx.within(60, "a write whose source breaks", files.write_from("kept", source(&given, true))).await?;
    expect_kind!(written, Protocol, "a write whose source breaks");
    ensure!(given.load(Ordering::SeqCst) > 0, "the source was never asked, so nothing was cut");
    expect_eq!(files.read("kept").await?, old, "the content after a write that was cut");
    cancelled(cx, &files, "kept").await?;
    expect_eq!(files.read("kept").await?, old, "the content after a write that was cancelled");
    let written = cx.within(60, "a first write that breaks", files.write_from("first", source(&given, true))).await?;
    expect_kind!(written, Protocol, "a first write that breaks");
    ensure!(!files.exists("first").await?, "a part of a file that was cut is there");
    Ok(())
}

pub(super) async fn a_failed_write(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    files.write("place/beside", "beside").await?;
    for path in ["place/new", "place/beside"] {
        let given = Arc::default();
        let write = files.write_from(path, source(&given, true));
        let error = expect_kind!(cx.within(60, "a write whose source breaks", write).await?, Protocol, "its error");
        ensure!(format!("{error:?}").contains(OWN), "the source's own words are lost: {error:?}");
        ensure!(given.load(Ordering::SeqCst) > 0, "the source was never asked, so nothing was cut");
    }
    only(cx, &files, &["beside", "new"]).await?;
    files.write("place/new", "whole").await?;
    expect_eq!(files.read_text("place/new").await?, "whole", "a write after one that failed");
    Ok(())
}

pub(super) async fn a_cancelled_write(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("place/beside", "beside").await?;
    cancelled(cx, &files, "place/new").await?;
    match files.list("place").await {
        Ok(_) => only(cx, &files, &["beside", "new"]).await,
        // What cannot be killed alone goes down with its sandbox, and the temporary with both.
        Err(error) if error.kind() == ErrorKind::Gone && !cx.has(sandbox_core::Capability::KillOne) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives up a write once it is under way.
async fn cancelled(cx: &Ctx, files: &Files, path: &str) -> Done {
    let given = Arc::new(AtomicUsize::new(0));
    let mut write = Box::pin(files.write_from(path, source(&given, false)));
    let under_way = async {
        while given.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // So that what was given is on its way.
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    let begun = async {
        tokio::select! {
            biased;
            done = &mut write => fail!("a write whose source never ends is over: {done:?}"),
            () = under_way => Ok(()),
        }
    };
    cx.within(30, "the first pieces of a write", begun).await??;
    drop(write);
    Ok(())
}

/// Waits until nothing but these is in `place`: a target may hold a part, a temporary may not stay.
async fn only(cx: &Ctx, files: &Files, names: &[&str]) -> Done {
    let until = Instant::now() + cx.secs(15);
    loop {
        let listed: Vec<_> = files.list("place").await?.into_iter().map(|info| info.name).collect();
        ensure!(listed.iter().any(|name| name == "beside"), "the listing shows nothing: {listed:?}");
        let strange: Vec<_> = listed.iter().filter(|name| !names.contains(&name.as_str())).collect();
        if strange.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "left behind: {strange:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(super) async fn another_length(cx: &Ctx) -> Done {
    let files = cx.sandbox().await?.files();
    let piece = || Bytes::from(vec![b'x'; 1000]);
    let fitting = pieces(vec![piece(), piece()], Some(2000));
    files.write_from("fitting", fitting).await?;
    expect_eq!(files.stat("fitting").await?.size, 2000, "a body of the length that it says");
    files.write_from("unstated", pieces(vec![piece(), Bytes::new(), piece()], None)).await?;
    expect_eq!(files.read("unstated").await?, vec![b'x'; 2000], "a body that states no length");
    for (what, len) in [("longer", 1500), ("shorter", 3000)] {
        let write = files.write_from("wrong", pieces(vec![piece(), piece()], Some(len)));
        let written = cx.within(60, what, write).await?;
        expect_kind!(written, InvalidArgument, "a body that is {what} than it says");
    }
    Ok(())
}

pub(super) async fn a_failed_download(cx: &Ctx) -> Done {
    let (files, host) = (cx.sandbox().await?.files(), HostDir::new(cx)?);
    let missing = files.download("no-such-file", host.join("target")).await;
    let error = expect_kind!(missing, PathNotFound, "a download of what is not there");
    ensure!(error.to_string().contains("no-such-file"), "the error does not name it: {error}");
    expect_eq!(host.names()?, Vec::<String>::new(), "what is on the host then");
    // The host's own trouble is told as the host's.
    files.write("there", "content").await?;
    let nowhere = files.download("there", host.join("no-such-dir/target")).await;
    let error = expect_kind!(nowhere, PathNotFound, "a download into a directory of the host that is not there");
    let text = error.to_string();
    ensure!(text.contains("no-such-dir") && text.contains("host"), "the error does not name the host's path: {error}");
    host.write("kept", "old")?;
    expect_kind!(files.download("no-such-file", host.join("kept")).await, PathNotFound, "a download over a file");
    expect_eq!(std::fs::read(host.join("kept")).ok(), Some(b"old".to_vec()), "the file on the host then");
    files.download("there", host.join("kept")).await?;
    expect_eq!(std::fs::read(host.join("kept")).ok(), Some(b"content".to_vec()), "the file on the host in the end");
    expect_eq!(host.names()?, ["kept"], "what is on the host in the end");
    Ok(())
}

pub(super) async fn a_cancelled_download(cx: &Ctx) -> Done {
    const SIZE: usize = 64 << 20;
    let (sandbox, host) = (cx.sandbox().await?, HostDir::new(cx)?);
    let files = sandbox.files();
    files.write("large", pattern(SIZE, 5)).await?;
    host.write("target", "old")?;
    // At several points, because how fast it goes is not ours.
    let mut cut = false;
    for millis in [5, 20, 60, 150, 400] {
        let download = files.download("large", host.join("target"));
        if tokio::time::timeout(Duration::from_millis(millis), download).await.is_ok() {
            break;
        }
        cut = true;
        let until = Instant::now() + cx.secs(15);
        while host.names()? != ["target"] {
            ensure!(Instant::now() < until, "left behind on the host after {millis} ms: {:?}", host.names()?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let size = std::fs::metadata(host.join("target")).map_or(0, |meta| meta.len());
        ensure!(size == 3 || size == SIZE as u64, "a part of the file, {size} bytes, took the place of what was there");
        if let Err(error) = files.exists("large").await {
            // What cannot be killed alone goes down with its sandbox.
            if error.kind() == ErrorKind::Gone && !cx.has(sandbox_core::Capability::KillOne) {
                break;
            }
            return Err(Stop::from(error));
        }
    }
    if !cut {
        unproven!("{} MiB came down before anybody could cut it", SIZE >> 20);
    }
    Ok(())
}
