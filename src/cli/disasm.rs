//! `murre disasm`: an artifact in, its tables and records as text or JSON out. Shows only what the bytes say.

use super::console::Console;
use super::{Exit, Outcome, input};
use murre::{artifact, report};
use std::path::PathBuf;

/// Arguments of `disasm`.
#[derive(clap::Args)]
pub struct Args {
    /// An artifact
    artifact: PathBuf,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let bytes = input::read_file(&args.artifact)?;
    let program = artifact::read(&bytes).map_err(|d| input::name_file(vec![d], &args.artifact))?;
    if console.json {
        console.value(&report::program_json(&program));
    } else {
        console.out(&report::program_text(&program));
    }
    Ok(Exit::Fine)
}
