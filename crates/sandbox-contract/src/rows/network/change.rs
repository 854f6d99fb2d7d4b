//! Policies that change under a live sandbox, and one that only records.

use super::{allow, answers, canary, deny::canary_at, name, silent};
use crate::{
    Ctx, Reach,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::{Fault, Point},
    row::{Done, Stop},
};
use sandbox::{Process, ProcessEvent};
use sandbox_core::{Capability::AllowHost, Error, ErrorKind, NetworkPolicy};
use std::time::Duration;

pub(super) async fn new_connections(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    answers(cx, &sandbox, &canary, &canary.host).await?;
    for _ in 0..2 {
        sandbox.set_network(NetworkPolicy::Deny).await?;
        silent(cx, &sandbox, &canary, &canary.host).await?;
        sandbox.set_network(NetworkPolicy::Open).await?;
        answers(cx, &sandbox, &canary, &canary.host).await?;
    }
    if cx.has(AllowHost) {
        if let Ok(name) = name(&canary) {
            sandbox.set_network(allow(name)?).await?;
            answers(cx, &sandbox, &canary, name).await?;
            sandbox.set_network(allow("other.invalid")?).await?;
            silent(cx, &sandbox, &canary, name).await?;
        }
    }
    Ok(())
}

pub(super) async fn live_connections(cx: &Ctx) -> Done {
    let canary = canary_at(cx, Reach::Talk).await?;
    let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    let spared = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    let held = || cx.probes().egress_hold(&*canary.host, canary.port).timeout(cx.secs(600));
    let mut process = sandbox.start(held()).await?;
    let mut other = spared.start(held()).await?;
    heard(cx, &mut process, &canary.says).await?;
    heard(cx, &mut other, &canary.says).await?;
    sandbox.set_network(NetworkPolicy::Deny).await?;
    // What was on its way may still come; then there is an end, or silence.
    let quiet = async {
        loop {
            tokio::select! {
                biased;
                event = process.next() => {
                    if matches!(event?, None | Some(ProcessEvent::Exited(_))) {
                        return Ok::<_, Stop>(());
                    }
                }
                () = cx.sleep(Duration::from_secs(3)) => return Ok(()),
            }
        }
    };
    cx.within(30, "the cut of a connection that a new policy forbids", quiet).await??;
    for _ in 0..3 {
        heard(cx, &mut other, &canary.says).await.map_err(|stop| stop.during("the connection of another sandbox"))?;
    }
    Ok(())
}

pub(super) async fn an_equal_policy(cx: &Ctx) -> Done {
    let canary = canary_at(cx, Reach::Talk).await?;
    let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    let mut process = sandbox.start(cx.probes().egress_hold(&*canary.host, canary.port).timeout(cx.secs(600))).await?;
    heard(cx, &mut process, &canary.says).await?;
    for _ in 0..2 {
        sandbox.set_network(NetworkPolicy::Open).await?;
        heard(cx, &mut process, &canary.says).await?;
    }
    Ok(())
}

pub(super) async fn a_refused_change(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    cx.meddling().set(Point::Network, Fault::Fail(Error::new(ErrorKind::Unavailable, "scripted").applied(false)));
    expect_kind!(sandbox.set_network(NetworkPolicy::Deny).await, Unavailable, "a change that the provider refuses");
    cx.meddling().clear();
    answers(cx, &sandbox, &canary, &canary.host).await.map_err(|stop| stop.during("the old policy"))?;
    // The same change once more is made, not taken for made.
    sandbox.set_network(NetworkPolicy::Deny).await?;
    silent(cx, &sandbox, &canary, &canary.host).await
}

pub(super) async fn learning(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Learn)).await?;
    expect_eq!(sandbox.destinations().await?, Vec::new(), "destinations before anything was reached");
    answers(cx, &sandbox, &canary, &canary.host).await?;
    let seen = sandbox.destinations().await?;
    let address = canary.host.parse().ok();
    ensure!(
        seen.iter().any(|one| one.address == address && one.port == Some(canary.port)),
        "{}:{} was reached and is not recorded: {seen:?}",
        canary.host,
        canary.port
    );
    if let Ok(name) = name(&canary) {
        answers(cx, &sandbox, &canary, name).await?;
        let seen = sandbox.destinations().await?;
        let named = seen.iter().filter(|one| one.name.as_deref() == Some(name));
        ensure!(named.into_iter().any(|one| one.port == Some(canary.port)), "{name} is not recorded: {seen:?}");
    }
    let other = cx.sandbox_of(cx.spec().network(NetworkPolicy::Learn)).await?;
    expect_eq!(other.destinations().await?, Vec::new(), "what another sandbox has reached");
    Ok(())
}

/// The next words from a connection that is held.
async fn heard(cx: &Ctx, process: &mut Process, word: &str) -> Done {
    let next = async {
        loop {
            match process.next().await? {
                Some(ProcessEvent::Stdout(piece)) if String::from_utf8_lossy(&piece).contains(word) => return Ok(()),
                Some(ProcessEvent::Stdout(_) | ProcessEvent::Stderr(_)) => {}
                other => fail!("the connection ended: {other:?}"),
            }
        }
    };
    cx.within(30, "words from a connection that is held", next).await?
}
