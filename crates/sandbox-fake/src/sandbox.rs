//! One live sandbox.

use crate::{
    FakeControl, FakeEvents,
    backend::unknown_user,
    config::id_of,
    double::{Call, Done, FileCall, Input, Number, Operation, RunCall, SandboxCall, SnapshotCall},
    files::{self, Pieces},
    fs::{Fs, Who, pack, unpack},
    port::Relay,
    program::{Found, find, join},
    reattach,
    watch::FakeChanges,
    world::{Env, Kernel, Launch, State, Timer, gone, lock},
};
use sandbox_core::{
    Body, Capability, Changes, Destination, Endpoint, Error, ErrorKind, Exec, Extend, FileInfo, GetTree, Instance,
    ListDestinations, ListDir, Listening, MakeDir, OpenPort, Pause, PutTree, ReadFile, Reattach, Remove, Rename,
    Restart, Result, Resume, SandboxId, SetMeta, SetNetwork, SnapshotId, Stat, Stop, TakeSnapshot, WatchDir, WriteFile,
    labels,
};
use std::{
    fmt,
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Poll,
};

/// A sandbox of a [`Fake`](crate::Fake).
///
/// The one that `create` made owns it: dropped without `destroy` or `detach`, it ends the sandbox.
pub struct FakeSandbox {
    kernel: Arc<Kernel>,
    room: u64,
    pub(crate) id: SandboxId,
    owner: AtomicBool,
}

impl FakeSandbox {
    /// From now on, the sandbox ends with this handle.
    pub(crate) fn own(&self) {
        self.owner.store(true, SeqCst);
    }

    pub(crate) fn attached(kernel: &Arc<Kernel>, room: u64) -> Self {
        Self { kernel: Arc::clone(kernel), room, id: id_of(room), owner: AtomicBool::new(false) }
    }

    /// Files, who works on them, and when.
    fn files(&self) -> Result<(Arc<Mutex<Fs>>, Who, i64)> {
        self.kernel.stir();
        let now = self.kernel.seconds();
        self.kernel
            .with(|state, _| state.working(self.room).map(|room| (Arc::clone(&room.files), room.user.who(), now)))
    }

    /// The command as it would run, noted.
    fn resolve(&self, exec: &Exec) -> Result<(RunCall, Number)> {
        let (env, cwd, user, network) = self.kernel.with(|state, _| {
            let room = state.working(self.room)?;
            let user = match &exec.user {
                Some(name) => room.user(name),
                None => Some(room.user.clone()),
            };
            let cwd = exec.cwd.as_deref().unwrap_or(&room.cwd);
            Ok::<_, Error>((Arc::clone(&room.env), join("/", cwd), user, room.link.policy().clone()))
        })?;
        let home = user.as_ref().filter(|_| exec.user.is_some()).map(|user| &*user.home);
        let name = user.as_ref().map(|user| user.name.to_string());
        let call = RunCall {
            sandbox: self.id.clone(),
            argv: exec.argv.clone(),
            env: merged(&env, &exec.env, home),
            cwd,
            user: name.or_else(|| exec.user.clone()).unwrap_or_default(),
            stdin: Input::of(&exec.stdin),
            network,
            timeout: exec.timeout,
            error: None,
        };
        let number = lock(&self.kernel.double).calls.add(Call::Run(call.clone()));
        Ok((call, number))
    }

    pub(crate) fn launch(&self, call: &RunCall) -> Result<Launch> {
        let (files, user, env) = self.kernel.with(|state, _| {
            let room = state.room(self.room)?;
            let user = room.user(&call.user).ok_or_else(|| unknown_user(&call.user))?;
            Ok::<_, Error>((Arc::clone(&room.files), user, room.with_secrets(&call.env)))
        })?;
        let cwd = call.cwd.clone();
        lock(&files).enter(&cwd, user.who())?;
        let argv: Arc<[String]> = call.argv.clone().into();
        let program = match self.kernel.scripted(call)? {
            Some(Done::Fails(error)) => return Err(error),
            Some(Done::Runs(program)) => program,
            None => {
                let path = env.get("PATH").map(String::as_str);
                let Found { program, argv } = find(&self.kernel, &files, argv, path, &cwd, user.who())?;
                return Ok(Launch { program, argv, env, cwd, user });
            }
        };
        Ok(Launch { program, argv, env, cwd, user })
    }

    async fn start(&self, exec: &Exec, call: &RunCall, number: Number) -> Result<(FakeControl, FakeEvents)> {
        self.kernel.trouble(Operation::Run, 1).await?;
        let launch = self.launch(call)?;
        let command = self.kernel.act(|state, after| state.command(&self.kernel, self.room, launch, exec, after))?;
        let control = FakeControl::new(&self.kernel, self.room, command, number);
        let events = FakeEvents::new(&self.kernel, self.room, command);
        self.kernel.trouble(Operation::Run, 2).await?;
        Ok((control, events))
    }

    /// Notes an operation on files, and with what it was answered.
    async fn file<T>(
        &self,
        operation: &'static str,
        path: &str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let call = FileCall { sandbox: self.id.clone(), operation, path: path.to_string(), error: None };
        let number = lock(&self.kernel.double).calls.add(Call::File(call));
        let done = async {
            self.kernel.trouble(Operation::Files, 1).await?;
            work.await
        };
        self.kernel.answered(number, done.await)
    }
}

impl Instance for FakeSandbox {
    type Control = FakeControl;
    type Events = FakeEvents;

    async fn spawn(&self, exec: &Exec) -> Result<(FakeControl, FakeEvents)> {
        let (call, number) = self.resolve(exec)?;
        self.kernel.answered(number, self.start(exec, &call, number).await)
    }

    async fn reattach(&self, request: &Reattach) -> Result<(FakeControl, FakeEvents)> {
        reattach::reattach(&self.kernel, self.room, request)
    }

    async fn gone(&self) -> Error {
        poll_fn(|cx| {
            self.kernel.with(|state, _| match state.rooms.get_mut(&self.room) {
                Some(room) => {
                    room.gone.retain(|known| !known.will_wake(cx.waker()));
                    room.gone.push(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(gone()),
            })
        })
        .await
    }

    async fn detach(&self) -> Result<()> {
        let number = lock(&self.kernel.double).calls.add(Call::Detach(SandboxCall::new(&self.id)));
        self.kernel.answered(number, self.kernel.with(|state, _| state.room(self.room).map(drop)))?;
        self.owner.store(false, SeqCst);
        Ok(())
    }

    async fn pause(&self, _: &Pause) -> Result<()> {
        self.kernel.freeze(self.room).await
    }

    async fn resume(&self, _: &Resume) -> Result<()> {
        self.kernel.unfreeze(self.room)
    }

    async fn stop(&self, _: &Stop) -> Result<()> {
        self.kernel.act(|state, after| state.stop(self.room, after))
    }

    async fn restart(&self, _: &Restart) -> Result<()> {
        self.kernel.act(|state, _| state.restart(self.room))
    }

    async fn extend(&self, request: &Extend) -> Result<()> {
        self.kernel.act(|state, _| {
            let before = state.room(self.room)?.lifetime;
            before.iter().for_each(|key| state.cancel(key));
            let lifetime = state.timers.set(state.lifetime(request.lifetime), Timer::Lifetime(self.room));
            let room = state.room(self.room)?;
            room.lifetime = Some(lifetime);
            if let Some(expires) = room.labels.get_mut(labels::EXPIRES) {
                *expires = request.expires.to_string();
            }
            Ok(())
        })
    }

    async fn snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotId> {
        let kernel = &self.kernel;
        let number = lock(&kernel.double).calls.add(Call::Snapshot(SnapshotCall::new(&self.id, request)));
        let taken = async {
            kernel.trouble(Operation::Snapshot, 1).await?;
            let id = kernel.act(|state, _| state.snapshot(self.room, &request.labels))?;
            lock(&kernel.double).calls.taken(number, &id);
            kernel.trouble(Operation::Snapshot, 2).await?;
            Ok(id)
        };
        kernel.answered(number, taken.await)
    }

    async fn is_listening(&self, request: &Listening) -> Result<bool> {
        self.kernel.with(|state, _| state.working(self.room).map(|room| room.link.is_listening(request.port)))
    }

    async fn open_port(&self, request: &OpenPort) -> Result<Endpoint> {
        let known = |room: &crate::world::Room| room.ports.get(&request.port).map(Relay::at);
        let there = self.kernel.with(|state, _| state.working(self.room).map(|room| known(room)))?;
        let at = match there {
            Some(at) => at,
            None => {
                let relay = Relay::open(&self.kernel, self.room, request.port).map_err(|error| {
                    Error::new(ErrorKind::Capacity, "no port of this host is free").with_source(error).applied(false)
                })?;
                // One that is not needed is closed when the state is unlocked again: that takes its time.
                let (at, mut spare) = (relay.at(), Some(relay));
                self.kernel.with(|state, _| {
                    let ports = &mut state.working(self.room)?.ports;
                    let first = ports.get(&request.port).map(Relay::at);
                    if first.is_none() {
                        ports.extend(spare.take().map(|relay| (request.port, relay)));
                    }
                    Ok::<_, Error>(first.unwrap_or(at))
                })?
            }
        };
        Ok(Endpoint::tcp(at.ip().to_string(), at.port()))
    }

    async fn set_network(&self, request: &SetNetwork) -> Result<()> {
        self.kernel.act(|state, after| state.set_policy(self.room, &request.policy, after))
    }

    async fn destinations(&self, _: &ListDestinations) -> Result<Vec<Destination>> {
        self.kernel.with(|state, _| state.room(self.room).map(|room| room.link.destinations()))
    }

    async fn read_file(&self, request: &ReadFile) -> Result<Body> {
        self.file("read_file", &request.path, async {
            let (files, who, _) = self.files()?;
            let content = lock(&files).read(&request.path, who)?.range(request.offset, request.length);
            Ok(Body::new(Some(content.len()), Pieces::new(&self.kernel, content)))
        })
        .await
    }

    async fn write_file(&self, request: &WriteFile, body: Body) -> Result<()> {
        self.file("write_file", &request.path, async {
            let (files, who, _) = self.files()?;
            let free = {
                let files = lock(&files);
                files.may_write(&request.path, who, body.len.unwrap_or(0))?;
                files.free()
            };
            let content = files::receive(&self.kernel, body, free, &request.path).await?;
            // What happened meanwhile counts: the sandbox may be gone, the file replaced.
            let (files, who, now) = self.files()?;
            Ok(lock(&files).replace(&request.path, content, request.mode, who, now)?)
        })
        .await
    }

    async fn stat(&self, request: &Stat) -> Result<FileInfo> {
        self.file("stat", &request.path, async {
            let (files, who, _) = self.files()?;
            Ok(lock(&files).stat(&request.path, false, who)?)
        })
        .await
    }

    async fn list_dir(&self, request: &ListDir) -> Result<Vec<FileInfo>> {
        self.file("list_dir", &request.path, async {
            let (files, who, _) = self.files()?;
            Ok(lock(&files).list(&request.path, who)?)
        })
        .await
    }

    async fn make_dir(&self, request: &MakeDir) -> Result<()> {
        self.file("make_dir", &request.path, async {
            let (files, who, now) = self.files()?;
            Ok(lock(&files).make_dirs(&request.path, who, now)?)
        })
        .await
    }

    async fn remove(&self, request: &Remove) -> Result<()> {
        self.file("remove", &request.path, async {
            let (files, who, now) = self.files()?;
            Ok(lock(&files).remove(&request.path, request.recursive, who, now)?)
        })
        .await
    }

    async fn rename(&self, request: &Rename) -> Result<()> {
        self.file("rename", &request.from, async {
            let (files, who, now) = self.files()?;
            Ok(lock(&files).rename(&request.from, &request.to, who, now)?)
        })
        .await
    }

    async fn set_meta(&self, request: &SetMeta) -> Result<()> {
        self.file("set_meta", &request.path, async {
            let (files, who, _) = self.files()?;
            let mtime = request.mtime.map(files::seconds);
            Ok(lock(&files).set_meta(&request.path, request.mode, request.owner, mtime, who)?)
        })
        .await
    }

    async fn watch(&self, request: &WatchDir) -> Result<Changes> {
        self.file("watch", &request.path, async {
            let (files, who, _) = self.files()?;
            let queue = lock(&files).watch(&request.path, request.recursive, who)?;
            let changes = FakeChanges { kernel: Arc::clone(&self.kernel), files, queue };
            // What ended before it was watched is not told that it ends.
            self.kernel.with(|state, _| state.room(self.room).map(drop))?;
            Ok(Changes::new(changes))
        })
        .await
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
        self.file("put_tree", &request.path, async {
            let (files, who, _) = self.files()?;
            let free = {
                let files = lock(&files);
                files.enter(&request.path, who)?;
                files.free()
            };
            // Headers and padding are not the files' own: 10 000 empty files have some megabytes of them.
            let content = files::receive(&self.kernel, tar, free.saturating_add(64 << 20), &request.path).await?;
            let (files, who, now) = self.files()?;
            unpack(&mut lock(&files), &request.path, &content, who, now).map_err(files::unpacked)
        })
        .await
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        self.file("get_tree", &request.path, async {
            let (files, who, _) = self.files()?;
            let packed = pack(&lock(&files), &request.path, who)?;
            Ok(Body::new(None, files::Tar::new(&self.kernel, packed)))
        })
        .await
    }
}

impl Drop for FakeSandbox {
    fn drop(&mut self) {
        let keeps = |state: &State| state.absent.contains(&Capability::OwnerLease);
        if self.owner.load(SeqCst) {
            self.kernel.with(|state, after| {
                if !keeps(state) {
                    state.end_room(self.room, after)
                }
            });
        }
    }
}

impl fmt::Debug for FakeSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSandbox").field("number", &self.room).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The environment of a command; another user's home where nobody says otherwise.
fn merged(env: &Env, more: &[(String, String)], home: Option<&str>) -> Env {
    if more.is_empty() && home.is_none() {
        return Arc::clone(env);
    }
    let mut merged = (**env).clone();
    merged.extend(home.map(|home| ("HOME".to_string(), home.to_string())));
    merged.extend(more.iter().cloned());
    Arc::new(merged)
}
