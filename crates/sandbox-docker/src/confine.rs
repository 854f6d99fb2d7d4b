//! What code in a container is kept from.

use bollard::models::HostConfig;

/// The capabilities of the kernel that package managers, `su` and `tar -p` need inside a sandbox; all others are dropped.
const KEPT: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"];

/// Which system calls are allowed, in the engine's own format. The names and conditions are those of the engine's default profile
/// (moby/profiles, seccomp 0.2.3, Apache-2.0) for the capabilities above, without
///
/// - `ptrace`, `process_vm_readv`, `process_vm_writev`: commands may be of the same user as the first process, which keeps the lifetime;
/// - sockets of families other than unix, IPv4, IPv6 and netlink: some, such as vsock, know no network namespace. The families are
///   compared as allowed ones, because the kernel looks at 32 bits of the argument and a filter at 64;
/// - the 32-bit calls of x86, whose `socketcall` hides the family from any filter. On s390x, which is that way natively, and on
///   architectures that the profile does not list, the families are not kept apart.
const SYSTEM_CALLS: &str = include_str!("seccomp.json");

/// What looks empty. The engine's list is replaced by this one, so all that Docker 20.10 hides is here too, and what later ones hide
/// (`interrupts`, `powercap`) but the heat of each processor.
const HIDDEN: [&str; 14] = [
    // The memory of the first process, which can be written without `ptrace`.
    "/proc/1/mem",
    "/proc/1/task/1/mem",
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// The same for every container.
pub(crate) fn confined() -> HostConfig {
    HostConfig {
        cap_drop: Some(vec!["ALL".into()]),
        cap_add: Some(KEPT.map(String::from).to_vec()),
        security_opt: Some(vec!["no-new-privileges:true".into(), format!("seccomp={SYSTEM_CALLS}")]),
        masked_paths: Some(HIDDEN.map(String::from).to_vec()),
        ipc_mode: Some("private".into()),
        ..HostConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_profile_allows_none_of_what_it_is_there_for() {
        let profile: Value = serde_json::from_str(SYSTEM_CALLS).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let rules = profile["syscalls"].as_array().unwrap();
        let of = |name: &str| -> Vec<&Value> {
            rules.iter().filter(|rule| rule["names"].as_array().unwrap().iter().any(|n| n == name)).collect()
        };
        assert_eq!(of("read").len(), 1);
        for name in [
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "process_madvise",
            "kcmp",
            "pidfd_getfd",
            "socketcall",
            "io_uring_setup",
            "bpf",
            "mount",
            "unshare",
            "setns",
            "perf_event_open",
            "userfaultfd",
        ] {
            assert!(of(name).is_empty(), "{name}");
        }
        let families: Vec<_> = of("socket").iter().map(|rule| rule["args"][0]["value"].as_u64().unwrap()).collect();
        assert_eq!(families, [1, 2, 10, 16]);
        assert!(of("socket").iter().chain(&of("socketpair")).all(|rule| rule["args"][0]["op"] == "SCMP_CMP_EQ"));
    }
}
