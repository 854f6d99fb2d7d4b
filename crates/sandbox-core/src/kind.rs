//! The catalogue of error kinds: the only list there is. A new kind goes to its end, and into `docs/errors` by
//! `cargo xtask errors`.

use crate::Retry;

macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $retry:ident, $applied:ident, $fix:literal;)*) => {
        /// What went wrong, as a stable code. The catalogue is append-only.
        ///
        /// *The transport kinds*, which any operation may answer, are `auth`, `permission-denied-by-provider`,
        /// `rate-limited`, `unavailable`, `connection-lost`, `protocol`, `operation-timeout` and `internal`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[doc = $doc])+ $name,)* }

        impl ErrorKind {
            /// Every kind, in the order of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code, in kebab case.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Whether it is worth trying again, where the error itself says nothing else.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry,)* }
            }

            /// Whether the request may have taken effect, where the error itself says nothing else.
            pub const fn may_have_applied(self) -> bool {
                match self { $(Self::$name => catalogue!(@ $applied),)* }
            }

            /// What the kind means, in a sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc, "\n",)+),)* }
            }

            /// What to do about it, in a sentence or two. The hint of an error is nearer to the case.
            pub const fn fix(self) -> &'static str {
                match self { $(Self::$name => $fix,)* }
            }
        }
    };
    (@ Maybe) => { true };
    (@ NotApplied) => { false };
}

catalogue! {
    /// An argument can never be right; nothing was sent.
    InvalidArgument = "invalid-argument", Never, NotApplied,
        "Correct the argument that the message names; the hint says what is allowed.";
    /// This backend, or this sandbox, cannot do what was asked; nothing was sent.
    Unsupported = "unsupported", Never, NotApplied,
        "Ask the client's facts first, which give the reason, and do without, or take a backend that can.";
    /// The backend's isolation tier does not satisfy the one required; nothing was provisioned.
    IsolationTooWeak = "isolation-too-weak", Never, NotApplied,
        "Take a backend, or a runtime of it, that reaches the tier; or ask for a weaker tier.";
    /// No provider is registered for the scheme of this DSN.
    BackendUnknown = "backend-unknown", Never, NotApplied,
        "Correct the scheme, or register its provider where the registry is built.";
    /// No backend was chosen, or its engine cannot be found on this host.
    BackendMissing = "backend-missing", Never, NotApplied,
        "Name a backend by its DSN, or start the engine that the message could not find.";

    /// A credential is missing, empty or refused.
    Auth = "auth", Never, NotApplied,
        "Set the variable that the hint names to a credential that is valid.";
    /// The credential is known and may not do this.
    PermissionDeniedByProvider = "permission-denied-by-provider", Never, NotApplied,
        "Give the credential the right at the provider, or use another one.";

    /// The provider could not make the sandbox.
    CreateFailed = "create-failed", Never, Maybe,
        "Read the cause, which is the provider's own; if the sandbox may exist, sweep before the next try.";
    /// No sandbox within the create timeout.
    CreateTimeout = "create-timeout", Later, Maybe,
        "Try again, or allow more time; what may have been made is destroyed, or reported as an orphan.";
    /// The image or template does not exist.
    ImageNotFound = "image-not-found", Never, NotApplied,
        "Correct the name of the image or template, or make it known to the backend first.";
    /// The registry that holds the image could not be reached.
    RegistryUnreachable = "registry-unreachable", Later, NotApplied,
        "Pull the image onto the engine by another way, or repair the engine's way to the registry, and try again.";
    /// The account's quota is used up.
    QuotaExceeded = "quota-exceeded", Never, NotApplied,
        "End sandboxes that are no longer used, or ask the provider for more.";
    /// The provider has no room for now; nothing was made.
    Capacity = "capacity", Later, NotApplied,
        "Wait and try again, elsewhere if the provider has more than one place.";
    /// The name or path is taken.
    AlreadyExists = "already-exists", Never, NotApplied,
        "Take another name, or use what is there.";

    /// No sandbox with this id.
    NotFound = "not-found", Never, NotApplied,
        "Correct the id; list the backend's sandboxes to see which there are.";
    /// The sandbox has ended.
    Gone = "gone", Never, NotApplied,
        "Make another sandbox; if this one ended too soon, look at its lifetime and at who may end it.";
    /// The sandbox or command is in a state that does not allow this.
    WrongState = "wrong-state", Never, NotApplied,
        "Bring it to the state that the message asks for, or leave the call out.";

    /// The command could not be started; nothing of it ran.
    StartFailed = "start-failed", Never, NotApplied,
        "Correct what the message names: the user, the working directory, or the program's permissions.";
    /// The sandbox has no such program; nothing ran.
    ProgramNotFound = "program-not-found", Never, NotApplied,
        "Correct the name, or use an image that has the program; names are looked up in the sandbox's `PATH`.";
    /// The command was not over at its deadline, and was ended; the fate says whether its death was seen.
    ExecutionTimeout = "execution-timeout", Never, Maybe,
        "Give the command more time, or less to do; the error holds what it printed so far.";
    /// The command ended with a code other than zero, and `check` was asked for.
    NonZeroExit = "non-zero-exit", Never, Maybe,
        "Read the command's output, which the error holds; leave `check` out where a code is an answer.";
    /// A cap was hit: one of the sandbox, or the one on what is held in memory.
    ResourceExhausted = "resource-exhausted", Never, Maybe,
        "Raise the cap that the message names, or need less.";
    /// The arguments are larger than the sandbox takes; nothing ran.
    ArgumentTooLarge = "argument-too-large", Never, NotApplied,
        "Write the data to a file in the sandbox, or to the command's standard input.";

    /// No such file or directory inside the sandbox, or on the host where the message says so.
    PathNotFound = "path-not-found", Never, NotApplied,
        "Correct the path, or make its parent directories first.";
    /// The path is a directory.
    IsADirectory = "is-a-directory", Never, NotApplied,
        "Name a file, or use the operation for directories.";
    /// The path, or a part of it, is not a directory.
    NotADirectory = "not-a-directory", Never, NotApplied,
        "Name a directory, or remove the file that stands in the way.";
    /// The path is neither a regular file nor a directory.
    NotAFile = "not-a-file", Never, NotApplied,
        "Name a regular file; devices, sockets and pipes are not read or written.";
    /// The sandbox's user may not do this to the path.
    PermissionDenied = "permission-denied", Never, NotApplied,
        "Change the owner or mode of the path, or act as a user who may.";
    /// No space is left for the file; a part may have been written.
    DiskFull = "disk-full", Never, Maybe,
        "Remove what is not needed, or give the sandbox more room; then write the file again, whole.";
    /// The file system is read-only.
    ReadOnly = "read-only", Never, NotApplied,
        "Write where the sandbox has a writable file system.";

    /// The network policy of the sandbox forbids this.
    NetworkDenied = "network-denied", Never, NotApplied,
        "Allow the host or network in the sandbox's network policy, if the code may reach it.";

    /// Too many requests; nothing was done.
    RateLimited = "rate-limited", Later, NotApplied,
        "Wait as long as the retry advice says, then try again, with fewer requests at once.";
    /// The provider cannot answer for now.
    Unavailable = "unavailable", Later, Maybe,
        "Wait and try again; where the request may have taken effect, look first.";
    /// The connection broke with the answer outstanding.
    ConnectionLost = "connection-lost", Later, Maybe,
        "Look whether the request has taken effect, then try again.";
    /// The answer does not follow the provider's protocol.
    Protocol = "protocol", Never, Maybe,
        "Compare the provider's version with the ones that the adapter is tested with, and report the difference.";
    /// No answer within the operation's limit.
    OperationTimeout = "operation-timeout", Later, Maybe,
        "Look whether the request has taken effect, then try again, with a longer limit where the provider is slow.";

    /// The provider refused to end the sandbox, which may still be there.
    TeardownFailed = "teardown-failed", Later, Maybe,
        "Destroy the sandbox by its id, or by the provider's own means; it may go on costing.";
    /// The sandbox was not known to be gone within the teardown limit.
    TeardownTimeout = "teardown-timeout", Later, Maybe,
        "List the sandboxes, and destroy by its id the one that is still there.";

    /// A fault of this library or of an adapter.
    Internal = "internal", Never, Maybe,
        "Report it, with the error's chain of causes; the sandbox concerned has been destroyed where one was at hand.";
    /// The handle was carried into the child of a fork, where no engine runs.
    Forked = "forked", Never, NotApplied,
        "Make a client in the child, after the fork.";

    /// A test double was called in a way that its test did not expect; nothing ran.
    UnexpectedCall = "unexpected-call", Never, NotApplied,
        "Script the call in the test with `on_run`, or correct the code that makes it.";
}

impl ErrorKind {
    /// The kind that an HTTP status stands for. What 404 means differs per operation, so the caller says it.
    pub const fn from_http(status: u16, not_found: Self) -> Self {
        match status {
            400 | 422 => Self::InvalidArgument,
            401 => Self::Auth,
            402 => Self::QuotaExceeded,
            403 => Self::PermissionDeniedByProvider,
            404 => not_found,
            408 | 504 => Self::OperationTimeout,
            409 => Self::WrongState,
            410 => Self::Gone,
            429 => Self::RateLimited,
            501 => Self::Unsupported,
            500..=599 => Self::Unavailable,
            _ => Self::Protocol,
        }
    }
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

impl serde::Serialize for ErrorKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_kebab_case() {
        let codes: std::collections::BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    }

    #[test]
    fn http_statuses_map() {
        assert_eq!(ErrorKind::from_http(404, ErrorKind::Gone), ErrorKind::Gone);
        assert_eq!(ErrorKind::from_http(503, ErrorKind::Gone), ErrorKind::Unavailable);
        assert_eq!(ErrorKind::from_http(418, ErrorKind::Gone), ErrorKind::Protocol);
    }
}
