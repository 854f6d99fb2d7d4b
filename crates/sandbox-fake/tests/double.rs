//! The fake as a double of its users' tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use sandbox::{Client, Command, ErrorKind, ForkSandbox, Limits, Query, Retry, Sandbox, Spec, TakeSnapshot, WatchDir};
use sandbox_core::{Capability, Isolation, Status};
use sandbox_fake::{Call, Credential, Fake, FakeProvider, Input, On, Operation, Reply, Trouble, World, failure};
use std::time::{Duration, Instant};

async fn open(fake: Fake) -> (World, Client, Sandbox) {
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let sandbox = client.create(Spec::new()).await.unwrap();
    (world, client, sandbox)
}

#[tokio::test]
async fn the_first_rule_that_is_not_used_up_replies() {
    let fake = Fake::new()
        .on_run(On::program("tool").times(2), "first\n")
        .on_run(On::prefix(["tool", "x"]).once(), "second\n")
        .on_run(On::any(), Reply::exit(9));
    let (world, _client, sandbox) = open(fake).await;
    let mut said = Vec::new();
    for argv in [["tool", "x"], ["/opt/tool", "y"], ["tool", "y"], ["tool", "x"], ["tool", "x"]] {
        let output = sandbox.run(Command::new(argv[0]).arg(argv[1])).await.unwrap();
        said.push((output.stdout.text().into_owned(), output.code()));
    }
    let expected = [("first\n", 0), ("first\n", 0), ("", 9), ("second\n", 0), ("", 9)];
    assert_eq!(said, expected.map(|(text, code)| (text.to_string(), code)));
    assert!(world.unmet().is_empty());
    assert_eq!(world.argvs()[1], ["/opt/tool", "y"]);
}

#[tokio::test]
async fn a_reply_is_a_process_like_any_other() {
    let fake = Fake::new()
        .on_run(["dies"], Reply::signal(11).stdout("x"))
        .on_run(["hangs"], Reply::hang().stderr("before\n"))
        .on_run(["reads"], Reply::program(|p| async move { i32::try_from(p.read_to_end().await.len()).unwrap_or(-1) }));
    let (world, _client, sandbox) = open(fake).await;
    assert_eq!(sandbox.run(Command::new("dies")).await.unwrap().status, Status::Signal(11));
    let output = sandbox.run(Command::new("reads").input("seven b")).await.unwrap();
    assert_eq!(output.code(), 7);
    let error = sandbox.run(Command::new("hangs").timeout(Duration::from_secs(1800))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExecutionTimeout);
    assert_eq!(error.output().unwrap().stderr.text(), "before\n");
    let mut process = sandbox.start(Command::new("hangs")).await.unwrap();
    assert_eq!(world.processes(sandbox.id())[0].argv, ["hangs"]);
    process.kill().await.unwrap();
    assert!(world.processes(sandbox.id()).is_empty());
}

#[tokio::test]
async fn an_unexpected_call_says_what_was_and_what_should_have_been() {
    let fake = Fake::new().strict().on_run(On::argv(["git", "push"]).once(), 0).on_run(On::program("make"), 0);
    let (world, _client, sandbox) = open(fake).await;
    let error = sandbox.run(Command::new("true").arg("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedCall);
    for part in
        [r#"["true", "x"]"#, r#"["git", "push"], 1 times (used 0 times)"#, r#"program "make""#, "unexpected-call"]
    {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert!(!error.may_have_applied());
    assert_eq!(world.calls().last().unwrap().error(), Some(ErrorKind::UnexpectedCall));
    // The sandbox is as it was, and what is expected is answered.
    assert!(sandbox.run(Command::new("git").arg("push")).await.unwrap().success());
    assert!(sandbox.run(Command::new("make")).await.unwrap().success());
}

#[tokio::test]
async fn calls_are_kept_in_order_with_what_was_in_effect() {
    let (world, client, sandbox) = open(Fake::new()).await;
    sandbox.files().write("file", "x").await.unwrap();
    assert!(sandbox.files().read("missing").await.is_err());
    let mut process = sandbox.start(Command::new("cat").pipe().env("A", "b")).await.unwrap();
    process.write("piece by ").await.unwrap();
    process.write("piece").await.unwrap();
    process.close_stdin();
    process.wait().await.unwrap();
    let error = sandbox.run(Command::new("no-such-program")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
    let id = sandbox.id().clone();
    drop(client.attach(id.as_str()).await.unwrap());
    sandbox.detach().await.unwrap();
    client.destroy(id.as_str()).await.unwrap();
    let told: Vec<_> = world
        .calls()
        .into_iter()
        .map(|call| match call {
            Call::Create(call) => format!("create {:?} {:?}", call.sandbox.map(|id| id.to_string()), call.spec.network),
            Call::Run(call) => format!("run {:?} {:?} {:?} {:?}", call.argv, call.env.get("A"), call.stdin, call.error),
            Call::File(call) => format!("{} {} {:?}", call.operation, call.path, call.error),
            Call::Attach(call) => format!("attach {}", call.sandbox),
            Call::Detach(call) => format!("detach {}", call.sandbox),
            Call::Destroy(call) => format!("destroy {}", call.sandbox),
            other => panic!("{other:?}"),
        })
        .collect();
    let piped = format!("{:?}", Input::Pipe("piece by piece".into()));
    // The handle that learns from another's destroy that its sandbox is gone may send one too.
    let expected = [
        r#"create Some("fake-1") Some(Deny)"#.to_string(),
        "write_file /file None".into(),
        "read_file /missing Some(PathNotFound)".into(),
        format!(r#"run ["cat"] Some("b") {piped} None"#),
        r#"run ["no-such-program"] None None Some(ProgramNotFound)"#.into(),
        "attach fake-1".into(),
        "detach fake-1".into(),
        "destroy fake-1".into(),
    ];
    assert_eq!(told[..expected.len()], expected);
    client.close().await.unwrap();
    world.forget_calls();
    assert_eq!(world.calls(), []);
}

#[tokio::test]
async fn copies_snapshots_and_lists_are_recorded() {
    let (world, client, sandbox) = open(Fake::new()).await;
    let minute = Duration::from_secs(60);
    let copy = sandbox.fork(ForkSandbox::new().label("copy", "yes").lifetime(minute)).await.unwrap();
    let snapshot = sandbox.snapshot(TakeSnapshot::new().label("team", "blue")).await.unwrap();
    assert_eq!(client.list(Query::new().label("copy", "yes")).await.unwrap().len(), 1);
    assert_eq!(client.snapshots(Query::new().label("team", "blue")).await.unwrap().len(), 1);
    client.delete_snapshot(snapshot.as_str()).await.unwrap();
    let changes = sandbox.files().watch(WatchDir::new("/tmp")).await.unwrap();
    let calls = world.calls();
    let [
        _,
        Call::Fork(fork),
        Call::Snapshot(taken),
        Call::List(list),
        Call::ListSnapshots(kept),
        Call::DeleteSnapshot(gone),
        Call::File(watch),
    ] = &calls[..]
    else {
        panic!("{calls:?}")
    };
    assert_eq!((&fork.source, fork.sandbox.as_ref(), fork.lifetime), (sandbox.id(), Some(copy.id()), minute));
    assert!(fork.labels.iter().eq([(&"copy".to_string(), &"yes".to_string())]), "{:?}", fork.labels);
    assert_eq!((&taken.sandbox, taken.snapshot.as_ref()), (sandbox.id(), Some(&snapshot)));
    assert!(taken.labels.iter().eq([(&"team".to_string(), &"blue".to_string())]), "{:?}", taken.labels);
    assert_eq!((&list.query, &kept.query), (&Query::new().label("copy", "yes"), &Query::new().label("team", "blue")));
    assert_eq!((&gone.snapshot, watch.operation, &*watch.path), (&snapshot, "watch", "/tmp"));
    assert!(calls.iter().all(|call| call.error().is_none()));
    drop((changes, copy, sandbox));
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_fails_at_any_step_leaves_nothing() {
    for step in 1..=Operation::Fork.steps() {
        let (world, client, sandbox) = open(Fake::new()).await;
        world.trouble(Trouble::on(Operation::Fork).step(step).fail(failure::capacity()));
        let error = sandbox.fork(ForkSandbox::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Capacity, "step {step}");
        let calls = world.calls();
        let Call::Fork(fork) = &calls[1] else { panic!("{calls:?}") };
        assert_eq!((fork.sandbox.is_some(), fork.error), (step > 1, Some(ErrorKind::Capacity)), "step {step}");
        assert!(sandbox.run(Command::new("true")).await.unwrap().success(), "step {step}");
        drop(sandbox.fork(ForkSandbox::new()).await.unwrap());
        client.close().await.unwrap();
        assert_eq!(world.count(), 0, "step {step}");
        let copy = fork.sandbox.as_ref();
        let destroyed = |call: &Call| matches!(call, Call::Destroy(call) if Some(&call.sandbox) == copy);
        assert_eq!(world.calls().iter().any(destroyed), step > 1, "step {step}");
    }
}

#[tokio::test]
async fn snapshots_fail_on_demand() {
    let (world, client, sandbox) = open(Fake::new()).await;
    let fails = |on, step| world.trouble(Trouble::on(on).step(step).fail(failure::connection_lost()));
    let lost = |error: sandbox::Error| assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}");
    fails(Operation::Snapshot, 1);
    lost(sandbox.snapshot(TakeSnapshot::new()).await.unwrap_err());
    assert!(world.snapshots().is_empty());
    fails(Operation::Snapshot, 2);
    lost(sandbox.snapshot(TakeSnapshot::new()).await.unwrap_err());
    let left = world.snapshots();
    assert_eq!(left.len(), 1, "it was made before the answer was lost");
    fails(Operation::ListSnapshots, 1);
    lost(client.snapshots(Query::new()).await.unwrap_err());
    assert_eq!(client.snapshots(Query::new()).await.unwrap()[0].id, left[0]);
    for (step, there) in [(1, 1), (2, 0)] {
        fails(Operation::DeleteSnapshot, step);
        lost(client.delete_snapshot(left[0].as_str()).await.unwrap_err());
        assert_eq!(world.snapshots().len(), there, "step {step}");
    }
    client.delete_snapshot(left[0].as_str()).await.unwrap();
    let failed = world.calls().iter().filter(|call| call.error() == Some(ErrorKind::ConnectionLost)).count();
    assert_eq!(failed, 5);
    drop(sandbox);
    client.close().await.unwrap();
}

/// What a client did that tries again, and what was recorded of it.
async fn flaky(seed: u64) -> (Vec<Call>, String) {
    let fake = Fake::new()
        .seed(seed)
        .trouble(Trouble::on(Operation::Create).fail(failure::capacity()).chance(0.4))
        .trouble(Trouble::on(Operation::Run).fail(sandbox_core::Error::new(ErrorKind::StartFailed, "no")).chance(0.4));
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let mut seen = String::new();
    for _ in 0..6 {
        let Ok(sandbox) = client.create(Spec::new()).await else {
            seen.push('c');
            continue;
        };
        for n in 0..6 {
            let run = sandbox.run(Command::new("echo").arg(n.to_string())).await;
            seen.push(if run.is_ok() { '.' } else { 'r' });
        }
        sandbox.close().await.unwrap();
    }
    client.close().await.unwrap();
    (world.calls(), seen)
}

#[tokio::test]
async fn the_same_seed_gives_the_same_record() {
    let (one, two, other) = (flaky(42).await, flaky(42).await, flaky(43).await);
    assert_eq!(one, two);
    assert_ne!(one.1, other.1);
    assert!(one.1.contains('r') && one.1.contains('.') && one.1.contains('c'), "{}", one.1);
}

#[tokio::test]
async fn a_create_that_fails_at_any_step_leaves_nothing() {
    for step in 1..=Operation::Create.steps() {
        let fake = Fake::new().trouble(Trouble::on(Operation::Create).step(step).fail(failure::quota_exceeded()));
        let world = fake.world();
        let client = Client::new(fake).unwrap();
        let error = client.create(Spec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "step {step}");
        let made = matches!(&world.calls()[0], Call::Create(call) if call.sandbox.is_some());
        assert_eq!(made, step > 2, "step {step}");
        client.close().await.unwrap();
        assert_eq!(world.count(), 0, "step {step}");
        let destroys = world.calls().iter().filter(|call| matches!(call, Call::Destroy(_))).count();
        assert_eq!(destroys > 0, made, "step {step}");
    }
}

#[tokio::test]
async fn operations_hang_and_are_slow_on_demand() {
    let fake = Fake::new().trouble(Trouble::on(Operation::Create).hang());
    let client = Client::builder(fake.clone()).limits(Limits::new().late(Duration::from_secs(1))).build().unwrap();
    let spec = Spec::new().create_timeout(Duration::from_secs(2));
    assert_eq!(client.create(spec).await.unwrap_err().kind(), ErrorKind::CreateTimeout);
    let (before, begun) = (fake.world().now(), Instant::now());
    fake.world().trouble(Trouble::on(Operation::Create).slow(Duration::from_secs(60)));
    let sandbox = client.create(Spec::new()).await.unwrap();
    assert!(fake.world().now() - before >= Duration::from_secs(60) && begun.elapsed() < Duration::from_secs(30));
    fake.world().trouble(Trouble::on(Operation::Destroy).fail(failure::teardown_refused()));
    assert_eq!(sandbox.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed);
    assert_eq!(client.orphans()[0].id.as_ref(), Some(sandbox.id()));
    client.destroy(sandbox.id()).await.unwrap();
    fake.world().trouble(Trouble::on(Operation::List).fail(failure::rate_limited(Duration::from_secs(3))).times(2));
    for _ in 0..2 {
        let error = client.list(Query::new()).await.unwrap_err();
        assert_eq!(error.retry(), Retry::After(Duration::from_secs(3)));
    }
    assert!(client.list(Query::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn credentials_can_be_missing_empty_and_refused() {
    for (credential, words) in
        [(Credential::Missing, "is not set"), (Credential::Empty, "empty"), (Credential::Refused, "refuses")]
    {
        let client = Client::new(Fake::new().credential(credential)).unwrap();
        assert_eq!(client.facts().credential_variables()[0].name, "FAKE_API_KEY");
        let error = client.create(Spec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth);
        assert!(error.message().contains(words) && error.message().contains("FAKE_API_KEY"), "{error}");
        assert!(error.hint().is_some() && !error.may_have_applied());
        let others = [
            client.list(Query::new()).await.err(),
            client.snapshots(Query::new()).await.err(),
            client.delete_snapshot("fake-snapshot-1").await.err(),
        ];
        assert_eq!(others.map(|error| error.map(|error| error.kind())), [Some(ErrorKind::Auth); 3]);
    }
    let client = Client::new(Fake::new().credential(Credential::Given)).unwrap();
    drop(client.create(Spec::new()).await.unwrap());
}

#[tokio::test]
async fn tiers_and_capabilities_are_what_the_test_says() {
    let spec = || Spec::new().isolation(Isolation::Gvisor);
    let weak = Client::new(Fake::new()).unwrap();
    assert_eq!(weak.create(spec()).await.unwrap_err().kind(), ErrorKind::IsolationTooWeak);
    let strong = Client::new(Fake::new().isolation(Isolation::MicroVm)).unwrap();
    drop(strong.create(spec()).await.unwrap());
    let poor = Fake::new().absent(Capability::KillOne, "not here").absent(Capability::SignalStatus, "nor this");
    let (world, _client, sandbox) = open(poor).await;
    assert_eq!(sandbox.run(Command::new("die").arg("9")).await.unwrap().status, Status::Code(137));
    let error = sandbox.run(Command::new("hang").timeout(Duration::from_secs(60))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExecutionTimeout);
    // Who cannot kill one command ends the sandbox, unless the backend's own deadline was first.
    let mut process = sandbox.start(Command::new("hang")).await.unwrap();
    assert_eq!(process.kill().await.unwrap_err().kind(), ErrorKind::Unsupported);
    drop(process);
    drop(sandbox);
    for _ in 0..200 {
        if world.count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it is still there");
}

#[tokio::test]
async fn manual_time_moves_only_by_hand() {
    let hour = Duration::from_secs(3600);
    let fake = Fake::new().manual_time().on_run(["job"], Reply::ok().wait(hour).stdout("half\n").wait(hour));
    let clock = fake.world().clock();
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let sandbox = client.create(Spec::new().lifetime(hour * 2)).await.unwrap();
    let mut process = sandbox.start(Command::new("job").timeout(hour - Duration::from_secs(1))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((clock.now(), world.processes(sandbox.id()).len()), (Duration::ZERO, 1));
    clock.advance(hour - Duration::from_secs(2));
    assert_eq!(world.processes(sandbox.id()).len(), 1);
    clock.advance(Duration::from_secs(2));
    assert_eq!((clock.now(), world.processes(sandbox.id()).len()), (hour, 0));
    assert_eq!(process.wait().await.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    // The sandbox's own end comes too.
    clock.advance(hour);
    assert_eq!(world.count(), 0);
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_time_is_real() {
    let (world, _client, sandbox) = open(Fake::new().real_time()).await;
    let begun = Instant::now();
    // Somebody who thinks: a deadline that is far away does not jump near.
    let mut process = sandbox.start(Command::new("cat").pipe().timeout(Duration::from_secs(60))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    process.write("still here\n").await.unwrap();
    process.close_stdin();
    assert_eq!(process.output().await.unwrap().stdout.text(), "still here\n");
    assert!(world.now() <= begun.elapsed() + Duration::from_secs(5), "{:?}", world.now());
    // And one that is near comes when it is due.
    let begun = Instant::now();
    let run = sandbox.run(Command::new("hang").timeout(Duration::from_secs(1))).await;
    assert_eq!(run.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn by_real_time_a_lifetime_ends_without_anybody() {
    let fake = Fake::new().real_time();
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let sandbox = client.create(Spec::new().lifetime(Duration::from_secs(2))).await.unwrap();
    assert_eq!(world.count(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let until = Instant::now() + Duration::from_secs(20);
    while world.count() > 0 {
        assert!(Instant::now() < until, "it lives for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sandbox.run(Command::new("true")).await.unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn the_clock_of_a_dsn_is_checked() {
    let registry = sandbox::Registry::new().register(FakeProvider::new()).unwrap();
    let error = registry.open("fake://?clock=fast").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("fast"), "{error}");
    drop(registry.open("fake://?clock=virtual").unwrap());
    let shared = sandbox::Registry::new().register(FakeProvider::of(Fake::new())).unwrap();
    assert_eq!(shared.open("fake://?clock=real").unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(shared.open("fake://?clock=virtual").unwrap());
}

#[tokio::test]
async fn secrets_reach_programs_and_no_record() {
    let (client, fake) = {
        let fake = Fake::new();
        (Client::new(fake.clone()).unwrap(), fake)
    };
    let spec = Spec::new().env("SHOWN", "shown-value").secret("TOKEN", "hunter2");
    let sandbox = client.create(spec.clone()).await.unwrap();
    let output = sandbox.run(Command::new("env")).await.unwrap();
    assert!(output.stdout.text().contains("TOKEN=hunter2"), "{output:?}");
    let shown = fake.world().inspect(sandbox.id()).unwrap();
    assert_eq!(shown.env.get("SHOWN").map(String::as_str), Some("shown-value"), "the control");
    let record = format!("{:?} {shown:?}", fake.world().calls());
    assert!(record.contains("shown-value") && record.contains("TOKEN") && !record.contains("hunter2"), "{record}");
    // What a test compares is not hidden from it.
    let Some(Call::Create(call)) = fake.world().calls().into_iter().next() else { panic!("no create") };
    assert_eq!(call.spec.secrets, spec.secrets);
    let copy = sandbox.fork(ForkSandbox::new()).await.unwrap();
    let output = copy.run(Command::new("env")).await.unwrap();
    assert!(output.stdout.text().contains("TOKEN=hunter2"), "a copy has the secrets of its source: {output:?}");
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_makes_one_sandbox() {
    let fake = Fake::new();
    let client = Client::new(fake.clone()).unwrap();
    for step in 1..=Operation::Create.steps() {
        fake.world().trouble(Trouble::on(Operation::Create).step(step).fail(failure::connection_lost()));
        let sandbox = client.create(Spec::new()).await.unwrap();
        assert_eq!(fake.world().sandboxes(), [sandbox.id().clone()], "step {step}");
        sandbox.close().await.unwrap();
    }
    let creates = fake.world().calls().into_iter().filter(|call| matches!(call, Call::Create(_))).count();
    assert_eq!(creates, 2 * Operation::Create.steps());
}
