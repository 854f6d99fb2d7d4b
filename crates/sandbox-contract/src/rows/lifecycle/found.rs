//! Sandboxes that are found again: by labels, by their id.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox_core::{ErrorKind, Query, labels};
use std::collections::BTreeSet;

pub(super) async fn list_shows_and_hides(cx: &Ctx) -> Done {
    let (one, two) = (cx.sandbox().await?, cx.sandbox().await?);
    let listed: BTreeSet<_> = cx.listed().await?.into_iter().collect();
    expect_eq!(listed, BTreeSet::from([one.id().clone(), two.id().clone()]), "the list while both live");
    one.close().await?;
    expect_eq!(cx.listed().await?, vec![two.id().clone()], "the list right after the end of one");
    Ok(())
}

pub(super) async fn list_filters_by_several_labels(cx: &Ctx) -> Done {
    let of = |a: &str, b: &str| cx.spec().label("contract.a", a).label("contract.b", b);
    let (same, other) = (cx.sandbox_of(of("1", "1")).await?, cx.sandbox_of(of("1", "2")).await?);
    let trial = || cx.labels().iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let ids = async |query: Query| -> Result<BTreeSet<_>, Stop> {
        Ok(cx.client().list(query).await?.into_iter().map(|one| one.id).collect())
    };
    let both = BTreeSet::from([same.id().clone(), other.id().clone()]);
    expect_eq!(ids(trial().label("contract.a", "1")).await?, both, "what has the first label");
    let one = ids(trial().label("contract.a", "1").label("contract.b", "1")).await?;
    expect_eq!(one, BTreeSet::from([same.id().clone()]), "what has both labels");
    let none = ids(trial().label("contract.a", "2").label("contract.b", "1")).await?;
    expect_eq!(none, BTreeSet::new(), "what has one label and not the other");
    Ok(())
}

pub(super) async fn list_gives_all_pages(cx: &Ctx) -> Done {
    let Some(page_size) = &cx.hooks().page_size else { unproven!("the behaviour probe `page_size` is missing") };
    let Some(size) = cx.within(30, "the probe `page_size`", page_size(())).await?? else {
        return Err(Stop::Refused("the provider's list has no pages".into()));
    };
    ensure!((1..=20).contains(&size), "pages of {size}: set the subject up so that few sandboxes fill one");
    let mut sandboxes = Vec::new();
    for _ in 0..=2 * size {
        sandboxes.push(cx.sandbox().await?);
    }
    let calls = cx.meddling().calls(Point::List);
    let listed = cx.listed().await?;
    let pages = cx.meddling().calls(Point::List) - calls;
    ensure!(pages >= 3, "{} sandboxes came on {pages} pages of {size}", sandboxes.len());
    let made: BTreeSet<_> = sandboxes.iter().map(|sandbox| sandbox.id().clone()).collect();
    expect_eq!(listed.len(), made.len(), "how many are listed: {listed:?}");
    expect_eq!(listed.into_iter().collect::<BTreeSet<_>>(), made, "the list of all pages");
    Ok(())
}

pub(super) async fn labels_of_this_library_are_set(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(600)).label("contract.own", "a b.c")).await?;
    let query = cx.labels().iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
    let listed = cx.client().list(query).await?;
    let Some(one) = listed.iter().find(|one| &one.id == sandbox.id()) else { fail!("it is not listed: {listed:?}") };
    expect_eq!(one.labels.get("contract.own").map(String::as_str), Some("a b.c"), "a label of the user's");
    for name in [labels::MARKER, labels::CREATED, labels::EXPIRES] {
        ensure!(one.labels.get(name).is_some_and(|value| !value.is_empty()), "label {name} is missing: {one:?}");
    }
    let time = |name| one.labels.get(name).and_then(|at| at.parse::<u64>().ok());
    let (Some(created), Some(expires)) = (time(labels::CREATED), time(labels::EXPIRES)) else {
        fail!("the times are no numbers: {one:?}")
    };
    expect_eq!(expires - created, cx.secs(600).as_secs(), "the lifetime in the labels, in seconds");
    Ok(())
}

pub(super) async fn labels_are_the_providers_own(cx: &Ctx) -> Done {
    let Some(native) = &cx.hooks().native_labels else { unproven!("the behaviour probe `native_labels` is missing") };
    let sandbox = cx.sandbox_of(cx.spec().label("contract.own", "value")).await?;
    let kept = cx.within(30, "the probe `native_labels`", native(sandbox.id().clone())).await??;
    expect_eq!(kept.get("contract.own").map(String::as_str), Some("value"), "the label at the provider, of {kept:?}");
    ensure!(kept.contains_key(labels::MARKER), "the marker is not at the provider: {kept:?}");
    Ok(())
}

pub(super) async fn attach_runs_commands(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let path = "contract-attach";
    cx.text(&sandbox, cx.probes().write_file(path, "same")).await?;
    let attached = cx.within(30, "attach", cx.client().attach(sandbox.id().as_str())).await??;
    expect_eq!(attached.id(), sandbox.id(), "the id");
    expect_eq!(cx.text(&attached, cx.probes().read_file(path)).await?, "same", "a file by the attached handle");
    expect_eq!(attached.cwd(), sandbox.cwd(), "the working directory");
    Ok(())
}

pub(super) async fn attach_to_an_unknown_id(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let attached = cx.within(30, "attach", cx.client().attach("contract-never-was")).await?;
    expect_kind!(attached, NotFound, "attach to an unknown id");
    expect_kind!(cx.client().attach("a/../b").await, InvalidArgument, "attach to what is no id");
    cx.nothing_provisioned(creates, "attach to an unknown id")?;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes");
    }
    Ok(())
}

pub(super) async fn attach_to_an_ended_id(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let control = cx.client().attach(sandbox.id().as_str()).await;
    drop(control.map_err(|e| Stop::from(e).during("the control: attach while it lives"))?);
    sandbox.close().await?;
    match cx.within(30, "attach", cx.client().attach(sandbox.id().as_str())).await? {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Gone) => Ok(()),
        other => fail!("attach to an ended id: expected `not-found` or `gone`, got {other:?}"),
    }
}

pub(super) async fn a_dropped_attached_handle(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let attached = cx.client().attach(sandbox.id().as_str()).await?;
    cx.text(&attached, cx.probes().echo("x")).await?;
    let destroys = cx.meddling().calls(Point::Destroy);
    drop(attached);
    tokio::time::sleep(cx.secs(2)).await;
    expect_eq!(cx.meddling().calls(Point::Destroy), destroys, "destroys after the drop");
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo after the drop");
    Ok(())
}

pub(super) async fn close_of_an_attached_handle(cx: &Ctx) -> Done {
    let id = cx.sandbox().await?.detach().await?;
    let attached = cx.client().attach(id.as_str()).await?;
    expect_eq!(cx.text(&attached, cx.probes().echo("lives")).await?, "lives", "echo before the close");
    attached.close().await?;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes after the close");
    }
    Ok(())
}

pub(super) async fn detach_leaves_the_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let id = sandbox.detach().await?;
    expect_eq!(&id, sandbox.id(), "the id that detach gives");
    drop(sandbox);
    tokio::time::sleep(cx.secs(2)).await;
    let attached = cx.client().attach(id.as_str()).await.map_err(|e| Stop::from(e).during("attach after detach"))?;
    expect_eq!(cx.text(&attached, cx.probes().echo("lives")).await?, "lives", "echo after detach");
    drop(attached);
    cx.client().destroy(id.as_str()).await?;
    Ok(())
}
