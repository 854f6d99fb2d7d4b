//! Changes of a whole sandbox: what a failed or abandoned one leaves.

use crate::common::{
    LONG, any, ms,
    scripted::{Script, after, error, hook, never, script, script_of},
    spec, until,
};
use sandbox::{Capability, ErrorKind, ForkSandbox, NetworkPolicy, TakeSnapshot};
use tokio::time::timeout;

fn all() -> Script {
    use Capability::*;
    script_of().having([Pause, StopStart, Extend, Lifetime, Snapshot, SnapshotList, Fork, DynamicNetwork, Learn, Ports])
}

#[tokio::test]
async fn a_stop_that_fails_leaves_commands_as_they_are() {
    let shift = hook(|_| async { Err(error(ErrorKind::Unavailable)) });
    let (client, log) = Script { shift, ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    assert_eq!(sandbox.stop().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(timeout(ms(300), process.next()).await.is_err(), "the command goes on");
    let second = sandbox.start(any()).await.unwrap();
    assert_eq!(log.count("destroy"), 0);
    drop((process, second, sandbox));
}

#[tokio::test]
async fn a_stop_ends_commands_as_gone_whatever_they_say() {
    // The program answers TERM with an exit of its own, while the stop is under way.
    let shift = after(ms(1500), Ok(()));
    let next = script(vec![crate::common::scripted::Step::After(ms(700), exited())]);
    let (client, log) = Script { shift, next, ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any()).await.unwrap();
    let (stopped, ended) = tokio::join!(sandbox.stop(), process.wait());
    stopped.unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::WrongState);
    sandbox.restart().await.unwrap();
    assert_eq!(log.count("destroy") + log.count("kill"), 0);
}

fn exited() -> sandbox_core::Event {
    sandbox_core::Event::Ended(sandbox_core::Ended::program(sandbox::Status::Code(0)))
}

#[tokio::test]
async fn a_change_goes_on_without_its_caller_and_one_at_a_time() {
    let shift = after(ms(600), Ok(()));
    let (client, log) = Script { shift, ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(timeout(ms(100), sandbox.pause()).await.is_err(), "it takes longer");
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::WrongState, "it is being paused");
    sandbox.resume().await.unwrap();
    assert_eq!(log.all().iter().filter(|line| ["pause", "resume"].contains(&&***line)).count(), 2);
    let mut process = sandbox.start(any()).await.unwrap();
    assert!(timeout(ms(200), process.next()).await.is_err());
}

#[tokio::test]
async fn a_pause_waits_for_a_snapshot_and_commands_do_not() {
    let shift = hook(|what| async move {
        tokio::time::sleep(ms(if what == "snapshot" { 600 } else { 0 })).await;
        Ok(())
    });
    let (client, log) = Script { shift, ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let begun = std::time::Instant::now();
    let paused = async {
        tokio::time::sleep(ms(100)).await;
        let process = sandbox.start(any()).await.unwrap();
        assert!(begun.elapsed() < ms(500), "a command that starts meanwhile waited");
        sandbox.pause().await.unwrap();
        assert!(begun.elapsed() >= ms(600), "it was paused beside a snapshot");
        drop(process);
    };
    tokio::join!(sandbox.snapshot(TakeSnapshot::new()), paused).0.unwrap();
    assert_eq!((log.count("snapshot"), log.count("pause")), (1, 1));
    // One that nobody waits for any more when its turn comes is not made.
    sandbox.resume().await.unwrap();
    let left = async {
        let first = sandbox.snapshot(TakeSnapshot::new());
        let second = timeout(ms(100), sandbox.snapshot(TakeSnapshot::new()));
        tokio::join!(first, second)
    };
    assert!(left.await.1.is_err());
    tokio::time::sleep(ms(900)).await;
    assert_eq!(log.count("snapshot"), 2);
}

#[tokio::test]
async fn pausing_and_stopping_do_not_mix() {
    let (client, _log) = all().client();
    let sandbox = client.create(spec()).await.unwrap();
    sandbox.pause().await.unwrap();
    for refused in [sandbox.stop().await, sandbox.restart().await] {
        let refused = refused.unwrap_err();
        assert!(refused.kind() == ErrorKind::WrongState && refused.hint().unwrap().contains("resume"), "{refused:?}");
    }
    sandbox.resume().await.unwrap();
    sandbox.stop().await.unwrap();
    assert_eq!(sandbox.pause().await.unwrap_err().kind(), ErrorKind::WrongState);
    assert_eq!(sandbox.snapshot(TakeSnapshot::new()).await.unwrap_err().kind(), ErrorKind::WrongState);
    assert_eq!(sandbox.fork(ForkSandbox::new()).await.unwrap_err().kind(), ErrorKind::WrongState);
    assert_eq!(sandbox.port(80).await.unwrap_err().kind(), ErrorKind::WrongState);
    sandbox.close().await.unwrap();
    assert_eq!(sandbox.restart().await.unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn the_lifetime_of_a_paused_sandbox_is_kept_outside() {
    let (client, log) = all().client();
    let sandbox = client.create(spec().lifetime(ms(1200))).await.unwrap();
    sandbox.pause().await.unwrap();
    assert_eq!(log.count("destroy"), 0);
    until("its lifetime is over", || log.count("destroy") == 1).await;
    assert_eq!(sandbox.resume().await.unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn a_late_command_of_a_paused_sandbox_waits_for_its_end_until_it_goes_on() {
    let (client, log) = all().client();
    let sandbox = client.create(spec()).await.unwrap();
    let mut process = sandbox.start(any().timeout(ms(300))).await.unwrap();
    sandbox.pause().await.unwrap();
    assert!(timeout(ms(1000), process.next()).await.is_err());
    assert_eq!(log.count("kill"), 0, "nothing can be seen to die");
    sandbox.resume().await.unwrap();
    let ended = timeout(LONG, process.wait()).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ExecutionTimeout);
    assert_eq!(log.count("destroy"), 0);
}

#[tokio::test]
async fn a_change_ends_with_its_sandbox() {
    let (client, _log) = Script { shift: never(), ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let other = sandbox.clone();
    let (changed, closed) = tokio::join!(timeout(LONG, sandbox.set_network(NetworkPolicy::Open)), async {
        tokio::time::sleep(ms(200)).await;
        other.close().await
    });
    closed.unwrap();
    assert_eq!(changed.unwrap().unwrap_err().kind(), ErrorKind::Gone);
}

#[tokio::test]
async fn a_snapshot_in_doubt_is_reported_and_one_that_nobody_waits_for_deleted() {
    let shift = hook(|what| async move {
        match what {
            "snapshot" => Err(error(ErrorKind::ConnectionLost)),
            _ => Ok(()),
        }
    });
    let (client, _log) = Script { shift, ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(sandbox.snapshot(TakeSnapshot::new()).await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    let orphans = client.orphans();
    assert!(orphans.len() == 1 && orphans[0].marker.is_some() && orphans[0].what.contains("snapshot"), "{orphans:?}");
    let (client, log) = Script { shift: after(ms(500), Ok(())), ..all() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(timeout(ms(100), sandbox.snapshot(TakeSnapshot::new())).await.is_err());
    until("it is deleted", || log.count("delete snapshot") == 1).await;
    assert_eq!(client.orphans().len(), 0);
}

#[tokio::test]
async fn an_extension_moves_what_commands_may_take() {
    let (client, log) = all().client();
    let sandbox = client.create(spec().lifetime(ms(2000))).await.unwrap();
    let long = || any().timeout(ms(60_000));
    assert_eq!(sandbox.start(long()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    sandbox.extend(ms(120_000)).await.unwrap();
    drop(sandbox.start(long()).await.unwrap());
    for wrong in [ms(0), ms(999), ms(400 * 24 * 3600 * 1000)] {
        let refused = sandbox.extend(wrong).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::InvalidArgument && refused.hint().is_some(), "{refused:?}");
    }
    assert_eq!(log.count("extend"), 1);
}
