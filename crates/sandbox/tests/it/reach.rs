//! Sandboxes by their ids: attach, detach, list, sweep, destroy.

use crate::common::{
    Host, any, limits, ms, own_sleep,
    scripted::{Script, after, code, error, hook, script, script_of},
    sleepers, spec, until,
};
use sandbox::{Capability, Client, Command, ErrorKind, Listed, Query, SandboxId, Sweep, labels};
use sandbox_core::{Made, Page};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

#[tokio::test]
async fn an_attached_sandbox_ends_with_close_alone() {
    let script = Script { next: script(vec![code(0)]), ..script_of() }.having([Capability::Attach]);
    let (client, log) = script.client();
    let sandbox = client.attach("other").await.unwrap();
    assert_eq!(sandbox.id().as_str(), "other");
    assert!(sandbox.run(any()).await.unwrap().success());
    drop(sandbox);
    until("our part in it has ended", || log.count("drop instance") == 1).await;
    assert_eq!(log.count("destroy"), 0);
    let sandbox = client.attach("other").await.unwrap();
    sandbox.close().await.unwrap();
    assert_eq!(log.count("destroyed other"), 1);
    // A client that closes leaves what is not its own.
    let _held = client.attach("third").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(log.count("destroy"), 1);
}

#[tokio::test]
async fn attaching_to_what_is_not_there_is_an_error() {
    let attach = hook(|_| async { Err(error(ErrorKind::NotFound)) });
    let (client, log) = Script { attach, ..script_of() }.having([Capability::Attach]).client();
    let error = client.attach("none").await.unwrap_err();
    assert_eq!((error.kind(), error.operation(), log.count("destroy")), (ErrorKind::NotFound, Some("attach"), 0));
    assert_eq!(Host::new().client.attach("none").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_detached_sandbox_outlives_its_client_and_can_be_reached_again() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    assert!(sandbox.run(Command::shell("echo kept > note")).await.unwrap().success());
    let id = sandbox.detach().await.unwrap();
    drop((sandbox, host.client));
    let again = Client::builder(crate::common::folder::Folder::new(host.dir.path())).limits(limits()).build().unwrap();
    let sandbox = again.attach(&*id.to_string()).await.unwrap();
    assert_eq!(sandbox.run(Command::new("cat").arg("note")).await.unwrap().stdout.text(), "kept\n");
    again.destroy(id.as_str()).await.unwrap();
    again.destroy(id.as_str()).await.unwrap();
    assert_eq!(std::fs::read_dir(host.dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn commands_of_a_detached_sandbox_end_with_their_handles() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    let duration = own_sleep(71, "detached");
    let process = sandbox.start(Command::new("sleep").arg(&duration)).await.unwrap();
    until("it runs", || sleepers(&duration) == 1).await;
    let id = sandbox.detach().await.unwrap();
    drop((process, sandbox));
    until("it is dead", || sleepers(&duration) == 0).await;
    assert!(host.client.attach(id.as_str()).await.is_ok());
    host.client.destroy(id.as_str()).await.unwrap();
}

#[tokio::test]
async fn the_owners_lease_is_given_up_where_there_is_one() {
    let script = script_of().having([Capability::Attach, Capability::OwnerLease]);
    let (client, log) = script.client();
    client.create(spec()).await.unwrap().detach().await.unwrap();
    assert_eq!(log.count("detach"), 1);
    let detach = after(Duration::ZERO, Err(error(ErrorKind::ConnectionLost)));
    let (client, log) = Script { detach, ..script_of() }.having([Capability::Attach, Capability::OwnerLease]).client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.detach().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLost, Some("detach")));
    drop(sandbox);
    client.close().await.unwrap();
    assert_eq!(log.count("destroyed"), 1, "it is still ours");
    let (client, log) = script_of().having([Capability::Attach]).client();
    let sandbox = client.create(spec()).await.unwrap();
    sandbox.close().await.unwrap();
    assert_eq!((sandbox.detach().await.unwrap_err().kind(), log.count("detach")), (ErrorKind::Gone, 0));
}

fn pages(pages: Vec<(Vec<&'static str>, Option<&'static str>)>, seen: &Arc<Mutex<Vec<Query>>>) -> Script {
    let seen = Arc::clone(seen);
    let list = hook(move |query: Query| {
        let n = query.cursor.as_deref().map_or(0, |cursor| cursor.parse::<usize>().unwrap());
        seen.lock().unwrap().push(query);
        let (items, next) = &pages[n];
        let items = items.iter().map(|id| Listed::new(SandboxId::new(id), BTreeMap::new())).collect();
        let page = match next {
            Some(next) => Page::then(items, *next),
            None => Page::last(items),
        };
        async { Ok(page) }
    });
    Script { list, ..script_of() }.having([Capability::List])
}

#[tokio::test]
async fn a_list_has_all_pages() {
    let seen = Arc::default();
    let all = vec![(vec!["a", "b"], Some("1")), (vec![], Some("2")), (vec!["c"], None)];
    let (client, log) = pages(all, &seen).client();
    let listed = client.list(Query::new().label("team", "blue")).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(log.count("list"), 3);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|query| query.labels["team"] == "blue"));
    assert_eq!(seen.iter().map(|query| query.cursor.as_deref()).collect::<Vec<_>>(), [None, Some("1"), Some("2")]);
}

#[tokio::test]
async fn a_list_whose_pages_go_round_in_a_circle_is_an_error() {
    let (client, _log) = pages(vec![(vec!["a"], Some("1")), (vec!["b"], Some("1"))], &Arc::default()).client();
    assert_eq!(client.list(Query::new()).await.unwrap_err().kind(), ErrorKind::Protocol);
}

fn leftovers() -> Script {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let list = hook(move |_| async move {
        let one = |id: &str, expires: Option<u64>| {
            let labels = expires.map(|at| (labels::EXPIRES.to_string(), at.to_string()));
            Listed::new(SandboxId::new(id), labels.into_iter().collect())
        };
        Ok(Page::last(vec![
            one("old", Some(now - 100)),
            one("stuck", Some(now - 200)),
            one("alive", Some(now + 1000)),
            one("late", Some(now - 5)),
            one("foreign", None),
        ]))
    });
    let destroy = hook(|id: SandboxId| async move {
        if id.as_str() == "stuck" { Err(error(ErrorKind::PermissionDeniedByProvider)) } else { Ok(()) }
    });
    Script { list, destroy, ..script_of() }.having([Capability::List])
}

#[tokio::test]
async fn a_sweep_ends_what_is_past_its_lifetime() {
    let (client, log) = leftovers().client();
    let swept = client.sweep(Sweep::new()).await.unwrap();
    assert_eq!(swept.found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["old", "stuck"]);
    assert_eq!(swept.destroyed, [SandboxId::new("old")]);
    assert_eq!(swept.failed.len(), 1);
    let (id, error) = &swept.failed[0];
    assert_eq!((id.as_str(), error.kind()), ("stuck", ErrorKind::TeardownFailed));
    assert_eq!((log.count("destroy"), client.orphans().len()), (2, 1));
}

#[tokio::test]
async fn a_sweep_can_look_only_or_take_all() {
    let (client, log) = leftovers().client();
    let swept = client.sweep(Sweep::new().dry_run(true)).await.unwrap();
    assert_eq!((swept.found.len(), swept.destroyed.len(), log.count("destroy")), (2, 0, 0));
    let swept = client.sweep(Sweep::new().expired_only(false)).await.unwrap();
    assert_eq!((swept.found.len(), swept.destroyed.len(), swept.failed.len()), (4, 3, 1));
    assert!(swept.found.iter().all(|one| one.id.as_str() != "foreign"), "it is not ours: {swept:?}");
}

#[tokio::test]
async fn a_sandbox_says_where_it_is() {
    let made = Box::new(|made: Made<_>| made.cwd("/srv"));
    let (client, _log) = Script { made, ..script_of() }.client();
    assert_eq!(client.create(spec().cwd("/work")).await.unwrap().cwd(), "/srv", "who made it knows best");
    let (client, _log) = script_of().client();
    assert_eq!(client.create(spec().cwd("/work")).await.unwrap().cwd(), "/work");
    assert_eq!(client.create(spec()).await.unwrap().cwd(), "/");
}

#[tokio::test]
async fn a_sandbox_that_its_client_left_is_still_ended_by_close() {
    for attached in [true, false] {
        let (client, log) = script_of().having([Capability::Attach]).client();
        let sandbox = match attached {
            true => client.attach("other").await.unwrap(),
            false => client.create(spec()).await.unwrap(),
        };
        if !attached {
            sandbox.detach().await.unwrap();
        }
        client.close().await.unwrap();
        assert_eq!(log.count("destroyed"), 0, "the client leaves it");
        sandbox.close().await.unwrap();
        assert_eq!(log.count("destroyed"), 1, "attached: {attached}");
        sandbox.close().await.unwrap();
        drop((sandbox, client));
        assert_eq!(log.count("destroyed"), 1, "once");
    }
}

#[tokio::test]
async fn a_failing_end_of_a_sandbox_that_was_left_is_told() {
    let destroy = after(ms(0), Err(error(ErrorKind::Unavailable)));
    let (client, _log) = Script { destroy, ..script_of() }.having([Capability::Attach]).client();
    let sandbox = client.attach("other").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(sandbox.close().await.unwrap_err().kind(), ErrorKind::TeardownFailed);
    assert_eq!(client.orphans().len(), 1);
}

#[tokio::test]
async fn what_dies_in_an_attached_sandbox_does_not_destroy_it() {
    let dies = hook(|()| async { error(ErrorKind::Gone) });
    let (client, log) = Script { gone: dies, ..script_of() }.having([Capability::Attach]).client();
    let sandbox = client.attach("other").await.unwrap();
    until("it is known to be gone", || log.count("gone") == 1).await;
    until("nothing starts in it", || {
        let run = crate::common::block_on(sandbox.run(any()));
        run.is_err_and(|error| error.kind() == ErrorKind::Gone)
    })
    .await;
    drop((sandbox, client));
    assert_eq!(log.count("destroy"), 0);
}

#[tokio::test]
async fn a_list_without_an_end_is_told() {
    let script = Script { list: hook(endless()), list_snapshots: hook(endless()), ..script_of() };
    let (client, log) = script.having([Capability::List, Capability::SnapshotList, Capability::Labels]).client();
    let errors = [client.list(Query::new()).await.unwrap_err(), client.snapshots(Query::new()).await.unwrap_err()];
    for error in errors {
        assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::Protocol, true), "{error}");
    }
    assert_eq!(log.count("list"), log.count("list snapshots"));
}

/// Page after page, with nothing on them; far beyond any bound it gives up, so that a test fails in place of hanging.
fn endless<T>() -> impl Fn(Query) -> std::future::Ready<sandbox::Result<Page<T>>> {
    let pages = std::sync::atomic::AtomicUsize::new(0);
    move |_| {
        let page = pages.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        std::future::ready(Ok(if page < 30_000 { Page::then(Vec::new(), page.to_string()) } else { Page::default() }))
    }
}
