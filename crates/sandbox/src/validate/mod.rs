//! Everything that can be decided from facts, before the adapter is called.

mod build;
mod command;
mod name;
mod pty;
mod service;
mod spec;

pub(crate) use build::definition;
pub(crate) use command::{Place, reattach, resolve};
pub(crate) use name::{absolute, id, joined, label_query, labels, snapshot};
pub(crate) use pty::size;
pub(crate) use spec::{extension, network, spec};

use sandbox_core::{Capability, Error, Facts, Result, Support};

/// What to do without a capability.
fn hint(capability: Capability) -> Option<&'static str> {
    Some(match capability {
        Capability::KillOne => "drop the process: the command ends with its sandbox",
        Capability::Term => "leave out `grace`; at the timeout the command is killed",
        Capability::Stdin => "give all of the input at the start, with `Command::input`",
        Capability::Pty => "leave out `pty`; stdout and stderr then come apart",
        Capability::Reattach => "keep the `Process`, or let the command write to files that are read later",
        Capability::Watch => "list the directory from time to time",
        Capability::User => "leave out the user; the image's own is used",
        Capability::Labels => "leave out the labels",
        Capability::Pause => "leave it running; its lifetime goes on either way",
        Capability::StopStart => "download what is to be kept, then close it",
        Capability::Extend => "create it with the `lifetime` that it needs",
        Capability::DynamicNetwork => "create another sandbox with the policy",
        Capability::Snapshot => "download what is to be kept",
        Capability::Build => "build the image by the provider's own means, and name it with `image`",
        Capability::SnapshotList => "leave out the labels, and keep the ids of snapshots",
        Capability::Fork => "create another sandbox, and copy files into it",
        Capability::Ports => "talk to the program through its own streams",
        Capability::SecretStore => "give the secret to the commands that need it, in their own environment",
        Capability::Services => "run the program in the sandbox itself, or make the sandbox without services",
        Capability::Pids => "leave out the cap on processes",
        _ => return None,
    })
}

/// Refuses what a capability is missing for.
pub(crate) fn need(facts: &Facts, capability: Capability) -> Result<()> {
    match facts.support(capability) {
        Support::Absent(why) => {
            let message = format!("backend `{}` has no {capability}: {why}", facts.name());
            let error = Error::unsupported(message).with_backend(facts.name().to_string());
            Err(match hint(capability) {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        }
        _ => Ok(()),
    }
}
