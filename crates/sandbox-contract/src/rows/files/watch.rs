//! Changes of files as they happen.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, expect_kind, fail},
    meddle::Point,
    row::{Done, Stop},
};
use sandbox::{Change, ChangeKind, SetMeta, WatchDir, Watcher};
use std::collections::BTreeSet;
use tokio::time::Instant;

pub(super) async fn in_order(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("watched").await?;
    let base = format!("{}/watched", sandbox.cwd().trim_end_matches('/'));
    let mut watcher = watch(cx, &sandbox, WatchDir::new("watched")).await?;
    cx.text(&sandbox, cx.probes().write_file("watched/a", "one")).await?;
    sees(cx, &mut watcher, ChangeKind::Created, &format!("{base}/a")).await?;
    cx.text(&sandbox, cx.probes().bump("watched/a")).await?;
    sees(cx, &mut watcher, ChangeKind::Modified, &format!("{base}/a")).await?;
    files.rename("watched/a", "watched/b").await?;
    // Where a backend cannot tell a rename, it is a removal and a creation.
    let moved = any_of(cx, &mut watcher, &[ChangeKind::Renamed, ChangeKind::Created], &format!("{base}/b")).await?;
    if moved.kind == ChangeKind::Renamed {
        expect_eq!(moved.from, Some(format!("{base}/a")), "where a file was that was renamed");
    }
    files.remove("watched/b").await?;
    sees(cx, &mut watcher, ChangeKind::Removed, &format!("{base}/b")).await?;
    files.make_dir("watched/c").await?;
    sees(cx, &mut watcher, ChangeKind::Created, &format!("{base}/c")).await?;
    Ok(())
}

pub(super) async fn recursive(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("watched/below/deep").await?;
    let base = format!("{}/watched", sandbox.cwd().trim_end_matches('/'));
    let mut flat = watch(cx, &sandbox, WatchDir::new("watched")).await?;
    let mut whole = watch(cx, &sandbox, WatchDir::new("watched").recursive(true)).await?;
    let mut elsewhere = watch(cx, &sandbox, WatchDir::new("watched/below").recursive(true)).await?;
    for path in ["watched/below/deep/x", "watched/below/y", "watched/z"] {
        cx.text(&sandbox, cx.probes().write_file(path, "new")).await?;
    }
    for path in ["below/deep/x", "below/y", "z"] {
        sees(cx, &mut whole, ChangeKind::Created, &format!("{base}/{path}")).await?;
    }
    let seen = until(cx, &mut flat, |change| change.path == format!("{base}/z")).await?;
    let below: Vec<_> = seen.iter().filter(|change| change.path.starts_with(&format!("{base}/below/"))).collect();
    ensure!(below.is_empty(), "a watch of one directory tells of what is below another: {below:?}");
    sees(cx, &mut elsewhere, ChangeKind::Created, &format!("{base}/below/deep/x")).await?;
    cx.text(&sandbox, cx.probes().write_file("watched/below/last", "new")).await?;
    let last = format!("{base}/below/last");
    let seen = until(cx, &mut elsewhere, |change| change.path == last).await?;
    let above: Vec<_> = seen.iter().filter(|change| !change.path.starts_with(&format!("{base}/below"))).collect();
    ensure!(above.is_empty(), "a watch of one directory tells of another: {above:?}");
    Ok(())
}

pub(super) async fn a_burst(cx: &Ctx) -> Done {
    const MANY: u32 = 4000;
    let sandbox = cx.sandbox().await?;
    sandbox.files().make_dir("watched").await?;
    let base = format!("{}/watched", sandbox.cwd().trim_end_matches('/'));
    let mut watcher = watch(cx, &sandbox, WatchDir::new("watched")).await?;
    // Nobody reads meanwhile.
    cx.text(&sandbox, cx.probes().many_files(&base, MANY)).await?;
    let last = format!("{base}/last");
    let (mut created, mut overflows) = (BTreeSet::new(), 0);
    let until = Instant::now() + cx.secs(60);
    let mut next = 0;
    loop {
        ensure!(Instant::now() < until, "the last file is not told after {} of {MANY}", created.len());
        // Told anew until it is seen: one that comes while changes are lost is lost too.
        let name = format!("watched/last-{next}");
        cx.text(&sandbox, cx.probes().write_file(&name, "x")).await?;
        next += 1;
        let mut there = false;
        while let Ok(change) = tokio::time::timeout(cx.secs(1), watcher.next()).await {
            match change? {
                Some(change) if change.kind == ChangeKind::Overflow => {
                    expect_eq!(change.path, base.clone(), "the directory of an overflow");
                    overflows += 1;
                }
                Some(change) if change.path.starts_with(&last) => there = true,
                Some(change) if change.kind == ChangeKind::Created => _ = created.insert(change.path),
                Some(_) => {}
                None => fail!("the watch ended"),
            }
        }
        if there {
            break;
        }
    }
    let seen = created.len();
    let all = seen == MANY as usize;
    ensure!(all || overflows > 0, "{seen} of {MANY} new files were told, and nothing was said of the rest");
    ensure!(seen > 0, "none of {MANY} new files was told");
    Ok(())
}

pub(super) async fn of_what_is_not_there(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("file", "x").await?;
    let before = cx.meddling().calls(Point::Unwatch);
    let missing = cx.within(20, "a watch", files.watch(WatchDir::new("never/was"))).await?;
    let error = expect_kind!(missing, PathNotFound, "a watch of what is not there");
    ensure!(error.to_string().contains("never/was"), "the error does not name the path: {error}");
    expect_kind!(files.watch(WatchDir::new("file")).await, NotADirectory, "a watch of a file");
    expect_kind!(files.watch(WatchDir::new("")).await, InvalidArgument, "a watch of no path");
    expect_eq!(cx.meddling().calls(Point::Unwatch), before, "watches that began all the same");
    drop(watch(cx, &sandbox, WatchDir::new(".")).await?);
    Ok(())
}

pub(super) async fn dropped(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    sandbox.files().make_dir("watched").await?;
    let base = format!("{}/watched", sandbox.cwd().trim_end_matches('/'));
    let (first, mut second) =
        (watch(cx, &sandbox, WatchDir::new("watched")).await?, watch(cx, &sandbox, WatchDir::new("watched")).await?);
    let before = cx.meddling().calls(Point::Unwatch);
    drop(first);
    let limit = Instant::now() + cx.secs(10);
    while cx.meddling().calls(Point::Unwatch) == before {
        ensure!(Instant::now() < limit, "a watch that was dropped goes on in the adapter");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // The other one goes on, and none of this harms the sandbox.
    cx.text(&sandbox, cx.probes().write_file("watched/a", "x")).await?;
    sees(cx, &mut second, ChangeKind::Created, &format!("{base}/a")).await?;
    expect_eq!(cx.meddling().calls(Point::Unwatch), before + 1, "watches that ended");
    Ok(())
}

pub(super) async fn ends_with_its_sandbox(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let mut watcher = watch(cx, &sandbox, WatchDir::new(".")).await?;
    cx.text(&sandbox, cx.probes().write_file("a", "x")).await?;
    sees(cx, &mut watcher, ChangeKind::Created, &format!("{}/a", sandbox.cwd().trim_end_matches('/'))).await?;
    cx.within(60, "close", sandbox.close()).await??;
    let limit = Instant::now() + cx.secs(20);
    let error = loop {
        ensure!(Instant::now() < limit, "the watch of a sandbox that ended goes on");
        match cx.within(20, "the end of a watch", watcher.next()).await? {
            Ok(Some(_)) => {}
            end => break expect_kind!(end, Gone, "the end of a watch whose sandbox was closed"),
        }
    };
    expect_eq!(error.sandbox(), Some(sandbox.id()), "the sandbox that the error names");
    expect_eq!(watcher.next().await?, None, "what comes after the end");
    expect_kind!(sandbox.files().watch(WatchDir::new(".")).await, Gone, "a watch after the close");
    Ok(())
}

pub(super) async fn attributes(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let files = sandbox.files();
    files.write("watched/a", "x").await?;
    let base = format!("{}/watched", sandbox.cwd().trim_end_matches('/'));
    let mut watcher = watch(cx, &sandbox, WatchDir::new("watched")).await?;
    files.set_meta(SetMeta::new("watched/a").mode(Some(0o600))).await?;
    sees(cx, &mut watcher, ChangeKind::Attributes, &format!("{base}/a")).await
}

async fn watch(cx: &Ctx, sandbox: &sandbox::Sandbox, request: WatchDir) -> Result<Watcher, Stop> {
    Ok(cx.within(20, "a watch", sandbox.files().watch(request)).await??)
}

/// Reads until this change comes; others in between are fine, since systems differ in what else they tell.
async fn sees(cx: &Ctx, watcher: &mut Watcher, kind: ChangeKind, path: &str) -> Done {
    any_of(cx, watcher, &[kind], path).await.map(drop)
}

async fn any_of(cx: &Ctx, watcher: &mut Watcher, kinds: &[ChangeKind], path: &str) -> Result<Change, Stop> {
    let what = format!("{kinds:?} of {path}");
    let seen = until(cx, watcher, |change| change.path == path && kinds.contains(&change.kind)).await;
    let mut seen = seen.map_err(|stop| stop.during(&what))?;
    Ok(seen.pop().expect("the last one is the one that was waited for"))
}

/// Reads up to and with the change that is meant.
async fn until(cx: &Ctx, watcher: &mut Watcher, is_it: impl Fn(&Change) -> bool) -> Result<Vec<Change>, Stop> {
    let mut seen = Vec::new();
    loop {
        let next = cx.within(20, &format!("a change after {seen:?}"), watcher.next()).await??;
        match next {
            Some(change) => seen.push(change),
            None => fail!("the watch ended after {seen:?}"),
        }
        if seen.last().is_some_and(&is_it) {
            return Ok(seen);
        }
    }
}
