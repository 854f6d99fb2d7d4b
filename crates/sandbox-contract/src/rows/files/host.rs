//! A directory of the host's, for one row.

use crate::{Ctx, row::Stop};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Removed when it is dropped.
pub(in crate::rows) struct HostDir(PathBuf);

impl HostDir {
    pub(in crate::rows) fn new(cx: &Ctx) -> Result<Self, Stop> {
        let path = std::env::temp_dir().join(format!("sandbox-contract-{}", cx.marker()));
        fs::create_dir_all(&path).map_err(|error| Stop::fail(format_args!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    pub(in crate::rows) fn path(&self) -> &Path {
        &self.0
    }

    pub(in crate::rows) fn join(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// Writes a file, and its parents.
    pub(in crate::rows) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> Result<(), Stop> {
        let path = self.join(below);
        let parent = path.parent().unwrap_or(&self.0);
        host(fs::create_dir_all(parent).and_then(|()| fs::write(&path, content)))
    }

    /// The names in it, sorted.
    pub(in crate::rows) fn names(&self) -> Result<Vec<String>, Stop> {
        let entries = host(fs::read_dir(&self.0).and_then(Iterator::collect::<io::Result<Vec<_>>>))?;
        let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }
}

impl Drop for HostDir {
    fn drop(&mut self) {
        // What a row made read-only is readable by its owner again, or stays in the host's own place for such things.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// What is at a path below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// Its content, and whether it may be executed.
    File(Vec<u8>, bool),
    Directory,
    Link(PathBuf),
}

/// Everything below a directory, by its path from there.
pub(super) fn everything(root: &Path) -> Result<BTreeMap<String, Entry>, Stop> {
    fn walk(root: &Path, below: &str, all: &mut BTreeMap<String, Entry>) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                walk(root, &path, all)?;
                all.insert(path, Entry::Directory);
            } else if kind.is_symlink() {
                all.insert(path, Entry::Link(fs::read_link(entry.path())?));
            } else {
                let executable = is_executable(&entry.metadata()?);
                all.insert(path, Entry::File(fs::read(entry.path())?, executable));
            }
        }
        Ok(())
    }
    let mut all = BTreeMap::new();
    host(walk(root, "", &mut all))?;
    Ok(all)
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// Sets permission bits, where the host has them; says whether it has.
#[cfg(unix)]
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<bool, Stop> {
    host(fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)))?;
    Ok(true)
}

#[cfg(not(unix))]
pub(super) fn set_mode(_: &Path, _: u32) -> Result<bool, Stop> {
    Ok(false)
}

/// Makes a link, where the host has them; says whether it has.
#[cfg(unix)]
pub(super) fn symlink(target: &str, path: &Path) -> Result<bool, Stop> {
    host(std::os::unix::fs::symlink(target, path))?;
    Ok(true)
}

#[cfg(not(unix))]
pub(super) fn symlink(_: &str, _: &Path) -> Result<bool, Stop> {
    Ok(false)
}

/// The host's own trouble is nobody's failure but has to be seen.
#[track_caller]
pub(super) fn host<T>(result: io::Result<T>) -> Result<T, Stop> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(Stop::fail(format_args!("the host's own files: {error}"))),
    }
}

/// Bytes in which no two blocks are the same.
pub(crate) fn pattern(size: usize, seed: u32) -> Vec<u8> {
    const BLOCK: usize = 1024;
    let words = (0..BLOCK as u32 / 4).map(|n| (n ^ seed).wrapping_mul(0x9e37_79b1).rotate_left(13));
    let block: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let mut all = Vec::with_capacity(size + BLOCK);
    for number in 0..size.div_ceil(BLOCK) as u64 {
        all.extend_from_slice(&number.to_le_bytes());
        all.extend_from_slice(&block[8..]);
    }
    all.truncate(size);
    all
}
