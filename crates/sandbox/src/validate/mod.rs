//! Everything that can be decided from facts, before the adapter is called.

mod command;
mod name;
mod spec;

pub(crate) use command::{Place, resolve};
pub(crate) use name::{absolute, id, joined, label_query};
pub(crate) use spec::spec;

use sandbox_core::{Capability, Error, Facts, Result, Support};

/// Refuses what a capability is missing for.
pub(crate) fn need(facts: &Facts, capability: Capability) -> Result<()> {
    match facts.support(capability) {
        Support::Absent(why) => {
            let message = format!("backend `{}` has no {capability}: {why}", facts.name());
            Err(Error::unsupported(message).with_backend(facts.name().to_string()))
        }
        _ => Ok(()),
    }
}
