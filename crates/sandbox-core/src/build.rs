//! Images that are made from a definition.

use crate::{Error, ErrorKind};
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// What an image is made from: the text of a Dockerfile, and what it copies from this host. See
/// [`Spec::build`](crate::Spec::build). `BUILD`.
///
/// ```
/// use sandbox_core::{Definition, Spec};
///
/// let tools = Definition::new("FROM python:3.13-slim\nARG TOOL\nRUN pip install $TOOL\nCOPY tests /tests\n")
///     .context("./project")
///     .arg("TOOL", "pytest");
/// let spec = Spec::new().build(tools);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Definition {
    /// The text of the Dockerfile. A file of that name in the context is a file like any other.
    pub dockerfile: String,
    /// The directory of this host that `COPY` takes from, without what its `.dockerignore` names; `None` is an empty one.
    pub context: Option<PathBuf>,
    /// Values for `ARG`. They may end up in the image's history: no place for secrets.
    pub args: BTreeMap<String, String>,
    /// Whether it is built also where its image is there.
    pub rebuild: bool,
}

impl Definition {
    /// A definition without a context.
    pub fn new(dockerfile: impl Into<String>) -> Self {
        Self { dockerfile: dockerfile.into(), context: None, args: BTreeMap::new(), rebuild: false }
    }

    /// Sets the directory of this host that `COPY` takes from.
    pub fn context(mut self, directory: impl Into<PathBuf>) -> Self {
        self.context = Some(directory.into());
        self
    }

    /// Sets the value of an `ARG`.
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.args.insert(name.into(), value.into());
        self
    }

    /// Builds it also where its image is there.
    pub fn rebuild(mut self) -> Self {
        self.rebuild = true;
        self
    }
}

/// Values of arguments are not shown.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("dockerfile", &self.dockerfile)
            .field("context", &self.context)
            .field("args", &self.args.keys().collect::<Vec<_>>())
            .field("rebuild", &self.rebuild)
            .finish()
    }
}

/// Builds an image. See [`Backend::build`](crate::Backend::build).
#[derive(Clone)]
#[non_exhaustive]
pub struct BuildImage {
    /// The text of the Dockerfile.
    pub dockerfile: String,
    /// Values for `ARG`.
    pub args: BTreeMap<String, String>,
    /// What names the definition: 64 hexadecimal digits, of the Dockerfile, the arguments and the bytes of the context.
    pub digest: String,
    /// Whether it is built also where its image is there.
    pub rebuild: bool,
}

impl BuildImage {
    /// A definition by its text and its digest.
    pub fn new(dockerfile: impl Into<String>, digest: impl Into<String>) -> Self {
        Self { dockerfile: dockerfile.into(), args: BTreeMap::new(), digest: digest.into(), rebuild: false }
    }

    /// The error of a step that failed: `create-failed`, with the step, why, and the end of what it wrote, on one line.
    pub fn step_failed(step: &str, why: &str, output: &str) -> Error {
        let lines: Vec<_> = output.lines().map(plain).filter(|line| !line.is_empty()).collect();
        let all = lines.join(" | ");
        let from = all.char_indices().rev().nth(OUTPUT - 1).map_or(0, |(at, _)| at);
        let wrote = match &all[from..] {
            "" => "it wrote nothing".to_string(),
            tail if from == 0 => format!("it wrote: {tail}"),
            tail => format!("the end of what it wrote: {tail}"),
        };
        let message = format!("step `{}` of the definition failed: {}; {wrote}", plain(step), plain(why));
        Error::new(ErrorKind::CreateFailed, message).with_hint("correct the step, or what it needs").applied(false)
    }
}

/// Values of arguments are not shown.
impl fmt::Debug for BuildImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildImage")
            .field("dockerfile", &self.dockerfile)
            .field("args", &self.args.keys().collect::<Vec<_>>())
            .field("digest", &self.digest)
            .field("rebuild", &self.rebuild)
            .finish()
    }
}

/// A text without control characters, and without what colours it on terminals.
fn plain(text: &str) -> String {
    let (mut out, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            let _ = chars.by_ref().find(|c| ('@'..='~').contains(c));
        } else if !c.is_control() {
            out.push(c);
        }
    }
    out.trim().to_string()
}

/// Characters of a failed step's output that its error has.
const OUTPUT: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_arguments_are_not_shown() {
        let definition = Definition::new("FROM a").arg("NAME", "hunter2").context("/ctx");
        let mut request = BuildImage::new("FROM a", "0f");
        request.args.clone_from(&definition.args);
        for shown in [format!("{definition:?}"), format!("{request:?}")] {
            assert!(shown.contains("NAME") && shown.contains("FROM a") && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_failed_step_is_told_on_one_line_with_the_end_of_its_output() {
        let error = BuildImage::step_failed("RUN x", "code 3", "one\n\n\u{1b}[31mtwo\u{1b}[0m\r\n");
        assert_eq!(error.kind(), ErrorKind::CreateFailed);
        assert_eq!(error.message(), "step `RUN x` of the definition failed: code 3; it wrote: one | two");
        assert!(BuildImage::step_failed("RUN x", "code 3", "\n").message().ends_with("it wrote nothing"));
        let long = BuildImage::step_failed("RUN x", "code 3", &format!("{}end", "ä".repeat(5000)));
        assert!(long.message().ends_with("äend") && long.message().contains("the end of what it wrote"));
        assert_eq!(long.message().chars().filter(|c| *c == 'ä').count(), OUTPUT - 3);
    }
}
