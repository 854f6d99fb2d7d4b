//! The chores of this workspace: `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod api;
mod bench;
mod browser;
mod ci;
mod construct;
mod contract_report;
mod engine;
mod errors;
mod flags;
mod gate;
mod generated;
mod images;
mod minimal;
mod mutate;
mod package;
mod process;
mod readme;
mod start;
mod table;
mod template;
mod toolchain;
mod workflows;
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
        XtaskCmd::Api(flags) => succeed(api::run(&flags)),
        XtaskCmd::Bench(flags) => succeed(bench::run(&flags)),
        XtaskCmd::Browser(_) => succeed(browser::run()),
        XtaskCmd::Ci(flags) => ci::run(&flags),
        XtaskCmd::Construct(_) => succeed(construct::run()),
        XtaskCmd::ContractReport(flags) => succeed(contract_report::run(&flags)),
        XtaskCmd::Engine(_) => succeed(engine::run()),
        XtaskCmd::Errors(_) => succeed(errors::run()),
        XtaskCmd::Gate(flags) => succeed(gate::run(&flags)),
        XtaskCmd::Images(flags) => succeed(images::run(&flags)),
        XtaskCmd::Minimal(_) => succeed(minimal::run()),
        XtaskCmd::Package(flags) => succeed(package::run(&flags)),
        XtaskCmd::Mutate(flags) => succeed(mutate::run(&flags)),
        XtaskCmd::Readme(_) => succeed(readme::run()),
        XtaskCmd::Template(_) => succeed(template::run()),
        XtaskCmd::Start(_) => succeed(start::run()),
        XtaskCmd::Toolchain(flags) => succeed(toolchain::run(&flags)),
        XtaskCmd::Workflows(_) => succeed(workflows::run()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn succeed(done: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    done.map(|()| ExitCode::SUCCESS)
}
