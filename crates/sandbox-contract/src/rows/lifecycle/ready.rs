//! A sandbox that is handed over once it is ready.

use super::nothing_left;
use crate::{
    Ctx,
    expect::{ensure, expect_kind, fail, unproven},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::{Query, Sandbox};
use sandbox_core::ErrorKind;
use std::{pin::pin, time::Duration};

pub(super) async fn holds_create_back(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().ready(cx.probes().ready_later())).await?;
    let spawns = cx.meddling().calls(Point::Spawn);
    ensure!(spawns >= 3, "the ready command ran {spawns} times, and succeeds only the third time");
    cx.text(&sandbox, cx.probes().echo("ready")).await?;
    Ok(())
}

pub(super) async fn never_succeeds(cx: &Ctx) -> Done {
    let spec = cx.spec().ready(cx.probes().ready_never()).create_timeout(cx.pace().await?.secs(8));
    let created = cx.within(90, "a create that is never ready", cx.client().create(spec)).await?;
    let error = expect_kind!(created, CreateTimeout, "a create that is never ready");
    ensure!(format!("{error:?}").contains("not yet"), "what the ready command wrote is not told: {error:?}");
    nothing_left(cx).await
}

const PORT: u16 = 47_123;
const LABEL: &str = "contract.ready";

pub(super) async fn a_port_holds_create_back(cx: &Ctx) -> Done {
    let name = cx.marker();
    let spec = cx.spec().label(LABEL, &name).ready_port(PORT).create_timeout(cx.secs(90));
    let mut create = pin!(cx.client().create(spec));
    // Somebody else reaches it meanwhile, and listens there.
    let inside = tokio::select! {
        created = &mut create => return early(created),
        reached = reach(cx, &name) => reached?,
    };
    tokio::select! {
        created = &mut create => return early(created),
        // The control: it is the port that is waited for.
        waited = cx.text(&inside, cx.probes().sleep(1500_u32)) => drop(waited?),
    }
    let mut server = inside.start(cx.probes().listen(PORT, "ready")).await?;
    let created = tokio::select! {
        created = cx.within(60, "a create whose port is listened at", create) => created?,
        ended = server.wait() => unproven!("the probe `listen` ended at once, and has to run: {ended:?}"),
    };
    let sandbox = match created {
        Err(error) if is_blind(&error) => unproven!("{error}"),
        created => created?,
    };
    ensure!(sandbox.id() == inside.id(), "another sandbox than the one that listens: {sandbox:?}, {inside:?}");
    drop(server);
    Ok(())
}

pub(super) async fn a_port_that_nobody_listens_at(cx: &Ctx) -> Done {
    let spec = cx.spec().ready_port(PORT).create_timeout(cx.pace().await?.secs(8));
    let created = cx.within(90, "a create that is never ready", cx.client().create(spec)).await?;
    if created.as_ref().is_err_and(is_blind) {
        unproven!("this sandbox does not show who listens");
    }
    let error = expect_kind!(created, CreateTimeout, "a create that is never ready");
    ensure!(error.message().contains(&PORT.to_string()), "the port is not told: {error:?}");
    nothing_left(cx).await
}

fn early(created: sandbox_core::Result<Sandbox>) -> Done {
    match created {
        Err(error) if is_blind(&error) => unproven!("{error}"),
        created => fail!("a create was over before its port was listened at: {created:?}"),
    }
}

/// Nothing inside shows who listens.
fn is_blind(error: &sandbox_core::Error) -> bool {
    error.kind() == ErrorKind::CreateFailed
}

async fn reach(cx: &Ctx, name: &str) -> Result<Sandbox, Stop> {
    loop {
        let listed = cx.within(30, "list", cx.client().list(Query::new().label(LABEL, name))).await??;
        if let Some(one) = listed.first() {
            match cx.within(60, "attach", cx.client().attach(&one.id)).await? {
                // It is listed, and not there yet.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongState) => {}
                reached => return Ok(reached?),
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
