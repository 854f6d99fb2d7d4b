//! A backend around the subject's: it counts calls, and injects faults at the seam between engine and adapter.
//!
//! With it, rows about an adapter that hangs, fails or panics need nothing from the adapter's author. Without a fault it passes
//! everything on unchanged.

use bytes::Bytes;
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Change, ChangeSource, Changes, Clock, Control, Destination, Endpoint, Error,
    Event, Events, Exec, Extend, Facts, Fate, FileInfo, ForkSandbox, GetTree, Instance, ListDestinations, ListDir,
    ListedSnapshot, Listening, Made, MakeDir, OpenPort, Page, Pause, ProcessId, PutTree, Query, ReadFile, Reattach,
    Remove, Rename, Resize, Restart, Result, Resume, SandboxId, SetMeta, SetNetwork, Signal, SnapshotId, Spec, Stat,
    Stop, TakeSnapshot, Tasks, WatchDir, WriteFile,
};
use std::{
    collections::BTreeMap,
    future::pending,
    panic::resume_unwind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Where a call passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    Probe,
    /// Before the adapter's create.
    Create,
    /// After the adapter's create answered, before the engine hears of it.
    Created,
    Destroy,
    Attach,
    List,
    Spawn,
    Reattach,
    /// Before each event of a command.
    Next,
    Kill,
    Signal,
    Write,
    Resize,
    Detach,
    /// Pause, resume, stop, restart.
    Shift,
    Extend,
    Fork,
    /// Making and deleting snapshots.
    Snapshot,
    /// Building an image.
    Build,
    /// Another policy, what was reached, and ports.
    Network,
    /// Any operation on files or trees.
    Files,
    /// After the adapter's changes of files were dropped; nothing can happen there.
    Unwatch,
}

/// What happens there.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Fail(Error),
    Panic,
    Hang,
    Delay(Duration),
}

/// The switchboard of one [`Meddle`]: faults can be set and cleared while it works.
#[derive(Debug, Default)]
pub(crate) struct Meddling(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    faults: BTreeMap<Point, Fault>,
    /// Those that happen once.
    once: BTreeMap<Point, Fault>,
    calls: BTreeMap<Point, usize>,
    widen: Option<Facts>,
}

impl Meddling {
    pub(crate) fn set(&self, point: Point, fault: Fault) {
        self.state().faults.insert(point, fault);
    }

    /// The same, for the next call alone.
    pub(crate) fn once(&self, point: Point, fault: Fault) {
        self.state().once.insert(point, fault);
    }

    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.once.clear();
    }

    /// What `probe` answers in place of the adapter.
    pub(crate) fn answer_probe(&self, facts: Facts) {
        self.state().widen = Some(facts);
    }

    /// How many calls have passed a point.
    pub(crate) fn calls(&self, point: Point) -> usize {
        self.state().calls.get(&point).copied().unwrap_or_default()
    }

    async fn pass(&self, point: Point) -> Result<()> {
        let fault = {
            let mut state = self.state();
            *state.calls.entry(point).or_default() += 1;
            state.once.remove(&point).or_else(|| state.faults.get(&point).cloned())
        };
        match fault {
            None => Ok(()),
            Some(Fault::Fail(error)) => Err(error),
            // Not `panic!`: the hook would print a trace for what is meant.
            Some(Fault::Panic) => resume_unwind(Box::new("a panic injected by the contract suite")),
            Some(Fault::Hang) => pending().await,
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Meddle<B> {
    inner: B,
    meddling: Arc<Meddling>,
}

impl<B> Meddle<B> {
    pub(crate) fn new(inner: B, meddling: Arc<Meddling>) -> Self {
        Self { inner, meddling }
    }

    fn wrap<I>(&self, made: Made<I>) -> Made<Meddled<I>> {
        made.map(|inner| Meddled { inner, meddling: Arc::clone(&self.meddling) })
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Meddle<B> {
    type Instance = Meddled<B::Instance>;

    fn info(&self) -> Facts {
        self.inner.info()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<Self::Instance>> {
        self.meddling.pass(Point::Create).await?;
        let made = self.inner.create(spec, attempt).await?;
        self.meddling.pass(Point::Created).await?;
        Ok(self.wrap(made))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.meddling.pass(Point::Destroy).await?;
        self.inner.destroy(id).await
    }

    async fn probe(&self, spec: &Spec) -> Result<Option<Facts>> {
        self.meddling.pass(Point::Probe).await?;
        let answer = self.meddling.state().widen.clone();
        match answer {
            Some(facts) => Ok(Some(facts)),
            None => self.inner.probe(spec).await,
        }
    }

    fn probe_key(&self, spec: &Spec) -> String {
        self.inner.probe_key(spec)
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<Self::Instance>> {
        self.meddling.pass(Point::Attach).await?;
        Ok(self.wrap(self.inner.attach(id, tasks).await?))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.meddling.pass(Point::List).await?;
        self.inner.list(query).await
    }

    async fn fork(&self, source: &SandboxId, request: &ForkSandbox, attempt: &Attempt) -> Result<Made<Self::Instance>> {
        self.meddling.pass(Point::Fork).await?;
        Ok(self.wrap(self.inner.fork(source, request, attempt).await?))
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.meddling.pass(Point::Snapshot).await?;
        self.inner.delete_snapshot(id).await
    }

    async fn list_snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        self.meddling.pass(Point::List).await?;
        self.inner.list_snapshots(query).await
    }

    async fn build(&self, request: &BuildImage, context: Body) -> Result<String> {
        self.meddling.pass(Point::Build).await?;
        self.inner.build(request, context).await
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }
}

pub(crate) struct Meddled<T> {
    inner: T,
    meddling: Arc<Meddling>,
}

macro_rules! forward {
    ($point:ident: $($name:ident($request:ident: $type:ty $(, $body:ident: $btype:ty)?) -> $answer:ty;)*) => {
        $(async fn $name(&self, $request: &$type $(, $body: $btype)?) -> Result<$answer> {
            self.meddling.pass(Point::$point).await?;
            self.inner.$name($request $(, $body)?).await
        })*
    };
}

#[deny(clippy::missing_trait_methods)]
impl<I: Instance> Instance for Meddled<I> {
    type Control = Meddled<I::Control>;
    type Events = Meddled<I::Events>;

    async fn spawn(&self, exec: &Exec) -> Result<(Self::Control, Self::Events)> {
        self.meddling.pass(Point::Spawn).await?;
        let (control, events) = self.inner.spawn(exec).await?;
        let meddling = || Arc::clone(&self.meddling);
        Ok((Meddled { inner: control, meddling: meddling() }, Meddled { inner: events, meddling: meddling() }))
    }

    async fn reattach(&self, request: &Reattach) -> Result<(Self::Control, Self::Events)> {
        self.meddling.pass(Point::Reattach).await?;
        let (control, events) = self.inner.reattach(request).await?;
        let meddling = || Arc::clone(&self.meddling);
        Ok((Meddled { inner: control, meddling: meddling() }, Meddled { inner: events, meddling: meddling() }))
    }

    async fn gone(&self) -> Error {
        self.inner.gone().await
    }

    async fn detach(&self) -> Result<()> {
        self.meddling.pass(Point::Detach).await?;
        self.inner.detach().await
    }

    async fn watch(&self, request: &WatchDir) -> Result<Changes> {
        self.meddling.pass(Point::Files).await?;
        let inner = self.inner.watch(request).await?;
        Ok(Changes::new(Watching { inner: Some(inner), meddling: Arc::clone(&self.meddling) }))
    }

    forward! { Shift:
        pause(request: Pause) -> ();
        resume(request: Resume) -> ();
        stop(request: Stop) -> ();
        restart(request: Restart) -> ();
    }

    forward! { Extend:
        extend(request: Extend) -> ();
    }

    forward! { Snapshot:
        snapshot(request: TakeSnapshot) -> SnapshotId;
    }

    forward! { Network:
        open_port(request: OpenPort) -> Endpoint;
        is_listening(request: Listening) -> bool;
        set_network(request: SetNetwork) -> ();
        destinations(request: ListDestinations) -> Vec<Destination>;
    }

    forward! { Files:
        read_file(request: ReadFile) -> Body;
        write_file(request: WriteFile, body: Body) -> ();
        stat(request: Stat) -> FileInfo;
        stat_tree(request: Stat) -> FileInfo;
        list_dir(request: ListDir) -> Vec<FileInfo>;
        make_dir(request: MakeDir) -> ();
        remove(request: Remove) -> ();
        rename(request: Rename) -> ();
        set_meta(request: SetMeta) -> ();
        put_tree(request: PutTree, tar: Body) -> ();
        get_tree(request: GetTree) -> Body;
    }
}

struct Watching {
    inner: Option<Changes>,
    meddling: Arc<Meddling>,
}

impl ChangeSource for Watching {
    async fn next(&mut self) -> Result<Option<Change>> {
        match &mut self.inner {
            Some(inner) => inner.next().await,
            None => Ok(None),
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.inner.take());
        *self.meddling.state().calls.entry(Point::Unwatch).or_default() += 1;
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: Control> Control for Meddled<C> {
    fn id(&self) -> Option<ProcessId> {
        self.inner.id()
    }

    async fn kill(&self) -> Result<Fate> {
        self.meddling.pass(Point::Kill).await?;
        self.inner.kill().await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        self.meddling.pass(Point::Signal).await?;
        self.inner.signal(signal).await
    }

    async fn write(&self, data: Bytes) -> Result<()> {
        self.meddling.pass(Point::Write).await?;
        self.inner.write(data).await
    }

    async fn close_stdin(&self) -> Result<()> {
        self.inner.close_stdin().await
    }

    async fn resize(&self, request: &Resize) -> Result<()> {
        self.meddling.pass(Point::Resize).await?;
        self.inner.resize(request).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Events> Events for Meddled<E> {
    async fn next(&mut self) -> Result<Option<Event>> {
        self.meddling.pass(Point::Next).await?;
        self.inner.next().await
    }
}
