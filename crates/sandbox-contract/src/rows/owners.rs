//! Rows of the area `cancel`: what becomes of the sandbox of an owner that is killed.

use crate::{
    Ctx,
    expect::{expect_eq, unproven},
    owner::{self, Owner},
    row::{Done, Row, Stop, row},
};
use sandbox_core::Capability::{Lifetime, OwnerLease};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("cancel::a_killed_owner_takes_its_sandbox_along", takes_along).needs(&[OwnerLease]).serial(),
    row!("cancel::a_killed_owner_leaves_its_sandbox_to_its_lifetime", leaves_to_lifetime).needs(&[Lifetime]).serial(),
];

async fn takes_along(cx: &Ctx) -> Done {
    let mut owner = owner(cx, None).await?;
    owner.kill();
    cx.settles_at(0, "after the owner was killed").await
}

async fn leaves_to_lifetime(cx: &Ctx) -> Done {
    let lifetime = cx.secs(12);
    let mut owner = owner(cx, Some(lifetime)).await?;
    owner.kill();
    if !cx.has(OwnerLease) {
        // That nobody owns it any more is no end: only its time is.
        expect_eq!(cx.count().await?, 1, "sandboxes right after the owner was killed");
    }
    tokio::time::sleep(lifetime).await;
    cx.settles_at(0, "after the lifetime of a sandbox whose owner was killed").await
}

/// A process of its own with a sandbox that is seen from here: the control of all that follows.
async fn owner(cx: &Ctx, lifetime: Option<Duration>) -> Result<Owner, Stop> {
    let started = owner::start(cx.labels(), lifetime).map_err(|error| Stop::fail(format_args!("{error}")))?;
    let Some(mut owner) = started else {
        unproven!("an owner can only be killed where `contract_suite!` is the test program");
    };
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    let id = cx.within(120, "the owner's create", owner.made()).await?.map_err(Stop::fail)?;
    if cx.count().await? == 0 {
        unproven!("the sandbox {id} of another process is not seen from here");
    }
    Ok(owner)
}
