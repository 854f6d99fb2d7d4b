//! Images that the engine makes of sandboxes, and which of them are ours.

use crate::lab::{Lab, out};
use bollard::{
    models::ContainerConfig,
    query_parameters::{CommitContainerOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder},
};
use sandbox_core::{Backend, ErrorKind, Instance, Query, SnapshotId, TakeSnapshot, labels};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

const RUN: &str = "engine-test.run";

fn request(lab: &Lab) -> TakeSnapshot {
    TakeSnapshot::new().label(RUN, &lab.run).label(labels::MARKER, format!("snapshot-{}", lab.run))
}

async fn listed(lab: &Lab, query: Query) -> Vec<(SnapshotId, BTreeMap<String, String>)> {
    let page = lab.plain.list_snapshots(&query.label(RUN, &lab.run)).await.unwrap();
    page.items.into_iter().map(|one| (one.id, one.labels)).collect()
}

/// As the engine's own client makes an image of a container.
async fn committed_by_hand(lab: &Lab, container: &str) -> SnapshotId {
    let options = CommitContainerOptionsBuilder::default().container(container).build();
    let labels = Some([(RUN.to_string(), lab.run.clone())].into());
    let config = ContainerConfig { labels, ..ContainerConfig::default() };
    SnapshotId::new(lab.docker.commit_container(options, config).await.unwrap().id)
}

pub(crate) async fn only_what_was_made_as_one_is_one(lab: Lab) {
    let source = lab.create(lab.spec().label("of-the-sandbox", "1").label("of-both", "sandbox")).await.unwrap();
    let taken = request(&lab).label("of-both", "snapshot").label("empty", "");
    let expected = (taken.labels.clone(), source.instance.snapshot(&taken).await.unwrap());
    assert_eq!(listed(&lab, Query::new()).await, [(expected.1.clone(), expected.0.clone())], "its own labels alone");
    assert_eq!(listed(&lab, Query::new().label("of-both", "snapshot")).await.len(), 1);
    assert_eq!(listed(&lab, Query::new().label("of-the-sandbox", "1")).await, []);
    let mut spec = lab.spec().snapshot(expected.1.clone()).label("of-the-copy", "1");
    spec.image = None;
    let copy = lab.create(spec).await.unwrap();
    let found = lab.plain.list(&Query::new().label("of-the-copy", "1").label(RUN, &lab.run)).await.unwrap().items;
    let names: Vec<_> = found[0].labels.keys().map(String::as_str).collect();
    assert_eq!((found.len(), names), (1, vec![RUN, "of-the-copy", labels::MARKER]), "its own labels alone");
    for (what, made) in [("a sandbox", &source), ("a copy", &copy)] {
        let by_hand = committed_by_hand(&lab, made.id.as_str()).await;
        assert_eq!(listed(&lab, Query::new()).await.len(), 1, "an image of {what} is listed");
        let mut spec = lab.spec().snapshot(by_hand.clone());
        spec.image = None;
        assert_eq!(lab.create(spec).await.unwrap_err().kind(), ErrorKind::NotFound, "a create from an image of {what}");
        lab.plain.delete_snapshot(&by_hand).await.unwrap();
        lab.docker.inspect_image(by_hand.as_str()).await.expect("an image of other people's is left alone");
    }
    lab.destroy(copy).await;
    lab.destroy(source).await;
    remove_all(&lab).await;
    assert_eq!(listed(&lab, Query::new()).await, []);
}

pub(crate) async fn one_of_a_copy_is_apart_from_that_of_the_source(lab: Lab) {
    let source = lab.sandbox().await;
    let first = source.instance.snapshot(&request(&lab)).await.unwrap();
    let mut spec = lab.spec().snapshot(first.clone());
    spec.image = None;
    let copy = lab.create(spec).await.unwrap();
    let second = copy.instance.snapshot(&request(&lab)).await.unwrap();
    let ids = async || listed(&lab, Query::new()).await.into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>();
    assert_eq!(ids().await, BTreeSet::from([first.clone(), second.clone()]));
    lab.destroy(copy).await;
    let refused = lab.plain.delete_snapshot(&first).await.unwrap_err();
    assert_eq!((refused.kind(), ids().await.len()), (ErrorKind::WrongState, 2), "{refused:?}");
    lab.plain.delete_snapshot(&second).await.unwrap();
    assert_eq!(ids().await, BTreeSet::from([first.clone()]), "nobody asked for the end of the other");
    lab.plain.delete_snapshot(&first).await.unwrap();
    assert_eq!(ids().await, BTreeSet::new());
    lab.destroy(source).await;
}

pub(crate) async fn one_that_is_given_up_disturbs_nothing_and_goes(lab: Lab) {
    let made = lab.sandbox().await;
    out(&made.instance, "dd if=/dev/urandom of=/file bs=1M count=96 2>/dev/null").await;
    // The control: it takes a while.
    let begun = Instant::now();
    let whole = made.instance.snapshot(&request(&lab)).await.unwrap();
    assert!(begun.elapsed() > Duration::from_millis(100), "{:?}", begun.elapsed());
    lab.plain.delete_snapshot(&whole).await.unwrap();
    for millis in [1, 30, 100] {
        let taken = request(&lab);
        let left = tokio::time::timeout(Duration::from_millis(millis), made.instance.snapshot(&taken)).await;
        assert!(left.is_err(), "it was not given up: {left:?}");
        assert_eq!(out(&made.instance, "echo lives").await, "lives");
        made.instance.pause(&sandbox_core::Pause::new()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let state = lab.docker.inspect_container(made.id.as_str(), None).await.unwrap().state.unwrap();
        assert_eq!(state.paused, Some(true), "a pause after it holds");
        made.instance.resume(&sandbox_core::Resume::new()).await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while !listed(&lab, Query::new()).await.is_empty() {
        assert!(Instant::now() < deadline, "left: {:?}", listed(&lab, Query::new()).await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(out(&made.instance, "echo lives").await, "lives");
    lab.destroy(made).await;
}

/// Images of a test, whoever made them.
pub(crate) async fn remove_all(lab: &Lab) {
    let filters = HashMap::from([("label".to_string(), vec![format!("{RUN}={}", lab.run)])]);
    let options = ListImagesOptionsBuilder::default().all(true).filters(&filters).build();
    for image in lab.docker.list_images(Some(options)).await.unwrap() {
        let options = RemoveImageOptionsBuilder::default().force(true).build();
        // One that others were made from goes with the last of them.
        drop(lab.docker.remove_image(&image.id, Some(options), None).await);
    }
}
