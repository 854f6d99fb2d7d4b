//! Rows of the area `cancel`: whoever leaves in the middle of a transfer ends that, and nothing else.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, fail},
    row::{Done, Row, row},
};
use sandbox::{Body, Bytes, Chunks, Sandbox};
use sandbox_core::{
    Capability::{Files, Run},
    Result,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub(crate) static ROWS: &[Row] = &[
    row!("cancel::an_upload_dropped_midway_ends_nothing_else", an_upload).needs(&[Files, Run]),
    row!("cancel::a_download_dropped_midway_ends_nothing_else", a_download).needs(&[Files, Run]),
];

async fn an_upload(cx: &Ctx) -> Done {
    spares(cx, async |sandbox| {
        let given = Arc::new(AtomicUsize::new(0));
        let files = sandbox.files();
        let mut write = Box::pin(files.write_from("endless", Body::new(None, Endless(Arc::clone(&given)))));
        let under_way = async {
            while given.load(Ordering::SeqCst) < 8 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let begun = async {
            tokio::select! {
                biased;
                done = &mut write => fail!("an upload without an end is over: {done:?}"),
                () = under_way => Ok(()),
            }
        };
        cx.within(30, "the first pieces of an upload", begun).await??;
        drop(write);
        // Whoever was asked for more is asked no more.
        let settled = async {
            loop {
                let before = given.load(Ordering::SeqCst);
                tokio::time::sleep(cx.secs(1)).await;
                if given.load(Ordering::SeqCst) == before {
                    return;
                }
            }
        };
        cx.within(20, "the end of an upload that was dropped", settled).await
    })
    .await
}

async fn a_download(cx: &Ctx) -> Done {
    spares(cx, async |sandbox| {
        let files = sandbox.files();
        files.write("large", vec![b'x'; 16 << 20]).await?;
        let mut body = files.open("large").await?;
        let first = cx.within(30, "the first piece of a download", body.next()).await??;
        ensure!(first.is_some_and(|piece| piece.iter().all(|byte| *byte == b'x')), "the first piece is another");
        drop(body);
        expect_eq!(files.stat("large").await?.size, 16 << 20, "the size of what was not read to its end");
        Ok(())
    })
    .await
}

/// A neighbour lives through it, and the sandbox is as it was.
async fn spares(cx: &Ctx, act: impl AsyncFnOnce(&Sandbox) -> Done) -> Done {
    let (sandbox, marker) = (cx.sandbox().await?, cx.marker());
    let beside = sandbox.start(cx.probes().hang(&marker).timeout(cx.secs(3000))).await?;
    cx.appears(&sandbox, &marker).await?;
    act(&sandbox).await?;
    ensure!(cx.alive(&sandbox, &marker).await? > 0, "a neighbour died with a transfer that was dropped");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("usable")).await?, "usable", "echo afterwards");
    sandbox.files().write("beside", "fine").await?;
    expect_eq!(sandbox.files().read("beside").await?, "fine", "a file afterwards");
    // Only now: where one command cannot be ended alone, its sandbox goes with it.
    drop(beside);
    Ok(())
}

/// Never comes to an end, and not at once: so much that the sandbox is full is not meant.
struct Endless(Arc<AtomicUsize>);

impl Chunks for Endless {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Bytes::from_static(&[b'y'; 4 << 10])))
    }
}
