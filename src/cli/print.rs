//! `murre print`: reads a module in any form, verifies it and prints it as HLO text that reads back to the same module.
//! A module with faults is not printed; all of its faults are reported.

use super::console::Console;
use super::{Exit, Outcome, input};
use std::path::PathBuf;

/// Arguments of `print`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    console.out(&input::text_of(&module));
    Ok(Exit::Fine)
}
