//! From a name to a container that runs.

use crate::{
    config::Config,
    confine::confined,
    error::{self, Meaning},
    limits::Caps,
    own,
    wire::{self, Engine, Link},
};
use bollard::{
    container::LogOutput,
    models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, NetworkCreateRequest},
    query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder},
};
use futures_util::StreamExt;
use sandbox_core::{Attempt, Error, ErrorKind, NetworkPolicy, Result, SandboxId, Spec, labels};

/// The container's first process. It ends when the lifetime is over, and collects the orphans of commands.
///
/// As process 1 it takes no signal from inside, so it must not leave its task to a child that does: `sleep` alone would
/// leave zombies, unless it ignores CHLD, which shells do not pass on and `env` of coreutils does. Elsewhere the shell itself
/// counts, where its `read` takes a timeout: the trap ends a `read` when something has ended, and `jobs` makes busybox collect
/// it. It waits at a terminal that nobody can write to: whoever opens `/dev/ptmx` through `/proc/1/fd` gets another one, where a pipe
/// could be written to, and emptied again just before the shell reads.
const FIRST_PROCESS: &str = r#"PATH="/usr/local/bin:/usr/bin:/bin${PATH:+:$PATH}"
command -v sleep >/dev/null 2>&1 || { echo missing; exit 127; }
echo ready
env --ignore-signal=CHLD true 2>/dev/null && exec env --ignore-signal=CHLD sleep "$0"
(read -r -t 1 _ </dev/null) 2>/dev/null
[ $? = 1 ] && read -r now _ </proc/uptime && (: <>/dev/ptmx) 2>/dev/null || exec sleep "$0"
exec 3<>/dev/ptmx
trap : CHLD
end=$((${now%.*} + $0))
while read -r now _ </proc/uptime && left=$((end - ${now%.*})) && [ "$left" -gt 0 ]; do
  read -r -t "$((left > 5 ? 5 : left))" _ <&3
  jobs >/dev/null
done
exit 0"#;

/// A container that runs.
pub(crate) struct Running {
    pub(crate) id: SandboxId,
    /// The engine's own id, which no renaming changes.
    pub(crate) container: String,
}

/// Makes what a sandbox consists of, and claims it.
pub(crate) async fn run(link: &Link, config: &Config, spec: &Spec, attempt: &Attempt, image: &str) -> Result<Running> {
    let (open, caps) = (is_open(spec)?, Caps::of(spec));
    let name = own::name(attempt.marker());
    if !wire::sound(&name) {
        return Err(Error::new(ErrorKind::Internal, format!("{name:?} is no name for a container")).applied(false));
    }
    let name = name.as_str();
    // What a destroy finds it all by, also where the caller labels nothing.
    let mut spec = spec.clone();
    spec.labels.insert(labels::MARKER.into(), attempt.marker().into());
    let spec = &spec;
    // The name is ours, and network and container both have it: one destroy finds whatever was made.
    let id = attempt.expect(SandboxId::new(name));
    let mut mode = "none".to_string();
    if open {
        match link.docker.create_network(network(name, spec)).await {
            Ok(made) => mode = made.id,
            Err(wire) => {
                let there = error::is_refusal(&wire) || link.docker.inspect_network(name, None).await.is_ok();
                let error = error::fault("creating the sandbox's network", Meaning::START, wire);
                return Err(settled(attempt, &id, there, without_room(error)));
            }
        }
    }
    let body = container(config, &link.engine, spec, image, caps, mode);
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let made = match link.docker.create_container(Some(options), body).await {
        Ok(made) => made,
        Err(wire) => {
            let there = error::is_refusal(&wire) || link.docker.inspect_container(name, None).await.is_ok();
            let error = error::fault("creating the container", Meaning::CREATE, wire);
            return Err(settled(attempt, &id, there, error));
        }
    };
    let id = attempt.claim(id.clone());
    check_warnings(&made.warnings)?;
    if !wire::sound(&made.id) {
        return Err(Error::new(ErrorKind::Protocol, format!("the engine calls a container {:?}", made.id)));
    }
    start(link, &made.id, spec, image).await?;
    Ok(Running { id, container: made.id })
}

fn is_open(spec: &Spec) -> Result<bool> {
    match spec.effective_network() {
        NetworkPolicy::Open => Ok(true),
        NetworkPolicy::Deny => Ok(false),
        NetworkPolicy::Allow(rules) if rules.is_empty() => Ok(false),
        _ => Err(Error::unsupported("network rules on plain containers").with_hint("use NetworkPolicy::Deny or Open")),
    }
}

/// After a refusal, and after a lost answer to a request whose work is there, what is there is all that there will be: then
/// one destroy is enough, and nothing is in doubt any more.
fn settled(attempt: &Attempt, id: &SandboxId, there: bool, error: Error) -> Error {
    if there {
        attempt.claim(id.clone());
    }
    error
}

fn container(
    config: &Config,
    engine: &Engine,
    spec: &Spec,
    image: &str,
    caps: Caps,
    network: String,
) -> ContainerCreateBody {
    let host = HostConfig {
        auto_remove: Some(true),
        // An init of the engine's would have the first process as a child, which can be stopped from inside.
        init: Some(false),
        runtime: config.runtime.clone(),
        network_mode: Some(network),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        pids_limit: engine.pids_limit.then_some(caps.pids),
        memory: engine.memory_limit.then_some(caps.memory),
        // The sum of memory and swap: equal forbids swap.
        memory_swap: (engine.memory_limit && engine.swap_limit).then_some(caps.memory),
        nano_cpus: engine.cpu_limit.then_some(caps.nano_cpus),
        ..confined()
    };
    let lifetime = spec.effective_lifetime();
    let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
    ContainerCreateBody {
        image: Some(image.into()),
        entrypoint: Some(vec!["/bin/sh".into(), "-c".into(), FIRST_PROCESS.into()]),
        cmd: Some(vec![seconds.to_string()]),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: spec.cwd.clone(),
        user: spec.user.clone(),
        labels: Some(spec.labels.clone().into_iter().collect()),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
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
async fn start(link: &Link, container: &str, spec: &Spec, image: &str) -> Result<()> {
    let options = AttachContainerOptionsBuilder::default().stream(true).stdout(true).build();
    let attached = link.docker.attach_container(container, Some(options)).await;
    let mut attached = attached.map_err(|wire| error::fault("attaching to the container", Meaning::START, wire))?;
    let started = link.docker.start_container(container, None).await;
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
