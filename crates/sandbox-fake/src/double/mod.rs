//! What makes the fake a double of its user's tests: scripted answers, a record of calls, failures on demand.

mod call;
pub mod failure;
mod on;
mod reply;
mod setup;
mod trouble;

pub use call::{
    BuildCall, Call, CreateCall, DeleteSnapshotCall, FileCall, ForkCall, Input, ListCall, RunCall, SandboxCall,
    SnapshotCall,
};
pub(crate) use call::{Calls, Number};
pub use on::On;
pub(crate) use on::Rule;
pub(crate) use reply::Done;
pub use reply::Reply;
pub use trouble::{Operation, Trouble};
pub(crate) use trouble::{Troubles, What};

use crate::facts;
use sandbox_core::{Capability, CredentialVariable, Error, ErrorKind, Facts, Isolation, IsolationFact};
use std::sync::Arc;

/// The variable that a fake reads no credential from, for tests of what happens without one.
pub(crate) const CREDENTIAL: CredentialVariable =
    CredentialVariable::new("FAKE_API_KEY", "anything; the fake only pretends to need it");

/// How a fake pretends to have been given its credential. See [`Fake::credential`](crate::Fake::credential).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Credential {
    /// It is there, and accepted.
    Given,
    /// The variable is not set.
    Missing,
    /// The variable is set and empty.
    Empty,
    /// The variable is set, and the provider refuses what it holds.
    Refused,
}

/// All of it, for one world.
#[derive(Debug, Default)]
pub(crate) struct Double {
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) strict: bool,
    pub(crate) calls: Calls,
    pub(crate) troubles: Troubles,
    pub(crate) credential: Option<Credential>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) absent: Vec<(Capability, String)>,
}

impl Double {
    pub(crate) fn info(&self) -> Facts {
        let mut all = facts::info();
        if let Some(tier) = self.isolation {
            all = all.isolation(IsolationFact::new(tier, "the test says so; the fake isolates nothing", "2026-11-30"));
        }
        if self.credential.is_some() {
            all = all.credentials(&[CREDENTIAL]);
        }
        self.absent.iter().fold(all, |all, (capability, why)| all.absent(*capability, why.clone()))
    }

    /// Whether the provider would let its user in.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        let name = CREDENTIAL.name;
        let why = match self.credential {
            None | Some(Credential::Given) => return Ok(()),
            Some(Credential::Missing) => format!("no credential: {name} is not set"),
            Some(Credential::Empty) => format!("no credential: {name} is set and empty"),
            Some(Credential::Refused) => format!("the provider refuses the credential in {name}"),
        };
        let hint = format!("set {name} to a key of the provider's, here: `Fake::credential(Credential::Given)`");
        Err(Error::new(ErrorKind::Auth, why).with_hint(hint))
    }
}
