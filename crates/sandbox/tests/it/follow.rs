//! Spans and subscribers follow the work to the engine's threads.

use crate::common::{
    any, ms,
    scripted::{Script, after, code, error, hook, script, script_of},
    spec,
};
use sandbox::ErrorKind;
use std::sync::{Arc, Mutex};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};
use tracing_core::span::Current;

/// Keeps what was said, with the spans around it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spans: Vec<&'static Metadata<'static>>,
    entered: std::collections::HashMap<std::thread::ThreadId, Vec<usize>>,
    said: Vec<(Vec<&'static str>, String)>,
}

impl Heard {
    fn said(&self) -> Vec<(Vec<&'static str>, String)> {
        self.0.lock().unwrap().said.clone()
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = self.0.lock().unwrap();
        state.spans.push(span.metadata());
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let mut state = self.0.lock().unwrap();
        let open = state.entered.get(&std::thread::current().id()).cloned().unwrap_or_default();
        let spans = open.into_iter().map(|n| state.spans[n].name()).collect();
        state.said.push((spans, text.0));
    }

    fn enter(&self, span: &Id) {
        let mut state = self.0.lock().unwrap();
        state.entered.entry(std::thread::current().id()).or_default().push(span.into_u64() as usize - 1);
    }

    fn exit(&self, _: &Id) {
        let mut state = self.0.lock().unwrap();
        state.entered.entry(std::thread::current().id()).or_default().pop();
    }

    fn current_span(&self) -> Current {
        let state = self.0.lock().unwrap();
        let innermost = state.entered.get(&std::thread::current().id()).and_then(|open| open.last());
        innermost.map_or_else(Current::none, |n| Current::new(Id::from_u64(*n as u64 + 1), state.spans[*n]))
    }
}

#[test]
fn what_an_adapter_says_is_heard_by_the_callers_subscriber_in_the_callers_span() {
    let (one, two) = (Heard::default(), Heard::default());
    let create = hook(|_| async {
        tracing::info!("creating");
        tokio::time::sleep(ms(5)).await;
        tracing::info!("created");
        Ok(())
    });
    let spawn = hook(|_| async {
        tracing::info!("spawning");
        Ok(())
    });
    let (client, _log) = Script { create, spawn, next: script(vec![code(0)]), ..script_of() }.client();
    let runtime = crate::common::runtime();
    with_default(one.clone(), || {
        let span = tracing::info_span!("request");
        let _entered = span.enter();
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        with_default(two.clone(), || assert!(runtime.block_on(sandbox.run(any())).unwrap().success()));
        runtime.block_on(sandbox.close()).unwrap();
    });
    let ours = |heard: &Heard| -> Vec<_> {
        heard.said().into_iter().filter(|(_, text)| text.contains("creat") || text.contains("spawning")).collect()
    };
    let heard = ours(&one);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard.iter().all(|(spans, _)| spans.contains(&"request")), "{heard:?}");
    let heard = ours(&two);
    assert!(heard.len() == 1 && heard[0].1.contains("spawning"), "{heard:?}");
}

#[test]
fn reports_are_warnings_that_the_caller_hears() {
    let heard = Heard::default();
    let (client, _log) = Script { destroy: after(ms(20), Err(error(ErrorKind::Internal))), ..script_of() }.client();
    let runtime = crate::common::runtime();
    with_default(heard.clone(), || {
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        assert!(runtime.block_on(sandbox.close()).is_err());
    });
    let said = heard.said();
    let warned = said.iter().filter(|(_, text)| text.contains("may be left over") && text.contains("sandbox s"));
    assert_eq!(warned.count(), 1, "{said:?}");
}

#[test]
fn an_unknown_tier_is_a_warning_once() {
    let heard = Heard::default();
    let runtime = crate::common::runtime();
    with_default(heard.clone(), || {
        for _ in 0..3 {
            let script = script_of();
            let facts = sandbox::Facts::new("tierless").native([sandbox::Capability::Deny]);
            let (client, _log) = Script { facts, ..script }.client();
            assert!(runtime.block_on(client.create(spec())).is_ok());
        }
    });
    let warned = heard.said().into_iter().filter(|(_, text)| text.contains("isolation") && text.contains("tierless"));
    assert_eq!(warned.count(), 1);
}

#[test]
fn a_subscriber_that_panics_harms_nobody() {
    struct Bad;
    impl Subscriber for Bad {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            panic!("subscriber bug")
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }
    let (client, _log) = Script { destroy: after(ms(20), Err(error(ErrorKind::Internal))), ..script_of() }.client();
    let runtime = crate::common::runtime();
    with_default(Bad, || {
        let sandbox = runtime.block_on(client.create(spec())).unwrap();
        assert_eq!(runtime.block_on(sandbox.close()).unwrap_err().kind(), ErrorKind::Internal);
    });
    assert_eq!(client.orphans().len(), 1);
}
