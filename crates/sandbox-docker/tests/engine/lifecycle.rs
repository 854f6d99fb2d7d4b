use crate::lab::{IMAGE, Lab, out, plain, run, sh};
use bollard::{
    models::{ContainerCreateBody, HostConfig},
    query_parameters::{CreateContainerOptionsBuilder, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder},
};
use sandbox_core::{
    Backend, Capability, ErrorKind, Instance, Isolation, NetworkPolicy, Query, Resource, Resources, SandboxId, labels,
};
use sandbox_docker::{Docker, Pull};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) async fn create_run_list_destroy(lab: Lab) {
    let spec = lab.spec().label("mine", "yes").env("GREETING", "hello there");
    let made = lab.create(spec).await.unwrap();
    assert_eq!(out(&made.instance, "echo $GREETING").await, "hello there");
    let mine = Query::new().label("mine", "yes").label("engine-test.run", &lab.run);
    let listed = lab.plain.list(&mine).await.unwrap().items;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].id, made.id);
    assert_eq!(listed[0].labels.get("mine").map(String::as_str), Some("yes"));
    assert!(listed[0].labels.contains_key(labels::MARKER) && listed[0].created.is_some());
    assert!(lab.plain.list(&mine.clone().label("mine", "no")).await.unwrap().items.is_empty());
    lab.plain.destroy(&made.id).await.unwrap();
    assert!(lab.plain.list(&mine).await.unwrap().items.is_empty());
    lab.plain.destroy(&made.id).await.unwrap();
    let attached = lab.plain.attach(&made.id, &lab.tasks()).await;
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::NotFound);
    let after = run(&made.instance, &sh("true")).await.unwrap_err();
    assert_eq!(after.kind(), ErrorKind::Gone, "{after:?}");
}

pub(crate) async fn a_repeated_create_leaves_one(lab: Lab) {
    let (attempt, spec) = lab.attempt(lab.spec().network(NetworkPolicy::Open));
    let first = lab.plain.create(&spec, &attempt).await.unwrap();
    assert_eq!(lab.left().await.len(), 2, "a container and its network");
    // The answer was lost, as far as the engine of the library knows.
    assert!(attempt.repeat());
    let second = lab.plain.create(&spec, &attempt).await.unwrap();
    assert_eq!(first.id, second.id);
    assert_eq!(lab.left().await.len(), 2, "a container and its network, once");
    assert_eq!(out(&second.instance, "echo second").await, "second");
    lab.destroy(second).await;
    assert!(lab.left().await.is_empty());
}

pub(crate) async fn facts_are_offline_and_probed(lab: Lab) {
    let nowhere = Docker::plain().host("unix:///nowhere.sock");
    let began = Instant::now();
    let facts = nowhere.info();
    assert!(began.elapsed() < Duration::from_secs(1));
    for capability in Capability::ALL {
        let why = format!("{:?}", facts.support(*capability));
        assert!(!why.contains("unknown to this adapter"), "{capability}: {why}");
    }
    assert_eq!(facts.tier(), Isolation::Container);
    let probed = lab.plain.probe(&lab.spec()).await.unwrap().unwrap();
    assert_eq!(probed.beyond(&facts), Vec::<String>::new());
    assert!(probed.honours(Resource::Cpu).max.is_some_and(|most| most >= 1000));
    assert!(lab.left().await.is_empty());
}

pub(crate) async fn working_directories(lab: Lab) {
    let made = lab.sandbox().await;
    assert_eq!(made.cwd.as_deref(), Some("/work"));
    assert_eq!(out(&made.instance, "pwd").await, "/work");
    let attached = plain().attach(&made.id, &lab.tasks()).await.unwrap();
    assert_eq!(attached.cwd.as_deref(), Some("/work"));
    assert_eq!(out(&attached.instance, "pwd").await, "/work");
    lab.destroy(made).await;

    let made = lab.create(lab.spec().cwd("/var/tmp")).await.unwrap();
    assert_eq!(made.cwd.as_deref(), Some("/var/tmp"));
    assert_eq!(out(&made.instance, "pwd").await, "/var/tmp");
    let attached = plain().attach(&made.id, &lab.tasks()).await.unwrap();
    assert_eq!(attached.cwd.as_deref(), Some("/var/tmp"));
    lab.destroy(made).await;

    assert_eq!(lab.refused(lab.spec().cwd("/etc/passwd")).await.kind(), ErrorKind::NotADirectory);
}

pub(crate) async fn ids_that_are_no_ids(lab: Lab) {
    for id in ["../../info?x=", "", "..", "a/b", "x?force=1", "%2e%2e", "no such\nthing"] {
        let id = SandboxId::new(id);
        assert_eq!(lab.plain.attach(&id, &lab.tasks()).await.unwrap_err().kind(), ErrorKind::NotFound, "{id}");
        lab.plain.destroy(&id).await.unwrap();
    }
    let images = ["../../info?x=", "a b", "?fromSrc=x"];
    for image in images {
        assert_eq!(lab.refused(lab.spec().image(image)).await.kind(), ErrorKind::InvalidArgument, "{image}");
    }
}

pub(crate) async fn foreign_containers_are_left_alone(lab: Lab) {
    let name = format!("foreign-{}", lab.run);
    let body = ContainerCreateBody {
        image: Some(IMAGE.into()),
        cmd: Some(vec!["sleep".into(), "120".into()]),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            auto_remove: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    lab.docker.create_container(Some(options), body).await.unwrap();
    let (attached, destroyed) =
        (lab.plain.attach(&SandboxId::new(&name), &lab.tasks()).await, lab.plain.destroy(&SandboxId::new(&name)).await);
    let listed = lab.plain.list(&Query::new()).await.unwrap().items;
    let still_there = lab.docker.inspect_container(&name, None).await.is_ok();
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    lab.docker.remove_container(&name, Some(options)).await.unwrap();
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::NotFound);
    let error = destroyed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint().is_some_and(|hint| hint.contains(&name)));
    assert!(still_there && listed.iter().all(|listed| listed.id.as_str() != name));
}

pub(crate) async fn attach_tells_gone_from_unknown(lab: Lab) {
    let name = format!("sandbox-ended-{}", lab.run);
    let labels = HashMap::from([
        (labels::MARKER.to_string(), "ended".to_string()),
        ("engine-test.run".to_string(), lab.run.clone()),
    ]);
    let body = ContainerCreateBody {
        image: Some(IMAGE.into()),
        cmd: Some(vec!["true".into()]),
        labels: Some(labels),
        host_config: Some(HostConfig { network_mode: Some("none".into()), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    lab.docker.create_container(Some(options), body).await.unwrap();
    lab.docker.start_container(&name, None).await.unwrap();
    let id = SandboxId::new(&name);
    let deadline = Instant::now() + Duration::from_secs(20);
    let kind = loop {
        match lab.plain.attach(&id, &lab.tasks()).await {
            Err(error) => break error.kind(),
            Ok(_) => assert!(Instant::now() < deadline, "it never ended"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(kind, ErrorKind::Gone);
    lab.plain.destroy(&id).await.unwrap();
    assert_eq!(lab.plain.attach(&id, &lab.tasks()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(crate) async fn cut_creates_leave_nothing(lab: Lab) {
    let mut finished = 0;
    for round in 0..24u64 {
        let spec = if round % 2 == 0 { lab.spec() } else { lab.spec().network(NetworkPolicy::Open) };
        let (attempt, spec) = lab.attempt(spec);
        let claims = Arc::new(std::sync::Mutex::new(Vec::new()));
        let cut = Duration::from_millis(round * 15);
        finished += u32::from(tokio::time::timeout(cut, lab.plain.create(&spec, &attempt)).await.is_ok());
        let ends = Arc::clone(&claims);
        attempt.settle(&[], move |claim| ends.lock().unwrap().push(claim));
        let claims = claims.lock().unwrap().clone();
        // As the engine does: what was only expected is destroyed until it stays quiet.
        for claim in claims {
            for _ in 0..if claim.expected { 8 } else { 1 } {
                lab.plain.destroy(&claim.id).await.unwrap();
                if claim.expected {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    let left = lab.left().await;
    assert!(left.is_empty(), "{left:?}");
    assert!(finished < 24, "nothing was cut");
    // The control: an uncut one is there.
    let made = lab.create(lab.spec().network(NetworkPolicy::Open)).await.unwrap();
    assert_eq!(lab.left().await.len(), 2);
    lab.destroy(made).await;
}

pub(crate) async fn lifetime_ends_it(lab: Lab) {
    let spec = lab.spec().lifetime(Duration::from_millis(2500)).network(NetworkPolicy::Open);
    let made = lab.create(spec).await.unwrap();
    assert_eq!(out(&made.instance, "echo here").await, "here");
    let gone =
        tokio::time::timeout(Duration::from_secs(60), made.instance.gone()).await.expect("it must end by itself");
    assert_eq!(gone.kind(), ErrorKind::Gone);
    assert!(gone.message().contains("lifetime"), "{gone}");
    // The engine removes the container alone; what is left is found by label, and goes with the id.
    let deadline = Instant::now() + Duration::from_secs(30);
    while lab.left().await.iter().any(|name| !name.starts_with("network ")) {
        assert!(Instant::now() < deadline, "the container stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let query = Query::new().label("engine-test.run", &lab.run);
    let listed = lab.plain.list(&query).await.unwrap().items;
    assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&made.id]);
    lab.plain.destroy(&made.id).await.unwrap();
    assert!(lab.plain.list(&query).await.unwrap().items.is_empty());
}

pub(crate) async fn a_killed_container_is_gone(lab: Lab) {
    let made = lab.sandbox().await;
    let early = tokio::time::timeout(Duration::from_secs(1), made.instance.gone()).await;
    assert!(early.is_err(), "it lives");
    let options = KillContainerOptionsBuilder::default().signal("KILL").build();
    lab.docker.kill_container(made.id.as_str(), Some(options)).await.unwrap();
    let gone = tokio::time::timeout(Duration::from_secs(30), made.instance.gone()).await.expect("it was killed");
    assert_eq!(gone.kind(), ErrorKind::Gone);
    let after = run(&made.instance, &sh("true")).await.unwrap_err();
    assert_eq!(after.kind(), ErrorKind::Gone, "{after:?}");
    lab.destroy(made).await;
}

pub(crate) async fn images_that_cannot_be_used(lab: Lab) {
    let bare = lab.refused(lab.spec().image("sandbox-test/scratch:1")).await;
    assert_eq!(bare.kind(), ErrorKind::Unsupported, "{bare:?}");
    assert!(bare.hint().is_some_and(|hint| hint.contains("busybox")), "{bare:?}");
    let missing = lab.refused(lab.spec().image("sandbox-test/never-made:1")).await;
    assert_eq!(missing.kind(), ErrorKind::ImageNotFound, "{missing:?}");
    assert!(!missing.may_have_applied() && missing.hint().is_some());
    // A registry of this host that is not there, so that nothing depends on the world outside.
    let reports = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&reports);
    let pulling = Docker::plain().pull(Pull::Missing).on_pull(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let far = lab.refused_on(&pulling, lab.spec().image("127.0.0.1:9/nobody/nothing:1")).await;
    assert_eq!(far.kind(), ErrorKind::RegistryUnreachable, "{far:?}");
    assert!(far.hint().is_some());
    let user = lab.refused(lab.spec().user("nosuchuser")).await;
    assert_eq!(user.kind(), ErrorKind::InvalidArgument, "{user:?}");
    assert!(user.message().contains("nosuchuser"));
    let default = plain().default_image(IMAGE);
    let mut spec = lab.spec();
    spec.image = None;
    assert_eq!(lab.refused(spec.clone()).await.kind(), ErrorKind::InvalidArgument);
    let made = lab.create_on(&default, spec).await.unwrap();
    lab.destroy(made).await;
}

pub(crate) async fn users_and_caps(lab: Lab) {
    let resources = Resources::new().memory(64 << 20).cpu_millis(500).pids(77);
    let made = lab.create(lab.spec().user("app").resources(resources)).await.unwrap();
    assert_eq!(out(&made.instance, "id -u").await, "1000");
    let mut exec = sh("id -u; id -g");
    exec.user = Some("0".into());
    assert_eq!(run(&made.instance, &exec).await.unwrap().text(), "0\n0\n");
    let found = lab.docker.inspect_container(made.id.as_str(), None).await.unwrap().host_config.unwrap();
    assert_eq!((found.memory, found.memory_swap), (Some(64 << 20), Some(64 << 20)));
    assert_eq!((found.nano_cpus, found.pids_limit), (Some(500_000_000), Some(77)));
    assert_eq!(found.auto_remove, Some(true));
    exec.argv[2] = "grep -E 'NoNewPrivs|CapBnd' /proc/self/status".into();
    let status = run(&made.instance, &exec).await.unwrap().text();
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, KILL 5, SETGID 6, SETUID 7.
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("CapBnd:\t00000000000000eb"), "{status}");
    assert!(std::env::vars().count() > 0);
    let inside = out(&made.instance, "env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    for name in inside.split_whitespace() {
        assert!(["HOME", "HOSTNAME", "PATH", "PWD", "SHLVL", "OLDPWD", "USER", "TERM"].contains(&name), "{inside}");
    }
    lab.destroy(made).await;

    let made = lab.sandbox().await;
    let found = lab.docker.inspect_container(made.id.as_str(), None).await.unwrap().host_config.unwrap();
    let facts = lab.plain.info();
    assert_eq!(found.memory, facts.honours(Resource::Memory).default.map(|bytes| bytes as i64));
    assert_eq!(found.nano_cpus, facts.honours(Resource::Cpu).default.map(|millis| millis as i64 * 1_000_000));
    assert_eq!(found.pids_limit, facts.pids_by_default().map(i64::from));
    lab.destroy(made).await;
}

pub(crate) async fn first_process_cannot_be_stopped(lab: Lab) {
    // Each counts in its own way.
    for image in [IMAGE, "sandbox-test/python:1"] {
        if lab.docker.inspect_image(image).await.is_ok() {
            first_process_of(&lab, image).await;
        }
    }
}

async fn first_process_of(lab: &Lab, image: &str) {
    let made = lab.create(lab.spec().image(image).lifetime(Duration::from_secs(15))).await.unwrap();
    // A victim of each kind shows that the signals are sent.
    let script = "sleep 100 & a=$!; kill -STOP 1; kill -TERM 1; kill -KILL 1; kill -STOP $a; sleep 1; grep State /proc/$a/status /proc/1/status; kill -KILL -1";
    let said = run(&made.instance, &sh(script)).await.unwrap().text();
    assert!(said.lines().next().is_some_and(|line| line.ends_with("T (stopped)")), "{said}");
    assert!(said.lines().nth(1).is_some_and(|line| line.contains("S (sleeping)")), "{said}");
    // Orphans are collected.
    out(&made.instance, "for i in 1 2 3 4 5; do (sleep 0.1 &) ; done; sleep 1").await;
    let zombies = out(&made.instance, "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l").await;
    assert_eq!(zombies, "0");
    let gone = tokio::time::timeout(Duration::from_secs(60), made.instance.gone())
        .await
        .expect("its lifetime ends all the same");
    assert!(gone.message().contains("lifetime"), "{gone}");
    lab.destroy(made).await;
}

pub(crate) async fn no_engine_and_no_runtime(lab: Lab) {
    let nowhere = Docker::plain().host("unix:///nowhere.sock");
    let error = nowhere.probe(&lab.spec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BackendMissing, "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("start")));
    let closed = Docker::plain().host("tcp://127.0.0.1:9");
    let error = lab.refused_on(&closed, lab.spec()).await;
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::BackendMissing, false), "{error:?}");
    let unread = Docker::plain().host("nonsense");
    assert_eq!(unread.probe(&lab.spec()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let context = Docker::plain().context("no-such-context");
    assert_eq!(context.probe(&lab.spec()).await.unwrap_err().kind(), ErrorKind::BackendMissing);
    let runtime = plain().runtime("nosuchruntime");
    let error = runtime.probe(&lab.spec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint().is_some_and(|hint| hint.contains("runc")), "{error:?}");
    assert_eq!(lab.refused_on(&runtime, lab.spec()).await.kind(), ErrorKind::Unsupported);
    let runc = plain().runtime("runc");
    let made = lab.create_on(&runc, lab.spec()).await.unwrap();
    lab.destroy(made).await;
}
