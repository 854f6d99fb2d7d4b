//! How services end: alone, by themselves, with their sandbox, and with a create that fails.

use super::{ONE, TWO, with};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Stop},
};
use sandbox::{Limits, Sandbox, Spec};
use sandbox_core::{Capability::Files, Error, ErrorKind};
use std::time::Duration;

pub(super) async fn a_stopped_one(cx: &Ctx) -> Done {
    let (first, second) = (cx.marker(), cx.marker());
    let sandbox = with(cx, &[(ONE, cx.probes().hang(&first)), (TWO, cx.probes().hang(&second))]).await?;
    let (one, two) = (sandbox.service(ONE)?, sandbox.service(TWO)?);
    cx.appears(&one, &first).await?;
    cx.appears(&two, &second).await?;
    let counted = cx.hooks().count_services.is_some();
    if counted {
        expect_eq!(cx.count_services().await?, 2, "services before one is stopped");
    }
    let mut running = one.start(cx.probes().hang(cx.marker()).timeout(cx.secs(3000))).await?;
    cx.within(60, "close of a service", one.close()).await??;
    let ended = cx.within(30, "a command in a service that is stopped", running.wait()).await?;
    expect_kind!(ended, Gone, "a command in a service that is stopped");
    is_gone(cx, &one).await?;
    is_gone(cx, &sandbox.service(ONE)?).await?;
    cx.within(60, "the second close", one.close()).await??;
    if cx.hooks().survivors.is_some() {
        expect_eq!(cx.survivors(one.id(), &first).await?, 0, "the main program of a service that was stopped");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().echo("on")).await?, "on", "the sandbox goes on");
    expect_eq!(cx.text(&two, cx.probes().echo("on")).await?, "on", "the other service goes on");
    ensure!(cx.alive(&two, &second).await? > 0, "the main program of the other service has ended");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 1, "sandboxes");
    }
    if counted {
        expect_eq!(cx.count_services().await?, 1, "services after one was stopped");
    }
    Ok(())
}

pub(super) async fn by_itself(cx: &Ctx) -> Done {
    const END: &str = "contract-end";
    let marker = cx.marker();
    let sandbox = with(cx, &[(ONE, cx.probes().wait_for(END)), (TWO, cx.probes().hang(&marker))]).await?;
    let one = sandbox.service(ONE)?;
    expect_eq!(cx.text(&one, cx.probes().echo("control")).await?, "control", "echo while its main program runs");
    // What ends meanwhile may take the command along that ends it.
    drop(cx.within(60, "the end of a main program", one.run(cx.probes().write_file(END, "now"))).await?);
    let noticed = async {
        loop {
            match one.run(cx.probes().echo("x")).await {
                Ok(_) => cx.sleep(Duration::from_millis(300)).await,
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
                Err(error) => fail!("work in a service whose main program has ended: {error:?}"),
            }
        }
    };
    cx.within(30, "the end of a service whose main program has ended", noticed).await??;
    is_gone(cx, &one).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("on")).await?, "on", "the sandbox goes on");
    ensure!(cx.alive(&sandbox.service(TWO)?, &marker).await? > 0, "the other service has ended");
    cx.within(60, "close of a service that has ended", one.close()).await??;
    Ok(())
}

pub(super) async fn with_their_sandbox(cx: &Ctx) -> Done {
    for by_close in [true, false] {
        let marker = cx.marker();
        let sandbox = with(cx, &[(ONE, cx.probes().hang(&marker)), (TWO, cx.probes().hang(cx.marker()))]).await?;
        let one = sandbox.service(ONE)?;
        cx.appears(&one, &marker).await?;
        let seen = cx.survivors(one.id(), &marker).await?;
        ensure!(seen > 0, "the probe `survivors` does not see the main program of a service while it runs");
        let counted = cx.hooks().count_services.is_some();
        if counted {
            expect_eq!(cx.count_services().await?, 2, "services before the end, the control");
        }
        let mut running = one.start(cx.probes().hang(cx.marker()).timeout(cx.secs(3000))).await?;
        if by_close {
            cx.within(60, "close", sandbox.close()).await??;
        } else {
            cx.within(60, "destroy", cx.client().destroy(sandbox.id())).await??;
        }
        expect_eq!(cx.survivors(one.id(), &marker).await?, 0, "main programs of its services (by close: {by_close})");
        if counted {
            expect_eq!(cx.count_services().await?, 0, "services after the end (by close: {by_close})");
        }
        let ended = cx.within(30, "a command in a service", running.wait()).await?;
        expect_kind!(ended, Gone, "a command in a service whose sandbox has ended (by close: {by_close})");
        is_gone(cx, &one).await?;
        cx.within(60, "close of the service", one.close()).await??;
    }
    Ok(())
}

pub(super) async fn a_create_that_fails(cx: &Ctx) -> Done {
    if cx.hooks().count_services.is_none() || !cx.can_count() {
        unproven!("the behaviour probe `count_services` is missing, or sandboxes cannot be counted");
    }
    let fine = || cx.service(&cx.probes().hang(cx.marker()));
    let two = |spec: Spec| Ok::<_, Stop>(spec.service(ONE, fine()?).service(TWO, fine()?));
    let sandbox = cx.sandbox_of(two(cx.spec())?).await?;
    expect_eq!(cx.count_services().await?, 2, "services of a create that succeeds, the control");
    sandbox.close().await?;
    drop(sandbox);
    nothing_of_it(cx, "after the control").await?;
    // One in the middle that cannot begin.
    let broken = fine()?.command(["/contract/no-such-program"]);
    let spec = cx.spec().service("contract-a", fine()?).service("contract-b", broken).service("contract-c", fine()?);
    let created = cx.within(150, "a create", cx.client().create(spec)).await?;
    let Err(error) = created else { fail!("a create with a service whose program is not there succeeded") };
    ensure!(error.kind() != ErrorKind::Internal, "that is no fault of ours: {error:?}");
    ensure!(format!("{error:?}").contains("contract-b"), "it does not say which service: {error:?}");
    nothing_of_it(cx, "after a service that cannot begin").await?;
    // The provider has made all of it, and the answer is an error.
    let world = cx.limited(Limits::new())?;
    world.meddling().set(Point::Created, Fault::Fail(Error::new(ErrorKind::CreateFailed, "scripted")));
    let created = cx.within(90, "a create that fails late", world.client().create(two(world.spec())?)).await?;
    expect_kind!(created, CreateFailed, "a create that fails late");
    expect_eq!(world.meddling().calls(Point::Created), 1, "sandboxes that the provider has made");
    world.settles_at(0, "after a create that failed late").await?;
    world.services_settle_at(0, "after a create that failed late").await?;
    world.end().await?;
    let Some(fail_at) = &cx.hooks().fail_create_at else { return Ok(()) };
    for request in 1..=50 {
        if !cx.within(30, "the probe `fail_create_at`", fail_at(request)).await?? {
            return Ok(());
        }
        let created = cx.within(120, "a create that fails", cx.client().create(two(cx.spec())?)).await?;
        ensure!(created.is_err(), "request {request} was to fail, and the create succeeded");
        nothing_of_it(cx, &format!("after a failure at request {request}")).await?;
    }
    Ok(())
}

async fn nothing_of_it(cx: &Ctx, what: &str) -> Done {
    cx.settles_at(0, what).await?;
    cx.services_settle_at(0, what).await
}

async fn is_gone(cx: &Ctx, service: &Sandbox) -> Done {
    let run = cx.within(30, "a run", service.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "a run in a service that has ended");
    if cx.has(Files) {
        let read = cx.within(30, "a read", service.files().read("contract-gone")).await?;
        expect_kind!(read, Gone, "a read in a service that has ended");
    }
    Ok(())
}
