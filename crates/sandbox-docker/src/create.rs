//! From a name to a container that runs.

use crate::{
    backend::{DEFAULT_CPU_MILLIS, DEFAULT_MEMORY, DEFAULT_PIDS},
    config::Config,
    error::{self, Meaning},
    wire::{Engine, Link},
};
use bollard::{
    container::LogOutput,
    models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, NetworkCreateRequest},
    query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder},
};
use futures_util::StreamExt;
use sandbox_core::{Attempt, Error, ErrorKind, Resource, Result, SandboxId, Spec};

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

/// What a sandbox is called and made from.
pub(crate) struct Names<'a> {
    pub(crate) container: &'a str,
    pub(crate) image: &'a str,
    /// Whether it gets a network.
    pub(crate) open: bool,
}

/// Makes what a sandbox consists of, and claims it.
pub(crate) async fn run(
    link: &Link,
    config: &Config,
    spec: &Spec,
    attempt: &Attempt,
    names: &Names<'_>,
) -> Result<SandboxId> {
    let Names { container: name, image, open } = *names;
    // The name is ours, and network and container both have it: one destroy finds whatever was made.
    let id = attempt.expect(SandboxId::new(name));
    if open {
        if let Err(wire) = link.docker.create_network(network(name, spec)).await {
            let there = error::is_refusal(&wire) || link.docker.inspect_network(name, None).await.is_ok();
            let error = error::fault("creating the sandbox's network", Meaning::START, wire);
            return Err(settled(attempt, &id, there, without_room(error)));
        }
    }
    let body = container(config, &link.engine, spec, image, name, open);
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
    start(link, name, spec, image).await?;
    Ok(id)
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
    name: &str,
    open: bool,
) -> ContainerCreateBody {
    let amount = |resource, default| spec.resources.get(resource).map_or(default, |amount| amount.value);
    let memory = signed(amount(Resource::Memory, DEFAULT_MEMORY));
    let nano_cpus = signed(amount(Resource::Cpu, DEFAULT_CPU_MILLIS).saturating_mul(1_000_000));
    let pids = i64::from(spec.resources.pids.unwrap_or(DEFAULT_PIDS));
    let host = HostConfig {
        auto_remove: Some(true),
        // An init of the engine's would have the first process as a child, which can be stopped from inside.
        init: Some(false),
        runtime: config.runtime.clone(),
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

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
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
