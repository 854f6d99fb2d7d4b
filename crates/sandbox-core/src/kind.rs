//! The catalogue of error kinds: the only list there is.

use crate::Retry;

macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $retry:ident, $applied:ident;)*) => {
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
        }
    };
    (@ Maybe) => { true };
    (@ NotApplied) => { false };
}

catalogue! {
    /// An argument can never be right; nothing was sent.
    InvalidArgument = "invalid-argument", Never, NotApplied;
    /// This backend, or this sandbox, cannot do what was asked; nothing was sent.
    Unsupported = "unsupported", Never, NotApplied;
    /// The backend's isolation tier does not satisfy the one required; nothing was provisioned.
    IsolationTooWeak = "isolation-too-weak", Never, NotApplied;
    /// No provider is registered for the scheme of this DSN.
    BackendUnknown = "backend-unknown", Never, NotApplied;
    /// No backend was chosen, or its engine cannot be found on this host.
    BackendMissing = "backend-missing", Never, NotApplied;

    /// A credential is missing, empty or refused.
    Auth = "auth", Never, NotApplied;
    /// The credential is known and may not do this.
    PermissionDeniedByProvider = "permission-denied-by-provider", Never, NotApplied;

    /// The provider could not make the sandbox.
    CreateFailed = "create-failed", Never, Maybe;
    /// No sandbox within the create timeout.
    CreateTimeout = "create-timeout", Later, Maybe;
    /// The image or template does not exist.
    ImageNotFound = "image-not-found", Never, NotApplied;
    /// The registry that holds the image could not be reached.
    RegistryUnreachable = "registry-unreachable", Later, NotApplied;
    /// The account's quota is used up.
    QuotaExceeded = "quota-exceeded", Never, NotApplied;
    /// The provider has no room for now; nothing was made.
    Capacity = "capacity", Later, NotApplied;
    /// The name or path is taken.
    AlreadyExists = "already-exists", Never, NotApplied;

    /// No sandbox with this id.
    NotFound = "not-found", Never, NotApplied;
    /// The sandbox has ended.
    Gone = "gone", Never, NotApplied;
    /// The sandbox or command is in a state that does not allow this.
    WrongState = "wrong-state", Never, NotApplied;

    /// The command could not be started; nothing of it ran.
    StartFailed = "start-failed", Never, NotApplied;
    /// The sandbox has no such program; nothing ran.
    ProgramNotFound = "program-not-found", Never, NotApplied;
    /// The command was not over at its deadline, and was ended; the fate says whether its death was seen.
    ExecutionTimeout = "execution-timeout", Never, Maybe;
    /// The command ended with a code other than zero, and `check` was asked for.
    NonZeroExit = "non-zero-exit", Never, Maybe;
    /// A cap was hit: one of the sandbox, or the one on what is held in memory.
    ResourceExhausted = "resource-exhausted", Never, Maybe;
    /// The arguments are larger than the sandbox takes; nothing ran.
    ArgumentTooLarge = "argument-too-large", Never, NotApplied;

    /// No such file or directory inside the sandbox, or on the host where the message says so.
    PathNotFound = "path-not-found", Never, NotApplied;
    /// The path is a directory.
    IsADirectory = "is-a-directory", Never, NotApplied;
    /// The path, or a part of it, is not a directory.
    NotADirectory = "not-a-directory", Never, NotApplied;
    /// The path is neither a regular file nor a directory.
    NotAFile = "not-a-file", Never, NotApplied;
    /// The sandbox's user may not do this to the path.
    PermissionDenied = "permission-denied", Never, NotApplied;
    /// No space is left for the file; a part may have been written.
    DiskFull = "disk-full", Never, Maybe;
    /// The file system is read-only.
    ReadOnly = "read-only", Never, NotApplied;

    /// The network policy of the sandbox forbids this.
    NetworkDenied = "network-denied", Never, NotApplied;

    /// Too many requests; nothing was done.
    RateLimited = "rate-limited", Later, NotApplied;
    /// The provider cannot answer for now.
    Unavailable = "unavailable", Later, Maybe;
    /// The connection broke with the answer outstanding.
    ConnectionLost = "connection-lost", Later, Maybe;
    /// The answer does not follow the provider's protocol.
    Protocol = "protocol", Never, Maybe;
    /// No answer within the operation's limit.
    OperationTimeout = "operation-timeout", Later, Maybe;

    /// The provider refused to end the sandbox, which may still be there.
    TeardownFailed = "teardown-failed", Later, Maybe;
    /// The sandbox was not known to be gone within the teardown limit.
    TeardownTimeout = "teardown-timeout", Later, Maybe;

    /// A fault of this library or of an adapter.
    Internal = "internal", Never, Maybe;
    /// The handle was carried into the child of a fork, where no engine runs.
    Forked = "forked", Never, NotApplied;
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
