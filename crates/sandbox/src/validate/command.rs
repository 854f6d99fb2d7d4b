//! A command against the facts of its sandbox.

use super::{joined, name, need};
use crate::{Command, Overrides};
use sandbox_core::{Capability, Error, ErrorKind, Exec, Facts, Result, Stdin};
use std::{collections::BTreeMap, time::Duration};

/// What a command is resolved against.
pub(crate) struct Place<'a> {
    pub(crate) facts: &'a Facts,
    /// The sandbox's own, absolute.
    pub(crate) cwd: &'a str,
    /// What a command may take at most unless it says more itself.
    pub(crate) timeout: Duration,
    pub(crate) longest: Duration,
}

/// The command as the adapter gets it.
pub(crate) fn resolve(command: Command, overrides: &Overrides, place: &Place<'_>) -> Result<Exec> {
    let Place { facts, cwd, .. } = place;
    need(facts, Capability::Run)?;
    let Some(program) = command.argv.first() else { unreachable!("a command has a program") };
    if program.is_empty() {
        return Err(Error::invalid("the program's name is empty").with_hint("name a program of the sandbox"));
    }
    command.argv.iter().try_for_each(|arg| name::no_nul(arg, "an argument"))?;
    let mut env = BTreeMap::new();
    for (name, value) in command.env.into_iter().chain(overrides.env.iter().cloned()) {
        name::variable(&name, &value)?;
        env.insert(name, value);
    }
    let user = overrides.user.clone().or(command.user);
    if let Some(user) = &user {
        name::user(user)?;
        need(facts, Capability::User)?;
    }
    match command.stdin {
        Stdin::Null => {}
        Stdin::Pipe => need(facts, Capability::Stdin)?,
        _ => need(facts, Capability::StdinWhole)?,
    }
    let base = overrides.cwd.as_deref().map(|own| joined(cwd, own)).transpose()?;
    let exec_cwd = match command.cwd {
        Some(own) => Some(joined(base.as_deref().unwrap_or(cwd), &own)?),
        None => base,
    };
    let mut exec = Exec::new(command.argv);
    (exec.env, exec.cwd, exec.user, exec.stdin) = (env.into_iter().collect(), exec_cwd, user, command.stdin);
    exec.timeout = timeout(command.timeout, place)?;
    exec.grace = grace(command.grace, exec.timeout, facts)?;
    exec.output_limit = output_limit(command.output_limit, facts)?;
    Ok(exec)
}

fn timeout(asked: Option<Duration>, place: &Place<'_>) -> Result<Duration> {
    let most = place.facts.longest_command().map_or(place.longest, |most| most.min(place.longest));
    let Some(asked) = asked else { return Ok(place.timeout.min(most)) };
    if asked.is_zero() {
        return Err(Error::invalid("a timeout of zero").with_hint("leave it out for the spec's `command_timeout`"));
    }
    if asked > most {
        let message = format!("a timeout of {asked:?} is more than the {most:?} that a command can take here");
        return Err(Error::invalid(message)
            .with_hint("shorten it, or give the sandbox a longer `lifetime` where the backend allows"));
    }
    Ok(asked)
}

fn grace(asked: Option<Duration>, timeout: Duration, facts: &Facts) -> Result<Option<Duration>> {
    let Some(asked) = asked else { return Ok(None) };
    need(facts, Capability::Term)?;
    if asked.is_zero() || asked >= timeout {
        return Err(Error::invalid(format!("a grace of {asked:?} does not lie within the timeout of {timeout:?}"))
            .with_hint("make it shorter than the timeout, and more than zero"));
    }
    Ok(Some(asked))
}

fn output_limit(asked: Option<u64>, facts: &Facts) -> Result<u64> {
    let most = facts.largest_output().unwrap_or(u64::MAX);
    match asked {
        None => Ok(OUTPUT_LIMIT.min(most)),
        Some(0) => Err(Error::invalid("an output limit of zero").with_hint("leave it out for 64 MiB a stream")),
        Some(asked) if asked > most => {
            let message = format!("backend `{}` carries at most {most} bytes of a stream", facts.name());
            Err(Error::new(ErrorKind::Unsupported, message).with_hint("lower the output limit"))
        }
        Some(asked) => Ok(asked),
    }
}

/// Bytes of each stream.
const OUTPUT_LIMIT: u64 = 64 << 20;
