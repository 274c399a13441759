//! `murre fixtures`: modules to try things with. In: how many, of which family. Out: a folder of HLO text.

use super::console::Console;
use super::{Exit, Outcome, input};
use murre::components::diag::{Diagnostic, codes::cli::CLI_FILE};
use murre::fixtures::synth;
use std::path::PathBuf;

/// Arguments of `fixtures`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write synthetic modules: chains of decode steps, dynamic slices, MLP blocks, softmax and loops
    Synth(Synth),
}

/// Arguments of `fixtures synth`.
#[derive(clap::Args)]
struct Synth {
    /// Number of modules; no two have the same structure
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Folder to write to: DIR/<thousand>/m<number>.hlo
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Family; the same seed gives the same modules
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Instructions of each module, about; without it from 12 to 48
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12..=10_000_000))]
    instructions: Option<u32>,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let What::Synth(args) = &args.what;
    let bar = console.progress(u64::from(args.count));
    for number in 0..u64::from(args.count) {
        let folder = args.output.join(format!("{:03}", number / 1000));
        if number % 1000 == 0 {
            std::fs::create_dir_all(&folder).map_err(|e| {
                let fault = Diagnostic::error(&CLI_FILE, format!("the folder cannot be made: {e}"));
                vec![fault.in_file(folder.display().to_string())]
            })?;
        }
        let size = args.instructions.map_or(12 + (number * 7) as usize % 37, |n| n as usize);
        let text = synth::module(args.seed, number, size);
        input::write_file(&folder.join(format!("m{number}.hlo")), text.as_bytes())?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    console.line(&format!("{}: {} modules", args.output.display(), args.count));
    Ok(Exit::Fine)
}
