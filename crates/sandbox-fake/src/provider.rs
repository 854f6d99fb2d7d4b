//! `fake://`, `fake://image`, `fake://?clock=real`.

use crate::{Fake, world::Pace};
use sandbox_core::{Error, Parameter, Parameters, Provider, Result};

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

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn open(&self, parameters: &Parameters) -> Result<Fake> {
        let pace = match parameters.get("clock") {
            None => None,
            Some("virtual") => Some(Pace::Virtual),
            Some("real") => Some(Pace::Real),
            Some(other) => {
                return Err(Error::invalid(format!("`{other}` is no clock")).with_hint("use `virtual` or `real`"));
            }
        };
        let Some(pace) = pace else { return Ok(self.shared.clone().unwrap_or_default()) };
        let fake = self.shared.clone().unwrap_or_default();
        if self.shared.is_none() {
            fake.kernel().set_pace(pace);
        } else if fake.kernel().pace() != pace {
            return Err(Error::invalid("the world that this DSN opens is there already, with another clock")
                .with_hint("leave `clock` out of the DSN"));
        }
        Ok(fake)
    }
}

const PARAMETERS: &[Parameter] =
    &[Parameter::new("clock", "how time passes: `virtual` (the default) jumps when nothing can run, `real` does not")];
