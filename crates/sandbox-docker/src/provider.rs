//! `docker+plain://image?…`.

use crate::{Docker, Plain, Pull, discovery};
use sandbox_core::{Error, Parameter, Parameters, Provider, Result};

/// Opens [`Docker::plain`] from a DSN such as `docker+plain://busybox:1?pull=never`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DockerPlain;

impl Provider for DockerPlain {
    type Backend = Plain;

    fn scheme(&self) -> &'static str {
        "docker+plain"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[
            Parameter::new(
                "host",
                "the engine's address, such as unix:///run/docker.sock; default: as Docker's own tools find it",
            ),
            Parameter::new(
                "context",
                "the Docker context that names the engine; default: as Docker's own tools find it",
            ),
            Parameter::new("pull", "when the image is pulled: missing, never or always; default: missing"),
            Parameter::new("runtime", "the engine's runtime for containers; default: the engine's own"),
        ];
        ALL
    }

    fn open(&self, parameters: &Parameters) -> Result<Plain> {
        let mut plain = Docker::plain();
        match (parameters.get("host"), parameters.get("context")) {
            (Some(_), Some(_)) => {
                return Err(
                    Error::invalid("host and context both say where the engine is").with_hint("leave one of them out")
                );
            }
            (Some(host), None) => {
                discovery::parse(host, false)?;
                plain = plain.host(host);
            }
            (None, Some(context)) => plain = plain.context(context),
            (None, None) => {}
        }
        if let Some(pull) = parameters.get("pull") {
            let pull = Pull::parse(pull).ok_or_else(|| {
                Error::invalid(format!("pull={pull} is not a way to pull"))
                    .with_hint("write pull=missing, pull=never or pull=always")
            })?;
            plain = plain.pull(pull);
        }
        if let Some(runtime) = parameters.get("runtime") {
            plain = plain.runtime(runtime);
        }
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;

    fn open(parameters: &[(&str, &str)]) -> Result<Plain> {
        DockerPlain.open(&parameters.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect())
    }

    #[test]
    fn parameters_are_checked() {
        assert!(open(&[]).is_ok());
        assert!(open(&[("host", "unix:///x.sock"), ("pull", "never"), ("runtime", "runc")]).is_ok());
        for bad in [&[("host", "x")][..], &[("pull", "sometimes")], &[("host", "unix:///x"), ("context", "y")]] {
            assert_eq!(open(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
        }
    }

    #[test]
    fn they_take_effect() {
        let text =
            format!("{:?}", open(&[("host", "unix:///x.sock"), ("pull", "never"), ("runtime", "other")]).unwrap());
        for part in ["unix:///x.sock", "Never", "other"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
