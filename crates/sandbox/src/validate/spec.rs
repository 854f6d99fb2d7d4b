//! A spec against the facts of its backend.

use super::{absolute, name, need, service};
use sandbox_core::{
    Capability, Error, ErrorKind, Facts, Isolation, NetworkPolicy, Ready, Resource, Resources, Result, Spec,
};
use std::time::Duration;

/// Refuses what the backend cannot keep, and fills in what the spec leaves open.
pub(crate) fn spec(mut spec: Spec, facts: &Facts) -> Result<Spec> {
    for (name, value) in &spec.env {
        name::variable(name, value)?;
    }
    secrets(&spec, facts)?;
    if let Some(image) = &spec.image {
        name::image(image)?;
    }
    if let Some(snapshot) = &spec.snapshot {
        need(facts, Capability::Snapshot)?;
        name::snapshot(snapshot.as_str())?;
        if let Some(image) = &spec.image {
            return Err(Error::invalid(format!("both the image `{image}` and the snapshot `{snapshot}`"))
                .with_hint("leave one of them out: a snapshot is all that a sandbox is made from"));
        }
    }
    super::build::of_spec(&spec, facts)?;
    if let Some(cwd) = &spec.cwd {
        absolute(cwd, "the working directory")?;
    }
    if let Some(user) = &spec.user {
        self::user(user, facts)?;
    }
    if !spec.labels.is_empty() {
        need(facts, Capability::Labels)?;
        spec.labels.iter().try_for_each(|(name, value)| name::label(name, value))?;
    }
    spec.ready.iter().try_for_each(|ready| is_visible(ready, facts))?;
    isolation(spec.isolation, facts)?;
    network(spec.effective_network(), facts)?;
    resources(&spec.resources, facts)?;
    times(&mut spec, facts)?;
    service::services(&spec.services, facts)?;
    Ok(spec)
}

fn is_visible(ready: &Ready, facts: &Facts) -> Result<()> {
    match ready {
        Ready::Command(argv) => {
            command(argv, "the ready command")?;
            need(facts, Capability::Run)
        }
        Ready::Port(0) => Err(Error::invalid("the ready port is 0")
            .with_hint("name the port that a program of the image listens at, or leave it out")),
        Ready::Port(_) if facts.is_native(Capability::Ports) => Ok(()),
        _ => need(facts, Capability::Files),
    }
}

/// The message never holds a value.
fn secrets(spec: &Spec, facts: &Facts) -> Result<()> {
    if !spec.secrets.is_empty() {
        need(facts, Capability::SecretStore)?;
    }
    for (name, secret) in &spec.secrets {
        name::variable(name, secret.expose())?;
        if spec.env.contains_key(name) {
            return Err(Error::invalid(format!("`{name}` is both a variable and a secret"))
                .with_hint("leave one of them out; a secret is a variable of the sandbox's commands too"));
        }
        if secret.expose().len() < SHORTEST_SECRET {
            return Err(Error::invalid(format!("secret `{name}` has less than {SHORTEST_SECRET} bytes")).with_hint(
                "what is so short cannot be kept out of other text: pass it as a variable, or take a longer one",
            ));
        }
    }
    Ok(())
}

pub(super) fn user(user: &str, facts: &Facts) -> Result<()> {
    name::user(user)?;
    need(facts, Capability::User)
}

/// A program that the provider starts, with its arguments.
pub(super) fn command(argv: &[String], what: &str) -> Result<()> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid(format!("{what} is empty")).with_hint("name a program, or leave it out"));
    }
    argv.iter().try_for_each(|arg| name::no_nul(arg, &format!("an argument of {what}")))
}

fn isolation(required: Option<Isolation>, facts: &Facts) -> Result<()> {
    let Some(required) = required else { return Ok(()) };
    if required == Isolation::Unknown {
        return Err(
            Error::invalid("isolation `unknown` cannot be required").with_hint("require a tier, or leave it out")
        );
    }
    if !facts.tier().satisfies(required) {
        let message = format!("backend `{}` isolates by `{}`, `{required}` is required", facts.name(), facts.tier());
        return Err(Error::new(ErrorKind::IsolationTooWeak, message)
            .with_hint("choose a backend or runtime of that tier, or require less"));
    }
    Ok(())
}

pub(crate) fn network(policy: &NetworkPolicy, facts: &Facts) -> Result<()> {
    for capability in policy.needs() {
        need(facts, capability).map_err(|error| match capability {
            Capability::Deny => {
                error.with_hint("this backend cannot deny: ask for `NetworkPolicy::Open` if that is acceptable")
            }
            Capability::Learn => error.with_hint("ask for `NetworkPolicy::Open`, which records nothing"),
            _ => error.with_hint("use rules of another kind, or another backend; a rule is never widened"),
        })?;
    }
    Ok(())
}

fn resources(resources: &Resources, facts: &Facts) -> Result<()> {
    for (resource, amount) in &resources.amounts {
        let honoured = facts.honours(*resource);
        let what = match resource {
            Resource::Cpu => "thousandths of a processor",
            _ => "bytes",
        };
        if amount.value == 0 {
            return Err(
                Error::invalid(format!("{resource} of zero")).with_hint("leave it out for the backend's default")
            );
        }
        if !honoured.honours(amount.mode) {
            let message = format!("backend `{}` does not honour a {} of {resource}", facts.name(), amount.mode);
            return Err(Error::unsupported(message).with_hint("use a mode that its facts list, or leave it out"));
        }
        let (min, max) = (honoured.min.unwrap_or(1), honoured.max.unwrap_or(u64::MAX));
        if amount.value < min || amount.value > max {
            let message = format!("{resource} of {} is outside {min} to {max} {what}", amount.value);
            return Err(Error::invalid(message).with_hint("choose an amount within these bounds"));
        }
    }
    if let Some(pids) = resources.pids {
        need(facts, Capability::Pids)?;
        if pids == 0 {
            return Err(Error::invalid("a cap of zero processes").with_hint("leave it out for the backend's default"));
        }
        let fewest = facts.fewest_pids();
        if pids < fewest {
            let message =
                format!("a cap of {pids} processes is less than backend `{}` can run commands in", facts.name());
            return Err(Error::invalid(message).with_hint(format!("ask for at least {fewest}, or leave it out")));
        }
    }
    Ok(())
}

fn times(spec: &mut Spec, facts: &Facts) -> Result<()> {
    let most = facts.longest_lifetime().unwrap_or(LONGEST);
    for (what, asked) in [
        ("lifetime", spec.lifetime),
        ("command timeout", spec.command_timeout),
        ("create timeout", spec.create_timeout),
        ("prepare timeout", spec.prepare_timeout),
    ] {
        if asked.is_some_and(|asked| asked.is_zero()) {
            return Err(Error::invalid(format!("a {what} of zero")).with_hint("leave it out for the default"));
        }
        if asked.is_some_and(|asked| asked > LONGEST) {
            return Err(
                Error::invalid(format!("a {what} of more than a year")).with_hint("every sandbox ends: choose less")
            );
        }
    }
    match spec.lifetime {
        Some(asked) if asked > most => {
            let message = format!("a lifetime of {asked:?} is more than the {most:?} of backend `{}`", facts.name());
            return Err(Error::invalid(message).with_hint(format!("ask for at most {} s", most.as_secs())));
        }
        Some(asked) if asked < Duration::from_secs(1) => {
            return Err(
                Error::invalid(format!("a lifetime of {asked:?}")).with_hint("lifetimes are at least one second")
            );
        }
        Some(_) => {}
        None => spec.lifetime = Some(Spec::LIFETIME.min(most)),
    }
    let lifetime = spec.effective_lifetime();
    let longest = facts.longest_command().map_or(lifetime, |most| most.min(lifetime));
    if spec.command_timeout.is_some_and(|asked| asked > longest) {
        let message = format!("a command timeout of {:?} is more than {longest:?}", spec.effective_command_timeout());
        return Err(Error::invalid(message).with_hint("commands end with their sandbox: raise `lifetime`, or lower it"));
    }
    spec.network.get_or_insert_default();
    Ok(())
}

/// A new lifetime of a sandbox that has lived for so long.
pub(crate) fn extension(asked: Duration, lived: Duration, facts: &Facts) -> Result<()> {
    if asked < Duration::from_secs(1) {
        return Err(Error::invalid(format!("a lifetime of {asked:?}"))
            .with_hint("lifetimes are at least one second; `close` ends the sandbox now"));
    }
    let most = facts.longest_lifetime().unwrap_or(LONGEST);
    let left = most.saturating_sub(lived);
    if asked > left {
        let message = format!(
            "{asked:?} from now on is more than the {most:?} that a sandbox of backend `{}` lives, of which {lived:?} are over",
            facts.name()
        );
        return Err(Error::invalid(message).with_hint(format!("ask for at most {} s", left.as_secs())));
    }
    Ok(())
}

/// In bytes.
const SHORTEST_SECRET: usize = 6;

/// A year: longer is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
