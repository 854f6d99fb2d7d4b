//! What the tests share: an engine, sandboxes that always end, and a look from outside at what is left.

use crate::{Body, snapshot};
use bollard::{
    models::{ContainerCreateBody, HostConfig},
    query_parameters::{
        CreateContainerOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder,
        RemoveContainerOptionsBuilder,
    },
};
use bytes::Bytes;
use futures_util::FutureExt;
use sandbox_core::{
    Attempt, Backend, Caller, Control, Error, ErrorKind, Event, Events, Exec, Instance, Made, Result, Spec, Stdin,
    Tasks, labels,
};
use sandbox_docker::{Container, Docker, Plain, Pull};
use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

pub(crate) const IMAGE: &str = "sandbox-test/busybox:1";
const RUN: &str = "engine-test.run";

#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) plain: Arc<Plain>,
    pub(crate) docker: bollard::Docker,
    pub(crate) handle: Handle,
    pub(crate) run: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Lab {
    pub(crate) async fn open(handle: Handle) -> Result<Self, String> {
        let docker =
            bollard::Docker::connect_with_local_defaults().map_err(|e| format!("no Docker engine was found: {e}"))?;
        docker.ping().await.map_err(|e| format!("no Docker engine answers: {e}"))?;
        docker
            .inspect_image(IMAGE)
            .await
            .map_err(|e| format!("the image {IMAGE} is missing (`cargo xtask images`): {e}"))?;
        let run = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        Ok(Self { plain: Arc::new(plain()), docker, handle, run })
    }

    pub(crate) fn spec(&self) -> Spec {
        Spec::new().image(IMAGE).lifetime(Duration::from_secs(300)).label(RUN, &self.run)
    }

    pub(crate) fn tasks(&self) -> Tasks {
        let handle = self.handle.clone();
        Tasks::new(move |task| drop(handle.spawn(task)))
    }

    /// A try, and the spec as the engine would hand it over.
    pub(crate) fn attempt(&self, spec: Spec) -> (Attempt, Spec) {
        let marker = format!("{}-{}", self.run, NEXT.fetch_add(1, Ordering::SeqCst));
        let spec = spec.label(labels::MARKER, &marker);
        (Attempt::new(marker, Arc::new(Caller::default()), self.tasks()), spec)
    }

    pub(crate) async fn create(&self, spec: Spec) -> Result<Made<Container>> {
        self.create_on(&self.plain, spec).await
    }

    pub(crate) async fn create_on(&self, plain: &Plain, spec: Spec) -> Result<Made<Container>> {
        let (attempt, spec) = self.attempt(spec);
        plain.create(&spec, &attempt).await
    }

    pub(crate) async fn sandbox(&self) -> Made<Container> {
        self.create(self.spec()).await.unwrap()
    }

    pub(crate) async fn refused(&self, spec: Spec) -> Error {
        self.refused_on(&self.plain, spec).await
    }

    pub(crate) async fn refused_on(&self, plain: &Plain, spec: Spec) -> Error {
        let made = self.create_on(plain, spec).await;
        self.sweep().await;
        made.expect_err("it must be refused")
    }

    pub(crate) async fn destroy(&self, made: Made<Container>) {
        self.plain.destroy(&made.id).await.unwrap();
    }

    /// Names of containers and networks of this test, asked of the engine itself.
    pub(crate) async fn left(&self) -> Vec<String> {
        let filters = HashMap::from([("label", vec![format!("{RUN}={}", self.run)])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = self.docker.list_containers(Some(options)).await.unwrap();
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let networks = self.docker.list_networks(Some(options)).await.unwrap();
        let names = containers.into_iter().flat_map(|container| container.names.unwrap_or_default());
        let networks = networks.into_iter().filter_map(|network| Some(format!("network {}", network.name?)));
        names.map(|name| name.trim_start_matches('/').to_string()).chain(networks).collect()
    }

    /// Ends what a create that failed has left, as the engine of the workspace does with what was claimed.
    pub(crate) async fn sweep(&self) {
        for name in self.left().await {
            let name = name.trim_start_matches("network ");
            self.plain.destroy(&sandbox_core::SandboxId::new(name)).await.unwrap();
        }
    }
}

pub(crate) fn plain() -> Plain {
    Docker::plain().pull(Pull::Never)
}

/// A container of other people's, which sleeps.
pub(crate) async fn foreign(lab: &Lab, name: &str, image: &str, network: &str) {
    let body = ContainerCreateBody {
        image: Some(image.into()),
        entrypoint: Some(vec!["sleep".into()]),
        cmd: Some(vec!["150".into()]),
        host_config: Some(HostConfig {
            network_mode: Some(network.into()),
            auto_remove: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    lab.docker.create_container(Some(options), body).await.unwrap();
    lab.docker.start_container(name, None).await.unwrap();
}

pub(crate) async fn remove_foreign(lab: &Lab, name: &str) {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    lab.docker.remove_container(name, Some(options)).await.unwrap();
}

/// Runs a test; whatever it does, nothing of it stays, and what a passed test leaves is its failure.
pub(crate) async fn checked(lab: Lab, body: Body) -> Result<(), String> {
    let outcome =
        AssertUnwindSafe(tokio::time::timeout(Duration::from_secs(180), body(lab.clone()))).catch_unwind().await;
    let left = lab.left().await;
    lab.sweep().await;
    snapshot::remove_all(&lab).await;
    match outcome {
        Err(panic) => {
            let text =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            Err(text.unwrap_or("it panicked").to_string())
        }
        Ok(Err(_)) => Err("it took more than 180 s".into()),
        Ok(Ok(())) if !left.is_empty() => Err(format!("left behind: {left:?}")),
        Ok(Ok(())) => Ok(()),
    }
}

/// What came out of a command, and in which order.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) code: Option<i32>,
    pub(crate) after_the_end: usize,
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

pub(crate) fn sh(script: &str) -> Exec {
    Exec::new(["/bin/sh", "-c", script])
}

pub(crate) fn with_input(mut exec: Exec, all: impl Into<Bytes>) -> Exec {
    exec.stdin = Stdin::Whole(all.into());
    exec
}

pub(crate) fn piped(mut exec: Exec) -> Exec {
    exec.stdin = Stdin::Pipe;
    exec
}

/// Runs a command to the end of its streams.
pub(crate) async fn run(container: &Container, exec: &Exec) -> Result<Ran> {
    let (_control, mut events) = container.spawn(exec).await?;
    let mut ran = Ran::default();
    while collect(&mut ran, &mut events).await? {}
    Ok(ran)
}

/// Takes one event; false at the end.
pub(crate) async fn collect(ran: &mut Ran, events: &mut impl Events) -> Result<bool> {
    let (bytes, stream) = match events.next().await? {
        Some(Event::Stdout(bytes)) => (bytes, &mut ran.stdout),
        Some(Event::Stderr(bytes)) => (bytes, &mut ran.stderr),
        Some(Event::Ended(ended)) => {
            assert_eq!(ran.code, None, "ended twice");
            ran.code = Some(ended.status.as_code());
            return Ok(true);
        }
        Some(Event::NotStarted(error)) => return Err(error),
        Some(other) => panic!("{other:?}"),
        None => return Ok(false),
    };
    if ran.code.is_some() {
        ran.after_the_end += bytes.len();
    }
    stream.extend_from_slice(&bytes);
    Ok(true)
}

pub(crate) async fn out(container: &Container, script: &str) -> String {
    let ran = run(container, &sh(script)).await.unwrap();
    assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
    ran.text().trim_end().to_string()
}

pub(crate) async fn refusal(container: &Container, exec: &Exec) -> (ErrorKind, Error) {
    let error = run(container, exec).await.expect_err("it must not start");
    assert!(!error.may_have_applied(), "{error:?}");
    (error.kind(), error)
}

/// Both handles of a command that reads.
pub(crate) async fn write(control: &impl Control, text: &str) {
    control.write(Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
}
