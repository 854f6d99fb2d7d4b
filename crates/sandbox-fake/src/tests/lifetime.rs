use super::*;
use sandbox_core::{Control, ErrorKind, ForkSandbox, Query, Reattach};
use std::collections::BTreeSet;

#[test]
fn it_ends_at_its_lifetime() {
    Lab::run(Fake::new(), |lab| async move {
        let made = lab.create(Spec::new().lifetime(Duration::from_secs(60))).await.unwrap();
        let sandbox = made.instance;
        let (_control, mut events) = start(&sandbox, &within("hang", 50_000)).await;
        lab.fake.clock().unwrap().sleep(Duration::from_secs(59)).await;
        assert_eq!(lab.fake.world().count(), 1);
        lab.fake.clock().unwrap().sleep(Duration::from_secs(2)).await;
        assert_eq!(sandbox.gone().await.kind(), ErrorKind::Gone);
        assert_eq!(refused(&sandbox, &exec("true")).await.kind(), ErrorKind::Gone);
        let end = loop {
            match events.next().await {
                Ok(Some(Event::Ended(_))) => {}
                other => break other,
            }
        };
        assert!(end.is_err_and(|error| error.kind() == ErrorKind::Gone));
        assert_eq!(lab.fake.attach(&made.id, &lab.tasks).await.unwrap_err().kind(), ErrorKind::Gone);
        lab.fake.destroy(&made.id).await.unwrap();
    });
}

#[test]
fn it_ends_with_its_owner_unless_detached() {
    Lab::run(Fake::new(), |lab| async move {
        drop(lab.create(Spec::new()).await.unwrap());
        assert_eq!(lab.fake.world().count(), 0);
        let made = lab.create(Spec::new()).await.unwrap();
        run(&made.instance, &exec("daemon hang")).await;
        made.instance.detach().await.unwrap();
        drop(made.instance);
        assert_eq!(lab.fake.world().count(), 1);
        let again = lab.fake.attach(&made.id, &lab.tasks).await.unwrap();
        assert_eq!(run(&again.instance, &exec("echo x")).await.text(), "x\n");
        drop(again);
        assert_eq!(lab.fake.world().processes(&made.id).len(), 1);
        let world = lab.fake.world();
        lab.fake.destroy(&made.id).await.unwrap();
        lab.fake.destroy(&made.id).await.unwrap();
        assert_eq!(world.count(), 0);
    });
}

#[test]
fn a_world_ends_with_its_last_handle() {
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let fake = Fake::new().program("hold", move |p| {
        let held = Arc::clone(&held);
        async move {
            p.hang().await;
            i32::from(Arc::strong_count(&held) > 0)
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let lab = Lab::of(&runtime, fake);
    runtime.block_on(async {
        let made = lab.create(Spec::new()).await.unwrap();
        let (_control, _events) = start(&made.instance, &exec("hold")).await;
        made.instance.detach().await.unwrap();
    });
    drop(lab);
    drop(runtime);
    assert_eq!(Arc::strong_count(&dropped), 1, "a detached sandbox outlives its world");
}

#[test]
fn another_engine_goes_on_where_one_left() {
    let fake = Fake::new();
    let engine = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let first = engine();
    let lab = Lab::of(&first, fake.clone());
    let id = first.block_on(async {
        let made = lab.create(Spec::new()).await.unwrap();
        run(&made.instance, &exec("daemon sleep 100")).await;
        made.instance.detach().await.unwrap();
        made.id
    });
    drop(lab);
    drop(first);
    assert_eq!(fake.world().processes(&id).len(), 1);
    let second = engine();
    let lab = Lab::of(&second, fake.clone());
    second.block_on(async {
        let again = fake.attach(&id, &lab.tasks).await.unwrap();
        run(&again.instance, &exec("sleep 200")).await;
        assert_eq!(fake.world().processes(&id), []);
    });
}

#[test]
fn unknown_ids_are_not_found() {
    Lab::run(Fake::new(), |lab| async move {
        for id in ["fake-1", "fake-0", "fake-01", "fake-", "x", ""] {
            let error = lab.fake.attach(&SandboxId::new(id), &lab.tasks).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{id}");
            lab.fake.destroy(&SandboxId::new(id)).await.unwrap();
        }
        assert_eq!(lab.fake.world().count(), 0);
        let made = lab.create(Spec::new()).await.unwrap();
        let attempt = || Attempt::new("copy", Arc::default(), lab.tasks.clone());
        for id in ["fake-2", "fake-0", "fake-01", "fake-+1", "fake-", "x"] {
            let error = lab.fake.fork(&SandboxId::new(id), &ForkSandbox::new(), &attempt()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{id}");
            assert!(!lab.fake.world().expire(&SandboxId::new(id)), "{id}");
        }
        drop(lab.fake.fork(&made.id, &ForkSandbox::new(), &attempt()).await.unwrap());
        lab.fake.destroy(&made.id).await.unwrap();
        let error = lab.fake.fork(&made.id, &ForkSandbox::new(), &attempt()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone);
    });
}

#[test]
fn lists_page_and_filter() {
    Lab::run(Fake::new(), |lab| async move {
        let mut all = Vec::new();
        for number in 0..250 {
            let even = (number % 2 == 0).to_string();
            all.push(lab.create(Spec::new().label("even", even).label("all", "yes")).await.unwrap());
        }
        for (query, count) in [
            (Query::new(), 250),
            (Query::new().label("even", "true"), 125),
            (Query::new().label("even", "true").label("all", "yes"), 125),
            (Query::new().label("even", "maybe"), 0),
        ] {
            let (mut query, mut found) = (query, BTreeSet::new());
            loop {
                let page = lab.fake.list(&query).await.unwrap();
                assert!(page.items.len() <= 100);
                found.extend(page.items.into_iter().map(|item| item.id));
                match page.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(found.len(), count);
        }
        let gone = all.pop().unwrap();
        lab.fake.destroy(&gone.id).await.unwrap();
        let mut behind = Query::new();
        behind.cursor = Some(u64::MAX.to_string());
        assert!(lab.fake.list(&behind).await.unwrap().items.is_empty());
        let listed = lab.fake.list(&Query::new().label("even", "false")).await.unwrap();
        assert!(listed.items.iter().all(|item| item.id != gone.id));
    });
}

#[test]
fn the_commands_that_ended_last_are_remembered() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let (first, mut events) = start(&sandbox, &exec("hang")).await;
        let mut early = None;
        for _ in 0..1100 {
            let (control, mut events) = start(&sandbox, &exec("true")).await;
            All::of(&mut events).await;
            early = early.or_else(|| control.id());
        }
        first.kill().await.unwrap();
        All::of(&mut events).await;
        let first = Reattach::new(first.id().unwrap());
        let (_control, mut again) = sandbox.reattach(&first).await.expect("what ended last is forgotten");
        assert_eq!(All::of(&mut again).await.status(), Status::Signal(9));
        let error = sandbox.reattach(&Reattach::new(early.unwrap())).await.err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::NotFound));
    });
}

/// What this process has in memory, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_thousand_sandboxes_with_a_command_each_are_small() {
    Lab::run(Fake::new(), |lab| async move {
        let (before, mut all) = (resident(), Vec::new());
        for _ in 0..1000 {
            let made = lab.create(Spec::new()).await.unwrap();
            run(&made.instance, &exec("touch /tmp/own")).await;
            let command = start(&made.instance, &exec("hang")).await;
            all.push((made, command));
        }
        let taken = resident().saturating_sub(before);
        assert!(taken < 200 << 20, "{} MiB", taken >> 20);
        let busy = |all: &[(Made<FakeSandbox>, _)]| {
            all.iter().filter(|(made, _)| lab.fake.world().processes(&made.id).len() == 1).count()
        };
        assert_eq!(busy(&all), 1000);
        let ids: Vec<_> = all.iter().map(|(made, _)| made.id.clone()).collect();
        drop(all);
        assert!(lab.fake.world().count() == 0 && ids.iter().all(|id| lab.fake.world().processes(id).is_empty()));
    });
}
