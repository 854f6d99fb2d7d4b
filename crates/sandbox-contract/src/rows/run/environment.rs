//! Variables, working directory, user.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    row::Done,
    rows::lifecycle::all,
};
use sandbox::{Overrides, Sandbox};

pub(super) async fn for_its_call_alone(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let env = || cx.probes().env("CONTRACT_VAR");
    expect_eq!(cx.text(&sandbox, env()).await?, "unset", "before");
    expect_eq!(cx.text(&sandbox, env().env("CONTRACT_VAR", "of the call")).await?, "of the call", "in the call");
    expect_eq!(cx.text(&sandbox, env()).await?, "unset", "in the next call");
    let path = cx.text(&sandbox, cx.probes().env("PATH").env("CONTRACT_VAR", "x")).await?;
    ensure!(!path.is_empty() && path != "unset", "the image's own PATH is lost: {path:?}");
    Ok(())
}

pub(super) async fn the_inner_one_wins(cx: &Ctx) -> Done {
    let spec = cx.spec().env("CONTRACT_A", "spec").env("CONTRACT_B", "spec").env("CONTRACT_C", "spec");
    let sandbox = cx.sandbox_of(spec).await?;
    let view = sandbox.with(Overrides::new().env("CONTRACT_C", "view").env("CONTRACT_D", "view"));
    let inner = view.with(Overrides::new().env("CONTRACT_D", "inner"));
    let of = async |sandbox: &Sandbox, name: &str| {
        let call = cx.probes().env(name).env("CONTRACT_B", "call").env("CONTRACT_C", "call");
        cx.text(sandbox, call).await
    };
    for (name, plain, viewed, innermost) in [
        ("CONTRACT_A", "spec", "spec", "spec"),
        ("CONTRACT_B", "call", "call", "call"),
        ("CONTRACT_C", "call", "view", "view"),
        ("CONTRACT_D", "unset", "view", "inner"),
    ] {
        expect_eq!(of(&sandbox, name).await?, plain, "{name} without a view");
        expect_eq!(of(&view, name).await?, viewed, "{name} in a view");
        expect_eq!(of(&inner, name).await?, innermost, "{name} in a view of a view");
    }
    let twice = cx.probes().env("CONTRACT_A").env("CONTRACT_A", "first").env("CONTRACT_A", "second");
    expect_eq!(cx.text(&sandbox, twice).await?, "second", "a variable that is set twice");
    Ok(())
}

pub(super) async fn values_arrive_exactly(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    for value in ["", "a=b=c", "  blanks  ", "$HOME `id`", "two\nlines", "'\"\\", "ünïcödé 日本", "-n"] {
        let output = cx.run(&sandbox, cx.probes().env("CONTRACT_VAR").env("CONTRACT_VAR", value)).await?;
        expect_eq!(output.stdout.text(), format!("{value}\n"), "the value");
    }
    let name = "_Contract9_x";
    expect_eq!(cx.text(&sandbox, cx.probes().env(name).env(name, "v")).await?, "v", "a variable named {name}");
    Ok(())
}

pub(super) async fn concurrent_overrides(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let runs = (0..12).map(|n| {
        let view = sandbox.with(Overrides::new().env("CONTRACT_VAR", format!("view {n}")));
        Box::pin(async move { cx.text(&view, cx.probes().env("CONTRACT_VAR")).await })
    });
    for (n, text) in all(runs.collect()).await.into_iter().enumerate() {
        expect_eq!(text?, format!("view {n}"), "the variable of view {n} among twelve");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_VAR")).await?, "unset", "the variable without a view");
    Ok(())
}

pub(super) async fn a_working_directory_holds(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let own = sandbox.cwd().to_string();
    expect_eq!(cx.text(&sandbox, cx.probes().pwd()).await?, own, "unset");
    let other = if own == "/" { "/tmp" } else { "/" };
    expect_eq!(cx.text(&sandbox, cx.probes().pwd().cwd(other)).await?, other, "absolute");
    expect_eq!(cx.text(&sandbox, cx.probes().pwd()).await?, own, "unset, in the next call");
    expect_eq!(cx.text(&sandbox, cx.probes().pwd().cwd(".")).await?, own, "relative");
    let view = sandbox.with(Overrides::new().cwd(other));
    expect_eq!(cx.text(&view, cx.probes().pwd()).await?, other, "of a view");
    expect_eq!(cx.text(&view, cx.probes().pwd().cwd(&own)).await?, own, "of a call in a view");
    Ok(())
}

pub(super) async fn a_relative_one(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    sandbox.files().make_dir("contract-dir/below").await?;
    let whole = format!("{}/contract-dir/below", sandbox.cwd().trim_end_matches('/'));
    expect_eq!(cx.text(&sandbox, cx.probes().pwd().cwd("contract-dir/below")).await?, whole, "of a call");
    let view = sandbox.with(Overrides::new().cwd("contract-dir"));
    expect_eq!(cx.text(&view, cx.probes().pwd().cwd("below")).await?, whole, "of a call in a relative view");
    // Files start at the same place as commands.
    view.files().write("below/file", "same").await?;
    let read = cx.probes().read_file("file").cwd("contract-dir/below");
    expect_eq!(cx.text(&sandbox, read).await?, "same", "a file by a relative path");
    Ok(())
}

pub(super) async fn a_missing_one(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let trace = format!("{}/contract-trace", sandbox.cwd().trim_end_matches('/'));
    cx.text(&sandbox, cx.probes().bump(&trace).cwd("/")).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&trace)).await?, "x", "the trace of a command that ran");
    for missing in ["/contract-no-such-dir", "contract/no/such/dir"] {
        let run = cx.within(30, missing, sandbox.run(cx.probes().bump(&trace).cwd(missing))).await?;
        let error = expect_kind!(run, PathNotFound, "a working directory that is not there");
        ensure!(error.to_string().contains(missing.trim_start_matches('/')), "the error does not name it: {error}");
        expect_kind!(sandbox.start(cx.probes().bump(&trace).cwd(missing)).await, PathNotFound, "the same by `start`");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&trace)).await?, "x", "the trace afterwards");
    Ok(())
}

pub(super) async fn one_that_is_a_file(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let trace = format!("{}/contract-trace", sandbox.cwd().trim_end_matches('/'));
    cx.text(&sandbox, cx.probes().bump(&trace)).await?;
    let run = cx.within(30, "run in a file", sandbox.run(cx.probes().bump(&trace).cwd(&trace))).await?;
    let error = expect_kind!(run, NotADirectory, "a working directory that is a file");
    ensure!(error.to_string().contains(&trace), "the error does not name it: {error}");
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&trace)).await?, "x", "the trace afterwards");
    Ok(())
}

pub(super) async fn a_user(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let own = cx.text(&sandbox, cx.probes().uid()).await?;
    // Two that are not the same, so that one of them is not the default.
    for uid in ["0", "65534"] {
        expect_eq!(cx.text(&sandbox, cx.probes().uid().user(uid)).await?, uid, "the uid of user {uid}");
        let view = sandbox.with(Overrides::new().user(uid));
        expect_eq!(cx.text(&view, cx.probes().uid()).await?, uid, "the uid in a view as user {uid}");
    }
    expect_eq!(cx.text(&sandbox, cx.probes().uid()).await?, own, "the uid of the default user, afterwards");
    let mut named = 0;
    for uid in ["0", "65534"] {
        let output = cx.run(&sandbox, cx.probes().user_name().user(uid)).await?;
        let name = output.stdout.text().trim().to_string();
        if output.success() && !name.is_empty() && name.parse::<u32>().is_err() {
            expect_eq!(cx.text(&sandbox, cx.probes().uid().user(&name)).await?, uid, "the uid of user `{name}`");
            named += u32::from(uid != own);
        }
    }
    if named == 0 {
        unproven!("the image names no user but the default one, so a name cannot be told from the default");
    }
    Ok(())
}

pub(super) async fn an_unknown_user(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let trace = format!("{}/contract-trace", sandbox.cwd().trim_end_matches('/'));
    cx.text(&sandbox, cx.probes().bump(&trace)).await?;
    let command = || cx.probes().bump(&trace).user("contract-nobody");
    let error = expect_kind!(cx.within(30, "run", sandbox.run(command())).await?, InvalidArgument, "an unknown user");
    ensure!(error.to_string().contains("contract-nobody"), "the error does not name the user: {error}");
    match sandbox.start(command()).await {
        Err(error) if error.kind() == sandbox_core::ErrorKind::InvalidArgument => {}
        other => fail!("start as an unknown user: expected `invalid-argument`, got {other:?}"),
    }
    expect_eq!(cx.text(&sandbox, cx.probes().read_file(&trace)).await?, "x", "the trace afterwards");
    Ok(())
}
