//! The chores of this workspace: `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod ci;
mod contract_report;
mod engine;
mod flags;
mod gate;
mod images;
mod process;
mod table;
mod workspace;

use std::process::ExitCode;

use flags::XtaskCmd;

fn main() -> ExitCode {
    let flags = match flags::Xtask::from_env() {
        Ok(flags) => flags,
        Err(help) if help.is_help() => {
            println!("{help}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: `cargo xtask --help` lists the commands");
            return ExitCode::from(2);
        }
    };
    let done = match flags.subcommand {
        XtaskCmd::Ci(flags) => ci::run(&flags),
        XtaskCmd::ContractReport(flags) => contract_report::run(&flags),
        XtaskCmd::Engine(_) => engine::run(),
        XtaskCmd::Gate(flags) => gate::run(&flags),
        XtaskCmd::Images(flags) => images::run(&flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
