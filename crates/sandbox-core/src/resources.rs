//! Caps and guarantees of a sandbox.

use std::{collections::BTreeMap, fmt};

/// What a sandbox may use, and what it is promised. Unset means the backend's stated default.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Resources {
    /// Amounts by resource.
    pub amounts: BTreeMap<Resource, Amount>,
    /// How many processes at most. `PIDS`.
    pub pids: Option<u32>,
}

impl Resources {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the processors, in thousandths of one.
    pub fn cpu_millis(self, millis: u64) -> Self {
        self.set(Resource::Cpu, Amount::new(millis))
    }

    /// Limits the memory, in bytes.
    pub fn memory(self, bytes: u64) -> Self {
        self.set(Resource::Memory, Amount::new(bytes))
    }

    /// Limits the disk, in bytes.
    pub fn disk(self, bytes: u64) -> Self {
        self.set(Resource::Disk, Amount::new(bytes))
    }

    /// Limits the number of processes.
    pub fn pids(mut self, most: u32) -> Self {
        self.pids = Some(most);
        self
    }

    /// Sets a resource in a mode.
    pub fn set(mut self, resource: Resource, amount: Amount) -> Self {
        self.amounts.insert(resource, amount);
        self
    }

    /// The amount that is set for a resource.
    pub fn get(&self, resource: Resource) -> Option<Amount> {
        self.amounts.get(&resource).copied()
    }
}

/// A resource that is measured out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Resource {
    /// Processors, in thousandths of one.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Disk, in bytes.
    Disk,
}

impl Resource {
    /// Every resource.
    pub const ALL: &'static [Self] = &[Self::Cpu, Self::Memory, Self::Disk];
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
        })
    }
}

/// An amount and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Amount {
    /// In the unit of the [`Resource`].
    pub value: u64,
    /// What it means.
    pub mode: Mode,
}

impl Amount {
    /// A limit.
    pub fn new(value: u64) -> Self {
        Self { value, mode: Mode::Limit }
    }

    /// The same amount in another mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// What an amount means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// No more than this.
    Limit,
    /// This much is set aside.
    Request,
    /// Both.
    Guarantee,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "limit",
            Self::Request => "request",
            Self::Guarantee => "guarantee",
        })
    }
}

/// How a backend honours a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Honoured {
    /// Limits are enforced.
    pub limit: bool,
    /// Requests are set aside.
    pub request: bool,
    /// The limit where nothing is asked for.
    pub default: Option<u64>,
    /// The least that can be asked for.
    pub min: Option<u64>,
    /// The most that can be asked for.
    pub max: Option<u64>,
}

impl Honoured {
    /// Nothing is honoured.
    pub const fn nothing() -> Self {
        Self { limit: false, request: false, default: None, min: None, max: None }
    }

    /// Limits are enforced; unset means `default`.
    pub const fn limit(default: u64) -> Self {
        Self { limit: true, request: false, default: Some(default), min: None, max: None }
    }

    /// Requests are set aside too.
    pub const fn request(mut self) -> Self {
        self.request = true;
        self
    }

    /// The least that can be asked for.
    pub const fn min(mut self, min: u64) -> Self {
        self.min = Some(min);
        self
    }

    /// The most that can be asked for.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Whether amounts in this mode are honoured.
    pub const fn honours(&self, mode: Mode) -> bool {
        match mode {
            Mode::Limit => self.limit,
            Mode::Request => self.request,
            Mode::Guarantee => self.limit && self.request,
        }
    }
}
