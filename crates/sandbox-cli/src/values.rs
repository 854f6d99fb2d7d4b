//! Values of options.

use sandbox::{NetworkPolicy, Rule, quantity};
use std::{path::PathBuf, time::Duration};

/// One path on the host and one in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) host: PathBuf,
    pub(crate) inside: String,
}

/// `HOST:PATH`, split at the last colon, so that a drive letter stays with the host.
pub(crate) fn upload(text: &str) -> Result<Transfer, String> {
    match text.rsplit_once(':') {
        Some((host, inside)) if !host.is_empty() && !inside.is_empty() => {
            Ok(Transfer { host: host.into(), inside: inside.into() })
        }
        _ => Err("write HOST:PATH, such as ./project:/work".into()),
    }
}

/// `PATH:HOST`, split at the first colon.
pub(crate) fn download(text: &str) -> Result<Transfer, String> {
    match text.split_once(':') {
        Some((inside, host)) if !host.is_empty() && !inside.is_empty() => {
            Ok(Transfer { host: host.into(), inside: inside.into() })
        }
        _ => Err("write PATH:HOST, such as /work/report.xml:report.xml".into()),
    }
}

/// `NAME=VALUE`; the value may be empty and hold further equals signs.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".into()),
    }
}

/// A time above zero: a whole number of seconds, or with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "write a whole number above zero with ms, s, m or h behind it, such as 90s".into())
}

/// Bytes above zero, with k, m or g for powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "write a whole number of bytes above zero, or with k, m or g behind it, such as 512m".into())
}

/// Thousandths of a processor, from a number with at most three decimals.
pub(crate) fn cpus(text: &str) -> Result<u64, String> {
    let millis = quantity::millis(text).filter(|millis| *millis > 0);
    millis.ok_or_else(|| "write a number above zero with at most three decimals, such as 1.5".into())
}

/// A number of processes above zero.
pub(crate) fn pids(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let most = text.parse().ok().filter(|most| digits && *most > 0);
    most.ok_or_else(|| "write a whole number above zero".into())
}

/// A network policy in one word, or `allow=` with rules between commas.
pub(crate) fn network(text: &str) -> Result<NetworkPolicy, String> {
    match text {
        "deny" => Ok(NetworkPolicy::Deny),
        "open" => Ok(NetworkPolicy::Open),
        _ => {
            let rules = text.strip_prefix("allow=").ok_or("write deny, open, or allow=RULE,RULE")?;
            let rules = rules.split(',').filter(|rule| !rule.is_empty());
            let rules: Result<Vec<_>, _> = rules.map(|rule| rule.parse::<Rule>()).collect();
            rules.map(NetworkPolicy::Allow).map_err(|error| match error.hint() {
                Some(hint) => format!("{}; {hint}", error.message()),
                None => error.message().into(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_above_zero() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!((size("512m"), size("7")), (Ok(512 << 20), Ok(7)));
        assert_eq!((cpus("1.5"), cpus("0.001"), pids("3")), (Ok(1500), Ok(1), Ok(3)));
        for wrong in ["", "0", "-1", "-5s", "+5", "x", "1.5h", "99999999999999999999"] {
            assert!(duration(wrong).is_err() && size(wrong).is_err() && pids(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "0.0", "-1", "1.", ".5", "1.2345", "1e3"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn transfers_keep_the_colons_of_the_host() {
        assert_eq!(upload("C:\\x:/work"), Ok(Transfer { host: "C:\\x".into(), inside: "/work".into() }));
        assert_eq!(download("/work/x:C:\\x"), Ok(Transfer { host: "C:\\x".into(), inside: "/work/x".into() }));
        assert!(["", "x", ":x", "x:"].iter().all(|wrong| upload(wrong).is_err() && download(wrong).is_err()));
    }

    #[test]
    fn policies_are_words_or_rules() {
        assert_eq!(network("deny"), Ok(NetworkPolicy::Deny));
        assert_eq!(network("open"), Ok(NetworkPolicy::Open));
        let rules = vec!["example.com:443".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
        assert_eq!(network("allow=example.com:443,192.0.2.0/24"), Ok(NetworkPolicy::Allow(rules)));
        assert_eq!(network("allow="), Ok(NetworkPolicy::Allow(Vec::new())));
        assert!(network("allow=exa mple").unwrap_err().contains("write a host"));
        assert!(network("on").is_err());
    }

    #[test]
    fn pairs_split_at_the_first_equals_sign() {
        assert_eq!(pair("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(pair("A="), Ok(("A".into(), String::new())));
        assert!(pair("A").is_err() && pair("=b").is_err());
    }
}
