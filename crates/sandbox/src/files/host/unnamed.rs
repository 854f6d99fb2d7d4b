//! A file of the host that has no name, and goes with its last handle.

use super::failed;
use bytes::Bytes;
use sandbox_core::Result;
use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// A file in the directory for temporary files, of this user alone.
pub(in crate::files) struct Unnamed {
    file: Mutex<File>,
    /// The directory, for errors.
    place: PathBuf,
    len: u64,
}

impl Unnamed {
    pub(in crate::files) fn new() -> Result<Self> {
        let place = env::temp_dir();
        let file = open(&place).map_err(|e| failed(&place, e))?;
        Ok(Self { file: Mutex::new(file), place, len: 0 })
    }

    pub(in crate::files) fn len(&self) -> u64 {
        self.len
    }

    pub(in crate::files) fn append(&mut self, piece: &[u8]) -> Result<()> {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        file.write_all(piece).map_err(|e| failed(&self.place, e))?;
        self.len += piece.len() as u64;
        Ok(())
    }

    /// At most so many bytes from there on; `None` is the end. Whoever reads beside has a place of his own.
    pub(in crate::files) fn read(&self, at: u64, most: usize) -> Result<Option<Bytes>> {
        let most = most.min(usize::try_from(self.len.saturating_sub(at)).unwrap_or(most));
        if most == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; most];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut piece)).map_err(|e| failed(&self.place, e))?;
        Ok(Some(piece.into()))
    }
}

fn open(place: &std::path::Path) -> io::Result<File> {
    let path = place.join(format!(".{}", crate::lease::marker()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    #[cfg(windows)]
    std::os::windows::fs::OpenOptionsExt::custom_flags(&mut options, DELETE_ON_CLOSE);
    let file = options.open(&path)?;
    #[cfg(unix)]
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(windows)]
const DELETE_ON_CLOSE: u32 = 0x0400_0000;
