//! Requests and answers. This one stands for the provider, so that the copy works before its first request is written.

use sandbox_core::{Error, ErrorKind, Result};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The only image there is.
pub(crate) const IMAGE: &str = "default";

#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Room>);

#[derive(Debug, Default)]
struct Room {
    made: u64,
    alive: BTreeSet<String>,
}

impl Wire {
    pub(crate) async fn create(&self, image: &str) -> Result<String> {
        if image != IMAGE {
            let error = Error::new(ErrorKind::ImageNotFound, format!("there is no image `{image}`"));
            return Err(error.with_hint(format!("use `{IMAGE}`")));
        }
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
