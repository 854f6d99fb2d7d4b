//! Where adapter code runs, and nowhere else.

use super::Open;
use sandbox_core::{Boxed, Error, ErrorKind, Result};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tracing::instrument::{Instrument, WithSubscriber};

/// Adapter code under way.
pub(crate) type Task<T> = oneshot::Receiver<Result<T>>;

/// What has become of it.
pub(crate) fn done<T>(told: Result<Result<T>, oneshot::error::RecvError>) -> Result<T> {
    told.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the engine ended first")))
}

#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) io: Handle,
    pub(crate) open: Arc<Open>,
}

impl Workers {
    /// Ends with its receiver: whoever drops that has dropped the work, here.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Task<T> {
        let (mut tell, told) = oneshot::channel();
        let task = async move {
            let done = tokio::select! { biased; () = tell.closed() => return, done = guard(work) => done };
            let _ = tell.send(done);
        };
        followed(&self.io, task);
        told
    }

    /// Bounded from beside it.
    pub(crate) async fn bounded<T: Send + 'static>(
        &self,
        limit: Duration,
        work: Boxed<'static, Result<T>>,
    ) -> Result<T> {
        let late = |_| Error::new(ErrorKind::TeardownTimeout, format!("not done within {limit:?}"));
        timeout(limit, self.run(work)).await.map_or_else(|e| Err(late(e)), done)
    }

    pub(crate) fn hold<T: Send + 'static>(&self, object: T) -> Held<T> {
        Held { object: Some(object), workers: self.clone() }
    }
}

/// Spans and subscribers follow the work.
pub(super) fn followed(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    if tracing::dispatcher::has_been_set() {
        runtime.spawn(task.in_current_span().with_current_subscriber());
    } else {
        runtime.spawn(task);
    }
}

/// An object of the adapter: wherever its last holder goes, it is dropped on a worker, and its panic ends there.
pub(crate) struct Held<T: Send + 'static> {
    object: Option<T>,
    workers: Workers,
}

impl<T: Send + 'static> Held<T> {
    pub(crate) fn get(&self) -> &T {
        self.object.as_ref().expect("taken in drop alone")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.object.as_mut().expect("taken in drop alone")
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let object = self.object.take();
        if Handle::try_current().is_ok_and(|here| here.id() == self.workers.io.id()) {
            let _ = quietly(|| drop(object));
        } else {
            let job = self.workers.open.job("dropping an adapter's object");
            self.workers.io.spawn(async move {
                let _ = quietly(|| drop(object));
                drop(job);
            });
        }
    }
}

/// A panic of foreign code becomes `internal`. Its payload is leaked: to drop it may panic again.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(|s| &**s));
        let error = Error::new(ErrorKind::Internal, format!("the adapter panicked: {}", text.unwrap_or("no text")));
        std::mem::forget(payload);
        error
    })
}

pub(crate) async fn guard<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|cx| quietly(|| work.as_mut().poll(cx)).unwrap_or_else(|panic| Poll::Ready(Err(panic)))).await
}
