//! Rows of the area `info`: what a backend says about itself, before anything is made.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, unproven},
    row::{Done, Row, Stop, row, told},
    rows::refuses,
    subject::Make,
};
use sandbox::Limits;
use sandbox_core::{Capability, ErrorKind, Facts, Honoured, Isolation, IsolationFact, Resource, Support};
use std::time::{Duration, Instant};

pub(crate) static ROWS: &[Row] = &[
    Row::expression("info::making_the_backend_does_no_io", making_the_backend_does_no_io),
    row!("info::is_instant_and_always_the_same", is_instant_and_always_the_same).offline(),
    row!("info::every_absence_and_emulation_has_a_reason", every_absence_and_emulation_has_a_reason).offline(),
    row!("info::what_cannot_be_emulated_is_not", what_cannot_be_emulated_is_not).offline(),
    row!("info::tiers_have_a_source_and_a_date", tiers_have_a_source_and_a_date).offline(),
    row!("info::capabilities_that_build_on_others_have_them", capabilities_that_build_on_others_have_them).offline(),
    row!("info::probe_provisions_nothing_and_only_narrows", probe_provisions_nothing_and_only_narrows),
    row!("info::a_probe_that_widens_is_internal", a_probe_that_widens_is_internal).facade(),
    row!("info::what_a_probe_takes_away_is_refused", what_a_probe_takes_away_is_refused).facade(),
    row!("info::a_sandbox_has_the_narrowed_facts_and_keeps_them", a_sandbox_has_the_narrowed_facts_and_keeps_them),
];

/// An engine or a key may be missing; then it says so, at once.
fn making_the_backend_does_no_io(make: &Make) -> Done {
    let begun = Instant::now();
    let made = make();
    let took = begun.elapsed();
    ensure!(took < INSTANT, "making the backend took {took:?}");
    match made {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::BackendMissing | ErrorKind::Auth) => {
            ensure!(error.hint().is_some(), "the error has no hint: {error:?}");
            Ok(())
        }
        Err(error) => Err(Stop::fail(told(&error))),
    }
}

async fn is_instant_and_always_the_same(cx: &Ctx) -> Done {
    let subject = cx.subject()?;
    let begun = Instant::now();
    let all = [subject.info()?, subject.info()?, subject.info()?];
    let took = begun.elapsed();
    ensure!(took < INSTANT, "three times `info` took {took:?}");
    ensure!(all.iter().all(|facts| facts == &all[0]), "`info` changes: {all:?}");
    ensure!(!all[0].name().trim().is_empty(), "the backend has no name");
    expect_eq!(cx.client().facts(), &all[0], "the facts of a client");
    Ok(())
}

async fn every_absence_and_emulation_has_a_reason(cx: &Ctx) -> Done {
    for capability in Capability::ALL {
        match cx.client().facts().support(*capability) {
            Support::Absent(why) => ensure!(!why.trim().is_empty(), "{capability} is absent without a reason"),
            Support::Emulated(how) => {
                ensure!(!how.trim().is_empty(), "{capability} is emulated, but it is not said how")
            }
            _ => {}
        }
    }
    Ok(())
}

async fn what_cannot_be_emulated_is_not(cx: &Ctx) -> Done {
    use Capability::*;
    for capability in [
        Deny,
        AllowHost,
        AllowWildcard,
        AllowIpv4,
        AllowIpv6,
        AllowCidr,
        AllowPort,
        DynamicNetwork,
        Learn,
        Pids,
        OomStatus,
    ] {
        let support = cx.client().facts().support(capability);
        ensure!(!matches!(support, Support::Emulated(_)), "{capability} cannot be emulated honestly: {support:?}");
    }
    Ok(())
}

async fn tiers_have_a_source_and_a_date(cx: &Ctx) -> Done {
    let facts = cx.client().facts();
    let Some(fact) = facts.isolation_fact() else {
        expect_eq!(facts.tier(), Isolation::Unknown, "the tier of a backend that states none");
        return Ok(());
    };
    ensure!(!fact.source.trim().is_empty(), "the tier {} has no source", fact.tier);
    let parts: Vec<_> = fact.date.split('-').map(|part| (part.len(), part.parse::<u32>().is_ok())).collect();
    expect_eq!(parts, [(4, true), (2, true), (2, true)], "the shape of the date {:?}, as 2026-11-30", fact.date);
    Ok(())
}

async fn capabilities_that_build_on_others_have_them(cx: &Ctx) -> Done {
    use Capability::*;
    let facts = cx.client().facts();
    for (capability, base) in [
        (Argv, Run),
        (Stream, Run),
        (StreamExact, Stream),
        (StdinWhole, Run),
        (Stdin, StdinWhole),
        (SignalStatus, Run),
        (KillOne, Run),
        (ProcessTree, KillOne),
        (Deadline, Run),
        (Signals, Term),
        (Background, Run),
        (Extend, Lifetime),
        (SnapshotList, Snapshot),
        (FileStream, Files),
        (FileMeta, Files),
        (AtomicWrite, Files),
        (AllowHost, Deny),
        (AllowIpv4, Deny),
        (AllowCidr, Deny),
    ] {
        ensure!(
            !facts.has(capability) || facts.has(base),
            "{capability} is declared without {base}, which it builds on"
        );
    }
    Ok(())
}

async fn probe_provisions_nothing_and_only_narrows(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let probed = cx.within(30, "probe", cx.client().probe(&cx.spec())).await??;
    expect_eq!(probed.beyond(cx.client().facts()), Vec::<String>::new(), "what the probe claims beyond `info`");
    expect_eq!(&probed, cx.facts(), "a second probe");
    cx.nothing_provisioned(creates, "probe")?;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes of this row after a probe");
    }
    Ok(())
}

/// Every capability that can be asked for, also those that no backend at hand lacks.
async fn what_a_probe_takes_away_is_refused(cx: &Ctx) -> Done {
    // These are asked of the backend itself, which `info` alone speaks for.
    let of_the_backend = [Capability::List, Capability::Attach, Capability::SnapshotList];
    for capability in Capability::ALL.iter().filter(|one| cx.has(**one) && !of_the_backend.contains(one)) {
        let other = cx.without(*capability).await?;
        Box::pin(refuses::check(&other, *capability)).await.map_err(|stop| stop.during(capability.code()))?;
        cx.within(60, "the end of its client", other.client().close()).await??;
    }
    Ok(())
}

async fn a_probe_that_widens_is_internal(cx: &Ctx) -> Done {
    let mut all = Facts::new(cx.facts().name().to_string())
        .native(Capability::ALL.iter().copied())
        .isolation(IsolationFact::new(Isolation::MicroVm, "the contract suite", "2026-11-30"));
    for resource in Resource::ALL {
        all = all.resource(*resource, Honoured::limit(1).request());
    }
    let beyond = all.beyond(cx.client().facts());
    let Some(first) = beyond.first() else { unproven!("the backend can do everything, so nothing is wider") };
    let world = cx.limited(Limits::new())?;
    world.meddling().answer_probe(all.clone());
    let error =
        expect_kind!(world.client().probe(&world.spec()).await, Internal, "a probe that claims more than `info`");
    ensure!(error.to_string().contains(first.as_str()), "the error does not name {first}: {error:?}");
    expect_kind!(world.client().create(world.spec()).await, Internal, "a create after such a probe");
    world.nothing_provisioned(0, "a create after a probe that widens")?;
    world.end().await
}

async fn a_sandbox_has_the_narrowed_facts_and_keeps_them(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let facts = sandbox.facts().clone();
    expect_eq!(facts.beyond(cx.facts()), Vec::<String>::new(), "what the sandbox claims beyond what was probed");
    expect_eq!(facts.name(), cx.facts().name(), "the name of the backend");
    if facts.has(Capability::Run) {
        ensure!(cx.run(&sandbox, cx.probes().succeed()).await?.success(), "the probe `succeed` does not");
    }
    expect_eq!(sandbox.facts(), &facts, "the facts after a command");
    sandbox.close().await?;
    expect_eq!(sandbox.facts(), &facts, "the facts after the end");
    Ok(())
}

/// Without I/O; wide, because the machine may be busy.
const INSTANT: Duration = Duration::from_secs(2);
