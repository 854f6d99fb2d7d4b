//! `.dockerignore`: what of a directory is no part of a build's context.
//!
//! The rules are Docker's: a pattern is matched against the path below the context's root and against each directory above
//! it, the last one that matches decides, and `!` takes in again what was left out before.

use super::{host::Source, options::Choice};
use globset::{GlobBuilder, GlobMatcher};
use sandbox_core::{Error, ErrorKind, Result};
use std::path::Path;

/// The name of the file, which itself is never sent.
pub(super) const NAME: &str = ".dockerignore";

/// The rules of a context.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    matcher: GlobMatcher,
    takes_in: bool,
}

impl Ignored {
    /// Those of a directory of the host; none where the file is not there.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let path = root.join(NAME);
        let mut source = match Source::open(&path) {
            Err(error) if error.kind() == ErrorKind::PathNotFound => return Ok(Self::default()),
            source => source?,
        };
        if source.len > LONGEST {
            return Err(Error::invalid(format!("`{}` on the host has more than {LONGEST} bytes", path.display()))
                .with_hint("write fewer patterns"));
        }
        let mut text = Vec::new();
        while let Some(piece) = source.next()? {
            text.extend_from_slice(&piece);
        }
        Self::parse(&String::from_utf8_lossy(&text))
            .map_err(|error| Error::invalid(format!("`{}` on the host: {}", path.display(), error.message())))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines().filter(|line| !line.starts_with('#')) {
            let (takes_in, pattern) = match line.trim().strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, line.trim()),
            };
            let Some(glob) = cleaned(pattern) else { continue };
            let matcher = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
            let matcher = matcher.map_err(|_| Error::invalid(format!("`{pattern}` is not a pattern")))?;
            rules.push(Rule { matcher: matcher.compile_matcher(), takes_in });
        }
        Ok(Self { rules })
    }

    fn ignores(&self, path: &Path) -> bool {
        let hit = |rule: &Rule| path.ancestors().any(|at| !at.as_os_str().is_empty() && rule.matcher.is_match(at));
        let last = self.rules.iter().rev().find(|rule| hit(rule));
        path == Path::new(NAME) || last.is_some_and(|rule| !rule.takes_in)
    }
}

impl Choice for Ignored {
    fn excludes(&self, path: &Path, _: bool) -> bool {
        // What is below may be taken in again.
        self.ignores(path) && !self.rules.iter().any(|rule| rule.takes_in)
    }

    fn takes(&self, path: &Path, _: bool) -> bool {
        !self.ignores(path)
    }
}

/// The pattern as a glob below the root; `None` where it matches nothing.
fn cleaned(pattern: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return None;
    }
    let (mut glob, mut chars) = (String::new(), parts.join("/"));
    // Braces mean nothing to Docker.
    let mut escaped = false;
    for c in std::mem::take(&mut chars).chars() {
        match c {
            '{' | '}' if !escaped => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    Some(glob)
}

/// In bytes.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(text: &str, path: &str) -> bool {
        !Ignored::parse(text).expect("rules").takes(Path::new(path), false)
    }

    #[test]
    fn patterns_mean_what_they_mean_to_docker() {
        for (text, path, out) in [
            ("target", "target", true),
            ("target", "target/a/b", true),
            ("target", "src/target", false),
            ("/target/", "target/a", true),
            ("./a/../target", "target", true),
            ("*.log", "a.log", true),
            ("*.log", "d/a.log", false),
            ("**/*.log", "a.log", true),
            ("**/*.log", "d/e/a.log", true),
            ("*/tmp", "a/tmp/b", true),
            ("*/tmp", "a/b/tmp", false),
            ("d/**", "d/a", true),
            ("a?c", "abc", true),
            ("[ab]", "a", true),
            ("[^ab]", "a", false),
            ("[^ab]", "c", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            ("# a\na", "a", true),
            ("#a", "#a", false),
            ("  a  ", "a", true),
            (".", "a", false),
            ("../a", "a", false),
            ("*\n!keep", "keep", false),
            ("*\n!keep", "drop", true),
            ("*\n!d/keep", "d/keep", false),
            ("*\n!d/keep", "d/other", true),
            ("!a\na", "a", true),
            ("d\n!d/e\nd/e/f", "d/e/f", true),
            ("d\n!d/e\nd/e/f", "d/e/g", false),
            ("", ".dockerignore", true),
            ("!.dockerignore", ".dockerignore", true),
            ("", "d/.dockerignore", false),
        ] {
            assert_eq!(left_out(text, path), out, "{text:?} {path}");
        }
    }

    #[test]
    fn a_directory_is_looked_into_where_something_below_may_be_taken_in() {
        let excludes = |text: &str| Ignored::parse(text).expect("rules").excludes(Path::new("d"), true);
        assert!(excludes("d") && !excludes("d\n!d/e") && !excludes("e"));
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        assert_eq!(Ignored::parse("[a").expect_err("no pattern").kind(), ErrorKind::InvalidArgument);
    }
}
