//! What runs beside a sandbox.

use super::{absolute, name, need, spec};
use sandbox_core::{Capability, Error, Facts, Result, Service};
use std::collections::BTreeMap;

/// Each is checked as the spec is, by the same functions.
pub(super) fn services(all: &BTreeMap<String, Service>, facts: &Facts) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    need(facts, Capability::Services)?;
    for (name, service) in all {
        host(name)?;
        one(service, facts).map_err(|error| {
            let told = Error::new(error.kind(), format!("service `{name}`: {}", error.message()));
            error.hint().map(str::to_string).into_iter().fold(told, Error::with_hint)
        })?;
    }
    Ok(())
}

fn one(service: &Service, facts: &Facts) -> Result<()> {
    name::image(&service.image)?;
    service.env.iter().try_for_each(|(name, value)| name::variable(name, value))?;
    if let Some(cwd) = &service.cwd {
        absolute(cwd, "the working directory")?;
    }
    if let Some(user) = &service.user {
        spec::user(user, facts)?;
    }
    if let Some(argv) = &service.command {
        spec::command(argv, "the command")?;
    }
    Ok(())
}

/// It is a host's name inside.
fn host(name: &str) -> Result<()> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=63).contains(&name.len()) && name.bytes().all(fine) && !name.starts_with('-') && !name.ends_with('-') {
        if name == "localhost" {
            return Err(Error::invalid("a service cannot be `localhost`, which is the sandbox itself")
                .with_hint("choose another name, such as `db`"));
        }
        return Ok(());
    }
    Err(Error::invalid(format!("`{}` is not the name of a service", name.escape_debug())).with_hint(
        "it is a host's name inside: 1 to 63 lower case letters, digits and `-`, which is neither first nor last",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_of_hosts() {
        for fine in ["db", "a", "0", "my-db-2", &"a".repeat(63)] {
            assert!(host(fine).is_ok(), "{fine}");
        }
        for wrong in ["", "Db", "a.b", "a_b", "-a", "a-", "a b", "\u{fc}", "localhost", &"a".repeat(64)] {
            let error = host(wrong).unwrap_err();
            assert!(error.hint().is_some(), "{wrong}");
        }
    }
}
