//! Which files of a tree are meant, and what became of them.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use sandbox_core::{Error, Result};

/// Which files of a tree are meant. Globs are matched against paths below the tree's root; `*` stops at `/`, `**` does not.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TreeOptions {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl TreeOptions {
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only files that match this glob or another included one.
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.include.push(glob.into());
        self
    }

    /// No file that matches this glob, and nothing below a directory that does. Exclusion wins.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    pub(super) fn compile(&self) -> Result<Filter> {
        let set = |globs: &[String]| {
            let mut set = GlobSetBuilder::new();
            for glob in globs {
                let compiled = GlobBuilder::new(glob).literal_separator(true).build();
                set.add(compiled.map_err(|e| Error::invalid(format!("`{glob}` is not a glob")).with_source(e))?);
            }
            set.build().map_err(|e| Error::invalid("the globs are too large").with_source(e))
        };
        let include = if self.include.is_empty() { None } else { Some(set(&self.include)?) };
        Ok(Filter { include, exclude: set(&self.exclude)? })
    }
}

pub(super) struct Filter {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Filter {
    /// Whether a path, or a directory above it, is excluded.
    pub(super) fn excludes(&self, path: &str) -> bool {
        !self.exclude.is_empty()
            && path
                .char_indices()
                .filter(|(_, c)| *c == '/')
                .map(|(i, _)| &path[..i])
                .chain([path])
                .any(|p| self.exclude.is_match(p))
    }

    /// Whether a file is meant.
    pub(super) fn takes_file(&self, path: &str) -> bool {
        !self.excludes(path) && self.include.as_ref().is_none_or(|include| include.is_match(path))
    }

    /// Whether a directory is made for its own sake. With includes, directories come with the files in them.
    pub(super) fn takes_dir(&self, path: &str) -> bool {
        !self.excludes(path) && self.include.as_ref().is_none_or(|include| include.is_match(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_wins_and_covers_what_is_below() {
        let filter = TreeOptions::new().include("**/*.py").exclude("target").exclude("**/secret.py").compile().unwrap();
        assert!(filter.takes_file("a.py") && filter.takes_file("a/b.py"));
        assert!(!filter.takes_file("a.rs") && !filter.takes_file("target/a.py") && !filter.takes_file("a/secret.py"));
        assert!(TreeOptions::new().include("[").compile().is_err());
    }
}
