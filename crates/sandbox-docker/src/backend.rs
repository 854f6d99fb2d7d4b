//! Making, finding and ending containers.

use crate::{
    Container, Pull, PullProgress, build,
    config::{Config, Target},
    create::{self, Running},
    error::Meaning,
    image,
    limits::{
        DEFAULT_CPU_MILLIS, DEFAULT_MEMORY, DEFAULT_PIDS, LEAST_CPU_MILLIS, LEAST_MEMORY, LEAST_PIDS, LONGEST_LIFETIME,
        MOST_CPU_MILLIS, MOST_MEMORY,
    },
    own::{self, Named},
    remove, sandbox, snapshot, sweep,
    wire::{self, Engine, Link},
};
use bollard::models::ImageInspect;
use sandbox_core::{
    Attempt, Backend, Body, BuildImage, Capability, Error, ErrorKind, Facts, Honoured, Isolation, IsolationFact,
    Listed, ListedSnapshot, Made, Page, Query, Resource, Result, SandboxId, SnapshotId, Spec, Tasks, labels,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::OnceCell;

const NAME: &str = "docker+plain";

/// Containers of a Docker engine, one exec per command. Made by [`Docker::plain`](crate::Docker::plain).
///
/// **A timeout ends the whole sandbox**: the engine cannot end one exec.
#[derive(Debug)]
pub struct Plain {
    config: Config,
    link: OnceCell<Arc<Link>>,
}

impl Plain {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, link: OnceCell::new() }
    }

    /// The engine's address, such as `unix:///run/docker.sock`, `tcp://host:2375` or `npipe:////./pipe/docker_engine`. An
    /// address that cannot be read is `invalid-argument` from the first operation.
    pub fn host(self, address: impl Into<String>) -> Self {
        self.with(|config| config.target = Some(Target::Host(address.into())))
    }

    /// The Docker context that names the engine. One that is missing is `backend-missing` from the first operation.
    pub fn context(self, name: impl Into<String>) -> Self {
        self.with(|config| config.target = Some(Target::Context(name.into())))
    }

    /// The image of specs that name none.
    pub fn default_image(self, image: impl Into<String>) -> Self {
        self.with(|config| config.image = Some(image.into()))
    }

    /// When images are pulled; [`Pull::Missing`] unless set.
    pub fn pull(self, pull: Pull) -> Self {
        self.with(|config| config.pull = pull)
    }

    /// Called with each report of a pull, also of what a definition begins with, on a worker of the engine: it must not block.
    pub fn on_pull(self, tell: impl Fn(&PullProgress) + Send + Sync + 'static) -> Self {
        self.with(|config| config.progress = Some(Arc::new(tell)))
    }

    /// The engine's runtime for containers, by the name it has there; the engine's default unless set. A name that the engine
    /// does not know is `unsupported`. The isolation tier stays `Container`, whatever the name: a name proves nothing.
    pub fn runtime(self, name: impl Into<String>) -> Self {
        self.with(|config| config.runtime = Some(name.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Made once, inside the first operation; a failure is not kept.
    async fn link(&self) -> Result<&Arc<Link>> {
        self.link.get_or_try_init(async || Ok(Arc::new(Link::open(&self.config).await?))).await
    }

    fn check_engine(&self, engine: &Engine) -> Result<()> {
        if !engine.seccomp {
            return Err(Error::unsupported(
                "the engine cannot filter system calls, so commands could end the lifetime",
            )
            .with_hint("use a kernel and an engine with seccomp; `docker info` lists it under its security options"));
        }
        let Some(name) = self.config.runtime.as_deref().filter(|name| !engine.runtimes.contains_key(*name)) else {
            return Ok(());
        };
        let known: Vec<_> = engine.runtimes.keys().map(String::as_str).collect();
        Err(Error::unsupported(format!("the engine has no runtime {name:?}"))
            .with_hint(format!("add it to the engine's configuration, or use one of: {}", known.join(", "))))
    }
}

impl Backend for Plain {
    type Instance = Container;

    fn info(&self) -> Facts {
        use Capability as C;
        const NO_GATEWAY: &str = "plain containers have no gateway that could enforce rules or record what is reached";
        const NO_TERMINAL: &str = "engines before Docker 23 start an exec's terminal without a size, and the client takes \
                                   some of its bytes for headers of frames";
        const NO_KILL: &str = "the engine has no call that ends one exec";
        Facts::new(NAME)
            .native([
                C::Run,
                C::Argv,
                C::Stream,
                C::StreamExact,
                C::StdinWhole,
                C::Stdin,
                C::Background,
                C::User,
                C::Tree,
                C::FileStream,
                C::Deny,
                C::Pids,
                C::Labels,
                C::List,
                C::Attach,
                C::Lifetime,
                C::Pause,
                C::Snapshot,
                C::SnapshotList,
                C::IdempotentCreate,
                C::Separate,
                C::Build,
            ])
            .emulated(C::Files, "trees of one file, and the image's sh and its usual commands")
            .emulated(C::FileMeta, "the image's sh with stat, chmod, chown and touch")
            .absent(C::SignalStatus, "the engine reports a death by signal n as exit code 128 + n")
            .absent(C::KillOne, NO_KILL)
            .absent(C::ProcessTree, NO_KILL)
            .absent(C::Deadline, "nothing of ours runs inside that could end a command")
            .absent(C::Term, "the engine has no call that sends a signal to one exec")
            .absent(C::Signals, "the engine has no call that sends a signal to one exec")
            .absent(C::OomStatus, "the engine does not say which exec the memory cap ended")
            .absent(C::AtomicWrite, "the engine unpacks in place, and a transfer that is cut leaves a part")
            .absent(C::AllowHost, NO_GATEWAY)
            .absent(C::AllowWildcard, NO_GATEWAY)
            .absent(C::AllowIpv4, NO_GATEWAY)
            .absent(C::AllowIpv6, NO_GATEWAY)
            .absent(C::AllowCidr, NO_GATEWAY)
            .absent(C::AllowPort, NO_GATEWAY)
            .absent(C::StopStart, "a container that ends is removed, and its files with it")
            .absent(C::Extend, "the first process counts the lifetime, and cannot be told of another")
            .absent(C::Fork, "the engine has no call that copies a container")
            .absent(C::Ports, "the engine publishes ports of containers with a network, and only when they are made")
            .absent(C::DynamicNetwork, "a container's network is chosen when it is made")
            .absent(C::Learn, NO_GATEWAY)
            .absent(C::OwnerLease, "nothing inside notices that its owner died; the lifetime ends it")
            .absent(C::SecretStore, "the engine shows the environment of a container to whoever inspects it")
            .absent(C::Pty, NO_TERMINAL)
            .absent(C::Watch, "the engine tells no changes of files as they happen")
            .absent(C::Services, "a sandbox is one container here, and nothing joins others to it")
            .absent(C::Reattach, "the engine has no call that joins the streams of an exec again")
            .isolation(IsolationFact::new(
                Isolation::Container,
                "containers of the engine's runtime share the host's kernel; measured on Docker 20.10 with runc 1.1",
                "2026-11-30",
            ))
            .resource(Resource::Cpu, Honoured::limit(DEFAULT_CPU_MILLIS).min(LEAST_CPU_MILLIS).max(MOST_CPU_MILLIS))
            .resource(Resource::Memory, Honoured::limit(DEFAULT_MEMORY).min(LEAST_MEMORY).max(MOST_MEMORY))
            .resource(Resource::Disk, Honoured::nothing())
            .default_pids(DEFAULT_PIDS)
            .least_pids(LEAST_PIDS)
            .max_lifetime(LONGEST_LIFETIME)
            .blind("/proc")
            .blind("/dev")
            .blind("/sys")
    }

    async fn probe(&self, _spec: &Spec) -> Result<Option<Facts>> {
        let engine = &self.link().await?.engine;
        self.check_engine(engine)?;
        let mut facts = self.info();
        if !engine.memory_limit {
            facts = facts.resource(Resource::Memory, Honoured::nothing());
        }
        facts = match engine.cpus {
            _ if !engine.cpu_limit => facts.resource(Resource::Cpu, Honoured::nothing()),
            Some(count) => {
                let cpu = Honoured::limit(DEFAULT_CPU_MILLIS).min(LEAST_CPU_MILLIS).max(count * 1000);
                facts.resource(Resource::Cpu, cpu)
            }
            None => facts,
        };
        if !engine.pids_limit {
            facts = facts.absent(Capability::Pids, "the engine's kernel cannot limit processes");
        }
        if engine.hides_files(self.config.runtime.as_deref()) {
            const TAR: &str = "the image's tar, because the engine does not see the files of this runtime";
            facts = facts.emulated(Capability::Tree, TAR).emulated(Capability::FileStream, TAR);
        }
        Ok(Some(facts))
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<Container>> {
        let named = spec.image.as_deref().or(self.config.image.as_deref());
        let prepare = async {
            let link = self.link().await?;
            self.check_engine(&link.engine)?;
            if let Some(id) = &spec.snapshot {
                let image = snapshot::image(link, id).await?;
                return Ok((link, image, id.as_str()));
            }
            let name = named.ok_or_else(|| {
                Error::invalid("no image")
                    .with_hint("write `docker+plain://IMAGE`, set the spec's `image`, or `Plain::default_image`")
            })?;
            Ok((link, image::present(link, &self.config, name).await?, name))
        };
        let (link, image, image_name) = attempt.before_dispatch(prepare).await?;
        if attempt.is_repeated() {
            // Nobody has used what an earlier try has made; its name is free again.
            let cleared = self.destroy(&SandboxId::new(own::name(attempt.marker()))).await;
            cleared.map_err(|error| match error.kind() {
                ErrorKind::TeardownFailed => error.with_kind(ErrorKind::CreateFailed),
                _ => error,
            })?;
        }
        attempt.tasks().spawn({
            let link = Arc::clone(link);
            async move { sweep::now_and_then(&link).await }
        });
        let others = spec.snapshot.iter().flat_map(|_| snapshot::handed_on(&image));
        let mut whole = spec.clone();
        whole.labels = others.chain(spec.labels.clone()).collect();
        let spec = &whole;
        let Running { id, container } = create::run(link, &self.config, spec, attempt, image_name).await?;
        let cwd = spec.cwd.clone().unwrap_or_else(|| working_dir(&image));
        Ok(Made::new(id, Container::new(Arc::clone(link), container, attempt.tasks())).cwd(cwd))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        if !wire::sound(id.as_str()) {
            return Ok(()); // Nothing can have such a name.
        }
        let link = self.link().await?;
        match Box::pin(own::find(link, id, Meaning::DESTROY)).await? {
            Named::Sandbox(found) => {
                remove::container(link, &found.container).await?;
                remove::networks(link, &found.marker).await
            }
            Named::Foreign => Err(Error::invalid(format!("{id} is a container, but no sandbox of this library"))
                .with_hint(format!("if it shall go, run `docker rm --force {id}`"))),
            Named::Nothing => match own::marker(id.as_str()) {
                Some(marker) => remove::networks(link, marker).await,
                None => Ok(()),
            },
        }
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<Container>> {
        if !wire::sound(id.as_str()) {
            return Err(Error::new(ErrorKind::NotFound, format!("{:?} cannot be the id of a container", id.as_str())));
        }
        let link = self.link().await?;
        let found = match Box::pin(own::find(link, id, Meaning::ATTACH)).await? {
            Named::Sandbox(found) => *found,
            Named::Foreign => {
                let message = format!("{id} is a container, but no sandbox of this library");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            Named::Nothing => return Err(Error::new(ErrorKind::NotFound, format!("the engine has no sandbox {id}"))),
        };
        if let Some(error) = sandbox::ended(&found.inspected) {
            return Err(error);
        }
        let cwd = found.inspected.config.and_then(|config| config.working_dir).filter(|path| path.starts_with('/'));
        Ok(Made::new(found.id, Container::new(Arc::clone(link), found.container, tasks.clone()))
            .cwd(cwd.unwrap_or_else(|| "/".into())))
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        snapshot::delete(self.link().await?, id).await
    }

    async fn list_snapshots(&self, query: &Query) -> Result<Page<ListedSnapshot>> {
        snapshot::list(self.link().await?, query).await
    }

    async fn build(&self, request: &BuildImage, context: Body) -> Result<String> {
        let link = self.link().await?;
        build::image(link, &self.config, request, context).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let link = self.link().await?;
        let mut wanted = vec![labels::MARKER.to_string()];
        wanted.extend(query.labels.iter().map(|(name, value)| format!("{name}={value}")));
        let mut items = Vec::new();
        let mut markers = BTreeSet::new();
        for container in own::containers(link, &wanted, Meaning::OTHER).await? {
            let Some(name) = own::listed_name(&container).map(String::from) else {
                continue; // It is being removed.
            };
            let labels = snapshot::own(sorted(container.labels));
            let Some(marker) = labels.get(labels::MARKER).cloned() else { continue };
            if !own::is_ours(link, Some(&name), &marker, container.image_id.as_deref()).await {
                continue;
            }
            let mut listed = Listed::new(SandboxId::new(name), labels);
            if let Some(seconds) = container.created.and_then(|seconds| u64::try_from(seconds).ok()) {
                listed = listed.created(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            }
            items.push(listed);
            markers.insert(marker);
        }
        // A network outlives a container whose owner had died. It is what is left of that sandbox.
        for (_, name, network) in own::networks(link, &wanted, Meaning::OTHER).await? {
            if own::marker(&name).is_some_and(|marker| !markers.contains(marker)) {
                items.push(Listed::new(SandboxId::new(name), snapshot::own(sorted(network.labels))));
            }
        }
        Ok(Page::last(items))
    }
}

fn working_dir(image: &ImageInspect) -> String {
    let stated = image.config.as_ref().and_then(|config| config.working_dir.clone());
    stated.filter(|path| path.starts_with('/')).unwrap_or_else(|| "/".into())
}

pub(crate) fn sorted(labels: Option<HashMap<String, String>>) -> BTreeMap<String, String> {
    labels.into_iter().flatten().collect()
}
