//! `yours://image?…`.

use crate::Yours;
use sandbox_core::{Parameters, Provider, Result};

/// Opens [`Yours`] from a DSN.
#[derive(Debug, Clone, Copy, Default)]
pub struct YoursProvider;

impl Provider for YoursProvider {
    type Backend = Yours;

    fn scheme(&self) -> &'static str {
        "yours"
    }

    // Name the variables of your credentials in `credentials()`; a missing or empty one is an `auth` error from here,
    // whose hint names the variable.
    fn open(&self, _parameters: &Parameters) -> Result<Yours> {
        Ok(Yours::new())
    }
}
