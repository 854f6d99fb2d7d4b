//! A fake that lies, one lie at a time: how the contract suite is proven. A row that no lie turns red proves nothing.
//!
//! A lie is a variant of [`Fault`] and one line in the wrapper here, at the place where it is told; the few that only a kernel
//! can tell are in `world::Lie`.

mod backend;
mod build;
mod fault;
mod files;
mod lifecycle;
mod process;
mod sandbox;
mod services;
mod transfer;
mod watch;

pub use fault::Fault;
pub use process::{LyingControl, LyingEvents};
pub use sandbox::LyingSandbox;

use crate::{Fake, world::Lie};
use bytes::Bytes;
use sandbox_core::{Attempt, Endpoint, ProcessId, SandboxId};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

type Labels = BTreeMap<String, String>;

/// A [`Fake`] that tells one lie.
#[derive(Clone)]
pub struct Liar(Arc<Lies>);

/// What is told, and what has to be remembered for it.
struct Lies {
    fault: Fault,
    fake: Fake,
    count: AtomicUsize,
    ended: Mutex<BTreeMap<SandboxId, Labels>>,
    labels: Mutex<BTreeMap<SandboxId, Labels>>,
    env: Mutex<BTreeMap<String, String>>,
    /// Commands that somebody reads.
    live: AtomicUsize,
    said: Mutex<Option<Bytes>>,
    /// The last command.
    last: Mutex<Option<ProcessId>>,
    /// Watches that have ended.
    unwatched: AtomicUsize,
    ports: Mutex<BTreeMap<u16, Endpoint>>,
}

impl Fake {
    /// The same world behind an adapter, or a provider, that gets one thing wrong.
    pub fn lying(self, fault: Fault) -> Liar {
        let lie = match fault {
            Fault::DestroyLeavesDaemons => Some(Lie::DestroyLeavesDaemons),
            Fault::FilesAreShared => Some(Lie::FilesAreShared),
            Fault::PidsCapIsForShow => Some(Lie::PidsCapIsForShow),
            Fault::PidsCapEndsEverything => Some(Lie::PidsCapEndsEverything),
            Fault::KillReachesTheProgramAlone => Some(Lie::KillReachesTheProgramAlone),
            Fault::ZombiesStay => Some(Lie::ZombiesStay),
            Fault::TerminalsDoNotEcho => Some(Lie::TerminalsDoNotEcho),
            Fault::DestroyLeavesServices => Some(Lie::DestroyLeavesServices),
            Fault::ServicesOutliveTheirProgram => Some(Lie::ServicesOutliveTheirProgram),
            Fault::ServicesAreEverybodys => Some(Lie::ServicesAreEverybodys),
            Fault::ServicesHaveAnOpenNetwork => Some(Lie::ServicesHaveAnOpenNetwork),
            _ => None,
        };
        self.kernel().with(|state, _| state.lie = lie);
        if fault == Fault::SlowToMake {
            std::thread::sleep(Duration::from_secs(3));
        }
        Liar(Arc::new(Lies {
            fault,
            fake: self,
            count: AtomicUsize::new(0),
            ended: Mutex::default(),
            labels: Mutex::default(),
            env: Mutex::default(),
            live: AtomicUsize::new(0),
            said: Mutex::default(),
            last: Mutex::default(),
            unwatched: AtomicUsize::new(0),
            ports: Mutex::default(),
        }))
    }
}

impl Lies {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Counts, from zero.
    fn next(&self) -> usize {
        self.count.fetch_add(1, SeqCst)
    }

    fn end(&self, id: &SandboxId) {
        self.fake.world().expire(id);
    }
}

/// A try whose claims nobody hears of.
fn deaf(attempt: &Attempt) -> Attempt {
    Attempt::new(attempt.marker(), Arc::default(), attempt.tasks())
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Liar").field(&self.0.fault).finish()
    }
}
