//! How a backend is opened from a DSN.

use crate::{Backend, CredentialVariable, Result};
use std::collections::BTreeMap;

/// Opens backends of one scheme, as in `scheme://image?parameter=value`. Applications register the ones they want.
pub trait Provider: Send + Sync + 'static {
    /// What it opens.
    type Backend: Backend;

    /// The scheme, such as `fake` or `cloud+region`: lowercase letters, digits, `+`, `-`.
    fn scheme(&self) -> &'static str;

    /// The parameters it takes, beside those that the engine takes for every backend.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Environment variables that hold its credentials. A parameter that looks like one is refused naming these.
    fn credentials(&self) -> &'static [CredentialVariable] {
        &[]
    }

    /// Makes the backend. Offline and instant: connections are made by the backend's first operation.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for a parameter's value, `auth` for a credential that is missing or empty, naming its variable.
    fn open(&self, parameters: &Parameters) -> Result<Self::Backend>;
}

/// One parameter of a DSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it sets, with its unit and default.
    pub help: &'static str,
}

impl Parameter {
    /// A parameter and what it sets.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help }
    }
}

/// The parameters given in a DSN: only names that the provider takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Parameters {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}
