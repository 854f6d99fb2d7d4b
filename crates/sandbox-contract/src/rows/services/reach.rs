//! Who reaches a service, and what a service reaches.

use super::{ONE, TWO};
use crate::{
    Ctx,
    expect::fail,
    row::{Done, Stop},
    rows::network,
};
use sandbox::Sandbox;
use sandbox_core::{ErrorKind, NetworkPolicy};
use std::time::Duration;
use tokio::time::Instant;

const PORT: u16 = 8139;

pub(super) async fn by_name(cx: &Ctx) -> Done {
    let (word, other) = (cx.marker(), cx.marker());
    let serving = |word: &str| cx.service(&cx.probes().listen(PORT, word));
    let idle = || cx.service(&cx.probes().hang(cx.marker()));
    let of = |policy| cx.spec().network(policy);
    let spec = of(NetworkPolicy::Deny).service(ONE, serving(&word)?).service(TWO, idle()?);
    let closed = cx.sandbox_of(spec).await?;
    answers(cx, &closed, ONE, &word).await.map_err(|stop| stop.during("from its sandbox, under `Deny`"))?;
    answers(cx, &closed.service(TWO)?, ONE, &word).await.map_err(|stop| stop.during("from another service"))?;
    // A neighbour has services of its own, and may reach everything else.
    let neighbour = cx.sandbox_of(of(NetworkPolicy::Open).service(TWO, serving(&other)?)).await?;
    answers(cx, &neighbour, TWO, &other).await.map_err(|stop| stop.during("the service of a neighbour"))?;
    silent(cx, &neighbour, ONE, &word).await.map_err(|stop| stop.during("from a neighbour"))?;
    silent(cx, &neighbour.service(TWO)?, ONE, &word).await.map_err(|stop| stop.during("from a neighbour's service"))?;
    let addresses = cx.run(&closed.service(ONE)?, cx.probes().addresses()).await?.stdout.text().into_owned();
    for address in addresses.split_whitespace() {
        silent(cx, &neighbour, address, &word).await.map_err(|stop| stop.during("from a neighbour, by its address"))?;
    }
    // A name is each sandbox's own.
    let same = cx.sandbox_of(of(NetworkPolicy::Deny).service(ONE, serving(&other)?)).await?;
    answers(cx, &same, ONE, &other).await.map_err(|stop| stop.during("a service of the same name"))?;
    answers(cx, &closed, ONE, &word).await.map_err(|stop| stop.during("from its sandbox, once more"))
}

pub(super) async fn under_the_policy(cx: &Ctx) -> Done {
    let canary = network::canary(cx).await?;
    let of =
        |policy| Ok::<_, Stop>(cx.spec().network(policy).service(ONE, cx.service(&cx.probes().hang(cx.marker()))?));
    let open = cx.sandbox_of(of(NetworkPolicy::Open)?).await?;
    network::answers(cx, &open.service(ONE)?, &canary, &canary.host)
        .await
        .map_err(|stop| stop.during("from a service, under `Open`"))?;
    let closed = cx.sandbox_of(of(NetworkPolicy::Deny)?).await?;
    network::silent(cx, &closed.service(ONE)?, &canary, &canary.host)
        .await
        .map_err(|stop| stop.during("from a service, under `Deny`"))
}

/// It may take a moment until somebody listens.
async fn answers(cx: &Ctx, sandbox: &Sandbox, host: &str, word: &str) -> Done {
    let until = Instant::now() + cx.secs(30);
    loop {
        let output = cx.run(sandbox, cx.probes().egress(host, PORT).timeout(cx.secs(20))).await?;
        if output.stdout.text().contains(word) {
            return Ok(());
        }
        if Instant::now() > until {
            fail!("{host} does not answer: {output:?}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// That the probe works is seen elsewhere in the row.
async fn silent(cx: &Ctx, sandbox: &Sandbox, host: &str, word: &str) -> Done {
    let egress = cx.probes().egress(host, PORT).timeout(cx.secs(20));
    match cx.within(60, "egress", sandbox.run(egress)).await? {
        Ok(output) if output.stdout.text().contains(word) => fail!("{host} was reached: {output:?}"),
        Ok(_) => Ok(()),
        // A probe that is silent until its timeout was not answered either.
        Err(error) if error.kind() == ErrorKind::ExecutionTimeout => {
            let said = error.output().map(|output| output.stdout.text().into_owned()).unwrap_or_default();
            if said.contains(word) { fail!("{host} was reached: {error:?}") } else { Ok(()) }
        }
        Err(error) => fail!("the probe could not run: {error:?}"),
    }
}
