//! The engine: two workers for all adapter code, a thread that only keeps time, and the guard between adapters and
//! everybody else.

mod here;
mod limits;
mod open;
mod spawner;
mod workers;

pub(crate) use here::Here;
pub use limits::Limits;
pub(crate) use open::Open;
pub use open::Orphan;
pub(crate) use spawner::Spawner;
pub(crate) use workers::{Held, Task, Workers, done, guard, quietly};

use crate::{build::Builds, erase::DynBackend};
use sandbox_core::{Backend, Error, ErrorKind, Result};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    time::timeout,
};

/// Owned by users' handles alone. Whoever drops it last waits for what is still being ended.
pub(crate) struct Engine {
    spawner: Option<Arc<Spawner>>,
    stop: Option<oneshot::Sender<Arc<Spawner>>>,
    stopped: Mutex<mpsc::Receiver<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    pub(crate) fn start(backend: impl Backend, limits: Limits) -> Result<Arc<Self>> {
        let failed = |e: std::io::Error| Error::new(ErrorKind::Internal, "cannot start the engine").with_source(e);
        let io = Builder::new_multi_thread().worker_threads(2).thread_name("sandbox-io").enable_all().build();
        let io = io.map_err(failed)?;
        let time = Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let workers = Workers { io: io.handle().clone(), open: Arc::default() };
        let timer = time.handle().clone();
        let (stop, stopping) = oneshot::channel();
        let (done, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("sandbox-time".into()).spawn({
            let (open, limit) = (Arc::clone(&workers.open), limits.teardown);
            move || {
                time.block_on(end(stopping, &open, limit));
                drop(time); // With it goes whoever still waits, and his hold on adapters' objects.
                io.block_on(async { _ = timeout(LAST_JOBS, open.idle()).await });
                io.shutdown_timeout(LAST_JOBS);
                let _ = done.send(());
            }
        });
        let thread = thread.map_err(failed)?;
        let (backend, facts, clock) = Self::ask(&workers, backend)?;
        let spawner = Spawner {
            workers,
            time: timer,
            clock,
            backend,
            facts,
            limits,
            probed: Mutex::new(HashMap::new()),
            builds: Builds::default(),
            lives: Mutex::new(spawner::Lives::Open(Vec::new())),
        };
        Ok(Arc::new(Self {
            spawner: Some(Arc::new(spawner)),
            stop: Some(stop),
            stopped: Mutex::new(stopped),
            thread: Some(thread),
        }))
    }

    pub(crate) fn spawner(&self) -> &Arc<Spawner> {
        self.spawner.as_ref().expect("taken in drop alone")
    }

    /// The first adapter code, and where it belongs.
    fn ask(workers: &Workers, backend: impl Backend) -> Result<spawner::Asked> {
        let (tell, told) = mpsc::channel();
        let w = workers.clone();
        workers.io.spawn(async move {
            let asked = quietly(|| {
                let backend = w.hold(Box::new(backend) as Box<dyn DynBackend>);
                let (facts, clock) = (backend.get().info(), backend.get().clock().map(|clock| Arc::new(w.hold(clock))));
                (Arc::new(backend), Arc::new(facts), clock)
            });
            let _ = tell.send(asked);
        });
        let silent = |_| Error::new(ErrorKind::Internal, "the adapter's `info` gave no answer");
        told.recv_timeout(INFO).map_err(silent)?
    }
}

/// Runs on the thread that keeps time, from the last handle on, or from a start that failed.
async fn end(stopping: oneshot::Receiver<Arc<Spawner>>, open: &Open, limit: Duration) {
    let spawner = stopping.await; // With it goes the backend, on a worker.
    if timeout(limit, open.idle()).await.is_err() {
        for what in open.under_way() {
            open.report(Orphan::new(format!("{what}: not done when the engine ended"), spawner.as_ref().ok()));
        }
    }
}

impl Drop for Engine {
    /// The last handle gives what is still being ended its grace; after that the engine's thread goes on alone. A thread of
    /// the engine itself must not wait for it.
    fn drop(&mut self) {
        let (Some(spawner), Some(stop)) = (self.spawner.take(), self.stop.take()) else { return };
        let own = Handle::try_current().is_ok_and(|h| [spawner.workers.io.id(), spawner.time.id()].contains(&h.id()));
        let grace = spawner.limits.drop_grace;
        let _ = stop.send(spawner);
        if !own && self.stopped.get_mut().is_ok_and(|stopped| stopped.recv_timeout(grace).is_ok()) {
            let _ = self.thread.take().map(|thread| thread.join());
        }
    }
}

/// For `info`, which does no I/O.
const INFO: Duration = Duration::from_secs(5);
/// For dropping what adapters still hold when everything else is over.
const LAST_JOBS: Duration = Duration::from_secs(1);
