//! The contract suite on `Docker::plain()`. The image comes from `cargo xtask images`.

mod middleman;

use bollard::{
    Docker,
    models::ContainerInspectResponse,
    query_parameters::{
        KillContainerOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder,
        RemoveImageOptionsBuilder,
    },
};
use middleman::{Middleman, Trouble};
use sandbox_contract::{Applied, Canary, Labels, Probes, Reach, Subject};
use sandbox_core::{Error, ErrorKind, Result, SandboxId, Spec};
use sandbox_docker::Pull;
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

/// Looking for the image, making the container, attaching to it, starting it.
const REQUESTS_OF_A_CREATE: usize = 4;
const WORDS: &str = "scripted trouble of the engine";

sandbox_contract::contract_suite!(subject());

fn subject() -> Result<Subject> {
    let engine = Arc::new(Middleman::new().map_err(|error| unavailable("a socket of its own", error))?);
    let backend = sandbox_docker::Docker::plain().host(engine.address()).pull(Pull::Never);
    let spec = Spec::new().image("sandbox-test/busybox:1");
    Ok(Subject::new(backend).spec(spec).probes(probes(&engine)))
}

fn probes(engine: &Arc<Middleman>) -> Probes {
    let arm = |trouble: fn() -> Trouble| {
        let engine = Arc::clone(engine);
        move |()| {
            engine.arm(trouble());
            std::future::ready(Ok(()))
        }
    };
    let fail = |trouble: fn() -> Trouble| {
        let engine = Arc::clone(engine);
        move |()| {
            engine.arm(trouble());
            std::future::ready(Ok(WORDS.to_string()))
        }
    };
    let cut = Arc::clone(engine);
    Probes::new()
        .count(count)
        .canary(canary)
        .canary_at(|reach| async move {
            Ok(match reach {
                Reach::Gateway => Some(canary(()).await?),
                Reach::Udp => {
                    let canary = Canary::listen_udp(bridge().await?);
                    Some(canary.map_err(|error| unavailable("the engine's bridge is not on this host", error))?)
                }
                // Nothing on the internet answers here; sandboxes have no IPv6, and a resolver of the host's.
                _ => None,
            })
        })
        .survivors(|(_, marker)| async move { survivors(&marker) })
        .expire(expire)
        .fail_create_at(move |number| {
            let there = number <= REQUESTS_OF_A_CREATE;
            if there {
                cut.arm(Trouble::Cut { after: number });
            }
            std::future::ready(Ok(there))
        })
        .provider_failure(fail(|| Trouble::Refuse { request: "POST /containers/create", words: WORDS }))
        .slow_create(arm(|| Trouble::Hang { request: "POST /containers/create" }))
        .hang_destroy(arm(|| Trouble::Hang { request: "DELETE /containers/" }))
        .fail_destroy(fail(|| Trouble::Refuse { request: "DELETE /containers/", words: WORDS }))
        .builds({
            let engine = Arc::clone(engine);
            move |()| std::future::ready(Ok(engine.builds()))
        })
        .remove_image(remove_image)
        .page_size(|()| std::future::ready(Ok(None)))
        .native_labels(|id| async move {
            let labels = inspect(&id).await?.config.and_then(|config| config.labels);
            Ok(labels.into_iter().flatten().collect())
        })
        .applied_resources(applied)
}

/// A client of the probes' own, past the middleman.
fn engine() -> Result<Docker> {
    Docker::connect_with_local_defaults().map_err(|error| unavailable("no engine", error))
}

fn unavailable(what: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, what).with_source(error)
}

async fn inspect(id: &SandboxId) -> Result<ContainerInspectResponse> {
    engine()?.inspect_container(id.as_str(), None).await.map_err(|error| unavailable("inspect", error))
}

/// Containers, and networks that are left of one.
async fn count(labels: Labels) -> Result<usize> {
    let docker = engine()?;
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let filters = HashMap::from([("label".to_string(), labels)]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let containers = docker.list_containers(Some(options)).await.map_err(|error| unavailable("list", error))?;
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let networks = docker.list_networks(Some(options)).await.map_err(|error| unavailable("list", error))?;
    let names = containers.into_iter().filter_map(|container| container.names?.into_iter().next());
    let names = names.map(|name| name.trim_start_matches('/').to_string());
    Ok(names.chain(networks.into_iter().filter_map(|network| network.name)).collect::<BTreeSet<_>>().len())
}

async fn remove_image(name: String) -> Result<()> {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    let removed = engine()?.remove_image(&name, Some(options), None).await;
    removed.map(drop).map_err(|error| unavailable("removing an image", error))
}

async fn canary((): ()) -> Result<Canary> {
    Canary::listen(bridge().await?).map_err(|error| unavailable("the engine's bridge is not on this host", error))
}

/// The engine's own bridge, which is an address of this host where the engine is.
async fn bridge() -> Result<IpAddr> {
    let bridge = engine()?.inspect_network("bridge", None).await.map_err(|error| unavailable("no bridge", error))?;
    let config = bridge.ipam.and_then(|ipam| ipam.config?.into_iter().next()).unwrap_or_default();
    // An engine that was never told of a gateway takes the first address of the network.
    let address = config.gateway.as_deref().and_then(|gateway| gateway.parse::<Ipv4Addr>().ok()).or_else(|| {
        let network = config.subnet.as_deref()?.split('/').next()?.parse::<Ipv4Addr>().ok()?;
        Some(Ipv4Addr::from_bits(network.to_bits() + 1))
    });
    let address = address.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the engine's bridge has no address"))?;
    Ok(address.into())
}

/// The engine's containers are processes of this host, where it is a Linux that runs the engine.
fn survivors(marker: &str) -> Result<usize> {
    let all = fs::read_dir("/proc").map_err(|error| unavailable("no /proc", error))?;
    let own = std::process::id().to_string();
    let shows = |pid: &str| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(marker)
    };
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|b| b.is_ascii_digit()) && *name != own);
    Ok(pids.filter(|pid| shows(pid)).count())
}

async fn expire(id: SandboxId) -> Result<()> {
    let options = KillContainerOptionsBuilder::default().signal("KILL").build();
    engine()?.kill_container(id.as_str(), Some(options)).await.map_err(|error| unavailable("kill", error))
}

async fn applied(id: SandboxId) -> Result<Applied> {
    let host = inspect(&id).await?.host_config.unwrap_or_default();
    let positive = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
    let mut applied = Applied::new();
    if let Some(memory) = positive(host.memory) {
        applied = applied.memory(memory);
    }
    if let Some(nano) = positive(host.nano_cpus) {
        applied = applied.cpu_millis(nano / 1_000_000);
    }
    if let Some(pids) = positive(host.pids_limit).and_then(|pids| u32::try_from(pids).ok()) {
        applied = applied.pids(pids);
    }
    Ok(applied)
}
