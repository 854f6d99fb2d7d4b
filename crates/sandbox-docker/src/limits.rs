//! What a container gets where the spec says nothing, and the bounds of what it may ask for.

use sandbox_core::{Resource, Spec};
use std::time::Duration;

pub(crate) const DEFAULT_MEMORY: u64 = 2 << 30;
/// The engine refuses less.
pub(crate) const LEAST_MEMORY: u64 = 6 << 20;
/// The engine's numbers have a sign.
pub(crate) const MOST_MEMORY: u64 = i64::MAX as u64;

pub(crate) const DEFAULT_CPU_MILLIS: u64 = 1000;
/// The kernel takes no quota below a millisecond in its period of a hundred.
pub(crate) const LEAST_CPU_MILLIS: u64 = 10;
/// The engine counts in billionths, with a sign.
pub(crate) const MOST_CPU_MILLIS: u64 = i64::MAX as u64 / NANOS;
const NANOS: u64 = 1_000_000;

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
    /// What a spec asks for, which is within the bounds that the facts state.
    pub(crate) fn of(spec: &Spec) -> Self {
        let amount = |resource, default| spec.resources.get(resource).map_or(default, |amount| amount.value);
        let counted = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        Self {
            memory: counted(amount(Resource::Memory, DEFAULT_MEMORY)),
            nano_cpus: counted(amount(Resource::Cpu, DEFAULT_CPU_MILLIS).saturating_mul(NANOS)),
            pids: i64::from(spec.resources.pids.unwrap_or(DEFAULT_PIDS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::Resources;

    #[test]
    fn all_that_may_be_asked_for_is_counted_exactly() {
        let most = Resources::new().memory(MOST_MEMORY).cpu_millis(MOST_CPU_MILLIS).pids(u32::MAX);
        let caps = Caps::of(&Spec::new().resources(most));
        assert_eq!((caps.memory, caps.pids), (i64::MAX, i64::from(u32::MAX)));
        assert_eq!(u64::try_from(caps.nano_cpus).unwrap(), MOST_CPU_MILLIS * NANOS);
    }
}
