//! One live sandbox.

use crate::{
    FakeControl, FakeEvents,
    backend::unknown_user,
    files::{self, Pieces},
    fs::{Fs, Who, pack, unpack},
    port::Relay,
    program::{Found, find, join},
    world::Timer,
    world::{Env, Kernel, Launch, gone, lock},
};
use sandbox_core::{
    Body, Destination, Endpoint, Error, ErrorKind, Exec, Extend, FileInfo, GetTree, Instance, ListDestinations,
    ListDir, MakeDir, OpenPort, Pause, PutTree, ReadFile, Remove, Rename, Restart, Result, Resume, SetMeta, SetNetwork,
    SnapshotId, Stat, Stop, TakeSnapshot, WriteFile, labels,
};
use std::{
    fmt,
    future::poll_fn,
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
    owner: AtomicBool,
}

impl FakeSandbox {
    pub(crate) fn owned(kernel: &Arc<Kernel>, room: u64) -> Self {
        Self { kernel: Arc::clone(kernel), room, owner: AtomicBool::new(true) }
    }

    pub(crate) fn attached(kernel: &Arc<Kernel>, room: u64) -> Self {
        Self { kernel: Arc::clone(kernel), room, owner: AtomicBool::new(false) }
    }

    /// Files, who works on them, and when.
    fn files(&self) -> Result<(Arc<Mutex<Fs>>, Who, i64)> {
        self.kernel.stir();
        let now = self.kernel.seconds();
        self.kernel
            .with(|state, _| state.working(self.room).map(|room| (Arc::clone(&room.files), room.user.who(), now)))
    }

    fn launch(&self, exec: &Exec) -> Result<Launch> {
        let (files, env, cwd, user) = self.kernel.with(|state, _| {
            let room = state.working(self.room)?;
            let user = match &exec.user {
                Some(name) => room.user(name).ok_or_else(|| unknown_user(name))?,
                None => room.user.clone(),
            };
            let cwd = exec.cwd.as_deref().unwrap_or(&room.cwd);
            Ok::<_, Error>((Arc::clone(&room.files), Arc::clone(&room.env), join("/", cwd), user))
        })?;
        let env = merged(&env, &exec.env, exec.user.as_ref().map(|_| &*user.home));
        lock(&files).enter(&cwd, user.who())?;
        let path = env.get("PATH").map(String::as_str);
        let argv = exec.argv.iter().map(String::as_str).map(str::to_string).collect();
        let Found { program, argv } = find(&self.kernel, &files, argv, path, &cwd, user.who())?;
        Ok(Launch { program, argv, env, cwd, user })
    }
}

impl Instance for FakeSandbox {
    type Control = FakeControl;
    type Events = FakeEvents;

    async fn spawn(&self, exec: &Exec) -> Result<(FakeControl, FakeEvents)> {
        let launch = self.launch(exec)?;
        let limit = (exec.timeout, exec.grace);
        let command = self
            .kernel
            .act(|state, after| state.command(&self.kernel, self.room, launch, &exec.stdin, limit, after))?;
        let control = FakeControl::new(&self.kernel, self.room, command);
        Ok((control, FakeEvents::new(&self.kernel, self.room, command)))
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
        self.kernel.with(|state, _| state.room(self.room).map(drop))?;
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
            state.cancel(&before);
            let lifetime = state.timers.set(request.lifetime, Timer::Lifetime(self.room));
            let room = state.room(self.room)?;
            room.lifetime = lifetime;
            if let Some(expires) = room.labels.get_mut(labels::EXPIRES) {
                *expires = request.expires.to_string();
            }
            Ok(())
        })
    }

    async fn snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotId> {
        self.kernel.act(|state, _| state.snapshot(self.room, &request.labels))
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
                self.kernel.with(|state, _| {
                    let room = state.working(self.room)?;
                    Ok::<_, Error>(room.ports.entry(request.port).or_insert(relay).at())
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
        let (files, who, _) = self.files()?;
        let content = lock(&files).read(&request.path, who)?.range(request.offset, request.length);
        Ok(Body::new(Some(content.len()), Pieces::new(&self.kernel, content)))
    }

    async fn write_file(&self, request: &WriteFile, body: Body) -> Result<()> {
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
    }

    async fn stat(&self, request: &Stat) -> Result<FileInfo> {
        let (files, who, _) = self.files()?;
        Ok(lock(&files).stat(&request.path, false, who)?)
    }

    async fn list_dir(&self, request: &ListDir) -> Result<Vec<FileInfo>> {
        let (files, who, _) = self.files()?;
        Ok(lock(&files).list(&request.path, who)?)
    }

    async fn make_dir(&self, request: &MakeDir) -> Result<()> {
        let (files, who, now) = self.files()?;
        Ok(lock(&files).make_dirs(&request.path, who, now)?)
    }

    async fn remove(&self, request: &Remove) -> Result<()> {
        let (files, who, now) = self.files()?;
        Ok(lock(&files).remove(&request.path, request.recursive, who, now)?)
    }

    async fn rename(&self, request: &Rename) -> Result<()> {
        let (files, who, now) = self.files()?;
        Ok(lock(&files).rename(&request.from, &request.to, who, now)?)
    }

    async fn set_meta(&self, request: &SetMeta) -> Result<()> {
        let (files, who, _) = self.files()?;
        let mtime = request.mtime.map(files::seconds);
        Ok(lock(&files).set_meta(&request.path, request.mode, request.owner, mtime, who)?)
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
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
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        let (files, who, _) = self.files()?;
        let packed = pack(&lock(&files), &request.path, who)?;
        Ok(Body::new(None, files::Tar::new(&self.kernel, packed)))
    }
}

impl Drop for FakeSandbox {
    fn drop(&mut self) {
        if self.owner.load(SeqCst) {
            self.kernel.with(|state, after| state.end_room(self.room, after));
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
