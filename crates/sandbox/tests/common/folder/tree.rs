//! Trees by the host's `tar`, as a provider has them who knows no users.

use bytes::{Bytes, BytesMut};
use sandbox_core::{Body, Chunks, Error, ErrorKind, FileInfo, FileKind, Meta, Result};
use std::{io, os::unix::fs::MetadataExt, path::Path, process::Stdio};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdout, Command},
};

pub(super) fn stat(path: &str) -> Result<FileInfo> {
    let there = std::fs::symlink_metadata(path).map_err(|e| error(path, e))?;
    let kind = match there.file_type() {
        t if t.is_file() => FileKind::File,
        t if t.is_dir() => FileKind::Directory,
        t if t.is_symlink() => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let meta = Meta::new(there.mode() & 0o7777, there.uid(), there.gid(), there.mtime());
    Ok(FileInfo::new(name, kind, there.len()).meta(meta))
}

/// Unpacks nothing before the stream has ended well.
pub(super) async fn put(path: &str, mut tar: Body) -> Result<()> {
    let there = std::fs::metadata(path).map_err(|e| error(path, e))?;
    if !there.is_dir() {
        return Err(Error::new(ErrorKind::NotADirectory, format!("`{path}` is not a directory")));
    }
    let spool = tempfile::NamedTempFile::new().map_err(|e| error("spool", e))?;
    let mut file = tokio::fs::File::create(spool.path()).await.map_err(|e| error("spool", e))?;
    while let Some(piece) = tar.next().await? {
        file.write_all(&piece).await.map_err(|e| error("spool", e))?;
    }
    file.flush().await.map_err(|e| error("spool", e))?;
    let tar = Command::new("tar").arg("-xpf").arg(spool.path()).current_dir(path).output().await;
    let output = tar.map_err(|e| error("tar", e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let kind = if said.contains("ermission denied") { ErrorKind::PermissionDenied } else { ErrorKind::Internal };
    Err(Error::new(kind, format!("tar: {said}")))
}

pub(super) async fn get(path: &str) -> Result<Body> {
    std::fs::symlink_metadata(path).map_err(|e| error(path, e))?;
    let (dir, name) = match (Path::new(path).parent(), Path::new(path).file_name()) {
        (Some(dir), Some(name)) => (dir, name),
        _ => (Path::new("/"), ".".as_ref()),
    };
    let mut tar = Command::new("tar");
    tar.arg("-cf")
        .arg("-")
        .arg("--no-unquote")
        .arg("--")
        .arg(name)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = tar.spawn().map_err(|e| error("tar", e))?;
    let stdout = child.stdout.take().ok_or_else(|| Error::new(ErrorKind::Internal, "tar has no stdout"))?;
    Ok(Body::new(None, Packed { stdout, child }))
}

struct Packed {
    stdout: ChildStdout,
    child: Child,
}

impl Chunks for Packed {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut piece = BytesMut::with_capacity(64 << 10);
        self.stdout.read_buf(&mut piece).await.map_err(|e| error("tar", e))?;
        if !piece.is_empty() {
            return Ok(Some(piece.freeze()));
        }
        match self.child.wait().await {
            Ok(status) if status.success() => Ok(None),
            status => Err(Error::new(ErrorKind::ConnectionLost, format!("tar ended with {status:?}"))),
        }
    }
}

pub(super) fn error(path: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::PathNotFound,
        io::ErrorKind::NotADirectory => ErrorKind::NotADirectory,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ if error.raw_os_error() == Some(ENAMETOOLONG) => ErrorKind::InvalidArgument,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("`{path}`: {error}")).with_source(error)
}

const ENAMETOOLONG: i32 = 36;
