//! `cargo xtask browser`: whether there is one that tests can look at pages with.

use std::{process::Command, time::Duration};

use anyhow::{Result, bail};

use crate::process::output_within;

/// The names that the tests look for too.
const NAMES: [&str; 2] = ["chromium-headless-shell", "chromium"];

pub(crate) fn run() -> Result<()> {
    for name in NAMES {
        if let Ok(output) = output_within(Command::new(name).arg("--version"), Duration::from_secs(30))
            && output.status.success()
        {
            println!("{}", String::from_utf8_lossy(&output.stdout).trim());
            return Ok(());
        }
    }
    bail!("no browser starts; looked for: {}\nhint: install chromium-headless-shell", NAMES.join(", "))
}
