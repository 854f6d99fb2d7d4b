//! A provider that keeps files in a folder and calls them sandboxes: it lists and ends them, and makes none.

use sandbox::{
    Backend, Capability, CredentialVariable, Error, ErrorKind, Facts, Isolation, IsolationFact, Listed, Parameter,
    Parameters, Provider, Query, Result, SandboxId, Spec,
};
use sandbox_core::{Attempt, Control, Event, Events, Exec, Instance, Made, Page};
use std::{collections::BTreeMap, env, fs, future::pending, path::PathBuf};

/// The variable with its credential.
pub(crate) const TOKEN: &str = "SHELF_TOKEN";

/// `shelf://?dir=…`.
pub(crate) struct Shelf;

impl Provider for Shelf {
    type Backend = Files;

    fn scheme(&self) -> &'static str {
        "shelf"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[
            Parameter::new("dir", "the folder"),
            Parameter::new("refuse", "how lists are refused: yes, leak or hang"),
            Parameter::new("leak", "names the token when it is opened"),
        ];
        ALL
    }

    fn credentials(&self) -> &'static [CredentialVariable] {
        const ALL: &[CredentialVariable] = &[CredentialVariable::new(TOKEN, "any text will do")];
        ALL
    }

    fn open(&self, parameters: &Parameters) -> Result<Files> {
        let token = env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| {
            Error::new(ErrorKind::Auth, "there is no token").with_hint(format!("set {TOKEN} to any text"))
        })?;
        if parameters.get("leak").is_some() {
            return Err(Error::new(ErrorKind::Auth, format!("the token {token} is of no use")));
        }
        let dir = parameters.get("dir").map(PathBuf::from).ok_or_else(|| Error::invalid("dir is missing"))?;
        Ok(Files { dir, token, refuse: parameters.get("refuse").unwrap_or_default().into() })
    }
}

pub(crate) struct Files {
    dir: PathBuf,
    token: String,
    refuse: String,
}

impl Backend for Files {
    type Instance = Nothing;

    fn info(&self) -> Facts {
        let says = IsolationFact::new(Isolation::Gvisor, "its maker says so", "2026-11-30");
        let facts = Facts::new("shelf").native([Capability::List, Capability::Labels]).isolation(says);
        facts.absent(Capability::Run, "files do not run")
    }

    async fn create(&self, _: &Spec, _: &Attempt) -> Result<Made<Nothing>> {
        fs::write(self.dir.join("made"), "{}")
            .map_err(|error| Error::new(ErrorKind::CreateFailed, error.to_string()))?;
        Err(Error::unsupported("a shelf makes nothing"))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        if id.as_str() == "stuck" {
            return Err(Error::new(ErrorKind::TeardownFailed, "it is stuck"));
        }
        _ = fs::remove_file(self.dir.join(id.as_str()));
        Ok(())
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        match &*self.refuse {
            "" => {}
            "hang" => pending().await,
            "leak" => return Err(Error::new(ErrorKind::Auth, format!("the token {} is unknown", self.token))),
            _ => return Err(Error::new(ErrorKind::Auth, "the provider does not know this token")),
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))? {
            let path = entry.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?.path();
            let labels: BTreeMap<String, String> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let id = SandboxId::new(path.file_name().unwrap().to_str().unwrap());
            if query.fits(&labels) {
                found.push(Listed::new(id, labels));
            }
        }
        Ok(Page::last(found))
    }
}

pub(crate) struct Nothing;

impl Instance for Nothing {
    type Control = Self;
    type Events = Self;

    async fn spawn(&self, _: &Exec) -> Result<(Self, Self)> {
        Err(Error::unsupported("files do not run"))
    }
}

impl Control for Nothing {}

impl Events for Nothing {
    async fn next(&mut self) -> Result<Option<Event>> {
        Ok(None)
    }
}
