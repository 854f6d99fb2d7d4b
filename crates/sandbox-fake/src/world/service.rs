//! Services: sandboxes of their own that belong to another one, end with it, and are reached from it by name.

use super::{After, Kernel, Launch, Lie, State};
use sandbox_core::{Error, SandboxId};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// What makes a room a service.
#[derive(Debug)]
pub(crate) struct Beside {
    /// The room of the sandbox that it belongs to.
    pub(crate) sandbox: u64,
    pub(crate) name: String,
    /// Its main program, a command.
    pub(crate) main: Option<u64>,
}

impl State {
    /// The services of a sandbox, by name, whether it lives or not.
    pub(crate) fn services(&self, sandbox: u64) -> BTreeMap<String, (u64, SandboxId)> {
        let all = self.rooms.iter().filter_map(|(number, room)| Some((number, room.beside.as_ref()?, &room.id)));
        let own = all.filter(|(_, beside, _)| beside.sandbox == sandbox);
        own.map(|(number, beside, id)| (beside.name.clone(), (*number, id.clone()))).collect()
    }

    /// Starts the main program of a service, as its first process. What it writes goes nowhere.
    pub(crate) fn begin(
        &mut self,
        kernel: &Arc<Kernel>,
        room: u64,
        launch: Launch,
        after: &mut After,
    ) -> Result<(), Error> {
        let main = self.enter(kernel, room, launch, None, None, after)?;
        let entry = self.room(room)?;
        if let Some(command) = entry.commands.get_mut(&main) {
            command.output.ignore(after);
        }
        if let Some(beside) = &mut entry.beside {
            beside.main = Some(main);
        }
        Ok(())
    }

    /// Ends a service whose main program has ended; its sandbox goes on.
    pub(super) fn follow_main(&mut self, room: u64, command: u64, after: &mut After) {
        let beside = self.rooms.get(&room).and_then(|room| room.beside.as_ref());
        if beside.is_some_and(|beside| beside.main == Some(command))
            && self.lie != Some(Lie::ServicesOutliveTheirProgram)
        {
            self.end_room(room, after);
        }
    }

    /// Ends what belongs to a sandbox.
    pub(super) fn end_services(&mut self, sandbox: u64, after: &mut After) {
        if ![Lie::DestroyLeavesServices, Lie::ServicesAreNotClaimed].map(Some).contains(&self.lie) {
            let all = self.services(sandbox);
            all.into_values().for_each(|(service, _)| self.end_room(service, after));
        }
    }

    /// The sandbox that a room is, or belongs to.
    fn sandbox_of(&self, room: u64) -> u64 {
        self.rooms.get(&room).and_then(|room| room.beside.as_ref()).map_or(room, |beside| beside.sandbox)
    }

    /// The addresses of a service, asked for by name from beside it.
    pub(super) fn service_named(&self, room: u64, name: &str) -> Option<[IpAddr; 2]> {
        let sandbox = self.sandbox_of(room);
        let named = |room: &&super::Room| {
            let beside = room.beside.as_ref().filter(|beside| beside.name == name);
            beside.is_some_and(|beside| beside.sandbox == sandbox || self.lie == Some(Lie::ServicesAreEverybodys))
        };
        self.rooms.values().find(named).map(|service| service.link.addresses())
    }

    /// Who of the same sandbox has an address: what belongs together reaches each other, whatever the policy.
    pub(super) fn kin_at(&self, room: u64, address: IpAddr) -> Option<u64> {
        let sandbox = self.sandbox_of(room);
        let has = |number: &u64, other: &super::Room| *number != room && other.link.addresses().contains(&address);
        let mut all = self.rooms.iter().filter(|(number, other)| has(number, other));
        all.find(|(number, other)| {
            let everybodys = self.lie == Some(Lie::ServicesAreEverybodys) && other.beside.is_some();
            self.sandbox_of(**number) == sandbox || everybodys
        })
        .map(|(number, _)| *number)
    }
}
