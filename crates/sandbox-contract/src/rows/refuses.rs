//! The refuses twins: what is asked of a backend without a capability, which has to say `unsupported`, at once, with the reason
//! that its facts give, and may provision nothing for it.

use crate::{
    Ctx,
    ctx::absence,
    expect::{ensure, fail},
    meddle::Point,
    row::Done,
};
use bytes::Bytes;
use sandbox::{
    Command, Definition, ForkSandbox, NetworkPolicy, PtySize, Query, Sandbox, Service, SetMeta, Signal, Spec,
    TakeSnapshot, WatchDir,
};
use sandbox_core::{Capability, Error, ErrorKind, Resources, Result};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// Capabilities that no operation and no option asks for, so nothing can be refused, and why.
pub(crate) const NOT_ASKED_FOR: &[(Capability, &str)] = &[
    (Capability::Argv, "every command has arguments; without it they pass through quoting, which the facts say"),
    (Capability::Stream, "without it the same events come, only late"),
    (Capability::StreamExact, "a promise about the bytes of every command"),
    (Capability::SignalStatus, "a promise about the status of every command"),
    (Capability::ProcessTree, "a promise about every kill; what cannot be killed alone ends with its sandbox"),
    (Capability::Deadline, "without it the engine keeps the deadline from outside"),
    (Capability::OomStatus, "a promise about how a death is told"),
    (Capability::Background, "a promise about what commands leave behind"),
    (Capability::AtomicWrite, "a promise about every write"),
    (Capability::FileStream, "a promise about memory; every transfer is a stream of pieces to its user"),
    (Capability::Lifetime, "every sandbox has a lifetime; without it the client keeps it as far as it lives"),
    (Capability::OwnerLease, "a promise about what follows an owner's death"),
    (Capability::Separate, "a promise about what is seen inside"),
    (Capability::IdempotentCreate, "a promise about a create whose answer was lost; without it the loss is told"),
];

/// Sees to it that what needs this capability is refused.
pub(crate) async fn check(cx: &Ctx, capability: Capability) -> Done {
    use Capability::*;
    if NOT_ASKED_FOR.iter().any(|(one, _)| *one == capability) {
        return Ok(());
    }
    let create = |spec: Spec| async { cx.client().create(spec).await.map(|sandbox| format!("{sandbox:?}")) };
    let allow = |rule: &str| -> Result<Spec> { Ok(cx.spec().network(NetworkPolicy::Allow(vec![rule.parse()?]))) };
    let creates = cx.creates();
    match capability {
        Deny => {
            let mut silent = cx.spec();
            silent.network = None;
            refused(cx, capability, "a create that says nothing of the network", create(silent)).await?;
            refused(cx, capability, "a create that denies", create(cx.spec().network(NetworkPolicy::Deny))).await?;
        }
        Learn => {
            refused(cx, capability, "a create that learns", create(cx.spec().network(NetworkPolicy::Learn))).await?;
        }
        AllowHost => refused(cx, capability, "a host rule", create(allow("example.com")?)).await?,
        AllowWildcard => refused(cx, capability, "a wildcard rule", create(allow("*.example.com")?)).await?,
        AllowIpv4 => refused(cx, capability, "an IPv4 rule", create(allow("192.0.2.7")?)).await?,
        AllowIpv6 => refused(cx, capability, "an IPv6 rule", create(allow("2001:db8::7")?)).await?,
        AllowCidr => refused(cx, capability, "a network rule", create(allow("192.0.2.0/24")?)).await?,
        AllowPort => refused(cx, capability, "a rule with a port", create(allow("192.0.2.7:443")?)).await?,
        Pids => {
            let resources = Resources::new().pids(100);
            refused(cx, capability, "a cap on processes", create(cx.spec().resources(resources))).await?;
        }
        Labels => {
            refused(cx, capability, "a label", create(cx.spec().label("contract.refuses", "x"))).await?;
        }
        SecretStore => {
            let secret = cx.spec().secret("CONTRACT_REFUSES", "contract-secret");
            refused(cx, capability, "a secret", create(secret)).await?;
        }
        Build => {
            let definition = || Definition::new("FROM contract-refuses\n");
            let mut spec = cx.spec().build(definition());
            spec.image = None;
            refused(cx, capability, "a create from a definition", create(spec)).await?;
            refused(cx, capability, "a build", cx.client().build(definition())).await?;
            ensure!(cx.meddling().calls(Point::Build) == 0, "{capability}: the adapter was asked all the same");
        }
        List => refused(cx, capability, "a list", cx.client().list(Query::new())).await?,
        SnapshotList => {
            let asked = cx.meddling().calls(Point::List);
            refused(cx, capability, "a list of snapshots", cx.client().snapshots(Query::new())).await?;
            ensure!(cx.meddling().calls(Point::List) == asked, "{capability}: the adapter was asked all the same");
        }
        Attach => {
            let attach = async { cx.client().attach("contract-unknown").await };
            refused(cx, capability, "an attach", attach).await?;
        }
        Pause | Ports | Snapshot | Fork | DynamicNetwork | StopStart | Extend | Run | StdinWhole | Stdin | KillOne
        | Services | Term | Signals | Pty | Reattach | User | Files | Tree | FileMeta | Watch => {
            Box::pin(inside(cx, capability)).await?;
            return Ok(());
        }
        other => fail!("the suite does not know how to ask for {other}; add it to the refuses rows"),
    }
    ensure!(cx.creates() == creates, "{capability}: the adapter was asked to create {} times", cx.creates() - creates);
    Ok(())
}

/// What is asked of a sandbox that is there.
async fn inside(cx: &Ctx, capability: Capability) -> Done {
    use Capability::*;
    let sandbox = cx.sandbox().await?;
    let (spawns, files) = (cx.meddling().calls(Point::Spawn), cx.meddling().calls(Point::Files));
    let echo = || cx.probes().echo("refuses");
    match capability {
        Run => refused(cx, capability, "a command", sandbox.run(echo())).await?,
        StdinWhole => refused(cx, capability, "input", sandbox.run(cx.probes().cat().input("x"))).await?,
        Stdin => refused(cx, capability, "a pipe", sandbox.start(cx.probes().cat().pipe())).await?,
        Pty => {
            let command = || cx.probes().hang(cx.marker()).pty(PtySize::default());
            refused(cx, capability, "a terminal", sandbox.start(command())).await?;
            refused(cx, capability, "a run on a terminal", sandbox.run(command())).await?;
        }
        User => refused(cx, capability, "a user", sandbox.run(echo().user("0"))).await?,
        Files => {
            refused(cx, capability, "a read", sandbox.files().read("contract-refuses")).await?;
            refused(cx, capability, "a write", sandbox.files().write("contract-refuses", Bytes::new())).await?;
            refused(cx, capability, "a list", sandbox.files().list(".")).await?;
        }
        Tree => {
            let host = std::env::temp_dir();
            refused(cx, capability, "a download", sandbox.files().download_dir(".", host.join("contract-refuses")))
                .await?;
        }
        Watch => refused(cx, capability, "a watch", sandbox.files().watch(WatchDir::new("."))).await?,
        FileMeta => {
            let change = SetMeta::new("contract-refuses").mode(Some(0o600));
            refused(cx, capability, "a change of mode", sandbox.files().set_meta(change)).await?;
        }
        Pause => {
            let shifts = cx.meddling().calls(Point::Shift);
            refused(cx, capability, "a pause", sandbox.pause()).await?;
            refused(cx, capability, "a resume", sandbox.resume()).await?;
            ensure!(cx.meddling().calls(Point::Shift) == shifts, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        StopStart => {
            let shifts = cx.meddling().calls(Point::Shift);
            refused(cx, capability, "a stop", sandbox.stop()).await?;
            refused(cx, capability, "a restart", sandbox.restart()).await?;
            ensure!(cx.meddling().calls(Point::Shift) == shifts, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        Extend => {
            let asked = cx.meddling().calls(Point::Extend);
            refused(cx, capability, "another lifetime", sandbox.extend(Duration::from_secs(600))).await?;
            ensure!(cx.meddling().calls(Point::Extend) == asked, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        Snapshot => {
            let asked = (cx.meddling().calls(Point::Snapshot), cx.creates());
            refused(cx, capability, "a snapshot", sandbox.snapshot(TakeSnapshot::new())).await?;
            let mut spec = cx.spec().snapshot("contract-refuses");
            spec.image = None;
            let create = async { cx.client().create(spec).await.map(|sandbox| format!("{sandbox:?}")) };
            refused(cx, capability, "a create from a snapshot", create).await?;
            let now = (cx.meddling().calls(Point::Snapshot), cx.creates());
            ensure!(now == asked, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        Services => {
            let creates = cx.creates();
            let spec = cx.spec().service("contract-refuses", Service::new("contract-image"));
            let create = async { cx.client().create(spec).await.map(|sandbox| format!("{sandbox:?}")) };
            refused(cx, capability, "a create with a service", create).await?;
            ensure!(cx.creates() == creates, "{capability}: the adapter was asked all the same");
            refused(cx, capability, "a service", async { sandbox.service("contract-refuses") }).await?;
            return untouched(cx, &sandbox).await;
        }
        Fork => {
            let asked = cx.meddling().calls(Point::Fork);
            refused(cx, capability, "a copy", sandbox.fork(ForkSandbox::new())).await?;
            ensure!(cx.meddling().calls(Point::Fork) == asked, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        Ports => {
            let asked = cx.meddling().calls(Point::Network);
            refused(cx, capability, "a port", sandbox.port(8080)).await?;
            ensure!(cx.meddling().calls(Point::Network) == asked, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        DynamicNetwork => {
            let asked = cx.meddling().calls(Point::Network);
            for policy in [NetworkPolicy::Open, NetworkPolicy::Deny] {
                refused(cx, capability, "another policy", sandbox.set_network(policy)).await?;
            }
            ensure!(cx.meddling().calls(Point::Network) == asked, "{capability}: the adapter was asked all the same");
            return untouched(cx, &sandbox).await;
        }
        Term => {
            refused(cx, capability, "a grace", sandbox.run(echo().grace(Duration::from_secs(1)))).await?;
            running(cx, &sandbox, capability, echo()).await?;
            return Ok(());
        }
        Reattach => {
            let before = cx.meddling().calls(Point::Reattach);
            let asked = sandbox.reattach(sandbox::Reattach::new("contract-refuses"));
            refused(cx, capability, "a reattach", asked).await?;
            ensure!(cx.meddling().calls(Point::Reattach) == before, "{capability}: the adapter was asked all the same");
            let process = sandbox.start(cx.probes().hang(cx.marker())).await?;
            refused(cx, capability, "a detach of a command", process.detach()).await?;
            return Ok(());
        }
        _ => {
            running(cx, &sandbox, capability, echo()).await?;
            return Ok(());
        }
    }
    let calls = (cx.meddling().calls(Point::Spawn), cx.meddling().calls(Point::Files));
    ensure!(calls == (spawns, files), "{capability}: the adapter was asked all the same, to spawn or for files");
    Ok(())
}

/// A refusal harms nothing: the sandbox is as it was.
async fn untouched(cx: &Ctx, sandbox: &Sandbox) -> Done {
    if cx.has(Capability::Run) {
        let output = cx.run(sandbox, cx.probes().echo("refuses")).await?;
        ensure!(output.success(), "the sandbox after a refusal: {output:?}");
    }
    Ok(())
}

/// What is asked of a command that runs.
async fn running(cx: &Ctx, sandbox: &Sandbox, capability: Capability, echo: Command) -> Done {
    let marker = cx.marker();
    let mut process = sandbox.start(cx.probes().hang(marker)).await?;
    let asked = |point| cx.meddling().calls(point);
    let before = (asked(Point::Kill), asked(Point::Signal));
    match capability {
        Capability::KillOne => refused(cx, capability, "a kill", process.kill()).await?,
        Capability::Term => refused(cx, capability, "TERM", process.signal(Signal::Terminate)).await?,
        _ => refused(cx, capability, "INT", process.signal(Signal::Interrupt)).await?,
    }
    ensure!((asked(Point::Kill), asked(Point::Signal)) == before, "{capability}: the adapter was asked all the same");
    // A refusal harms nothing: the sandbox and the command are as they were.
    let output = cx.run(sandbox, echo).await?;
    ensure!(output.success(), "the sandbox after a refusal: {output:?}");
    drop(process);
    Ok(())
}

async fn refused<T: std::fmt::Debug>(
    cx: &Ctx,
    capability: Capability,
    what: &str,
    asked: impl Future<Output = Result<T>>,
) -> Done {
    let begun = Instant::now();
    let answer = cx.within(20, what, asked).await?;
    let error: Error = match answer {
        Err(error) if error.kind() == ErrorKind::Unsupported => error,
        Err(error) => fail!("{what}: expected `unsupported`, got {error:?}"),
        Ok(value) => fail!("{what}: {capability} is absent, and it was not refused: {value:?}"),
    };
    let why = absence(cx.facts(), capability);
    ensure!(
        error.to_string().contains(&why) || error.hint().is_some_and(|hint| hint.contains(&why)),
        "{what}: the error does not say why, which is {why:?}: {error:?}"
    );
    let took = begun.elapsed();
    ensure!(took < cx.secs(5), "{what}: refused after {took:?}, which is not prompt");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_has_a_row() {
        let without: Vec<_> = Capability::ALL
            .iter()
            .filter(|capability| !crate::rows().any(|row| row.capabilities().contains(capability)))
            .collect();
        assert!(without.is_empty(), "no row needs {without:?}");
    }

    #[test]
    fn what_is_not_asked_for_says_why() {
        assert!(NOT_ASKED_FOR.iter().all(|(_, why)| why.len() > 20));
        let mut all: Vec<_> = NOT_ASKED_FOR.iter().map(|(capability, _)| capability).collect();
        all.dedup();
        assert_eq!(all.len(), NOT_ASKED_FOR.len());
    }
}
