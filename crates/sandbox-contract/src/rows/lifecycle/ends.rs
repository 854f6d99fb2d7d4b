//! How sandboxes end, and who is told.

use super::nothing_left;
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Stop},
};
use sandbox::{Limits, Overrides, Sandbox};
use sandbox_core::{Capability::Labels, Error, ErrorKind};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tokio::time::Instant;

pub(super) async fn create_run_close_and_close_again(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    ensure!(!sandbox.id().as_str().is_empty(), "the id is empty");
    ensure!(sandbox.cwd().starts_with('/'), "the working directory is not absolute: {}", sandbox.cwd());
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 1, "sandboxes while one lives");
    }
    cx.within(60, "close", sandbox.close()).await??;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes right after close");
    }
    let destroys = cx.meddling().calls(Point::Destroy);
    cx.within(20, "the second close", sandbox.close()).await??;
    expect_eq!(cx.meddling().calls(Point::Destroy), destroys, "what the second close sent");
    Ok(())
}

pub(super) async fn work_after_close_is_gone(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().echo("control")).await?;
    let view = sandbox.with(Overrides::new().env("A", "b"));
    sandbox.close().await?;
    let spawns = cx.meddling().calls(Point::Spawn);
    let run = cx.within(10, "run after close", sandbox.run(cx.probes().echo("x"))).await?;
    let error = expect_kind!(run, Gone, "run after close");
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    expect_kind!(sandbox.start(cx.probes().echo("x")).await, Gone, "start after close");
    expect_kind!(view.run(cx.probes().echo("x")).await, Gone, "run in a view after close");
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "what was sent after close");
    if cx.has(sandbox_core::Capability::Files) {
        expect_kind!(sandbox.files().read("x").await, Gone, "read after close");
    }
    Ok(())
}

pub(super) async fn a_scope_ends_its_sandbox_on_return(cx: &Ctx) -> Done {
    let text = cx.client().scope(cx.spec(), async |sandbox: &Sandbox| {
        let text = cx.text(sandbox, cx.probes().echo("inside")).await?;
        if cx.can_count() {
            expect_eq!(cx.count().await?, 1, "sandboxes inside the scope");
        }
        Ok::<_, Stop>(text)
    });
    expect_eq!(text.await?, "inside", "the block's value");
    nothing_left(cx).await
}

pub(super) async fn a_scope_ends_its_sandbox_on_an_error(cx: &Ctx) -> Done {
    let result = cx.client().scope(cx.spec(), async |_: &Sandbox| Err::<(), _>(own()));
    let error = expect_kind!(result.await, Protocol, "a scope whose block fails");
    expect_eq!(error.message(), OWN, "the block's own error");
    nothing_left(cx).await
}

pub(super) async fn a_scope_ends_its_sandbox_on_a_panic(cx: &Ctx) -> Done {
    let mut scope = Box::pin(cx.client().scope(cx.spec(), async |_: &Sandbox| -> Result<(), Error> {
        // Not `panic!`: the hook would print a trace for what is meant.
        std::panic::resume_unwind(Box::new(OWN))
    }));
    let panic = std::future::poll_fn(|poll| match catch_unwind(AssertUnwindSafe(|| scope.as_mut().poll(poll))) {
        Ok(std::task::Poll::Ready(result)) => std::task::Poll::Ready(Err(result)),
        Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
        Err(panic) => std::task::Poll::Ready(Ok(panic)),
    });
    match cx.within(60, "the panic", panic).await? {
        Ok(panic) => ensure!(panic.downcast_ref::<&str>() == Some(&OWN), "another panic came out"),
        Err(result) => fail!("the panic of the block did not come out, but {result:?}"),
    }
    drop(scope);
    nothing_left(cx).await
}

pub(super) async fn an_own_error_survives_a_failing_teardown(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let result = world.client().scope(world.spec(), async |_: &Sandbox| Err::<(), _>(own()));
    let error = expect_kind!(result.await, Protocol, "a scope whose block and teardown fail");
    expect_eq!(error.message(), OWN, "the block's own error");
    reported(&world).await
}

pub(super) async fn an_own_value_survives_a_failing_teardown(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let result = world.client().scope(world.spec(), async |_: &Sandbox| Ok::<_, Error>(42));
    expect_eq!(result.await?, 42, "the block's value");
    reported(&world).await
}

/// The orphan is named, and then ended.
async fn reported(world: &crate::ctx::World) -> Done {
    let orphans = world.client().orphans();
    expect_eq!(orphans.len(), 1, "orphan reports: {orphans:?}");
    let orphan = &orphans[0];
    let Some(id) = &orphan.id else { fail!("the report names no id: {orphan:?}") };
    expect_eq!(orphan.backend, world.facts().name(), "the backend of the report");
    if world.has(Labels) {
        for (name, value) in world.labels() {
            expect_eq!(orphan.labels.get(name), Some(value), "label {name} of the report");
        }
    }
    ensure!(orphan.error.is_some(), "the report does not say why: {orphan:?}");
    world.meddling().clear();
    world.client().destroy(id.as_str()).await?;
    Ok(())
}

pub(super) async fn a_refused_destroy_says_what_remains(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let error = expect_kind!(sandbox.close().await, TeardownFailed, "a close that the provider refuses");
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    let mut cause = std::error::Error::source(&error);
    let mut causes = Vec::new();
    while let Some(one) = cause {
        causes.push(one.to_string());
        cause = one.source();
    }
    ensure!(causes.iter().any(|text| text.contains(REFUSAL)), "the provider's words are lost: {causes:?}");
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("destroy") || hint.contains("sweep"), "the hint does not say how to reap: {hint:?}");
    // Every later close says the same, and later work is gone.
    expect_kind!(sandbox.close().await, TeardownFailed, "the second close");
    reported(&world).await?;
    drop(sandbox);
    world.end().await
}

pub(super) async fn destroy_of_an_unknown_id_succeeds(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let sandbox = cx.sandbox().await?;
    let id = sandbox.id().clone();
    sandbox.close().await?;
    cx.within(30, "destroy of an ended id", cx.client().destroy(id.as_str())).await??;
    cx.within(30, "destroy again", cx.client().destroy(id.as_str())).await??;
    // The same shape, one digit or letter changed: an id of this provider that never was.
    let never: String = id.as_str().chars().map(|c| if c == 'a' || c == '1' { 'b' } else { c }).collect();
    if never != id.as_str() {
        cx.within(30, "destroy of an id that never was", cx.client().destroy(&never)).await??;
    }
    expect_eq!(cx.creates() - creates, 1, "creates");
    expect_kind!(cx.client().destroy("../etc").await, InvalidArgument, "destroy of what is no id");
    Ok(())
}

pub(super) async fn destroy_by_id_ends_the_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().echo("control")).await?;
    cx.within(60, "destroy", cx.client().destroy(sandbox.id().as_str())).await??;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes right after destroy");
    }
    let run = cx.within(30, "run after destroy", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a sandbox that was destroyed by its id");
    cx.within(30, "close after destroy", sandbox.close()).await??;
    Ok(())
}

pub(super) async fn destroy_ends_daemons_too(cx: &Ctx) -> Done {
    for by_close in [true, false] {
        let sandbox = cx.sandbox().await?;
        let (marker, id) = (cx.marker(), sandbox.id().clone());
        let output = cx.run(&sandbox, cx.probes().daemonize(&marker)).await?;
        ensure!(output.success(), "the probe `daemonize`: {output:?}");
        cx.appears(&sandbox, &marker).await?;
        let seen = cx.survivors(&id, &marker).await?;
        ensure!(seen > 0, "the probe `survivors` does not see the daemon while it lives");
        if by_close {
            sandbox.close().await?;
        } else {
            cx.client().destroy(id.as_str()).await?;
        }
        let left = cx.survivors(&id, &marker).await?;
        expect_eq!(left, 0, "daemons after the end (by close: {by_close})");
    }
    Ok(())
}

pub(super) async fn a_start_that_races_with_close(cx: &Ctx) -> Done {
    for delay in [0, 5, 20, 60] {
        let sandbox = cx.sandbox().await?;
        let (marker, other) = (cx.marker(), sandbox.clone());
        let start = async {
            match sandbox.start(cx.probes().hang(&marker)).await {
                Ok(mut process) => process.wait().await.map(|status| format!("{status}")),
                Err(error) => Err(error),
            }
        };
        let close = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            other.close().await
        };
        let (started, closed) = cx.within(60, "start beside close", async { tokio::join!(start, close) }).await?;
        closed?;
        expect_kind!(started, Gone, "a start {delay} ms before close");
        if cx.can_count() {
            expect_eq!(cx.count().await?, 0, "sandboxes after close");
        }
    }
    Ok(())
}

pub(super) async fn a_sandbox_that_dies_by_itself(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let marker = cx.marker();
    let mut process = sandbox.start(cx.probes().hang(&marker)).await?;
    cx.appears(&sandbox, &marker).await?;
    behind_its_back(cx, &sandbox).await?;
    let ended = cx.within(30, "the command of a sandbox that died", process.wait()).await?;
    expect_kind!(ended, Gone, "a command whose sandbox died: never an exit");
    let begun = Instant::now();
    let run = cx.within(30, "run in a sandbox that died", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a sandbox that died");
    ensure!(begun.elapsed() < cx.secs(5), "the answer took {:?}, which is not at once", begun.elapsed());
    drop(process);
    cx.within(30, "close of a sandbox that died", sandbox.close()).await??;
    Ok(())
}

/// The provider ends the sandbox, and the client under test is not asked.
async fn behind_its_back(cx: &Ctx, sandbox: &Sandbox) -> Done {
    if let Some(expire) = &cx.hooks().expire {
        return Ok(cx.within(60, "the probe `expire`", expire(sandbox.id().clone())).await??);
    }
    let other = cx.another()?;
    if !other.can_list() || !other.listed().await?.contains(sandbox.id()) {
        unproven!("the behaviour probe `expire` is missing, and a second client does not see the sandbox");
    }
    other.client().destroy(sandbox.id().as_str()).await?;
    other.end().await
}

fn own() -> Error {
    Error::new(ErrorKind::Protocol, OWN)
}

const OWN: &str = "the block's own words";

fn refusal() -> Error {
    Error::new(ErrorKind::PermissionDeniedByProvider, REFUSAL)
}

const REFUSAL: &str = "refused by the contract suite";

fn quick() -> Limits {
    Limits::new().teardown(Duration::from_secs(10))
}
