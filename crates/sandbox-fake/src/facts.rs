//! What the fake can do.

use sandbox_core::{Amount, Capability, Facts, Honoured, Isolation, IsolationFact, Replay, Resource, Resources};

/// Where nothing is asked for: one processor, 256 MiB of memory, 1 GiB of disk, 256 processes.
const CPU_MILLIS: u64 = 1000;
const MEMORY: u64 = 256 << 20;
const DISK: u64 = 1 << 30;
const PIDS: u32 = 256;

pub(crate) fn info() -> Facts {
    use Capability::*;
    let native = [
        Run,
        Argv,
        Stream,
        StreamExact,
        StdinWhole,
        Stdin,
        SignalStatus,
        KillOne,
        ProcessTree,
        Deadline,
        Term,
        Signals,
        OomStatus,
        Background,
        User,
        Files,
        Tree,
        FileStream,
        FileMeta,
        AtomicWrite,
        Deny,
        AllowHost,
        AllowWildcard,
        AllowIpv4,
        AllowIpv6,
        AllowCidr,
        AllowPort,
        DynamicNetwork,
        Learn,
        Ports,
        Pids,
        Labels,
        List,
        Attach,
        Lifetime,
        OwnerLease,
        Pause,
        StopStart,
        Extend,
        Snapshot,
        SnapshotList,
        Fork,
        Pty,
        Reattach,
        Watch,
        IdempotentCreate,
        SecretStore,
        Services,
        Separate,
        Build,
    ];
    Facts::new("fake")
        .native(native)
        .isolation(IsolationFact::new(
            Isolation::None,
            "it has no processes of its own: programs are functions of the host program",
            "2026-11-30",
        ))
        .resource(Resource::Cpu, Honoured::limit(CPU_MILLIS).min(1))
        .resource(Resource::Memory, Honoured::limit(MEMORY).min(1))
        .resource(Resource::Disk, Honoured::limit(DISK).min(1))
        .default_pids(PIDS)
        .replay(Replay::FromNow)
}

/// What is in force: what was asked for, else the default.
pub(crate) fn in_force(asked: &Resources) -> Resources {
    let defaults = [(Resource::Cpu, CPU_MILLIS), (Resource::Memory, MEMORY), (Resource::Disk, DISK)];
    let all = defaults.into_iter().fold(asked.clone(), |all, (resource, default)| {
        let amount = asked.get(resource).unwrap_or_else(|| Amount::new(default));
        all.set(resource, amount)
    });
    all.pids(asked.pids.unwrap_or(PIDS))
}
