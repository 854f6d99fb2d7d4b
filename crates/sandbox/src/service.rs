//! What runs beside a sandbox.

use crate::{Sandbox, lease::Lease, validate};
use sandbox_core::{Capability, Error, ErrorKind, Facts, Result, SandboxId};
use std::sync::Arc;

/// What can be asked of a sandbox as a whole alone: a service is made and ends with it, and is nobody else's.
const WHOLE: &[Capability] = &[
    Capability::Attach,
    Capability::Pause,
    Capability::StopStart,
    Capability::Extend,
    Capability::Snapshot,
    Capability::SnapshotList,
    Capability::Fork,
    Capability::DynamicNetwork,
    Capability::Learn,
    Capability::Ports,
    Capability::Services,
];

/// Whose service it is.
pub(crate) struct Beside {
    pub(crate) name: String,
    sandbox: SandboxId,
    /// What its sandbox can do and it cannot.
    taken: Vec<Capability>,
}

impl Beside {
    pub(crate) fn new(name: &str, sandbox: &SandboxId) -> Self {
        Self { name: name.to_string(), sandbox: sandbox.clone(), taken: Vec::new() }
    }

    /// Takes from the facts of a service what is its sandbox's affair.
    pub(crate) fn narrow(&mut self, facts: &Facts) -> Facts {
        self.taken = WHOLE.iter().copied().filter(|capability| facts.has(*capability)).collect();
        self.taken.iter().fold(facts.clone(), |facts, capability| {
            facts.absent(*capability, format!("that is asked of a sandbox, and `{}` is a service of one", self.name))
        })
    }
}

impl Lease {
    /// Refuses what a capability is missing for, and of a service what is its sandbox's affair.
    pub(crate) fn need(&self, capability: Capability) -> Result<()> {
        let needed = validate::need(&self.facts, capability);
        match &self.beside {
            Some(beside) if beside.taken.contains(&capability) => needed.map_err(|error| {
                error.with_hint(format!("ask it of sandbox `{}`, which the service belongs to", beside.sandbox))
            }),
            _ => needed,
        }
    }
}

impl Sandbox {
    /// A service of [`Spec::services`](crate::Spec::services), by its name, as a handle with which commands are run in it and
    /// files are read and written. It begins with no overrides, whatever this view has.
    ///
    /// The handle keeps the sandbox as a clone does. Dropping it ends nothing; [`close`](Self::close) on it stops this one
    /// service. Work in a service that was stopped, whose main program has ended, or whose sandbox has ended is `gone`. A pause
    /// or stop of the sandbox leaves its services running. What concerns a sandbox as a whole, such as a pause, a snapshot or a
    /// port, is `unsupported` on a service. `SERVICES`.
    ///
    /// # Errors
    ///
    /// `unsupported`; `not-found` for a name that no service of the sandbox has, with those that there are.
    pub fn service(&self, name: impl AsRef<str>) -> Result<Self> {
        let (lease, name) = (self.lease()?, name.as_ref());
        let stamp = lease.stamp("service");
        lease.need(Capability::Services).map_err(&stamp)?;
        let Some(service) = lease.services.get(name) else {
            let known: Vec<_> = lease.services.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            let message = format!("no service `{}`; there is {known}", name.escape_debug());
            let error = Error::new(ErrorKind::NotFound, message).applied(false);
            return Err(stamp(error.with_hint("use a name as the spec's `services` has it")));
        };
        self.beside(Arc::clone(service))
    }
}
