//! Rows of the area `create`: what a spec asks for is in force, or refused, and a create that fails leaves nothing.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
};
use sandbox::{Limits, Sandbox};
use sandbox_core::{
    Amount,
    Capability::{self, Files, KillOne, OomStatus, Pids, Run, User},
    Error, ErrorKind, Isolation, Mode, Resource, Resources, Spec,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("create::what_cannot_be_right_is_refused_before_anything_is_sent", what_cannot_be_right).facade(),
    row!("create::isolation_that_is_too_weak_provisions_nothing", isolation_that_is_too_weak).facade(),
    row!("create::own_timeout_is_create_timeout_and_leaves_nothing", own_timeout_is_create_timeout),
    row!("create::an_answer_that_never_comes_is_bounded_and_reported", an_answer_that_never_comes),
    row!("create::a_failure_after_the_answer_leaves_nothing", a_failure_after_the_answer),
    row!("create::a_failure_at_each_request_leaves_nothing", a_failure_at_each_request).limit(300),
    row!("create::a_provider_failure_keeps_its_cause", a_provider_failure_keeps_its_cause),
    row!("create::an_unknown_image_is_told_and_leaves_nothing", an_unknown_image),
    row!("create::environment_and_working_directory_hold", environment_and_working_directory).needs(&[Run]),
    row!("create::the_user_holds", the_user_holds).needs(&[Run, User]),
    row!("create::a_lifetime_over_the_maximum_is_refused", a_lifetime_over_the_maximum).facade(),
    row!("create::a_memory_limit_is_seen_by_provider_and_program", a_memory_limit_is_seen).needs(&[Run]),
    row!("create::a_cpu_limit_is_seen_by_provider_and_program", a_cpu_limit_is_seen).needs(&[Run]),
    row!("create::a_cap_on_processes_is_seen_by_provider_and_program", a_cap_on_processes_is_seen).needs(&[Run, Pids]),
    row!("create::unset_means_the_stated_default", unset_means_the_stated_default).needs(&[Run]),
    row!("create::amounts_that_are_not_honoured_are_refused", amounts_that_are_not_honoured).facade(),
    row!("create::a_hit_memory_cap_is_resource_exhausted", a_hit_memory_cap_is_told).needs(&[Run, OomStatus]),
    row!("create::a_hit_memory_cap_is_never_success", a_hit_memory_cap_is_never_success).needs(&[Run]),
    row!("create::a_cap_on_processes_holds", a_cap_on_processes_holds).needs(&[Run, Pids]),
    row!("create::a_disk_limit_is_seen_and_holds", a_disk_limit_holds).needs(&[Files]),
    row!("create::a_used_up_quota_is_quota_exceeded", a_used_up_quota),
    row!("create::a_fork_bomb_is_contained", a_fork_bomb_is_contained).needs(&[Run, Pids]),
];

async fn what_cannot_be_right(cx: &Ctx) -> Done {
    let (creates, zero) = (cx.creates(), Duration::ZERO);
    let year = Duration::from_secs(400 * 24 * 3600);
    let mut cases: Vec<(&str, Spec)> = vec![
        ("a lifetime of zero", cx.spec().lifetime(zero)),
        ("a lifetime of more than a year", cx.spec().lifetime(year)),
        ("a command timeout of zero", cx.spec().command_timeout(zero)),
        ("a command timeout over the lifetime", cx.spec().lifetime(cx.secs(60)).command_timeout(cx.secs(61))),
        ("a create timeout of zero", cx.spec().create_timeout(zero)),
        ("a prepare timeout of zero", cx.spec().prepare_timeout(zero)),
        ("a variable without a name", cx.spec().env("", "x")),
        ("a variable with a `=` in its name", cx.spec().env("A=B", "x")),
        ("a variable with a NUL in its name", cx.spec().env("A\0", "x")),
        ("a variable with a NUL in its value", cx.spec().env("A", "x\0")),
        ("a relative working directory", cx.spec().cwd("work")),
        ("a working directory with a NUL", cx.spec().cwd("/wo\0rk")),
        ("an empty image", cx.spec().image("")),
        ("an image with a blank", cx.spec().image("a b")),
        ("isolation `unknown`", cx.spec().isolation(Isolation::Unknown)),
        ("an empty ready command", cx.spec().ready(Vec::<String>::new())),
        ("a ready port of zero", cx.spec().ready_port(0)),
        ("a NUL in the ready command", cx.spec().ready(["a", "b\0"])),
    ];
    if cx.has(Capability::Labels) {
        cases.push(("a label of this library", cx.spec().label("sandbox.marker", "x")));
        cases.push(("a label without a name", cx.spec().label("", "x")));
        cases.push(("a label with a newline", cx.spec().label("contract.x", "a\nb")));
    }
    if cx.has(Capability::SecretStore) {
        cases.push(("a secret without a name", cx.spec().secret("", "hunter2")));
        cases.push(("a secret of five bytes", cx.spec().secret("A", "12345")));
        cases.push(("a secret with a NUL", cx.spec().secret("A", "hunter\0two")));
        cases.push(("a secret that is a variable too", cx.spec().env("A", "x").secret("A", "hunter2")));
    }
    if cx.has(User) {
        cases.push(("an empty user", cx.spec().user("")));
        cases.push(("a user that looks like an option", cx.spec().user("-x")));
    }
    for (what, spec) in cases {
        let created = cx.within(20, what, cx.client().create(spec)).await?;
        let error = expect_kind!(created, InvalidArgument, "{what}");
        ensure!(error.hint().is_some(), "{what}: no hint: {error:?}");
        cx.nothing_provisioned(creates, what)?;
    }
    // The control: the same spec with nothing wrong.
    drop(cx.sandbox().await?);
    Ok(())
}

async fn isolation_that_is_too_weak(cx: &Ctx) -> Done {
    let (creates, tier) = (cx.creates(), cx.facts().tier());
    let tiers = [Isolation::Container, Isolation::Gvisor, Isolation::MicroVm];
    let (fine, too_much): (Vec<_>, Vec<_>) = tiers.into_iter().partition(|required| tier.satisfies(*required));
    for required in too_much {
        let created = cx.within(20, "create", cx.client().create(cx.spec().isolation(required))).await?;
        let error = expect_kind!(created, IsolationTooWeak, "`{required}` is required of `{tier}`");
        let text = error.to_string();
        ensure!(text.contains(required.name()) && text.contains(tier.name()), "it does not say which: {text}");
    }
    cx.nothing_provisioned(creates, "isolation that is too weak")?;
    if let Some(most) = fine.last() {
        drop(cx.sandbox_of(cx.spec().isolation(*most)).await?);
    }
    Ok(())
}

async fn own_timeout_is_create_timeout(cx: &Ctx) -> Done {
    let (pace, world) = (cx.pace().await?, cx.limited(Limits::new())?);
    // The provider has made it, and the answer is late.
    world.meddling().set(Point::Created, Fault::Delay(pace.secs(6)));
    let spec = world.spec().create_timeout(pace.secs(3));
    let created = cx.within(60, "a create that is late", world.client().create(spec)).await?;
    let error = expect_kind!(created, CreateTimeout, "a create that is late");
    ensure!(error.hint().is_some_and(|hint| hint.contains("create_timeout")), "the hint names no setting: {error:?}");
    ensure!(error.may_have_applied(), "the create may have applied, and the error denies it: {error:?}");
    if !world.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    cx.within(60, "close of the client", world.client().close()).await??;
    world.settles_at(0, "after a create that was late").await?;
    world.end().await
}

async fn an_answer_that_never_comes(cx: &Ctx) -> Done {
    let pace = cx.pace().await?;
    let world = cx.limited(Limits::new().late(pace.secs(3)))?;
    world.meddling().set(Point::Created, Fault::Hang);
    let spec = world.spec().create_timeout(pace.secs(10));
    let created = cx.within(90, "a create without an answer", world.client().create(spec)).await?;
    expect_kind!(created, CreateTimeout, "a create without an answer");
    cx.within(60, "close of the client", world.client().close()).await??;
    expect_eq!(world.meddling().calls(Point::Created), 1, "sandboxes that the provider has made");
    let orphans = world.client().orphans();
    let reported = orphans.iter().any(|orphan| orphan.marker.is_some() && orphan.backend == world.facts().name());
    ensure!(reported, "no report with a marker and the backend: {orphans:?}");
    if !world.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    world.settles_at(0, "after a create without an answer").await?;
    world.end().await
}

async fn a_failure_after_the_answer(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    world.meddling().set(Point::Created, Fault::Fail(Error::new(ErrorKind::CreateFailed, "scripted")));
    let created = cx.within(90, "a create that fails late", world.client().create(world.spec())).await?;
    expect_kind!(created, CreateFailed, "a create that fails with the id in its hand");
    expect_eq!(world.meddling().calls(Point::Created), 1, "sandboxes that the provider has made");
    if !world.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    world.settles_at(0, "after a create that failed with the id in its hand").await?;
    world.end().await
}

async fn a_failure_at_each_request(cx: &Ctx) -> Done {
    let Some(fail_at) = &cx.hooks().fail_create_at else {
        unproven!("the behaviour probe `fail_create_at` is missing")
    };
    if !cx.can_count() {
        unproven!("sandboxes of this backend cannot be counted");
    }
    for request in 1..=50 {
        if !cx.within(30, "the probe `fail_create_at`", fail_at(request)).await?? {
            ensure!(request > 1, "a create without a single request");
            return Ok(());
        }
        let created = cx.within(120, "a create that fails", cx.client().create(cx.spec())).await?;
        if let Ok(sandbox) = created {
            // A lost answer may be met by a repeat, which leaves one.
            let repeats = cx.has(Capability::IdempotentCreate);
            ensure!(repeats, "request {request} was to fail, and the create succeeded");
            cx.settles_at(1, &format!("after a repeat for request {request} of create")).await?;
            cx.within(60, "close", sandbox.close()).await??;
        }
        cx.settles_at(0, &format!("after a failure at request {request} of create")).await?;
    }
    fail!("a create with more than 50 requests; the probe has to answer `false` at the end")
}

async fn a_provider_failure_keeps_its_cause(cx: &Ctx) -> Done {
    let Some(failure) = &cx.hooks().provider_failure else {
        unproven!("the behaviour probe `provider_failure` is missing");
    };
    let words = cx.within(30, "the probe `provider_failure`", failure(())).await??;
    let created = cx.within(120, "a create that fails", cx.client().create(cx.spec())).await?;
    let Err(error) = created else { fail!("the provider was to fail, and the create succeeded") };
    ensure!(error.kind() != ErrorKind::Internal, "a failure of the provider is no fault of ours: {error:?}");
    let mut text = format!("{error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(one) = cause {
        text.push_str(&format!(": {one}"));
        cause = one.source();
    }
    ensure!(text.contains(&words), "the provider's words {words:?} are lost: {text}");
    Ok(())
}

async fn an_unknown_image(cx: &Ctx) -> Done {
    if cx.spec().image.is_none() {
        unproven!("the subject's spec names no image or template, so it is not known what an unknown one is");
    }
    let spec = cx.spec().image("sandbox-contract-no-such-image:0").prepare_timeout(cx.secs(60));
    let created = cx.within(150, "a create of an unknown image", cx.client().create(spec)).await?;
    let Err(error) = created else { fail!("a create of an unknown image succeeded") };
    // Where the registry cannot be asked, it is not known whether it has the image.
    ensure!(
        matches!(error.kind(), ErrorKind::ImageNotFound | ErrorKind::RegistryUnreachable),
        "expected `image-not-found`, got {error:?}"
    );
    ensure!(format!("{error:?}").contains("sandbox-contract-no-such-image"), "it does not name the image: {error:?}");
    if cx.can_count() {
        cx.settles_at(0, "after a create of an unknown image").await?;
    }
    Ok(())
}

async fn environment_and_working_directory(cx: &Ctx) -> Done {
    let odd = "a b'c\"d$e`f\\g\nh=ü";
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_A", odd).env("CONTRACT_B", "")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_A")).await?, odd, "a variable of the spec");
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_B")).await?, "", "an empty variable");
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_C")).await?, "unset", "a variable that nobody set");
    expect_eq!(cx.text(&sandbox, cx.probes().pwd()).await?, sandbox.cwd(), "the working directory");
    let cwd = format!("{}/contract dir", sandbox.cwd().trim_end_matches('/'));
    let other = cx.sandbox_of(cx.spec().cwd(&*cwd)).await?;
    expect_eq!(other.cwd(), cwd, "the working directory that the sandbox tells");
    expect_eq!(cx.text(&other, cx.probes().pwd()).await?, cwd, "the working directory of the spec");
    Ok(())
}

async fn the_user_holds(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().user("1000")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().uid()).await?, "1000", "the uid of a command");
    let root = cx.sandbox_of(cx.spec().user("0")).await?;
    expect_eq!(cx.text(&root, cx.probes().uid()).await?, "0", "the uid of a command, the control");
    Ok(())
}

async fn a_lifetime_over_the_maximum(cx: &Ctx) -> Done {
    let (creates, most) = (cx.creates(), cx.facts().longest_lifetime());
    let over = most.map_or(Duration::from_secs(367 * 24 * 3600), |most| most + Duration::from_secs(1));
    let created = cx.client().create(cx.spec().lifetime(over)).await;
    let error = expect_kind!(created, InvalidArgument, "a lifetime of {over:?} with a maximum of {most:?}");
    ensure!(error.hint().is_some(), "no hint: {error:?}");
    cx.nothing_provisioned(creates, "a lifetime over the maximum")?;
    if let Some(most) = most {
        drop(cx.sandbox_of(cx.spec().lifetime(most)).await?);
    }
    Ok(())
}

async fn a_memory_limit_is_seen(cx: &Ctx) -> Done {
    let bytes = amount(cx, Resource::Memory, 96 << 20)?;
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().memory(bytes))).await?;
    let seen = number(cx, &sandbox, cx.probes().memory_cap()).await?;
    expect_eq!(seen, bytes, "the memory cap as the program sees it");
    match applied(cx, &sandbox).await? {
        Some(applied) => expect_eq!(applied.memory, Some(bytes), "the memory cap as the provider sees it"),
        None => unproven!("the behaviour probe `applied_resources` is missing"),
    }
    Ok(())
}

async fn a_cpu_limit_is_seen(cx: &Ctx) -> Done {
    let millis = amount(cx, Resource::Cpu, 500)?;
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().cpu_millis(millis))).await?;
    let seen = number(cx, &sandbox, cx.probes().cpu_cap()).await?;
    expect_eq!(seen, millis, "the cpu cap as the program sees it");
    match applied(cx, &sandbox).await? {
        Some(applied) => expect_eq!(applied.cpu_millis, Some(millis), "the cpu cap as the provider sees it"),
        None => unproven!("the behaviour probe `applied_resources` is missing"),
    }
    Ok(())
}

async fn a_cap_on_processes_is_seen(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().pids(77))).await?;
    expect_eq!(number(cx, &sandbox, cx.probes().pids_cap()).await?, 77, "the cap as the program sees it");
    match applied(cx, &sandbox).await? {
        Some(applied) => expect_eq!(applied.pids, Some(77), "the cap as the provider sees it"),
        None => unproven!("the behaviour probe `applied_resources` is missing"),
    }
    Ok(())
}

async fn unset_means_the_stated_default(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut stated = 0;
    for (resource, probe) in [(Resource::Memory, cx.probes().memory_cap()), (Resource::Cpu, cx.probes().cpu_cap())] {
        let honoured = cx.facts().honours(resource);
        if !honoured.limit || cx.spec().resources.get(resource).is_some() {
            continue;
        }
        let Some(default) = honoured.default else {
            fail!("{resource} can be limited, and no finite default is stated")
        };
        expect_eq!(number(cx, &sandbox, probe).await?, default, "{resource} where nothing is asked for");
        stated += 1;
    }
    if cx.has(Pids) && cx.spec().resources.pids.is_none() {
        let Some(default) = cx.facts().pids_by_default() else { fail!("no finite default of processes is stated") };
        let seen = number(cx, &sandbox, cx.probes().pids_cap()).await?;
        expect_eq!(seen, u64::from(default), "processes where nothing is asked for");
        stated += 1;
    }
    if stated == 0 {
        return Err(Stop::Refused("no resource can be limited".into()));
    }
    Ok(())
}

async fn amounts_that_are_not_honoured(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let try_out = async |what: String, amount: Amount, resource: Resource, kind: ErrorKind| -> Done {
        let spec = cx.spec().resources(Resources::new().set(resource, amount));
        match cx.within(20, &what, cx.client().create(spec)).await? {
            Err(error) if error.kind() == kind => Ok(()),
            other => fail!("{what}: expected `{kind}`, got {other:?}"),
        }
    };
    for resource in Resource::ALL {
        let honoured = cx.facts().honours(*resource);
        let fine = honoured.default.or(honoured.min).unwrap_or(64 << 20).max(1);
        for mode in [Mode::Limit, Mode::Request, Mode::Guarantee] {
            let amount = Amount::new(fine).mode(mode);
            if !honoured.honours(mode) {
                try_out(format!("a {mode} of {resource}"), amount, *resource, ErrorKind::Unsupported).await?;
                continue;
            }
            let zero = Amount::new(0).mode(mode);
            try_out(format!("a {mode} of {resource} of zero"), zero, *resource, ErrorKind::InvalidArgument).await?;
            if let Some(min) = honoured.min.filter(|min| *min > 1) {
                let less = Amount::new(min - 1).mode(mode);
                try_out(format!("{resource} under the minimum"), less, *resource, ErrorKind::InvalidArgument).await?;
            }
            if let Some(max) = honoured.max.filter(|max| *max < u64::MAX) {
                let more = Amount::new(max + 1).mode(mode);
                try_out(format!("{resource} over the maximum"), more, *resource, ErrorKind::InvalidArgument).await?;
            }
        }
    }
    if cx.has(Pids) {
        let spec = cx.spec().resources(Resources::new().pids(0));
        expect_kind!(cx.client().create(spec).await, InvalidArgument, "a cap of zero processes");
    }
    cx.nothing_provisioned(creates, "amounts that are not honoured")
}

async fn a_hit_memory_cap_is_told(cx: &Ctx) -> Done {
    let sandbox = small(cx).await?;
    let error = expect_kind!(oom(cx, &sandbox).await?, ResourceExhausted, "a command that hits the memory cap");
    ensure!(error.fate().is_some(), "its fate is not told: {error:?}");
    if cx.has(KillOne) {
        expect_eq!(cx.text(&sandbox, cx.probes().echo("lives")).await?, "lives", "the sandbox afterwards");
    }
    Ok(())
}

async fn a_hit_memory_cap_is_never_success(cx: &Ctx) -> Done {
    let sandbox = small(cx).await?;
    match oom(cx, &sandbox).await? {
        Ok(output) => ensure!(!output.success(), "a command that hits the memory cap succeeded: {output:?}"),
        Err(error) => ensure!(
            matches!(error.kind(), ErrorKind::ResourceExhausted | ErrorKind::Gone),
            "a command that hits the memory cap is no {error:?}"
        ),
    }
    Ok(())
}

async fn small(cx: &Ctx) -> Result<Sandbox, Stop> {
    let bytes = amount(cx, Resource::Memory, 64 << 20)?;
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().memory(bytes))).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().echo("control")).await?, "control", "echo under the cap");
    Ok(sandbox)
}

async fn oom(cx: &Ctx, sandbox: &Sandbox) -> Result<sandbox_core::Result<sandbox::Output>, Stop> {
    let command = cx.probes().oom().timeout(cx.secs(60));
    match cx.within(90, "a command that takes memory", sandbox.run(command)).await? {
        Err(error) if error.kind() == ErrorKind::ExecutionTimeout => {
            Err(Stop::fail(format_args!("the cap stopped nothing in a minute: {error:?}")))
        }
        result => Ok(result),
    }
}

async fn a_cap_on_processes_holds(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().pids(200))).await?;
    let output = cx.run(&sandbox, cx.probes().many_processes(40_u32)).await?;
    expect_eq!((output.code(), output.stdout.text().trim()), (0, "40"), "40 processes under a cap of 200, the control");
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().pids(20))).await?;
    let output = cx.run(&sandbox, cx.probes().many_processes(40_u32)).await;
    let started = match &output {
        Ok(output) if output.success() => output.stdout.text().trim().parse().unwrap_or(0),
        _ => 0,
    };
    ensure!(started < 40, "40 processes under a cap of 20: {output:?}");
    Ok(())
}

async fn a_disk_limit_holds(cx: &Ctx) -> Done {
    let bytes = amount(cx, Resource::Disk, 4 << 20)?;
    if bytes > 1 << 30 {
        unproven!("the least disk of this backend is {bytes} bytes, which is too much to fill");
    }
    let sandbox = cx.sandbox_of(cx.spec().resources(Resources::new().disk(bytes))).await?;
    let content = |bytes: u64| vec![0x5a; usize::try_from(bytes).unwrap_or(0)];
    sandbox.files().write("contract-little", content(bytes / 8)).await?;
    let written =
        cx.within(110, "a write over the limit", sandbox.files().write("contract-much", content(bytes * 2))).await?;
    expect_kind!(written, DiskFull, "a write of twice the disk");
    sandbox.files().write("contract-little", content(bytes / 16)).await?;
    match applied(cx, &sandbox).await? {
        Some(applied) => expect_eq!(applied.disk, Some(bytes), "the disk as the provider sees it"),
        None => unproven!("the behaviour probe `applied_resources` is missing"),
    }
    Ok(())
}

async fn a_used_up_quota(cx: &Ctx) -> Done {
    let Some(exhaust) = &cx.hooks().exhaust_quota else { unproven!("the behaviour probe `exhaust_quota` is missing") };
    drop(cx.sandbox().await?);
    cx.within(30, "the probe `exhaust_quota`", exhaust(())).await??;
    let created = cx.within(120, "a create over the quota", cx.client().create(cx.spec())).await?;
    let error = expect_kind!(created, QuotaExceeded, "a create over the quota");
    ensure!(!error.may_have_applied(), "nothing was made, and the error says otherwise: {error:?}");
    ensure!(error.hint().is_some(), "no hint: {error:?}");
    if cx.can_count() {
        cx.settles_at(0, "after a create over the quota").await?;
    }
    Ok(())
}

async fn a_fork_bomb_is_contained(cx: &Ctx) -> Done {
    let (victim, neighbour) =
        (cx.sandbox_of(cx.spec().resources(Resources::new().pids(32))).await?, cx.sandbox().await?);
    let bomb = cx.probes().fork_bomb().timeout(cx.secs(10));
    match cx.within(60, "a fork bomb", victim.run(bomb)).await? {
        Ok(_) => {}
        Err(error) => ensure!(
            matches!(
                error.kind(),
                ErrorKind::ExecutionTimeout | ErrorKind::ResourceExhausted | ErrorKind::Gone | ErrorKind::StartFailed
            ),
            "a fork bomb: {error:?}"
        ),
    }
    expect_eq!(cx.text(&neighbour, cx.probes().echo("lives")).await?, "lives", "the neighbour of a fork bomb");
    cx.within(60, "close of the sandbox with the bomb", victim.close()).await??;
    Ok(())
}

/// An amount near `wanted` that is honoured as a limit; else the row sees how it is refused.
fn amount(cx: &Ctx, resource: Resource, wanted: u64) -> Result<u64, Stop> {
    let honoured = cx.facts().honours(resource);
    if !honoured.limit {
        return Err(Stop::Refused(format!(
            "{resource} cannot be limited; `create::amounts_that_are_not_honoured_are_refused` sees the refusal"
        )));
    }
    Ok(wanted.clamp(honoured.min.unwrap_or(1), honoured.max.unwrap_or(u64::MAX)))
}

async fn number(cx: &Ctx, sandbox: &Sandbox, probe: sandbox::Command) -> Result<u64, Stop> {
    let text = cx.text(sandbox, probe).await?;
    text.trim().parse().map_err(|_| Stop::fail(format_args!("a probe of a cap wrote {text:?}, not a number")))
}

async fn applied(cx: &Ctx, sandbox: &Sandbox) -> Result<Option<crate::Applied>, Stop> {
    let Some(applied) = &cx.hooks().applied_resources else { return Ok(None) };
    Ok(Some(cx.within(30, "the probe `applied_resources`", applied(sandbox.id().clone())).await??))
}
