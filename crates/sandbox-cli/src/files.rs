//! Copies in and out.

use crate::{plan::Upload, values::Transfer};
use sandbox::{Error, ErrorKind, FileKind, Result, Sandbox};
use std::path::Path;

/// Copies a file, or what is in a directory, in. Gives the names of what was no file and stayed behind.
pub(crate) async fn upload(sandbox: &Sandbox, item: &Upload) -> Result<Vec<String>> {
    let files = sandbox.files();
    if item.directory {
        return Ok(files.upload_dir(&item.host, &item.inside).await?.skipped);
    }
    let into = item.inside.ends_with('/') || is_directory(sandbox, &item.inside).await?;
    let target = match item.host.file_name().and_then(|name| name.to_str()) {
        Some(name) if into => format!("{}/{name}", item.inside.trim_end_matches('/')),
        None if into => {
            let message = format!("the name of `{}` is not UTF-8", item.host.display());
            return Err(Error::invalid(message).with_hint("name the file inside too, as in HOST:/work/name"));
        }
        _ => item.inside.clone(),
    };
    files.upload(&item.host, target.as_str()).await?;
    Ok(Vec::new())
}

/// Copies a file, or what is in a directory, out. Gives the names of what was no file and stayed behind.
pub(crate) async fn download(sandbox: &Sandbox, item: &Transfer) -> Result<Vec<String>> {
    let files = sandbox.files();
    if is_directory(sandbox, &item.inside).await? {
        return Ok(files.download_dir(item.inside.as_str(), &item.host).await?.skipped);
    }
    let named = item.host.as_os_str().as_encoded_bytes().ends_with(b"/");
    if named {
        std::fs::create_dir_all(&item.host).map_err(|error| {
            Error::new(ErrorKind::NotADirectory, format!("cannot make `{}` on this host: {error}", item.host.display()))
        })?;
    }
    let name = Path::new(&item.inside).file_name().filter(|_| named || item.host.is_dir());
    let target = name.map_or_else(|| item.host.clone(), |name| item.host.join(name));
    files.download(item.inside.as_str(), target).await?;
    Ok(Vec::new())
}

/// Whether there is a directory, or a link to one. That there is nothing at all is for the copy to say.
async fn is_directory(sandbox: &Sandbox, path: &str) -> Result<bool> {
    let files = sandbox.files();
    match files.stat(path).await {
        Ok(info) if info.kind == FileKind::Symlink => Ok(files.list(path).await.is_ok()),
        Ok(info) => Ok(info.kind == FileKind::Directory),
        Err(error) if matches!(error.kind(), ErrorKind::PathNotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}
