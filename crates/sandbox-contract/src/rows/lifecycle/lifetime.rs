//! The end that every sandbox has.

use crate::{
    Ctx,
    expect::{expect_eq, expect_kind, fail},
    row::Done,
};
use sandbox_core::ErrorKind;
use std::time::Duration;

pub(super) async fn it_ends_at_its_lifetime(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(8))).await?;
    let marker = cx.marker();
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo within the lifetime");
    let mut process = sandbox.start(cx.probes().hang(&marker)).await?;
    let ended = cx.by_clock(Duration::from_secs(40), "the end at the lifetime", process.wait()).await?;
    match ended {
        // The command's own timeout is cut to the lifetime, so both may be first; after either the sandbox is gone.
        Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::ExecutionTimeout) => {}
        other => fail!("a command across the end of the lifetime: expected `gone`, got {other:?}"),
    }
    drop(process);
    cx.sleep(Duration::from_secs(5)).await;
    let run = cx.within(30, "run after the lifetime", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run after the lifetime");
    if cx.can_count() {
        cx.settles_at(0, "after the lifetime").await?;
    }
    cx.within(30, "close after the lifetime", sandbox.close()).await??;
    Ok(())
}
