//! The context of a build: a directory of the host as a tar, kept as it was hashed until nobody needs it any more.

use super::{
    header,
    host::Unnamed,
    ignored::Ignored,
    pack::{Packer, Plan},
    stream::{PIECE, Pace},
};
use bytes::{Bytes, BytesMut};
use sandbox_core::{Body, Definition, Result};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

/// A context that was packed, and what names it together with its definition. What was hashed is what is sent.
pub(crate) struct Context {
    pub(crate) digest: String,
    kept: Kept,
}

enum Kept {
    /// Without a directory.
    Nothing(Bytes),
    File(Arc<Unnamed>),
}

impl Context {
    /// Packs what a definition copies from, in constant memory: names in their order, no times and no owners, so that equal
    /// directories are equal bytes.
    ///
    /// # Errors
    ///
    /// Those of the host's file system, which the message names; `invalid-argument` for a link that may leave the directory.
    /// Nothing was sent.
    pub(crate) async fn of(pace: &Pace, definition: &Definition) -> Result<Self> {
        let mut hash = Sha256::new();
        hash.update(FORM);
        let texts = definition.args.iter().flat_map(|(name, value)| [name, value]);
        for text in std::iter::once(&definition.dockerfile).chain(texts) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        // No text has such a length.
        hash.update(u64::MAX.to_le_bytes());
        let Some(root) = definition.context.clone() else {
            let mut end = BytesMut::new();
            header::end(&mut end);
            let end = end.freeze();
            hash.update(&end);
            return Ok(Self { digest: hexadecimal(&hash.finalize()), kept: Kept::Nothing(end) });
        };
        Self::packed(pace, hash, root).await.map_err(|error| error.applied(false))
    }

    async fn packed(pace: &Pace, mut hash: Sha256, root: PathBuf) -> Result<Self> {
        let start = move || Ok((Plan::of(&root)?, Arc::new(Ignored::of(&root)?)));
        let ((mut plan, ignored), mut more) = (pace.host(start).await?, true);
        while more {
            let ignored = Arc::clone(&ignored);
            (plan, more) = pace.host(move || plan.look(&*ignored).map(|more| (plan, more))).await?;
        }
        let mut packer = Packer::new(Arc::new(plan), (0, 0), Arc::new(AtomicU64::new(0))).timeless();
        let mut file = pace.host(Unnamed::new).await?;
        loop {
            let step = move || {
                let piece = packer.piece()?;
                if let Some(piece) = &piece {
                    hash.update(piece);
                    file.append(piece)?;
                }
                Ok((packer, hash, file, piece.is_some()))
            };
            let more;
            (packer, hash, file, more) = pace.host(step).await?;
            if !more {
                return Ok(Self { digest: hexadecimal(&hash.finalize()), kept: Kept::File(Arc::new(file)) });
            }
        }
    }

    /// The tar, from its beginning; as often as it is needed.
    pub(crate) fn body(&self, pace: &Pace) -> Body {
        match &self.kept {
            Kept::Nothing(end) => Body::from(end.clone()),
            Kept::File(file) => {
                let (file, mut at) = (Arc::clone(file), 0);
                pace.body(Some(file.len()), move || {
                    let piece = file.read(at, PIECE)?;
                    at += piece.as_ref().map_or(0, |piece| piece.len() as u64);
                    Ok(piece)
                })
            }
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Another form of the digest is another digest.
const FORM: &[u8] = b"sandbox-build 1\n";

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;
    use std::{fs, path::Path};

    async fn packed(definition: &Definition) -> Result<(String, Vec<u8>)> {
        let pace = Pace::test();
        let context = Context::of(&pace, definition).await?;
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let (mut body, mut all) = (context.body(&pace), Vec::new());
            while let Some(piece) = body.next().await? {
                all.extend_from_slice(&piece);
            }
            assert_eq!(body.len, Some(all.len() as u64));
            bodies.push(all);
        }
        assert_eq!(bodies[0], bodies[1], "it can be sent again");
        Ok((context.digest, bodies.swap_remove(0)))
    }

    fn names(tar: &[u8]) -> Vec<(String, u64, u64)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().expect("a tar");
        let named = entries.map(|entry| {
            let entry = entry.expect("an entry");
            let header = entry.header();
            let name = entry.path().expect("a name").display().to_string();
            (name, header.mtime().expect("a time"), header.uid().expect("a uid"))
        });
        named.collect()
    }

    fn tree(root: &Path, order: &[&str]) {
        for name in order {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, *name).expect("a file");
        }
    }

    #[tokio::test]
    async fn equal_directories_are_equal_bytes() {
        let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        tree(one.path(), &["a", "b/c", "d"]);
        tree(two.path(), &["d", "b/c", "a"]);
        let of = |root: &Path| Definition::new("FROM a").context(root);
        let (digest, tar) = packed(&of(one.path())).await.expect("a context");
        assert_eq!(packed(&of(two.path())).await.expect("a context"), (digest.clone(), tar.clone()));
        assert_eq!(names(&tar), ["a", "b/", "d", "b/c"].map(|name| (name.to_string(), 0, 0)));
        assert_eq!((digest.len(), digest.bytes().all(|b| b.is_ascii_hexdigit())), (64, true));
        fs::write(two.path().join("d"), "D").expect("a file");
        assert_ne!(packed(&of(two.path())).await.expect("a context").0, digest, "another content");
        for other in [
            Definition::new("FROM a").context(one.path()).arg("A", "1"),
            Definition::new("FROM a").context(one.path()).arg("A1", ""),
            Definition::new("FROM aA").context(one.path()),
            Definition::new("FROM a"),
        ] {
            assert_ne!(packed(&other).await.expect("a context").0, digest, "{other:?}");
        }
    }

    #[tokio::test]
    async fn much_is_packed_and_what_is_ignored_is_not() {
        let root = tempfile::tempdir().expect("a directory");
        tree(root.path(), &["keep/a", "drop/b", "x.log", "d/x.log"]);
        fs::write(root.path().join("big"), vec![7; 3 * PIECE + 5]).expect("a file");
        fs::write(root.path().join(".dockerignore"), "*.log\ndrop\n").expect("a file");
        let definition = Definition::new("FROM a").context(root.path());
        let (digest, tar) = packed(&definition).await.expect("a context");
        let names: Vec<_> = names(&tar).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["big", "d/", "keep/", "d/x.log", "keep/a"]);
        fs::write(root.path().join("drop/b"), "other").expect("a file");
        assert_eq!(packed(&definition).await.expect("a context").0, digest, "what is left out does not count");
    }

    #[tokio::test]
    async fn what_cannot_be_packed_is_told_by_its_side() {
        let root = tempfile::tempdir().expect("a directory");
        let missing = packed(&Definition::new("FROM a").context(root.path().join("no"))).await.expect_err("missing");
        assert_eq!((missing.kind(), missing.may_have_applied()), (ErrorKind::PathNotFound, false));
        assert!(missing.message().contains("on the host"), "{missing}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).expect("a link");
            let leaves = packed(&Definition::new("FROM a").context(root.path())).await.expect_err("a link");
            assert_eq!((leaves.kind(), leaves.may_have_applied()), (ErrorKind::InvalidArgument, false));
            fs::write(root.path().join(".dockerignore"), "link").expect("a file");
            packed(&Definition::new("FROM a").context(root.path())).await.expect("without the link");
        }
    }
}
