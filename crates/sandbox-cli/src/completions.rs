//! `sandbox completions`.

use crate::{
    args::Cli,
    report::{Payload, Report},
};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use serde::Serialize;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell that is to complete
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  sandbox completions bash > ~/.local/share/bash-completion/completions/sandbox
  sandbox completions fish > ~/.config/fish/completions/sandbox.fish";

#[derive(Debug, Serialize)]
struct Script {
    shell: String,
    script: String,
}

impl Payload for Script {
    fn words(&self) -> String {
        self.script.clone()
    }
}

/// Prints the completions, and gives the code to end with.
pub(crate) fn completions(args: &Completions, json: bool) -> u8 {
    // A binary with providers of its own has a name of its own.
    let called = env::args_os().next().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_stem).and_then(OsStr::to_str).unwrap_or("sandbox");
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    let script = Script { shell: args.shell.to_string(), script: String::from_utf8_lossy(&script).into_owned() };
    Report::new(json).give(&script, "ok", 0)
}
