//! The host's own files. Whatever is opened here is a regular file by its handle, not by its name, and whatever is written is
//! whole or not there.

mod landing;
mod source;
mod unnamed;

pub(super) use landing::{Landing, create_all, directory, set_mode, symlink, there};
pub(super) use source::{Identity, Source, identity};
pub(super) use unnamed::Unnamed;

use sandbox_core::{Error, ErrorKind};
use std::{fs, io, path::Path};

/// An error of the host's file system, told apart from the sandbox's.
pub(super) fn failed(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::PathNotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::NotADirectory => ErrorKind::NotADirectory,
        io::ErrorKind::IsADirectory => ErrorKind::IsADirectory,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        io::ErrorKind::FileTooLarge => ErrorKind::ResourceExhausted,
        // As of a path with a NUL byte.
        io::ErrorKind::InvalidInput => ErrorKind::InvalidArgument,
        // Nothing is there to be read yet, and nobody knows when there will be.
        io::ErrorKind::WouldBlock => ErrorKind::NotAFile,
        _ => by_number(&error).unwrap_or(ErrorKind::Internal),
    };
    Error::new(kind, format!("`{}` on the host: {error}", path.display())).with_source(error).applied(false)
}

#[cfg(unix)]
fn by_number(error: &io::Error) -> Option<ErrorKind> {
    match error.raw_os_error()? {
        libc::ENAMETOOLONG | libc::EILSEQ => Some(ErrorKind::InvalidArgument),
        libc::ELOOP => Some(ErrorKind::PathNotFound),
        libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP => Some(ErrorKind::NotAFile),
        libc::EMFILE | libc::ENFILE => Some(ErrorKind::ResourceExhausted),
        _ => None,
    }
}

#[cfg(not(unix))]
fn by_number(_: &io::Error) -> Option<ErrorKind> {
    None
}

pub(super) fn not_a_directory(path: &Path) -> Error {
    Error::new(ErrorKind::NotADirectory, format!("`{}` on the host is not a directory", path.display())).applied(false)
}

/// Refuses what is no regular file.
fn regular(path: &Path, there: &fs::Metadata) -> sandbox_core::Result<()> {
    if there.is_file() {
        return Ok(());
    }
    let (kind, what) = match there.is_dir() {
        true => (ErrorKind::IsADirectory, "a directory"),
        false => (ErrorKind::NotAFile, "not a regular file"),
    };
    Err(Error::new(kind, format!("`{}` on the host is {what}", path.display())).applied(false))
}

#[cfg(unix)]
pub(super) fn permissions(there: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&there.permissions()) & 0o7777
}

#[cfg(not(unix))]
pub(super) fn permissions(there: &fs::Metadata) -> u32 {
    if there.is_dir() { 0o755 } else { 0o644 }
}
