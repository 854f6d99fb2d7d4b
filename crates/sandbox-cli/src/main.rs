//! The `sandbox` command, with the providers of this workspace.

use sandbox::{Registry, Result};
use sandbox_docker::DockerPlain;
use sandbox_fake::FakeProvider;
use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    match registry() {
        Ok(registry) => sandbox_cli::main(registry),
        Err(error) => {
            _ = writeln!(std::io::stderr(), "sandbox: error: {error}");
            ExitCode::from(250)
        }
    }
}

fn registry() -> Result<Registry> {
    Registry::new().register(DockerPlain)?.register(FakeProvider::new())
}
