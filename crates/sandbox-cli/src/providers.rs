//! The providers of this workspace: the one list of them.

use sandbox::{Registry, Result};
use sandbox_docker::DockerPlain;
use sandbox_fake::FakeProvider;

pub(crate) fn registry() -> Result<Registry> {
    Registry::new().register(DockerPlain)?.register(FakeProvider::new())
}
