//! The dyn twin of the adapter traits: what lets one `Client` type hold any adapter. One line a method; a method that the
//! traits gain later and this page lacks is found by the test in `tests/it/twin.rs`.

use bytes::Bytes;
use sandbox_core::{
    Attempt, Backend, Body, Boxed, BuildImage, Changes, Clock, Control, Destination, Endpoint, Error, Event, Events,
    Exec, Extend, Facts, Fate, FileInfo, ForkSandbox, GetTree, Instance, ListDestinations, ListDir, ListedSnapshot,
    Listening, Made, MakeDir, OpenPort, Page, Pause, ProcessId, PutTree, Query, ReadFile, Reattach, Remove, Rename,
    Resize, Restart, Result, Resume, SandboxId, SetMeta, SetNetwork, Signal, SnapshotId, Spec, Stat, Stop,
    TakeSnapshot, Tasks, WatchDir, WriteFile,
};
use std::sync::Arc;

pub(crate) type DynMade = Made<Box<dyn DynInstance>>;
pub(crate) type Spawned = (Box<dyn DynControl>, Box<dyn DynEvents>);

/// Methods before the semicolon are plain, those after it are futures, boxed here and erased by what follows the comma.
macro_rules! twin {
    ($twin:ident of $of:ident: $($plain:ident($($parg:ident: $ptype:ty)?) -> $value:ty,)*; $($name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, $erase:expr)?;)*) => {
        pub(crate) trait $twin: Send + Sync {
            $(fn $plain(&self $(, $parg: $ptype)?) -> $value;)*
            $(fn $name<'a>(&'a self $(, $arg: $type)*) -> Boxed<'a, $out>;)*
        }
        impl<T: $of> $twin for T {
            $(fn $plain(&self $(, $parg: $ptype)?) -> $value { $of::$plain(self $(, $parg)?) })*
            $(fn $name<'a>(&'a self $(, $arg: $type)*) -> Boxed<'a, $out> {
                Box::pin(async move { $of::$name(self $(, $arg)*).await$(.map($erase))? })
            })*
        }
    };
}

twin! { DynBackend of Backend: info() -> Facts, clock() -> Option<Arc<dyn Clock>>, probe_key(spec: &Spec) -> String,;
    create(spec: &'a Spec, attempt: &'a Attempt) -> Result<DynMade>, erased;
    destroy(id: &'a SandboxId) -> Result<()>;
    probe(spec: &'a Spec) -> Result<Option<Facts>>;
    attach(id: &'a SandboxId, tasks: &'a Tasks) -> Result<DynMade>, erased;
    list(query: &'a Query) -> Result<Page>;
    fork(source: &'a SandboxId, request: &'a ForkSandbox, attempt: &'a Attempt) -> Result<DynMade>, erased;
    delete_snapshot(id: &'a SnapshotId) -> Result<()>;
    list_snapshots(query: &'a Query) -> Result<Page<ListedSnapshot>>;
    build(request: &'a BuildImage, context: Body) -> Result<String>;
}

twin! { DynInstance of Instance: ;
    spawn(exec: &'a Exec) -> Result<Spawned>, |(control, events)| (Box::new(control) as _, Box::new(events) as _);
    reattach(request: &'a Reattach) -> Result<Spawned>, |(control, events)| (Box::new(control) as _, Box::new(events) as _);
    gone() -> Error;
    detach() -> Result<()>;
    pause(request: &'a Pause) -> Result<()>;
    resume(request: &'a Resume) -> Result<()>;
    stop(request: &'a Stop) -> Result<()>;
    restart(request: &'a Restart) -> Result<()>;
    extend(request: &'a Extend) -> Result<()>;
    snapshot(request: &'a TakeSnapshot) -> Result<SnapshotId>;
    is_listening(request: &'a Listening) -> Result<bool>;
    open_port(request: &'a OpenPort) -> Result<Endpoint>;
    set_network(request: &'a SetNetwork) -> Result<()>;
    destinations(request: &'a ListDestinations) -> Result<Vec<Destination>>;
    read_file(request: &'a ReadFile) -> Result<Body>;
    write_file(request: &'a WriteFile, body: Body) -> Result<()>;
    stat(request: &'a Stat) -> Result<FileInfo>;
    list_dir(request: &'a ListDir) -> Result<Vec<FileInfo>>;
    make_dir(request: &'a MakeDir) -> Result<()>;
    remove(request: &'a Remove) -> Result<()>;
    rename(request: &'a Rename) -> Result<()>;
    set_meta(request: &'a SetMeta) -> Result<()>;
    watch(request: &'a WatchDir) -> Result<Changes>;
    stat_tree(request: &'a Stat) -> Result<FileInfo>;
    put_tree(request: &'a PutTree, tar: Body) -> Result<()>;
    get_tree(request: &'a GetTree) -> Result<Body>;
}

twin! { DynControl of Control: id() -> Option<ProcessId>,;
    kill() -> Result<Fate>;
    signal(signal: Signal) -> Result<()>;
    write(data: Bytes) -> Result<()>;
    close_stdin() -> Result<()>;
    resize(request: &'a Resize) -> Result<()>;
}

pub(crate) trait DynEvents: Send {
    fn next(&mut self) -> Boxed<'_, Result<Option<Event>>>;
}

impl<E: Events> DynEvents for E {
    fn next(&mut self) -> Boxed<'_, Result<Option<Event>>> {
        Box::pin(Events::next(self))
    }
}

fn erased<I: Instance>(made: Made<I>) -> DynMade {
    made.map(|instance| Box::new(instance) as _)
}
