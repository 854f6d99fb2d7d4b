//! A file of the host that is read.

use super::{failed, permissions, regular};
use crate::files::stream::PIECE;
use bytes::{Bytes, BytesMut};
use sandbox_core::{Error, ErrorKind, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    path::{Path, PathBuf},
};

/// A regular file, with as many bytes as it says.
pub(in crate::files) struct Source {
    path: PathBuf,
    pub(in crate::files) len: u64,
    pub(in crate::files) mode: u32,
    left: u64,
    content: Content,
}

enum Content {
    /// What is small is read at once: the sizes of files that a kernel makes up say nothing.
    Held(Bytes),
    Open(File),
}

impl Source {
    /// Opens what a user names: a link is followed.
    pub(in crate::files) fn open(path: &Path) -> Result<Self> {
        // Looked at first, because to open a device may do something to it, and again by its handle.
        regular(path, &fs::metadata(path).map_err(|e| failed(path, e))?)?;
        let file = opened(path, true)?;
        let there = file.metadata().map_err(|e| failed(path, e))?;
        Self::of(path, file, &there)
    }

    /// Opens what was found before, if it still is what it was; a link that has taken its place is not followed.
    pub(in crate::files) fn found(path: &Path, identity: Identity) -> Result<Self> {
        let changed = || {
            let message = format!("`{}` on the host was replaced while the directory was sent", path.display());
            Error::invalid(message).with_hint("upload it while nobody changes it")
        };
        let same = |there: &fs::Metadata| there.is_file() && super::identity(there) == identity;
        if !same(&fs::symlink_metadata(path).map_err(|e| failed(path, e))?) {
            return Err(changed());
        }
        let file = opened(path, false)?;
        let there = file.metadata().map_err(|e| failed(path, e))?;
        if !same(&there) {
            return Err(changed());
        }
        Self::of(path, file, &there)
    }

    /// Opens what this process has just made.
    pub(in crate::files) fn own(path: &Path) -> Result<Self> {
        regular(path, &fs::symlink_metadata(path).map_err(|e| failed(path, e))?)?;
        let file = opened(path, false)?;
        let there = file.metadata().map_err(|e| failed(path, e))?;
        Self::of(path, file, &there)
    }

    fn of(path: &Path, mut file: File, there: &fs::Metadata) -> Result<Self> {
        regular(path, there)?;
        let mut len = there.len();
        let content = if len <= PIECE as u64 {
            let most = if len == 0 { MADE_UP } else { len };
            let mut all = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
            Read::by_ref(&mut file).take(most).read_to_end(&mut all).map_err(|e| failed(path, e))?;
            if all.len() as u64 == MADE_UP {
                let message = format!("`{}` on the host says that it is empty, and has no end", path.display());
                return Err(Error::new(ErrorKind::NotAFile, message).applied(false));
            }
            len = all.len() as u64;
            Content::Held(all.into())
        } else {
            Content::Open(file)
        };
        Ok(Self { path: path.to_path_buf(), len, mode: permissions(there), left: len, content })
    }

    /// The next piece; `None` is the end.
    pub(in crate::files) fn next(&mut self) -> Result<Option<Bytes>> {
        let mut out = BytesMut::new();
        Ok(self.read(&mut out)?.then(|| out.freeze()))
    }

    /// Appends the next bytes, about as many as a piece has at most; says whether there were any.
    ///
    /// A file that grows meanwhile has as many as it had at first; one that shrinks is an error.
    pub(in crate::files) fn read(&mut self, out: &mut BytesMut) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let n = match &mut self.content {
            Content::Held(all) => {
                out.extend_from_slice(all);
                all.len()
            }
            Content::Open(file) => {
                let (start, most) = (out.len(), self.left.min(PIECE as u64));
                out.resize(start + usize::try_from(most).unwrap_or(PIECE), 0);
                let n = loop {
                    match file.read(&mut out[start..]) {
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                        read => break read.map_err(|e| failed(&self.path, e))?,
                    }
                };
                out.truncate(start + n);
                n
            }
        };
        if n == 0 {
            let message = format!("`{}` on the host became shorter while it was read", self.path.display());
            return Err(Error::invalid(message).with_hint("upload it while nobody writes to it").applied(true));
        }
        self.left -= n as u64;
        Ok(true)
    }
}

/// What makes a file that file, whatever its name leads to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::files) struct Identity(u64, u64);

#[cfg(unix)]
pub(in crate::files) fn identity(there: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity(there.dev(), there.ino())
}

/// Hosts that do not tell have links that only administrators make.
#[cfg(not(unix))]
pub(in crate::files) fn identity(_: &fs::Metadata) -> Identity {
    Identity(0, 0)
}

/// Never waits for whoever is at the other end of a FIFO.
#[cfg(unix)]
fn opened(path: &Path, follow: bool) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | if follow { 0 } else { libc::O_NOFOLLOW };
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|e| failed(path, e))
}

#[cfg(not(unix))]
fn opened(path: &Path, _: bool) -> Result<File> {
    OpenOptions::new().read(true).open(path).map_err(|e| failed(path, e))
}

/// For a file that says that it is empty and is not, as kernels make them up.
const MADE_UP: u64 = 16 << 20;
