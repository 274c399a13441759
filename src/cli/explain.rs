//! `murre explain`: follows a control scalar from the HLO through every stage down to the bits of the address word that
//! it steers. Without a value it lists the scalars that run on register ALUs.

use super::compile::Steering;
use super::console::Console;
use super::{Exit, Outcome, input};
use murre::components::diag::Severity;
use murre::report::Explanation;
use std::path::PathBuf;

/// Arguments of `explain`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// An HLO instruction or parameter
    value: Option<String>,
    #[command(flatten)]
    steering: Steering,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    let mut outcome = murre::systems::compile(module, args.steering.options());
    if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(input::name_file(outcome.diagnostics, &args.input));
    }
    let explanation = Explanation::of(&mut outcome, args.value.as_deref())
        .map_err(|d| input::name_file(vec![d], &args.input))?;
    if console.json {
        console.value(&explanation.json());
    } else {
        console.out(&explanation.text());
    }
    Ok(Exit::Fine)
}
