//! Images of sandboxes, and copies.

use super::{all, pause::Ticks};
use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, unproven},
    meddle::{Fault, Point},
    row::{Done, Stop},
};
use sandbox::{ForkSandbox, Query};
use sandbox_core::{Capability, labels};
use std::{cell::Cell, time::Duration};

const FILE: &str = "contract-snapshot";

pub(super) async fn is_what_was(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_A", "kept").env("CONTRACT_B", "old")).await?;
    cx.text(&sandbox, cx.probes().write_file(FILE, "before")).await?;
    let snapshot = cx.snapshot(&sandbox).await?;
    cx.text(&sandbox, cx.probes().write_file(FILE, "after")).await?;
    let copy = cx.sandbox_of(cx.spec_from(&snapshot).env("CONTRACT_B", "new")).await?;
    ensure!(copy.id() != sandbox.id(), "it is the same sandbox");
    expect_eq!(copy.cwd(), sandbox.cwd(), "the working directory");
    expect_eq!(cx.text(&copy, cx.probes().read_file(FILE)).await?, "before", "a file of the snapshot");
    expect_eq!(cx.text(&copy, cx.probes().env("CONTRACT_A")).await?, "kept", "a variable of the snapshot");
    expect_eq!(cx.text(&copy, cx.probes().env("CONTRACT_B")).await?, "new", "a variable of the spec wins");
    cx.text(&copy, cx.probes().write_file(FILE, "copy")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(FILE)).await?, "after", "the file of the source, which goes on");
    let third = cx.sandbox_of(cx.spec_from(&snapshot)).await?;
    expect_eq!(cx.text(&third, cx.probes().read_file(FILE)).await?, "before", "the snapshot, after a copy has changed");
    drop((copy, third));
    if cx.can_count() {
        cx.settles_at(1, "without the copies").await?;
    }
    cx.client().delete_snapshot(&snapshot).await?;
    Ok(())
}

pub(super) async fn outlives_its_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().write_file(FILE, "kept")).await?;
    let snapshot = cx.snapshot(&sandbox).await?;
    sandbox.close().await?;
    let copy = cx.sandbox_of(cx.spec_from(&snapshot)).await?;
    expect_eq!(cx.text(&copy, cx.probes().read_file(FILE)).await?, "kept", "a file, after the source has ended");
    copy.close().await?;
    cx.client().delete_snapshot(&snapshot).await?;
    Ok(())
}

pub(super) async fn disturbs_no_command(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    // So much that an image of it is not made at once.
    if cx.has(Capability::Files) {
        sandbox.files().write("contract-much", crate::rows::files::pattern(MUCH, 7)).await?;
    }
    let mut ticks = Ticks::start(cx, &sandbox, 600).await?;
    let first = cx.within(30, "a tick, the control", ticks.next()).await??;
    let (over, beside) = (Cell::new(false), Cell::new(0));
    let snapshots = async {
        // Where one is made at once, it takes some more until a command has run beside them.
        for made in 1..=MOST_SNAPSHOTS {
            let snapshot = cx.snapshot(&sandbox).await?;
            cx.client().delete_snapshot(&snapshot).await?;
            if made >= SNAPSHOTS && beside.get() > 0 {
                break;
            }
        }
        over.set(true);
        Ok::<_, Stop>(())
    };
    // One after another in each of these, until the last snapshot is there.
    let works = (0..3).map(|lane| {
        let (sandbox, over, beside) = (&sandbox, &over, &beside);
        Box::pin(async move {
            for n in 0.. {
                if over.get() {
                    break;
                }
                let (word, path) = (format!("{lane} {n}"), format!("{FILE}-{lane}"));
                expect_eq!(cx.text(sandbox, cx.probes().echo(&word)).await?, word, "echo beside a snapshot");
                if cx.has(Capability::Files) {
                    cx.within(60, "a write beside a snapshot", sandbox.files().write(&path, word.clone())).await??;
                    let read = cx.within(60, "a read beside a snapshot", sandbox.files().read_text(&path)).await??;
                    expect_eq!(read, word, "a file beside a snapshot");
                }
                beside.set(beside.get() + usize::from(!over.get()));
            }
            Ok::<_, Stop>(())
        })
    });
    // The program counts in memory: it goes on where it was, and nothing that it writes is lost.
    let heard = async {
        let mut last = first;
        let mut afterwards = 3;
        while afterwards > 0 {
            let tick = cx.within(60, "a tick beside a snapshot", ticks.next()).await??;
            expect_eq!(tick, last + 1, "the tick after tick {last}");
            last = tick;
            afterwards -= usize::from(over.get());
        }
        Ok::<_, Stop>(())
    };
    let works = all(works.collect());
    let works = async { works.await.into_iter().collect::<Result<(), _>>() };
    tokio::try_join!(snapshots, works, heard)?;
    ensure!(beside.get() > 0, "no command ran while {MOST_SNAPSHOTS} snapshots were taken");
    Ok(())
}

const SNAPSHOTS: usize = 3;
const MOST_SNAPSHOTS: usize = 1000;
/// In bytes.
const MUCH: usize = 24 << 20;

pub(super) async fn unknown(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let snapshot = cx.snapshot(&sandbox).await?;
    cx.sandbox_of(cx.spec_from(&snapshot)).await?.close().await?;
    cx.client().delete_snapshot(&snapshot).await?;
    cx.within(30, "delete again", cx.client().delete_snapshot(&snapshot)).await??;
    let created = cx.within(90, "create", cx.client().create(cx.spec_from(&snapshot))).await?;
    let error = expect_kind!(created, NotFound, "a create from a snapshot that was deleted");
    ensure!(error.to_string().contains(snapshot.as_str()), "it does not name the snapshot: {error:?}");
    if cx.can_count() {
        cx.settles_at(1, "after a create that was refused").await?;
    }
    let creates = cx.creates();
    let both = cx.spec_from(&snapshot).image("contract-image");
    expect_kind!(cx.client().create(both).await, InvalidArgument, "an image and a snapshot");
    expect_kind!(cx.client().create(cx.spec_from(&"../x".into())).await, InvalidArgument, "what is no snapshot's id");
    expect_kind!(cx.client().delete_snapshot("a b").await, InvalidArgument, "delete of what is no id");
    cx.nothing_provisioned(creates, "what can never be right")
}

pub(super) async fn are_listed(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let one = sandbox.snapshot(cx.taken().label("contract.one", "1")).await?;
    let two = cx.snapshot(&sandbox).await?;
    let mut both = vec![one.clone(), two.clone()];
    let mut listed = cx.snapshots().await?;
    both.sort();
    listed.sort();
    expect_eq!(listed, both, "the list of both");
    let query = cx.labels().iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let found = cx.client().snapshots(query.label("contract.one", "1")).await?;
    expect_eq!(found.iter().map(|found| found.id.clone()).collect::<Vec<_>>(), vec![one.clone()], "by its label");
    ensure!(found[0].labels.contains_key(labels::MARKER), "the marker is missing: {found:?}");
    cx.client().delete_snapshot(&one).await?;
    expect_eq!(cx.snapshots().await?, vec![two.clone()], "the list right after the end of one");
    cx.client().delete_snapshot(&two).await?;
    Ok(())
}

pub(super) async fn nobody_waits(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.meddling().set(Point::Snapshot, Fault::Delay(Duration::from_millis(300)));
    let made = tokio::time::timeout(Duration::from_millis(100), sandbox.snapshot(cx.taken())).await;
    ensure!(made.is_err(), "the snapshot was there before anybody could leave: {made:?}");
    cx.meddling().clear();
    let until = tokio::time::Instant::now() + cx.secs(30);
    while cx.meddling().calls(Point::Snapshot) < 2 || !cx.snapshots().await?.is_empty() {
        ensure!(tokio::time::Instant::now() < until, "left of one that nobody waited for: {:?}", cx.snapshots().await?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    expect_eq!(cx.client().orphans().len(), 0, "orphan reports: {:?}", cx.client().orphans());
    Ok(())
}

pub(super) async fn a_fork_is_apart(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_A", "kept")).await?;
    cx.text(&sandbox, cx.probes().write_file(FILE, "before")).await?;
    let copy = cx.within(120, "fork", sandbox.fork(fork(cx))).await??;
    ensure!(copy.id() != sandbox.id(), "it is the same sandbox");
    expect_eq!(copy.cwd(), sandbox.cwd(), "the working directory");
    expect_eq!(copy.facts(), sandbox.facts(), "the facts");
    expect_eq!(cx.text(&copy, cx.probes().read_file(FILE)).await?, "before", "a file of the source");
    expect_eq!(cx.text(&copy, cx.probes().env("CONTRACT_A")).await?, "kept", "a variable of the source");
    cx.text(&copy, cx.probes().write_file(FILE, "copy")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(FILE)).await?, "before", "the source's file");
    cx.text(&sandbox, cx.probes().write_file(FILE, "source")).await?;
    expect_eq!(cx.text(&copy, cx.probes().read_file(FILE)).await?, "copy", "the copy's file");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 2, "sandboxes");
    }
    sandbox.close().await?;
    expect_eq!(cx.text(&copy, cx.probes().echo("lives")).await?, "lives", "echo in the copy after the source's end");
    copy.close().await?;
    expect_kind!(sandbox.fork(fork(cx)).await, Gone, "a copy of what has ended");
    Ok(())
}

pub(super) async fn own_lifetime(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let copy = sandbox.fork(fork(cx).lifetime(cx.secs(8))).await?;
    expect_eq!(cx.text(&copy, cx.probes().echo("lives")).await?, "lives", "echo in the copy");
    cx.sleep(Duration::from_secs(14)).await;
    let run = cx.within(30, "run in the copy", copy.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a copy after its lifetime");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo in the source");
    expect_kind!(sandbox.fork(fork(cx).lifetime(Duration::ZERO)).await, InvalidArgument, "a copy that never lives");
    Ok(())
}

pub(super) async fn forks_nobody_waits_for(cx: &Ctx) -> Done {
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    let sandbox = cx.sandbox().await?;
    cx.meddling().set(Point::Fork, Fault::Delay(Duration::from_millis(300)));
    for _ in 0..3 {
        let made = tokio::time::timeout(Duration::from_millis(100), sandbox.fork(fork(cx))).await;
        ensure!(made.is_err(), "the copy was there before anybody could leave: {made:?}");
    }
    tokio::time::sleep(cx.secs(1)).await;
    expect_eq!(cx.meddling().calls(Point::Fork), 3, "copies that were asked for");
    cx.settles_at(1, "after copies that nobody waited for").await
}

/// With the labels of this trial.
fn fork(cx: &Ctx) -> ForkSandbox {
    let labels = if cx.has(Capability::Labels) { cx.labels().clone() } else { crate::Labels::default() };
    labels.into_iter().fold(ForkSandbox::new(), |fork, (name, value)| fork.label(name, value))
}
