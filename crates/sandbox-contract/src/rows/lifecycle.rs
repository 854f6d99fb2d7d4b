//! Rows of the area `lifecycle`: from create to the end, and who may end what.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
};
use sandbox::{Limits, Overrides, Sandbox};
use sandbox_core::{
    Capability::{Attach, Background, Labels, Lifetime, List, Run},
    Error, ErrorKind, Query, labels,
};
use std::{
    collections::BTreeSet,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tokio::time::Instant;

pub(crate) static ROWS: &[Row] = &[
    row!("lifecycle::create_run_close_and_close_again", create_run_close_and_close_again).needs(&[Run]),
    row!("lifecycle::work_after_close_is_gone", work_after_close_is_gone).needs(&[Run]),
    row!("lifecycle::a_scope_ends_its_sandbox_on_return", a_scope_ends_its_sandbox_on_return).needs(&[Run]),
    row!("lifecycle::a_scope_ends_its_sandbox_on_an_error", a_scope_ends_its_sandbox_on_an_error),
    row!("lifecycle::a_scope_ends_its_sandbox_on_a_panic", a_scope_ends_its_sandbox_on_a_panic),
    row!("lifecycle::an_own_error_survives_a_failing_teardown", an_own_error_survives_a_failing_teardown),
    row!("lifecycle::an_own_value_survives_a_failing_teardown", an_own_value_survives_a_failing_teardown),
    row!("lifecycle::a_refused_destroy_says_what_remains", a_refused_destroy_says_what_remains),
    row!("lifecycle::destroy_of_an_unknown_id_succeeds", destroy_of_an_unknown_id_succeeds),
    row!("lifecycle::destroy_by_id_ends_the_sandbox", destroy_by_id_ends_the_sandbox).needs(&[Run]),
    row!("lifecycle::destroy_ends_daemons_too", destroy_ends_daemons_too).needs(&[Run, Background]),
    row!("lifecycle::a_start_that_races_with_close_is_gone_or_ended", a_start_that_races_with_close).needs(&[Run]),
    row!("lifecycle::a_sandbox_that_dies_by_itself_is_gone_at_once", a_sandbox_that_dies_by_itself).needs(&[Run]),
    row!("lifecycle::two_sandboxes_share_nothing", two_sandboxes_share_nothing).needs(&[Run]),
    row!("lifecycle::ten_creates_at_once_give_ten_sandboxes", ten_creates_at_once).needs(&[Run]).limit(240),
    row!("lifecycle::the_last_handle_ends_the_sandbox", the_last_handle_ends_the_sandbox).needs(&[Run]),
    row!("lifecycle::a_process_keeps_its_sandbox", a_process_keeps_its_sandbox).needs(&[Run]),
    row!("lifecycle::no_engine_thread_is_left_after_the_last_handle", no_engine_thread_is_left).serial(),
    row!("lifecycle::a_ready_command_holds_create_back", a_ready_command_holds_create_back).needs(&[Run]),
    row!("lifecycle::a_ready_command_that_never_succeeds_is_told", a_ready_command_that_never_succeeds).needs(&[Run]),
    row!("lifecycle::list_shows_what_is_created_and_hides_what_ended", list_shows_and_hides).needs(&[List, Labels]),
    row!("lifecycle::list_filters_by_several_labels", list_filters_by_several_labels).needs(&[List, Labels]),
    row!("lifecycle::labels_of_this_library_are_set", labels_of_this_library_are_set).needs(&[List, Labels]),
    row!("lifecycle::labels_are_the_providers_own", labels_are_the_providers_own).needs(&[Labels]),
    row!("lifecycle::attach_runs_commands", attach_runs_commands).needs(&[Attach, Run]),
    row!("lifecycle::attach_to_an_unknown_id_creates_nothing", attach_to_an_unknown_id).needs(&[Attach]),
    row!("lifecycle::attach_to_an_ended_id_creates_nothing", attach_to_an_ended_id).needs(&[Attach]),
    row!("lifecycle::a_dropped_attached_handle_leaves_the_sandbox", a_dropped_attached_handle).needs(&[Attach, Run]),
    row!("lifecycle::close_of_an_attached_handle_ends_the_sandbox", close_of_an_attached_handle).needs(&[Attach, Run]),
    row!("lifecycle::detach_leaves_the_sandbox", detach_leaves_the_sandbox).needs(&[Attach, Run]),
    row!("lifecycle::it_ends_at_its_lifetime_as_gone", it_ends_at_its_lifetime).needs(&[Lifetime, Run]).serial(),
];

async fn create_run_close_and_close_again(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    ensure!(!sandbox.id().as_str().is_empty(), "the id is empty");
    ensure!(sandbox.cwd().starts_with('/'), "the working directory is not absolute: {}", sandbox.cwd());
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 1, "sandboxes while one lives");
    }
    cx.within(60, "close", sandbox.close()).await??;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes right after close");
    }
    let destroys = cx.meddling().calls(Point::Destroy);
    cx.within(20, "the second close", sandbox.close()).await??;
    expect_eq!(cx.meddling().calls(Point::Destroy), destroys, "what the second close sent");
    Ok(())
}

async fn work_after_close_is_gone(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().echo("control")).await?;
    let view = sandbox.with(Overrides::new().env("A", "b"));
    sandbox.close().await?;
    let spawns = cx.meddling().calls(Point::Spawn);
    let run = cx.within(10, "run after close", sandbox.run(cx.probes().echo("x"))).await?;
    let error = expect_kind!(run, Gone, "run after close");
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    expect_kind!(sandbox.start(cx.probes().echo("x")).await, Gone, "start after close");
    expect_kind!(view.run(cx.probes().echo("x")).await, Gone, "run in a view after close");
    expect_eq!(cx.meddling().calls(Point::Spawn), spawns, "what was sent after close");
    if cx.has(sandbox_core::Capability::Files) {
        expect_kind!(sandbox.files().read("x").await, Gone, "read after close");
    }
    Ok(())
}

async fn a_scope_ends_its_sandbox_on_return(cx: &Ctx) -> Done {
    let text = cx.client().scope(cx.spec(), async |sandbox: &Sandbox| {
        let text = cx.text(sandbox, cx.probes().echo("inside")).await?;
        if cx.can_count() {
            expect_eq!(cx.count().await?, 1, "sandboxes inside the scope");
        }
        Ok::<_, Stop>(text)
    });
    expect_eq!(text.await?, "inside", "the block's value");
    nothing_left(cx).await
}

async fn a_scope_ends_its_sandbox_on_an_error(cx: &Ctx) -> Done {
    let result = cx.client().scope(cx.spec(), async |_: &Sandbox| Err::<(), _>(own()));
    let error = expect_kind!(result.await, Protocol, "a scope whose block fails");
    expect_eq!(error.message(), OWN, "the block's own error");
    nothing_left(cx).await
}

async fn a_scope_ends_its_sandbox_on_a_panic(cx: &Ctx) -> Done {
    let mut scope = Box::pin(cx.client().scope(cx.spec(), async |_: &Sandbox| -> Result<(), Error> {
        // Not `panic!`: the hook would print a trace for what is meant.
        std::panic::resume_unwind(Box::new(OWN))
    }));
    let panic = std::future::poll_fn(|poll| match catch_unwind(AssertUnwindSafe(|| scope.as_mut().poll(poll))) {
        Ok(std::task::Poll::Ready(result)) => std::task::Poll::Ready(Err(result)),
        Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
        Err(panic) => std::task::Poll::Ready(Ok(panic)),
    });
    match cx.within(60, "the panic", panic).await? {
        Ok(panic) => ensure!(panic.downcast_ref::<&str>() == Some(&OWN), "another panic came out"),
        Err(result) => fail!("the panic of the block did not come out, but {result:?}"),
    }
    drop(scope);
    nothing_left(cx).await
}

async fn an_own_error_survives_a_failing_teardown(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let result = world.client().scope(world.spec(), async |_: &Sandbox| Err::<(), _>(own()));
    let error = expect_kind!(result.await, Protocol, "a scope whose block and teardown fail");
    expect_eq!(error.message(), OWN, "the block's own error");
    reported(&world).await
}

async fn an_own_value_survives_a_failing_teardown(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let result = world.client().scope(world.spec(), async |_: &Sandbox| Ok::<_, Error>(42));
    expect_eq!(result.await?, 42, "the block's value");
    reported(&world).await
}

/// The orphan is named, and then ended.
async fn reported(world: &crate::ctx::World) -> Done {
    let orphans = world.client().orphans();
    expect_eq!(orphans.len(), 1, "orphan reports: {orphans:?}");
    let orphan = &orphans[0];
    let Some(id) = &orphan.id else { fail!("the report names no id: {orphan:?}") };
    expect_eq!(orphan.backend, world.facts().name(), "the backend of the report");
    if world.has(Labels) {
        for (name, value) in world.labels() {
            expect_eq!(orphan.labels.get(name), Some(value), "label {name} of the report");
        }
    }
    ensure!(orphan.error.is_some(), "the report does not say why: {orphan:?}");
    world.meddling().clear();
    world.client().destroy(id.as_str()).await?;
    Ok(())
}

async fn a_refused_destroy_says_what_remains(cx: &Ctx) -> Done {
    let world = cx.limited(quick())?;
    let sandbox = world.sandbox().await?;
    world.meddling().set(Point::Destroy, Fault::Fail(refusal()));
    let error = expect_kind!(sandbox.close().await, TeardownFailed, "a close that the provider refuses");
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    let mut cause = std::error::Error::source(&error);
    let mut causes = Vec::new();
    while let Some(one) = cause {
        causes.push(one.to_string());
        cause = one.source();
    }
    ensure!(causes.iter().any(|text| text.contains(REFUSAL)), "the provider's words are lost: {causes:?}");
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("destroy") || hint.contains("sweep"), "the hint does not say how to reap: {hint:?}");
    // Every later close says the same, and later work is gone.
    expect_kind!(sandbox.close().await, TeardownFailed, "the second close");
    reported(&world).await?;
    drop(sandbox);
    world.end().await
}

async fn destroy_of_an_unknown_id_succeeds(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let sandbox = cx.sandbox().await?;
    let id = sandbox.id().clone();
    sandbox.close().await?;
    cx.within(30, "destroy of an ended id", cx.client().destroy(id.as_str())).await??;
    cx.within(30, "destroy again", cx.client().destroy(id.as_str())).await??;
    // The same shape, one digit or letter changed: an id of this provider that never was.
    let never: String = id.as_str().chars().map(|c| if c == 'a' || c == '1' { 'b' } else { c }).collect();
    if never != id.as_str() {
        cx.within(30, "destroy of an id that never was", cx.client().destroy(&never)).await??;
    }
    expect_eq!(cx.creates() - creates, 1, "creates");
    expect_kind!(cx.client().destroy("../etc").await, InvalidArgument, "destroy of what is no id");
    Ok(())
}

async fn destroy_by_id_ends_the_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    cx.text(&sandbox, cx.probes().echo("control")).await?;
    cx.within(60, "destroy", cx.client().destroy(sandbox.id().as_str())).await??;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes right after destroy");
    }
    let run = cx.within(30, "run after destroy", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a sandbox that was destroyed by its id");
    cx.within(30, "close after destroy", sandbox.close()).await??;
    Ok(())
}

async fn destroy_ends_daemons_too(cx: &Ctx) -> Done {
    for by_close in [true, false] {
        let sandbox = cx.sandbox().await?;
        let (marker, id) = (cx.marker(), sandbox.id().clone());
        let output = cx.run(&sandbox, cx.probes().daemonize(&marker)).await?;
        ensure!(output.success(), "the probe `daemonize`: {output:?}");
        cx.appears(&sandbox, &marker).await?;
        let seen = cx.survivors(&id, &marker).await?;
        ensure!(seen > 0, "the probe `survivors` does not see the daemon while it lives");
        if by_close {
            sandbox.close().await?;
        } else {
            cx.client().destroy(id.as_str()).await?;
        }
        let left = cx.survivors(&id, &marker).await?;
        expect_eq!(left, 0, "daemons after the end (by close: {by_close})");
    }
    Ok(())
}

async fn a_start_that_races_with_close(cx: &Ctx) -> Done {
    for delay in [0, 5, 20, 60] {
        let sandbox = cx.sandbox().await?;
        let (marker, other) = (cx.marker(), sandbox.clone());
        let start = async {
            match sandbox.start(cx.probes().hang(&marker)).await {
                Ok(mut process) => process.wait().await.map(|status| format!("{status}")),
                Err(error) => Err(error),
            }
        };
        let close = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            other.close().await
        };
        let (started, closed) = cx.within(60, "start beside close", async { tokio::join!(start, close) }).await?;
        closed?;
        expect_kind!(started, Gone, "a start {delay} ms before close");
        if cx.can_count() {
            expect_eq!(cx.count().await?, 0, "sandboxes after close");
        }
    }
    Ok(())
}

async fn a_sandbox_that_dies_by_itself(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let marker = cx.marker();
    let mut process = sandbox.start(cx.probes().hang(&marker)).await?;
    cx.appears(&sandbox, &marker).await?;
    behind_its_back(cx, &sandbox).await?;
    let ended = cx.within(30, "the command of a sandbox that died", process.wait()).await?;
    expect_kind!(ended, Gone, "a command whose sandbox died: never an exit");
    let begun = Instant::now();
    let run = cx.within(30, "run in a sandbox that died", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run in a sandbox that died");
    ensure!(begun.elapsed() < cx.secs(5), "the answer took {:?}, which is not at once", begun.elapsed());
    drop(process);
    cx.within(30, "close of a sandbox that died", sandbox.close()).await??;
    Ok(())
}

/// The provider ends the sandbox, and the client under test is not asked.
async fn behind_its_back(cx: &Ctx, sandbox: &Sandbox) -> Done {
    if let Some(expire) = &cx.hooks().expire {
        return Ok(cx.within(60, "the probe `expire`", expire(sandbox.id().clone())).await??);
    }
    let other = cx.another()?;
    if !other.can_list() || !other.listed().await?.contains(sandbox.id()) {
        unproven!("the behaviour probe `expire` is missing, and a second client does not see the sandbox");
    }
    other.client().destroy(sandbox.id().as_str()).await?;
    other.end().await
}

async fn two_sandboxes_share_nothing(cx: &Ctx) -> Done {
    let (one, two) = (cx.sandbox_of(cx.spec().env("CONTRACT_ONE", "1")).await?, cx.sandbox().await?);
    ensure!(one.id() != two.id(), "both have the id {}", one.id());
    let (path, marker) = (format!("{}/contract-one", one.cwd().trim_end_matches('/')), cx.marker());
    cx.text(&one, cx.probes().write_file(&path, "secret")).await?;
    expect_eq!(cx.text(&one, cx.probes().read_file(&path)).await?, "secret", "the file, where it was written");
    let read = cx.run(&two, cx.probes().read_file(&path)).await?;
    ensure!(!read.success(), "the other sandbox reads the file: {read:?}");
    expect_eq!(cx.text(&one, cx.probes().env("CONTRACT_ONE")).await?, "1", "the variable, where it was set");
    expect_eq!(cx.text(&two, cx.probes().env("CONTRACT_ONE")).await?, "unset", "the variable in the other sandbox");
    let _process = one.start(cx.probes().hang(&marker)).await?;
    cx.appears(&one, &marker).await?;
    expect_eq!(cx.alive(&two, &marker).await?, 0, "processes of one that the other sees");
    Ok(())
}

async fn ten_creates_at_once(cx: &Ctx) -> Done {
    let mut creates = Vec::new();
    for _ in 0..10 {
        creates.push(Box::pin(cx.sandbox()));
    }
    let mut sandboxes = Vec::new();
    for made in all(creates).await {
        sandboxes.push(made?);
    }
    let ids: BTreeSet<_> = sandboxes.iter().map(|sandbox| sandbox.id().clone()).collect();
    expect_eq!(ids.len(), 10, "different ids");
    if cx.can_count() {
        expect_eq!(cx.count().await?, 10, "sandboxes at the provider");
    }
    let echoes =
        sandboxes.iter().enumerate().map(|(n, sandbox)| Box::pin(cx.text(sandbox, cx.probes().echo(n.to_string()))));
    for (n, text) in all(echoes.collect()).await.into_iter().enumerate() {
        expect_eq!(text?, n.to_string(), "echo in sandbox {n}");
    }
    let closes = sandboxes.iter().map(|sandbox| Box::pin(sandbox.close())).collect();
    for closed in all(closes).await {
        closed?;
    }
    Ok(())
}

async fn the_last_handle_ends_the_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let (second, view) = (sandbox.clone(), sandbox.with(Overrides::new().env("A", "b")));
    drop(sandbox);
    drop(second);
    expect_eq!(cx.text(&view, cx.probes().echo("still")).await?, "still", "echo by the last handle");
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    expect_eq!(cx.count().await?, 1, "sandboxes while a handle is held");
    drop(view);
    cx.settles_at(0, "after the last handle").await
}

async fn a_process_keeps_its_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut process = sandbox.start(cx.probes().two_with_pause(700_u32)).await?;
    drop(sandbox);
    let output = cx.within(30, "a process whose sandbox was dropped", process.output()).await??;
    expect_eq!(output.stdout.text(), "first\nsecond\n", "its output");
    drop(process);
    if cx.can_count() {
        cx.settles_at(0, "after the process").await?;
    }
    Ok(())
}

async fn no_engine_thread_is_left(cx: &Ctx) -> Done {
    let Some(mut before) = engine_threads() else {
        unproven!("threads are counted in /proc, which this host does not have")
    };
    // A thread has its name a moment after it has been made.
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        match engine_threads().unwrap_or_default() {
            now if now == before => break,
            now => before = now,
        }
    }
    let world = cx.limited(Limits::new())?;
    let sandbox = world.sandbox().await?;
    if world.has(Run) {
        world.text(&sandbox, world.probes().echo("x")).await?;
    }
    let during = engine_threads().unwrap_or_default();
    ensure!(during > before, "no engine thread is seen while a client lives: {before} before, {during} during");
    drop(sandbox);
    drop(world);
    let until = Instant::now() + cx.secs(20);
    loop {
        let now = engine_threads().unwrap_or(usize::MAX);
        if now <= before {
            return Ok(());
        }
        ensure!(Instant::now() < until, "engine threads after the last handle: {now}, before it was made: {before}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The engine names its threads; this row runs alone in its process.
fn engine_threads() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    Some(names.filter(|name| name.starts_with("sandbox-")).count())
}

async fn a_ready_command_holds_create_back(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().ready(cx.probes().ready_later())).await?;
    let spawns = cx.meddling().calls(Point::Spawn);
    ensure!(spawns >= 3, "the ready command ran {spawns} times, and succeeds only the third time");
    cx.text(&sandbox, cx.probes().echo("ready")).await?;
    Ok(())
}

async fn a_ready_command_that_never_succeeds(cx: &Ctx) -> Done {
    let spec = cx.spec().ready(cx.probes().ready_never()).create_timeout(cx.pace().await?.secs(8));
    let created = cx.within(90, "a create that is never ready", cx.client().create(spec)).await?;
    let error = expect_kind!(created, CreateTimeout, "a create that is never ready");
    ensure!(format!("{error:?}").contains("not yet"), "what the ready command wrote is not told: {error:?}");
    nothing_left(cx).await
}

async fn list_shows_and_hides(cx: &Ctx) -> Done {
    let (one, two) = (cx.sandbox().await?, cx.sandbox().await?);
    let listed: BTreeSet<_> = cx.listed().await?.into_iter().collect();
    expect_eq!(listed, BTreeSet::from([one.id().clone(), two.id().clone()]), "the list while both live");
    one.close().await?;
    expect_eq!(cx.listed().await?, vec![two.id().clone()], "the list right after the end of one");
    Ok(())
}

async fn list_filters_by_several_labels(cx: &Ctx) -> Done {
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

async fn labels_of_this_library_are_set(cx: &Ctx) -> Done {
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

async fn labels_are_the_providers_own(cx: &Ctx) -> Done {
    let Some(native) = &cx.hooks().native_labels else { unproven!("the behaviour probe `native_labels` is missing") };
    let sandbox = cx.sandbox_of(cx.spec().label("contract.own", "value")).await?;
    let kept = cx.within(30, "the probe `native_labels`", native(sandbox.id().clone())).await??;
    expect_eq!(kept.get("contract.own").map(String::as_str), Some("value"), "the label at the provider, of {kept:?}");
    ensure!(kept.contains_key(labels::MARKER), "the marker is not at the provider: {kept:?}");
    Ok(())
}

async fn attach_runs_commands(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let path = "contract-attach";
    cx.text(&sandbox, cx.probes().write_file(path, "same")).await?;
    let attached = cx.within(30, "attach", cx.client().attach(sandbox.id().as_str())).await??;
    expect_eq!(attached.id(), sandbox.id(), "the id");
    expect_eq!(cx.text(&attached, cx.probes().read_file(path)).await?, "same", "a file by the attached handle");
    expect_eq!(attached.cwd(), sandbox.cwd(), "the working directory");
    Ok(())
}

async fn attach_to_an_unknown_id(cx: &Ctx) -> Done {
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

async fn attach_to_an_ended_id(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let control = cx.client().attach(sandbox.id().as_str()).await;
    drop(control.map_err(|e| Stop::from(e).during("the control: attach while it lives"))?);
    sandbox.close().await?;
    match cx.within(30, "attach", cx.client().attach(sandbox.id().as_str())).await? {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Gone) => Ok(()),
        other => fail!("attach to an ended id: expected `not-found` or `gone`, got {other:?}"),
    }
}

async fn a_dropped_attached_handle(cx: &Ctx) -> Done {
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

async fn close_of_an_attached_handle(cx: &Ctx) -> Done {
    let id = cx.sandbox().await?.detach().await?;
    let attached = cx.client().attach(id.as_str()).await?;
    expect_eq!(cx.text(&attached, cx.probes().echo("lives")).await?, "lives", "echo before the close");
    attached.close().await?;
    if cx.can_count() {
        expect_eq!(cx.count().await?, 0, "sandboxes after the close");
    }
    Ok(())
}

async fn detach_leaves_the_sandbox(cx: &Ctx) -> Done {
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

async fn it_ends_at_its_lifetime(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().lifetime(cx.secs(8))).await?;
    let marker = cx.marker();
    expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "echo within the lifetime");
    let mut process = sandbox.start(cx.probes().hang(&marker)).await?;
    let ended = cx.by_clock(Duration::from_secs(40), "the end at the lifetime", process.wait()).await?;
    match ended {
        // The command's own timeout is cut to the lifetime, so both may be first; after either the sandbox is gone.
        Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::ExecutionTimeout) => {}
        other => fail!("a command across the end of the lifetime: expected `gone`, got {other:?}"),
    }
    drop(process);
    cx.sleep(Duration::from_secs(5)).await;
    let run = cx.within(30, "run after the lifetime", sandbox.run(cx.probes().echo("x"))).await?;
    expect_kind!(run, Gone, "run after the lifetime");
    if cx.can_count() {
        cx.settles_at(0, "after the lifetime").await?;
    }
    cx.within(30, "close after the lifetime", sandbox.close()).await??;
    Ok(())
}

/// All of them at once, in order.
pub(crate) async fn all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, slot) in &mut slots {
            if let Some(one) = future {
                match std::pin::Pin::new(one).poll(cx) {
                    std::task::Poll::Ready(value) => (*future, *slot) = (None, Some(value)),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|(_, value)| value).collect()
}

async fn nothing_left(cx: &Ctx) -> Done {
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    ensure!(cx.creates() > 0, "nothing was ever created, so nothing is proven");
    cx.settles_at(0, "afterwards").await
}

fn own() -> Error {
    Error::new(ErrorKind::Protocol, OWN)
}

const OWN: &str = "the block's own words";

fn refusal() -> Error {
    Error::new(ErrorKind::PermissionDeniedByProvider, REFUSAL)
}

const REFUSAL: &str = "refused by the contract suite";

fn quick() -> Limits {
    Limits::new().teardown(Duration::from_secs(10))
}
