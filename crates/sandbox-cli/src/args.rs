//! The command line.

use crate::{
    completions::Completions,
    conformance::Options as Conformance,
    demo::Demo,
    doctor::Doctor,
    exit::{self, Own, Phase},
    explain::Explain,
    kill::Kill,
    ls::Ls,
    reap::Reap,
    report::Report,
    values::{self, Transfer},
};
use clap::{Args, Parser, Subcommand, error::ErrorKind as Refusal};
use sandbox::{Error, NetworkPolicy};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Run untrusted programs in any sandbox.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Answer in JSON on stdout, one document a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program in a sandbox made for it, and end with its exit code
    Run(Box<Run>),
    /// List the sandboxes of a backend
    Ls(Ls),
    /// End sandboxes by id
    Kill(Kill),
    /// Find what is left over past its lifetime, and with --apply end it
    Reap(Reap),
    /// Tell what each backend needs, whether it answers, and what it can do
    Doctor(Doctor),
    /// Tell what a code means and what to do: an error kind, a capability, an exit code
    Explain(Explain),
    /// Show what the contract suite has proven of each backend
    Conformance(Conformance),
    /// Do the main job on a backend in memory, step by step; needs no engine and no account
    Demo(Demo),
    /// Print the completions of this command for a shell
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Backend {
    /// Where sandboxes are made: scheme://image?parameter=value [env: SANDBOX_BACKEND]
    #[arg(long, value_name = "DSN")]
    pub(crate) backend: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = run_long())]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) backend: Backend,
    /// The image or template, in place of the one in the DSN
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Build the image from the Dockerfile in this directory, which is its context, unless it is there
    #[arg(long, value_name = "DIR", conflicts_with = "image")]
    pub(crate) build: Option<PathBuf>,
    /// Copy a file, or what is in a directory, into the sandbox before the program starts
    #[arg(long, value_name = "HOST:PATH", value_parser = values::upload)]
    pub(crate) upload: Vec<Transfer>,
    /// Copy a file, or what is in a directory, out of it once the program has ended, whatever its code
    #[arg(long, value_name = "PATH:HOST", value_parser = values::download)]
    pub(crate) download: Vec<Transfer>,
    /// The program's working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// A variable of the program's environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    pub(crate) env: Vec<(String, String)>,
    /// The user, by name or uid, that the program runs as and that uploads belong to
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A label of the sandbox, which `sandbox ls` can look for
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    pub(crate) label: Vec<(String, String)>,
    /// How long the program may run [default: 300s]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// How long the sandbox may live [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) lifetime: Option<Duration>,
    /// The memory that the sandbox may use
    #[arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)]
    pub(crate) memory: Option<u64>,
    /// The processors that the sandbox may use, such as 1.5
    #[arg(long, value_name = "NUMBER", value_parser = values::cpus, allow_hyphen_values = true)]
    pub(crate) cpus: Option<u64>,
    /// The processes that the sandbox may have at once
    #[arg(long, value_name = "NUMBER", value_parser = values::pids, allow_hyphen_values = true)]
    pub(crate) pids: Option<u32>,
    /// What the sandbox may reach: deny, open, or allow=RULE,… [default: deny]
    #[arg(long, value_name = "POLICY", value_parser = values::network)]
    pub(crate) network: Option<NetworkPolicy>,
    /// Pass on at most this much of each stream: the first half as it comes, the last half at the end
    #[arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)]
    pub(crate) output_limit: Option<u64>,
    /// Pass stdin on to the program; without this it has no input
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,
    /// Run this text with /bin/sh -c
    #[arg(long, value_name = "TEXT", conflicts_with = "command", required_unless_present = "command")]
    pub(crate) shell: Option<String>,
    /// The program and its arguments, as they are
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Says what is wrong with the command line, or gives the help or version that was asked for.
pub(crate) fn refused(refusal: &clap::Error, arguments: &[OsString]) -> u8 {
    let json = arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    match refusal.kind() {
        Refusal::DisplayVersion if json => {
            let version = serde_json::json!({ "name": "sandbox", "version": env!("CARGO_PKG_VERSION") });
            crate::report::line(&version);
            0
        }
        Refusal::DisplayHelp | Refusal::DisplayVersion => {
            _ = refusal.print();
            0
        }
        Refusal::DisplayHelpOnMissingArgumentOrSubcommand => {
            _ = refusal.print();
            Own::Usage.code()
        }
        _ => {
            let text = refusal.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // What clap knows beyond the first line is its tip and the usage.
            let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let message = crate::table::flat(message);
            let rest: Vec<_> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let error = Error::invalid(message).with_hint(rest.join("; "));
            let mut report = Report::new(json);
            report.error(Phase::Usage, &error);
            report.end("failed", exit::code(Phase::Usage, &error).code())
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  sandbox run --backend docker+plain://python:3.13 -- python3 -c 'print(6 * 7)'
  sandbox ls --backend docker+plain://
  sandbox kill --backend docker+plain:// ID
  sandbox doctor
  sandbox demo

The variable SANDBOX_BACKEND stands in for --backend.";

const RUN_EXAMPLES: &str = "\
Examples:
  sandbox run --backend docker+plain://alpine --shell 'ls /etc | wc -l'
  sandbox run --backend docker+plain://python:3.13 --upload ./project:/work --workdir /work \\
      --download /work/report.xml:report.xml --timeout 5m -- python3 -m pytest --junitxml=report.xml
  sandbox run --backend docker+plain:// --build . -- make test
  tar c src | sandbox run -i --backend docker+plain://alpine --memory 256m -- tar t

stdin is passed on with -i alone, so that a program never takes what was meant for somebody else. See --help for the exit codes.";

fn run_long() -> String {
    format!("{RUN_EXAMPLES}\n\n{RUN_NOTES}\n\n{}", exit::TABLE)
}

const RUN_NOTES: &str = "\
Paths:
  An upload is split at its last colon, a download at its first one. A file whose target is a directory, or ends with a
  slash, goes into it under its own name. Relative paths inside start at the image's working directory.
Units:
  TIME is a number with ms, s, m or h behind it, seconds without; SIZE a number with k, m or g behind it (of 1024), bytes
  without. RULE is a host, *.domain, an address or a network, each with :port or :from-to behind it.
Ctrl-C ends the program and removes the sandbox; a second one leaves at once and says what may be left.";
