//! The grammar of data source names: `scheme://image?parameter=value&parameter=value`.
//!
//! Images are not hosts, so types for URLs misread them: `python:3.12-slim` has no port, `img@sha256:…` no user. Everything
//! between `://` and the first `?` is the image. In values, `%` escapes a byte.

use sandbox_core::{Amount, Error, Isolation, NetworkPolicy, Resource, Result, Spec};
use std::time::Duration;

/// A DSN, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dsn {
    pub(crate) scheme: String,
    pub(crate) image: Option<String>,
    pub(crate) parameters: Vec<(String, String)>,
}

impl Dsn {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| {
            Error::invalid(format!("this is not a DSN: {why}")).with_hint("write `scheme://image?parameter=value`")
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("`://` is missing".into()))?;
        self::scheme(scheme)?;
        let (image, query) = rest.split_once('?').map_or((rest, None), |(image, query)| (image, Some(query)));
        if image.contains(|c: char| c.is_whitespace() || c.is_control() || "#\\".contains(c)) {
            return Err(wrong(format!("`{}` is not an image", image.escape_debug())));
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
            // What has no name is not shown: it may be a secret.
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong("a parameter has no `=` and value".into()))?;
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
                return Err(wrong("the name of a parameter is letters, digits, `_`, `-` and `.`".into()));
            }
            if parameters.iter().any(|(other, _)| other == name) {
                return Err(wrong(format!("parameter `{name}` is given twice")));
            }
            parameters.push((
                name.into(),
                unescaped(value).ok_or_else(|| wrong(format!("the value of `{name}` has a broken escape")))?,
            ));
        }
        let image = (!image.is_empty()).then(|| image.into());
        Ok(Self { scheme: scheme.into(), image, parameters })
    }
}

/// What may stand before `://`.
pub(crate) fn scheme(scheme: &str) -> Result<()> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    if scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.bytes().all(fine) {
        return Ok(());
    }
    Err(Error::invalid(format!("`{}` is not a scheme", scheme.escape_debug()))
        .with_hint("schemes are lowercase letters, digits, `+`, `-` and `.`, a letter first"))
}

/// Parameters that mean the same on every backend.
pub(crate) const COMMON: &[(&str, &str)] = &[
    ("lifetime", "how long sandboxes live, as `600`, `90s`, `10m` or `1h`"),
    ("timeout", "how long a command may run, as `lifetime`"),
    ("network", "`deny` or `open`"),
    ("memory", "a limit in bytes, or with `k`, `m`, `g`"),
    ("cpus", "a limit in processors, as `1.5`"),
    ("pids", "how many processes at most"),
    ("isolation", "the weakest tier: `container`, `gvisor` or `micro-vm`"),
    ("user", "the user of commands"),
    ("cwd", "the working directory"),
];

/// Sets a common parameter; `None` says that it is not one.
pub(crate) fn common(spec: Spec, name: &str, value: &str) -> Option<Result<Spec>> {
    let (_, help) = COMMON.iter().find(|(known, _)| *known == name)?;
    let set = match name {
        "lifetime" => duration(value).map(|d| spec.lifetime(d)),
        "timeout" => duration(value).map(|d| spec.command_timeout(d)),
        "network" => match value {
            "deny" => Some(spec.network(NetworkPolicy::Deny)),
            "open" => Some(spec.network(NetworkPolicy::Open)),
            "learn" => Some(spec.network(NetworkPolicy::Learn)),
            _ => None,
        },
        "memory" => bytes(value).map(|n| amount(spec, Resource::Memory, n)),
        "cpus" => millis(value).map(|n| amount(spec, Resource::Cpu, n)),
        "pids" => digits(value).and_then(|n| u32::try_from(n).ok()).map(|n| {
            let resources = spec.resources.clone().pids(n);
            spec.resources(resources)
        }),
        "isolation" => Isolation::parse(value).map(|tier| spec.isolation(tier)),
        "user" => Some(spec.user(value)),
        "cwd" => Some(spec.cwd(value)),
        _ => None,
    };
    Some(set.ok_or_else(|| {
        Error::invalid(format!("parameter `{name}` cannot be `{}`", value.escape_debug()))
            .with_hint(format!("{name}: {help}"))
    }))
}

fn amount(spec: Spec, resource: Resource, value: u64) -> Spec {
    let resources = spec.resources.clone().set(resource, Amount::new(value));
    spec.resources(resources)
}

/// Seconds, or a number with `s`, `m`, `h`.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text
        .strip_suffix("ms")
        .map_or_else(|| suffixed(text, &[('s', 1000), ('m', 60_000), ('h', 3_600_000)], 1000), |n| (n, 1));
    let number: u64 = digits(number)?;
    number.checked_mul(unit).map(Duration::from_millis)
}

/// Bytes, or a number with `k`, `m`, `g` for powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = suffixed(&lower, &[('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)], 1);
    digits(number)?.checked_mul(unit)
}

/// Thousandths of a number with up to three decimals.
pub fn millis(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 3 {
        return None;
    }
    let part = digits(part)? * [100, 10, 1][part.len() - 1];
    digits(whole)?.checked_mul(1000)?.checked_add(part)
}

/// A sign is no digit: negative amounts are refused, not wrapped.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn suffixed<'a>(text: &'a str, units: &[(char, u64)], plain: u64) -> (&'a str, u64) {
    units.iter().find_map(|(c, unit)| text.strip_suffix(*c).map(|number| (number, *unit))).unwrap_or((text, plain))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        bytes.push(match b {
            b'%' => {
                let hex = |b: u8| char::from(b).to_digit(16);
                (hex(rest.next()?)? * 16 + hex(rest.next()?)?) as u8
            }
            b => b,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_not_hosts() {
        for (text, image) in [
            ("a+plain://python:3.12-slim?lifetime=600", Some("python:3.12-slim")),
            (
                "a://registry.example:5000/team/img@sha256:0123abcd",
                Some("registry.example:5000/team/img@sha256:0123abcd"),
            ),
            ("fake://", None),
            ("fake://?x=1", None),
        ] {
            assert_eq!(Dsn::parse(text).unwrap().image.as_deref(), image, "{text}");
        }
        let dsn = Dsn::parse("a://b?host=unix%3A%2F%2F%2Frun%2Fd.sock&x=a=b").unwrap();
        assert_eq!(dsn.parameters, [("host".into(), "unix:///run/d.sock".into()), ("x".into(), "a=b".into())]);
    }

    #[test]
    fn what_is_no_dsn_is_refused() {
        for text in
            ["", "docker", "://x", "A://x", "a b://x", "a://x y", "a://x?y", "a://x?y=1&y=2", "a://x?y=%2", "a://x#f"]
        {
            assert!(Dsn::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_have_units() {
        let s = Duration::from_secs;
        assert_eq!(
            (duration("90"), duration("90s"), duration("2m"), duration("1h")),
            (Some(s(90)), Some(s(90)), Some(s(120)), Some(s(3600)))
        );
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(
            (bytes("10"), bytes("2K"), bytes("512m"), bytes("1g")),
            (Some(10), Some(2048), Some(512 << 20), Some(1 << 30))
        );
        assert_eq!(
            (millis("2"), millis("1.5"), millis("0.25"), millis("0.125")),
            (Some(2000), Some(1500), Some(250), Some(125))
        );
        for wrong in ["", "-1", "+1", "1.5s", "s", "1d", "99999999999999999999h", "0x10"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        assert_eq!(
            (bytes("-1"), bytes("1t"), millis("1."), millis("1.0001"), millis("-1"), millis("+1")),
            (None, None, None, None, None, None)
        );
    }
}
