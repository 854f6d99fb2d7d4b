//! What a container gets where the spec says nothing, and the bounds of what it may ask for.

use sandbox_core::{Error, Resource, Result, Spec};
use std::time::Duration;

pub(crate) const DEFAULT_MEMORY: u64 = 2 << 30;
/// The engine refuses less.
pub(crate) const LEAST_MEMORY: u64 = 6 << 20;
/// The engine's numbers have a sign.
pub(crate) const MOST_MEMORY: u64 = i64::MAX as u64;

pub(crate) const DEFAULT_CPU_MILLIS: u64 = 1000;
/// The kernel takes no quota below a millisecond in its period of a hundred.
pub(crate) const LEAST_CPU_MILLIS: u64 = 10;

pub(crate) const DEFAULT_PIDS: u32 = 512;
/// Below this the engine cannot start commands reliably: what starts one counts too, with a handful of threads. Measured on
/// Docker 20.10 with runc 1.1 on two processors: with six it failed now and then, with eight never; more processors make more threads.
pub(crate) const LEAST_PIDS: u32 = 16;

/// A bound that every `sleep` can count to.
pub(crate) const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The caps of one container, in the engine's units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) memory: i64,
    pub(crate) nano_cpus: i64,
    pub(crate) pids: i64,
}

impl Caps {
    /// What a spec asks for; what cannot be kept is refused, never rounded to what can.
    pub(crate) fn of(spec: &Spec) -> Result<Self> {
        let amount = |resource, default| spec.resources.get(resource).map_or(default, |amount| amount.value);
        let too_much = |what: &str| Error::invalid(format!("the engine cannot count to such a cap of {what}"));
        let pids = spec.resources.pids.unwrap_or(DEFAULT_PIDS);
        if pids < LEAST_PIDS {
            return Err(Error::invalid(format!("a cap of {pids} processes leaves no room to start commands in"))
                .with_hint(format!("a plain container needs at least {LEAST_PIDS}")));
        }
        let nano_cpus = amount(Resource::Cpu, DEFAULT_CPU_MILLIS).checked_mul(1_000_000);
        Ok(Self {
            memory: i64::try_from(amount(Resource::Memory, DEFAULT_MEMORY)).map_err(|_| too_much("memory"))?,
            nano_cpus: nano_cpus.and_then(|nano| i64::try_from(nano).ok()).ok_or_else(|| too_much("processors"))?,
            pids: i64::from(pids),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::{ErrorKind, Resources};

    #[test]
    fn caps_are_refused_and_never_rounded() {
        let of = |resources| Caps::of(&Spec::new().resources(resources)).map_err(|error| error.kind());
        let caps = of(Resources::new().memory(MOST_MEMORY).cpu_millis(1500).pids(LEAST_PIDS)).unwrap();
        assert_eq!((caps.memory, caps.nano_cpus, caps.pids), (i64::MAX, 1_500_000_000, 16));
        for resources in [
            Resources::new().memory(MOST_MEMORY + 1),
            Resources::new().cpu_millis(u64::MAX),
            Resources::new().cpu_millis(u64::MAX / 1_000_000),
            Resources::new().pids(LEAST_PIDS - 1),
        ] {
            assert_eq!(of(resources.clone()).err(), Some(ErrorKind::InvalidArgument), "{resources:?}");
        }
    }
}
