//! An adapter that does what its test says at every place, and notes what was asked of it and on which threads.

mod adapter;
mod log;
mod steps;

pub(crate) use adapter::{Methods, Scripted};
pub(crate) use log::Log;
pub(crate) use steps::{Step, code, out, script};

use bytes::Bytes;
use sandbox::{Client, Limits};
use sandbox_core::{
    Attempt, Body, Boxed, BuildImage, Capability, Changes, Clock, Error, ErrorKind, Event, Exec, Facts, Fate, GetTree,
    ListedSnapshot, Made, Page, PutTree, Query, ReadFile, Result, SandboxId, Signal, SnapshotId, Spec, WriteFile,
};
use std::{
    future::{Future, pending},
    sync::Arc,
    time::Duration,
};

/// What an adapter does at one place.
pub(crate) type Hook<A, T> = Box<dyn Fn(A) -> Boxed<'static, T> + Send + Sync>;
/// The same, where the adapter has no time to wait.
pub(crate) type Plain<A, T> = Box<dyn Fn(A) -> T + Send + Sync>;

/// What an adapter does at every place. `..script_of()` fills what a test does not care for.
pub(crate) struct Script {
    pub(crate) facts: Facts,
    /// Whether a create begins by claiming the id `s`.
    pub(crate) claims: bool,
    pub(crate) create: Hook<(Spec, Attempt), Result<()>>,
    /// What the sandbox is handed over with.
    pub(crate) made: Plain<Made<Methods>, Made<Methods>>,
    pub(crate) destroy: Hook<SandboxId, Result<()>>,
    pub(crate) probe: Hook<Spec, Result<Option<Facts>>>,
    pub(crate) probe_key: Plain<Spec, String>,
    pub(crate) attach: Hook<SandboxId, Result<()>>,
    /// The services that an attach finds.
    pub(crate) attached: &'static [&'static str],
    pub(crate) list: Hook<Query, Result<Page>>,
    pub(crate) list_snapshots: Hook<Query, Result<Page<ListedSnapshot>>>,
    pub(crate) build: Hook<(BuildImage, Body), Result<String>>,
    pub(crate) clock: Plain<(), Option<Arc<dyn Clock>>>,
    pub(crate) spawn: Hook<Exec, Result<()>>,
    pub(crate) gone: Hook<(), Error>,
    pub(crate) detach: Hook<(), Result<()>>,
    /// Told what is asked of the sandbox itself: `pause`, `resume`.
    pub(crate) shift: Hook<&'static str, Result<()>>,
    /// Asked with how many events came before.
    pub(crate) next: Hook<usize, Result<Option<Event>>>,
    pub(crate) kill: Hook<(), Result<Fate>>,
    pub(crate) signal: Hook<Signal, Result<()>>,
    pub(crate) write: Hook<Bytes, Result<()>>,
    pub(crate) read_file: Hook<ReadFile, Result<Body>>,
    pub(crate) write_file: Hook<(WriteFile, Body), Result<()>>,
    pub(crate) watch: Hook<(), Result<Changes>>,
    pub(crate) put_tree: Hook<(PutTree, Body), Result<()>>,
    pub(crate) get_tree: Hook<GetTree, Result<Body>>,
    /// Told what is dropped: `backend`, `instance`, `control`, `events`.
    pub(crate) dropped: Plain<&'static str, ()>,
}

/// All goes well, and commands run until they are killed.
pub(crate) fn script_of() -> Script {
    use Capability::*;
    Script {
        facts: Facts::new("scripted").native([Run, Deny, KillOne, StdinWhole, Stdin]),
        claims: true,
        create: hook(|_| async { Ok(()) }),
        made: Box::new(|made| made),
        destroy: hook(|_| async { Ok(()) }),
        probe: hook(|_| async { Ok(None) }),
        probe_key: Box::new(|_| String::new()),
        attach: hook(|_| async { Ok(()) }),
        attached: &[],
        list: hook(|_| async { Ok(Page::default()) }),
        list_snapshots: hook(|_| async {
            Ok(Page::last(vec![ListedSnapshot::new(SnapshotId::new("kept"), std::collections::BTreeMap::new())]))
        }),
        build: hook(|(request, context): (BuildImage, Body)| async move {
            drained(context).await?;
            Ok(format!("built:{}", request.digest))
        }),
        clock: Box::new(|()| None),
        spawn: hook(|_| async { Ok(()) }),
        gone: hook(|()| pending()),
        detach: hook(|()| async { Ok(()) }),
        shift: hook(|_| async { Ok(()) }),
        next: hook(|_| pending()),
        kill: hook(|()| async { Ok(Fate::Dead) }),
        signal: hook(|_| async { Ok(()) }),
        write: hook(|_| async { Ok(()) }),
        read_file: hook(|_| async { Ok(Bytes::from_static(b"content").into()) }),
        write_file: hook(|(_, body)| drained(body)),
        watch: hook(|()| async { Ok(Changes::new(steps::Silence)) }),
        put_tree: hook(|(_, body)| drained(body)),
        get_tree: hook(|_| async { Err(Error::new(ErrorKind::PathNotFound, "scripted")) }),
        dropped: Box::new(|_| ()),
    }
}

impl Script {
    /// With nothing to kill one command by.
    pub(crate) fn without_kill(self) -> Self {
        Self { facts: self.facts.absent(Capability::KillOne, "scripted"), ..self }
    }

    pub(crate) fn having(self, more: impl IntoIterator<Item = Capability>) -> Self {
        Self { facts: self.facts.native(more), ..self }
    }

    pub(crate) fn client(self) -> (Client, Log) {
        self.limited(super::limits())
    }

    pub(crate) fn limited(self, limits: Limits) -> (Client, Log) {
        let (backend, log) = self.backend();
        (Client::builder(backend).limits(limits).build().unwrap(), log)
    }

    pub(crate) fn backend(self) -> (Scripted, Log) {
        let log = Log::default();
        (Scripted::new(self, log.share()), log)
    }
}

pub(crate) fn hook<A: 'static, T: 'static, F: Future<Output = T> + Send + 'static>(
    does: impl Fn(A) -> F + Send + Sync + 'static,
) -> Hook<A, T> {
    Box::new(move |asked| Box::pin(does(asked)))
}

/// A place that answers `answer` after a while.
pub(crate) fn after<A: 'static, T: Clone + Send + Sync + 'static>(time: Duration, answer: T) -> Hook<A, T> {
    hook(move |_| {
        let answer = answer.clone();
        async move {
            tokio::time::sleep(time).await;
            answer
        }
    })
}

pub(crate) fn never<A: 'static, T: Send + 'static>() -> Hook<A, T> {
    hook(|_| pending())
}

/// A place that panics when it is asked.
pub(crate) fn panics<A: 'static, T: 'static>() -> Hook<A, T> {
    Box::new(|_| panic!("adapter bug"))
}

pub(crate) fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "scripted")
}

async fn drained(mut body: Body) -> Result<()> {
    while body.next().await?.is_some() {}
    Ok(())
}
