//! Handles on services, and what is refused.

use super::{ONE, TWO, with};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::{ForkSandbox, NetworkPolicy, Spec, TakeSnapshot};
use sandbox_core::{
    Capability::{
        self, Attach, DynamicNetwork, Extend, Fork, Learn, Pause, Ports, Services, Snapshot, StopStart, User,
    },
    ErrorKind, Result,
};
use std::{fmt::Debug, time::Duration};

pub(super) async fn an_unknown_name(cx: &Ctx) -> Done {
    let sandbox = with(cx, &[(ONE, cx.probes().hang(cx.marker())), (TWO, cx.probes().hang(cx.marker()))]).await?;
    for name in ["contract-none", "", "no name at all"] {
        let error = expect_kind!(sandbox.service(name), NotFound, "service {name:?}");
        let text = error.to_string();
        ensure!(text.contains(ONE) && text.contains(TWO), "it does not say which there are: {text}");
        ensure!(error.hint().is_some(), "no hint: {error:?}");
        ensure!(!error.may_have_applied(), "nothing was sent, and the error says otherwise: {error:?}");
    }
    drop(sandbox.service(ONE)?);
    let alone = cx.sandbox().await?;
    expect_kind!(alone.service(ONE), NotFound, "a service of a sandbox that has none");
    Ok(())
}

pub(super) async fn of_the_whole_sandbox(cx: &Ctx) -> Done {
    const POINTS: [Point; 6] =
        [Point::Shift, Point::Extend, Point::Snapshot, Point::Fork, Point::Network, Point::Detach];
    let sandbox = with(cx, &[(ONE, cx.probes().hang(cx.marker()))]).await?;
    let one = sandbox.service(ONE)?;
    let asked = || POINTS.map(|point| cx.meddling().calls(point));
    let before = asked();
    let refused = |what: &str, capability: Capability, answer: Result<String>| -> Done {
        let Err(error) = answer else { fail!("{what} of a service was not refused") };
        ensure!(error.kind() == ErrorKind::Unsupported, "{what} of a service: {error:?}");
        ensure!(!one.facts().has(capability), "{what} of a service is refused, and its facts have {capability}");
        if sandbox.facts().has(capability) {
            let names = error.hint().is_some_and(|hint| hint.contains(sandbox.id().as_str()));
            ensure!(names, "{what} of a service: the hint does not name the sandbox: {error:?}");
        }
        Ok(())
    };
    refused("a pause", Pause, told(one.pause().await))?;
    refused("a resume", Pause, told(one.resume().await))?;
    refused("a stop", StopStart, told(one.stop().await))?;
    refused("a restart", StopStart, told(one.restart().await))?;
    refused("another lifetime", Extend, told(one.extend(Duration::from_secs(600)).await))?;
    refused("a snapshot", Snapshot, told(one.snapshot(TakeSnapshot::new()).await))?;
    refused("a copy", Fork, told(one.fork(ForkSandbox::new()).await))?;
    refused("another policy", DynamicNetwork, told(one.set_network(NetworkPolicy::Deny).await))?;
    refused("a list of destinations", Learn, told(one.destinations().await))?;
    refused("a port", Ports, told(one.port(8080).await))?;
    refused("a detach", Attach, told(one.detach().await))?;
    refused("a service", Services, told(one.service(ONE)))?;
    expect_eq!(asked(), before, "what the adapter was asked of a service");
    expect_eq!(cx.text(&one, cx.probes().echo("on")).await?, "on", "the service afterwards");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("on")).await?, "on", "the sandbox afterwards");
    Ok(())
}

fn told<T: Debug>(answer: Result<T>) -> Result<String> {
    answer.map(|value| format!("{value:?}"))
}

pub(super) async fn keep_their_sandbox(cx: &Ctx) -> Done {
    let marker = cx.marker();
    let sandbox = with(cx, &[(ONE, cx.probes().hang(&marker))]).await?;
    drop(sandbox.service(ONE)?);
    let one = sandbox.service(ONE)?;
    cx.appears(&one, &marker).await?;
    drop(sandbox);
    // Whatever ends with the sandbox's last handle would have begun by now.
    tokio::time::sleep(cx.secs(1)).await;
    expect_eq!(cx.text(&one, cx.probes().echo("on")).await?, "on", "a service, while only its own handle is held");
    ensure!(cx.alive(&one, &marker).await? > 0, "its main program has ended");
    let mut process = one.start(cx.probes().two_with_pause(500_u32)).await?;
    drop(one);
    expect_eq!(process.wait().await?.as_code(), 0, "a command that holds its service, and so its sandbox");
    drop(process);
    if cx.can_count() {
        cx.settles_at(0, "without any handle").await?;
    }
    if cx.hooks().count_services.is_some() {
        cx.services_settle_at(0, "without any handle").await?;
    }
    Ok(())
}

pub(super) async fn what_cannot_be_right(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let fine = || cx.service(&cx.probes().hang(cx.marker()));
    let long = "a".repeat(64);
    let names = ["", "Upper", "a.b", "a_b", "-a", "a-", "a b", "a/b", "ü", "localhost", &long];
    let mut cases: Vec<(String, Spec)> = Vec::new();
    for name in names {
        cases.push((format!("the name {name:?}"), cx.spec().service(name, fine()?)));
    }
    let image = |image: &str| {
        let mut service = fine()?;
        service.image = image.to_string();
        Ok::<_, Stop>(service)
    };
    for (what, service) in [
        ("an empty image", image("")?),
        ("an image with a blank", image("a b")?),
        ("a variable without a name", fine()?.env("", "x")),
        ("a variable with a `=` in its name", fine()?.env("A=B", "x")),
        ("a variable with a NUL", fine()?.env("A", "x\0")),
        ("a relative working directory", fine()?.cwd("work")),
        ("a working directory with a NUL", fine()?.cwd("/wo\0rk")),
        ("an empty command", fine()?.command(Vec::<String>::new())),
        ("a NUL in the command", fine()?.command(["a", "b\0"])),
    ] {
        cases.push((what.to_string(), cx.spec().service(ONE, service)));
    }
    if cx.has(User) {
        cases.push(("an empty user".into(), cx.spec().service(ONE, fine()?.user(""))));
        cases.push(("a user like an option".into(), cx.spec().service(ONE, fine()?.user("-x"))));
    }
    for (what, spec) in cases {
        let created = cx.within(20, &what, cx.client().create(spec)).await?;
        let error = expect_kind!(created, InvalidArgument, "{what}");
        ensure!(error.hint().is_some(), "{what}: no hint: {error:?}");
        cx.nothing_provisioned(creates, &what)?;
    }
    // The control: the longest name, and all settings.
    let longest = "a".repeat(63);
    let sandbox = cx.sandbox_of(cx.spec().service(&*longest, fine()?.env("A", "x").cwd("/"))).await?;
    sandbox.service(&longest).map(drop).map_err(Stop::from)
}
