//! The raw traits, without the engine.

mod build;
mod clock;
mod files;
mod lifetime;
mod ports;
mod processes;
mod run;
#[cfg(feature = "shell")]
mod shell;

use crate::{Fake, FakeControl, FakeEvents, FakeSandbox};
use sandbox_core::{
    Attempt, Backend, Caller, Ended, Error, Event, Events, Exec, Instance, Made, NetworkPolicy, Resources, SandboxId,
    Spec, Status, Stdin, Tasks,
};
use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{runtime::Runtime, task::AbortHandle};

/// Much longer than anything here takes, and shorter than the patience of whoever waits for the tests.
const LIMIT: Duration = Duration::from_secs(60);

/// A fake and what an engine would be: workers, and background tasks that end with it.
struct Lab {
    fake: Fake,
    tasks: Tasks,
    running: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Lab {
    fn run<F: Future<Output = ()>>(fake: Fake, test: impl FnOnce(Arc<Self>) -> F) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
        let lab = Self::of(&runtime, fake);
        runtime.block_on(async { tokio::time::timeout(LIMIT, test(lab)).await }).expect("the test hangs");
    }

    fn of(runtime: &Runtime, fake: Fake) -> Arc<Self> {
        let running = Arc::new(Mutex::new(Vec::new()));
        let (handle, tasks) = (runtime.handle().clone(), Arc::clone(&running));
        let tasks = Tasks::new(move |task| {
            let task = handle.spawn(task).abort_handle();
            tasks.lock().unwrap().push(task);
        });
        Arc::new(Self { fake, tasks, running })
    }

    async fn create(&self, spec: Spec) -> Result<Made<FakeSandbox>, Error> {
        let attempt = Attempt::new("marker", Arc::default(), self.tasks.clone());
        let _: &Caller = &Caller::default();
        self.fake.create(&spec, &attempt).await
    }

    async fn sandbox(&self) -> FakeSandbox {
        self.create(Spec::new()).await.unwrap().instance
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.running.lock().unwrap().iter().for_each(AbortHandle::abort);
    }
}

/// All that a command gave.
#[derive(Debug, Default)]
struct All {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: Option<Ended>,
    /// Bytes that came after the end.
    late: usize,
}

impl All {
    async fn of(events: &mut FakeEvents) -> Self {
        let mut all = Self::default();
        while let Some(event) = events.next().await.unwrap() {
            if let Event::Stdout(bytes) | Event::Stderr(bytes) = &event {
                all.late += if all.ended.is_some() { bytes.len() } else { 0 };
            }
            match event {
                Event::Stdout(bytes) => all.stdout.extend(bytes),
                Event::Stderr(bytes) => all.stderr.extend(bytes),
                Event::Ended(ended) => assert_eq!(all.ended.replace(ended), None, "a second end"),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    fn status(&self) -> Status {
        self.ended.expect("an end").status
    }
}

fn exec(line: &str) -> Exec {
    Exec::new(line.split(' '))
}

fn within(line: &str, seconds: u64) -> Exec {
    let mut exec = exec(line);
    exec.timeout = Duration::from_secs(seconds);
    exec
}

fn piped(line: &str) -> Exec {
    let mut exec = exec(line);
    exec.stdin = Stdin::Pipe;
    exec
}

async fn run(sandbox: &FakeSandbox, exec: &Exec) -> All {
    let (_control, mut events) = sandbox.spawn(exec).await.unwrap();
    All::of(&mut events).await
}

async fn refused(sandbox: &FakeSandbox, exec: &Exec) -> Error {
    match sandbox.spawn(exec).await {
        Err(error) => error,
        Ok(_) => panic!("{:?} was started", exec.argv),
    }
}

async fn start(sandbox: &FakeSandbox, exec: &Exec) -> (FakeControl, FakeEvents) {
    sandbox.spawn(exec).await.unwrap()
}

fn capped(resources: Resources) -> Spec {
    Spec::new().resources(resources)
}

fn open() -> Spec {
    Spec::new().network(NetworkPolicy::Open)
}

fn names(fake: &Fake, id: &SandboxId) -> Vec<String> {
    fake.world().processes(id).into_iter().map(|process| process.argv.join(" ")).collect()
}
