//! Ports inside, reached from outside.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::{Done, Stop},
};
use sandbox::{Endpoint, Sandbox};
use sandbox_core::{Capability::Deny, NetworkPolicy};
use std::{
    io::{self, Read},
    net::{Ipv4Addr, Shutdown, TcpStream, ToSocketAddrs},
    time::Duration,
};
use tokio::time::Instant;

const PORT: u16 = 8137;

pub(super) async fn through_its_address_alone(cx: &Ctx) -> Done {
    let (one, two) = (cx.sandbox().await?, cx.sandbox().await?);
    let (word, other) = (cx.marker(), cx.marker());
    let _one = one.start(cx.probes().listen(PORT, &*word).timeout(cx.secs(600))).await?;
    let _two = two.start(cx.probes().listen(PORT, &*other).timeout(cx.secs(600))).await?;
    let endpoint = one.port(PORT).await?;
    answers(cx, &endpoint, &word).await?;
    expect_eq!(one.port(PORT).await?, endpoint, "the same port once more");
    let beside = two.port(PORT).await?;
    ensure!(
        (&beside.host, beside.port) != (&endpoint.host, endpoint.port),
        "two sandboxes have one address: {beside:?}"
    );
    answers(cx, &beside, &other).await?;
    // Where nobody listens inside, nobody answers outside; the sandbox's own port is not open on this host.
    let silent = one.port(PORT + 1).await?;
    let said = said(&silent).await?;
    ensure!(said.as_ref().map_or(true, |said| said.is_empty()), "a port where nobody listens says {said:?}");
    if endpoint.port != PORT {
        let here = within_a_second(|| fetch((Ipv4Addr::LOCALHOST, PORT))).await?;
        ensure!(!here.is_ok_and(|said| said.contains(&*word)), "the sandbox's own port is open on this host");
    }
    expect_kind!(one.port(0).await, InvalidArgument, "port 0");
    Ok(())
}

pub(super) async fn whatever_the_policy(cx: &Ctx) -> Done {
    let policies =
        if cx.has(Deny) { vec![NetworkPolicy::Deny, NetworkPolicy::Open] } else { vec![NetworkPolicy::Open] };
    for policy in policies {
        let sandbox = cx.sandbox_of(cx.spec().network(policy)).await?;
        let word = cx.marker();
        let _serving = sandbox.start(cx.probes().listen(PORT, &*word).timeout(cx.secs(600))).await?;
        answers(cx, &sandbox.port(PORT).await?, &word).await?;
    }
    Ok(())
}

pub(super) async fn ends_with_its_sandbox(cx: &Ctx) -> Done {
    let sandbox: Sandbox = cx.sandbox().await?;
    let word = cx.marker();
    let serving = sandbox.start(cx.probes().listen(PORT, &*word).timeout(cx.secs(600))).await?;
    let endpoint = sandbox.port(PORT).await?;
    answers(cx, &endpoint, &word).await?;
    sandbox.close().await?;
    drop(serving);
    let said = said(&endpoint).await?;
    ensure!(!said.as_ref().is_ok_and(|said| said.contains(&*word)), "the port answers after the end: {said:?}");
    expect_kind!(sandbox.port(PORT).await, Gone, "a port of a sandbox that has ended");
    Ok(())
}

/// It may take a moment until somebody listens.
async fn answers(cx: &Ctx, endpoint: &Endpoint, word: &str) -> Done {
    let until = Instant::now() + cx.secs(30);
    loop {
        let said = said(endpoint).await?;
        if said.as_ref().is_ok_and(|said| said.contains(word)) {
            return Ok(());
        }
        if Instant::now() > until {
            fail!("{} does not answer: {said:?}", endpoint.url);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn said(endpoint: &Endpoint) -> Result<io::Result<String>, Stop> {
    if !endpoint.url.starts_with("tcp://") {
        unproven!("the endpoint {} does not take any bytes, and the suite speaks nothing else", endpoint.url);
    }
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    within_a_second(move || fetch((&*host, port))).await
}

/// On a thread of its own: the row's may not block.
async fn within_a_second(
    work: impl FnOnce() -> io::Result<String> + Send + 'static,
) -> Result<io::Result<String>, Stop> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let spawned = std::thread::Builder::new().name("contract-port".into()).spawn(move || drop(tell.send(work())));
    spawned.map_err(Stop::fail)?;
    told.await.map_err(|_| Stop::fail("the thread that connects died"))
}

fn fetch(to: impl ToSocketAddrs) -> io::Result<String> {
    let mut all = Vec::new();
    let Some(address) = to.to_socket_addrs()?.next() else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut all)?;
    Ok(String::from_utf8_lossy(&all).into_owned())
}
