//! Images from definitions, by the engine's own builder.
//!
//! The Dockerfile goes into the tar of the context under a name of ours, beside a `.dockerignore` that makes the engine take
//! both out again. The image is found by its tag, which is the digest of the definition, and by our label.

use crate::{
    Pull, PullProgress,
    config::Config,
    error::{self, Meaning},
    files, image,
    wire::{self, Link},
};
use bollard::{
    body_try_stream,
    errors::Error as Wire,
    models::ImageInspect,
    query_parameters::{BuildImageOptionsBuilder, RemoveImageOptionsBuilder},
};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use parse_dockerfile::Instruction;
use sandbox_core::{Body, BuildImage, Error, ErrorKind, Result};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// The label of an image of ours: the digest of its definition.
pub(crate) const LABEL: &str = "sandbox.build";
const NAME: &str = "sandbox-build";

/// Whether an image has such a name, which no registry knows.
pub(crate) fn is_name(image: &str) -> bool {
    image.strip_prefix(NAME).is_some_and(|rest| rest.starts_with(':'))
}

/// An image that was built, and is not there any more.
pub(crate) fn not_there(image: &str) -> Error {
    Error::new(ErrorKind::ImageNotFound, format!("the engine has no image {image}"))
        .with_hint("it was built from a definition, and removed since; create by the definition again")
}

/// The name of the image of a definition: found, or built.
pub(crate) async fn image(link: &Link, config: &Config, request: &BuildImage, context: Body) -> Result<String> {
    if !wire::sound(&request.digest) {
        return Err(Error::invalid(format!("{:?} is no digest", request.digest)));
    }
    let name = format!("{NAME}:{}", request.digest);
    let before = found(link, &name, request).await?;
    if before.is_some() && !request.rebuild {
        return Ok(name);
    }
    if config.pull == Pull::Never {
        for base in bases(request) {
            image::present(link, config, &base).await?;
        }
    }
    tracing::info!(image = name, "building an image");
    build(link, config, request, &name, context).await?;
    let built = found(link, &name, request).await?;
    let Some(built) = built else {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("the engine says that it has built {name}, and has it not"),
        ));
    };
    tracing::info!(image = name, "built the image");
    if let Some(old) = before.and_then(|before| before.id).filter(|old| built.id.as_ref() != Some(old)) {
        forget(link, &old).await;
    }
    Ok(name)
}

/// The image with this name, if it is ours.
async fn found(link: &Link, name: &str, request: &BuildImage) -> Result<Option<ImageInspect>> {
    match link.docker.inspect_image(name).await {
        Ok(found) => {
            let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
            let ours = labels.and_then(|labels| labels.get(LABEL)).is_some_and(|label| *label == request.digest);
            Ok(ours.then_some(found))
        }
        Err(wire) if error::status(&wire) == 404 => Ok(None),
        Err(wire) => Err(error::fault("looking for the image", Meaning::IMAGE, wire)),
    }
}

/// Takes the image away whose name another one has now, unless somebody gave it a name of his own or uses it.
async fn forget(link: &Link, id: &str) {
    let Ok(old) = link.docker.inspect_image(id).await else { return };
    if old.repo_tags.is_some_and(|tags| !tags.is_empty()) {
        return;
    }
    let options = RemoveImageOptionsBuilder::default().build();
    if let Err(error) = link.docker.remove_image(id, Some(options), None).await {
        tracing::debug!(%error, id, "the image before a rebuild stays");
    }
}

/// Dropping this ends the build: the engine stops it, and removes its container, when the request's connection closes.
async fn build(link: &Link, config: &Config, request: &BuildImage, name: &str, context: Body) -> Result<()> {
    let dockerfile = format!(".sandbox-dockerfile-{}", request.digest);
    let (arguments, labels): (HashMap<_, _>, HashMap<_, _>) =
        (request.args.clone().into_iter().collect(), [(LABEL.to_string(), request.digest.clone())].into());
    let mut options = BuildImageOptionsBuilder::default()
        .dockerfile(&dockerfile)
        .t(name)
        .nocache(request.rebuild)
        .rm(true)
        .forcerm(true)
        .buildargs(&arguments)
        .labels(&labels);
    if config.pull == Pull::Always {
        options = options.pull("true");
    }
    let failed = Arc::new(Mutex::new(None));
    let head = head(&dockerfile, &request.dockerfile);
    let pieces = stream::iter([Ok(head)]).chain(files::pieces(context, Arc::clone(&failed)));
    let mut reports = link.docker.build_image(options.build(), None, Some(body_try_stream(pieces))).boxed();
    let mut step = Progress::default();
    let built = loop {
        let Some(report) = reports.next().await else { break Ok(()) };
        let report = match report {
            Ok(report) => report,
            Err(wire) => break Err(step.failed(wire)),
        };
        if let Some(detail) = report.error_detail {
            let error = detail.message.unwrap_or_else(|| "the engine does not say why".into());
            break Err(step.failed(Wire::DockerStreamError { error }));
        }
        if let (Some(tell), Some(status)) = (&config.progress, report.status) {
            let bytes = report.progress_detail.unwrap_or_default();
            let unsigned = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
            let (current, total) = (unsigned(bytes.current), unsigned(bytes.total));
            tell(&PullProgress { image: step.base().to_string(), layer: report.id, status, current, total });
        }
        if let Some(text) = &report.stream {
            tracing::trace!(image = name, text, "building");
            step.heard(text);
        }
    };
    drop(reports);
    // What broke the source is the cause of whatever the engine says of a broken stream.
    match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => built,
    }
}

/// How far a build has come, by what the engine says of it.
#[derive(Debug, Default)]
struct Progress {
    number: usize,
    step: Option<String>,
    wrote: String,
}

impl Progress {
    fn heard(&mut self, text: &str) {
        if let Some(step) = begun(text, self.number + 1) {
            *self = Self { number: self.number + 1, step: Some(step.into()), wrote: String::new() };
        } else if !text.starts_with(" ---> ") && !text.starts_with("Removing intermediate container ") {
            self.wrote.push_str(text);
            let much = self.wrote.len().saturating_sub(KEPT);
            let much = (much..=self.wrote.len()).find(|at| self.wrote.is_char_boundary(*at)).unwrap_or(0);
            self.wrote.drain(..much);
        }
    }

    /// The image that the step begins with; empty where the step is another one.
    fn base(&self) -> &str {
        let mut words = self.step.as_deref().unwrap_or_default().split_whitespace();
        match words.next() {
            Some(word) if word.eq_ignore_ascii_case("FROM") => words.find(|word| !word.starts_with("--")).unwrap_or(""),
            _ => "",
        }
    }

    fn failed(&self, wire: Wire) -> Error {
        let text = match &wire {
            Wire::DockerStreamError { error } => error.clone(),
            Wire::DockerResponseServerError { message, status_code: 400..=500 } => message.clone(),
            _ => return error::fault("building the image", Meaning::IMAGE, wire),
        };
        let lower = text.to_ascii_lowercase();
        if NO_DOCKERFILE.iter().any(|fragment| lower.contains(fragment)) {
            return Error::invalid(format!("the Dockerfile cannot be read: {}", text.trim()))
                .with_hint("correct the line")
                .with_source(wire);
        }
        let Some(step) = &self.step else {
            return error::fault("building the image", Meaning::IMAGE, wire).applied(false);
        };
        if !self.base().is_empty() {
            return image::pull_failed(self.base(), wire);
        }
        let why = match text.rsplit_once("returned a non-zero code: ") {
            Some((_, code)) => format!("it ended with code {}", code.trim()),
            None => text,
        };
        BuildImage::step_failed(step, &why, &self.wrote).with_source(wire)
    }
}

/// The text of the step with this number, where the engine says that it begins.
fn begun(text: &str, number: usize) -> Option<&str> {
    let rest = text.strip_prefix("Step ")?.strip_prefix(&number.to_string())?.strip_prefix('/')?;
    let (all, step) = rest.split_once(" : ")?;
    all.parse::<usize>().ok().map(|_| step.trim())
}

/// The images that a definition begins with, as far as its text tells: for where none may be pulled.
fn bases(request: &BuildImage) -> Vec<String> {
    // What cannot be read is for the engine to refuse.
    let Ok(all) = parse_dockerfile::parse(&request.dockerfile) else { return Vec::new() };
    let (mut variables, mut stages, mut found) = (BTreeMap::new(), Vec::<String>::new(), Vec::new());
    for instruction in &all.instructions {
        match instruction {
            Instruction::Arg(arg) if stages.is_empty() => {
                let (name, default) = arg.arguments.value.split_once('=').unwrap_or((&arg.arguments.value, ""));
                let value = request.args.get(name.trim()).map_or(default, String::as_str);
                variables.insert(name.trim().to_string(), value.trim_matches(['"', '\'']).to_string());
            }
            Instruction::From(from) => {
                found.push((from.image.value.to_string(), stages.clone()));
                stages.push(from.as_.as_ref().map_or(String::new(), |(_, name)| name.value.to_ascii_lowercase()));
            }
            Instruction::Copy(copy) => {
                let from = copy.options.iter().find(|flag| flag.name.value == "from");
                let value = from.and_then(|flag| flag.value.as_ref()).map(|value| value.value.to_string());
                found.extend(value.filter(|name| name.parse::<usize>().is_err()).map(|name| (name, stages.clone())));
            }
            _ => {}
        }
    }
    let images = found.into_iter().filter_map(|(mut image, stages)| {
        for (name, value) in &variables {
            image = image.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        let known = image == "scratch" || image.contains('$') || stages.contains(&image.to_ascii_lowercase());
        (!known && image::reference(&image).is_ok()).then_some(image)
    });
    images.collect()
}

/// The beginning of the tar: the Dockerfile, and what makes the engine leave it out.
fn head(name: &str, text: &str) -> Bytes {
    let mut out = BytesMut::new();
    member(&mut out, name, text.as_bytes());
    member(&mut out, ".dockerignore", format!("{name}\n.dockerignore\n").as_bytes());
    out.freeze()
}

fn member(out: &mut BytesMut, name: &str, content: &[u8]) {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    for (at, text) in [
        (100, "0000644\0".to_string()),
        (108, "0000000\0".into()),
        (116, "0000000\0".into()),
        (124, format!("{:011o}\0", content.len())),
        (136, "00000000000\0".into()),
        (148, "        ".into()),
        (156, "0".into()),
        (257, "ustar\x0000".into()),
    ] {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.put_slice(&header);
    out.put_slice(content);
    out.put_bytes(0, content.len().next_multiple_of(BLOCK) - content.len());
}

/// What the engine says of a text that it cannot read.
const NO_DOCKERFILE: &[&str] =
    &["parse error", "unknown instruction", "the dockerfile (", "no build stage in current context"];
const BLOCK: usize = 512;
/// Bytes of a step's output that are held.
const KEPT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> BuildImage {
        BuildImage::new(text, "0f")
    }

    #[test]
    fn the_head_is_two_members() {
        let name = format!(".sandbox-dockerfile-{}", "0".repeat(64));
        let head = head(&name, "FROM a\n");
        let mut archive = tar::Archive::new(&head[..]);
        let members: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
                (entry.path().unwrap().display().to_string(), text)
            })
            .collect();
        let ignored = format!("{name}\n.dockerignore\n");
        assert_eq!(members, [(name, "FROM a\n".to_string()), (".dockerignore".to_string(), ignored)]);
    }

    #[test]
    fn bases_are_what_has_to_be_there() {
        let mut request = of_text(
            "ARG V=1\nARG W\nFROM a:$V AS one\nFROM b:${W}\nFROM one\nFROM scratch\nCOPY --from=one x y\n\
             COPY --from=0 x y\nCOPY --from=c:2 x y\nRUN echo FROM d\n",
        );
        request.args.insert("W".into(), "9".into());
        assert_eq!(bases(&request), ["a:1", "b:9", "c:2"]);
        assert_eq!(bases(&of_text("FROM $UNSET\n")), [""; 0]);
        assert_eq!(bases(&of_text("FETCH x\n")), [""; 0]);
    }

    #[test]
    fn steps_are_followed_and_failures_told() {
        let said = |error: &str| Wire::DockerStreamError { error: error.into() };
        let mut progress = Progress::default();
        assert_eq!(progress.failed(said("dockerfile parse error line 2: x")).kind(), ErrorKind::InvalidArgument);
        progress.heard("Step 1/3 : FROM nope:1\n");
        let error = progress.failed(said("pull access denied for nope, repository does not exist"));
        assert!(error.kind() == ErrorKind::ImageNotFound && error.message().contains("nope:1"), "{error}");
        let error = progress.failed(said("Get \"https://r/v2/\": dial tcp: lookup r: no such host"));
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable);
        for text in [" ---> 0f\n", "Step 2/3 : RUN x\n", " ---> Running in 1\n", "Step 7/9 : no step\n", "boom\n"] {
            progress.heard(text);
        }
        let error = progress.failed(said("The command '/bin/sh -c x' returned a non-zero code: 3"));
        assert_eq!(error.kind(), ErrorKind::CreateFailed);
        let words = "step `RUN x` of the definition failed: it ended with code 3; it wrote: Step 7/9 : no step | boom";
        assert_eq!(error.message(), words);
        let copied = progress.failed(said("COPY failed: no source files were specified"));
        assert!(copied.kind() == ErrorKind::CreateFailed && copied.message().contains("no source files"), "{copied}");
        let cut = progress.failed(Wire::IOError { err: std::io::ErrorKind::BrokenPipe.into() });
        assert_eq!(cut.kind(), ErrorKind::ConnectionLost);
    }
}
