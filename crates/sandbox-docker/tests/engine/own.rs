//! Other people's containers and networks, whatever they are called.

use crate::lab::{IMAGE, Lab, Ran, collect, foreign, out, remove_foreign, sh};
use bollard::{
    models::{ContainerConfig, NetworkCreateRequest},
    query_parameters::{CommitContainerOptionsBuilder, RemoveImageOptionsBuilder, RenameContainerOptionsBuilder},
};
use sandbox_core::{Backend, ErrorKind, Instance, NetworkPolicy, Query, SandboxId, Stat};
use std::time::{Duration, Instant};

pub(crate) async fn networks_with_such_a_name_stay(lab: Lab) {
    let name = format!("sandbox-notyours-{}", lab.run);
    let request = NetworkCreateRequest { name: name.clone(), internal: Some(true), ..NetworkCreateRequest::default() };
    let network = lab.docker.create_network(request).await.unwrap().id;
    let destroyed = lab.plain.destroy(&SandboxId::new(&name)).await;
    let stays = lab.docker.inspect_network(&network, None).await.is_ok();
    let listed = lab.plain.list(&Query::new()).await.unwrap().items;
    drop(lab.docker.remove_network(&network).await);
    assert!(stays, "{destroyed:?}");
    assert!(listed.iter().all(|listed| listed.id.as_str() != name), "{listed:?}");
    // The control: one of ours goes.
    let made = lab.create(lab.spec().network(NetworkPolicy::Open)).await.unwrap();
    assert!(lab.left().await.contains(&format!("network {}", made.id)));
    lab.destroy(made).await;
    assert!(lab.left().await.is_empty());
}

pub(crate) async fn beginnings_of_engine_ids_are_no_ids(lab: Lab) {
    let made = lab.sandbox().await;
    let whole = lab.docker.inspect_container(made.id.as_str(), None).await.unwrap().id.unwrap();
    for length in [12, 63] {
        let part = SandboxId::new(&whole[..length]);
        assert_eq!(lab.plain.attach(&part, &lab.tasks()).await.unwrap_err().kind(), ErrorKind::NotFound);
        lab.plain.destroy(&part).await.unwrap();
        assert_eq!(out(&made.instance, "echo there").await, "there", "{length}");
    }
    // The control: all of it names the container.
    let attached = lab.plain.attach(&SandboxId::new(&whole), &lab.tasks()).await.unwrap();
    assert_eq!(attached.id, made.id);
    lab.plain.destroy(&SandboxId::new(whole)).await.unwrap();
    assert!(lab.left().await.is_empty());
}

pub(crate) async fn a_renamed_container_is_still_the_sandbox(lab: Lab) {
    let made = lab.create(lab.spec().network(NetworkPolicy::Open)).await.unwrap();
    let (_control, mut events) = made.instance.spawn(&sh("echo begun; sleep 3; echo end; exit 7")).await.unwrap();
    let mut ran = Ran::default();
    assert!(collect(&mut ran, &mut events).await.unwrap());
    let other = format!("renamed-{}", lab.run);
    let options = RenameContainerOptionsBuilder::default().name(&other).build();
    lab.docker.rename_container(made.id.as_str(), options).await.unwrap();
    // Somebody else has the name now.
    foreign(&lab, made.id.as_str(), IMAGE, "none").await;
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert_eq!((ran.text().as_str(), ran.code), ("begun\nend\n", Some(7)));
    out(&made.instance, "echo mine > /tmp/mine").await;
    assert_eq!(made.instance.stat_tree(&Stat::new("/tmp/mine")).await.unwrap().size, 5);
    let attached = lab.plain.attach(&made.id, &lab.tasks()).await.unwrap();
    assert_eq!(out(&attached.instance, "cat /tmp/mine").await, "mine");
    let destroyed = lab.plain.destroy(&made.id).await;
    let spared = lab.docker.inspect_container(made.id.as_str(), None).await.is_ok();
    remove_foreign(&lab, made.id.as_str()).await;
    destroyed.unwrap();
    assert!(spared, "other people's container was taken for the sandbox");
    assert!(lab.left().await.is_empty(), "{:?}", lab.left().await);
    assert_eq!(made.instance.gone().await.kind(), ErrorKind::Gone);
}

pub(crate) async fn labels_that_an_image_hands_on_prove_nothing(lab: Lab) {
    let made = lab.sandbox().await;
    let (repository, other) = (format!("engine-test-{}", lab.run), format!("from-image-{}", lab.run));
    let options =
        CommitContainerOptionsBuilder::default().container(made.id.as_str()).repo(&repository).tag("1").build();
    lab.docker.commit_container(options, ContainerConfig::default()).await.unwrap();
    let image = format!("{repository}:1");
    foreign(&lab, &other, &image, "none").await;
    let labels = lab.docker.inspect_container(&other, None).await.unwrap().config.unwrap().labels.unwrap();
    let destroyed = lab.plain.destroy(&SandboxId::new(&other)).await;
    let attached = lab.plain.attach(&SandboxId::new(&other), &lab.tasks()).await;
    let listed = lab.plain.list(&Query::new().label("engine-test.run", &lab.run)).await.unwrap().items;
    lab.plain.destroy(&made.id).await.unwrap();
    // The sandbox is gone now, and only the other container has its marker.
    lab.plain.destroy(&made.id).await.unwrap();
    let spared = lab.docker.inspect_container(&other, None).await.is_ok();
    remove_foreign(&lab, &other).await;
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    lab.docker.remove_image(&image, Some(options), None).await.unwrap();
    assert!(labels.contains_key(sandbox_core::labels::MARKER), "the control: it has our label");
    assert_eq!(destroyed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&made.id]);
    assert!(spared);
}

pub(crate) async fn whoever_holds_the_network_is_named(lab: Lab) {
    let made = lab.create(lab.spec().network(NetworkPolicy::Open)).await.unwrap();
    let guest = format!("guest-{}", lab.run);
    foreign(&lab, &guest, IMAGE, made.id.as_str()).await;
    let began = Instant::now();
    let destroyed = lab.plain.destroy(&made.id).await;
    let took = began.elapsed();
    let there = lab.docker.inspect_container(&guest, None).await.is_ok();
    let left = lab.left().await;
    remove_foreign(&lab, &guest).await;
    let error = destroyed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TeardownFailed);
    assert!(error.message().contains(&guest) && error.message().contains(made.id.as_str()), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("docker network disconnect")), "{error:?}");
    assert!(took < Duration::from_secs(25), "{took:?}");
    assert!(there, "the guest is not ours");
    assert_eq!(left, [format!("network {}", made.id)]);
    lab.plain.destroy(&made.id).await.unwrap();
    assert!(lab.left().await.is_empty());
}
