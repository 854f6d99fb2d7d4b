//! Definitions of images.

use super::{name, need};
use sandbox_core::{Capability, Definition, Error, Facts, Result, Spec};

/// The definition of a spec, which is all that says what the sandbox is made from.
pub(super) fn of_spec(spec: &Spec, facts: &Facts) -> Result<()> {
    let Some(build) = &spec.build else { return Ok(()) };
    let other = match (&spec.image, &spec.snapshot) {
        (Some(image), _) => format!("the image `{image}`"),
        (None, Some(snapshot)) => format!("the snapshot `{snapshot}`"),
        (None, None) => return definition(build, facts),
    };
    Err(Error::invalid(format!("both {other} and a definition to build"))
        .with_hint("leave one of them out; what a definition begins with is named by its `FROM`"))
}

/// Refuses what no backend could build.
pub(crate) fn definition(definition: &Definition, facts: &Facts) -> Result<()> {
    need(facts, Capability::Build)?;
    let text = &definition.dockerfile;
    name::no_nul(text, "the Dockerfile")?;
    let mut continued = false;
    let mut words = text.lines().filter(|line| !continues(line, &mut continued)).filter_map(keyword);
    match words.find(|word| !word.eq_ignore_ascii_case("ARG")) {
        Some(word) if word.eq_ignore_ascii_case("FROM") => {}
        Some(word) => {
            return Err(Error::invalid(format!(
                "the Dockerfile begins with `{}`, not with `FROM`",
                word.escape_debug()
            ))
            .with_hint("begin it with `FROM` and an image; `ARG` alone may come before"));
        }
        None => {
            let message =
                if text.trim().is_empty() { "the Dockerfile is empty" } else { "the Dockerfile has no `FROM`" };
            return Err(Error::invalid(message)
                .with_hint("begin it with `FROM` and an image; the text itself is needed, not the path of a file"));
        }
    }
    definition.args.iter().try_for_each(|(name, value)| name::variable(name, value))
}

/// The first word of a line that is no comment.
fn keyword(line: &str) -> Option<&str> {
    line.trim_start_matches('\u{feff}').split_whitespace().next().filter(|word| !word.starts_with('#'))
}

/// Whether a line belongs to the instruction of the line before.
fn continues(line: &str, continued: &mut bool) -> bool {
    // Either sign, whatever the file's own is: this only finds the first instruction.
    let comment = line.trim_start().starts_with('#');
    std::mem::replace(continued, !comment && line.trim_end().ends_with(['\\', '`']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;

    fn check(text: &str) -> Result<()> {
        definition(&Definition::new(text), &Facts::new("test").native([Capability::Build]))
    }

    #[test]
    fn a_dockerfile_begins_with_from() {
        for fine in [
            "FROM a",
            "\n# c\n\n  from a AS b\nRUN x\n",
            "ARG V=1\narg W\nFROM a:$V",
            "ARG V=\\\n  RUN\nFROM a",
            "\u{feff}FROM a",
        ] {
            check(fine).expect(fine);
        }
        for (wrong, word) in [
            ("", "is empty"),
            (" \n\t\n", "is empty"),
            ("# FROM a\n", "no `FROM`"),
            ("ARG A\n", "no `FROM`"),
            ("RUN x\nFROM a", "`RUN`"),
            ("./Dockerfile", "`./Dockerfile`"),
            ("FROM a\0", "NUL"),
        ] {
            let error = check(wrong).expect_err(wrong);
            assert!(error.kind() == ErrorKind::InvalidArgument && error.hint().is_some(), "{wrong:?}: {error:?}");
            assert!(error.message().contains(word), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn names_of_arguments_are_names() {
        let facts = Facts::new("test").native([Capability::Build]);
        for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0")] {
            let error = definition(&Definition::new("FROM a").arg(name, value), &facts).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        definition(&Definition::new("FROM a").arg("A", "b=c"), &facts).expect("an argument");
    }
}
