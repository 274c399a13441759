//! The command line. In: arguments. Out: an exit code. One file a command; what several of them share is in
//! `console` (what people and programs read) and `input` (what comes from files).
//!
//! A command returns diagnostics or an [`Exit`]; only this file turns them into exit codes.

mod bulk;
mod check;
mod compile;
mod console;
mod decode;
mod disasm;
mod errors;
mod eval;
mod explain;
mod fixtures;
mod history;
mod input;
mod passes;
mod print;
mod run;
mod schedule_lab;

use clap::{Parser, Subcommand};
use console::Console;
use murre::components::diag::{Diagnostic, Severity, codes::cli::CLI_USAGE};
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// As asked.
    Fine = 0,
    /// The input is at fault.
    Input = 1,
    /// Results differ from the goldens.
    Differs = 3,
    /// A bug of ours.
    Internal = 70,
}

/// What a command gives: an ending, or why there is none.
pub type Outcome = Result<Exit, Vec<Diagnostic>>;

/// Compiles HLO programs with run-time offsets, trip counts and sizes for a NeuronCore-like target, runs them on a
/// simulator and checks them against goldens.
#[derive(Parser)]
#[command(name = "murre", version, max_term_width = 110, propagate_version = true)]
struct Cli {
    /// Machine-readable output: results as JSON on standard output, diagnostics as JSON lines on standard error
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a module into an artifact
    Compile(compile::Args),
    /// Compile thousands of modules, each structure once
    Bulk(bulk::Args),
    /// Run a module or an artifact on the simulator
    Run(run::Args),
    /// Compute a module directly, without compiling it
    Eval(eval::Args),
    /// Compile, run and compare fixture cases with their goldens
    Check(check::Args),
    /// Read and verify a module and print it as HLO text
    Print(print::Args),
    /// Print an artifact's tables, records and descriptors
    Disasm(disasm::Args),
    /// Take an address word or a record apart
    Decode(decode::Args),
    /// List the passes
    Passes(passes::Args),
    /// Measure executors, thread counts and batch sizes, and compare the bytes
    ScheduleLab(schedule_lab::Args),
    /// Follow a control scalar from HLO to address bits
    Explain(explain::Args),
    /// Show what each pass made of an instruction, a register, a location, ...
    History(history::Args),
    /// List the diagnostic codes, or show the page of one
    Errors(errors::Args),
    /// Write modules to try things with
    Fixtures(fixtures::Args),
}

/// Parses the command line, runs the command, renders what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(fault) => return usage(&fault),
    };
    murre::heap::keep(matches!(cli.command, Command::Bulk(_)));
    let console = Console::new(cli.json);
    console::report_panics(cli.json);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &cli.command {
        Command::Compile(args) => compile::run(args, &console),
        Command::Bulk(args) => bulk::run(args, &console),
        Command::Run(args) => run::run(args, &console),
        Command::Eval(args) => eval::run(args, &console),
        Command::Check(args) => check::run(args, &console),
        Command::Print(args) => print::run(args, &console),
        Command::Disasm(args) => disasm::run(args, &console),
        Command::Decode(args) => decode::run(args, &console),
        Command::Passes(args) => passes::run(args, &console),
        Command::ScheduleLab(args) => schedule_lab::run(args, &console),
        Command::Explain(args) => explain::run(args, &console),
        Command::History(args) => history::run(args, &console),
        Command::Errors(args) => errors::run(args, &console),
        Command::Fixtures(args) => fixtures::run(args, &console),
    }));
    let exit = match outcome {
        Ok(Ok(exit)) => exit,
        Ok(Err(diagnostics)) => {
            console.diagnostics(&diagnostics);
            exit_of(&diagnostics)
        }
        // The panic hook has said what happened.
        Err(_) => Exit::Internal,
    };
    ExitCode::from(exit as u8)
}

/// Says what is wrong with the command line; help and version are no faults. Programs that read get a diagnostic.
fn usage(fault: &clap::Error) -> ExitCode {
    if fault.use_stderr() && std::env::args_os().any(|a| a == "--json") {
        let text = fault.render().to_string();
        let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
        let d = Diagnostic::error(&CLI_USAGE, what.trim().trim_start_matches("error: "));
        Console::new(true).diagnostics(&[d.help(rest.trim())]);
    } else {
        // Nothing is left to do when the stream is gone.
        let _ = fault.print();
    }
    ExitCode::from(fault.exit_code() as u8)
}

/// The ending that a list of diagnostics means.
pub fn exit_of(diagnostics: &[Diagnostic]) -> Exit {
    let errors = || diagnostics.iter().filter(|d| d.severity == Severity::Error);
    if errors().any(murre::report::is_internal) {
        Exit::Internal
    } else if errors().next().is_some() {
        Exit::Input
    } else {
        Exit::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use murre::components::diag::codes::{cli, internal};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bug_of_ours_wins_over_the_input() {
        let input = Diagnostic::error(&cli::CLI_FILE, "a");
        let bug = Diagnostic::error(&internal::INTERNAL, "b");
        assert_eq!(exit_of(&[]), Exit::Fine);
        assert_eq!(exit_of(&[Diagnostic::warning(&cli::CLI_FILE, "w")]), Exit::Fine);
        assert_eq!(exit_of(std::slice::from_ref(&input)), Exit::Input);
        assert_eq!(exit_of(&[input, bug]), Exit::Internal);
    }
}
