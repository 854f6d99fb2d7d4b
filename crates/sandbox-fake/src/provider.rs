//! `fake://` and `fake://image`.

use crate::Fake;
use sandbox_core::{Parameters, Provider, Result};

/// Opens fakes from DSNs.
#[derive(Debug, Clone, Default)]
pub struct FakeProvider {
    shared: Option<Fake>,
}

impl FakeProvider {
    /// Each DSN opens a world of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Each DSN opens the same world, with the programs and images that it has.
    pub fn of(fake: Fake) -> Self {
        Self { shared: Some(fake) }
    }
}

impl Provider for FakeProvider {
    type Backend = Fake;

    fn scheme(&self) -> &'static str {
        "fake"
    }

    fn open(&self, _parameters: &Parameters) -> Result<Fake> {
        Ok(self.shared.clone().unwrap_or_default())
    }
}
