//! Rows of the area `services`: what runs beside a sandbox, ends with it, and is reached by name from inside.

mod ends;
mod handles;
mod reach;

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind},
    row::{Done, Row, Stop, row},
};
use sandbox::{Command, Sandbox};
use sandbox_core::Capability::{Attach, Deny, Files, Labels, List, Run, SecretStore, Services, User};

pub(crate) static ROWS: &[Row] = &[
    row!("services::run_beside_and_are_run_in", run_beside).needs(&[Services, Run]),
    row!("services::files_go_in_and_come_out", files_go_in_and_come_out).needs(&[Services, Run, Files]),
    row!("services::inherit_no_user_environment_or_directory", inherit_nothing).needs(&[Services, Run, User]),
    row!("services::are_reached_by_name_from_their_sandbox_alone", reach::by_name).needs(&[Services, Run, Deny]),
    row!("services::what_they_reach_is_under_the_policy", reach::under_the_policy).needs(&[Services, Run, Deny]),
    row!("services::a_stopped_one_takes_nobody_along", ends::a_stopped_one).needs(&[Services, Run]),
    row!("services::one_that_ends_by_itself_is_gone_alone", ends::by_itself).needs(&[Services, Run]),
    row!("services::end_with_their_sandbox", ends::with_their_sandbox).needs(&[Services, Run]),
    row!("services::a_create_that_fails_leaves_none", ends::a_create_that_fails).needs(&[Services]).limit(300),
    row!("services::are_in_no_list", are_in_no_list).needs(&[Services, List, Labels]),
    row!("services::attach_finds_them", attach_finds_them).needs(&[Services, Run, Attach]),
    row!("services::an_unknown_name_is_not_found", handles::an_unknown_name).facade().needs(&[Services]),
    row!("services::what_is_of_the_whole_sandbox_is_refused", handles::of_the_whole_sandbox)
        .facade()
        .needs(&[Services, Run]),
    row!("services::a_handle_keeps_its_sandbox_and_ends_nothing", handles::keep_their_sandbox)
        .facade()
        .needs(&[Services, Run]),
    row!("services::what_cannot_be_right_is_refused_before_anything_is_sent", handles::what_cannot_be_right)
        .facade()
        .needs(&[Services]),
];

/// The names of services in these rows.
const ONE: &str = "contract-one";
const TWO: &str = "contract-two";

/// A sandbox beside which these run.
async fn with(cx: &Ctx, all: &[(&str, Command)]) -> Result<Sandbox, Stop> {
    let mut spec = cx.spec();
    for (name, main) in all {
        spec = spec.service(*name, cx.service(main)?);
    }
    cx.sandbox_of(spec).await
}

async fn run_beside(cx: &Ctx) -> Done {
    let (first, second) = (cx.marker(), cx.marker());
    let sandbox = with(cx, &[(ONE, cx.probes().hang(&first)), (TWO, cx.probes().hang(&second))]).await?;
    let (one, two) = (sandbox.service(ONE)?, sandbox.service(TWO)?);
    let ids = [sandbox.id(), one.id(), two.id()];
    ensure!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "ids are not their own: {ids:?}");
    for (service, own, other) in [(&one, &first, &second), (&two, &second, &first)] {
        cx.appears(service, own).await?;
        expect_eq!(cx.alive(service, other).await?, 0, "the main program of the other service, in this one");
        let output = cx.run(service, cx.probes().fail(3)).await?;
        let said = (output.code(), output.stdout.text().into_owned(), output.stderr.text().into_owned());
        expect_eq!(said, (3, "out\n".to_string(), "err\n".to_string()), "a command in a service");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().echo("beside")).await?, "beside", "a command in the sandbox");
    expect_eq!(sandbox.service(ONE)?.id(), one.id(), "the id, asked for again");
    Ok(())
}

async fn files_go_in_and_come_out(cx: &Ctx) -> Done {
    let sandbox = with(cx, &[(ONE, cx.probes().hang(cx.marker()))]).await?;
    let one = sandbox.service(ONE)?;
    let path = |name: &str| format!("{}/{name}", one.cwd().trim_end_matches('/'));
    let (inside, out) = (path("contract-in"), path("contract-out"));
    cx.within(60, "a write", one.files().write(&inside, "went in")).await??;
    expect_eq!(cx.text(&one, cx.probes().read_file(&*inside)).await?, "went in", "what went in");
    cx.text(&one, cx.probes().write_file(&*out, "came out")).await?;
    expect_eq!(cx.within(60, "a read", one.files().read_text(&out)).await??, "came out", "what came out");
    expect_eq!(one.files().read_text("contract-out").await?, "came out", "the same by a relative path");
    // They are not the sandbox's, under the same path.
    expect_kind!(sandbox.files().read(&inside).await, PathNotFound, "a file of the service, in the sandbox");
    sandbox.files().write(&inside, "the sandbox's").await?;
    expect_eq!(one.files().read_text(&inside).await?, "went in", "the service's, after the sandbox wrote its own");
    Ok(())
}

async fn inherit_nothing(cx: &Ctx) -> Done {
    let service = cx.service(&cx.probes().hang(cx.marker()))?;
    let seen = async |sandbox: &Sandbox| {
        Ok::<_, Stop>((
            cx.text(sandbox, cx.probes().env("CONTRACT_A")).await?,
            cx.text(sandbox, cx.probes().uid()).await?,
            cx.text(sandbox, cx.probes().pwd()).await?,
        ))
    };
    let as_told = |env: &str, uid: &str, cwd: &str| (env.to_string(), uid.to_string(), cwd.to_string());
    let plain = cx.sandbox_of(cx.spec().service(ONE, service.clone())).await?;
    let reference = seen(&plain.service(ONE)?).await?;
    expect_eq!(reference.0, "unset", "a variable that nobody set");
    drop(plain);
    let own = service.clone().env("CONTRACT_A", "its own").user("1000").cwd("/contract-own");
    let mut spec = cx.spec().env("CONTRACT_A", "the spec's").user("1234").cwd("/contract-spec");
    if cx.has(SecretStore) {
        spec = spec.secret("CONTRACT_SECRET", "contract-secret");
    }
    let sandbox = cx.sandbox_of(spec.service(ONE, service).service(TWO, own)).await?;
    expect_eq!(seen(&sandbox).await?, as_told("the spec's", "1234", "/contract-spec"), "in the sandbox, the control");
    let (one, two) = (sandbox.service(ONE)?, sandbox.service(TWO)?);
    if cx.has(SecretStore) {
        let secret = || cx.probes().env("CONTRACT_SECRET");
        expect_eq!(cx.text(&sandbox, secret()).await?, "contract-secret", "a secret in the sandbox, the control");
        expect_eq!(cx.text(&one, secret()).await?, "unset", "a secret of the spec, in a service");
    }
    expect_eq!(seen(&one).await?, reference, "in a service that says nothing, as beside a sandbox that says nothing");
    expect_eq!(one.cwd(), reference.2, "the working directory that a handle tells");
    expect_eq!(seen(&two).await?, as_told("its own", "1000", "/contract-own"), "in a service that says so itself");
    expect_eq!(two.cwd(), "/contract-own", "the working directory that a handle tells");
    Ok(())
}

async fn are_in_no_list(cx: &Ctx) -> Done {
    let sandbox = with(cx, &[(ONE, cx.probes().hang(cx.marker()))]).await?;
    expect_eq!(cx.listed().await?, [sandbox.id().clone()], "the list of a sandbox with a service");
    if cx.hooks().count.is_some() {
        expect_eq!(cx.count().await?, 1, "sandboxes, as the provider counts them");
    }
    Ok(())
}

async fn attach_finds_them(cx: &Ctx) -> Done {
    let marker = cx.marker();
    let sandbox = with(cx, &[(ONE, cx.probes().hang(&marker)), (TWO, cx.probes().hang(cx.marker()))]).await?;
    let attached = cx.within(60, "an attach", cx.client().attach(sandbox.id())).await??;
    let one = attached.service(ONE)?;
    expect_eq!(one.id(), sandbox.service(ONE)?.id(), "the id of the service");
    cx.appears(&one, &marker).await?;
    drop((one, attached));
    expect_eq!(cx.text(&sandbox.service(ONE)?, cx.probes().echo("on")).await?, "on", "after the attached handle went");
    // A service is no sandbox to be reached, and one that was stopped is not found again.
    let service = sandbox.service(TWO)?;
    expect_kind!(cx.client().attach(service.id()).await, NotFound, "an attach to the id of a service");
    cx.within(60, "close of a service", service.close()).await??;
    let again = cx.within(60, "an attach", cx.client().attach(sandbox.id())).await??;
    expect_eq!(cx.text(&again.service(ONE)?, cx.probes().echo("on")).await?, "on", "the service that is left");
    let stopped = match again.service(TWO) {
        Ok(stopped) => stopped.run(cx.probes().echo("x")).await.map(drop),
        Err(error) if error.kind() == sandbox_core::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    };
    expect_kind!(stopped, Gone, "work in a service that was stopped, by another handle");
    Ok(())
}
