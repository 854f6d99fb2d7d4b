//! What tasks hold. Never the engine itself, or they would keep it alive.

use super::{Held, Limits, Orphan, Workers, done, workers::followed};
use crate::{build::Builds, erase::DynBackend, life::Life};
use sandbox_core::{Clock, Error, ErrorKind, Facts, Result, SandboxId};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep},
};

/// The backend, its facts and its clock.
pub(crate) type Asked = (Arc<Held<Box<dyn DynBackend>>>, Arc<Facts>, Option<Arc<Held<Arc<dyn Clock>>>>);

pub(crate) struct Spawner {
    pub(crate) workers: Workers,
    pub(crate) time: Handle,
    pub(super) clock: Option<Arc<Held<Arc<dyn Clock>>>>,
    pub(crate) backend: Arc<Held<Box<dyn DynBackend>>>,
    /// What `info` said.
    pub(crate) facts: Arc<Facts>,
    pub(crate) limits: Limits,
    /// What `probe` said, by key.
    pub(crate) probed: Mutex<HashMap<String, Arc<Facts>>>,
    /// What was built, by digest.
    pub(crate) builds: Builds,
    pub(super) lives: Mutex<Lives>,
}

/// The sandboxes of a client.
pub(super) enum Lives {
    Open(Vec<Weak<Life>>),
    /// Kept, so that whoever closes it again hears the same.
    Closed(Vec<Arc<Life>>),
}

fn closed() -> Error {
    Error::new(ErrorKind::WrongState, "the client was closed").with_hint("make another client")
}

impl Spawner {
    /// On the thread that keeps time; counted before it is spawned.
    pub(crate) fn watch(&self, what: impl Into<Cow<'static, str>>, work: impl Future<Output = ()> + Send + 'static) {
        let job = self.workers.open.job(what);
        let task = async move {
            work.await;
            drop(job);
        };
        followed(&self.time, task);
    }

    /// Takes a sandbox in, unless the client has been closed.
    pub(crate) fn admit(&self, life: &Arc<Life>) -> Result<()> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        let Lives::Open(lives) = &mut *lives else { return Err(closed()) };
        if lives.len() == lives.capacity() {
            lives.retain(|life| life.strong_count() > 0);
        }
        lives.push(Arc::downgrade(life));
        Ok(())
    }

    /// Whether the client is still open.
    pub(crate) fn open(&self) -> Result<()> {
        match *self.lives.lock().unwrap_or_else(PoisonError::into_inner) {
            Lives::Open(_) => Ok(()),
            Lives::Closed(_) => Err(closed()),
        }
    }

    /// Begins the end of every sandbox of the client, and lets no other in.
    pub(crate) fn close(&self) -> Vec<Arc<Life>> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Lives::Open(open) = &*lives {
            *lives = Lives::Closed(open.iter().filter_map(Weak::upgrade).collect());
        }
        let Lives::Closed(all) = &*lives else { unreachable!("closed above") };
        let all = all.clone();
        drop(lives);
        for life in &all {
            life.leave(Error::new(ErrorKind::Gone, "the client was closed"));
        }
        all
    }

    /// Adapter code for somebody who waits, watched from beside: ended when he leaves, when its sandbox ends, and when
    /// `stalled` resolves, which then is its error.
    pub(crate) fn attended<T: Send + 'static>(
        &self,
        what: &'static str,
        life: Option<Arc<Life>>,
        stalled: impl Future<Output = Error> + Send + 'static,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> oneshot::Receiver<Result<T>> {
        let (mut answer, told) = oneshot::channel();
        let work = self.workers.run(work);
        self.watch(what, async move {
            let ending = async {
                match life {
                    Some(life) => life.ending().await,
                    None => std::future::pending().await,
                }
            };
            let result = tokio::select! {
                biased;
                told = work => done(told),
                () = answer.closed() => return,
                reason = ending => Err(Error::new(ErrorKind::Gone, "the sandbox has ended").with_source(reason).applied(true)),
                error = stalled => Err(error),
            };
            let _ = answer.send(result);
        });
        told
    }

    /// Adapter code for somebody who waits, within the limit of an operation.
    pub(crate) async fn operate<T: Send + 'static>(
        &self,
        what: &'static str,
        life: Option<Arc<Life>>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let limit = self.limits.operation;
        let stalled = async move {
            sleep(limit).await;
            Error::new(ErrorKind::OperationTimeout, format!("no answer within {limit:?}"))
        };
        done(self.attended(what, life, stalled, work).await)
    }

    /// Whether users' deadlines go by a clock of the backend's own.
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Resolves after `limit` of the backend's clock. All other limits are real time.
    ///
    /// # Errors
    ///
    /// `internal` where the clock panics.
    pub(crate) async fn pass(&self, limit: Duration) -> Result<()> {
        match self.clock.clone() {
            None => {
                sleep(limit).await;
                Ok(())
            }
            Some(clock) => {
                let asleep = async move {
                    clock.get().sleep(limit).await;
                    Ok(())
                };
                done(self.workers.run(asleep).await)
            }
        }
    }

    /// Resolves with the error of a command that is not over in time.
    pub(crate) async fn deadline(&self, limit: Duration) -> Error {
        match self.pass(limit).await {
            Ok(()) => Error::new(ErrorKind::ExecutionTimeout, format!("not over within {limit:?}")),
            Err(error) => error,
        }
    }

    /// Ends a sandbox; what may be left is reported.
    pub(crate) async fn end(&self, id: &SandboxId, labels: &BTreeMap<String, String>) -> Result<()> {
        let result = self.destroy(id.clone()).await.map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::TeardownTimeout | ErrorKind::Internal | ErrorKind::Auth => error.kind(),
                _ => ErrorKind::TeardownFailed,
            };
            let hint = error.hint().map_or_else(
                || format!("sandbox {id} may still run and cost money: end it with `destroy`, or let `sweep` find it"),
                str::to_string,
            );
            if kind == error.kind() {
                error.with_hint(hint).with_sandbox(id)
            } else {
                let message = format!("the provider did not end sandbox {id}: {}", error.message());
                Error::new(kind, message).with_hint(hint).with_source(error).with_sandbox(id)
            }
        });
        result.inspect_err(|error| {
            let mut orphan = Orphan::new(format!("sandbox {id}"), None);
            orphan.backend = self.facts.name().to_string();
            (orphan.id, orphan.labels, orphan.error) = (Some(id.clone()), labels.clone(), Some(error.clone()));
            orphan.marker = labels.get(sandbox_core::labels::MARKER).cloned();
            self.workers.open.report(orphan);
        })
    }

    /// Ends what a request without an answer may have made, or may still make: "gone" is no proof here, only silence is a
    /// hint.
    pub(crate) async fn end_in_doubt(&self, id: &SandboxId, marker: &str, labels: &BTreeMap<String, String>) {
        let (begun, mut quiet, mut pause) = (Instant::now(), Instant::now(), Duration::from_millis(50));
        while quiet.elapsed() < self.limits.quiet && begun.elapsed() < self.limits.teardown {
            if self.destroy(id.clone()).await.is_err() {
                quiet = Instant::now();
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
        let what = format!("sandbox {id}: its create had no answer; destroyed until quiet, it may yet appear");
        let mut orphan = Orphan::new(what, None);
        orphan.backend = self.facts.name().to_string();
        (orphan.id, orphan.marker, orphan.labels) = (Some(id.clone()), Some(marker.to_string()), labels.clone());
        self.workers.open.report(orphan);
    }

    async fn destroy(&self, id: SandboxId) -> Result<()> {
        let backend = Arc::clone(&self.backend);
        let work = Box::pin(async move { backend.get().destroy(&id).await });
        self.workers.bounded(self.limits.teardown, work).await
    }
}

impl Spawner {
    /// Real time, for callers outside any runtime.
    pub(crate) async fn pause(&self, duration: Duration) {
        let (mut tell, told) = oneshot::channel::<()>();
        self.time.spawn(async move {
            tokio::select! { () = tell.closed() => {}, () = sleep(duration) => {} }
        });
        let _ = told.await;
    }
}
