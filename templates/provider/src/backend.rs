//! Making and ending sandboxes.

use crate::{
    sandbox::YoursSandbox,
    wire::{IMAGE, Wire},
};
use sandbox_core::{Attempt, Backend, Capability, Facts, Made, Result, SandboxId, Spec};
use std::sync::Arc;

/// The provider.
#[derive(Debug, Clone, Default)]
pub struct Yours {
    wire: Arc<Wire>,
}

impl Yours {
    /// Reaches the provider. Offline: connections are made by the first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many sandboxes live, by the provider's own word; for tests.
    pub fn count(&self) -> usize {
        self.wire.count()
    }
}

impl Backend for Yours {
    type Instance = YoursSandbox;

    // Declare what works, one capability at a time: `.native([Capability::Run, Capability::Argv])`. The reasons of what
    // stays absent are what users read in the error.
    fn info(&self) -> Facts {
        let nothing = |facts: Facts, capability: &Capability| facts.absent(*capability, "not written yet");
        Capability::ALL.iter().fold(Facts::new("yours"), nothing)
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<YoursSandbox>> {
        // Claimed in the expression that receives it: whatever happens from here on, it is destroyed unless handed over.
        let image = spec.image.as_deref().unwrap_or(IMAGE);
        let id = attempt.claim(SandboxId::new(self.wire.create(image).await?));
        Ok(Made::new(id, YoursSandbox::new()))
    }

    // Gone is `Ok`, also where it was never there.
    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.wire.delete(id.as_str()).await
    }
}
