//! Credential variables: whether they are set, never what to.

use sandbox::CredentialVariable;
use serde::Serialize;
use std::env;

/// One variable.
#[derive(Debug, Serialize)]
pub(super) struct Credential {
    pub(super) variable: &'static str,
    pub(super) state: State,
    /// What the state rests on.
    pub(super) says: &'static str,
    pub(super) help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Missing,
    Empty,
    Present,
}

impl Credential {
    /// The variables as they are in the environment.
    pub(super) fn all(variables: &[CredentialVariable]) -> Vec<Self> {
        let one = |variable: &CredentialVariable| {
            let state = match env::var_os(variable.name) {
                None => State::Missing,
                Some(value) if value.is_empty() => State::Empty,
                Some(_) => State::Present,
            };
            Self { variable: variable.name, state, says: "", help: variable.help }
        };
        variables.iter().map(one).collect()
    }

    /// Says what was checked, given whether the provider has answered a request of who uses them.
    pub(super) fn judge(&mut self, answered: bool) {
        self.says = match (self.state, answered) {
            (State::Missing, _) => "not set",
            (State::Empty, _) => "set to nothing",
            (State::Present, true) => "set; the provider answered a request that was made with it",
            (State::Present, false) => "set; whether the provider accepts it was not seen",
        };
    }
}

/// The values of credentials, to be kept out of what others say.
#[derive(Debug, Default)]
pub(super) struct Secrets(Vec<(&'static str, Hidden)>);

struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Secrets {
    /// Those of the environment.
    pub(super) fn of(variables: &[CredentialVariable]) -> Self {
        let set = |variable: &CredentialVariable| Some((variable.name, Hidden(env::var(variable.name).ok()?)));
        Self(variables.iter().filter_map(set).filter(|(_, value)| value.0.len() >= SHORTEST).collect())
    }

    /// The text with every value replaced by the name of its variable.
    pub(super) fn without(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (name, value)| text.replace(&value.0, &format!("[{name}]")))
    }
}

/// Shorter ones would be found in ordinary words.
const SHORTEST: usize = 6;
