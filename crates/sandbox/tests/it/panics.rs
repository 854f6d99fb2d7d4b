//! Adapter code that panics, or must not run where a user is.

use crate::common::{
    any, ms, poll_once, runtime,
    scripted::{Script, Step, after, code, never, panics, script, script_of},
    spec,
};
use sandbox::ErrorKind;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::Poll,
};

/// Works inside a runtime alone, as the drop of many a client does.
#[expect(clippy::disallowed_methods, reason = "what an adapter may do in its drop")]
fn needs_a_runtime(what: &'static str) -> Box<dyn Fn(&'static str) + Send + Sync> {
    Box::new(move |dropped| {
        if dropped == what {
            tokio::spawn(async {});
        }
    })
}

#[tokio::test]
async fn a_panic_of_the_events_is_an_internal_error() {
    let (client, log) = Script { next: script(vec![Step::Panic]), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    let error = sandbox.run(any()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Internal && error.message().contains("adapter bug"), "{error:?}");
    assert_eq!(log.count("kill"), 1, "it may run");
}

#[test]
fn an_instance_is_not_dropped_where_the_user_is() {
    let runtime = runtime();
    let (client, log) = Script { dropped: needs_a_runtime("instance"), ..script_of() }.client();
    let sandbox = runtime.block_on(client.create(spec())).unwrap();
    runtime.block_on(sandbox.close()).unwrap();
    drop(runtime);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(sandbox))).is_ok());
    drop(client);
    assert_eq!(log.count("drop instance"), 1);
}

#[test]
fn an_instance_is_not_dropped_where_the_user_is_without_a_close() {
    for _ in 0..150 {
        let runtime = runtime();
        let (client, log) = Script { dropped: needs_a_runtime("instance"), ..script_of() }.client();
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        drop(runtime);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(sandbox))).is_ok());
        drop(client);
        assert_eq!(log.count("drop instance"), 1);
    }
}

#[test]
fn a_control_whose_drop_panics_does_not_reach_the_user() {
    let runtime = runtime();
    let dropped = Box::new(|what| assert_ne!(what, "control", "adapter bug"));
    let (client, _log) = Script { next: script(vec![code(0)]), dropped, ..script_of() }.client();
    let sandbox = runtime.block_on(client.create(spec())).unwrap();
    let started = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut start = Box::pin(sandbox.start(any()));
            let first = poll_once(start.as_mut()).await;
            std::thread::sleep(ms(100)); // The user computes.
            match first {
                Poll::Ready(started) => started.map(drop),
                Poll::Pending => start.await.map(drop),
            }
        })
    }));
    started.unwrap().unwrap();
}

#[test]
fn a_backend_is_not_dropped_where_the_user_is() {
    let runtime = runtime();
    let (client, log) = Script { dropped: needs_a_runtime("backend"), ..script_of() }.client();
    drop(runtime.block_on(client.create(spec())).unwrap());
    drop(runtime);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(client))).is_ok());
    assert_eq!(log.count("drop backend"), 1);
}

#[tokio::test]
async fn a_panic_at_the_second_sandbox_leaves_the_first_alone() {
    let count = AtomicUsize::new(0);
    let made = Box::new(move |made| {
        assert_ne!(count.fetch_add(1, SeqCst), 1, "adapter bug");
        made
    });
    let (client, log) = Script { made, next: script(vec![code(0)]), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(client.create(spec()).await.unwrap_err().kind(), ErrorKind::Internal);
    assert!(sandbox.run(any()).await.unwrap().success());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(sandbox))).is_ok());
    drop(client);
    assert_eq!(log.count("destroyed"), 2, "{:?}", log.all());
}

#[tokio::test]
async fn panics_at_any_place_are_errors_there() {
    let dropped = Box::new(|what| assert_ne!(what, "events", "adapter bug"));
    let (client, _log) = Script { next: script(vec![code(0)]), dropped, ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(sandbox.run(any()).await.is_ok());
    let (client, log) = Script { kill: panics(), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(sandbox.run(any().timeout(ms(50))).await.is_err());
    assert_eq!(log.count("destroyed"), 1);
    let (client, _log) = Script { spawn: panics(), ..script_of() }.client();
    let sandbox = client.create(spec()).await.unwrap();
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Internal);
    let (client, _log) = Script { destroy: panics(), ..script_of() }.client();
    assert_eq!(client.create(spec()).await.unwrap().close().await.unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(client.orphans().len(), 1);
}

#[tokio::test]
async fn cleanup_spawned_in_a_drop_has_the_engines_io() {
    let (tell, told) = std::sync::mpsc::channel();
    #[expect(clippy::disallowed_methods, reason = "what an adapter may do in its drop")]
    let dropped = Box::new(move |what| {
        if what == "instance" {
            let tell = tell.clone();
            tokio::spawn(async move {
                let _ = tell.send(tokio::net::TcpListener::bind("127.0.0.1:0").await.is_ok());
            });
        }
    });
    let (client, _log) = Script { dropped, destroy: after(ms(50), Ok(())), ..script_of() }.client();
    drop(client.create(spec()).await.unwrap());
    let worked = tokio::task::spawn_blocking(move || told.recv_timeout(crate::common::LONG)).await.unwrap();
    assert_eq!(worked, Ok(true));
    drop(client);
}

/// Where each note was taken is checked by the log itself.
#[test]
fn adapter_objects_live_and_die_on_the_workers() {
    let runtime = runtime();
    for how in ["an end", "a deadline", "a close", "a drop"] {
        let next = if how == "an end" { script(vec![code(0)]) } else { never() };
        let (client, log) = Script { next, destroy: after(ms(20), Ok(())), ..script_of() }.client();
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        let timeout = if how == "a deadline" { ms(30) } else { crate::common::LONG };
        let process = runtime.block_on(sandbox.start(any().timeout(timeout))).unwrap();
        match how {
            "a deadline" => std::thread::sleep(ms(150)),
            "a close" => runtime.block_on(sandbox.close()).unwrap(),
            _ => {}
        }
        drop((process, sandbox, client)); // On a thread that is nobody's.
        for what in ["drop backend", "drop instance", "drop control", "drop events", "destroy"] {
            assert_eq!(log.count(what), 1, "{how}, {what}: {:?}", log.all());
        }
    }
}
