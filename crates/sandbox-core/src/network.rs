//! What a sandbox may reach.

use crate::{Capability, Error, Result};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkPolicy {
    /// Nothing at all: no address, no name. `DENY`.
    #[default]
    Deny,
    /// What one of the rules names, and nothing else. No rule at all is `Deny`.
    Allow(Vec<Rule>),
    /// Everything that the provider's network reaches.
    Open,
    /// The same, and what was reached is recorded: see [`Destination`]. `LEARN`.
    Learn,
}

impl NetworkPolicy {
    /// The capabilities that a backend needs to enforce this policy.
    pub fn needs(&self) -> Vec<Capability> {
        match self {
            Self::Open => Vec::new(),
            Self::Learn => vec![Capability::Learn],
            Self::Deny => vec![Capability::Deny],
            Self::Allow(rules) => {
                let mut needs = vec![Capability::Deny];
                for rule in rules {
                    needs.push(rule.target.needs());
                    if rule.ports.is_some() {
                        needs.push(Capability::AllowPort);
                    }
                }
                needs.sort_unstable();
                needs.dedup();
                needs
            }
        }
    }

    /// Whether a connection to this address and port may be made by a sandbox that knows the address by these names.
    pub fn allows<'a>(&self, names: impl IntoIterator<Item = &'a str> + Clone, address: IpAddr, port: u16) -> bool {
        match self {
            Self::Deny => false,
            Self::Open | Self::Learn => true,
            Self::Allow(rules) => rules.iter().any(|rule| rule.allows(names.clone(), address, port)),
        }
    }

    /// Whether this name may be looked up. Where it may not, the question goes nowhere: it could carry data out.
    pub fn resolves(&self, name: &str) -> bool {
        match self {
            Self::Deny => false,
            Self::Open | Self::Learn => true,
            Self::Allow(rules) => rules.iter().any(|rule| rule.target.names(name)),
        }
    }
}

/// Something that may be reached: a target, at some ports or at all.
///
/// Parsed from `example.com`, `*.example.com`, `192.0.2.7`, `2001:db8::7`, `192.0.2.0/24`, each with `:443` or `:8000-8080`
/// behind it; an IPv6 address with a port stands in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// What may be reached.
    pub target: RuleTarget,
    /// At which ports; `None` is all.
    pub ports: Option<PortRange>,
}

impl Rule {
    /// A target at all ports.
    pub fn new(target: RuleTarget) -> Self {
        Self { target, ports: None }
    }

    /// Only at these ports.
    pub fn ports(mut self, ports: PortRange) -> Self {
        self.ports = Some(ports);
        self
    }
}

impl Rule {
    fn allows<'a>(&self, names: impl IntoIterator<Item = &'a str>, address: IpAddr, port: u16) -> bool {
        let at = self.ports.is_none_or(|ports| (ports.first..=ports.last).contains(&port));
        at && (self.target.holds(address) || names.into_iter().any(|name| self.target.names(name)))
    }
}

/// Something that a sandbox reached, or tried to look up, while its policy was [`NetworkPolicy::Learn`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[non_exhaustive]
pub struct Destination {
    /// The name that it was reached by.
    pub name: Option<String>,
    /// Its address; `None` for a name that was only looked up.
    pub address: Option<IpAddr>,
    /// The port; `None` for a name that was only looked up.
    pub port: Option<u16>,
}

impl Destination {
    /// A name that was looked up.
    pub fn name(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), address: None, port: None }
    }

    /// Something that was reached, by a name where one is known.
    pub fn reached(name: Option<String>, address: IpAddr, port: u16) -> Self {
        Self { name, address: Some(address), port: Some(port) }
    }
}

/// Sets what a live sandbox may reach. See [`Instance::set_network`](crate::Instance::set_network).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SetNetwork {
    /// The new policy; checked against the facts.
    pub policy: NetworkPolicy,
}

impl SetNetwork {
    /// A new policy.
    pub fn new(policy: NetworkPolicy) -> Self {
        Self { policy }
    }
}

/// Asks what a sandbox has reached. See [`Instance::destinations`](crate::Instance::destinations).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ListDestinations {}

impl ListDestinations {
    /// The request.
    pub fn new() -> Self {
        Self::default()
    }
}

/// What a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleTarget {
    /// One host by name, in lowercase.
    Host(String),
    /// All hosts below this domain, but not the domain itself.
    Wildcard(String),
    /// One address.
    Address(IpAddr),
    /// All addresses of a network.
    Network(IpAddr, u8),
}

impl RuleTarget {
    /// Whether it is about this name.
    fn names(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        match self {
            Self::Host(host) => *host == name,
            Self::Wildcard(domain) => {
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Address(_) | Self::Network(..) => false,
        }
    }

    /// Whether it is about this address.
    fn holds(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Address(one), address) => *one == address,
            (Self::Network(IpAddr::V4(network), bits), IpAddr::V4(address)) => {
                let rest = u32::MAX.checked_shr((*bits).into()).unwrap_or(0);
                network.to_bits() | rest == address.to_bits() | rest
            }
            (Self::Network(IpAddr::V6(network), bits), IpAddr::V6(address)) => {
                let rest = u128::MAX.checked_shr((*bits).into()).unwrap_or(0);
                network.to_bits() | rest == address.to_bits() | rest
            }
            _ => false,
        }
    }

    fn needs(&self) -> Capability {
        match self {
            Self::Host(_) => Capability::AllowHost,
            Self::Wildcard(_) => Capability::AllowWildcard,
            Self::Address(IpAddr::V4(_)) => Capability::AllowIpv4,
            Self::Address(IpAddr::V6(_)) => Capability::AllowIpv6,
            Self::Network(..) => Capability::AllowCidr,
        }
    }
}

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl PortRange {
    /// Ports from `first` to `last`.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for port zero and for a range that runs backwards.
    pub fn new(first: u16, last: u16) -> Result<Self> {
        if first == 0 || last < first {
            return Err(Error::invalid(format!("ports {first}-{last} are not a range"))
                .with_hint("ports go from 1 to 65535, the lower one first"));
        }
        Ok(Self { first, last })
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("network rule `{text}`: {why}"))
                .with_hint("write a host, `*.domain`, an address or a network, with `:port` or `:from-to` behind it")
        };
        let (target, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or_else(|| wrong("`]` is missing"))?;
                match rest.strip_prefix(':') {
                    Some(ports) => (address, Some(ports)),
                    None if rest.is_empty() => (address, None),
                    None => return Err(wrong("only `:port` may follow the bracket")),
                }
            }
            None if text.matches(':').count() == 1 => {
                text.split_once(':').map(|(t, p)| (t, Some(p))).unwrap_or((text, None))
            }
            None => (text, None),
        };
        let ports = ports.map(|ports| range(ports).ok_or_else(|| wrong("the port is not one"))).transpose()?;
        let ports = ports.map(|(first, last)| PortRange::new(first, last)).transpose()?;
        Ok(Self { target: parse(target).map_err(wrong)?, ports })
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn parse(text: &str) -> Result<RuleTarget, &'static str> {
    if let Some((address, bits)) = text.split_once('/') {
        let address: IpAddr = address.parse().map_err(|_| "a network begins with an address")?;
        let bits: u8 = bits.parse().map_err(|_| "the length of a network is a number of bits")?;
        let host = match address {
            IpAddr::V4(v4) if bits <= 32 => u32::from(v4).checked_shl(bits.into()).is_some_and(|rest| rest != 0),
            IpAddr::V6(v6) if bits <= 128 => u128::from(v6).checked_shl(bits.into()).is_some_and(|rest| rest != 0),
            _ => return Err("the length of the network is more than the address has bits"),
        };
        return if host {
            Err("the address has bits outside its network")
        } else {
            Ok(RuleTarget::Network(address, bits))
        };
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(RuleTarget::Address(address.into()));
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(RuleTarget::Address(address.into()));
    }
    let (name, wild) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("this is not the name of a host");
    }
    if name.split('.').next_back().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
        return Err("this is neither an address nor the name of a host");
    }
    let name = name.to_ascii_lowercase();
    Ok(if wild { RuleTarget::Wildcard(name) } else { RuleTarget::Host(name) })
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.ports.is_some()) {
            (RuleTarget::Host(name), _) => f.write_str(name)?,
            (RuleTarget::Wildcard(name), _) => write!(f, "*.{name}")?,
            (RuleTarget::Address(IpAddr::V6(address)), true) => write!(f, "[{address}]")?,
            (RuleTarget::Network(IpAddr::V6(address), bits), true) => write!(f, "[{address}/{bits}]")?,
            (RuleTarget::Address(address), _) => write!(f, "{address}")?,
            (RuleTarget::Network(address, bits), _) => write!(f, "{address}/{bits}")?,
        }
        match self.ports {
            Some(PortRange { first, last }) if first == last => write!(f, ":{first}"),
            Some(PortRange { first, last }) => write!(f, ":{first}-{last}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_as_they_are_written() {
        for text in [
            "example.com",
            "*.example.com:443",
            "192.0.2.7",
            "192.0.2.0/24:8000-8080",
            "2001:db8::7",
            "[2001:db8::7]:443",
            "[2001:db8::/32]:443",
            "0.0.0.0/0",
            "::/0",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("Example.COM".parse::<Rule>().unwrap(), Rule::new(RuleTarget::Host("example.com".into())));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a..b",
            "-a.b",
            "a b",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "1.2.3",
            "1.2.3.4.5",
            "a:0",
            "a:9-1",
            "a:x",
            "[::1",
            "[::1]x",
            "http://a",
            "a/b",
            "é.com",
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }

    #[test]
    fn a_policy_holds_for_names_addresses_and_ports() {
        let policy = |rules: &[&str]| NetworkPolicy::Allow(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap());
        let none: [&str; 0] = [];
        assert!(policy(&["192.0.2.7"]).allows(none, v4, 1) && !policy(&["192.0.2.8"]).allows(none, v4, 1));
        assert!(policy(&["192.0.2.0/24"]).allows(none, v4, 1) && !policy(&["192.0.3.0/24"]).allows(none, v4, 1));
        assert!(policy(&["0.0.0.0/0"]).allows(none, v4, 1) && !policy(&["0.0.0.0/0"]).allows(none, v6, 1));
        assert!(policy(&["2001:db8::/32"]).allows(none, v6, 1) && policy(&["192.0.2.7/32"]).allows(none, v4, 1));
        assert!(policy(&["a.test"]).allows(["a.test"], v4, 1) && !policy(&["a.test"]).allows(none, v4, 1));
        let wild = policy(&["*.a.test"]);
        assert!(wild.resolves("x.a.test") && wild.resolves("Y.X.a.test.") && !wild.resolves("a.test"));
        assert!(!wild.resolves("xa.test") && !wild.resolves(".a.test") && !policy(&[]).resolves("a.test"));
        let ports = policy(&["a.test:80-81", "192.0.2.7:443"]);
        assert!(ports.allows(["a.test"], v4, 81) && !ports.allows(["a.test"], v4, 82) && ports.allows(none, v4, 443));
        assert!(!NetworkPolicy::Deny.allows(none, v4, 1) && NetworkPolicy::Learn.allows(none, v6, 1));
    }

    #[test]
    fn a_policy_names_what_it_needs() {
        let rules = ["a.com:443", "10.0.0.0/8"].map(|rule| rule.parse().unwrap());
        let needs = NetworkPolicy::Allow(rules.into()).needs();
        assert_eq!(needs, [Capability::Deny, Capability::AllowHost, Capability::AllowCidr, Capability::AllowPort]);
        assert_eq!(NetworkPolicy::Allow(Vec::new()).needs(), [Capability::Deny]);
    }
}
