//! Having the image.

use crate::{
    build,
    config::{Config, Pull, PullProgress},
    error::{self, Meaning},
    wire::Link,
};
use bollard::{
    errors::Error as Wire,
    models::{CreateImageInfo, ImageInspect},
    query_parameters::CreateImageOptionsBuilder,
};
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result};

/// Texts of pulls that failed, most telling first.
const PULL_TEXTS: &[(&str, ErrorKind)] = &[
    ("toomanyrequests", ErrorKind::RateLimited),
    ("too many requests", ErrorKind::RateLimited),
    ("rate limit", ErrorKind::RateLimited),
    ("no such host", ErrorKind::RegistryUnreachable),
    ("server misbehaving", ErrorKind::RegistryUnreachable),
    ("temporary failure in name resolution", ErrorKind::RegistryUnreachable),
    ("connection refused", ErrorKind::RegistryUnreachable),
    ("connection reset", ErrorKind::RegistryUnreachable),
    ("network is unreachable", ErrorKind::RegistryUnreachable),
    ("no route to host", ErrorKind::RegistryUnreachable),
    ("i/o timeout", ErrorKind::RegistryUnreachable),
    ("timeout exceeded", ErrorKind::RegistryUnreachable),
    ("deadline exceeded", ErrorKind::RegistryUnreachable),
    ("handshake", ErrorKind::RegistryUnreachable),
    ("x509", ErrorKind::RegistryUnreachable),
    ("proxyconnect", ErrorKind::RegistryUnreachable),
    ("bad gateway", ErrorKind::RegistryUnreachable),
    ("service unavailable", ErrorKind::RegistryUnreachable),
    (": eof", ErrorKind::RegistryUnreachable),
    ("pull access denied", ErrorKind::ImageNotFound),
    ("manifest unknown", ErrorKind::ImageNotFound),
    ("not found", ErrorKind::ImageNotFound),
    ("does not exist", ErrorKind::ImageNotFound),
    ("no matching manifest", ErrorKind::ImageNotFound),
    ("unauthorized", ErrorKind::Auth),
    ("no basic auth credentials", ErrorKind::Auth),
    ("authentication required", ErrorKind::Auth),
    ("denied", ErrorKind::ImageNotFound),
];

/// The image, pulled where the configuration says so. Nothing is made of it yet.
pub(crate) async fn present(link: &Link, config: &Config, image: &str) -> Result<ImageInspect> {
    let reference = reference(image)?;
    let built = build::is_name(image);
    if config.pull == Pull::Always && !built {
        pull(link, config, &reference).await?;
    }
    match link.docker.inspect_image(&reference).await {
        Ok(found) => return Ok(found),
        Err(error) if error::status(&error) == 404 && built => return Err(build::not_there(image).with_source(error)),
        Err(error) if error::status(&error) == 404 && config.pull == Pull::Missing => {}
        Err(error) => {
            let kind = error::fault("looking for the image", Meaning::IMAGE, error);
            return Err(match kind.kind() {
                ErrorKind::ImageNotFound => not_there(image).with_source(kind),
                _ => kind,
            });
        }
    }
    pull(link, config, &reference).await?;
    link.docker.inspect_image(&reference).await.map_err(|e| error::fault("looking for the image", Meaning::IMAGE, e))
}

pub(crate) fn not_there(image: &str) -> Error {
    Error::new(ErrorKind::ImageNotFound, format!("the engine has no image {image}, and may not pull it"))
        .with_hint(format!("run `docker pull {image}`, or use Pull::Missing (in a DSN: pull=missing)"))
}

/// Dropping this ends the pull: the engine stops it when the request's connection closes.
async fn pull(link: &Link, config: &Config, reference: &str) -> Result<()> {
    tracing::info!(image = reference, "pulling the image");
    let options = CreateImageOptionsBuilder::default().from_image(reference).build();
    let mut reports = link.docker.create_image(Some(options), None, None);
    while let Some(report) = reports.next().await {
        let report = report.map_err(|error| pull_failed(reference, error))?;
        tracing::trace!(image = reference, layer = report.id, status = report.status, "pulling");
        if let Some(tell) = &config.progress {
            tell(&progress(reference, report));
        }
    }
    tracing::info!(image = reference, "pulled the image");
    Ok(())
}

fn progress(image: &str, report: CreateImageInfo) -> PullProgress {
    let bytes = report.progress_detail.unwrap_or_default();
    let unsigned = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
    PullProgress {
        image: image.into(),
        layer: report.id,
        status: report.status.unwrap_or_default(),
        current: unsigned(bytes.current),
        total: unsigned(bytes.total),
    }
}

pub(crate) fn pull_failed(image: &str, wire: Wire) -> Error {
    let text = match &wire {
        Wire::DockerStreamError { error } => error,
        Wire::DockerResponseServerError { message, .. } => message,
        _ => return error::fault("pulling the image", Meaning::IMAGE, wire),
    };
    let lower = text.to_ascii_lowercase();
    let kind = PULL_TEXTS.iter().find(|(fragment, _)| lower.contains(fragment)).map(|(_, kind)| *kind);
    let hint = match kind {
        Some(ErrorKind::RegistryUnreachable) => {
            format!(
                "the engine's host needs the registry; where it has none, load the image with `docker load` or `docker import` and keep the name {image}"
            )
        }
        Some(ErrorKind::RateLimited) => {
            "wait, or log the engine's host in to the registry and `docker pull` there".into()
        }
        Some(ErrorKind::Auth) => format!("run `docker login` and `docker pull {image}` on the engine's host"),
        _ => format!(
            "check the name {image}; for a private image run `docker login` and `docker pull {image}` on the engine's host"
        ),
    };
    let message = format!("pulling {image}: {}", text.trim());
    Error::new(kind.unwrap_or(ErrorKind::CreateFailed), message).with_hint(hint).with_source(wire).applied(false)
}

/// The name as it goes into requests: with a tag, because without one the engine would pull them all. Names go into paths as
/// they are, so what is no name is refused here.
pub(crate) fn reference(image: &str) -> Result<String> {
    let sound = image.len() <= 512
        && image.starts_with(|c: char| c.is_ascii_alphanumeric())
        && image.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b))
        && !image.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    if !sound {
        return Err(Error::invalid(format!("{image:?} is not the name of an image"))
            .with_hint("write name, name:tag, registry/name:tag or name@sha256:…"));
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    let whole_id = image.len() == 64 && image.bytes().all(|b| b.is_ascii_hexdigit());
    if last.contains([':', '@']) || whole_id { Ok(image.into()) } else { Ok(format!("{image}:latest")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tag_and_stay_one_path() {
        let table = [
            ("busybox", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("host:5000/a/b", "host:5000/a/b:latest"),
            ("host:5000/a/b:2", "host:5000/a/b:2"),
            ("a@sha256:00", "a@sha256:00"),
            ("sha256:00", "sha256:00"),
        ];
        for (image, name) in table {
            assert_eq!(reference(image).unwrap(), name);
        }
        for bad in ["", "../x", "a/../b", "a//b", "a?b", "a#b", "a b", "a%2fb", "-a", "a/", "ä"] {
            assert_eq!(reference(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn failed_pulls_map() {
        use ErrorKind as K;
        let table = [
            ("Get \"https://r/v2/\": dial tcp: lookup r: no such host", K::RegistryUnreachable),
            (
                "Get \"https://r/v2/\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
                K::RegistryUnreachable,
            ),
            ("Get \"https://r/v2/\": EOF", K::RegistryUnreachable),
            ("manifest for busybox:nope not found: manifest unknown: manifest unknown", K::ImageNotFound),
            ("pull access denied for x, repository does not exist or may require 'docker login'", K::ImageNotFound),
            ("toomanyrequests: You have reached your pull rate limit.", K::RateLimited),
            ("unauthorized: authentication required", K::Auth),
            ("write /var/lib/docker/tmp/x: no space left on device", K::CreateFailed),
        ];
        for (text, kind) in table {
            for wire in [
                Wire::DockerStreamError { error: text.into() },
                Wire::DockerResponseServerError { status_code: 500, message: text.into() },
            ] {
                let error = pull_failed("x:1", wire);
                assert_eq!((error.kind(), error.may_have_applied()), (kind, false), "{text}");
                assert!(error.hint().is_some());
            }
        }
    }
}
