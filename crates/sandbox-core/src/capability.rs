//! The catalogue of capabilities.

macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        /// Something that a backend may be able to do. A code is here once an operation or an option can ask for it; the
        /// catalogue is append-only.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Capability { $($(#[doc = $doc])+ $name,)* }

        impl Capability {
            /// Every capability, in the order of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What a backend that declares it promises.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc, "\n",)+),)* }
            }
        }
    };
}

catalogue! {
    /// A program runs to its end: exit code, stdout and stderr apart.
    Run = "RUN";
    /// argv arrives byte for byte.
    Argv = "ARGV";
    /// Output is seen while the program runs.
    Stream = "STREAM";
    /// Exactly the program's bytes, each on its own stream.
    StreamExact = "STREAM_EXACT";
    /// Input that is known at the start (`Stdin::Whole`).
    StdinWhole = "STDIN_WHOLE";
    /// Input written while the program runs, and closed (`Stdin::Pipe`).
    Stdin = "STDIN";
    /// Death by signal is told from an exit code.
    SignalStatus = "SIGNAL_STATUS";
    /// `Control::kill` ends exactly one command.
    KillOne = "KILL_ONE";
    /// The kill of one command reaches all its descendants, also those that left its group.
    ProcessTree = "PROCESS_TREE";
    /// The backend ends a command inside at `Exec::timeout`, without the caller.
    Deadline = "DEADLINE";
    /// One command can be asked to end (TERM).
    Term = "TERM";
    /// Any signal can be sent to the program alone.
    Signals = "SIGNALS";
    /// Death by the memory cap is told from other deaths, for that very command.
    OomStatus = "OOM_STATUS";
    /// Processes may outlive the command that started them.
    Background = "BACKGROUND";
    /// Commands run as a named user or uid.
    User = "USER";
    /// Single operations on files: read, write, stat, list, make, rename, remove.
    Files = "FILES";
    /// Whole directories in one stream, both ways.
    Tree = "TREE";
    /// Files of any size at constant memory.
    FileStream = "FILE_STREAM";
    /// Modes, owners and times of files are seen and can be set.
    FileMeta = "FILE_META";
    /// A write is whole or not at all.
    AtomicWrite = "ATOMIC_WRITE";
    /// No egress at all (`NetworkPolicy::Deny`).
    Deny = "DENY";
    /// Rules that name a host.
    AllowHost = "ALLOW_HOST";
    /// Rules that name all hosts below a domain.
    AllowWildcard = "ALLOW_WILDCARD";
    /// Rules that name an IPv4 address.
    AllowIpv4 = "ALLOW_IPV4";
    /// Rules that name an IPv6 address.
    AllowIpv6 = "ALLOW_IPV6";
    /// Rules that name a network.
    AllowCidr = "ALLOW_CIDR";
    /// Rules that name ports.
    AllowPort = "ALLOW_PORT";
    /// The number of processes can be capped.
    Pids = "PIDS";
    /// Labels are kept by the provider.
    Labels = "LABELS";
    /// Sandboxes can be enumerated.
    List = "LIST";
    /// A sandbox can be reached again by its id.
    Attach = "ATTACH";
    /// The provider ends a sandbox at its lifetime, without the caller.
    Lifetime = "LIFETIME";
    /// A sandbox ends when its owner dies.
    OwnerLease = "OWNER_LEASE";
    /// A sandbox can be frozen, and go on later: its processes, memory and files are kept.
    Pause = "PAUSE";
    /// A sandbox can be stopped, and run again later: its files are kept, its processes end.
    StopStart = "STOP_START";
    /// The end of a live sandbox can be set anew.
    Extend = "EXTEND";
    /// An image of a live sandbox can be made, and sandboxes from it: files, environment, working directory, user.
    Snapshot = "SNAPSHOT";
    /// Snapshots carry labels, and can be enumerated.
    SnapshotList = "SNAPSHOT_LIST";
    /// A live sandbox can be copied, files and all; whether what runs is copied too is the provider's affair.
    Fork = "FORK";
    /// What a live sandbox may reach can be changed: at once for what is new, and what is no longer allowed is cut.
    DynamicNetwork = "DYNAMIC_NETWORK";
    /// What a sandbox reaches can be recorded, with nothing blocked (`NetworkPolicy::Learn`).
    Learn = "LEARN";
    /// A port inside can be reached from outside.
    Ports = "PORTS";
    /// Commands run on a terminal that the user types on.
    Pty = "PTY";
    /// A running command can be reached again by its id, also by another client.
    Reattach = "REATTACH";
    /// Changes of files are told as they happen.
    Watch = "WATCH";
    /// A create that is asked for again, because its answer was lost, never makes a second sandbox.
    IdempotentCreate = "IDEMPOTENT_CREATE";
    /// Secrets of a sandbox are in nothing that the provider shows of it.
    SecretStore = "SECRET_STORE";
    /// Other images run beside a sandbox: they are made and end with it, and are reached by name from inside.
    Services = "SERVICES";
    /// A sandbox has files, processes, environment and ports of its own: nothing of the host's, or of other sandboxes, is seen inside.
    Separate = "SEPARATE";
    /// An image is made from a definition, and found again by it.
    Build = "BUILD";
}

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

impl serde::Serialize for Capability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
