//! Bodies on their way between the workers and everybody else.

use crate::lease::Lease;
use bytes::{Buf, Bytes, BytesMut};
use sandbox_core::{Body, Chunks, Error, ErrorKind, Result};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

/// Pieces on their way.
pub(super) type Pieces = mpsc::Receiver<Result<Bytes>>;

/// An adapter's body, pulled on the workers for a reader anywhere.
pub(super) fn relayed(lease: &Lease, body: Body) -> Body {
    let len = body.len;
    Body::new(len, Received(relay(lease, body)))
}

/// The same, as pieces.
pub(super) fn relay(lease: &Lease, body: Body) -> Pieces {
    let (out, pieces) = mpsc::channel(DEPTH);
    let (life, limit) = (Arc::clone(&lease.life), lease.spawner.limits.operation);
    let mut body = lease.spawner.workers.hold(body);
    lease.spawner.workers.io.spawn(async move {
        loop {
            let next = async {
                let late = |_| Error::new(ErrorKind::OperationTimeout, format!("no more of the file within {limit:?}"));
                timeout(limit, crate::engine::guard(body.get_mut().next())).await.map_err(late)?
            };
            let next = tokio::select! {
                biased;
                () = out.closed() => return,
                next = next => next,
                reason = life.ending() => {
                    Err(Error::new(ErrorKind::Gone, "the sandbox ended during the transfer").with_source(reason))
                }
            };
            let last = next.is_err();
            let Some(piece) = next.transpose() else { return };
            if out.send(piece).await.is_err() || last {
                return;
            }
        }
    });
    pieces
}

pub(super) struct Received(pub(super) Pieces);

impl Chunks for Received {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.0.recv().await.transpose()
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
            let next = self.0.next().await;
            self.1.set(Moment::Sending(Instant::now()));
            next
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

/// Resolves with the error of a transfer whose receiver took nothing for `limit`.
pub(super) async fn stalled(progress: Arc<Progress>, limit: Duration) -> Error {
    loop {
        let idle = progress.idle();
        if idle >= limit {
            return Error::new(ErrorKind::OperationTimeout, format!("the transfer stood still for {limit:?}"));
        }
        sleep_until(Instant::now() + (limit - idle)).await;
    }
}

/// What a thread of its own writes, as a body. An error of `write` is the body's.
pub(super) fn produced(
    io: &Handle,
    len: Option<u64>,
    write: impl FnOnce(&mut Outlet) -> io::Result<()> + Send + 'static,
) -> Body {
    let (out, pieces) = mpsc::channel(DEPTH);
    io.spawn_blocking(move || {
        let mut outlet = Outlet { out, buffer: BytesMut::new() };
        let written = write(&mut outlet).and_then(|()| io::Write::flush(&mut outlet));
        if let Err(error) = written {
            let _ = outlet.out.blocking_send(Err(from_io(error)));
        }
    });
    Body::new(len, Received(pieces))
}

/// A writer that a [`produced`] body reads.
pub(super) struct Outlet {
    out: mpsc::Sender<Result<Bytes>>,
    buffer: BytesMut,
}

impl io::Write for Outlet {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(data);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = self.buffer.split().freeze();
        self.out.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// A reader over pieces, for a thread of its own.
pub(super) struct Inlet {
    pieces: Pieces,
    current: Bytes,
}

impl Inlet {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, current: Bytes::new() }
    }
}

impl io::Read for Inlet {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece.map_err(io::Error::other)?,
            }
        }
        let n = into.len().min(self.current.len());
        self.current.copy_to_slice(&mut into[..n]);
        Ok(n)
    }
}

/// An error that went through a reader or writer comes out as it went in.
pub(super) fn from_io(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => {
            Error::new(ErrorKind::Protocol, format!("the stream of files is broken: {error}")).with_source(error)
        }
    }
}

/// Pieces under way at most.
const DEPTH: usize = 4;
pub(super) const PIECE: usize = 256 << 10;

/// Held by whoever waits for a transfer.
pub(super) type Leash = oneshot::Sender<()>;

/// A user's body, pulled on the workers for a thread of its own. Once the leash is gone the thread gets an error: an end
/// would pass for the whole.
pub(super) fn pulled(lease: &Lease, mut body: Body) -> (Pieces, Leash) {
    let (out, pieces) = mpsc::channel(DEPTH);
    let (leash, mut given_up) = oneshot::channel();
    lease.spawner.workers.io.spawn(async move {
        loop {
            let next = tokio::select! {
                biased;
                () = out.closed() => return,
                _ = &mut given_up => Err(Error::new(ErrorKind::Gone, "nobody waits for the transfer any more")),
                next = crate::engine::guard(body.next()) => next,
            };
            let last = next.is_err();
            let Some(piece) = next.transpose() else { return };
            if out.send(piece).await.is_err() || last {
                return;
            }
        }
    });
    (pieces, leash)
}
