//! Bodies on their way between the workers, the host's files and everybody else. No thread waits for anything but the host's
//! own file system, so however many bodies are open, and read by nobody, there are threads for the others.

use crate::{engine::Spawner, lease::Lease};
use bytes::Bytes;
use sandbox_core::{Body, Chunks, Error, ErrorKind, Result};
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::{JoinError, JoinHandle},
    time::{Instant, Sleep, sleep, timeout},
};

/// Where a transfer's steps run, and how long each may take.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    io: Handle,
    limit: Duration,
}

impl Pace {
    pub(super) fn of(lease: &Lease) -> Self {
        Self::on(&lease.spawner)
    }

    pub(crate) fn on(s: &Spawner) -> Self {
        Self { io: s.workers.io.clone(), limit: s.limits.operation }
    }

    #[cfg(test)]
    pub(super) fn test() -> Self {
        Self { io: Handle::try_current().expect("a runtime"), limit: Duration::from_secs(60) }
    }

    /// One step that others have to make.
    pub(super) async fn within<T>(&self, what: &str, step: impl Future<Output = Result<T>>) -> Result<T> {
        let over = self.pause(self.limit);
        tokio::select! {
            biased;
            done = step => done,
            () = over => Err(Error::new(ErrorKind::OperationTimeout, format!("{what} took more than {:?}", self.limit))),
        }
    }

    /// One step on the host's file system, on a thread that may block. Whatever it makes is dropped if nobody waits any more.
    pub(super) async fn host<T: Send + 'static>(&self, step: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.within(HOST, joined(self.io.spawn_blocking(step))).await
    }

    /// What is read from the host, a piece at a time, as a body.
    pub(super) fn body(&self, len: Option<u64>, read: impl FnMut() -> Result<Option<Bytes>> + Send + 'static) -> Body {
        Body::new(len, Steps { pace: self.clone(), at: At::Idle(Box::new(read)) })
    }

    /// Resolves with the error of a transfer whose receiver took nothing for the limit.
    pub(super) async fn stalled(self, progress: Arc<Progress>) -> Error {
        loop {
            let left = self.limit.saturating_sub(progress.idle());
            if left.is_zero() {
                let message = format!("the transfer stood still for {:?}", self.limit);
                return Error::new(ErrorKind::OperationTimeout, message);
            }
            self.pause(left).await;
        }
    }

    /// Goes by the engine's timer, so that whoever waits needs no runtime.
    fn pause(&self, time: Duration) -> Sleep {
        let _here = self.io.enter();
        sleep(time)
    }
}

async fn joined<T>(step: impl Future<Output = std::result::Result<Result<T>, JoinError>>) -> Result<T> {
    let died = |e| Err(Error::new(ErrorKind::Internal, "the thread for the host's files died").with_source(e));
    step.await.unwrap_or_else(died)
}

type Read = Box<dyn FnMut() -> Result<Option<Bytes>> + Send>;

struct Steps {
    pace: Pace,
    at: At,
}

enum At {
    Idle(Read),
    /// Kept between two calls of `next`, if the first is given up.
    Busy(JoinHandle<Result<(Read, Option<Bytes>)>>),
    Over,
}

impl Chunks for Steps {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let At::Idle(mut read) = std::mem::replace(&mut self.at, At::Over) {
            self.at = At::Busy(self.pace.io.spawn_blocking(move || read().map(|piece| (read, piece))));
        }
        let At::Busy(step) = &mut self.at else { return Ok(None) };
        let done = self.pace.within(HOST, joined(step)).await;
        self.at = At::Over;
        let (read, piece) = done?;
        if piece.is_some() {
            self.at = At::Idle(read);
        }
        Ok(piece)
    }
}

/// An adapter's body, pulled on the workers for a reader anywhere, each piece within the limit of an operation.
pub(super) fn relayed(lease: &Lease, body: Body) -> Body {
    let len = body.len;
    let (out, pieces) = mpsc::channel(DEPTH);
    let (life, limit) = (Arc::clone(&lease.life), lease.spawner.limits.operation);
    let mut body = lease.spawner.workers.hold(body);
    lease.spawner.workers.io.spawn(async move {
        loop {
            let next = async {
                let late = |_| Error::new(ErrorKind::OperationTimeout, format!("no more of the file within {limit:?}"));
                timeout(limit, crate::engine::guard(content(body.get_mut()))).await.map_err(late)?
            };
            let next = tokio::select! {
                biased;
                () = out.closed() => return,
                next = next => next,
                reason = life.ending() => {
                    Err(Error::new(ErrorKind::Gone, "the sandbox ended during the transfer").with_source(reason))
                }
            };
            let last = !matches!(next, Ok(Some(_)));
            if out.send(next).await.is_err() || last {
                return;
            }
        }
    });
    Body::new(len, Received { pieces, over: false })
}

/// The next piece that is not empty. A source of nothing but empty ones lets the timers have their turn.
async fn content(body: &mut Body) -> Result<Option<Bytes>> {
    loop {
        match body.next().await? {
            Some(piece) if piece.is_empty() => tokio::task::yield_now().await,
            next => return Ok(next),
        }
    }
}

struct Received {
    pieces: mpsc::Receiver<Result<Option<Bytes>>>,
    over: bool,
}

impl Chunks for Received {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.over {
            return Ok(None);
        }
        // An end is said: a channel that is just gone must not pass for one.
        let gone = || Err(Error::new(ErrorKind::Gone, "the engine ended during the transfer"));
        let next = self.pieces.recv().await.unwrap_or_else(gone);
        self.over = !matches!(next, Ok(Some(_)));
        next
    }
}

/// How far a transfer has come, as the body that feeds it sees it.
pub(super) struct Progress(Mutex<Moment>);

enum Moment {
    /// The receiver has been at it since then.
    Sending(Instant),
    /// The source is asked for more.
    Asking,
}

/// A body that tells how far it has come.
pub(super) fn watched(body: Body) -> (Body, Arc<Progress>) {
    struct Watched(Body, Arc<Progress>);
    impl Chunks for Watched {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            self.1.set(Moment::Asking);
            let _answered = Answered(&self.1);
            self.0.next().await
        }
    }
    /// Also where the receiver gives its question up.
    struct Answered<'a>(&'a Progress);
    impl Drop for Answered<'_> {
        fn drop(&mut self) {
            self.0.set(Moment::Sending(Instant::now()));
        }
    }
    let progress = Arc::new(Progress(Mutex::new(Moment::Sending(Instant::now()))));
    (Body::new(body.len, Watched(body, Arc::clone(&progress))), progress)
}

impl Progress {
    fn set(&self, moment: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    fn idle(&self) -> Duration {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Moment::Sending(since) => since.elapsed(),
            Moment::Asking => Duration::ZERO,
        }
    }
}

const HOST: &str = "the host's file system";
/// Pieces under way at most.
const DEPTH: usize = 4;
/// Bytes of a piece that is read from the host.
pub(super) const PIECE: usize = 256 << 10;
