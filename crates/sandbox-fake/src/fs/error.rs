//! What a file operation fails with.

use sandbox_core::{Error, ErrorKind};
use std::io;

/// A failed file operation, by the path it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FsError {
    pub(crate) what: What,
    pub(crate) path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    NotFound,
    NotADirectory,
    IsADirectory,
    NotAFile,
    Exists,
    NotEmpty,
    Denied,
    Full,
    ReadOnly,
    TooManyLinks,
    NameTooLong,
    IntoItself,
}

impl What {
    pub(crate) fn at(self, path: &str) -> FsError {
        FsError { what: self, path: path.to_string() }
    }

    /// The words, as the system's own programs say them.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NotFound => "no such file or directory",
            Self::NotADirectory => "not a directory",
            Self::IsADirectory => "is a directory",
            Self::NotAFile => "not a regular file",
            Self::Exists => "file exists",
            Self::NotEmpty => "directory not empty",
            Self::Denied => "permission denied",
            Self::Full => "no space left on device",
            Self::ReadOnly => "read-only file system",
            Self::TooManyLinks => "too many levels of symbolic links",
            Self::NameTooLong => "file name too long",
            Self::IntoItself => "cannot be moved into itself",
        }
    }
}

impl From<FsError> for Error {
    fn from(error: FsError) -> Self {
        let kind = match error.what {
            What::NotFound => ErrorKind::PathNotFound,
            What::NotADirectory => ErrorKind::NotADirectory,
            What::IsADirectory => ErrorKind::IsADirectory,
            What::NotAFile => ErrorKind::NotAFile,
            What::Exists | What::NotEmpty => ErrorKind::AlreadyExists,
            What::Denied => ErrorKind::PermissionDenied,
            What::Full => ErrorKind::DiskFull,
            What::ReadOnly => ErrorKind::ReadOnly,
            What::TooManyLinks | What::NameTooLong | What::IntoItself => ErrorKind::InvalidArgument,
        };
        Self::new(kind, format!("`{}`: {}", error.path, error.what.words())).applied(false)
    }
}

impl From<FsError> for io::Error {
    fn from(error: FsError) -> Self {
        let kind = match error.what {
            What::NotFound => io::ErrorKind::NotFound,
            What::NotADirectory => io::ErrorKind::NotADirectory,
            What::IsADirectory => io::ErrorKind::IsADirectory,
            What::Exists => io::ErrorKind::AlreadyExists,
            What::NotEmpty => io::ErrorKind::DirectoryNotEmpty,
            What::Denied => io::ErrorKind::PermissionDenied,
            What::Full => io::ErrorKind::StorageFull,
            What::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            What::NotAFile | What::TooManyLinks | What::NameTooLong | What::IntoItself => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, format!("{}: {}", error.path, error.what.words()))
    }
}
