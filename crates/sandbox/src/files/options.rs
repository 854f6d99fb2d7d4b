//! Which files of a tree are meant, and what became of them.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use sandbox_core::{Error, Result};
use std::path::Path;

/// Which files of a tree are meant, and how many come down at most.
///
/// Globs are matched against paths below the tree's root, from its beginning to its end; `*` stops at `/`, `**` does not. A
/// leading `/` or `./` says the same once more. A glob that ends in `/` means directories alone, each with all that is below
/// it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TreeOptions {
    include: Vec<String>,
    exclude: Vec<String>,
    pub(super) max_bytes: u64,
    pub(super) max_entries: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { include: Vec::new(), exclude: Vec::new(), max_bytes: MAX_BYTES, max_entries: MAX_ENTRIES }
    }
}

impl TreeOptions {
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only what matches this glob or another included one: `src/**` is all that is below `src`, and so is `src/`, while `src`
    /// is that entry alone.
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.include.push(glob.into());
        self
    }

    /// Nothing that matches this glob, and nothing below a directory that does. Exclusion wins.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    /// How many bytes of files a download writes to the host at most; more of them are `resource-exhausted`. 64 GiB.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How many files, links and directories a download makes on the host at most; more of them are `resource-exhausted`.
    /// 1 000 000.
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    pub(super) fn compile(&self) -> Result<Filter> {
        let include = if self.include.is_empty() { None } else { Some(Globs::new(&self.include)?) };
        Ok(Filter { include, exclude: Globs::new(&self.exclude)? })
    }
}

/// Which entries of a tree of the host are sent. Paths are below the root, with names as they are.
pub(super) trait Choice {
    /// Whether it is left out, with all that is below it.
    fn excludes(&self, path: &Path, is_dir: bool) -> bool;
    /// Whether it is sent for its own sake.
    fn takes(&self, path: &Path, is_dir: bool) -> bool;
}

impl Choice for Filter {
    fn excludes(&self, path: &Path, is_dir: bool) -> bool {
        Self::excludes(self, path, is_dir)
    }

    fn takes(&self, path: &Path, is_dir: bool) -> bool {
        Self::takes(self, path, is_dir)
    }
}

/// What is meant. Paths are below the root, with names as they are.
#[derive(Debug)]
pub(super) struct Filter {
    include: Option<Globs>,
    exclude: Globs,
}

impl Filter {
    /// Whether it is left out, or a directory that it is in: then nothing below it is taken either.
    pub(super) fn excludes(&self, path: &Path, is_dir: bool) -> bool {
        self.exclude.has(path, is_dir) || above(path).any(|dir| self.exclude.has(dir, true))
    }

    /// Whether it is sent or made for its own sake. With includes, directories come with the files in them.
    pub(super) fn takes(&self, path: &Path, is_dir: bool) -> bool {
        let included =
            |include: &Globs| include.has(path, is_dir) || above(path).any(|dir| include.whole.is_match(dir));
        !self.excludes(path, is_dir) && self.include.as_ref().is_none_or(included)
    }
}

fn above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty())
}

#[derive(Debug)]
struct Globs {
    any: GlobSet,
    /// Those that mean directories with all that is in them.
    whole: GlobSet,
}

impl Globs {
    fn new(globs: &[String]) -> Result<Self> {
        let (mut any, mut whole) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for glob in globs {
            let named = glob.trim_start_matches("./").trim_start_matches('/').trim_end_matches('/');
            if named.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return Err(Error::invalid(format!("the glob `{glob}` matches nothing"))
                    .with_hint("name paths below the tree's root, as in `src/**`; `**` is everything"));
            }
            let compiled = GlobBuilder::new(named).literal_separator(true).build();
            let compiled = compiled.map_err(|e| Error::invalid(format!("`{glob}` is not a glob")).with_source(e))?;
            let set = if glob.ends_with('/') { &mut whole } else { &mut any };
            set.add(compiled);
        }
        let built =
            |set: GlobSetBuilder| set.build().map_err(|e| Error::invalid("the globs are too large").with_source(e));
        Ok(Self { any: built(any)?, whole: built(whole)? })
    }

    fn has(&self, path: &Path, is_dir: bool) -> bool {
        self.any.is_match(path) || is_dir && self.whole.is_match(path)
    }
}

/// What a transfer of a tree moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeReport {
    /// Regular files and links.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// FIFOs, sockets and devices, which are never moved.
    pub skipped: Vec<String>,
}

/// More than any tree that fits where its sandbox ran; less than what a sandbox can make out of nothing.
pub(super) const MAX_BYTES: u64 = 64 << 30;
const MAX_ENTRIES: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(options: TreeOptions, path: &str) -> bool {
        options.compile().expect("globs").takes(Path::new(path), false)
    }

    #[test]
    fn exclusion_wins_and_covers_what_is_below() {
        let options = || TreeOptions::new().include("**/*.py").exclude("target").exclude("**/secret.py");
        for (path, taken) in
            [("a.py", true), ("a/b.py", true), ("a.rs", false), ("target/a.py", false), ("a/secret.py", false)]
        {
            assert_eq!(takes(options(), path), taken, "{path}");
        }
    }

    #[test]
    fn a_root_may_be_said_and_a_slash_means_directories() {
        for glob in ["target", "./target", "/target", "target/", "./target/", "/target/", "target/**"] {
            assert!(!takes(TreeOptions::new().exclude(glob), "target/big"), "{glob}");
            assert!(takes(TreeOptions::new().exclude(glob), "src/target/big"), "{glob}");
        }
        assert!(takes(TreeOptions::new().exclude("target/"), "target"), "a file of that name");
        for glob in ["target/", "/target/", "target/**", "./target/big", "/target/big"] {
            assert!(takes(TreeOptions::new().include(glob), "target/big"), "{glob}");
            assert!(!takes(TreeOptions::new().include(glob), "big"), "{glob}");
        }
        assert!(takes(TreeOptions::new().include("**/src/"), "a/src/b/c"));
        assert!(TreeOptions::new().include("*").compile().expect("a glob").takes(Path::new("d"), true));
    }

    #[test]
    fn what_matches_nothing_is_refused() {
        for glob in ["", "/", "./", ".", "..", "../x", "a//b", "a/./b", "a/../b", "["] {
            let error = TreeOptions::new().exclude(glob).compile().expect_err(glob);
            assert_eq!(error.kind(), sandbox_core::ErrorKind::InvalidArgument, "{glob}");
            assert!(TreeOptions::new().include(glob).compile().is_err(), "{glob}");
        }
    }
}
