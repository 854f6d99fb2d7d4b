//! The members of a tar stream, from a sandbox that may mean harm: what describes a member is bounded, what is not understood
//! is refused, and an end is only one that is said.

use bytes::{Buf, Bytes};
use sandbox_core::{Body, Error, ErrorKind, Result};
use tar::{EntryType, Header};

/// One of them. Names are as they came.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) size: u64,
    /// Permission bits alone.
    pub(super) mode: u32,
    /// Seconds since the epoch.
    pub(super) mtime: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// Where it points to.
    Symlink(Vec<u8>),
    /// An earlier member that it is the same file as.
    Hard(Vec<u8>),
    /// FIFOs, devices, and what only some programs know.
    Other,
}

/// A tar stream, a member at a time.
#[derive(Debug)]
pub(super) struct Members {
    body: Body,
    buffer: Bytes,
    /// Of the current member.
    left: u64,
    padding: u64,
}

impl Members {
    pub(super) fn new(body: Body) -> Self {
        Self { body, buffer: Bytes::new(), left: 0, padding: 0 }
    }

    /// The next member; what is left of the last is passed over. After the last one the stream is read to its end, because
    /// only then it is known to be whole.
    pub(super) async fn next(&mut self) -> Result<Option<Member>> {
        self.pass_over().await?;
        let mut own = Extension::default();
        for _ in 0..MOST_EXTENSIONS {
            let Some(header) = self.header().await? else {
                if own.is_empty() {
                    return self.end().await.map(|()| None);
                }
                return Err(broken("it describes a member that does not come"));
            };
            let kind = header.entry_type();
            let size = header.entry_size().map_err(|e| broken("a size is no number").with_source(e))?;
            match kind {
                EntryType::GNULongName => own.name = Some(until_nul(self.described(size).await?)),
                EntryType::GNULongLink => own.link = Some(until_nul(self.described(size).await?)),
                EntryType::XHeader => own.pax = records(&self.described(size).await?)?,
                EntryType::XGlobalHeader => drop(self.described(size).await?),
                _ => return self.member(&header, own, size).map(Some),
            }
        }
        Err(broken("too much describes one member"))
    }

    /// The next piece of the current member; `None` is its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        if !self.filled().await? {
            return Err(broken("it ends inside a file"));
        }
        let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.buffer.len());
        self.left -= n as u64;
        Ok(Some(self.buffer.split_to(n)))
    }

    /// Bytes of the current member that are still to come.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    fn member(&mut self, header: &Header, own: Extension, size: u64) -> Result<Member> {
        let pax = |key: &str| own.pax.iter().rev().find(|(k, _)| k == key.as_bytes()).map(|(_, value)| value.clone());
        let name = own.name.or_else(|| pax("path")).unwrap_or_else(|| header.path_bytes().into_owned());
        let shown = || String::from_utf8_lossy(&name).into_owned();
        let link = || {
            let link = own.link.clone().or_else(|| pax("linkpath"));
            link.or_else(|| header.link_name_bytes().map(|link| link.into_owned())).unwrap_or_default()
        };
        let is_sparse = own.pax.iter().any(|(key, _)| key.starts_with(b"GNU.sparse."));
        let kind = match header.entry_type() {
            EntryType::GNUSparse => return Err(sparse(&shown())),
            EntryType::Regular | EntryType::Continuous if is_sparse => return Err(sparse(&shown())),
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link()),
            EntryType::Link => Kind::Hard(link()),
            _ => Kind::Other,
        };
        let size = match (header.entry_type(), pax("size")) {
            // They have none, whatever they say.
            (
                EntryType::Directory
                | EntryType::Symlink
                | EntryType::Link
                | EntryType::Fifo
                | EntryType::Char
                | EntryType::Block,
                _,
            ) => 0,
            (_, None) => size,
            (_, Some(text)) => number(&text).ok_or_else(|| broken("a size is no number"))?,
        };
        (self.left, self.padding) = (size, padding(size));
        let mode = header.mode().map_or(0o644, |mode| mode & 0o777);
        Ok(Member { kind, size, mode, mtime: header.mtime().ok(), name })
    }

    /// A block that is no header ends the stream.
    async fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        self.fill(header.as_mut_bytes()).await?;
        let bytes = header.as_bytes();
        if bytes.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        // The sum is over the header with blanks in place of the sum.
        let sum = bytes.iter().enumerate().map(|(n, b)| u32::from(if SUM.contains(&n) { b' ' } else { *b })).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(broken("a header's sum is wrong"));
        }
        Ok(Some(header))
    }

    /// What says more about the member that comes next.
    async fn described(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MOST_DESCRIBED {
            return Err(broken(&format!("a member is described in {size} bytes")));
        }
        let mut all = vec![0; usize::try_from(size + padding(size)).unwrap_or(0)];
        self.fill(&mut all).await?;
        all.truncate(usize::try_from(size).unwrap_or(0));
        Ok(all)
    }

    async fn fill(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            if !self.filled().await? {
                return Err(broken("it has no end"));
            }
            let n = into.len().min(self.buffer.len());
            let (now, later) = into.split_at_mut(n);
            self.buffer.copy_to_slice(now);
            into = later;
        }
        Ok(())
    }

    async fn pass_over(&mut self) -> Result<()> {
        while self.piece().await?.is_some() {}
        self.left = std::mem::take(&mut self.padding);
        while self.piece().await?.is_some() {}
        Ok(())
    }

    /// The rest of the last record, and whatever the sandbox's packer has to say at its end.
    async fn end(&mut self) -> Result<()> {
        let mut more = 0;
        while self.filled().await? {
            more += self.buffer.len() as u64;
            self.buffer.clear();
            if more > MOST_DESCRIBED {
                return Err(broken("it goes on after its end"));
            }
        }
        Ok(())
    }

    /// Whether there is something in the buffer, or the stream is over.
    async fn filled(&mut self) -> Result<bool> {
        while self.buffer.is_empty() {
            match self.body.next().await? {
                Some(piece) => self.buffer = piece,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What members before a member say about it.
#[derive(Default)]
struct Extension {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Extension {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.pax.is_empty()
    }
}

/// `LENGTH KEY=VALUE\n`, where the length is that of the whole record: a value may hold anything, also newlines.
fn records(mut data: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let wrong = || broken("a record of what describes a member is none");
    let mut all = Vec::new();
    while data.first().is_some_and(|b| *b != 0) {
        let blank = data.iter().take(20).position(|b| *b == b' ').ok_or_else(wrong)?;
        let length = number(&data[..blank]).and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)?;
        let record = data.get(blank + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let equals = record.iter().position(|b| *b == b'=').ok_or_else(wrong)?;
        // An empty value takes an earlier one back.
        if !record[equals + 1..].is_empty() {
            all.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        }
        data = &data[length..];
    }
    Ok(all)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    text.truncate(text.iter().position(|b| *b == 0).unwrap_or(text.len()));
    text
}

pub(super) fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the stream of files is broken: {what}"))
}

fn sparse(name: &str) -> Error {
    Error::unsupported(format!("`{name}` is packed with its holes left out, which is not read"))
        .with_hint("exclude it, or have the adapter pack without `--sparse`")
}

pub(super) const BLOCK: usize = 512;
const SUM: std::ops::Range<usize> = 148..156;
/// A name is at most some thousand bytes, extended attributes are more.
const MOST_DESCRIBED: u64 = 1 << 20;
const MOST_EXTENSIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_hold_anything() {
        let all = records(b"13 path=a\nb/\n16 linkpath=\xff=x\n").expect("two records");
        assert_eq!(all, [(b"path".to_vec(), b"a\nb/".to_vec()), (b"linkpath".to_vec(), b"\xff=x".to_vec())]);
        for wrong in
            [&b"path=a\n"[..], b"99 path=a\n", b"3 path=a\n", b"-1 a=b\n", b"0 a=b\n", b"10 path a\n", b"11 path=a\nx"]
        {
            assert!(records(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn padding_fills_a_block() {
        assert_eq!([0, 1, 511, 512, 513, u64::MAX].map(padding), [0, 511, 1, 0, 511, 1]);
    }
}
