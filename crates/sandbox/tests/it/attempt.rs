//! Whether somebody still waits for a create, as an adapter sees it.

use crate::common::LONG;
use sandbox_core::{Attempt, Caller, Result, Tasks};
use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Wake},
};

#[test]
fn all_who_prepare_hear_that_the_caller_left() {
    #[derive(Default)]
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
    let caller = Arc::new(Caller::default());
    let attempt = Attempt::new("m", Arc::clone(&caller), Tasks::new(drop));
    let (one, two) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let mut first = Box::pin(attempt.before_dispatch(pending::<Result<()>>()));
    let mut second = Box::pin(attempt.before_dispatch(pending::<Result<()>>()));
    for (future, woken) in [(&mut first, &one), (&mut second, &two)] {
        let waker = Arc::clone(woken).into();
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(!one.0.load(SeqCst) && !two.0.load(SeqCst));
    caller.leave();
    assert!(one.0.load(SeqCst) && two.0.load(SeqCst));
}

#[test]
fn a_waker_that_polls_at_once_may_ask_again() {
    type Polled = Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>;
    struct Inline(Polled);
    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let future = self.0.lock().unwrap().take();
            if let Some(mut future) = future {
                let waker = Arc::clone(&self).into();
                let _ = future.as_mut().poll(&mut Context::from_waker(&waker));
            }
        }
    }
    let caller = Arc::new(Caller::default());
    let inline = Arc::new(Inline(Mutex::new(None)));
    let asks = Arc::clone(&caller);
    let mut gone: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { asks.gone().await });
    let waker = Arc::clone(&inline).into();
    assert!(gone.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *inline.0.lock().unwrap() = Some(gone);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        caller.leave();
        let _ = tell.send(());
    });
    assert!(told.recv_timeout(LONG).is_ok(), "`leave` waits for itself");
}
