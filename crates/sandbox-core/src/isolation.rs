//! Isolation tiers.

use std::borrow::Cow;

/// How hard it is to escape from a sandbox; about nothing else.
///
/// `None < Container < Gvisor < MicroVm`. `Unknown` and `None` satisfy no requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Isolation {
    /// Nothing is stated.
    Unknown,
    /// Processes of the host, or no processes at all.
    None,
    /// A container that shares the host's kernel.
    Container,
    /// A kernel in user space between program and host.
    Gvisor,
    /// A virtual machine of its own.
    MicroVm,
}

impl Isolation {
    /// Whether a sandbox of this tier may stand where `required` is asked for.
    pub const fn satisfies(self, required: Self) -> bool {
        self.rank() > 1 && required.rank() > 0 && self.rank() >= required.rank()
    }

    /// The tier with this name, as in `micro-vm`.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Unknown, Self::None, Self::Container, Self::Gvisor, Self::MicroVm].into_iter().find(|t| t.name() == name)
    }

    /// The tier's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::None => "none",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::MicroVm => "micro-vm",
        }
    }

    /// The weaker of both; `Unknown` is the weakest.
    pub const fn weaker(self, other: Self) -> Self {
        if self.rank() <= other.rank() { self } else { other }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::None => 1,
            Self::Container => 2,
            Self::Gvisor => 3,
            Self::MicroVm => 4,
        }
    }
}

impl std::fmt::Display for Isolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A tier and where that is known from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct IsolationFact {
    /// The tier.
    pub tier: Isolation,
    /// Who says so: a document, a measurement.
    pub source: Cow<'static, str>,
    /// When it was looked up, as `2026-11-30`.
    pub date: Cow<'static, str>,
}

impl IsolationFact {
    /// A tier, its source and its date.
    pub fn new(tier: Isolation, source: impl Into<Cow<'static, str>>, date: impl Into<Cow<'static, str>>) -> Self {
        Self { tier, source: source.into(), date: date.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::Isolation::*;

    #[test]
    fn unknown_and_none_satisfy_nothing() {
        for required in [Unknown, None, Container, Gvisor, MicroVm] {
            assert!(!Unknown.satisfies(required) && !None.satisfies(required), "{required}");
        }
        assert!(MicroVm.satisfies(Container) && Container.satisfies(None) && Container.satisfies(Container));
        assert!(!Container.satisfies(Gvisor) && !MicroVm.satisfies(Unknown));
    }
}
