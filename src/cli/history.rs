//! `murre history`: an entity before and after each pass that made it, changed it or made something of it. The passes run one
//! by one, and only the rows of that entity are kept.

use super::compile::Steering;
use super::console::Console;
use super::{Exit, Outcome, input};
use murre::components::diag::Severity;
use murre::report::Recorder;
use murre::systems::Compiler;
use std::path::PathBuf;

/// Arguments of `history`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// An HLO name, or a row as --print-after writes it: %12 (or i12), r7, ap4, loc3, axis0, n5, queue1, block2, desc6
    entity: String,
    #[command(flatten)]
    steering: Steering,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    let mut compiler = Compiler::new(module, args.steering.options()?);
    let mut recorder = Recorder::new(&args.entity, &mut compiler.world);
    compiler.run_stepwise(|pass, _, world| recorder.after(pass, world));
    let outcome = compiler.finish();
    // What is known up to a refusal is worth its lines, and the refusal comes with it.
    let failed = outcome.diagnostics.iter().any(|d| d.severity == Severity::Error);
    let history = match recorder.finish() {
        Ok(history) => history,
        Err(_) if failed => return Err(input::name_file(outcome.diagnostics, &args.input)),
        Err(fault) => return Err(input::name_file(vec![fault], &args.input)),
    };
    if console.json {
        console.value(&history.json());
    } else {
        console.out(&history.text());
    }
    if failed { Err(input::name_file(outcome.diagnostics, &args.input)) } else { Ok(Exit::Fine) }
}
