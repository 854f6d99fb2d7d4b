//! What runs beside a sandbox.

use std::{collections::BTreeMap, fmt};

/// Another image that runs beside a sandbox, such as a database for the tests in it. It is made with the sandbox, ends with it,
/// and is reached from inside by its name in [`Spec::services`](crate::Spec::services), whatever the network policy; from any
/// other sandbox it is not. `SERVICES`.
///
/// It inherits nothing of the spec: no environment, secret, directory or user, and its caps are the backend's defaults. What it
/// reaches itself is under the policy of its sandbox.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Service {
    /// The image or template; what names it is the provider's affair.
    pub image: String,
    /// Added to the image's environment.
    pub env: BTreeMap<String, String>,
    /// The working directory, absolute; `None` is the image's.
    pub cwd: Option<String>,
    /// Its user, by name or uid; `None` is the image's. `USER`.
    pub user: Option<String>,
    /// The program and arguments that are its main program; `None` is the image's own. When that ends, so does the service.
    pub command: Option<Vec<String>>,
}

impl Service {
    /// A service of this image, run as the image says.
    pub fn new(image: impl Into<String>) -> Self {
        Self { image: image.into(), env: BTreeMap::new(), cwd: None, user: None, command: None }
    }

    /// Adds a variable to its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets its working directory, an absolute path.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets its user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets its main program, with arguments.
    pub fn command(mut self, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.command = Some(argv.into_iter().map(Into::into).collect());
        self
    }
}

/// Values of variables are not shown: they may be secrets.
impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Service");
        s.field("image", &self.image).field("env", &self.env.keys().collect::<Vec<_>>());
        s.field("cwd", &self.cwd).field("user", &self.user).field("command", &self.command).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_shown() {
        let spec = crate::Spec::new().service("db", Service::new("postgres").env("NAME", "hunter2"));
        let shown = format!("{spec:?}");
        assert!(shown.contains("db") && shown.contains("postgres") && shown.contains("NAME"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn defaults_add_services_and_change_none() {
        let defaults = crate::Spec::new().service("a", Service::new("one")).service("b", Service::new("one"));
        let spec = crate::Spec::new().service("b", Service::new("two")).or(&defaults);
        assert_eq!(spec.services, [("a".into(), Service::new("one")), ("b".into(), Service::new("two"))].into());
    }
}
