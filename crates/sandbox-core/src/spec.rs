//! What a sandbox shall be.

use crate::{Definition, Isolation, NetworkPolicy, Ready, Resources, Secret, Service, SnapshotId};
use std::{collections::BTreeMap, fmt, time::Duration};

/// What a sandbox shall be. Unset fields are filled by the client: first from its defaults, then with the values that the
/// `effective_…` methods name. An adapter sees a spec that was validated against its facts.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spec {
    /// The image or template; what names it is the provider's affair.
    pub image: Option<String>,
    /// A snapshot to be made from in place of an image. `SNAPSHOT`.
    pub snapshot: Option<SnapshotId>,
    /// A definition whose image it is made from. It is built where its image is not there yet, or a rebuild is asked for;
    /// that counts against the prepare timeout. `BUILD`.
    pub build: Option<Box<Definition>>,
    /// Added to the image's environment.
    pub env: BTreeMap<String, String>,
    /// Variables of its commands that nothing shows: no error, no record, and nothing that the provider tells of the sandbox.
    /// A snapshot does not hold them. `SECRET_STORE`.
    pub secrets: BTreeMap<String, Secret<String>>,
    /// The working directory, absolute; `None` is the image's. It is made where it is missing.
    pub cwd: Option<String>,
    /// The user of its commands, by name or uid; `None` is the image's. `USER`.
    pub user: Option<String>,
    /// Kept by the provider with the sandbox. `LABELS`.
    pub labels: BTreeMap<String, String>,
    /// What it may reach; `None` is [`NetworkPolicy::Deny`].
    pub network: Option<NetworkPolicy>,
    /// What it may use.
    pub resources: Resources,
    /// The weakest isolation that is acceptable; `None` asks for none.
    pub isolation: Option<Isolation>,
    /// How long it lives; `None` is one hour, or the provider's maximum where that is less.
    pub lifetime: Option<Duration>,
    /// How long a command may run where the command itself says nothing; `None` is 300 s.
    pub command_timeout: Option<Duration>,
    /// How long the create itself may take; `None` is 120 s.
    pub create_timeout: Option<Duration>,
    /// How long preparing may take before that (pull, build); `None` is 600 s.
    pub prepare_timeout: Option<Duration>,
    /// What has to be so before the sandbox is handed over.
    pub ready: Option<Ready>,
    /// What runs beside it, by the name that it is reached by from inside: a DNS label. `SERVICES`.
    pub services: BTreeMap<String, Service>,
}

/// Values of variables are not shown: they may be secrets.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Spec");
        macro_rules! set {
            ($($field:ident)*) => { $(if let Some(value) = &self.$field { s.field(stringify!($field), value); })* };
        }
        s.field("env", &self.env.keys().collect::<Vec<_>>()).field("labels", &self.labels);
        s.field("secrets", &self.secrets.keys().collect::<Vec<_>>());
        s.field("resources", &self.resources);
        set!(image snapshot build cwd user network isolation lifetime command_timeout create_timeout prepare_timeout ready);
        if !self.services.is_empty() {
            s.field("services", &self.services);
        }
        s.finish()
    }
}

macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty;)*) => {
        $($(#[doc = $doc])+ pub fn $name(mut self, $name: impl Into<$type>) -> Self {
            self.$name = Some($name.into());
            self
        })*
    };
}

impl Spec {
    /// How long a sandbox lives if nobody says otherwise.
    pub const LIFETIME: Duration = Duration::from_secs(3600);
    /// How long a command may run if nobody says otherwise.
    pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);
    /// How long a create may take if nobody says otherwise.
    pub const CREATE_TIMEOUT: Duration = Duration::from_secs(120);
    /// How long preparing may take if nobody says otherwise.
    pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(600);

    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the image or template.
        image: String;
        /// Sets the snapshot that it is made from, in place of an image. `SNAPSHOT`.
        snapshot: SnapshotId;
        /// Sets the definition whose image it is made from. `BUILD`.
        build: Box<Definition>;
        /// Sets the working directory, an absolute path.
        cwd: String;
        /// Sets the user of its commands.
        user: String;
        /// Sets what it may reach.
        network: NetworkPolicy;
        /// Requires an isolation tier.
        isolation: Isolation;
        /// Sets how long it lives.
        lifetime: Duration;
        /// Sets how long a command may run where it says nothing itself.
        command_timeout: Duration;
        /// Sets how long the create may take.
        create_timeout: Duration;
        /// Sets how long preparing may take.
        prepare_timeout: Duration;
    }

    /// Adds a variable to its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds a variable of its commands that nothing shows; a command's own of that name wins. `SECRET_STORE`.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.insert(name.into(), Secret::new(value.into()));
        self
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets what it may use.
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// Sets a command that has to succeed before the sandbox is handed over.
    pub fn ready(mut self, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.ready = Some(Ready::Command(argv.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets a TCP port that a program of the image has to listen at before the sandbox is handed over.
    pub fn ready_port(mut self, port: u16) -> Self {
        self.ready = Some(Ready::Port(port));
        self
    }

    /// Adds what runs beside it, by the name that it is reached by from inside: a DNS label. `SERVICES`.
    pub fn service(mut self, name: impl Into<String>, service: Service) -> Self {
        self.services.insert(name.into(), service);
        self
    }

    /// The network policy in force.
    pub fn effective_network(&self) -> &NetworkPolicy {
        self.network.as_ref().unwrap_or(&NetworkPolicy::Deny)
    }

    /// The lifetime in force. The client has already put the provider's maximum in where the default is more.
    pub fn effective_lifetime(&self) -> Duration {
        self.lifetime.unwrap_or(Self::LIFETIME)
    }

    /// The timeout of commands that set none.
    pub fn effective_command_timeout(&self) -> Duration {
        self.command_timeout.unwrap_or(Self::COMMAND_TIMEOUT)
    }

    /// The create timeout in force.
    pub fn effective_create_timeout(&self) -> Duration {
        self.create_timeout.unwrap_or(Self::CREATE_TIMEOUT)
    }

    /// The limit of preparing in force.
    pub fn effective_prepare_timeout(&self) -> Duration {
        self.prepare_timeout.unwrap_or(Self::PREPARE_TIMEOUT)
    }

    /// This spec, with what it leaves open taken from `defaults`. Environment, secrets, labels and services are merged, this
    /// spec's win. Image, snapshot and definition are one question.
    pub fn or(mut self, defaults: &Self) -> Self {
        macro_rules! fill {
            ($($field:ident)*) => { $(if self.$field.is_none() { self.$field.clone_from(&defaults.$field); })* };
        }
        if self.image.is_none() && self.snapshot.is_none() && self.build.is_none() {
            fill!(image snapshot build);
        }
        fill!(cwd user network isolation lifetime command_timeout create_timeout prepare_timeout ready);
        // A name is a variable or a secret, not both.
        let (plain, hidden) = (self.env.clone(), self.secrets.clone());
        for (name, value) in defaults.env.iter().filter(|(name, _)| !hidden.contains_key(*name)) {
            self.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in defaults.secrets.iter().filter(|(name, _)| !plain.contains_key(*name)) {
            self.secrets.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &defaults.labels {
            self.labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, service) in &defaults.services {
            self.services.entry(name.clone()).or_insert_with(|| service.clone());
        }
        for (resource, amount) in &defaults.resources.amounts {
            self.resources.amounts.entry(*resource).or_insert(*amount);
        }
        self.resources.pids = self.resources.pids.or(defaults.resources.pids);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_shown() {
        let shown = format!("{:?}", Spec::new().env("NAME", "hunter2").secret("TOKEN", "hunter2").image("a"));
        assert!(shown.contains("NAME") && shown.contains("TOKEN") && shown.contains("\"a\""), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn defaults_fill_what_is_open() {
        let defaults = Spec::new().image("a").env("A", "1").env("B", "1").resources(Resources::new().memory(1).pids(9));
        let spec = Spec::new().env("B", "2").resources(Resources::new().memory(2)).or(&defaults);
        assert_eq!(spec.image.as_deref(), Some("a"));
        assert_eq!(spec.env, [("A".into(), "1".into()), ("B".into(), "2".into())].into());
        assert_eq!(spec.resources, Resources::new().memory(2).pids(9));
    }

    #[test]
    fn a_variable_and_a_secret_of_one_name_are_not_mixed() {
        let defaults = Spec::new().env("A", "plain").secret("B", "hidden");
        let spec = Spec::new().secret("A", "hidden").env("B", "plain").or(&defaults);
        assert_eq!(spec.env, [("B".into(), "plain".into())].into());
        assert_eq!(spec.secrets, [("A".into(), Secret::new("hidden".into()))].into());
    }

    #[test]
    fn what_it_is_made_from_is_one_question() {
        let image = Spec::new().image("a");
        let build = Spec::new().build(Definition::new("FROM a"));
        let made = |spec: Spec| (spec.image.is_some(), spec.snapshot.is_some(), spec.build.is_some());
        assert_eq!(made(build.clone().or(&image)), (false, false, true));
        assert_eq!(made(image.clone().or(&build)), (true, false, false));
        assert_eq!(made(Spec::new().snapshot("s").or(&build)), (false, true, false));
        assert_eq!(made(Spec::new().or(&build)), (false, false, true));
    }
}
