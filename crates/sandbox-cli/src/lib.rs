#![doc = include_str!("../README.md")]

mod amount;
mod args;
mod backend;
mod bound;
mod completions;
mod conformance;
mod demo;
mod doctor;
mod exit;
mod explain;
mod files;
mod job;
mod kill;
mod listed;
mod ls;
mod plan;
mod progress;
mod reap;
mod report;
mod run;
mod signal;
mod sink;
mod table;
mod values;

use clap::Parser as _;
use sandbox::Registry;
use std::{ffi::OsString, process::ExitCode};

/// The whole command line, over the providers of `registry`. Call it from `main`, and return what it returns: a binary with
/// providers of its own is their registration and this call.
///
/// It makes its own runtime, so it must not be called inside one. The codes it ends with are in `sandbox run --help`.
pub fn main(registry: Registry) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match args::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return args::refused(&error, &arguments).into(),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report::no_runtime(&error, cli.json).into(),
    };
    let code = runtime.block_on(async {
        match cli.command {
            args::Command::Run(args) => Box::pin(run::run(&registry, *args, cli.json)).await,
            args::Command::Ls(args) => ls::ls(&registry, args, cli.json).await,
            args::Command::Kill(args) => kill::kill(&registry, args, cli.json).await,
            args::Command::Reap(args) => reap::reap(&registry, args, cli.json).await,
            args::Command::Doctor(args) => doctor::doctor(&registry, args, cli.json).await,
            args::Command::Explain(args) => explain::explain(&args, cli.json),
            args::Command::Conformance(args) => conformance::conformance(&args, cli.json),
            args::Command::Demo(args) => demo::demo(args, cli.json).await,
            args::Command::Completions(args) => completions::completions(&args, cli.json),
        }
    });
    // A read of stdin that nobody answers must not keep the process.
    runtime.shutdown_background();
    code.into()
}

/// The examples of the workspace's README, which need this crate's dependencies.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
