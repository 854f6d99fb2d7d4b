//! Rows of the area `build`: an image is what its definition says, and is made once.

use super::{files::HostDir, lifecycle::all};
use crate::{
    Ctx,
    ctx::World,
    expect::{ensure, expect_eq, expect_kind, fail, unproven},
    meddle::{Fault, Point},
    row::{Done, Row, Stop, row},
};
use sandbox::{Command, Definition, Limits, Sandbox};
use sandbox_core::{
    Capability::{Build, Run, Snapshot},
    ErrorKind, Spec,
};
use std::time::Duration;

pub(crate) static ROWS: &[Row] = &[
    row!("build::an_image_is_what_its_definition_says", what_it_says).needs(&[Build, Run]),
    row!("build::ten_at_once_build_once", ten_at_once).needs(&[Build]).limit(300),
    row!("build::a_rebuild_builds_again", a_rebuild).needs(&[Build]),
    row!("build::another_context_is_another_image", another_context).needs(&[Build, Run]),
    row!("build::a_failing_step_is_told_with_its_output", a_failing_step).needs(&[Build]),
    row!("build::an_unknown_base_is_told_and_leaves_nothing", an_unknown_base).needs(&[Build]),
    row!("build::an_image_that_is_gone_is_built_anew", gone).needs(&[Build, Run]),
    row!("build::whoever_gives_up_leaves_nothing_and_the_next_goes_on", giving_up).facade().needs(&[Build]),
    row!("build::what_cannot_be_right_is_refused_before_anything_is_sent", what_cannot_be_right)
        .facade()
        .needs(&[Build]),
];

async fn what_it_says(cx: &Ctx) -> Done {
    let (context, marker) = (HostDir::new(cx)?, cx.marker());
    context.write("file", "of the context")?;
    context.write("dir/below/deep", "deeper")?;
    context.write("left-out", "x")?;
    context.write(".dockerignore", "# not this\nleft-*\n")?;
    let made = run(&cx.probes().write_file("made", "by a step"))?;
    let text = format!(
        "# what every builder knows\nFROM {}\nARG WORD=unset\nENV CONTRACT_A=\"$WORD and ${{WORD}}\" \\\n    CONTRACT_B=old\n\
         WORKDIR {DIR}\nCOPY file ./\nCOPY dir {DIR}/dir\nCOPY . all/\n{made}\nLABEL contract.x=y\n",
        base(cx)?
    );
    let definition = Definition::new(text).context(context.path()).arg("WORD", &marker);
    let sandbox = cx.sandbox_of(of(cx, &definition).env("CONTRACT_B", "new")).await?;
    expect_eq!(sandbox.cwd(), DIR, "the working directory that the sandbox tells");
    expect_eq!(cx.text(&sandbox, cx.probes().pwd()).await?, DIR, "the working directory");
    let twice = format!("{marker} and {marker}");
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_A")).await?, twice, "a variable of an argument");
    expect_eq!(cx.text(&sandbox, cx.probes().env("CONTRACT_B")).await?, "new", "a variable of the spec wins");
    for (path, content) in [
        ("file", "of the context"),
        ("dir/below/deep", "deeper"),
        ("all/file", "of the context"),
        ("all/dir/below/deep", "deeper"),
        ("made", "by a step"),
    ] {
        expect_eq!(cx.text(&sandbox, cx.probes().read_file(path)).await?, content, "the file `{path}`");
    }
    let left_out = cx.run(&sandbox, cx.probes().exists("all/left-out")).await?;
    ensure!(!left_out.success(), "what `.dockerignore` names was copied");
    sandbox.close().await?;
    // Built ahead, it is the same image, which has a name like any other.
    let image = cx.client().build(definition).await?;
    let by_name = cx.sandbox_of(cx.spec().image(&*image)).await?;
    expect_eq!(cx.text(&by_name, cx.probes().read_file("made")).await?, "by a step", "a file of the image by its name");
    expect_eq!(cx.meddling().calls(Point::Build), 1, "how often the adapter was asked to build");
    by_name.close().await?;
    removed(cx, image).await
}

async fn ten_at_once(cx: &Ctx) -> Done {
    let definition = Definition::new(format!("FROM {}\nLABEL contract.marker={}\n", base(cx)?, cx.marker()));
    let (before, creates) = (builds(cx).await?, cx.creates());
    let made = all((0..10).map(|_| Box::pin(cx.sandbox_of(of(cx, &definition)))).collect()).await;
    let made = made.into_iter().collect::<Result<Vec<Sandbox>, Stop>>()?;
    expect_eq!(cx.meddling().calls(Point::Build), 1, "how often the adapter was asked to build for ten creates");
    expect_eq!(cx.creates() - creates, 10, "how often it was asked to create");
    let image = cx.client().build(definition.clone()).await?;
    expect_eq!(cx.meddling().calls(Point::Build), 1, "how often it was asked to build once the image is known");
    // Another client finds it, where it is a client of the same provider.
    let other = cx.another()?;
    if cx.can_count() && other.count().await? == 10 {
        let known = builds(&other).await?;
        drop(other.sandbox_of(of(&other, &definition)).await?);
        expect_eq!(builds(&other).await?, known, "builds of a client that could have found the image");
    }
    other.end().await?;
    let built = builds(cx).await?.zip(before).map(|(now, before)| now - before);
    for sandbox in made {
        sandbox.close().await?;
    }
    removed(cx, image).await?;
    match built {
        Some(built) => expect_eq!(built, 1, "builds at the provider"),
        None => unproven!("the behaviour probe `builds` is missing"),
    }
    Ok(())
}

async fn a_rebuild(cx: &Ctx) -> Done {
    let definition = Definition::new(format!("FROM {}\nLABEL contract.marker={}\n", base(cx)?, cx.marker()));
    let before = builds(cx).await?;
    for (rebuild, expected) in [(false, 1), (true, 2), (false, 2), (true, 3)] {
        let one = if rebuild { definition.clone().rebuild() } else { definition.clone() };
        cx.sandbox_of(of(cx, &one)).await?.close().await?;
        expect_eq!(cx.meddling().calls(Point::Build), expected, "how often the adapter was asked to build");
    }
    let built = builds(cx).await?.zip(before).map(|(now, before)| now - before);
    let image = cx.client().build(definition).await?;
    removed(cx, image).await?;
    match built {
        Some(built) => expect_eq!(built, 3, "builds at the provider"),
        None => unproven!("the behaviour probe `builds` is missing"),
    }
    Ok(())
}

async fn another_context(cx: &Ctx) -> Done {
    let (context, marker) = (HostDir::new(cx)?, cx.marker());
    context.write(".dockerignore", "notes")?;
    let text = format!("FROM {}\nWORKDIR {DIR}\nCOPY file file\n", base(cx)?);
    let definition = Definition::new(text).context(context.path());
    let mut images = Vec::new();
    for (content, notes, expected) in [("one", "a", 1), ("two", "a", 2), ("two", "b", 2), ("one", "b", 2)] {
        context.write("file", format!("{content} {marker}"))?;
        context.write("notes", notes)?;
        let sandbox = cx.sandbox_of(of(cx, &definition)).await?;
        let read = cx.text(&sandbox, cx.probes().read_file("file")).await?;
        expect_eq!(read, format!("{content} {marker}"), "the file of the context");
        expect_eq!(cx.meddling().calls(Point::Build), expected, "how often the adapter was asked to build");
        sandbox.close().await?;
        images.push(cx.client().build(definition.clone()).await?);
    }
    ensure!(images[0] != images[1] && images[1] == images[2] && images[0] == images[3], "names of images: {images:?}");
    for image in images.drain(..2) {
        removed(cx, image).await?;
    }
    Ok(())
}

async fn a_failing_step(cx: &Ctx) -> Done {
    let (marker, creates) = (cx.marker(), cx.creates());
    let text =
        |code| Ok::<_, Stop>(format!("FROM {}\n{}\n", base(cx)?, run(&cx.probes().say_and_exit(&*marker, code))?));
    let created = cx.within(120, "a create", cx.client().create(of(cx, &Definition::new(text(3)?)))).await?;
    let error = expect_kind!(created, CreateFailed, "a create whose definition has a step that fails");
    let told = error.message().matches(&*marker).count();
    ensure!(told >= 2, "the step and what it wrote both have {marker}, which is {told} times in: {error:?}");
    ensure!(
        error.message().contains("RUN") && error.message().contains('3'),
        "it tells no step, or no code: {error:?}"
    );
    ensure!(error.hint().is_some(), "no hint: {error:?}");
    cx.nothing_provisioned(creates, "a step that fails")?;
    expect_eq!(cx.client().orphans().len(), 0, "orphan reports: {:?}", cx.client().orphans());
    if cx.can_count() {
        cx.settles_at(0, "after a step that failed").await?;
    }
    // The control: what does not fail is built, and what failed was not kept.
    let fine = cx.client().build(Definition::new(text(0)?)).await?;
    let again = cx.within(120, "a build", cx.client().build(Definition::new(text(3)?))).await?;
    expect_kind!(again, CreateFailed, "the same once more");
    removed(cx, fine).await
}

async fn an_unknown_base(cx: &Ctx) -> Done {
    let creates = cx.creates();
    let definition = Definition::new("FROM sandbox-contract-no-such-image:0\nLABEL a=b\n");
    let spec = of(cx, &definition).prepare_timeout(cx.secs(60));
    let created = cx.within(150, "a create of an unknown base", cx.client().create(spec)).await?;
    let Err(error) = created else { fail!("a create of an unknown base succeeded") };
    // Where the registry cannot be asked, it is not known whether it has the image.
    ensure!(
        matches!(error.kind(), ErrorKind::ImageNotFound | ErrorKind::RegistryUnreachable),
        "expected `image-not-found`, got {error:?}"
    );
    ensure!(format!("{error:?}").contains("sandbox-contract-no-such-image"), "it does not name the image: {error:?}");
    cx.nothing_provisioned(creates, "an unknown base")?;
    let known = Definition::new(format!("FROM {}\nLABEL contract.marker={}\n", base(cx)?, cx.marker()));
    let image = cx.client().build(known).await?;
    removed(cx, image).await
}

async fn gone(cx: &Ctx) -> Done {
    if cx.hooks().remove_image.is_none() {
        unproven!("the behaviour probe `remove_image` is missing");
    }
    let marker = cx.marker();
    let step = run(&cx.probes().write_file("contract-made", &*marker))?;
    let definition = Definition::new(format!("FROM {}\nWORKDIR {DIR}\n{step}\n", base(cx)?));
    let read = async |sandbox: &Sandbox| cx.text(sandbox, cx.probes().read_file("contract-made")).await;
    let first = cx.sandbox_of(of(cx, &definition)).await?;
    expect_eq!(read(&first).await?, marker, "a file of the image");
    first.close().await?;
    let image = cx.client().build(definition.clone()).await?;
    removed(cx, image).await?;
    let second = cx.sandbox_of(of(cx, &definition)).await?;
    expect_eq!(read(&second).await?, marker, "a file of the image that was built anew");
    expect_eq!(cx.meddling().calls(Point::Build), 2, "how often the adapter was asked to build");
    second.close().await?;
    let image = cx.client().build(definition).await?;
    removed(cx, image).await
}

async fn giving_up(cx: &Ctx) -> Done {
    let world = cx.limited(Limits::new())?;
    let definition = Definition::new(format!("FROM {}\nLABEL contract.marker={}\n", base(cx)?, cx.marker()));
    let spec = || of(&world, &definition);
    world.meddling().set(Point::Build, Fault::Hang);
    let late = world.client().create(spec().prepare_timeout(cx.secs(1)));
    let created = cx.within(30, "a create whose build does not end", late).await?;
    let error = expect_kind!(created, CreateTimeout, "a create whose build does not end");
    ensure!(error.hint().is_some_and(|hint| hint.contains("prepare_timeout")), "the hint names no setting: {error:?}");
    ensure!(!error.may_have_applied(), "nothing was made, and the error is not sure: {error:?}");
    // One builds, the other waits for it.
    let (mut first, mut second) = (Box::pin(world.client().create(spec())), Box::pin(world.client().create(spec())));
    let begun = async {
        let until = tokio::time::Instant::now() + cx.secs(30);
        while world.meddling().calls(Point::Build) < 2 && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        biased;
        made = &mut first => fail!("the first is over: {made:?}"),
        () = begun => {}
    }
    tokio::select! {
        biased;
        made = &mut second => fail!("the second is over: {made:?}"),
        () = tokio::time::sleep(Duration::from_millis(300)) => {}
    }
    expect_eq!(world.meddling().calls(Point::Build), 2, "builds begun while one is under way");
    expect_eq!(world.creates(), 0, "creates before there is an image");
    world.meddling().clear();
    drop(first);
    let made = cx.within(120, "the second create, which goes on with the build", second).await??;
    expect_eq!(world.meddling().calls(Point::Build), 3, "builds, the second create's own among them");
    expect_eq!(world.creates(), 1, "creates");
    made.close().await?;
    let image = world.client().build(definition.clone()).await?;
    if world.can_count() {
        world.settles_at(0, "after creates that gave up").await?;
    }
    expect_eq!(world.client().orphans().len(), 0, "orphan reports: {:?}", world.client().orphans());
    removed(&world, image).await?;
    world.end().await
}

async fn what_cannot_be_right(cx: &Ctx) -> Done {
    let (context, creates) = (HostDir::new(cx)?, cx.creates());
    context.write("file", "x")?;
    let fine = || Definition::new(format!("FROM {}\nLABEL contract.marker=same\n", base(cx).unwrap_or_default()));
    let mut cases = vec![
        ("an image and a definition", of(cx, &fine()).image("contract-image"), ErrorKind::InvalidArgument),
        ("an empty definition", of(cx, &Definition::new("\n  \n# FROM a\n")), ErrorKind::InvalidArgument),
        ("a definition without FROM", of(cx, &Definition::new("RUN x\nFROM a\n")), ErrorKind::InvalidArgument),
        ("an argument without a name", of(cx, &fine().arg("", "x")), ErrorKind::InvalidArgument),
        ("an argument with a `=` in its name", of(cx, &fine().arg("A=B", "x")), ErrorKind::InvalidArgument),
        ("a context that is not there", of(cx, &fine().context(context.join("no"))), ErrorKind::PathNotFound),
        ("a context that is a file", of(cx, &fine().context(context.join("file"))), ErrorKind::NotADirectory),
    ];
    if cx.has(Snapshot) {
        let both = of(cx, &fine()).snapshot("contract-snapshot");
        cases.push(("a snapshot and a definition", both, ErrorKind::InvalidArgument));
    }
    #[cfg(unix)]
    let leaving = {
        let leaving = HostDir::new(cx)?;
        std::os::unix::fs::symlink("../../etc/passwd", leaving.join("link")).map_err(Stop::fail)?;
        leaving
    };
    #[cfg(unix)]
    cases.push(("a link that leaves the context", of(cx, &fine().context(leaving.path())), ErrorKind::InvalidArgument));
    for (what, spec, kind) in cases {
        let created = cx.within(30, what, cx.client().create(spec)).await?;
        let Err(error) = created else { fail!("{what}: it was made") };
        expect_eq!(error.kind(), kind, "{what}: {error:?}");
        ensure!(!error.may_have_applied(), "{what}: nothing was sent, and the error is not sure: {error:?}");
        let of_the_host = kind != ErrorKind::InvalidArgument;
        ensure!(!of_the_host || error.message().contains("on the host"), "{what}: on which side is it? {error:?}");
        cx.nothing_provisioned(creates, what)?;
        expect_eq!(cx.meddling().calls(Point::Build), 0, "{what}: how often the adapter was asked to build");
    }
    // The control: the same with nothing wrong.
    let image = cx.client().build(fine().context(context.path())).await?;
    removed(cx, image).await
}

/// The image that definitions begin with.
fn base(cx: &World) -> Result<String, Stop> {
    let image = cx.spec().image;
    image
        .ok_or_else(|| Stop::unproven("the subject's spec names no image, so there is none to begin a definition with"))
}

/// The subject's spec, to be made from a definition.
fn of(cx: &World, definition: &Definition) -> Spec {
    let mut spec = cx.spec().build(definition.clone());
    spec.image = None;
    spec
}

/// A command as a step.
fn run(command: &Command) -> Result<String, Stop> {
    serde_json::to_string(command.argv()).map(|argv| format!("RUN {argv}")).map_err(Stop::fail)
}

/// How often the provider has built, where that is known.
async fn builds(cx: &World) -> Result<Option<usize>, Stop> {
    let Some(builds) = &cx.hooks().builds else { return Ok(None) };
    Ok(Some(cx.within(30, "the probe `builds`", builds(())).await??))
}

/// Nothing of a row stays.
async fn removed(cx: &World, image: String) -> Done {
    if let Some(remove) = &cx.hooks().remove_image {
        cx.within(30, "the probe `remove_image`", remove(image)).await??;
    }
    Ok(())
}

const DIR: &str = "/contract-build";
