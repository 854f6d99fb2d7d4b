//! From the text of a Dockerfile to steps that the fake can carry out.

use super::words;
use parse_dockerfile::{Command, Instruction, Source};
use sandbox_core::{BuildImage, Error, Result};
use std::collections::BTreeMap;

/// What to do, in order.
#[derive(Debug)]
pub(super) struct Recipe {
    /// The image that it begins with.
    pub(super) from: String,
    /// Values of `ARG`s before that, which `ARG`s after it may take up.
    pub(super) global: BTreeMap<String, String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// As it is written.
    pub(super) text: String,
    pub(super) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    Arg(String),
    Env(String),
    Workdir(String),
    User(String),
    Copy {
        from: Vec<String>,
        to: String,
    },
    Exec(Vec<String>),
    Shell(String),
    /// It says something about the image that nobody looks at here.
    Label(String),
}

impl Recipe {
    /// What the fake cannot carry out is refused here, before anything is done.
    pub(super) fn read(request: &BuildImage) -> Result<Self> {
        let text = &*request.dockerfile;
        let all = parse_dockerfile::parse(text).map_err(|error| {
            Error::invalid(format!("the Dockerfile cannot be read, line {}: {error}", error.line()))
                .with_hint("correct the line")
        })?;
        let mut whole = Self { from: String::new(), global: BTreeMap::new(), steps: Vec::new() };
        let mut begun = false;
        for instruction in &all.instructions {
            let (start, read) = read(instruction);
            let line = text[..start.min(text.len())].matches('\n').count() + 1;
            let unknown = |what: &str| {
                Error::unsupported(format!("the fake does not know {what}, in line {line} of the Dockerfile"))
                    .with_hint(
                        "it knows FROM, ARG, ENV, WORKDIR, USER, COPY, RUN and LABEL; leave the line out in tests",
                    )
            };
            let what = match (instruction, read) {
                (Instruction::From(from), _) if !begun && from.options.is_empty() => {
                    begun = true;
                    let global = whole.global.clone();
                    whole.from = words::meant(&from.image.value, &|name| global.get(name).cloned())
                        .map_err(|why| Error::invalid(format!("line {line} of the Dockerfile: {why}")))?;
                    continue;
                }
                (_, Ok(What::Arg(text))) if !begun => {
                    let (name, default) = arg(&text);
                    let value = request.args.get(name).cloned().or_else(|| default.map(str::to_string));
                    whole.global.extend(value.map(|value| (name.to_string(), value)));
                    continue;
                }
                (_, Ok(what)) => what,
                (Instruction::From(_), _) if begun => return Err(unknown("a second FROM")),
                (_, Err(what)) => return Err(unknown(&what)),
            };
            whole.steps.push(Step { text: written(&text[start.min(text.len())..]), what });
        }
        Ok(whole)
    }
}

/// Where an instruction begins, and what it says, or the name of what the fake does not know.
fn read(instruction: &Instruction<'_>) -> (usize, std::result::Result<What, String>) {
    use Instruction as I;
    match instruction {
        I::Arg(one) => (one.arg.span.start, Ok(What::Arg(one.arguments.value.to_string()))),
        I::Env(one) => (one.env.span.start, Ok(What::Env(one.arguments.value.to_string()))),
        I::Workdir(one) => (one.workdir.span.start, Ok(What::Workdir(one.arguments.value.to_string()))),
        I::User(one) => (one.user.span.start, Ok(What::User(one.arguments.value.to_string()))),
        I::Label(one) => (one.label.span.start, Ok(What::Label(one.arguments.value.to_string()))),
        I::Copy(one) => (one.copy.span.start, copy(one)),
        I::Run(one) => {
            let what = match &one.arguments {
                _ if !one.options.is_empty() => Err(format!("RUN --{}", one.options[0].name.value)),
                _ if !one.here_docs.is_empty() => Err("RUN with a here-document".to_string()),
                Command::Exec(argv) => Ok(What::Exec(argv.value.iter().map(|arg| arg.value.to_string()).collect())),
                Command::Shell(text) => Ok(What::Shell(text.value.to_string())),
                _ => Err("this form of RUN".to_string()),
            };
            (one.run.span.start, what)
        }
        I::From(one) => {
            let option = one.options.first().map_or(String::new(), |flag| format!(" --{}", flag.name.value));
            (one.from.span.start, Err(format!("FROM{option}")))
        }
        I::Add(one) => (one.add.span.start, Err("ADD".into())),
        I::Cmd(one) => (one.cmd.span.start, Err("CMD".into())),
        I::Entrypoint(one) => (one.entrypoint.span.start, Err("ENTRYPOINT".into())),
        I::Expose(one) => (one.expose.span.start, Err("EXPOSE".into())),
        I::Healthcheck(one) => (one.healthcheck.span.start, Err("HEALTHCHECK".into())),
        I::Maintainer(one) => (one.maintainer.span.start, Err("MAINTAINER".into())),
        I::Onbuild(one) => (one.onbuild.span.start, Err("ONBUILD".into())),
        I::Shell(one) => (one.shell.span.start, Err("SHELL".into())),
        I::Stopsignal(one) => (one.stopsignal.span.start, Err("STOPSIGNAL".into())),
        I::Volume(one) => (one.volume.span.start, Err("VOLUME".into())),
        _ => (0, Err("an instruction".into())),
    }
}

fn copy(one: &parse_dockerfile::CopyInstruction<'_>) -> std::result::Result<What, String> {
    if let Some(flag) = one.options.first() {
        return Err(format!("COPY --{}", flag.name.value));
    }
    let mut from = Vec::new();
    for source in &one.src {
        match source {
            Source::Path(path) if path.value.contains(['*', '?', '[']) => return Err("COPY with a pattern".into()),
            Source::Path(path) => from.push(path.value.to_string()),
            _ => return Err("COPY with a here-document".into()),
        }
    }
    Ok(What::Copy { from, to: one.dest.value.to_string() })
}

/// The name of an `ARG`, and its default as it is written.
pub(super) fn arg(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, default)) => (name.trim(), Some(default)),
        None => (text.trim(), None),
    }
}

/// An instruction as it is written, with the lines that it goes on in.
fn written(from: &str) -> String {
    let mut text = String::new();
    for line in from.lines() {
        text.push_str(line);
        text.push('\n');
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    text.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;

    fn recipe(text: &str) -> Result<Recipe> {
        Recipe::read(&BuildImage::new(text, "0f"))
    }

    #[test]
    fn a_dockerfile_is_steps() {
        let text = "# a comment\nARG BASE=default\nFROM $BASE\n\nENV A=1 \\\n    B=2\n# more\nLABEL x=y\nWORKDIR /w d\n\
                    COPY a b/ dir/\nCOPY [\"a b\", \"c\"]\nRUN [\"echo\", \"x y\"]\nRUN echo $A | wc\nuser app\n";
        let recipe = recipe(text).expect("a recipe");
        assert_eq!(recipe.from, "default");
        let whats: Vec<_> = recipe.steps.iter().map(|step| &step.what).collect();
        let strings = |all: &[&str]| all.iter().map(|one| one.to_string()).collect::<Vec<_>>();
        let expected = [
            What::Env("A=1     B=2".into()),
            What::Label("x=y".into()),
            What::Workdir("/w d".into()),
            What::Copy { from: strings(&["a", "b/"]), to: "dir/".into() },
            What::Copy { from: strings(&["a b"]), to: "c".into() },
            What::Exec(strings(&["echo", "x y"])),
            What::Shell("echo $A | wc".into()),
            What::User("app".into()),
        ];
        assert_eq!(whats, expected.iter().collect::<Vec<_>>());
        assert_eq!(recipe.steps[0].text, "ENV A=1 \\\n    B=2");
        assert_eq!(recipe.steps[6].text, "RUN echo $A | wc");
    }

    #[test]
    fn what_is_not_known_is_named_with_its_line() {
        for (text, words) in [
            ("FROM a\n\nCMD x\n", ["CMD", "line 3"]),
            ("FROM a\nADD x y\n", ["ADD", "line 2"]),
            ("FROM a\nCOPY --chown=app x y\n", ["COPY --chown", "line 2"]),
            ("FROM a\nCOPY *.txt y\n", ["COPY with a pattern", "line 2"]),
            ("FROM a\nRUN --mount=type=cache x\n", ["RUN --mount", "line 2"]),
            ("FROM --platform=linux/arm64 a\n", ["FROM --platform", "line 1"]),
            ("FROM a\nFROM b\n", ["second FROM", "line 2"]),
        ] {
            let error = recipe(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}: {error:?}");
            assert!(words.iter().all(|word| error.message().contains(word)), "{text}: {error}");
        }
        let error = recipe("FROM a\nFETCH x\n").expect_err("no instruction");
        assert!(error.kind() == ErrorKind::InvalidArgument && error.message().contains("line 2"), "{error}");
    }
}
