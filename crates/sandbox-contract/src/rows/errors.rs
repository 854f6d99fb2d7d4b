//! Rows of the area `errors`: what an error says, and that an adapter's fault stays an error.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::{Fault, Point},
    row::{Done, Row, row},
};
use sandbox::Limits;
use sandbox_core::{
    Capability::{self, Run},
    Error, ErrorKind, Retry,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("errors::every_error_has_code_operation_and_backend", every_error_has_code_operation_and_backend).facade(),
    row!("errors::what_the_adapter_says_arrives", what_the_adapter_says_arrives).facade(),
    row!("errors::a_failed_create_is_not_sent_again", a_failed_create_is_not_sent_again).facade(),
    row!("errors::a_panic_in_create_is_internal", a_panic_in_create_is_internal).facade(),
    row!("errors::a_panic_after_create_leaves_nothing", a_panic_after_create_leaves_nothing),
    row!("errors::a_panic_in_spawn_is_internal", a_panic_in_spawn_is_internal).facade().needs(&[Run]),
    row!("errors::a_panic_while_a_command_runs_is_internal", a_panic_while_a_command_runs).facade().needs(&[Run]),
    row!("errors::a_panic_in_destroy_is_told_and_the_engine_lives", a_panic_in_destroy).facade(),
    row!("errors::silence_is_operation_timeout", silence_is_operation_timeout).facade(),
    row!("errors::a_command_in_doubt_costs_the_sandbox", a_command_in_doubt_costs_the_sandbox).facade().needs(&[Run]),
    row!("errors::a_refused_start_spares_the_sandbox", a_refused_start_spares_the_sandbox).facade().needs(&[Run]),
    row!("errors::a_cut_command_is_never_an_exit", a_cut_command_is_never_an_exit).facade().needs(&[Run]),
];

async fn every_error_has_code_operation_and_backend(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut all = vec![
        ("create", cx.client().create(cx.spec().lifetime(Duration::ZERO)).await.err()),
        ("create", cx.client().create(cx.spec().env("A=B", "c")).await.err()),
        ("destroy", cx.client().destroy("not/an id").await.err()),
    ];
    if cx.has(Capability::Attach) {
        all.push(("attach", cx.client().attach("not/an id").await.err()));
    }
    let of_sandbox = all.len();
    if cx.has(Run) {
        all.push(("run", sandbox.run(cx.probes().echo("x").timeout(Duration::ZERO)).await.err()));
        all.push(("run", sandbox.run(cx.probes().echo("x").env("", "x")).await.err()));
        all.push(("start", sandbox.start(cx.probes().echo("x\0")).await.err()));
    }
    for (n, (operation, error)) in all.into_iter().enumerate() {
        let Some(error) = error else { fail!("what cannot be right was not refused: {operation} {n}") };
        expect_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        expect_eq!(error.operation(), Some(operation), "the operation of {error:?}");
        expect_eq!(error.backend(), Some(cx.facts().name()), "the backend of {error:?}");
        ensure!(error.hint().is_some_and(|hint| !hint.is_empty()), "no hint: {error:?}");
        ensure!(!error.may_have_applied(), "nothing was sent: {error:?}");
        ensure!(error.to_string().contains("invalid-argument"), "the code is not in the text: {error}");
        if n >= of_sandbox {
            expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox of {error:?}");
        }
    }
    Ok(())
}

async fn what_the_adapter_says_arrives(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    for (kind, retry, applied) in [
        (ErrorKind::Auth, Retry::Never, false),
        (ErrorKind::QuotaExceeded, Retry::Never, false),
        (ErrorKind::Capacity, Retry::Later, false),
        (ErrorKind::ImageNotFound, Retry::Never, false),
        (ErrorKind::RateLimited, Retry::After(Duration::from_secs(17)), false),
        (ErrorKind::Unavailable, Retry::Later, true),
        (ErrorKind::Protocol, Retry::Never, true),
        (ErrorKind::CreateFailed, Retry::Never, true),
    ] {
        let scripted = Error::new(kind, "scripted").with_hint("do this").with_retry(retry).applied(applied);
        let scripted = scripted.with_source(std::io::Error::other("the cause"));
        world.meddling().set(Point::Create, Fault::Fail(scripted));
        let created = cx.within(60, "a create that fails", world.client().create(world.spec())).await?;
        let Err(error) = created else { fail!("{kind}: a create that fails succeeded") };
        expect_eq!(error.kind(), kind, "the kind");
        expect_eq!(error.retry(), retry, "{kind}: the retry advice");
        expect_eq!(error.may_have_applied(), applied, "{kind}: whether it may have applied");
        expect_eq!(error.hint(), Some("do this"), "{kind}: the hint");
        expect_eq!(error.operation(), Some("create"), "{kind}: the operation");
        expect_eq!(error.backend(), Some(world.facts().name()), "{kind}: the backend");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        expect_eq!(cause.as_deref(), Some("the cause"), "{kind}: the cause");
    }
    world.end().await
}

async fn a_failed_create_is_not_sent_again(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    for kind in [ErrorKind::Unavailable, ErrorKind::ConnectionLost, ErrorKind::OperationTimeout] {
        let before = world.creates();
        world.meddling().set(Point::Create, Fault::Fail(Error::new(kind, "scripted")));
        ensure!(world.client().create(world.spec()).await.is_err(), "{kind}: it succeeded");
        // A lost answer is the one failure that is met by a repeat, where that makes no second sandbox.
        let safe = kind == ErrorKind::ConnectionLost && world.has(Capability::IdempotentCreate);
        expect_eq!(world.creates() - before, if safe { 3 } else { 1 }, "{kind}: how often create was sent");
    }
    world.end().await
}

async fn a_panic_in_create_is_internal(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    world.meddling().set(Point::Create, Fault::Panic);
    let created = cx.within(60, "a create that panics", world.client().create(world.spec())).await?;
    expect_kind!(created, Internal, "a create that panics");
    lives(&world).await?;
    world.end().await
}

async fn a_panic_after_create_leaves_nothing(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    world.meddling().set(Point::Created, Fault::Panic);
    let created = cx.within(90, "a create that panics", world.client().create(world.spec())).await?;
    expect_kind!(created, Internal, "a create that panics with the id in its hand");
    expect_eq!(world.meddling().calls(Point::Created), 1, "creates that the provider carried out");
    if world.can_count() {
        world.settles_at(0, "after a create that panicked with the id in its hand").await?;
    }
    lives(&world).await?;
    world.end().await
}

async fn a_panic_in_spawn_is_internal(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Spawn, Fault::Panic);
    let run = cx.within(60, "a spawn that panics", sandbox.run(world.probes().echo("x"))).await?;
    expect_kind!(run, Internal, "a spawn that panics");
    world.meddling().clear();
    lives(&world).await?;
    drop(sandbox);
    world.end().await
}

async fn a_panic_while_a_command_runs(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    let marker = world.marker();
    world.meddling().set(Point::Next, Fault::Panic);
    let mut process = match cx.within(60, "start", sandbox.start(world.probes().hang(&marker))).await? {
        Ok(process) => process,
        Err(error) => {
            expect_eq!(error.kind(), ErrorKind::Internal, "{error:?}");
            drop(sandbox);
            return world.end().await;
        }
    };
    let ended = cx.within(60, "a command whose events panic", process.wait()).await?;
    expect_kind!(ended, Internal, "a command whose events panic");
    world.meddling().clear();
    lives(&world).await?;
    drop((process, sandbox));
    world.end().await
}

async fn a_panic_in_destroy(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new().teardown(Duration::from_secs(10)))?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Destroy, Fault::Panic);
    let closed = cx.within(60, "a close whose destroy panics", sandbox.close()).await?;
    expect_kind!(closed, Internal, "a close whose destroy panics");
    let orphans = world.client().orphans();
    ensure!(orphans.iter().any(|orphan| orphan.id.as_ref() == Some(sandbox.id())), "not reported: {orphans:?}");
    world.meddling().clear();
    world.client().destroy(sandbox.id().as_str()).await?;
    lives(&world).await?;
    drop(sandbox);
    world.end().await
}

/// The client works as before.
async fn lives(world: &crate::ctx::World) -> Done {
    world.meddling().clear();
    let sandbox = world.sandbox().await?;
    if world.has(Run) {
        expect_eq!(world.text(&sandbox, world.probes().echo("lives")).await?, "lives", "echo after the fault");
    }
    sandbox.close().await?;
    Ok(())
}

async fn silence_is_operation_timeout(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new().operation(cx.pace().await?.secs(5)))?;
    world.meddling().set(Point::Probe, Fault::Hang);
    let probed = cx.within(30, "a probe without an answer", world.client().probe(&world.spec())).await?;
    expect_kind!(probed, OperationTimeout, "a probe without an answer");
    let created = cx.within(30, "a create whose probe has no answer", world.client().create(world.spec())).await?;
    expect_kind!(created, OperationTimeout, "a create whose probe has no answer");
    world.nothing_provisioned(0, "a create whose probe has no answer")?;
    if world.has(Capability::List) {
        world.meddling().set(Point::List, Fault::Hang);
        let listed = cx.within(30, "a list without an answer", world.client().list(sandbox::Query::new())).await?;
        expect_kind!(listed, OperationTimeout, "a list without an answer");
    }
    if world.has(Capability::Attach) {
        world.meddling().set(Point::Attach, Fault::Hang);
        let attached = cx.within(30, "an attach without an answer", world.client().attach("contract-x")).await?;
        expect_kind!(attached, OperationTimeout, "an attach without an answer");
    }
    lives(&world).await?;
    world.end().await
}

async fn a_command_in_doubt_costs_the_sandbox(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    let lost = Error::new(ErrorKind::ConnectionLost, "scripted").applied(true);
    world.meddling().set(Point::Spawn, Fault::Fail(lost));
    let run = cx.within(90, "a start in doubt", sandbox.run(world.probes().echo("x"))).await?;
    expect_kind!(run, ConnectionLost, "a start in doubt");
    world.meddling().clear();
    let run = cx.within(60, "run after a start in doubt", sandbox.run(world.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a sandbox where something may run that nobody can end");
    if world.can_count() {
        world.settles_at(0, "after a start in doubt").await?;
    }
    drop(sandbox);
    world.end().await
}

async fn a_refused_start_spares_the_sandbox(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Spawn, Fault::Fail(Error::new(ErrorKind::StartFailed, "scripted")));
    let run = cx.within(60, "a start that is refused", sandbox.run(world.probes().echo("x"))).await?;
    expect_kind!(run, StartFailed, "a start that is refused");
    world.meddling().clear();
    expect_eq!(world.text(&sandbox, world.probes().echo("lives")).await?, "lives", "echo after a refused start");
    drop(sandbox);
    world.end().await
}

async fn a_cut_command_is_never_an_exit(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    let control = cx.within(60, "the control", sandbox.run(world.probes().echo("x"))).await??;
    ensure!(control.success(), "the control: {control:?}");
    let cut = Error::new(ErrorKind::ConnectionLost, "the stream was cut");
    world.meddling().set(Point::Next, Fault::Fail(cut));
    let run = cx.within(90, "a command whose stream is cut", sandbox.run(world.probes().echo("x"))).await?;
    expect_kind!(run, ConnectionLost, "a command whose stream is cut");
    drop(sandbox);
    world.end().await
}
