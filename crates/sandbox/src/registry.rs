//! Backends by name.

use crate::{
    Client, ClientBuilder,
    dsn::{self, Dsn},
};
use sandbox_core::{CredentialVariable, Error, ErrorKind, Parameter, Parameters, Provider, Result, Spec};
use std::{collections::BTreeMap, fmt};

/// The providers that an application opens by DSN. It registers each one it wants: there is no global list.
#[derive(Default)]
pub struct Registry(BTreeMap<&'static str, Entry>);

struct Entry {
    parameters: &'static [Parameter],
    credentials: &'static [CredentialVariable],
    open: Open,
}

type Open = Box<dyn Fn(&Parameters) -> Result<ClientBuilder> + Send + Sync>;

impl Registry {
    /// No provider.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider.
    ///
    /// # Errors
    ///
    /// `already-exists` for a scheme that is registered, `invalid-argument` for one that is none and for a parameter that every
    /// backend has.
    pub fn register(mut self, provider: impl Provider) -> Result<Self> {
        let scheme = provider.scheme();
        dsn::scheme(scheme)?;
        let taken = |own: &&Parameter| dsn::COMMON.iter().any(|(common, _)| *common == own.name);
        if let Some(own) = provider.parameters().iter().find(taken) {
            let message = format!("parameter `{}` of `{scheme}://` means the same on every backend", own.name);
            return Err(Error::invalid(message).with_hint("give the provider's own parameter another name"));
        }
        if self.0.contains_key(scheme) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("scheme `{scheme}` is registered already")));
        }
        let entry = Entry {
            parameters: provider.parameters(),
            credentials: provider.credentials(),
            open: Box::new(move |parameters| provider.open(parameters).map(ClientBuilder::new)),
        };
        self.0.insert(scheme, entry);
        Ok(self)
    }

    /// The schemes that are registered, sorted.
    pub fn schemes(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    /// The variables that hold a provider's credentials; empty for an unknown scheme.
    pub fn credentials(&self, scheme: &str) -> &[CredentialVariable] {
        self.0.get(scheme).map_or(&[], |entry| entry.credentials)
    }

    /// The parameters that a provider takes, those of every backend not among them; empty for an unknown scheme.
    pub fn parameters(&self, scheme: &str) -> &[Parameter] {
        self.0.get(scheme).map_or(&[], |entry| entry.parameters)
    }

    /// A client for a DSN, as `fake://` or `docker+plain://python:3.12-slim?lifetime=600`.
    ///
    /// # Errors
    ///
    /// `invalid-argument` for what is no DSN, for a parameter that is not there, and for one that looks like a credential;
    /// `backend-unknown` for a scheme that is not registered; `auth` for a credential that is missing.
    pub fn open(&self, dsn: &str) -> Result<Client> {
        self.builder(dsn)?.build()
    }

    /// The same as [`open`](Self::open), for setting more before the client starts. The image and the common parameters are
    /// in its defaults.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn builder(&self, dsn: &str) -> Result<ClientBuilder> {
        let dsn = Dsn::parse(dsn).map_err(|error| error.with_operation("open"))?;
        self.resolve(dsn).map_err(|error| error.with_operation("open"))
    }

    fn resolve(&self, dsn: Dsn) -> Result<ClientBuilder> {
        let Dsn { scheme, image, parameters } = dsn;
        let entry = self.0.get(scheme.as_str()).ok_or_else(|| self.unknown(&scheme))?;
        let mut spec = Spec::new();
        spec.image = image;
        let mut own = BTreeMap::new();
        for (name, value) in parameters {
            if entry.parameters.iter().any(|known| known.name == name) {
                own.insert(name, value);
            } else if looks_secret(&name) {
                return Err(entry.refuse_credential(&scheme, &name));
            } else if let Some(set) = dsn::common(spec.clone(), &name, &value) {
                spec = set?;
            } else {
                return Err(entry.unknown_parameter(&scheme, &name));
            }
        }
        Ok((entry.open)(&own.into_iter().collect())?.defaults(spec))
    }

    fn unknown(&self, scheme: &str) -> Error {
        let there = match self.schemes()[..] {
            [] => "none is".to_string(),
            ref schemes => {
                format!("there is {}", schemes.iter().map(|s| format!("`{s}://`")).collect::<Vec<_>>().join(", "))
            }
        };
        Error::new(ErrorKind::BackendUnknown, format!("no provider is registered for `{scheme}://`; {there}"))
            .with_hint("add the provider's crate, and `Registry::register` its provider")
    }
}

impl Entry {
    fn unknown_parameter(&self, scheme: &str, name: &str) -> Error {
        let own = self.parameters.iter().map(|p| (p.name, p.help));
        let known: Vec<_> =
            own.chain(dsn::COMMON.iter().copied()).map(|(name, help)| format!("{name} ({help})")).collect();
        let image = if name == "image" {
            format!("the image stands before the `?`: `{scheme}://IMAGE`; ")
        } else {
            String::new()
        };
        Error::invalid(format!("`{scheme}://` takes no parameter `{}`", name.escape_debug()))
            .with_hint(format!("{image}it takes {}", known.join(", ")))
    }

    /// A DSN ends up in logs and process lists.
    fn refuse_credential(&self, scheme: &str, name: &str) -> Error {
        let hint = match self.credentials {
            [] => format!("`{scheme}://` needs no credential: leave `{name}` out"),
            all => format!(
                "set {} in the environment",
                all.iter().map(|v| format!("`{}`", v.name)).collect::<Vec<_>>().join(" or ")
            ),
        };
        Error::invalid(format!("parameter `{name}` looks like a credential, and a DSN holds none")).with_hint(hint)
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "passwd", "credential", "auth"].iter().any(|word| name.contains(word))
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.schemes()).finish()
    }
}
