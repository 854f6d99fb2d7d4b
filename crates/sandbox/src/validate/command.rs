//! A command against the facts of its sandbox.

use super::{joined, name, need, pty};
use crate::{Command, Overrides};
use sandbox_core::{Capability, Error, ErrorKind, Exec, Facts, Reattach, Result, Stdin};
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
    if let Some(size) = command.pty {
        pty::size(size)?;
        need(facts, Capability::Pty)?;
    }
    match (&command.stdin, command.pty) {
        (Stdin::Whole(_), Some(_)) => {
            return Err(Error::invalid("a terminal has no end, so its input cannot be given whole")
                .with_hint("start it, `write` the input, and end it with a `\\x04` of its own"));
        }
        (Stdin::Null, _) | (_, Some(_)) => {}
        (Stdin::Pipe, None) => need(facts, Capability::Stdin)?,
        (_, None) => need(facts, Capability::StdinWhole)?,
    }
    let base = overrides.cwd.as_deref().map(|own| joined(cwd, own)).transpose()?;
    let exec_cwd = match command.cwd {
        Some(own) => Some(joined(base.as_deref().unwrap_or(cwd), &own)?),
        None => base,
    };
    let mut exec = Exec::new(command.argv);
    (exec.env, exec.cwd, exec.user) = (env.into_iter().collect(), exec_cwd, user);
    exec.stdin = if command.pty.is_some() { Stdin::Pipe } else { command.stdin };
    exec.pty = command.pty;
    exec.timeout = timeout(command.timeout, place)?;
    exec.grace = grace(command.grace, exec.timeout, facts)?;
    exec.output_limit = output_limit(command.output_limit, facts)?;
    Ok(exec)
}

/// The command that is to be reached again.
pub(crate) fn reattach(request: Reattach, facts: &Facts) -> Result<Reattach> {
    need(facts, Capability::Reattach)?;
    let id = request.id.as_str();
    if id.is_empty() || id.len() > 1024 || id.chars().any(char::is_control) {
        return Err(Error::invalid(format!("`{}` is not the id of a command", id.escape_debug()))
            .with_hint("use an id as `Process::id` or `Process::detach` gives it"));
    }
    // The default is cut to what the wire carries; what was asked for is not.
    let limit = output_limit(Some(request.output_limit).filter(|asked| *asked != OUTPUT_LIMIT), facts)?;
    Ok(request.output_limit(limit))
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
