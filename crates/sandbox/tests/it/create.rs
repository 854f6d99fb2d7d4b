//! Making a sandbox: nothing half-made leaks, whatever answers late, twice, wrongly or never.

use crate::common::{
    LONG, ms, poll_once, runtime,
    scripted::{Script, error, hook, panics, script_of},
    spec, until,
};
use sandbox::{Backend, Client, Error, ErrorKind, Facts, Result, SandboxId, Spec};
use sandbox_core::{Attempt, Boxed, Clock, Made};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

fn late(claims_after: impl Fn(Attempt) -> Boxed<'static, ()> + Send + Sync + 'static) -> Script {
    let create = hook(move |(_, attempt): (Spec, Attempt)| {
        let claimed = claims_after(attempt);
        async move {
            claimed.await;
            Ok(())
        }
    });
    Script { claims: false, create, ..script_of() }
}

#[tokio::test]
async fn an_answer_after_the_create_timeout_is_ended() {
    let (client, log) = late(|attempt| {
        Box::pin(async move {
            tokio::time::sleep(ms(800)).await;
            attempt.claim(SandboxId::new("late"));
        })
    })
    .client();
    let error = client.create(Spec::new().create_timeout(ms(200))).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation(), error.backend()),
        (ErrorKind::CreateTimeout, Some("create"), Some("scripted"))
    );
    assert!(error.may_have_applied() && error.hint().is_some());
    assert_eq!(log.count("destroy"), 0, "it has not even answered");
    until("the late one is ended", || log.count("destroyed late") == 1).await;
}

#[tokio::test]
async fn a_claim_after_the_create_timeout_is_ended_although_the_answer_is_still_out() {
    let (client, log) = late(|attempt| {
        Box::pin(async move {
            std::thread::sleep(ms(800));
            attempt.claim(SandboxId::new("late"));
            tokio::time::sleep(ms(200)).await;
        })
    })
    .client();
    assert!(client.create(Spec::new().create_timeout(ms(200))).await.is_err());
    until("the late one is ended", || log.count("destroyed late") == 1).await;
}

#[tokio::test]
async fn a_second_claim_does_not_hide_the_first() {
    let create = hook(|(_, attempt): (Spec, Attempt)| async move {
        attempt.claim(SandboxId::new("first"));
        attempt.claim(SandboxId::new("s"));
        Ok(())
    });
    let (client, log) = Script { create, ..script_of() }.client();
    client.create(spec()).await.unwrap().close().await.unwrap();
    drop(client);
    assert_eq!((log.count("destroyed first"), log.count("destroyed s")), (1, 1), "{:?}", log.all());
}

#[tokio::test]
async fn a_panic_while_it_is_handed_over_ends_it() {
    let (client, log) = Script { made: Box::new(|_| panic!("adapter bug")), ..script_of() }.client();
    assert_eq!(client.create(spec()).await.unwrap_err().kind(), ErrorKind::Internal);
    until("it is ended", || log.count("destroyed") == 1).await;
}

#[tokio::test]
async fn a_panic_whose_payload_panics_does_not_lose_the_claim() {
    struct Evil;
    impl Drop for Evil {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("payload")
            }
        }
    }
    let create = hook(|_| async { std::panic::panic_any(Evil) });
    let (client, log) = Script { create, ..script_of() }.client();
    assert!(client.create(spec()).await.is_err());
    until("it is ended", || log.count("destroyed") == 1).await;
}

#[test]
fn a_create_polled_once_is_ended_before_the_last_handle_goes() {
    for round in 0..200 {
        let create = hook(|_| async {
            tokio::time::sleep(ms(5)).await;
            Ok(())
        });
        let (client, log) = Script { create, ..script_of() }.client();
        runtime().block_on(async {
            let mut create = Box::pin(client.create(spec()));
            assert!(poll_once(create.as_mut()).await.is_pending());
        });
        drop(client);
        assert_eq!(log.count("create"), log.count("destroyed"), "round {round}: {:?}", log.all());
    }
}

#[test]
fn creates_polled_once_are_ended_although_a_clock_blocks() {
    struct Slow;
    impl Clock for Slow {
        fn sleep(&self, duration: Duration) -> Boxed<'static, ()> {
            std::thread::sleep(ms(30));
            Box::pin(tokio::time::sleep(duration))
        }
    }
    let create = hook(|_| async {
        tokio::time::sleep(ms(50)).await;
        Ok(())
    });
    let (client, log) = Script { create, clock: Box::new(|()| Some(Arc::new(Slow))), ..script_of() }.client();
    runtime().block_on(async {
        let (mut one, mut two) = (Box::pin(client.create(spec())), Box::pin(client.create(spec())));
        assert!(poll_once(one.as_mut()).await.is_pending() && poll_once(two.as_mut()).await.is_pending());
    });
    drop(client);
    assert_eq!(log.count("create"), log.count("destroyed"), "{:?}", log.all());
}

#[test]
fn an_answer_just_at_the_create_timeout_is_either_handed_over_or_ended() {
    let create = hook(|_| async {
        tokio::time::sleep(ms(3)).await;
        Ok(())
    });
    let (client, log) = Script { create, ..script_of() }.client();
    let (mut made, mut late) = (0, 0);
    runtime().block_on(async {
        for round in 0..400 {
            let limit = match round % 10 {
                0 => LONG,
                1 => Duration::from_micros(50),
                _ => ms(4),
            };
            match client.create(Spec::new().create_timeout(limit)).await {
                Ok(_) => made += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::CreateTimeout);
                    late += 1;
                }
            }
        }
    });
    assert!(made >= 40 && late > 0, "{made} {late}");
    let orphans = client.orphans();
    drop(client);
    assert_eq!(log.count("create"), log.count("destroyed"), "{made} {late} {orphans:?}");
}

#[tokio::test]
async fn computing_adapters_cannot_hold_up_the_create_timeout() {
    let create = hook(|_| async {
        std::thread::sleep(ms(3000));
        Err(error(ErrorKind::Unsupported))
    });
    let (client, _log) = Script { create, ..script_of() }.client();
    let (spec, begun) = (Spec::new().create_timeout(ms(300)), Instant::now());
    let three = tokio::join!(client.create(spec.clone()), client.create(spec.clone()), client.create(spec));
    for made in [three.0, three.1, three.2] {
        assert_eq!(made.unwrap_err().kind(), ErrorKind::CreateTimeout);
    }
    assert!(begun.elapsed() < ms(2500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_comes_before_the_dispatch_ends_with_its_caller() {
    let went_on = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&went_on);
    let create = hook(move |(_, attempt): (Spec, Attempt)| {
        let seen = Arc::clone(&seen);
        async move {
            let pull = attempt.before_dispatch(async {
                tokio::time::sleep(LONG).await;
                Ok(())
            });
            pull.await.inspect_err(|_| _ = seen.fetch_add(1, SeqCst))
        }
    });
    let (client, log) = Script { claims: false, create, ..script_of() }.client();
    assert!(tokio::time::timeout(ms(100), client.create(spec())).await.is_err());
    let begun = Instant::now();
    client.close().await.unwrap();
    drop(client);
    assert!(begun.elapsed() < ms(4000), "{:?}", begun.elapsed());
    assert_eq!((went_on.load(SeqCst), log.count("destroy")), (1, 0));
}

#[tokio::test]
async fn preparing_has_a_limit_of_its_own() {
    let prepares = |time: Duration, then: Duration| {
        hook(move |(_, attempt): (Spec, Attempt)| async move {
            let prepared = async {
                tokio::time::sleep(time).await;
                Ok(())
            };
            attempt.before_dispatch(prepared).await?;
            tokio::time::sleep(then).await;
            Ok(())
        })
    };
    let spec = || Spec::new().create_timeout(ms(700)).prepare_timeout(LONG);
    let (client, _log) = Script { create: prepares(ms(1500), ms(0)), ..script_of() }.client();
    assert!(client.create(spec()).await.is_ok());
    let (client, _log) = Script { create: prepares(ms(300), LONG), ..script_of() }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::CreateTimeout && error.may_have_applied(), "{error:?}");
    let (client, _log) = Script { create: prepares(LONG, ms(0)), ..script_of() }.client();
    let error = client.create(spec().create_timeout(LONG).prepare_timeout(ms(200))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::CreateTimeout && !error.may_have_applied(), "{error:?}");
    assert!(error.hint().unwrap().contains("prepare_timeout"), "{error:?}");
}

#[tokio::test]
async fn an_expected_name_in_doubt_is_destroyed_until_quiet_and_reported() {
    for (kind, then_claim, again) in [
        (ErrorKind::ConnectionLost, false, true),
        (ErrorKind::ConnectionLost, true, false),
        (ErrorKind::Capacity, false, false),
    ] {
        let create = hook(move |(_, attempt): (Spec, Attempt)| async move {
            let id = attempt.expect(SandboxId::new("name"));
            if then_claim {
                attempt.claim(id);
            }
            Err(error(kind))
        });
        let limits = crate::common::limits().quiet(ms(400));
        let (client, log) = Script { claims: false, create, ..script_of() }.limited(limits);
        assert_eq!(client.create(spec()).await.unwrap_err().kind(), kind);
        client.close().await.unwrap();
        let orphans = client.orphans();
        assert_eq!(log.count("destroyed name") > 2, again, "{kind:?} {:?}", log.all());
        assert!(log.count("destroyed name") >= 1);
        assert_eq!(orphans.len(), usize::from(again), "{orphans:?}");
        for orphan in orphans {
            assert_eq!(orphan.id, Some(SandboxId::new("name")));
            assert!(orphan.to_string().contains("sb-") && orphan.marker.unwrap().starts_with("sb-"));
        }
    }
}

#[tokio::test]
async fn markers_differ() {
    let seen: Arc<Mutex<HashSet<String>>> = Arc::default();
    let markers = Arc::clone(&seen);
    let create = hook(move |(_, attempt): (Spec, Attempt)| {
        markers.lock().unwrap().insert(attempt.marker().into());
        async { Ok(()) }
    });
    let (client, _log) = Script { create, ..script_of() }.client();
    for _ in 0..50 {
        client.create(spec()).await.unwrap().close().await.unwrap();
    }
    assert_eq!(seen.lock().unwrap().len(), 50);
}

#[tokio::test]
async fn info_is_asked_once_and_its_panic_is_an_error() {
    let (client, log) = script_of().client();
    let sandbox = client.create(spec()).await.unwrap();
    assert!(sandbox.run(crate::common::any().timeout(ms(10))).await.is_err());
    assert_eq!((log.count("info"), log.count("clock")), (1, 1));
    struct Bad;
    impl Backend for Bad {
        type Instance = crate::common::scripted::Methods;
        fn info(&self) -> Facts {
            panic!("adapter bug")
        }
        async fn create(&self, _: &Spec, _: &Attempt) -> Result<Made<Self::Instance>> {
            Err(Error::unsupported("never asked"))
        }
        async fn destroy(&self, _: &SandboxId) -> Result<()> {
            Ok(())
        }
    }
    assert_eq!(Client::new(Bad).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_clock_whose_hours_take_no_time_does_not_cut_the_engines_own_limits() {
    struct Instantly;
    impl Clock for Instantly {
        fn sleep(&self, _: Duration) -> Boxed<'static, ()> {
            Box::pin(async {})
        }
    }
    let script = Script {
        create: crate::common::scripted::after(ms(20), Ok(())),
        destroy: crate::common::scripted::after(ms(20), Ok(())),
        clock: Box::new(|()| Some(Arc::new(Instantly))),
        ..script_of()
    };
    let (client, log) = script.client();
    runtime().block_on(async {
        let sandbox = client.create(spec()).await.unwrap();
        // A user's deadline is by that clock.
        let error = sandbox.run(crate::common::any().timeout(LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExecutionTimeout);
        sandbox.close().await.unwrap();
    });
    assert_eq!((log.count("destroyed"), client.orphans().len()), (1, 0), "{:?}", log.all());
}

#[tokio::test]
async fn a_create_that_panics_is_an_internal_error_and_is_ended() {
    let (client, log) = Script { create: panics(), ..script_of() }.client();
    let error = client.create(spec()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Internal && error.message().contains("adapter bug"), "{error:?}");
    until("it is ended", || log.count("destroyed") == 1).await;
}

#[tokio::test]
async fn labels_of_the_library_go_with_the_users_own() {
    use sandbox::{Capability, labels};
    let seen: Arc<Mutex<Vec<(Spec, String)>>> = Arc::default();
    for kept in [true, false] {
        let specs = Arc::clone(&seen);
        let create = hook(move |(spec, attempt): (Spec, Attempt)| {
            specs.lock().unwrap().push((spec, attempt.marker().into()));
            async { Ok(()) }
        });
        let script = Script { create, ..script_of() };
        let (client, _log) = if kept { script.having([Capability::Labels]) } else { script }.client();
        let spec = Spec::new().lifetime(Duration::from_secs(60));
        let sandbox = client.create(if kept { spec.label("team", "blue") } else { spec }).await.unwrap();
        sandbox.close().await.unwrap();
        let (spec, marker) = seen.lock().unwrap().pop().unwrap();
        if !kept {
            assert_eq!(spec.labels, [].into());
            continue;
        }
        assert_eq!(spec.labels[labels::MARKER], marker);
        assert_eq!(spec.labels["team"], "blue");
        let at = |name: &str| spec.labels[name].parse::<u64>().unwrap();
        assert_eq!(at(labels::EXPIRES) - at(labels::CREATED), 60);
        assert_eq!(spec.labels.len(), 4);
    }
}

#[tokio::test]
async fn what_specs_leave_open_is_filled_before_the_adapter_sees_it() {
    let seen: Arc<Mutex<Option<Spec>>> = Arc::default();
    let specs = Arc::clone(&seen);
    let create = hook(move |(spec, _): (Spec, Attempt)| {
        *specs.lock().unwrap() = Some(spec);
        async { Ok(()) }
    });
    let script = Script { create, ..script_of() };
    let facts = script.facts.clone().max_lifetime(Duration::from_secs(600));
    let (backend, _log) = Script { facts, ..script }.backend();
    let defaults = Spec::new().image("default").env("A", "1").env("B", "1");
    let client = Client::builder(backend).defaults(defaults).build().unwrap();
    assert!(client.create(Spec::new().env("B", "2")).await.is_ok());
    let spec = seen.lock().unwrap().take().unwrap();
    assert_eq!(spec.image.as_deref(), Some("default"));
    assert_eq!(spec.env, [("A".into(), "1".into()), ("B".into(), "2".into())].into());
    assert_eq!((spec.lifetime, spec.network), (Some(Duration::from_secs(600)), Some(sandbox::NetworkPolicy::Deny)));
}
