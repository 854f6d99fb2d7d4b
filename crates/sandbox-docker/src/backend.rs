//! Making, finding and ending containers.

use crate::{
    Container, Pull, PullProgress,
    config::{Config, Target},
    error::{self, Meaning},
    image, sandbox,
    wire::{self, Engine, Link},
};
use bollard::{
    container::LogOutput,
    models::{
        ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig, HostConfigLogConfig, ImageInspect,
        NetworkCreateRequest,
    },
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
        ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
    },
};
use futures_util::StreamExt;
use sandbox_core::{
    Attempt, Backend, Capability, Error, ErrorKind, Facts, Honoured, Isolation, IsolationFact, Listed, Made,
    NetworkPolicy, Page, Query, Resource, Result, SandboxId, Spec, Tasks, labels,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::OnceCell;

const NAME: &str = "docker+plain";
const PREFIX: &str = "sandbox-";

const DEFAULT_MEMORY: u64 = 2 << 30;
/// The engine refuses less.
const LEAST_MEMORY: u64 = 6 << 20;
const DEFAULT_CPU_MILLIS: u64 = 1000;
/// The kernel takes no quota below a millisecond in its period of a hundred.
const LEAST_CPU_MILLIS: u64 = 10;
const DEFAULT_PIDS: u32 = 512;
/// A bound that every `sleep` can count to.
const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The capabilities of the kernel that package managers, `su` and `tar -p` need inside a sandbox; all others are dropped.
const KEPT: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"];

/// The container's first process. It ends when the lifetime is over, and collects the orphans of commands.
///
/// As process 1 it takes no signal from inside, so it must not leave its task to a child that does: `sleep` alone would
/// leave zombies, unless it ignores CHLD, which shells do not pass on and `env` of coreutils does. Elsewhere the shell itself
/// counts, where its `read` takes a timeout: the trap ends a `read` when something has ended, and `jobs` makes busybox collect
/// it.
const FIRST_PROCESS: &str = r#"PATH="/usr/local/bin:/usr/bin:/bin${PATH:+:$PATH}"
command -v sleep >/dev/null 2>&1 || { echo missing; exit 127; }
echo ready
env --ignore-signal=CHLD true 2>/dev/null && exec env --ignore-signal=CHLD sleep "$0"
(read -r -t 1 _ </dev/null) 2>/dev/null
[ $? = 1 ] && read -r now _ </proc/uptime || exec sleep "$0"
trap : CHLD
end=$((${now%.*} + $0))
while read -r now _ </proc/uptime && left=$((end - ${now%.*})) && [ "$left" -gt 0 ]; do
  read -r -t "$((left > 5 ? 5 : left))" _
  jobs >/dev/null
done
exit 0"#;

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

    /// Called with each report of a pull, on a worker of the engine: it must not block.
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

    fn check_runtime(&self, engine: &Engine) -> Result<()> {
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
        const NO_GATEWAY: &str = "plain containers have no gateway that could enforce rules";
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
            .absent(C::OwnerLease, "nothing inside notices that its owner died; the lifetime ends it")
            .isolation(IsolationFact::new(
                Isolation::Container,
                "containers of the engine's runtime share the host's kernel; measured on Docker 20.10 with runc 1.1",
                "2026-11-30",
            ))
            .resource(Resource::Cpu, Honoured::limit(DEFAULT_CPU_MILLIS).min(LEAST_CPU_MILLIS))
            .resource(Resource::Memory, Honoured::limit(DEFAULT_MEMORY).min(LEAST_MEMORY))
            .resource(Resource::Disk, Honoured::nothing())
            .default_pids(DEFAULT_PIDS)
            .max_lifetime(LONGEST_LIFETIME)
            .blind("/proc")
            .blind("/dev")
            .blind("/sys")
    }

    async fn probe(&self, _spec: &Spec) -> Result<Option<Facts>> {
        let engine = &self.link().await?.engine;
        self.check_runtime(engine)?;
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
        let image_name =
            spec.image.as_deref().or(self.config.image.as_deref()).ok_or_else(|| {
                Error::invalid("no image").with_hint("name one in the spec, or set Plain::default_image")
            })?;
        let prepare = async {
            let link = self.link().await?;
            self.check_runtime(&link.engine)?;
            Ok((link, image::present(link, &self.config, image_name).await?))
        };
        let (link, image) = attempt.before_dispatch(prepare).await?;
        let name = format!("{PREFIX}{}", attempt.marker());
        if !wire::sound(&name) {
            return Err(Error::new(ErrorKind::Internal, format!("{name:?} is no name for a container")).applied(false));
        }
        let open = match spec.effective_network() {
            NetworkPolicy::Open => true,
            NetworkPolicy::Deny => false,
            NetworkPolicy::Allow(rules) if rules.is_empty() => false,
            _ => {
                return Err(Error::unsupported("network rules on plain containers")
                    .with_hint("use NetworkPolicy::Deny or Open"));
            }
        };
        // The name is ours, and network and container both have it: one destroy finds whatever was made.
        let id = attempt.expect(SandboxId::new(&name));
        if open {
            if let Err(wire) = link.docker.create_network(network(&name, spec)).await {
                let there = error::is_refusal(&wire) || link.docker.inspect_network(&name, None).await.is_ok();
                let error = error::fault("creating the sandbox's network", Meaning::START, wire);
                return Err(settled(attempt, &id, there, without_room(error)));
            }
        }
        let body = self.body(&link.engine, spec, image_name, &name, open);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = match link.docker.create_container(Some(options), body).await {
            Ok(made) => made,
            Err(wire) => {
                let there = error::is_refusal(&wire) || link.docker.inspect_container(&name, None).await.is_ok();
                let error = error::fault("creating the container", Meaning::CREATE, wire);
                return Err(settled(attempt, &id, there, error));
            }
        };
        let id = attempt.claim(id.clone());
        check_warnings(&made.warnings)?;
        start(link, &name, spec, image_name).await?;
        let cwd = spec.cwd.clone().unwrap_or_else(|| working_dir(&image));
        Ok(Made::new(id.clone(), Container::new(Arc::clone(link), id, attempt.tasks())).cwd(cwd))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        if !wire::sound(id.as_str()) {
            return Ok(()); // Nothing can have such a name.
        }
        let link = self.link().await?;
        let name = remove_container(link, id.as_str()).await?;
        remove_network(link, name.as_deref().unwrap_or(id.as_str())).await
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<Container>> {
        let path = wire::id(id)?;
        let link = self.link().await?;
        let found = link.docker.inspect_container(path, None).await;
        let found = found.map_err(|wire| error::fault("looking for the container", Meaning::ATTACH, wire))?;
        if !is_ours(&found) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{id} is a container, but no sandbox of this library"),
            ));
        }
        if let Some(error) = sandbox::ended(&found) {
            return Err(error);
        }
        let id = name_of(&found).map_or_else(|| id.clone(), SandboxId::new);
        let cwd = found.config.and_then(|config| config.working_dir).filter(|path| path.starts_with('/'));
        Ok(Made::new(id.clone(), Container::new(Arc::clone(link), id, tasks.clone()))
            .cwd(cwd.unwrap_or_else(|| "/".into())))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let link = self.link().await?;
        let mut wanted = vec![labels::MARKER.to_string()];
        wanted.extend(query.labels.iter().map(|(name, value)| format!("{name}={value}")));
        let filters = HashMap::from([("label".to_string(), wanted)]);
        let failed = |wire| error::fault("listing", Meaning::OTHER, wire);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = link.docker.list_containers(Some(options)).await.map_err(failed)?;
        let mut items = Vec::new();
        let mut seen = BTreeSet::new();
        for container in containers {
            let Some(name) =
                container.names.iter().flatten().next().map(|name| name.trim_start_matches('/').to_string())
            else {
                continue; // It is being removed.
            };
            let mut listed = Listed::new(SandboxId::new(&name), sorted(container.labels));
            if let Some(seconds) = container.created.and_then(|seconds| u64::try_from(seconds).ok()) {
                listed = listed.created(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            }
            items.push(listed);
            seen.insert(name);
        }
        // A network outlives a container whose owner had died. It is what is left of that sandbox.
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        for network in link.docker.list_networks(Some(options)).await.map_err(failed)? {
            if let Some(name) = network.name.filter(|name| name.starts_with(PREFIX) && !seen.contains(name)) {
                items.push(Listed::new(SandboxId::new(name), sorted(network.labels)));
            }
        }
        Ok(Page::last(items))
    }
}

impl Plain {
    fn body(&self, engine: &Engine, spec: &Spec, image: &str, name: &str, open: bool) -> ContainerCreateBody {
        let amount = |resource, default| spec.resources.get(resource).map_or(default, |amount| amount.value);
        let memory = signed(amount(Resource::Memory, DEFAULT_MEMORY));
        let nano_cpus = signed(amount(Resource::Cpu, DEFAULT_CPU_MILLIS).saturating_mul(1_000_000));
        let pids = i64::from(spec.resources.pids.unwrap_or(DEFAULT_PIDS));
        let host = HostConfig {
            auto_remove: Some(true),
            // An init of the engine's would have the first process as a child, which can be stopped from inside.
            init: Some(false),
            runtime: self.config.runtime.clone(),
            network_mode: Some(if open { name.to_string() } else { "none".into() }),
            cap_drop: Some(vec!["ALL".into()]),
            cap_add: Some(KEPT.map(String::from).to_vec()),
            security_opt: Some(vec!["no-new-privileges:true".into()]),
            ipc_mode: Some("private".into()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            pids_limit: engine.pids_limit.then_some(pids),
            memory: engine.memory_limit.then_some(memory),
            // The sum of memory and swap: equal forbids swap.
            memory_swap: (engine.memory_limit && engine.swap_limit).then_some(memory),
            nano_cpus: engine.cpu_limit.then_some(nano_cpus),
            ..HostConfig::default()
        };
        let lifetime = spec.effective_lifetime();
        let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
        ContainerCreateBody {
            image: Some(image.into()),
            entrypoint: Some(vec!["/bin/sh".into(), "-c".into(), FIRST_PROCESS.into()]),
            cmd: Some(vec![seconds.to_string()]),
            // Nobody writes to it: the shell waits there.
            open_stdin: Some(true),
            env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            working_dir: spec.cwd.clone(),
            user: spec.user.clone(),
            labels: Some(spec.labels.clone().into_iter().collect()),
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// After a refusal, and after a lost answer to a request whose work is there, what is there is all that there will be: then
/// one destroy is enough, and nothing is in doubt any more.
fn settled(attempt: &Attempt, id: &SandboxId, there: bool, error: Error) -> Error {
    if there {
        attempt.claim(id.clone());
    }
    error
}

fn network(name: &str, spec: &Spec) -> NetworkCreateRequest {
    NetworkCreateRequest {
        name: name.into(),
        driver: Some("bridge".into()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        ..NetworkCreateRequest::default()
    }
}

fn without_room(error: Error) -> Error {
    if error.kind() != ErrorKind::Capacity {
        return error;
    }
    error.with_hint(
        "end other sandboxes with an open network, or add default-address-pools to the engine's configuration",
    )
}

/// What the engine warns of here, it did not do.
fn check_warnings(warnings: &[String]) -> Result<()> {
    for warning in warnings {
        let lower = warning.to_ascii_lowercase();
        if ["discarded", "without swap", "not support", "ignored"].iter().any(|sign| lower.contains(sign)) {
            return Err(Error::unsupported(format!(
                "the engine did not take all of the sandbox's limits: {}",
                warning.trim()
            ))
            .with_hint("make the engine's kernel support the limit; `docker info` shows what is missing")
            .applied(true));
        }
        tracing::warn!(warning, "the engine warns");
    }
    Ok(())
}

/// Starts the container, and waits until its first process has said that it can keep the lifetime.
async fn start(link: &Link, name: &str, spec: &Spec, image: &str) -> Result<()> {
    let options = AttachContainerOptionsBuilder::default().stream(true).stdout(true).build();
    let attached = link.docker.attach_container(name, Some(options)).await;
    let mut attached = attached.map_err(|wire| error::fault("attaching to the container", Meaning::START, wire))?;
    let started = link.docker.start_container(name, None).await;
    started.map_err(|wire| error::start_failed(wire, image, spec.user.as_deref()))?;
    let mut said = Vec::new();
    while let Some(frame) = attached.output.next().await {
        if let LogOutput::StdOut { message } =
            frame.map_err(|e| error::fault("starting the container", Meaning::START, e))?
        {
            said.extend_from_slice(&message);
        }
        match said.split(|byte| *byte == b'\n').next() {
            Some(b"ready") => return Ok(()),
            Some(b"missing") => return Err(error::no_sleep(image).applied(true)),
            _ => {}
        }
    }
    Err(Error::new(ErrorKind::CreateFailed, format!("the first process of {image} ended at once"))
        .with_hint("does `docker run --rm --entrypoint /bin/sh IMAGE -c true` work?"))
}

/// Removes the container and waits until it is gone. Answers with its name, where it was there.
async fn remove_container(link: &Link, id: &str) -> Result<Option<String>> {
    let found = match link.docker.inspect_container(id, None).await {
        Ok(found) => found,
        Err(wire) if error::status(&wire) == 404 => return Ok(None),
        Err(wire) => return Err(error::fault("looking for the container", Meaning::DESTROY, wire)),
    };
    if !is_ours(&found) {
        return Err(Error::invalid(format!("{id} is a container, but no sandbox of this library"))
            .with_hint(format!("if it shall go, run `docker rm --force {id}`")));
    }
    let mut pause = Duration::from_millis(20);
    loop {
        // Anonymous volumes of the image go with it.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match link.docker.remove_container(id, Some(options)).await {
            Ok(()) => break,
            Err(wire) if error::status(&wire) == 404 => break,
            // It is being removed, or something changes its state right now: until it is gone.
            Err(wire) if error::is_conflict(&wire) => {}
            Err(wire) => return Err(error::fault("removing the container", Meaning::DESTROY, wire)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
    Ok(name_of(&found))
}

async fn remove_network(link: &Link, name: &str) -> Result<()> {
    // Only those of ours have such names; the engine's own and other people's are left alone.
    if !name.starts_with(PREFIX) {
        return Ok(());
    }
    let mut pause = Duration::from_millis(20);
    loop {
        match link.docker.remove_network(name).await {
            Ok(()) => return Ok(()),
            Err(wire) if error::status(&wire) == 404 => return Ok(()),
            // The container still holds on to it for a moment.
            Err(wire) if error::status(&wire) == 403 && wire.to_string().contains("active endpoints") => {}
            Err(wire) => return Err(error::fault("removing the sandbox's network", Meaning::DESTROY, wire)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

fn is_ours(found: &ContainerInspectResponse) -> bool {
    let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
    labels.is_some_and(|labels| labels.contains_key(labels::MARKER))
}

fn name_of(found: &ContainerInspectResponse) -> Option<String> {
    found.name.as_deref().map(|name| name.trim_start_matches('/').to_string()).filter(|name| wire::sound(name))
}

fn working_dir(image: &ImageInspect) -> String {
    let stated = image.config.as_ref().and_then(|config| config.working_dir.clone());
    stated.filter(|path| path.starts_with('/')).unwrap_or_else(|| "/".into())
}

fn sorted(labels: Option<HashMap<String, String>>) -> BTreeMap<String, String> {
    labels.into_iter().flatten().collect()
}
