//! The fake as its users set it up and look into it.

use crate::{
    clock::VirtualClock,
    image::Image,
    program::{Proc, program},
    world::{Kernel, Room, Transport, WORKSHOPS, lock},
};
use bytes::Bytes;
use sandbox_core::{Query, Resources, SandboxId, SnapshotId};
use std::{collections::BTreeMap, fmt, future::Future, net::IpAddr, sync::Arc, time::Duration};

/// A world of sandboxes in memory, and the backend that makes them. Clones share the world.
///
/// When the last clone and the last [`World`] are gone, so are its sandboxes.
#[derive(Clone)]
pub struct Fake {
    world: World,
}

impl Fake {
    /// A world with one image, `default`, and the built-in programs.
    pub fn new() -> Self {
        Self { world: World(Arc::new(Owner(Kernel::new()))) }
    }

    /// Adds a program, as `/bin/NAME` of every image of sandboxes made from now on. It replaces one of the same name.
    pub fn program<F>(self, name: impl Into<String>, run: impl Fn(Proc) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        lock(&self.kernel().catalogue).add_program(name.into(), program(run));
        self
    }

    /// Adds an image, or replaces it; `default` is the one for specs that name none.
    pub fn image(self, name: impl Into<String>, image: Image) -> Self {
        lock(&self.kernel().catalogue).add_image(name.into(), image);
        self
    }

    /// Adds a host, by name or address, that answers so to whoever connects to it at a port. A name gets an address of its own,
    /// unless it has one by [`address`](Self::address).
    pub fn host(self, host: impl AsRef<str>, port: u16, answer: impl Into<Bytes>) -> Self {
        self.serve(host.as_ref(), port, Transport::Tcp, answer.into(), false)
    }

    /// The same, and it says so again and again, five times a second, until the connection ends.
    pub fn talker(self, host: impl AsRef<str>, port: u16, word: impl Into<Bytes>) -> Self {
        self.serve(host.as_ref(), port, Transport::Tcp, word.into(), true)
    }

    /// Adds a host that answers so to every datagram at a port.
    pub fn datagram(self, host: impl AsRef<str>, port: u16, answer: impl Into<Bytes>) -> Self {
        self.serve(host.as_ref(), port, Transport::Udp, answer.into(), false)
    }

    /// Gives a name an address more.
    pub fn address(self, name: impl AsRef<str>, address: IpAddr) -> Self {
        self.kernel().with(|state, _| state.net.name(name.as_ref(), address));
        self
    }

    /// Adds a domain whose name server counts what it is asked, and knows all names below it.
    pub fn zone(self, domain: impl AsRef<str>) -> Self {
        self.kernel().with(|state, _| state.net.zone(domain.as_ref()));
        self
    }

    fn serve(self, host: &str, port: u16, transport: Transport, answer: Bytes, talks: bool) -> Self {
        self.kernel().with(|state, _| state.net.serve(host, port, transport, &answer, talks));
        self
    }

    /// Lists so many sandboxes a page; a hundred unless set.
    pub fn page_size(self, sandboxes: usize) -> Self {
        self.kernel().with(|state, _| state.page = sandboxes.max(1));
        self
    }

    /// The world, to look at from outside.
    pub fn world(&self) -> World {
        self.world.clone()
    }

    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.world.0.0
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("world", &self.world).finish()
    }
}

/// A look at a world from outside: what the provider itself would say.
#[derive(Clone)]
pub struct World(Arc<Owner>);

/// Ends all sandboxes with the last handle: programs hold their world.
struct Owner(Arc<Kernel>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.with(|state, after| {
            let all: Vec<u64> = state.rooms.keys().copied().collect();
            all.into_iter().for_each(|room| state.end_room(room, after));
        });
    }
}

impl World {
    /// How many sandboxes live.
    pub fn count(&self) -> usize {
        self.kernel().with(|state, _| state.sandboxes().count())
    }

    /// How many sandboxes live that have all these labels.
    pub fn count_labelled(&self, labels: &BTreeMap<String, String>) -> usize {
        let mut query = Query::new();
        query.labels.clone_from(labels);
        self.kernel().with(|state, _| state.sandboxes().filter(|(_, room)| query.fits(&room.labels)).count())
    }

    /// How many services live, of sandboxes that have all these labels; a service whose sandbox has ended counts.
    pub fn count_services(&self, labels: &BTreeMap<String, String>) -> usize {
        let mut query = Query::new();
        query.labels.clone_from(labels);
        let is_one = |room: &&Room| room.beside.is_some() && query.fits(&room.labels);
        self.kernel().with(|state, _| state.rooms.values().filter(is_one).count())
    }

    /// The sandboxes that live, in the order in which they were made.
    pub fn sandboxes(&self) -> Vec<SandboxId> {
        self.kernel().with(|state, _| state.sandboxes().map(|(_, room)| room.id.clone()).collect())
    }

    /// The services of a sandbox that live, by name. They are no sandboxes of [`sandboxes`](Self::sandboxes), but whatever
    /// takes an id here takes theirs.
    pub fn services(&self, id: &SandboxId) -> BTreeMap<String, SandboxId> {
        let Some(sandbox) = number(id) else { return BTreeMap::new() };
        let all = self.kernel().with(|state, _| state.services(sandbox));
        all.into_iter().map(|(name, (_, id))| (name, id)).collect()
    }

    /// Sets how many sandboxes may live at once; one more is `quota-exceeded`. `None` is no bound.
    pub fn set_quota(&self, sandboxes: Option<usize>) {
        self.kernel().with(|state, _| state.quota = sandboxes);
    }

    /// The snapshots that there are.
    pub fn snapshots(&self) -> Vec<SnapshotId> {
        self.kernel().with(|state, _| state.snapshots.keys().cloned().collect())
    }

    /// How many images were built; one that was found again does not count.
    pub fn builds(&self) -> usize {
        self.kernel().with(|state, _| state.builds)
    }

    /// Takes away an image that was built, behind the adapter's back. False where there is none of this name.
    pub fn remove_built(&self, name: &str) -> bool {
        lock(&self.kernel().catalogue).forget(name)
    }

    /// The processes of a sandbox that live, by number; none where it does not live.
    pub fn processes(&self, id: &SandboxId) -> Vec<ProcessInfo> {
        let left = || self.kernel().with(|state, _| state.left.get(id).cloned());
        self.look(id, |room| room.infos().collect()).or_else(left).unwrap_or_default()
    }

    /// The labels of a sandbox that lives.
    pub fn labels(&self, id: &SandboxId) -> Option<BTreeMap<String, String>> {
        self.look(id, |room| room.labels.clone())
    }

    /// What limits a sandbox that lives, every amount set.
    pub fn resources(&self, id: &SandboxId) -> Option<Resources> {
        self.look(id, |room| room.resources.clone())
    }

    /// Ends a sandbox, or a service alone, behind the adapter's back, as its provider might. False where it does not live.
    pub fn expire(&self, id: &SandboxId) -> bool {
        let kernel = self.kernel();
        kernel.with(|state, after| {
            let found = find(state, id);
            if let Some(room) = found {
                state.end_room(room, after);
            }
            found.is_some()
        })
    }

    /// How many watch files of a sandbox that lives.
    pub fn watchers(&self, id: &SandboxId) -> usize {
        let files = self.look(id, |room| Arc::clone(&room.files));
        files.map_or(0, |files| lock(&files).watches.count())
    }

    /// How often sandboxes have connected to a host at a port.
    pub fn hits(&self, host: &str, port: u16) -> usize {
        self.kernel().with(|state, _| state.net.hits(host, port, Transport::Tcp))
    }

    /// How many datagrams of sandboxes have reached a host at a port.
    pub fn datagrams(&self, host: &str, port: u16) -> usize {
        self.kernel().with(|state, _| state.net.hits(host, port, Transport::Udp))
    }

    /// How often the name server of a [`zone`](Fake::zone) was asked.
    pub fn lookups(&self, domain: &str) -> usize {
        self.kernel().with(|state, _| state.net.lookups(domain))
    }

    /// The virtual time since the world was made.
    pub fn now(&self) -> Duration {
        self.kernel().now()
    }

    /// The clock of this world.
    pub fn clock(&self) -> VirtualClock {
        VirtualClock::new(self.kernel())
    }

    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.0.0
    }

    pub(crate) fn look<R>(&self, id: &SandboxId, look: impl FnOnce(&Room) -> R) -> Option<R> {
        self.kernel().with(|state, _| find(state, id).and_then(|room| state.rooms.get(&room)).map(look))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("sandboxes", &self.count()).field("now", &self.now()).finish()
    }
}

/// A process that lives, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Its number.
    pub pid: u32,
    /// Its parent's number; 1 where that has ended.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Its command line.
    pub argv: Vec<String>,
    /// The name of its user.
    pub user: String,
}

/// What a sandbox is called.
pub(crate) fn id_of(number: u64) -> SandboxId {
    SandboxId::new(format!("fake-{number}"))
}

/// The number in an id that this crate gave out: one that is written in another way names nothing.
pub(crate) fn number(id: &SandboxId) -> Option<u64> {
    let number = id.as_str().strip_prefix("fake-")?.parse().ok()?;
    (id_of(number) == *id).then_some(number)
}

fn find(state: &crate::world::State, id: &SandboxId) -> Option<u64> {
    number(id).filter(|number| *number < WORKSHOPS && state.rooms.contains_key(number))
}
