//! Requests and answers. This one stands for the provider, so that the copy works before its first request is written.

use sandbox_core::Result;
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Room>);

#[derive(Debug, Default)]
struct Room {
    made: u64,
    alive: BTreeSet<String>,
}

impl Wire {
    pub(crate) async fn create(&self) -> Result<String> {
        let mut room = self.room();
        room.made += 1;
        let id = format!("yours-{}", room.made);
        room.alive.insert(id.clone());
        Ok(id)
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<()> {
        self.room().alive.remove(id);
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        self.room().alive.len()
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
