//! `COPY`: files of the context into those of the image.

use crate::{
    fs::{Fs, FsError, Kind, What, Who},
    program::join,
};
use sandbox_core::{FileInfo, FileKind};

/// Copies what is named, to below a directory or to a file; says why it cannot.
pub(super) fn copy(context: &Fs, from: &[String], image: &mut Fs, cwd: &str, to: &str, now: i64) -> Result<(), String> {
    let (dest, root) = (join(cwd, to), Who::ROOT);
    let is_directory =
        |fs: &Fs, path: &str| fs.stat(path, true, root).is_ok_and(|info| info.kind == FileKind::Directory);
    let into = from.len() > 1 || to.ends_with('/') || matches!(to, "." | "..") || is_directory(image, &dest);
    if from.len() > 1 && !to.ends_with('/') {
        return Err("where several are copied, the target is a directory and ends with a `/`".into());
    }
    for named in from {
        let source = inside(named).ok_or_else(|| format!("`{named}` is outside of the context"))?;
        let found = context.stat(&source, true, root);
        let found = found.map_err(|_| format!("`{named}` is not in the context, or its `.dockerignore` names it"))?;
        let name = source.rsplit('/').next().unwrap_or_default();
        let target = match found.kind {
            FileKind::Directory => dest.clone(),
            _ if into => format!("{}/{name}", dest.trim_end_matches('/')),
            _ => dest.clone(),
        };
        one(context, &source, &found, image, &target, now)
            .map_err(|error| format!("`{named}`: {}", error.what.words()))?;
    }
    Ok(())
}

fn one(context: &Fs, source: &str, info: &FileInfo, image: &mut Fs, target: &str, now: i64) -> Result<(), FsError> {
    let root = Who::ROOT;
    match info.kind {
        FileKind::Directory => {
            image.make_dirs(target, root, now)?;
            for entry in context.list(source, root)? {
                let below = |path: &str| format!("{}/{}", path.trim_end_matches('/'), entry.name);
                one(context, &below(source), &entry, image, &below(target), now)?;
            }
            Ok(())
        }
        FileKind::Symlink => {
            match image.remove(target, false, root, now) {
                Err(FsError { what: What::NotFound, .. }) => {}
                removed => removed?,
            }
            image.make(target, Kind::Link(info.target.clone().unwrap_or_default()), 0o777, root, now)
        }
        _ => {
            image.replace(target, context.read(source, root)?, Some(info.meta.mode), root, now)?;
            image.set_meta(target, None, Some((0, 0)), Some(info.meta.mtime), root)
        }
    }
}

/// A path of the context from its root on; `None` where it leaves it.
fn inside(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Tree;
    use bytes::Bytes;
    use std::sync::Arc;

    fn fs(files: &[&str]) -> Fs {
        let mut fs = Fs::new(Arc::new(Tree::new(0)), u64::MAX);
        for path in files {
            fs.write(path, Bytes::from(path.to_string()).into(), Some(0o640), Who::ROOT, 5).expect("a file");
            fs.set_meta(path, None, Some((7, 7)), None, Who::ROOT).expect("an owner");
        }
        fs
    }

    fn read(fs: &Fs, path: &str) -> Option<String> {
        let content = fs.read(path, Who::ROOT).ok()?;
        Some(String::from_utf8_lossy(&content.whole()).into_owned())
    }

    #[test]
    fn files_and_directories_go_where_docker_puts_them() {
        let context = fs(&["/a", "/d/b", "/d/e/c"]);
        for (from, to, there) in [
            (vec!["a"], "x", vec![("/w/x", "/a")]),
            (vec!["./a"], "x/", vec![("/w/x/a", "/a")]),
            (vec!["/a"], ".", vec![("/w/a", "/a")]),
            (vec!["d"], "x", vec![("/w/x/b", "/d/b"), ("/w/x/e/c", "/d/e/c")]),
            (vec!["d/b", "a"], "/t/", vec![("/t/b", "/d/b"), ("/t/a", "/a")]),
            (vec!["."], "/t", vec![("/t/a", "/a"), ("/t/d/e/c", "/d/e/c")]),
        ] {
            let mut image = fs(&["/w/there"]);
            let from: Vec<_> = from.into_iter().map(str::to_string).collect();
            copy(&context, &from, &mut image, "/w", to, 9).unwrap_or_else(|why| panic!("{from:?} {to}: {why}"));
            for (path, content) in there {
                assert_eq!(read(&image, path).as_deref(), Some(content), "{from:?} {to} {path}");
                let meta = image.stat(path, false, Who::ROOT).expect("a file").meta;
                assert_eq!((meta.mode, meta.uid), (0o640, 0), "{path}");
            }
        }
    }

    #[test]
    fn what_cannot_be_copied_is_told() {
        let (context, mut image) = (fs(&["/a", "/b"]), fs(&["/w/file"]));
        for (from, to, word) in [
            (vec!["no"], "x", "`no`"),
            (vec!["../a"], "x", "outside"),
            (vec!["a", "b"], "x", "ends with"),
            (vec!["a"], "file/x", "`a`"),
        ] {
            let from: Vec<_> = from.into_iter().map(str::to_string).collect();
            let why = copy(&context, &from, &mut image, "/w", to, 9).expect_err(to);
            assert!(why.contains(word), "{why}");
        }
    }
}
