//! `cargo xtask toolchain`: another compiler than the one of this build, beside it and never in its place.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{flags, process::output_within, workspace};

/// Asking `rustup` what there is may go over the network.
const ANSWER: Duration = Duration::from_secs(60);

/// Makes sure that the toolchain is there, and runs its cargo if there is something to run.
pub(crate) fn run(flags: &flags::Toolchain) -> Result<()> {
    let version = if flags.name == "newest" { newest()? } else { flags.name.clone() };
    ensure!(is_version(&version), "`{version}` is no version such as 1.85.0, nor `newest`");
    ensure_installed(&version)?;
    let Some(arguments) = flags.cargo.as_deref() else {
        println!("Rust {version} is there");
        return Ok(());
    };
    println!("Rust {version}: cargo {arguments}");
    let status = Command::new("rustup")
        .args(["run", &version, "cargo"])
        .args(arguments.split_whitespace())
        // What another compiler has built is of no use to this one, and the other way around.
        .env("CARGO_TARGET_DIR", workspace::root().join("target").join(format!("rust-{}", flags.name)))
        .current_dir(workspace::root())
        .status()
        .context("cannot run rustup")?;
    ensure!(status.success(), "cargo of Rust {version} failed: {status}");
    Ok(())
}

/// A channel such as `stable` would be brought up to date in place, under the feet of whatever is building with it.
fn is_version(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A toolchain that works is left as it is: to install it again takes it away meanwhile, from whoever uses it.
fn ensure_installed(version: &str) -> Result<()> {
    if answers(version) {
        return Ok(());
    }
    let status = Command::new("rustup")
        .args(["toolchain", "install", "--profile", "minimal", "--no-self-update", version])
        .status()
        .context("cannot run rustup")?;
    ensure!(status.success(), "Rust {version} cannot be had: {status}");
    Ok(())
}

fn answers(version: &str) -> bool {
    ["rustc", "cargo"].iter().all(|program| {
        output_within(Command::new("rustup").args(["run", version, program, "--version"]), ANSWER)
            .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).starts_with(&format!("{program} {version} ")))
    })
}

/// The version of the newest stable compiler, by its number.
fn newest() -> Result<String> {
    let output = output_within(Command::new("rustup").arg("check"), ANSWER)?;
    let (text, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match parse(&text) {
        Some(version) => Ok(version),
        None => bail!("rustup does not tell the newest stable compiler: {} {}", text.trim(), why.trim()),
    }
}

/// Reads `stable-HOST - update available: 1.0.0 (…) -> 1.1.0 (…)` and `stable-HOST - up to date: 1.1.0 (…)`.
fn parse(check: &str) -> Option<String> {
    let line = check.lines().find(|line| line.starts_with("stable-"))?;
    let (_, news) = line.split_once(": ")?;
    let newest = news.rsplit_once("-> ").map_or(news, |(_, newest)| newest);
    newest.split_whitespace().next().filter(|version| is_version(version)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_read_with_and_without_an_update() {
        let update = "nightly-x - up to date: 1.9.0-nightly (a)\nstable-x - update available: 1.95.0 (5 2026-04-14) -> 1.99.1 (6 2026-10-13)\n";
        assert_eq!(parse(update).as_deref(), Some("1.99.1"));
        assert_eq!(parse("stable-x - up to date: 1.95.0 (5 2026-04-14)\n").as_deref(), Some("1.95.0"));
        assert_eq!(parse("stable-x - update check failed: no network\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_toolchain_that_is_not_there_is_not_taken_for_one() {
        assert!(!answers("0.0.1"));
    }

    #[test]
    fn a_channel_is_never_touched() {
        assert!(is_version("1.85.0"));
        for channel in ["stable", "nightly", "1.85", "1.85.x", "1..0", "nightly-2026-01-01"] {
            assert!(!is_version(channel), "{channel}");
            let flags = flags::Toolchain { name: channel.into(), cargo: None };
            assert!(run(&flags).unwrap_err().to_string().contains("no version"), "{channel}");
        }
    }
}
