//! What no egress means, one way out at a time.

use super::silent;
use crate::{
    Canary, Ctx, Reach,
    expect::{ensure, fail, unproven},
    row::{Done, Stop},
};
use sandbox::{Command, Sandbox};
use sandbox_core::NetworkPolicy;

pub(super) async fn ipv6(cx: &Ctx) -> Done {
    one_way(cx, Reach::Ipv6, |cx, canary| cx.probes().egress(&*canary.host, canary.port)).await
}

pub(super) async fn udp(cx: &Ctx) -> Done {
    one_way(cx, Reach::Udp, |cx, canary| cx.probes().egress_udp(&*canary.host, canary.port)).await
}

pub(super) async fn lookups(cx: &Ctx) -> Done {
    one_way(cx, Reach::Lookup, |cx, canary| cx.probes().lookup(&*canary.host)).await
}

/// The data is in the name that is asked for.
pub(super) async fn a_dns_tunnel(cx: &Ctx) -> Done {
    one_way(cx, Reach::Lookup, |cx, canary| {
        let data: String = cx.marker().bytes().map(|byte| format!("{byte:02x}")).collect();
        let labels: Vec<_> =
            data.as_bytes().chunks(40).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        cx.probes().lookup(format!("{}.{}", labels.join("."), canary.host))
    })
    .await
}

pub(super) async fn metadata(cx: &Ctx) -> Done {
    one_way(cx, Reach::Metadata, |cx, canary| cx.probes().egress(&*canary.host, canary.port)).await
}

pub(super) async fn the_gateway(cx: &Ctx) -> Done {
    one_way(cx, Reach::Gateway, |cx, canary| cx.probes().egress(&*canary.host, canary.port)).await
}

pub(super) async fn a_neighbour(cx: &Ctx) -> Done {
    let open = || cx.sandbox_of(cx.spec().network(NetworkPolicy::Open));
    let (neighbour, friend) = (open().await?, open().await?);
    let (port, word) = (8137_u16, cx.marker());
    let _serving = neighbour.start(cx.probes().listen(port, &*word).timeout(cx.secs(600))).await?;
    let addresses = cx.text(&neighbour, cx.probes().addresses()).await?;
    let Some(address) = addresses.split_whitespace().next().map(str::to_string) else {
        unproven!("a sandbox with an open network has no address of its own: {addresses:?}")
    };
    let reach = || cx.probes().egress(&*address, port).timeout(cx.secs(20));
    let mut said = String::new();
    // It may take a moment until somebody listens.
    for _ in 0..10 {
        let output = cx.run(&friend, reach()).await?;
        said = output.stdout.text().into_owned();
        if said.contains(&word) {
            break;
        }
        cx.sleep(std::time::Duration::from_millis(300)).await;
    }
    if !said.contains(&word) {
        unproven!("the positive control cannot be made here: sandboxes with an open network do not reach each other");
    }
    let closed = cx.sandbox_of(cx.spec().network(NetworkPolicy::Deny)).await?;
    unanswered(cx, &closed, reach(), &word).await?;
    // Nor does anybody reach it.
    let _serving = closed.start(cx.probes().listen(port, &*word).timeout(cx.secs(600))).await?;
    let own = cx.run(&closed, cx.probes().addresses()).await?.stdout.text().into_owned();
    for address in own.split_whitespace() {
        unanswered(cx, &friend, cx.probes().egress(address, port).timeout(cx.secs(20)), &word).await?;
    }
    Ok(())
}

/// Nothing ran before that could have waited for the rules.
pub(super) async fn the_first_process(cx: &Ctx) -> Done {
    let canary = super::canary(cx).await?;
    for _ in 0..3 {
        let sandbox = cx.sandbox_of(cx.spec().network(NetworkPolicy::Deny)).await?;
        let hits = canary.hits();
        unanswered(cx, &sandbox, cx.probes().egress(&*canary.host, canary.port).timeout(cx.secs(20)), &canary.says)
            .await?;
        ensure!(canary.hits() == hits, "the first process of a sandbox reached {}", canary.host);
        silent(cx, &sandbox, &canary, &canary.host).await?;
    }
    Ok(())
}

/// The probe is answered under `Open`, and neither answered nor counted under `Deny`.
async fn one_way(cx: &Ctx, reach: Reach, probe: impl Fn(&Ctx, &Canary) -> Command) -> Done {
    let canary = canary_at(cx, reach).await?;
    let command = || probe(cx, &canary).timeout(cx.secs(20));
    let open = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    let hits = canary.hits();
    let output = cx.run(&open, command()).await?;
    if !output.stdout.text().contains(&canary.says) || canary.hits() == hits {
        unproven!("the positive control cannot be made here: {} gives {output:?}", canary.host);
    }
    let closed = cx.sandbox_of(cx.spec().network(NetworkPolicy::Deny)).await?;
    let hits = canary.hits();
    unanswered(cx, &closed, command(), &canary.says).await?;
    ensure!(canary.hits() == hits, "{} was reached under `Deny`", canary.host);
    // And the control still holds, so it was not the canary that had gone.
    let output = cx.run(&open, command()).await?;
    ensure!(output.stdout.text().contains(&canary.says), "the canary went silent meanwhile: {output:?}");
    Ok(())
}

pub(super) async fn canary_at(cx: &Ctx, reach: Reach) -> Result<Canary, Stop> {
    let Some(canary) = &cx.hooks().canary_at else { unproven!("the behaviour probe `canary_at` is missing") };
    match cx.within(60, "the probe `canary_at`", canary(reach)).await?? {
        Some(canary) => Ok(canary),
        None => unproven!("the probe `canary_at` can give none of the kind {reach:?} here"),
    }
}

async fn unanswered(cx: &Ctx, sandbox: &Sandbox, command: Command, word: &str) -> Done {
    match cx.within(60, "egress", sandbox.run(command)).await? {
        Ok(output) if output.success() || output.stdout.text().contains(word) => {
            fail!("it got through: {output:?}")
        }
        Ok(_) => Ok(()),
        // A probe that is silent until its timeout was not answered either.
        Err(error) if error.kind() == sandbox_core::ErrorKind::ExecutionTimeout => {
            let said = error.output().map(|output| output.stdout.text().into_owned()).unwrap_or_default();
            ensure!(!said.contains(word), "it got through: {error:?}");
            Ok(())
        }
        Err(error) => fail!("the probe could not run: {error:?}"),
    }
}
