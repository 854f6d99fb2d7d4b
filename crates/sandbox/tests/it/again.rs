//! A create whose answer was lost: asked for again where that is safe, and nothing else is.

use crate::common::{
    LONG, ms,
    scripted::{Script, hook, script_of},
    until,
};
use sandbox::{Capability, ErrorKind, Spec};
use sandbox_core::{Attempt, Error};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Of each try its marker, and whether it was told that it is one more.
type Tries = Arc<Mutex<Vec<(String, bool)>>>;

/// Fails so often with these kinds, then makes it.
fn failing(kinds: &[ErrorKind]) -> (Script, Tries) {
    let (tries, kinds) = (Tries::default(), kinds.to_vec());
    let (seen, count) = (Arc::clone(&tries), AtomicUsize::new(0));
    let create = hook(move |(_, attempt): (Spec, Attempt)| {
        seen.lock().unwrap().push((attempt.marker().to_string(), attempt.is_repeated()));
        let failed = kinds.get(count.fetch_add(1, SeqCst)).map(|kind| Error::new(*kind, "scripted"));
        async move { failed.map_or(Ok(()), Err) }
    });
    (Script { create, ..script_of() }.having([Capability::IdempotentCreate]), tries)
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_marker() {
    let (script, tries) = failing(&[ErrorKind::ConnectionLost; 2]);
    let (client, _log) = script.client();
    let sandbox = client.create(Spec::new().create_timeout(LONG)).await.unwrap();
    let tries = tries.lock().unwrap().clone();
    assert_eq!(tries.iter().map(|(_, again)| *again).collect::<Vec<_>>(), [false, true, true]);
    assert!(tries.iter().all(|(marker, _)| *marker == tries[0].0), "{tries:?}");
    drop(sandbox);
}

#[tokio::test]
async fn it_ends_after_three_tries_and_stays_in_doubt() {
    let (script, tries) = failing(&[ErrorKind::ConnectionLost; 9]);
    let (client, _log) = script.client();
    let error = client.create(Spec::new().create_timeout(LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::ConnectionLost, true));
    assert_eq!(tries.lock().unwrap().len(), 3);
    // A later failure takes nothing back of what an earlier try may have made.
    let (script, _) = failing(&[ErrorKind::ConnectionLost, ErrorKind::QuotaExceeded]);
    let error = script.client().0.create(Spec::new().create_timeout(LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::QuotaExceeded, true));
    let (script, _) = failing(&[ErrorKind::QuotaExceeded]);
    let error = script.client().0.create(Spec::new()).await.unwrap_err();
    assert!(!error.may_have_applied(), "the control: {error:?}");
}

#[tokio::test]
async fn nobody_waits_nobody_asks_again() {
    let (script, tries) = failing(&[ErrorKind::ConnectionLost; 9]);
    let (client, _log) = script.client();
    let mut create = Box::pin(client.create(Spec::new().create_timeout(LONG)));
    // Nothing is sent before somebody has polled it beyond the probe.
    tokio::select! {
        made = &mut create => panic!("it is over: {made:?}"),
        () = until("the first try", || tries.lock().unwrap().len() == 1) => {}
    }
    drop(create);
    tokio::time::sleep(ms(600)).await;
    assert_eq!(tries.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn other_failures_and_other_backends_are_asked_once() {
    for kind in [ErrorKind::Unavailable, ErrorKind::RateLimited, ErrorKind::OperationTimeout, ErrorKind::CreateFailed] {
        let (script, tries) = failing(&[kind]);
        assert_eq!(script.client().0.create(Spec::new()).await.unwrap_err().kind(), kind);
        assert_eq!(tries.lock().unwrap().len(), 1, "{kind}");
    }
    let (script, tries) = failing(&[ErrorKind::ConnectionLost]);
    let facts = script.facts.clone().absent(Capability::IdempotentCreate, "scripted");
    let error = Script { facts, ..script }.client().0.create(Spec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert_eq!(tries.lock().unwrap().len(), 1);
}
