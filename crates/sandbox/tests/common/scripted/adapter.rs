//! The traits, each method by its hook. The lint makes a method that the traits gain later appear here, and with that in
//! the test that calls every one of them through the facade.
#![deny(clippy::missing_trait_methods)]

use super::{Script, log::Notes};
use bytes::Bytes;
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Changes, Clock, Control, Destination, Endpoint, Error, Event, Events, Exec,
    Extend, Facts, Fate, FileInfo, FileKind, ForkSandbox, GetTree, Instance, ListDestinations, ListDir, ListedSnapshot,
    Listening, Made, MakeDir, OpenPort, Page, Pause, ProcessId, PutTree, Query, ReadFile, Reattach, Remove, Rename,
    Resize, Restart, Result, Resume, SandboxId, Secret, SetMeta, SetNetwork, Signal, SnapshotId, Spec, Stat, Stop,
    TakeSnapshot, Tasks, WatchDir, WriteFile,
};
use std::sync::Arc;

struct Shared {
    script: Script,
    notes: Notes,
}

pub(crate) struct Scripted(Arc<Shared>);
/// A live sandbox.
pub(crate) struct Methods(Arc<Shared>);
pub(crate) struct Handle(Arc<Shared>);
pub(crate) struct Stream(Arc<Shared>, usize);

impl Scripted {
    pub(super) fn new(script: Script, notes: Notes) -> Self {
        Self(Arc::new(Shared { script, notes }))
    }
}

impl Shared {
    fn made(self: &Arc<Self>, id: SandboxId) -> Made<Methods> {
        self.made_with(id, &[])
    }

    /// The id of a service is that of its sandbox and its name.
    fn made_with(self: &Arc<Self>, id: SandboxId, services: &[String]) -> Made<Methods> {
        let made = |id| Made::new(id, Methods(Arc::clone(self)));
        let beside = services.iter().map(|name| (name, made(SandboxId::new(format!("{id}-{name}")))));
        (self.script.made)(beside.fold(made(id.clone()), |made, (name, service)| made.service(name, service)))
    }
}

macro_rules! noted {
    ($($type:ident $what:literal)*) => {
        $(impl Drop for $type {
            fn drop(&mut self) {
                self.0.notes.say(concat!("drop ", $what));
                (self.0.script.dropped)($what);
            }
        })*
    };
}
noted!(Scripted "backend" Methods "instance" Handle "control" Stream "events");

impl Backend for Scripted {
    type Instance = Methods;

    fn info(&self) -> Facts {
        self.0.notes.say("info");
        self.0.script.facts.clone()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<Methods>> {
        let id = SandboxId::new("s");
        let services: Vec<_> = spec.services.keys().cloned().collect();
        if self.0.script.claims {
            attempt.claim(id.clone());
            services.iter().for_each(|name| drop(attempt.claim(SandboxId::new(format!("{id}-{name}")))));
        }
        self.0.notes.say("create");
        (self.0.script.create)((spec.clone(), attempt.clone())).await?;
        Ok(self.0.made_with(id, &services))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.0.notes.say("destroy");
        (self.0.script.destroy)(id.clone()).await?;
        self.0.notes.say("destroyed");
        self.0.notes.say(&format!("destroyed {id}"));
        Ok(())
    }

    async fn probe(&self, spec: &Spec) -> Result<Option<Facts>> {
        self.0.notes.say("probe");
        (self.0.script.probe)(spec.clone()).await
    }

    fn probe_key(&self, spec: &Spec) -> String {
        self.0.notes.say("probe key");
        (self.0.script.probe_key)(spec.clone())
    }

    async fn attach(&self, id: &SandboxId, _: &Tasks) -> Result<Made<Methods>> {
        self.0.notes.say("attach");
        (self.0.script.attach)(id.clone()).await?;
        let services: Vec<_> = self.0.script.attached.iter().map(ToString::to_string).collect();
        Ok(self.0.made_with(id.clone(), &services))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.0.notes.say("list");
        (self.0.script.list)(query.clone()).await
    }

    async fn fork(&self, source: &SandboxId, _: &ForkSandbox, attempt: &Attempt) -> Result<Made<Methods>> {
        self.0.notes.say("fork");
        (self.0.script.shift)("fork").await?;
        Ok(self.0.made(attempt.claim(SandboxId::new(format!("{source}-copy")))))
    }

    async fn delete_snapshot(&self, _: &SnapshotId) -> Result<()> {
        self.0.notes.say("delete snapshot");
        (self.0.script.shift)("delete snapshot").await
    }

    async fn list_snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        self.0.notes.say("list snapshots");
        (self.0.script.list_snapshots)(query.clone()).await
    }

    async fn build(&self, request: &BuildImage, context: Body) -> Result<String> {
        self.0.notes.say("build");
        (self.0.script.build)((request.clone(), context)).await
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.notes.say("clock");
        (self.0.script.clock)(())
    }
}

impl Instance for Methods {
    type Control = Handle;
    type Events = Stream;

    async fn spawn(&self, exec: &Exec) -> Result<(Handle, Stream)> {
        self.0.notes.say("spawn");
        (self.0.script.spawn)(exec.clone()).await?;
        self.0.notes.say("spawned");
        Ok((Handle(Arc::clone(&self.0)), Stream(Arc::clone(&self.0), 0)))
    }

    async fn reattach(&self, _: &Reattach) -> Result<(Handle, Stream)> {
        self.0.notes.say("reattach");
        Ok((Handle(Arc::clone(&self.0)), Stream(Arc::clone(&self.0), 0)))
    }

    async fn gone(&self) -> Error {
        self.0.notes.say("gone");
        (self.0.script.gone)(()).await
    }

    async fn detach(&self) -> Result<()> {
        self.0.notes.say("detach");
        (self.0.script.detach)(()).await
    }

    async fn pause(&self, _: &Pause) -> Result<()> {
        self.0.notes.say("pause");
        (self.0.script.shift)("pause").await
    }

    async fn resume(&self, _: &Resume) -> Result<()> {
        self.0.notes.say("resume");
        (self.0.script.shift)("resume").await
    }

    async fn stop(&self, _: &Stop) -> Result<()> {
        self.0.notes.say("stop");
        (self.0.script.shift)("stop").await
    }

    async fn restart(&self, _: &Restart) -> Result<()> {
        self.0.notes.say("restart");
        (self.0.script.shift)("restart").await
    }

    async fn extend(&self, _: &Extend) -> Result<()> {
        self.0.notes.say("extend");
        (self.0.script.shift)("extend").await
    }

    async fn snapshot(&self, _: &TakeSnapshot) -> Result<SnapshotId> {
        self.0.notes.say("snapshot");
        (self.0.script.shift)("snapshot").await?;
        Ok(SnapshotId::new("kept"))
    }

    /// From the third look on.
    async fn is_listening(&self, request: &Listening) -> Result<bool> {
        self.0.notes.say("is listening");
        let look = format!("look at {}", request.port);
        self.0.notes.say(&look);
        Ok(self.0.notes.count(&look) > 2)
    }

    async fn open_port(&self, request: &OpenPort) -> Result<Endpoint> {
        self.0.notes.say("open port");
        Ok(Endpoint::https("x.test").header("X-Token", Secret::new(format!("hunter{}", request.port))))
    }

    async fn set_network(&self, _: &SetNetwork) -> Result<()> {
        self.0.notes.say("set network");
        (self.0.script.shift)("network").await
    }

    async fn destinations(&self, _: &ListDestinations) -> Result<Vec<Destination>> {
        self.0.notes.say("destinations");
        Ok(vec![Destination::name("b.test"), Destination::name("a.test"), Destination::name("b.test")])
    }

    async fn read_file(&self, request: &ReadFile) -> Result<Body> {
        self.0.notes.say("read file");
        (self.0.script.read_file)(request.clone()).await
    }

    async fn write_file(&self, request: &WriteFile, body: Body) -> Result<()> {
        self.0.notes.say("write file");
        (self.0.script.write_file)((request.clone(), body)).await
    }

    async fn stat(&self, request: &Stat) -> Result<FileInfo> {
        self.0.notes.say("stat");
        Ok(FileInfo::new(request.path.as_str(), FileKind::File, 7))
    }

    async fn list_dir(&self, _: &ListDir) -> Result<Vec<FileInfo>> {
        self.0.notes.say("list dir");
        Ok(["b", "a"].map(|name| FileInfo::new(name, FileKind::File, 1)).into())
    }

    async fn make_dir(&self, _: &MakeDir) -> Result<()> {
        self.0.notes.say("make dir");
        Ok(())
    }

    async fn remove(&self, _: &Remove) -> Result<()> {
        self.0.notes.say("remove");
        Ok(())
    }

    async fn rename(&self, _: &Rename) -> Result<()> {
        self.0.notes.say("rename");
        Ok(())
    }

    async fn set_meta(&self, _: &SetMeta) -> Result<()> {
        self.0.notes.say("set meta");
        Ok(())
    }

    async fn watch(&self, _: &WatchDir) -> Result<Changes> {
        self.0.notes.say("watch");
        (self.0.script.watch)(()).await
    }

    async fn stat_tree(&self, request: &Stat) -> Result<FileInfo> {
        self.0.notes.say("stat tree");
        Ok(FileInfo::new(request.path.as_str(), FileKind::File, 7))
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
        self.0.notes.say("put tree");
        (self.0.script.put_tree)((request.clone(), tar)).await
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        self.0.notes.say("get tree");
        (self.0.script.get_tree)(request.clone()).await
    }
}

impl Control for Handle {
    fn id(&self) -> Option<ProcessId> {
        self.0.notes.say("id");
        Some(ProcessId::new("c"))
    }

    async fn kill(&self) -> Result<Fate> {
        self.0.notes.say("kill");
        (self.0.script.kill)(()).await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        self.0.notes.say("signal");
        (self.0.script.signal)(signal).await
    }

    async fn write(&self, data: Bytes) -> Result<()> {
        self.0.notes.say("write");
        (self.0.script.write)(data).await
    }

    async fn close_stdin(&self) -> Result<()> {
        self.0.notes.say("close stdin");
        Ok(())
    }

    async fn resize(&self, _: &Resize) -> Result<()> {
        self.0.notes.say("resize");
        Ok(())
    }
}

impl Events for Stream {
    async fn next(&mut self) -> Result<Option<Event>> {
        self.1 += 1;
        (self.0.script.next)(self.1 - 1).await
    }
}
