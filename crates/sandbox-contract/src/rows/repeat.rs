//! Rows of the area `create`: what becomes of a create whose answer was lost.

use crate::{
    Ctx,
    expect::{expect_eq, expect_kind, unproven},
    meddle::{Fault, Point},
    row::{Done, Row, row},
};
use sandbox::Limits;
use sandbox_core::{
    Capability::{IdempotentCreate, Run},
    Error, ErrorKind,
};

pub(crate) static ROWS: &[Row] = &[
    row!("create::a_lost_answer_makes_no_second_sandbox", makes_no_second).needs(&[IdempotentCreate]),
    row!("create::a_lost_answer_is_told_where_a_repeat_is_not_safe", is_told).facade(),
];

async fn makes_no_second(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    world.meddling().once(Point::Created, Fault::Fail(lost()));
    let sandbox = world.sandbox().await?;
    expect_eq!(world.meddling().calls(Point::Created), 2, "answers of the provider, of which the first was lost");
    if world.has(Run) {
        expect_eq!(world.text(&sandbox, world.probes().echo("second")).await?, "second", "a command in the sandbox");
    }
    if !world.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    world.settles_at(1, "after a create that was asked for twice").await?;
    drop(sandbox);
    world.end().await
}

async fn is_told(cx: &Ctx) -> Done {
    let other = cx.without(IdempotentCreate).await?;
    other.meddling().once(Point::Created, Fault::Fail(lost()));
    let created = cx.within(120, "a create whose answer is lost", other.client().create(other.spec())).await?;
    expect_kind!(created, ConnectionLost, "a create whose answer is lost");
    expect_eq!(other.meddling().calls(Point::Created), 1, "answers of the provider");
    if other.can_count() {
        other.settles_at(0, "after a create whose answer was lost").await?;
    }
    // The control: nothing was wrong but the answer.
    drop(cx.sandbox().await?);
    Ok(())
}

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the answer to the create was lost, by the contract suite")
}
