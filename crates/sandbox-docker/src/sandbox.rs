//! One container.

use crate::{
    ExecEvents, Input, error, files,
    pause::{self, Still},
    process, snapshot,
    wire::Link,
};
use bollard::{errors::Error as Wire, models::ContainerInspectResponse};
use futures_util::StreamExt;
use sandbox_core::{
    Body, Error, ErrorKind, Exec, FileInfo, GetTree, Instance, Pause, PutTree, Result, Resume, SnapshotId, Stat,
    TakeSnapshot, Tasks,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// A container that is a sandbox.
#[derive(Debug)]
pub struct Container {
    link: Arc<Link>,
    /// The engine's own id, which no renaming changes.
    id: String,
    tasks: Tasks,
    still: Still,
}

impl Container {
    pub(crate) fn new(link: Arc<Link>, id: String, tasks: Tasks) -> Self {
        let still = link.stills.of(&id);
        Self { link, id, tasks, still }
    }
}

impl Instance for Container {
    type Control = Input;
    type Events = ExecEvents;

    async fn spawn(&self, exec: &Exec) -> Result<(Input, ExecEvents)> {
        let _goes_on = self.still.read().await;
        process::spawn(&self.link, &self.id, &self.tasks, exec).await
    }

    async fn gone(&self) -> Error {
        let mut pause = Duration::from_millis(50);
        loop {
            let mut end = pin!(self.link.docker.wait_container(&self.id, None));
            match end.next().await {
                Some(Ok(end)) => return self.post_mortem(Some(end.status_code)).await,
                Some(Err(Wire::DockerContainerWaitError { code, .. })) => return self.post_mortem(Some(code)).await,
                // Gone already, or the connection broke: the engine knows.
                Some(Err(_)) | None => {}
            }
            match self.link.docker.inspect_container(&self.id, None).await {
                Ok(found) if !is_running(&found) => return self.post_mortem(exit_code(&found)).await,
                Err(wire) if error::status(&wire) == 404 => return post_mortem(None, false),
                // It runs, or nothing can be said for now.
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    async fn pause(&self, _: &Pause) -> Result<()> {
        let _still = self.still.write().await;
        pause::pause(&self.link, &self.id).await
    }

    async fn resume(&self, _: &Resume) -> Result<()> {
        let _still = self.still.write().await;
        pause::resume(&self.link, &self.id).await
    }

    async fn snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotId> {
        snapshot::take(&self.link, &self.id, &self.still, &self.tasks, request).await
    }

    async fn stat_tree(&self, request: &Stat) -> Result<FileInfo> {
        files::stat(&self.link, &self.id, &request.path).await
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
        files::put(&self.link, &self.id, &request.path, tar).await
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        files::get(&self.link, &self.id, &request.path).await
    }
}

impl Container {
    /// The engine removes the container right after its end, so what it knows beyond the code may be gone already.
    async fn post_mortem(&self, code: Option<i64>) -> Error {
        // The news is wanted at once; while it removes the container, the engine lets questions wait.
        let asked = self.link.docker.inspect_container(&self.id, None);
        let found = tokio::time::timeout(Duration::from_millis(100), asked).await;
        let out_of_memory = found.ok().and_then(Result::ok).and_then(|found| found.state?.oom_killed).unwrap_or(false);
        post_mortem(code, out_of_memory)
    }
}

fn post_mortem(code: Option<i64>, out_of_memory: bool) -> Error {
    let message = match code {
        _ if out_of_memory => "the container ran out of memory".into(),
        // Its first process is a sleep, which ends with zero only when it has slept enough.
        Some(0) => "the sandbox's lifetime is over".into(),
        Some(137) => "the container was killed".into(),
        Some(code) => format!("the container's first process ended with code {code}"),
        None => "the container is no longer there".into(),
    };
    Error::new(ErrorKind::Gone, message)
}

/// Why a container that is there is of no use as a sandbox; `None` where it runs.
pub(crate) fn ended(found: &ContainerInspectResponse) -> Option<Error> {
    let out_of_memory = found.state.as_ref().and_then(|state| state.oom_killed).unwrap_or(false);
    (!is_running(found)).then(|| post_mortem(exit_code(found), out_of_memory))
}

fn is_running(found: &ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or(false)
}

fn exit_code(found: &ContainerInspectResponse) -> Option<i64> {
    found.state.as_ref().and_then(|state| state.exit_code)
}
