//! Capabilities in the groups that people look for.

use sandbox::Capability::{self, *};

const GROUPS: &[(&str, &[Capability])] = &[
    (
        "Commands",
        &[Run, Argv, User, StdinWhole, Stdin, Stream, StreamExact, SignalStatus, OomStatus, Background, Pty, Reattach],
    ),
    ("Ending commands", &[KillOne, ProcessTree, Deadline, Term, Signals]),
    ("Files", &[Files, Tree, FileStream, FileMeta, AtomicWrite, Watch]),
    (
        "Network",
        &[Deny, AllowHost, AllowWildcard, AllowIpv4, AllowIpv6, AllowCidr, AllowPort, DynamicNetwork, Learn, Ports],
    ),
    (
        "Sandboxes",
        &[Labels, List, Attach, Lifetime, Extend, OwnerLease, Pids, IdempotentCreate, SecretStore, Separate, Services],
    ),
    ("States and copies", &[Pause, StopStart, Snapshot, SnapshotList, Fork]),
    ("Images", &[Build]),
];

/// These codes by group; what is in none comes last.
pub(super) fn grouped(codes: &[String]) -> Vec<(&'static str, Vec<&str>)> {
    let mut left: Vec<&str> = codes.iter().map(String::as_str).collect();
    let mut all = Vec::new();
    for (name, members) in GROUPS {
        let here: Vec<&str> = members.iter().map(|one| one.code()).filter(|code| left.contains(code)).collect();
        left.retain(|code| !here.contains(code));
        if !here.is_empty() {
            all.push((*name, here));
        }
    }
    if !left.is_empty() {
        all.push(("More", left));
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_code_is_in_one_group() {
        let codes: Vec<String> = super::Capability::ALL.iter().map(|one| one.code().to_string()).collect();
        let with = [&codes[..], &["FROM_THE_FUTURE".to_string()]].concat();
        let all = super::grouped(&with);
        assert_eq!(all.iter().map(|(_, codes)| codes.len()).sum::<usize>(), codes.len() + 1);
        assert_eq!(all.last().unwrap(), &("More", vec!["FROM_THE_FUTURE"]));
    }
}
