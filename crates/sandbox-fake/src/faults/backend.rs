//! Lies about what there is, and about making and ending it.

use super::{Fault, Liar, Lies, LyingSandbox, deaf};
use crate::{
    Credential, FakeSandbox,
    config::number,
    fs::Who,
    world::{State, lock},
};
use bytes::Bytes;
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Capability, Clock, Error, ErrorKind, Facts, ForkSandbox, Honoured, Instance,
    Isolation, IsolationFact, Listed, ListedSnapshot, Made, NetworkPolicy, Page, Query, Replay, Resource, Result,
    SandboxId, SnapshotId, Spec, Tasks, labels,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[deny(clippy::missing_trait_methods)]
impl Backend for Liar {
    type Instance = LyingSandbox;

    fn info(&self) -> Facts {
        let facts = self.0.fake.info();
        match self.0.fault {
            Fault::InfoChanges => facts.max_output((1 << 40) + self.0.next() as u64),
            Fault::AbsenceWithoutReason => facts.absent(Capability::AllowHost, ""),
            Fault::DenyIsEmulated => facts.emulated(Capability::Deny, "programs are asked not to"),
            Fault::TierWithoutSource => facts.isolation(IsolationFact::new(Isolation::None, "", "2026-11-30")),
            Fault::CapabilityWithoutItsBase => facts.absent(Capability::StdinWhole, "not here"),
            Fault::ReplayIsOverstated => facts.replay(Replay::FromStart),
            Fault::DefaultsAreOthers => facts.resource(Resource::Memory, Honoured::limit(512 << 20).min(1)),
            _ => facts,
        }
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<LyingSandbox>> {
        let lies = &self.0;
        let labels = spec.labels.clone();
        let spec = changed(lies, spec);
        lies.lose_services(true);
        let made = match lies.fault {
            // Nobody finds what an earlier try has made, and nobody claims it.
            Fault::RepeatMakesASecond if attempt.is_repeated() => {
                lies.fake.kernel().with(|state, _| state.rooms.values_mut().for_each(|room| room.marker.clear()));
                lies.fake.create(&spec, attempt).await
            }
            Fault::NothingIsClaimed | Fault::RepeatMakesASecond => {
                let made = lies.fake.create(&spec, &deaf(attempt)).await?;
                made.instance.detach().await?;
                Ok(made)
            }
            Fault::LeaksWhenCreateFails => {
                let deaf = deaf(attempt);
                let made = lies.fake.create(&spec, &deaf).await?;
                attempt.claim(made.id.clone());
                Ok(made)
            }
            Fault::CreateGivesTheSameAgain => match lies.fake.world().sandboxes().pop() {
                Some(id) => lies.fake.attach(&attempt.claim(id), &attempt.tasks()).await,
                None => lies.fake.create(&spec, attempt).await,
            },
            _ => lies.fake.create(&spec, attempt).await,
        };
        let made = match made {
            Err(error) if lies.is(Fault::ProviderWordsAreLost) => {
                return Err(Error::new(error.kind(), "the provider said no"));
            }
            Err(error) if lies.is(Fault::QuotaIsAFailure) && error.kind() == ErrorKind::QuotaExceeded => {
                return Err(Error::new(ErrorKind::CreateFailed, error.message().to_string()));
            }
            Err(error) if lies.is(Fault::UnknownSnapshotIsTheImage) && error.kind() == ErrorKind::NotFound => {
                let mut other = spec.clone();
                other.snapshot = None;
                lies.fake.create(&other, attempt).await?
            }
            Err(error) if lies.is(Fault::UnknownImageIsTheDefault) && error.kind() == ErrorKind::ImageNotFound => {
                let mut other = spec.clone();
                other.image = None;
                lies.fake.create(&other, attempt).await?
            }
            made => made?,
        };
        lies.lose_services(false);
        match lies.fault {
            Fault::LeavesAThread => {
                let thread = std::thread::Builder::new().name("sandbox-left".into());
                // It is somebody's who forgot about it; this one remembers after a while.
                _ = thread.spawn(|| std::thread::sleep(Duration::from_secs(40)));
            }
            Fault::PolicyIsTheLastOnes => {
                let policy = spec.effective_network().clone();
                lies.fake.kernel().with(|state, after| {
                    let all: Vec<u64> = state.rooms.keys().copied().collect();
                    all.into_iter().for_each(|room| _ = state.set_policy(room, &policy, after));
                });
            }
            Fault::EngineSocketIsInside => {
                let (kernel, room) = (lies.fake.kernel(), number(&made.id));
                let files =
                    |state: &State| room.and_then(|room| state.rooms.get(&room)).map(|room| Arc::clone(&room.files));
                if let Some(files) = kernel.with(|state, _| files(state)) {
                    lock(&files).replace("/run/docker.sock", Bytes::new().into(), None, Who::ROOT, kernel.seconds())?;
                }
            }
            _ => {}
        }
        if lies.is(Fault::DestroyDoesNothing) {
            // Else the sandbox would end with the adapter's handle on it.
            made.instance.detach().await?;
        }
        let made = match lies.fault {
            Fault::SandboxClaimsMore => {
                made.facts(self.info().isolation(IsolationFact::new(Isolation::MicroVm, "a feeling", "2026-11-30")))
            }
            _ => made,
        };
        let mut spec = spec;
        spec.labels = labels;
        Ok(self.wrap(made, spec, attempt.tasks(), false))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        let lies = &self.0;
        match lies.fault {
            Fault::DestroyDoesNothing => return Ok(()),
            Fault::DestroyIsLate => {
                let (world, id) = (lies.fake.world(), id.clone());
                let thread = std::thread::Builder::new().name("late".into());
                _ = thread.spawn(move || {
                    std::thread::sleep(Duration::from_millis(1500));
                    world.expire(&id);
                });
                return Ok(());
            }
            Fault::DestroyOfTheUnknownFails if lies.fake.world().labels(id).is_none() => {
                return Err(Error::new(ErrorKind::NotFound, "there is no such sandbox"));
            }
            Fault::ServicesTakeTheirSandboxAlong => {
                lies.taken_along(id).iter().for_each(|sandbox| lies.end(sandbox));
            }
            Fault::EndedStaysInTheList => {
                if let Some(labels) = lies.fake.world().labels(id) {
                    lock(&lies.ended).insert(id.clone(), labels);
                }
            }
            _ => {}
        }
        lies.fake.destroy(id).await
    }

    async fn probe(&self, spec: &Spec) -> Result<Option<Facts>> {
        if self.0.is(Fault::ProbeProvisions) {
            let attempt = Attempt::new("probe", Arc::default(), Tasks::new(drop));
            let made = self.0.fake.create(spec, &attempt).await?;
            made.instance.detach().await?;
        }
        if self.0.is(Fault::EmptyCredentialIsFine) {
            let mut double = lock(&self.0.fake.kernel().double);
            if double.credential == Some(Credential::Empty) {
                double.credential = Some(Credential::Given);
            }
        }
        match self.0.fake.probe(spec).await {
            Err(error) if self.0.is(Fault::CredentialIsNotNamed) && error.kind() == ErrorKind::Auth => {
                Err(Error::new(ErrorKind::Auth, "not authenticated").with_hint("log in"))
            }
            probed => probed,
        }
    }

    fn probe_key(&self, spec: &Spec) -> String {
        self.0.fake.probe_key(spec)
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<LyingSandbox>> {
        if self.0.is(Fault::AttachMakesANew) {
            let labels = self.0.fake.world().labels(id).unwrap_or_default();
            let mut spec = Spec::new();
            spec.labels = labels;
            let made = self.0.fake.create(&spec, &Attempt::new("attach", Arc::default(), tasks.clone())).await?;
            return Ok(self.wrap(made, spec, tasks.clone(), true));
        }
        let made = self.0.fake.attach(id, tasks).await?;
        if self.0.is(Fault::AttachedHandleOwns) {
            made.instance.own();
        }
        Ok(self.wrap(made, Spec::new(), tasks.clone(), true))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let (lies, mut query) = (&self.0, query.clone());
        if lies.is(Fault::ListIgnoresALabel) {
            let second = query.labels.keys().nth(1).cloned();
            second.map(|name| query.labels.remove(&name));
        }
        if lies.is(Fault::LabelsStayInTheAdapter) {
            let kept = lock(&lies.labels).clone().into_iter();
            let alive = lies.fake.world().sandboxes();
            let found = kept.filter(|(id, labels)| alive.contains(id) && query.fits(labels));
            return Ok(Page::last(found.map(|(id, labels)| Listed::new(id, labels)).collect()));
        }
        let mut page = lies.fake.list(&query).await?;
        match lies.fault {
            Fault::EndedStaysInTheList => {
                let ended = lock(&lies.ended).clone().into_iter();
                let listed = ended.filter(|(_, labels)| query.fits(labels)).map(|(id, labels)| Listed::new(id, labels));
                page.items.extend(listed);
            }
            Fault::ListShowsServices => page.items.extend(lies.listed_services(&query)),
            Fault::ListIsItsFirstPage => page.next = None,
            Fault::ListForgetsOurLabels => {
                page.items.iter_mut().for_each(|one| one.labels.retain(|name, _| !name.starts_with(labels::RESERVED)));
            }
            _ => {}
        }
        Ok(page)
    }

    async fn fork(&self, source: &SandboxId, request: &ForkSandbox, attempt: &Attempt) -> Result<Made<LyingSandbox>> {
        let mut spec = Spec::new();
        spec.labels.clone_from(&request.labels);
        let made = match self.0.fault {
            Fault::ForkIsANew => self.0.fake.create(&spec, attempt).await?,
            Fault::ForkLivesForAnHour => {
                let mut request = request.clone();
                request.lifetime = None;
                self.0.fake.fork(source, &request, attempt).await?
            }
            _ => self.0.fake.fork(source, request, attempt).await?,
        };
        if self.0.is(Fault::DestroyDoesNothing) {
            made.instance.detach().await?;
        }
        Ok(self.wrap(made, spec, attempt.tasks(), false))
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        if self.0.is(Fault::DeletedSnapshotsStay) {
            return Ok(());
        }
        self.0.fake.delete_snapshot(id).await
    }

    async fn list_snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        let mut query = query.clone();
        if self.0.is(Fault::SnapshotListIgnoresLabels) {
            query.labels.clear();
        }
        self.0.fake.list_snapshots(&query).await
    }

    async fn build(&self, request: &BuildImage, context: Body) -> Result<String> {
        self.image(request, context).await
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.fake.clock()
    }
}

impl Liar {
    fn wrap(&self, made: Made<FakeSandbox>, spec: Spec, tasks: Tasks, attached: bool) -> Made<LyingSandbox> {
        if self.0.is(Fault::LabelsStayInTheAdapter) {
            lock(&self.0.labels).entry(made.id.clone()).or_insert_with(|| spec.labels.clone());
        }
        let (whole, lifetime) = (made.id.clone(), spec.effective_lifetime());
        self.with_services(made, attached).map(|inner| {
            let (lies, id, tasks) = (Arc::clone(&self.0), inner.id.clone(), tasks.clone());
            let env = if id == whole { spec.env.clone() } else { BTreeMap::new() };
            LyingSandbox { inner, lies, id, lifetime, env, tasks, attached }
        })
    }
}

/// The spec as the provider gets it.
fn changed(lies: &Lies, spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    lies.change_services(&mut spec);
    match lies.fault {
        Fault::SpecEnvIsIgnored => spec.env.clear(),
        Fault::SpecUserIsIgnored => spec.user = None,
        Fault::MemoryLimitIsIgnored => drop(spec.resources.amounts.remove(&Resource::Memory)),
        Fault::CpuLimitIsIgnored => drop(spec.resources.amounts.remove(&Resource::Cpu)),
        Fault::DiskLimitIsIgnored => drop(spec.resources.amounts.remove(&Resource::Disk)),
        Fault::PidsLimitIsIgnored => spec.resources.pids = None,
        Fault::LifetimeIsIgnored => spec.lifetime = Some(Duration::from_secs(365 * 24 * 3600)),
        Fault::LabelsStayInTheAdapter => spec.labels.clear(),
        Fault::RulesAreOpen if matches!(&spec.network, Some(NetworkPolicy::Allow(rules)) if !rules.is_empty()) => {
            spec.network = Some(NetworkPolicy::Open);
        }
        Fault::HostEnvironmentIsInside => {
            let host = std::env::vars().filter(|(name, _)| name != "PATH" && name != "HOME");
            host.for_each(|(name, value)| _ = spec.env.entry(name).or_insert(value));
        }
        Fault::SecretsAreForgotten => spec.secrets.clear(),
        Fault::SecretsAreShown => {
            let secrets = std::mem::take(&mut spec.secrets).into_iter();
            spec.env.extend(secrets.map(|(name, secret)| (name, secret.expose().clone())));
        }
        Fault::SnapshotIsForgotten => spec.snapshot = None,
        Fault::DenyIsOpen => spec.network = Some(NetworkPolicy::Open),
        _ => {}
    }
    spec
}
