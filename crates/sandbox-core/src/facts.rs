//! What a backend or a sandbox can do.

use crate::{Capability, Honoured, Isolation, IsolationFact, Mode, Replay, Resource};
use std::{borrow::Cow, collections::BTreeMap, time::Duration};

/// How far a capability reaches.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Support {
    /// The provider does it.
    Native,
    /// It is made of other operations; the text says how.
    Emulated(Cow<'static, str>),
    /// It cannot be had; the text says why. This is what users read in the error.
    Absent(Cow<'static, str>),
}

/// An environment variable that holds a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CredentialVariable {
    /// Its name.
    pub name: &'static str,
    /// What it holds, and where to get it.
    pub help: &'static str,
}

impl CredentialVariable {
    /// A variable and what it holds.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help }
    }
}

/// What a backend can do at most, or what a live sandbox can do. Facts narrow from [`info`](crate::Backend::info) over
/// [`probe`](crate::Backend::probe) to the sandbox; nothing ever widens.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    name: Cow<'static, str>,
    support: BTreeMap<Capability, Support>,
    isolation: Option<IsolationFact>,
    resources: BTreeMap<Resource, Honoured>,
    max_lifetime: Option<Duration>,
    max_command_timeout: Option<Duration>,
    max_output: Option<u64>,
    replay: Option<Replay>,
    default_pids: Option<u32>,
    least_pids: Option<u32>,
    blind: Vec<Cow<'static, str>>,
    credentials: Vec<CredentialVariable>,
}

impl Facts {
    /// A backend of this name that can do nothing yet.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            support: BTreeMap::new(),
            isolation: None,
            resources: BTreeMap::new(),
            max_lifetime: None,
            max_command_timeout: None,
            max_output: None,
            replay: None,
            default_pids: None,
            least_pids: None,
            blind: Vec::new(),
            credentials: Vec::new(),
        }
    }

    /// Declares capabilities that the provider has.
    pub fn native(self, all: impl IntoIterator<Item = Capability>) -> Self {
        all.into_iter().fold(self, |facts, capability| facts.with(capability, Support::Native))
    }

    /// Declares a capability that is made of other operations.
    pub fn emulated(self, capability: Capability, how: impl Into<Cow<'static, str>>) -> Self {
        self.with(capability, Support::Emulated(how.into()))
    }

    /// Declares that a capability cannot be had.
    pub fn absent(self, capability: Capability, why: impl Into<Cow<'static, str>>) -> Self {
        self.with(capability, Support::Absent(why.into()))
    }

    /// States the isolation tier, with its source.
    pub fn isolation(mut self, fact: IsolationFact) -> Self {
        self.isolation = Some(fact);
        self
    }

    /// States how a resource is honoured.
    pub fn resource(mut self, resource: Resource, honoured: Honoured) -> Self {
        self.resources.insert(resource, honoured);
        self
    }

    /// States the longest lifetime of a sandbox.
    pub fn max_lifetime(mut self, most: Duration) -> Self {
        self.max_lifetime = Some(most);
        self
    }

    /// States the longest timeout of a command.
    pub fn max_command_timeout(mut self, most: Duration) -> Self {
        self.max_command_timeout = Some(most);
        self
    }

    /// States how many bytes of one stream the wire can carry.
    pub fn max_output(mut self, bytes: u64) -> Self {
        self.max_output = Some(bytes);
        self
    }

    /// States what output comes to whoever reaches a running command again. `REATTACH`.
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = Some(replay);
        self
    }

    /// States the cap on processes where nothing is asked for. `PIDS`.
    pub fn default_pids(mut self, most: u32) -> Self {
        self.default_pids = Some(most);
        self
    }

    /// States the least cap on processes that can be asked for, where it is more than one: what the backend itself runs beside
    /// a command counts too. `PIDS`.
    pub fn least_pids(mut self, least: u32) -> Self {
        self.least_pids = Some(least);
        self
    }

    /// States a directory whose contents native file and tree operations do not see, such as `/proc`. The engine goes
    /// through a command there.
    pub fn blind(mut self, directory: impl Into<Cow<'static, str>>) -> Self {
        self.blind.push(directory.into());
        self
    }

    /// States the variables that hold credentials.
    pub fn credentials(mut self, all: &[CredentialVariable]) -> Self {
        self.credentials = all.to_vec();
        self
    }

    /// The backend's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How far a capability reaches; what was never declared is absent.
    pub fn support(&self, capability: Capability) -> Support {
        self.support.get(&capability).cloned().unwrap_or(Support::Absent(Cow::Borrowed("unknown to this adapter")))
    }

    /// Whether a capability can be had, native or emulated.
    pub fn has(&self, capability: Capability) -> bool {
        !matches!(self.support.get(&capability), None | Some(Support::Absent(_)))
    }

    /// Whether the provider itself has a capability.
    pub fn is_native(&self, capability: Capability) -> bool {
        matches!(self.support.get(&capability), Some(Support::Native))
    }

    /// The isolation tier; `Unknown` where nothing is stated.
    pub fn tier(&self) -> Isolation {
        self.isolation.as_ref().map_or(Isolation::Unknown, |fact| fact.tier)
    }

    /// The isolation tier with its source, where one is stated.
    pub fn isolation_fact(&self) -> Option<&IsolationFact> {
        self.isolation.as_ref()
    }

    /// How a resource is honoured.
    pub fn honours(&self, resource: Resource) -> Honoured {
        self.resources.get(&resource).copied().unwrap_or_else(Honoured::nothing)
    }

    /// The longest lifetime of a sandbox, where there is one.
    pub fn longest_lifetime(&self) -> Option<Duration> {
        self.max_lifetime
    }

    /// The longest timeout of a command, where there is one.
    pub fn longest_command(&self) -> Option<Duration> {
        self.max_command_timeout
    }

    /// How many bytes of one stream the wire can carry, where that is bounded.
    pub fn largest_output(&self) -> Option<u64> {
        self.max_output
    }

    /// What output comes to whoever reaches a running command again, where that is stated.
    pub fn replay_of_output(&self) -> Option<Replay> {
        self.replay
    }

    /// The cap on processes where nothing is asked for.
    pub fn pids_by_default(&self) -> Option<u32> {
        self.default_pids
    }

    /// The least cap on processes that can be asked for; one where nothing is stated.
    pub fn fewest_pids(&self) -> u32 {
        self.least_pids.unwrap_or(1)
    }

    /// Whether native file and tree operations do not see this absolute path.
    pub fn is_blind(&self, path: &str) -> bool {
        self.blind
            .iter()
            .any(|dir| path.strip_prefix(&**dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// The variables that hold credentials.
    pub fn credential_variables(&self) -> &[CredentialVariable] {
        &self.credentials
    }

    /// What both allow: the meaning of these facts narrowed by `other`. Never more than either.
    pub fn narrowed(&self, other: &Self) -> Self {
        let mut facts = self.clone();
        for capability in Capability::ALL {
            let (mine, theirs) = (self.support(*capability), other.support(*capability));
            facts.support.insert(*capability, if weight(&theirs) < weight(&mine) { theirs } else { mine });
        }
        if other.tier().weaker(self.tier()) != self.tier() {
            facts.isolation.clone_from(&other.isolation);
        }
        for resource in Resource::ALL {
            let (mine, theirs) = (self.honours(*resource), other.honours(*resource));
            let honoured = Honoured {
                limit: mine.limit && theirs.limit,
                request: mine.request && theirs.request,
                default: theirs.default.or(mine.default),
                min: mine.min.max(theirs.min),
                max: least(mine.max, theirs.max),
            };
            facts.resources.insert(*resource, honoured);
        }
        facts.max_lifetime = least(self.max_lifetime, other.max_lifetime);
        facts.max_command_timeout = least(self.max_command_timeout, other.max_command_timeout);
        facts.max_output = least(self.max_output, other.max_output);
        facts.replay = least(self.replay, other.replay);
        facts.default_pids = least(self.default_pids, other.default_pids);
        facts.least_pids = self.least_pids.max(other.least_pids);
        let more = other.blind.iter().filter(|dir| !self.blind.contains(dir));
        facts.blind.extend(more.cloned());
        facts
    }

    /// What `self` claims beyond `bound`, in words; empty where it only narrows.
    pub fn beyond(&self, bound: &Self) -> Vec<String> {
        let mut beyond = Vec::new();
        for capability in Capability::ALL {
            if weight(&self.support(*capability)) > weight(&bound.support(*capability)) {
                beyond.push(capability.code().to_string());
            }
        }
        if self.tier() != bound.tier() && self.tier().weaker(bound.tier()) != self.tier() {
            beyond.push(format!("isolation {}", self.tier()));
        }
        if self.replay > bound.replay && bound.replay.is_some() {
            beyond.push("replay of output from the start".to_string());
        }
        for resource in Resource::ALL {
            for mode in [Mode::Limit, Mode::Request] {
                if self.honours(*resource).honours(mode) && !bound.honours(*resource).honours(mode) {
                    beyond.push(format!("{resource} {mode}"));
                }
            }
        }
        beyond
    }

    fn with(mut self, capability: Capability, support: Support) -> Self {
        self.support.insert(capability, support);
        self
    }
}

fn weight(support: &Support) -> u8 {
    match support {
        Support::Native => 2,
        Support::Emulated(_) => 1,
        Support::Absent(_) => 0,
    }
}

/// The smaller bound; `None` is no bound.
fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_never_widens() {
        let info = Facts::new("x").native([Capability::Run, Capability::List]).emulated(Capability::Files, "sh");
        let probed = Facts::new("x").native([Capability::Run, Capability::Files, Capability::Tree]);
        assert_eq!(probed.beyond(&info), ["FILES", "TREE"]);
        let narrowed = info.narrowed(&probed);
        assert!(narrowed.beyond(&info).is_empty());
        assert!(
            narrowed.is_native(Capability::Run) && !narrowed.has(Capability::List) && !narrowed.has(Capability::Tree)
        );
        assert_eq!(narrowed.support(Capability::Files), Support::Emulated("sh".into()));
    }

    #[test]
    fn bounds_take_the_smaller() {
        let (a, b) = (Facts::new("x").max_lifetime(Duration::from_secs(9)), Facts::new("x").max_output(7));
        let both = a.narrowed(&b);
        assert_eq!((both.longest_lifetime(), both.largest_output()), (Some(Duration::from_secs(9)), Some(7)));
    }

    #[test]
    fn blind_directories_are_whole_names() {
        let facts = Facts::new("x").blind("/proc");
        assert!(facts.is_blind("/proc") && facts.is_blind("/proc/1") && !facts.is_blind("/process"));
    }
}
