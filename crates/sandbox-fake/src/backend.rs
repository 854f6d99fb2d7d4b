//! Making, ending, finding sandboxes.

use crate::{
    Fake, FakeSandbox, VirtualClock,
    beside::{self, Planned},
    config::{id_of, number},
    double::{BuildCall, Call, CreateCall, DeleteSnapshotCall, ForkCall, ListCall, Number, Operation, SandboxCall},
    facts,
    fs::Fs,
    image::{Catalogue, User},
    program::join,
    world::{Beside, Env, Freezer, Lie, Link, Origin, Pace, Room, Secrets, State, Timer, WORKSHOPS, lead, lock},
};
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Capability, Clock, Error, ErrorKind, Facts, ForkSandbox, Listed,
    ListedSnapshot, Made, NetworkPolicy, Page, Query, Resource, Resources, Result, SandboxId, Secret, SnapshotId, Spec,
    Tasks,
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
pub(crate) struct Plan {
    env: Env,
    secrets: Secrets,
    pub(crate) cwd: String,
    user: User,
    users: Arc<[User]>,
    network: NetworkPolicy,
    resources: Resources,
    files: Fs,
    labels: BTreeMap<String, String>,
    lifetime: Duration,
}

/// What is asked of an origin.
pub(crate) struct Outfit<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) cwd: Option<&'a str>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) secrets: &'a BTreeMap<String, Secret<String>>,
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
        let mut made = Made::new(id.clone(), FakeSandbox::attached(kernel, number)).cwd(cwd);
        made.services = beside::reached(kernel, number);
        Ok(made)
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
            let matching = later.filter(|(_, room)| room.beside.is_none() && query.fits(&room.labels));
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
        let (plan, alone) = self.kernel().with(|state, _| {
            let number = known(state, source)?;
            let alone = state.services(number).is_empty();
            let room = state.working(number)?;
            let plan = Plan {
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
            };
            Ok::<_, Error>((plan, alone))
        })?;
        let made = self.deliver(plan, Vec::new(), attempt, call, Operation::Fork).await?;
        Ok(if alone { made } else { made.facts(self.info().absent(Capability::Services, NOT_COPIED)) })
    }

    async fn make(&self, spec: &Spec, attempt: &Attempt, call: Number) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        self.ask(Operation::Create).await?;
        let origin = match &spec.snapshot {
            Some(id) => kernel.with(|state, _| {
                state.snapshots.get(id).map(|kept| kept.origin.clone()).ok_or_else(|| no_snapshot(id))
            })?,
            None => {
                let name = spec.image.as_deref().unwrap_or(Catalogue::DEFAULT);
                lock(&kernel.catalogue).origin(name)?
            }
        };
        let (user, cwd) = (spec.user.as_deref(), spec.cwd.as_deref());
        let asked = Outfit { user, cwd, env: &spec.env, secrets: &spec.secrets };
        let plan = self.plan(origin, &asked, facts::in_force(&spec.resources), spec)?;
        let services = self.plan_services(spec)?;
        kernel.trouble(Operation::Create, 2).await?;
        self.deliver(plan, services, attempt, call, Operation::Create).await
    }

    /// A sandbox, or a service, of this origin.
    pub(crate) fn plan(&self, origin: Origin, asked: &Outfit<'_>, resources: Resources, spec: &Spec) -> Result<Plan> {
        let kernel = self.kernel();
        let users = Arc::clone(&lock(&kernel.catalogue).users);
        let named = asked.user.unwrap_or(&origin.user);
        let user = User::find(&users, named).ok_or_else(|| unknown_user(named))?;
        let cwd = join("/", asked.cwd.unwrap_or(&origin.cwd));
        let mut env = origin.env;
        env.entry("HOME".into()).or_insert_with(|| user.home.to_string());
        env.extend(asked.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        env.retain(|name, _| !asked.secrets.contains_key(name));
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
        let (env, secrets) = (Arc::new(env), Arc::new(asked.secrets.clone()));
        Ok(Plan { env, secrets, cwd, user, users, network, resources, files, labels, lifetime })
    }

    /// The last two steps of an operation that makes a sandbox.
    async fn deliver(
        &self,
        plan: Plan,
        services: Vec<Planned>,
        attempt: &Attempt,
        call: Number,
        operation: Operation,
    ) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let made = match attempt.is_repeated().then(|| self.made_before(attempt)).flatten() {
            Some(made) => made,
            None => self.furnish(plan, services, attempt)?,
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

    /// The sandbox that an earlier try of the same create has made, with its services, whose answer was lost.
    fn made_before(&self, attempt: &Attempt) -> Option<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let (number, id, cwd) = kernel.act(|state, _| {
            let (number, room) = state.sandboxes().find(|(_, room)| room.marker == attempt.marker())?;
            Some((*number, room.id.clone(), room.cwd.clone()))
        })?;
        let id = attempt.claim(id);
        attempt.tasks().spawn(lead(Arc::clone(kernel)));
        let mut made = Made::new(id, FakeSandbox::attached(kernel, number)).cwd(cwd);
        made.services = beside::reached(kernel, number);
        made.services.values().for_each(|service| drop(attempt.claim(service.id.clone())));
        Some(made)
    }

    /// Makes it, and what runs beside it; nobody owns it yet.
    fn furnish(&self, plan: Plan, services: Vec<Planned>, attempt: &Attempt) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let cwd = plan.cwd.clone();
        let number = kernel.act(|state, _| {
            let live = state.sandboxes().count();
            if state.quota.is_some_and(|most| live >= most) {
                return Err(Error::new(ErrorKind::QuotaExceeded, format!("{live} sandboxes live"))
                    .with_hint("end one of them, or raise the quota with `World::set_quota`")
                    .applied(false));
            }
            Ok(state.move_in(plan, attempt.marker(), None))
        })?;
        let id = attempt.claim(id_of(number));
        attempt.tasks().spawn(lead(Arc::clone(kernel)));
        let made = Made::new(id, FakeSandbox::attached(kernel, number)).cwd(cwd);
        let services = self.furnish_services(number, services, attempt)?;
        Ok(services.into_iter().fold(made, |made, (name, service)| made.service(name, service)))
    }
}

impl State {
    /// A room for a sandbox, or for a service beside one.
    pub(crate) fn move_in(&mut self, plan: Plan, marker: &str, beside: Option<Beside>) -> u64 {
        self.last_room += 1;
        let number = self.last_room;
        // A service ends with its sandbox, which has a lifetime.
        let lifetime = self.lifetime(plan.lifetime);
        let is_open = beside.is_some() && self.lie == Some(Lie::ServicesHaveAnOpenNetwork);
        let network = if is_open { NetworkPolicy::Open } else { plan.network };
        let lifetime = beside.is_none().then(|| self.timers.set(lifetime, Timer::Lifetime(number)));
        let room = Room {
            id: id_of(number),
            labels: plan.labels,
            marker: marker.to_string(),
            env: plan.env,
            secrets: plan.secrets,
            cwd: plan.cwd,
            user: plan.user,
            users: plan.users,
            link: Link::new(number, network),
            ports: BTreeMap::new(),
            resources: plan.resources,
            created: self.timers.now(),
            lifetime,
            files: self.files_of_all().unwrap_or_else(|| Arc::new(Mutex::new(plan.files))),
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
            beside,
            gone: Vec::new(),
        };
        self.rooms.insert(number, room);
        number
    }
}

const NOT_COPIED: &str = "a copy has none of the services of its source";

fn no_snapshot(id: &SnapshotId) -> Error {
    Error::new(ErrorKind::NotFound, format!("no snapshot `{id}`"))
        .with_hint("use an id as `Sandbox::snapshot` or `Client::snapshots` gives it, of one that was not deleted")
}

pub(crate) fn unknown_user(name: &str) -> Error {
    Error::invalid(format!("no user `{name}` in the sandbox")).with_hint("use `root`, `nobody`, `app`, or a uid")
}

/// The number of a sandbox that is there, or has been. A service is none.
fn known(state: &State, id: &SandboxId) -> Result<u64> {
    let is_service = |number: &u64| state.rooms.get(number).is_some_and(|room| room.beside.is_some());
    let there = |number: &u64| (1..=state.last_room).contains(number) && !is_service(number);
    number(id).filter(there).ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no sandbox `{id}`")))
}
