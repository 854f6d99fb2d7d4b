//! Making, ending, finding sandboxes.

use crate::{
    Fake, FakeSandbox, VirtualClock,
    config::{id_of, number},
    double::{BuildCall, Call, CreateCall, DeleteSnapshotCall, ForkCall, ListCall, Number, Operation, SandboxCall},
    facts,
    fs::Fs,
    image::{Catalogue, User},
    program::join,
    world::Env,
    world::Link,
    world::{Freezer, Pace, Room, Secrets, State, Timer, WORKSHOPS, lead, lock},
};
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Clock, Error, ErrorKind, Facts, ForkSandbox, Listed, ListedSnapshot, Made,
    NetworkPolicy, Page, Query, Resource, Resources, Result, SandboxId, SnapshotId, Spec, Tasks,
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

impl Backend for Fake {
    type Instance = FakeSandbox;

    fn info(&self) -> Facts {
        lock(&self.kernel().double).info()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::Create(CreateCall::new(spec)));
        kernel.answered(call, self.make(spec, attempt, call).await)
    }

    async fn fork(&self, source: &SandboxId, request: &ForkSandbox, attempt: &Attempt) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::Fork(ForkCall::new(source, request)));
        kernel.answered(call, self.copy(source, request, attempt, call).await)
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::DeleteSnapshot(DeleteSnapshotCall::new(id)));
        let deleted = async {
            self.ask(Operation::DeleteSnapshot).await?;
            drop(kernel.act(|state, _| state.snapshots.remove(id)));
            kernel.trouble(Operation::DeleteSnapshot, 2).await
        };
        kernel.answered(call, deleted.await)
    }

    async fn list_snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::ListSnapshots(ListCall::new(query)));
        kernel.answered(call, self.snapshots(query).await)
    }

    async fn build(&self, request: &BuildImage, context: Body) -> Result<String> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::Build(BuildCall::new(request)));
        kernel.answered(call, self.image_of(request, context, call).await)
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        let kernel = self.kernel();
        kernel.stir();
        let call = lock(&kernel.double).calls.add(Call::Destroy(SandboxCall::new(id)));
        let ended = async {
            self.ask(Operation::Destroy).await?;
            self.world().expire(id);
            kernel.trouble(Operation::Destroy, 2).await
        };
        kernel.answered(call, ended.await)
    }

    async fn probe(&self, _spec: &Spec) -> Result<Option<Facts>> {
        self.ask(Operation::Probe).await?;
        Ok(None)
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::Attach(SandboxCall::new(id)));
        kernel.answered(call, self.reach(id, tasks).await)
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let kernel = self.kernel();
        let call = lock(&kernel.double).calls.add(Call::List(ListCall::new(query)));
        kernel.answered(call, self.listed(query).await)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        if self.kernel().pace() == Pace::Real {
            return None;
        }
        Some(Arc::new(VirtualClock::new(self.kernel())))
    }
}

/// What a sandbox is made of.
struct Plan {
    env: Env,
    secrets: Secrets,
    cwd: String,
    user: User,
    users: Arc<[User]>,
    network: NetworkPolicy,
    resources: Resources,
    files: Fs,
    labels: BTreeMap<String, String>,
    lifetime: Duration,
}

impl Fake {
    async fn reach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<FakeSandbox>> {
        self.ask(Operation::Attach).await?;
        let kernel = self.kernel();
        let (number, cwd) = kernel.act(|state, _| {
            let number = known(state, id)?;
            state.room(number).map(|room| (number, room.cwd.clone()))
        })?;
        tasks.spawn(lead(Arc::clone(kernel)));
        Ok(Made::new(id.clone(), FakeSandbox::attached(kernel, number)).cwd(cwd))
    }

    async fn listed(&self, query: &Query) -> Result<Page> {
        self.ask(Operation::List).await?;
        let after = match &query.cursor {
            Some(cursor) => {
                cursor.parse::<u64>().map_err(|_| Error::invalid(format!("`{cursor}` is no cursor of this backend")))?
            }
            None => 0,
        };
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(crate::world::EPOCH);
        let (mut found, page): (Vec<(u64, Listed)>, usize) = self.kernel().act(|state, _| {
            let later = state.rooms.range((Bound::Excluded(after), Bound::Unbounded));
            let later = later.take_while(|(number, _)| **number < WORKSHOPS);
            let matching = later.filter(|(_, room)| query.fits(&room.labels));
            let listed = matching.map(|(number, room)| {
                (*number, Listed::new(room.id.clone(), room.labels.clone()).created(epoch + room.created))
            });
            (listed.take(state.page + 1).collect(), state.page)
        });
        let more = found.len() > page;
        found.truncate(page);
        let last = found.last().map(|(number, _)| number.to_string());
        let items = found.into_iter().map(|(_, listed)| listed).collect();
        Ok(match last {
            Some(last) if more => Page::then(items, last),
            _ => Page::last(items),
        })
    }

    async fn snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        self.ask(Operation::ListSnapshots).await?;
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(crate::world::EPOCH);
        let items = self.kernel().act(|state, _| {
            let matching = state.snapshots.iter().filter(|(_, one)| query.fits(&one.labels));
            let listed = matching
                .map(|(id, one)| ListedSnapshot::new(id.clone(), one.labels.clone()).created(epoch + one.created));
            listed.collect()
        });
        Ok(Page::last(items))
    }

    async fn copy(
        &self,
        source: &SandboxId,
        request: &ForkSandbox,
        attempt: &Attempt,
        call: Number,
    ) -> Result<Made<FakeSandbox>> {
        self.ask(Operation::Fork).await?;
        let plan = self.kernel().with(|state, _| {
            let number = known(state, source)?;
            let room = state.working(number)?;
            Ok::<_, Error>(Plan {
                env: Arc::clone(&room.env),
                secrets: Arc::clone(&room.secrets),
                cwd: room.cwd.clone(),
                user: room.user.clone(),
                users: Arc::clone(&room.users),
                network: room.link.policy().clone(),
                resources: room.resources.clone(),
                files: lock(&room.files).clone(),
                labels: request.labels.clone(),
                lifetime: request.lifetime.unwrap_or(Spec::LIFETIME),
            })
        })?;
        self.deliver(plan, attempt, call, Operation::Fork).await
    }

    async fn make(&self, spec: &Spec, attempt: &Attempt, call: Number) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        self.ask(Operation::Create).await?;
        let users = Arc::clone(&lock(&kernel.catalogue).users);
        let origin = match &spec.snapshot {
            Some(id) => kernel.with(|state, _| {
                state.snapshots.get(id).map(|kept| kept.origin.clone()).ok_or_else(|| no_snapshot(id))
            })?,
            None => {
                let name = spec.image.as_deref().unwrap_or(Catalogue::DEFAULT);
                lock(&kernel.catalogue).origin(name)?
            }
        };
        let named = spec.user.as_deref().unwrap_or(&origin.user);
        let user = User::find(&users, named).ok_or_else(|| unknown_user(named))?;
        let cwd = join("/", spec.cwd.as_deref().unwrap_or(&origin.cwd));
        let mut env = origin.env;
        env.entry("HOME".into()).or_insert_with(|| user.home.to_string());
        env.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        env.retain(|name, _| !spec.secrets.contains_key(name));
        let resources = facts::in_force(&spec.resources);
        let disk = resources.get(Resource::Disk).map_or(u64::MAX, |amount| amount.value);
        let mut files = Fs::new(origin.tree, disk);
        if files.enter(&cwd, user.who()).is_err() {
            // As other engines do; but it belongs to whoever works there.
            let (root, now) = (crate::fs::Who::ROOT, kernel.seconds());
            files.make_dirs(&cwd, root, now)?;
            files.set_meta(&cwd, None, Some((user.uid, user.gid)), None, root)?;
        }
        let (network, labels) = (spec.effective_network().clone(), spec.labels.clone());
        let lifetime = spec.effective_lifetime();
        let (env, secrets) = (Arc::new(env), Arc::new(spec.secrets.clone()));
        let plan = Plan { env, secrets, cwd, user, users, network, resources, files, labels, lifetime };
        kernel.trouble(Operation::Create, 2).await?;
        self.deliver(plan, attempt, call, Operation::Create).await
    }

    /// The last two steps of an operation that makes a sandbox.
    async fn deliver(
        &self,
        plan: Plan,
        attempt: &Attempt,
        call: Number,
        operation: Operation,
    ) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let made = match attempt.is_repeated().then(|| self.made_before(attempt)).flatten() {
            Some(made) => made,
            None => self.furnish(plan, attempt)?,
        };
        lock(&kernel.double).calls.made(call, &made.id);
        kernel.trouble(operation, operation.steps() - 1).await?;
        made.instance.own();
        kernel.trouble(operation, operation.steps()).await?;
        Ok(made)
    }

    /// What every question to the provider begins with.
    pub(crate) async fn ask(&self, operation: Operation) -> Result<()> {
        lock(&self.kernel().double).admit()?;
        self.kernel().trouble(operation, 1).await
    }

    /// The sandbox that an earlier try of the same create has made, whose answer was lost.
    fn made_before(&self, attempt: &Attempt) -> Option<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let (number, id, cwd) = kernel.act(|state, _| {
            let (number, room) = state.rooms.iter().find(|(_, room)| room.marker == attempt.marker())?;
            Some((*number, room.id.clone(), room.cwd.clone()))
        })?;
        let id = attempt.claim(id);
        attempt.tasks().spawn(lead(Arc::clone(kernel)));
        Some(Made::new(id, FakeSandbox::attached(kernel, number)).cwd(cwd))
    }

    /// Makes it; nobody owns it yet.
    fn furnish(&self, plan: Plan, attempt: &Attempt) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let cwd = plan.cwd.clone();
        let (number, id) = kernel.act(|state, _| {
            if state.quota.is_some_and(|most| state.sandboxes().count() >= most) {
                return Err(Error::new(
                    ErrorKind::QuotaExceeded,
                    format!("{} sandboxes live", state.sandboxes().count()),
                )
                .with_hint("end one of them, or raise the quota with `World::set_quota`")
                .applied(false));
            }
            state.last_room += 1;
            let number = state.last_room;
            let id = id_of(number);
            let room = Room {
                id: id.clone(),
                labels: plan.labels,
                marker: attempt.marker().to_string(),
                env: plan.env,
                secrets: plan.secrets,
                cwd: plan.cwd,
                user: plan.user,
                users: plan.users,
                link: Link::new(number, plan.network),
                ports: BTreeMap::new(),
                resources: plan.resources,
                created: state.timers.now(),
                lifetime: state.timers.set(state.lifetime(plan.lifetime), Timer::Lifetime(number)),
                files: state.files_of_all().unwrap_or_else(|| Arc::new(Mutex::new(plan.files))),
                processes: BTreeMap::new(),
                zombies: BTreeMap::new(),
                last_pid: 1,
                commands: BTreeMap::new(),
                ended: VecDeque::new(),
                pipes: BTreeMap::new(),
                number: 0,
                memory: 0,
                freezer: Freezer::default(),
                stopped: false,
                gone: Vec::new(),
            };
            state.rooms.insert(number, room);
            Ok((number, id))
        })?;
        let id = attempt.claim(id);
        attempt.tasks().spawn(lead(Arc::clone(kernel)));
        Ok(Made::new(id, FakeSandbox::attached(kernel, number)).cwd(cwd))
    }
}

fn no_snapshot(id: &SnapshotId) -> Error {
    Error::new(ErrorKind::NotFound, format!("no snapshot `{id}`"))
        .with_hint("use an id as `Sandbox::snapshot` or `Client::snapshots` gives it, of one that was not deleted")
}

pub(crate) fn unknown_user(name: &str) -> Error {
    Error::invalid(format!("no user `{name}` in the sandbox")).with_hint("use `root`, `nobody`, `app`, or a uid")
}

/// The number of a sandbox that is there, or has been.
fn known(state: &State, id: &SandboxId) -> Result<u64> {
    let there = |number: &u64| (1..=state.last_room).contains(number);
    number(id).filter(there).ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no sandbox `{id}`")))
}
