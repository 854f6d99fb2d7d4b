//! The usual failures of a provider, as errors for [`Reply::error`](crate::Reply::error) and
//! [`Trouble::fail`](crate::Trouble::fail).

use sandbox_core::{Error, ErrorKind, Retry};
use std::time::Duration;

/// `rate-limited`: too many requests, to be tried again after this time.
pub fn rate_limited(after: Duration) -> Error {
    Error::new(ErrorKind::RateLimited, "the fake provider has had too many requests").with_retry(Retry::After(after))
}

/// `quota-exceeded`: the account may have no more.
pub fn quota_exceeded() -> Error {
    Error::new(ErrorKind::QuotaExceeded, "the quota of the fake account is used up")
}

/// `capacity`: the provider has no room for now.
pub fn capacity() -> Error {
    Error::new(ErrorKind::Capacity, "the fake provider has no room")
}

/// `auth`: the credential is refused.
pub fn auth() -> Error {
    Error::new(ErrorKind::Auth, "the fake provider refuses the credential")
}

/// `permission-denied-by-provider`: the credential may not do this.
pub fn permission_denied() -> Error {
    Error::new(ErrorKind::PermissionDeniedByProvider, "the fake account may not do this")
}

/// `unavailable`: the provider cannot answer, and may have done it all the same.
pub fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "the fake provider cannot answer")
}

/// `connection-lost`: the answer was cut, and it may have been done.
pub fn connection_lost() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the connection to the fake provider was cut")
}

/// `network-denied`: the policy forbids to reach this.
pub fn network_denied(host: &str) -> Error {
    Error::new(ErrorKind::NetworkDenied, format!("the network policy forbids `{host}`"))
}

/// `teardown-failed`: the provider refuses to end the sandbox.
pub fn teardown_refused() -> Error {
    Error::new(ErrorKind::TeardownFailed, "the fake provider refuses to end the sandbox")
}
