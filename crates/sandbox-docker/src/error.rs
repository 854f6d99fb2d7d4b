//! What the engine's failures mean: by text where the engine says more than its status, then by status.

use bollard::errors::Error as Wire;
use sandbox_core::{Error, ErrorKind};

/// What the ambiguous answers mean to one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meaning {
    /// Status 404.
    not_found: ErrorKind,
    /// Status 404 for the container itself.
    no_container: ErrorKind,
    /// Status 500 without a text that says more: the engine uses it for nearly everything.
    failed: ErrorKind,
    /// Whether the texts about files are about the caller's files.
    files: bool,
}

impl Meaning {
    pub(crate) const CREATE: Self =
        Self::new(ErrorKind::ImageNotFound, ErrorKind::CreateFailed, ErrorKind::CreateFailed);
    pub(crate) const START: Self = Self::new(ErrorKind::CreateFailed, ErrorKind::CreateFailed, ErrorKind::CreateFailed);
    pub(crate) const IMAGE: Self =
        Self::new(ErrorKind::ImageNotFound, ErrorKind::CreateFailed, ErrorKind::CreateFailed);
    pub(crate) const EXEC: Self = Self::new(ErrorKind::Gone, ErrorKind::Gone, ErrorKind::Unavailable);
    pub(crate) const FILES: Self =
        Self { files: true, ..Self::new(ErrorKind::PathNotFound, ErrorKind::Gone, ErrorKind::Unavailable) };
    pub(crate) const ATTACH: Self = Self::new(ErrorKind::NotFound, ErrorKind::NotFound, ErrorKind::Unavailable);
    pub(crate) const DESTROY: Self = Self::new(ErrorKind::Gone, ErrorKind::Gone, ErrorKind::TeardownFailed);
    pub(crate) const OTHER: Self = Self::new(ErrorKind::Protocol, ErrorKind::Gone, ErrorKind::Unavailable);

    const fn new(not_found: ErrorKind, no_container: ErrorKind, failed: ErrorKind) -> Self {
        Self { not_found, no_container, failed, files: false }
    }
}

/// Texts of refusals, most telling first; the first that is found decides, whatever the status. Docker, and podman where it
/// words it differently.
const TEXTS: &[(&str, ErrorKind)] = &[
    ("no such exec", ErrorKind::Gone),
    ("container state improper", ErrorKind::Gone),
    ("is not running", ErrorKind::Gone),
    ("is paused", ErrorKind::WrongState),
    ("is already in use by", ErrorKind::AlreadyExists),
    ("is not a directory", ErrorKind::NotADirectory),
    ("unknown runtime", ErrorKind::Unsupported),
    ("seccomp profile", ErrorKind::Unsupported),
    ("unknown or invalid runtime", ErrorKind::Unsupported),
    ("predefined address pools have been fully subnetted", ErrorKind::Capacity),
    ("non-overlapping ipv4 address pool", ErrorKind::Capacity),
];

/// The same for refusals about files.
const FILE_TEXTS: &[(&str, ErrorKind)] = &[
    ("no space left on device", ErrorKind::DiskFull),
    ("disk quota exceeded", ErrorKind::DiskFull),
    ("marked read-only", ErrorKind::ReadOnly),
    ("read-only file system", ErrorKind::ReadOnly),
    ("cannot overwrite non-directory", ErrorKind::NotADirectory),
    ("cannot overwrite directory", ErrorKind::IsADirectory),
    ("not a directory", ErrorKind::NotADirectory),
    ("is a directory", ErrorKind::IsADirectory),
    ("too many levels of symbolic links", ErrorKind::PathNotFound),
    ("too many links", ErrorKind::PathNotFound),
    ("file name too long", ErrorKind::InvalidArgument),
    ("permission denied", ErrorKind::PermissionDenied),
    ("operation not permitted", ErrorKind::PermissionDenied),
    // What is mounted inside, such as `/etc/hosts`, cannot be replaced, now or later.
    ("device or resource busy", ErrorKind::PermissionDenied),
];

/// The engine's failure as an error of ours. `what` is what was being done.
pub(crate) fn fault(what: &str, meaning: Meaning, wire: Wire) -> Error {
    let error = match &wire {
        Wire::DockerResponseServerError { status_code, message } => {
            Error::new(refusal(*status_code, message, meaning), format!("{what}: {}", message.trim()))
        }
        Wire::RequestTimeoutError => {
            Error::new(ErrorKind::OperationTimeout, format!("{what}: no answer from the engine"))
        }
        Wire::SocketNotFoundError(_) => unreachable_engine(what),
        Wire::HyperLegacyError { err } if err.is_connect() => unreachable_engine(what),
        Wire::IOError { .. } | Wire::HyperResponseError { .. } | Wire::HyperLegacyError { .. } => {
            Error::new(ErrorKind::ConnectionLost, format!("{what}: the connection to the engine broke"))
        }
        Wire::JsonDataError { .. } | Wire::JsonSerdeError { .. } => {
            Error::new(ErrorKind::Protocol, format!("{what}: the engine's answer cannot be read"))
        }
        Wire::DockerStreamError { error } => {
            Error::new(text(error, meaning).unwrap_or(meaning.failed), format!("{what}: {error}"))
        }
        _ => Error::new(ErrorKind::Internal, format!("{what}: the request could not be made")),
    };
    error.with_source(wire)
}

/// A connection that was never made: nothing was asked for.
fn unreachable_engine(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: the engine does not answer"))
        .with_hint("is it running? try `docker version`")
        .applied(false)
}

fn refusal(status: u16, message: &str, meaning: Meaning) -> ErrorKind {
    match (text(message, meaning), status) {
        (Some(kind), 400..=599) => kind,
        (_, 404) if message.to_ascii_lowercase().contains("no such container") => meaning.no_container,
        (_, 500) => meaning.failed,
        _ => ErrorKind::from_http(status, meaning.not_found),
    }
}

fn text(message: &str, meaning: Meaning) -> Option<ErrorKind> {
    let message = message.to_ascii_lowercase();
    let files = if meaning.files { FILE_TEXTS } else { &[] };
    TEXTS.iter().chain(files).find(|(fragment, _)| message.contains(fragment)).map(|(_, kind)| *kind)
}

/// The status that the engine refused with; 0 where it did not.
pub(crate) fn status(wire: &Wire) -> u16 {
    match wire {
        Wire::DockerResponseServerError { status_code, .. } => *status_code,
        _ => 0,
    }
}

/// Whether the engine itself said no. What stands before it may also say 502 to 504, and knows nothing.
pub(crate) fn is_refusal(wire: &Wire) -> bool {
    matches!(status(wire), 400..=500)
}

/// Whether a container's state was changing under the request, so that it has to be asked again. Podman says 500 for it.
pub(crate) fn is_conflict(wire: &Wire) -> bool {
    match wire {
        Wire::DockerResponseServerError { status_code: 409, .. } => true,
        Wire::DockerResponseServerError { status_code: 500, message } => {
            text(message, Meaning::DESTROY) == Some(ErrorKind::Gone) || message.contains("already in progress")
        }
        _ => false,
    }
}

/// The text of an exec that never started. Nothing of it ran.
pub(crate) fn not_started(message: &str, program: &str, cwd: Option<&str>, user: Option<&str>) -> Error {
    let message = message.trim();
    let lower = message.to_ascii_lowercase();
    let has = |fragment: &str| lower.contains(fragment);
    let missing = has("no such file or directory") || has("not found");
    let error = if has("unable to find user") || has("unable to find group") || has("no matching entries in passwd") {
        Error::invalid(format!("the sandbox has no user {:?}", user.unwrap_or_default()))
            .with_hint("name a user of the image, or a uid")
    } else if has("chdir to cwd") || has("mkdir cwd") || has("current working directory") {
        let cwd = cwd.unwrap_or("its working directory");
        if has("not a directory") {
            Error::new(ErrorKind::NotADirectory, format!("{cwd} is not a directory"))
        } else if missing {
            Error::new(ErrorKind::PathNotFound, format!("there is no directory {cwd}"))
                .with_hint("make it before the command runs in it")
        } else {
            Error::new(ErrorKind::StartFailed, format!("{cwd} cannot be entered"))
        }
    } else if has("argument list too long") {
        Error::new(ErrorKind::ArgumentTooLarge, "arguments and environment are larger than the kernel takes")
    } else if missing {
        Error::new(ErrorKind::ProgramNotFound, format!("the sandbox has no program {program:?}"))
            .with_hint("is it in the image, and on its PATH?")
    } else {
        Error::new(ErrorKind::StartFailed, format!("{program:?} could not be started"))
    };
    // What the engine said goes where chains are shown.
    error.with_source(std::io::Error::other(message.to_string()))
}

/// A container that did not start.
pub(crate) fn start_failed(wire: Wire, image: &str, user: Option<&str>) -> Error {
    let message = wire.to_string().to_ascii_lowercase();
    let has = |fragment: &str| message.contains(fragment);
    if has("unable to find user") || has("unable to find group") || has("no matching entries in passwd") {
        return Error::invalid(format!("the image {image} has no user {:?}", user.unwrap_or_default()))
            .with_hint("name a user of the image, or a uid")
            .with_source(wire);
    }
    if has("exec: \"/bin/sh\"") && (has("no such file") || has("not found")) {
        return no_sleep(image).with_source(wire);
    }
    if has("seccomp") {
        return Error::unsupported("the engine does not take the filter of system calls that sandboxes need")
            .with_hint("use Docker 20.10 or newer with seccomp; podman takes no filter over this API")
            .applied(true)
            .with_source(wire);
    }
    let error = fault("starting the container", Meaning::START, wire);
    // The engine blames the request for whatever keeps the first process from starting.
    if error.kind() == ErrorKind::InvalidArgument { error.with_kind(ErrorKind::CreateFailed) } else { error }
}

/// The lifetime of a sandbox is enforced by the image's own programs.
pub(crate) fn no_sleep(image: &str) -> Error {
    Error::unsupported(format!(
        "the image {image} has no /bin/sh or no sleep, which keep a plain sandbox alive for its lifetime"
    ))
    .with_hint("use an image that has both, such as busybox, alpine or debian")
}

#[cfg(test)]
mod tests;
