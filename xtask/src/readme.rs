//! `cargo xtask readme`: runs the README's first command as a newcomer would, and looks at what it left.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::workspace::root;

/// What the command downloads to.
const RESULT: &str = "target/words.txt";

pub(crate) fn run() -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md")).context("cannot read README.md")?;
    let command = first_command(&readme).context("README.md has no block of `sh`")?;
    ensure!(command.contains(RESULT), "the README's first command does not download to {RESULT}");
    let result = root().join(RESULT);
    if result.exists() {
        fs::remove_file(&result).context("cannot remove what an earlier run left")?;
    }
    println!("{command}");
    let status = Command::new("bash").args(["-euo", "pipefail", "-c", command]).current_dir(root()).status();
    let status = status.context("cannot run bash")?;
    ensure!(status.success(), "the README's first command failed: {status}");
    let words = fs::read_to_string(&result).with_context(|| format!("the command left no {RESULT}"))?;
    let the =
        words.lines().find_map(|line| line.trim().strip_suffix(" the")).and_then(|n| n.trim().parse::<u32>().ok());
    ensure!(
        the.is_some_and(|n| n > 50),
        "{RESULT} does not count the words of docs: it has {} lines",
        words.lines().count()
    );
    Ok(())
}

fn first_command(readme: &str) -> Option<&str> {
    let (_, rest) = readme.split_once("```sh\n")?;
    rest.split_once("```").map(|(command, _)| command.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_of_sh_is_the_command() {
        let readme = "a\n```rust\nlet x;\n```\n```sh\necho 1 \\\n  2\n```\n```sh\necho 3\n```\n";
        assert_eq!(first_command(readme), Some("echo 1 \\\n  2"));
        assert_eq!(first_command("```rust\n```\n"), None);
    }
}
