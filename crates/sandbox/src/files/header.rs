//! Tar members as they are written: names and links go in as they are.

use super::members::{BLOCK, padding};
use bytes::{BufMut, BytesMut};
use std::time::SystemTime;
use tar::{EntryType, Header};

/// What is said of a member.
pub(super) struct Entry<'a> {
    pub(super) kind: EntryType,
    pub(super) name: &'a [u8],
    pub(super) link: &'a [u8],
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) mtime: u64,
    /// uid and gid.
    pub(super) owner: (u32, u32),
}

impl Entry<'_> {
    /// Appends the header; what is too long for it comes before.
    pub(super) fn put(&self, out: &mut BytesMut) {
        let mut header = Header::new_gnu();
        header.set_entry_type(self.kind);
        header.set_size(self.size);
        header.set_mode(self.mode);
        header.set_mtime(self.mtime);
        header.set_uid(self.owner.0.into());
        header.set_gid(self.owner.1.into());
        let old = header.as_old_mut();
        for (text, field, kind) in
            [(self.name, &mut old.name, EntryType::GNULongName), (self.link, &mut old.linkname, EntryType::GNULongLink)]
        {
            if text.len() > field.len() {
                long(text, kind, out);
            }
            let n = text.len().min(field.len());
            field[..n].copy_from_slice(&text[..n]);
        }
        header.set_cksum();
        out.put_slice(header.as_bytes());
    }
}

/// Fills the last block of a member's content.
pub(super) fn pad(size: u64, out: &mut BytesMut) {
    out.put_bytes(0, usize::try_from(padding(size)).unwrap_or(0));
}

/// Ends a stream.
pub(super) fn end(out: &mut BytesMut) {
    out.put_bytes(0, 2 * BLOCK);
}

pub(super) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs())
}

fn long(text: &[u8], kind: EntryType, out: &mut BytesMut) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    let old = header.as_old_mut();
    let name = b"././@LongLink";
    old.name[..name.len()].copy_from_slice(name);
    let size = text.len() as u64 + 1;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    out.put_slice(header.as_bytes());
    out.put_slice(text);
    out.put_u8(0);
    pad(size, out);
}
