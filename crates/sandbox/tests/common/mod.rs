//! What the tests of the facade share: two adapters, and ways to look at what is left.

pub(crate) mod folder;
pub(crate) mod scripted;

use sandbox::{Client, Command, Limits, NetworkPolicy, Sandbox, Spec};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake},
    time::{Duration, Instant},
};

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Far more than anything here takes on a loaded machine: what is not over by then hangs.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Short enough to wait for, long enough for a loaded machine.
pub(crate) fn limits() -> Limits {
    Limits::new().kill(ms(1000)).tell(ms(2000)).teardown(ms(10_000)).quiet(ms(3000)).drop_grace(ms(5000))
}

pub(crate) fn spec() -> Spec {
    Spec::new().create_timeout(ms(2000))
}

/// A host that cannot deny is told so.
pub(crate) fn open_spec() -> Spec {
    Spec::new().network(NetworkPolicy::Open)
}

/// A client of host processes, and the directory that goes with it.
pub(crate) struct Host {
    pub(crate) client: Client,
    pub(crate) dir: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::of(|folder| folder)
    }

    pub(crate) fn of(profile: impl FnOnce(folder::Folder) -> folder::Folder) -> Self {
        Self::limited(profile, limits())
    }

    pub(crate) fn limited(profile: impl FnOnce(folder::Folder) -> folder::Folder, limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let client = Client::builder(profile(folder::Folder::new(dir.path()))).limits(limits).build().unwrap();
        Self { client, dir }
    }

    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.client.create(open_spec()).await.unwrap()
    }
}

/// A user's own task.
#[expect(clippy::disallowed_methods, reason = "a user's task on a user's runtime")]
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// An executor that is not tokio, and needs no wake to go on.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        std::thread::park_timeout(ms(20));
    }
}

/// Polls a future once, wherever it stands then.
pub(crate) async fn poll_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Waits for what comes about in its own time, for so long that only a fault can miss it.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "{what}: not within {LONG:?}");
        tokio::time::sleep(ms(10)).await;
    }
}

/// The same, outside any runtime.
pub(crate) fn until_blocking(what: &str, holds: impl FnMut() -> bool) {
    runtime().block_on(until(what, holds));
}

/// A duration of `sleep` that no other test on this machine has, so that its processes can be counted.
pub(crate) fn own_sleep(seconds: u32, test: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one(test) % 1_000_000_000;
    format!("{seconds}.{hash:09}{}", std::process::id())
}

/// Processes on this machine that are just `sleep` so long.
pub(crate) fn sleepers(duration: &str) -> usize {
    let lines =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").trim() == format!("sleep {duration}")).count()
}

/// A command that a scripted adapter only pretends to run.
pub(crate) fn any() -> Command {
    Command::new("x")
}
