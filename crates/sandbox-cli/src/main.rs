//! The `sandbox` command, with the providers of this workspace.

mod providers;

use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    match providers::registry() {
        Ok(registry) => sandbox_cli::main(registry),
        Err(error) => {
            _ = writeln!(std::io::stderr(), "sandbox: error: {error}");
            ExitCode::from(250)
        }
    }
}
