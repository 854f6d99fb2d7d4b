//! The end that every sandbox has.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::Sandbox;
use sandbox_core::{Capability::Run, ErrorKind, Query, labels};
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

pub(super) async fn an_extension_moves_the_end(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(10))).await?;
    let long = || cx.probes().echo("long").timeout(cx.secs(18));
    expect_kind!(sandbox.run(long()).await, InvalidArgument, "a timeout over the lifetime, the control");
    cx.sleep(Duration::from_secs(3)).await;
    cx.within(60, "extend", sandbox.extend(cx.secs(20))).await??;
    expect_eq!(cx.text(&sandbox, long()).await?, "long", "a timeout over the old lifetime and within the new one");
    cx.sleep(Duration::from_secs(11)).await;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after the old end");
    // It lives so long from then on, not so much longer than before.
    cx.sleep(Duration::from_secs(13)).await;
    let run = cx.within(30, "run after the new end", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run after the new end");
    if cx.can_count() {
        cx.settles_at(0, "after the new end").await?;
    }
    Ok(())
}

pub(super) async fn an_extension_is_seen(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(600))).await?;
    let before = expires(cx, &sandbox).await?;
    sandbox.extend(cx.secs(1800)).await?;
    let after = expires(cx, &sandbox).await?;
    let more = after.saturating_sub(before);
    ensure!(
        (cx.secs(1190).as_secs()..=cx.secs(1300).as_secs()).contains(&more),
        "the end in the list moved by {more} s, from 600 s to 1800 s from now on (before scaling): a sweep goes by it"
    );
    Ok(())
}

async fn expires(cx: &Ctx, sandbox: &Sandbox) -> Result<u64, Stop> {
    let query = cx.labels().iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let listed = cx.client().list(query).await?;
    let Some(one) = listed.iter().find(|one| &one.id == sandbox.id()) else { fail!("it is not listed: {listed:?}") };
    match one.labels.get(labels::EXPIRES).and_then(|at| at.parse().ok()) {
        Some(at) => Ok(at),
        None => fail!("its end is not in its labels: {one:?}"),
    }
}

pub(super) async fn refused_extensions(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let most = cx.facts().longest_lifetime().unwrap_or(Duration::from_secs(366 * 24 * 3600));
    let asked = cx.meddling().calls(Point::Extend);
    for (what, lifetime) in [("zero", Duration::ZERO), ("more than the maximum", most + Duration::from_secs(60))] {
        let error = expect_kind!(sandbox.extend(lifetime).await, InvalidArgument, "an extension of {what}");
        ensure!(error.hint().is_some(), "an extension of {what}: no hint: {error:?}");
        expect_eq!(error.operation(), Some("extend"), "the operation of {error:?}");
    }
    expect_eq!(cx.meddling().calls(Point::Extend), asked, "what was sent");
    if cx.has(Run) {
        expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after the refusals");
    }
    Ok(())
}
