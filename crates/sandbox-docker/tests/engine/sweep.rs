//! What dead owners left, and who ends it.

use crate::{
    lab::{IMAGE, Lab, plain},
    proxy::Proxy,
};
use bollard::{
    models::{ContainerCreateBody, HostConfig, NetworkCreateRequest},
    query_parameters::CreateContainerOptionsBuilder,
};
use sandbox_core::{Backend, Query, labels};
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant, SystemTime},
};

/// Past the end of a lifetime, nothing is swept for half a minute.
const PATIENCE: Duration = Duration::from_secs(40);

struct Left {
    name: String,
    labels: HashMap<String, String>,
}

impl Left {
    /// As the facade labels a sandbox of this lifetime, by whatever clock.
    fn new(lab: &Lab, what: &str, lifetime: Option<u64>) -> Self {
        let marker = format!("{what}-{}", lab.run);
        let mut labels = HashMap::from([
            (labels::MARKER.to_string(), marker.clone()),
            ("engine-test.run".to_string(), lab.run.clone()),
        ]);
        if let Some(lifetime) = lifetime {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - 5000;
            labels.insert(labels::CREATED.into(), now.to_string());
            labels.insert(labels::EXPIRES.into(), (now + lifetime).to_string());
        }
        Self { name: format!("sandbox-{marker}"), labels }
    }

    async fn container(self, lab: &Lab, started: bool) {
        let body = ContainerCreateBody {
            image: Some(IMAGE.into()),
            cmd: Some(vec!["sleep".into(), "200".into()]),
            labels: Some(self.labels),
            host_config: Some(HostConfig { network_mode: Some("none".into()), ..HostConfig::default() }),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptionsBuilder::default().name(&self.name).build();
        lab.docker.create_container(Some(options), body).await.unwrap();
        if started {
            lab.docker.start_container(&self.name, None).await.unwrap();
        }
    }

    async fn network(self, lab: &Lab) {
        let request =
            NetworkCreateRequest { name: self.name, labels: Some(self.labels), ..NetworkCreateRequest::default() };
        lab.docker.create_network(request).await.unwrap();
    }
}

async fn leave(lab: &Lab) {
    Left::new(lab, "never-started", Some(1)).container(lab, false).await;
    Left::new(lab, "runs-on", Some(1)).container(lab, true).await;
    Left::new(lab, "frozen", Some(1)).container(lab, true).await;
    lab.docker.pause_container(&format!("sandbox-frozen-{}", lab.run)).await.unwrap();
    Left::new(lab, "network", Some(1)).network(lab).await;
}

async fn stay(lab: &Lab) -> BTreeSet<String> {
    Left::new(lab, "has-time", Some(3600)).container(lab, false).await;
    Left::new(lab, "says-nothing", None).container(lab, false).await;
    Left::new(lab, "network-has-time", Some(3600)).network(lab).await;
    let mut renamed = Left::new(lab, "renamed", Some(1));
    renamed.name = format!("renamed-{}", lab.run);
    renamed.container(lab, false).await;
    let names = ["sandbox-has-time", "sandbox-says-nothing", "network sandbox-network-has-time", "renamed"];
    names.map(|name| format!("{name}-{}", lab.run)).into()
}

pub(crate) async fn a_list_only_looks(lab: Lab) {
    let kept = stay(&lab).await;
    leave(&lab).await;
    tokio::time::sleep(PATIENCE).await;
    let proxy = Proxy::new(&lab);
    let plain = plain().host(&proxy.address);
    let listed = plain.list(&Query::new().label("engine-test.run", &lab.run)).await.unwrap().items;
    assert!(listed.len() >= kept.len(), "{listed:?}");
    // What is left says nothing: others create on the same engine meanwhile, which ends what is past its lifetime.
    let asked = proxy.asked();
    assert!(asked.iter().any(|line| line.starts_with("GET ") && line.contains("/containers/json")), "{asked:?}");
    assert!(asked.iter().all(|line| line.starts_with("GET ")), "a list is no change: {asked:?}");
    lab.sweep().await;
}

pub(crate) async fn a_create_ends_what_is_past_its_lifetime(lab: Lab) {
    let mut kept = stay(&lab).await;
    leave(&lab).await;
    tokio::time::sleep(PATIENCE).await;
    let made = lab.sandbox().await;
    kept.insert(made.id.to_string());
    until(&lab, &kept, async || {}).await;
    lab.sweep().await;
}

/// Others sweep the same engine, so it may be gone at once.
async fn until(lab: &Lab, kept: &BTreeSet<String>, mut again: impl AsyncFnMut()) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        again().await;
        let left: BTreeSet<_> = lab.left().await.into_iter().collect();
        assert!(left.is_superset(kept), "swept what is not past its lifetime: {left:?}");
        if left == *kept {
            return;
        }
        assert!(Instant::now() < deadline, "left: {left:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
