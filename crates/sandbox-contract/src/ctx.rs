//! What a row gets.

use crate::{
    Labels, Settings,
    hooks::Hooks,
    meddle::{Meddling, Point},
    probes::Commands,
    row::{Stop, told},
    subject::{Make, Subject},
};
use sandbox::{Client, Command, Limits, Output, Sandbox};
use sandbox_core::{Capability, Error, ErrorKind, Facts, Query, SandboxId, Service, SnapshotId, Spec, TakeSnapshot};
use std::{
    cell::{Cell, RefCell},
    fmt::{self, Debug},
    future::Future,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// What the body of a row gets: the main [`World`], to which it derefs, and the means to make others.
pub(crate) struct Ctx {
    world: World,
    make: Make,
    notes: RefCell<Vec<String>>,
    orphans_are_fine: Cell<bool>,
}

/// One backend with its client, spec and probes, all made by one evaluation of the suite's expression.
pub(crate) struct World {
    client: Client,
    meddling: Arc<Meddling>,
    commands: Commands,
    hooks: Hooks,
    facts: Facts,
    spec: Spec,
    pub(crate) service: Option<Service>,
    labels: Labels,
    settings: Settings,
    /// Creates that were not the row's own.
    paced: Cell<usize>,
}

impl Ctx {
    pub(crate) fn new(make: Make, subject: Subject, labels: Labels, settings: Settings) -> Result<Self, Stop> {
        let world = World::new(subject, labels, settings, None)?;
        Ok(Self { world, make, notes: RefCell::default(), orphans_are_fine: Cell::default() })
    }

    /// A second backend with a client of its own. On a provider it sees the same sandboxes, on a test double maybe not.
    pub(crate) fn another(&self) -> Result<World, Stop> {
        World::new((self.make)()?, self.labels.clone(), self.settings.clone(), None)
    }

    /// The same with limits of its own, to inject faults: `world.meddling().set(Point::Destroy, Fault::Hang)`. End it with
    /// [`World::end`].
    pub(crate) fn limited(&self, limits: Limits) -> Result<World, Stop> {
        World::new((self.make)()?, self.labels.clone(), self.settings.clone(), Some(limits))
    }

    /// The same subject as a backend without a capability that it has: its `probe` says so.
    pub(crate) async fn without(&self, capability: Capability) -> Result<Self, Stop> {
        let mut other = Self::new(Arc::clone(&self.make), (self.make)()?, self.labels.clone(), self.settings.clone())?;
        let facts = other.client().facts().clone().absent(capability, "the suite took it away");
        other.meddling().answer_probe(facts);
        other.narrow(&[]).await?;
        Ok(other)
    }

    /// A line that is shown if the row fails.
    pub(crate) fn note(&self, line: impl fmt::Display) {
        self.notes.borrow_mut().push(line.to_string());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.borrow().clone()
    }

    /// Says that the row has looked at the client's orphan reports and found them right.
    pub(crate) fn orphans_are_fine(&self) {
        self.orphans_are_fine.set(true);
    }

    pub(crate) fn are_orphans_fine(&self) -> bool {
        self.orphans_are_fine.get()
    }

    /// A new subject, untouched.
    pub(crate) fn subject(&self) -> Result<Subject, Error> {
        (self.make)()
    }

    /// Narrows the facts by `probe`, and answers the first capability of `needs` that is not there any more.
    pub(crate) async fn narrow(&mut self, needs: &[Capability]) -> Result<(), Stop> {
        let spec = self.spec();
        let probed = self.within(30, "probe", self.client.probe(&spec)).await?;
        self.world.facts = probed.map_err(|error| match error.kind() {
            ErrorKind::Auth => Stop::Unavailable(told(&error)),
            _ => Stop::from(error).during("probe"),
        })?;
        match needs.iter().find(|need| !self.facts.has(**need)) {
            Some(need) => Err(Stop::Absent(*need, absence(&self.facts, *need))),
            None => Ok(()),
        }
    }
}

impl Deref for Ctx {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("labels", &self.labels).finish_non_exhaustive()
    }
}

#[allow(dead_code, reason = "what rows may use is a whole, whichever row uses it today")]
impl World {
    fn new(subject: Subject, labels: Labels, settings: Settings, limits: Option<Limits>) -> Result<Self, Stop> {
        let meddling = Arc::new(Meddling::default());
        let (mut spec, commands, hooks) =
            (subject.spec.clone(), Commands::of(&subject.probes), subject.probes.hooks.clone());
        let service = subject.service.clone().or_else(|| spec.image.clone().map(Service::new));
        let client = subject.client(&meddling, limits)?;
        let facts = client.facts().clone();
        if facts.has(Capability::Labels) {
            spec.labels.extend(labels.clone());
        }
        Ok(Self { client, meddling, commands, hooks, facts, spec, service, labels, settings, paced: Cell::default() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The faults and the counts of calls of this world's adapter.
    pub(crate) fn meddling(&self) -> &Meddling {
        &self.meddling
    }

    /// The facts as narrowed by `probe` for the base spec.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.facts.has(capability)
    }

    /// The subject's spec with the labels of this trial.
    pub(crate) fn spec(&self) -> Spec {
        self.spec.clone()
    }

    /// The labels of this trial, on every sandbox it makes, where the backend keeps labels.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The command probes.
    pub(crate) fn probes(&self) -> &Commands {
        &self.commands
    }

    /// The behaviour probes.
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// A duration, stretched by `SANDBOX_CONTRACT_SCALE`.
    pub(crate) fn scale(&self, time: Duration) -> Duration {
        time.mul_f64(self.settings.scale)
    }

    /// So many seconds, stretched.
    pub(crate) fn secs(&self, seconds: u64) -> Duration {
        self.scale(Duration::from_secs(seconds))
    }

    /// How long it takes here to make a sandbox, use it and end it. That sandbox does not count as a create of the row.
    pub(crate) async fn pace(&self) -> Result<Pace, Stop> {
        let (begun, before) = (Instant::now(), self.meddling.calls(Point::Create));
        let sandbox = self.sandbox().await?;
        self.paced.set(self.paced.get() + self.meddling.calls(Point::Create) - before);
        if self.has(Capability::Run) {
            self.text(&sandbox, self.commands.echo("pace")).await?;
        }
        self.within(60, "close", sandbox.close()).await??;
        Ok(Pace { scale: self.settings.scale * begun.elapsed().as_secs_f64().clamp(QUICKEST, 1.0) })
    }

    /// A name that occurs nowhere else; no marker is a part of another one.
    pub(crate) fn marker(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        format!("mk-{}-{}-z", self.settings.process, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// A sandbox of the base spec.
    pub(crate) async fn sandbox(&self) -> Result<Sandbox, Stop> {
        self.sandbox_of(self.spec()).await
    }

    /// A sandbox of another spec, usually `cx.spec()` with something set.
    pub(crate) async fn sandbox_of(&self, spec: Spec) -> Result<Sandbox, Stop> {
        match self.within(180, "create", self.client.create(spec)).await? {
            Ok(sandbox) => Ok(sandbox),
            Err(error) => match error.kind() {
                ErrorKind::Auth => Err(Stop::Unavailable(told(&error))),
                _ => Err(Stop::from(error).during("create")),
            },
        }
    }

    /// Runs a command to its end; an error, or no end within a minute of real time, fails the row.
    pub(crate) async fn run(&self, sandbox: &Sandbox, command: Command) -> Result<Output, Stop> {
        let what = format!("{command:?}");
        self.within(60, &what, sandbox.run(command)).await?.map_err(|error| Stop::from(error).during(&what))
    }

    /// The stdout of a command that has to succeed, without the newline at its end.
    pub(crate) async fn text(&self, sandbox: &Sandbox, command: Command) -> Result<String, Stop> {
        let what = format!("{command:?}");
        let output = self.run(sandbox, command).await?;
        if !output.success() {
            return Err(Stop::fail(format_args!("{what} did not succeed: {output:?}")));
        }
        let text = output.stdout.text();
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_string())
    }

    /// Awaits what may not take longer than so many seconds of real time, stretched.
    pub(crate) async fn within<T>(&self, seconds: u64, what: &str, future: impl Future<Output = T>) -> Result<T, Stop> {
        match tokio::time::timeout(self.secs(seconds), future).await {
            Ok(value) => Ok(value),
            Err(_) => Err(Stop::fail(format_args!("{what}: not over after {:?}", self.secs(seconds)))),
        }
    }

    /// Waits by the backend's clock, stretched.
    pub(crate) async fn sleep(&self, time: Duration) {
        self.client.sleep(self.scale(time)).await;
    }

    /// The future has to end before so much of the backend's time, stretched, has passed.
    pub(crate) async fn by_clock<T>(
        &self,
        limit: Duration,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            value = future => Ok(value),
            () = self.sleep(limit) => Err(Stop::fail(format_args!("{what}: not over after {:?}", self.scale(limit)))),
        }
    }

    /// The future may not end before so much of the backend's time, stretched, has passed. Give `&mut` of a pinned one to go
    /// on with it.
    pub(crate) async fn outlasts<T: Debug>(
        &self,
        limit: Duration,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<(), Stop> {
        tokio::select! {
            biased;
            value = future => Err(Stop::fail(format_args!("{what}: over before {:?}, with {value:?}", self.scale(limit)))),
            () = self.sleep(limit) => Ok(()),
        }
    }

    /// How many processes of the sandbox show the marker.
    pub(crate) async fn alive(&self, sandbox: &Sandbox, marker: &str) -> Result<usize, Stop> {
        let text = self.text(sandbox, self.commands.alive(marker)).await?;
        text.trim().parse().map_err(|_| Stop::fail(format_args!("the probe `alive` wrote {text:?}, not a number")))
    }

    /// Waits until the marker shows: the positive control of [`vanishes`](Self::vanishes).
    pub(crate) async fn appears(&self, sandbox: &Sandbox, marker: &str) -> Result<(), Stop> {
        self.counts(sandbox, marker, "has to appear", |count| count > 0).await
    }

    /// Waits until no process shows the marker any more.
    pub(crate) async fn vanishes(&self, sandbox: &Sandbox, marker: &str) -> Result<(), Stop> {
        self.counts(sandbox, marker, "has to be dead", |count| count == 0).await
    }

    async fn counts(
        &self,
        sandbox: &Sandbox,
        marker: &str,
        what: &str,
        is_it: impl Fn(usize) -> bool,
    ) -> Result<(), Stop> {
        let until = Instant::now() + self.secs(15);
        loop {
            let count = self.alive(sandbox, marker).await?;
            if is_it(count) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Stop::fail(format_args!("process {marker} {what}; {count} show the marker")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// How many processes show the marker, seen from outside; unproven without the probe.
    pub(crate) async fn survivors(&self, id: &SandboxId, marker: &str) -> Result<usize, Stop> {
        let Some(survivors) = &self.hooks.survivors else {
            return Err(Stop::unproven("the behaviour probe `survivors` is missing"));
        };
        Ok(survivors((id.clone(), marker.to_string())).await?)
    }

    /// Whether sandboxes of this trial can be counted.
    pub(crate) fn can_count(&self) -> bool {
        self.hooks.count.is_some() || self.can_list()
    }

    /// Whether sandboxes of this trial can be listed.
    pub(crate) fn can_list(&self) -> bool {
        self.has(Capability::List) && self.has(Capability::Labels)
    }

    /// How many sandboxes of this trial the provider holds: by the probe `count`, else by `list`; unproven without either.
    pub(crate) async fn count(&self) -> Result<usize, Stop> {
        if let Some(count) = &self.hooks.count {
            return Ok(self.within(30, "the probe `count`", count(self.labels.clone())).await??);
        }
        Ok(self.listed().await?.len())
    }

    /// The ids of this trial's snapshots.
    pub(crate) async fn snapshots(&self) -> Result<Vec<SnapshotId>, Stop> {
        let query = self.labels.iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
        let listed = self.within(30, "a list of snapshots", self.client.snapshots(query)).await??;
        Ok(listed.into_iter().map(|one| one.id).collect())
    }

    /// Makes a snapshot with the labels of this trial, where they are kept.
    pub(crate) async fn snapshot(&self, sandbox: &Sandbox) -> Result<SnapshotId, Stop> {
        Ok(self.within(120, "a snapshot", sandbox.snapshot(self.taken())).await??)
    }

    pub(crate) fn taken(&self) -> TakeSnapshot {
        let labels = if self.has(Capability::SnapshotList) { self.labels.clone() } else { Labels::default() };
        labels.into_iter().fold(TakeSnapshot::new(), |taken, (name, value)| taken.label(name, value))
    }

    /// The subject's spec, to be made from a snapshot.
    pub(crate) fn spec_from(&self, snapshot: &SnapshotId) -> Spec {
        let mut spec = self.spec().snapshot(snapshot.clone());
        spec.image = None;
        spec
    }

    /// The ids of this trial's sandboxes, by `list`; unproven without.
    pub(crate) async fn listed(&self) -> Result<Vec<SandboxId>, Stop> {
        if !self.can_list() {
            return Err(Stop::unproven("no probe `count`, and the backend does not list by labels"));
        }
        let query = self.labels.iter().fold(Query::new(), |query, (name, value)| query.label(name, value));
        let listed = self.within(60, "list", self.client.list(query)).await??;
        Ok(listed.into_iter().map(|one| one.id).collect())
    }

    /// Waits until the provider holds exactly so many sandboxes of this trial, half a minute at most.
    pub(crate) async fn settles_at(&self, expected: usize, what: &str) -> Result<(), Stop> {
        let until = Instant::now() + self.secs(30);
        loop {
            let count = self.count().await?;
            if count == expected {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Stop::fail(format_args!("{what}: the provider holds {count} sandboxes, not {expected}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Fails the row if anything was asked of the provider that may provision.
    pub(crate) fn nothing_provisioned(&self, since: usize, what: &str) -> Result<(), Stop> {
        let creates = self.creates() - since;
        if creates > 0 {
            return Err(Stop::fail(format_args!("{what}: the adapter was asked to create {creates} times")));
        }
        Ok(())
    }

    /// How often the adapter was asked to create so far, by the row itself.
    pub(crate) fn creates(&self) -> usize {
        self.meddling.calls(Point::Create) - self.paced.get()
    }

    /// Takes all faults away and ends everything of this world.
    pub(crate) async fn end(self) -> Result<(), Stop> {
        self.meddling.clear();
        self.within(60, "close of the client", self.client.close()).await??;
        Ok(())
    }
}

impl Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// How patient a row has to be with this backend. A row that waits for what must not come need not wait long on one that
/// answers at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    scale: f64,
}

impl Pace {
    /// So many seconds for a slow backend, down to a fifth of it for a quick one.
    pub(crate) fn secs(self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).mul_f64(self.scale)
    }
}

/// The words of an absence.
pub(crate) fn absence(facts: &Facts, capability: Capability) -> String {
    match facts.support(capability) {
        sandbox_core::Support::Absent(why) => why.into_owned(),
        other => format!("declared as {other:?}"),
    }
}

/// The least part of its time that a row waits.
const QUICKEST: f64 = 0.2;
/// Between two looks.
pub(crate) const POLL: Duration = Duration::from_millis(150);
