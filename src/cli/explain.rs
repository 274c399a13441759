//! `murre explain`: follows a control scalar from the HLO through every stage down to the bits of the address word that
//! it steers. Without a value it lists the scalars that run on register ALUs; with `--shapes` it tells what became of bounded
//! dynamic dimensions.

use super::compile::Steering;
use super::console::Console;
use super::{Exit, Outcome, input};
use murre::components::diag::Severity;
use murre::components::hlo::HloModule;
use murre::report::{Explanation, shapes_json, shapes_text};
use murre::systems::dynamic_shape::story::ShapeStory;
use murre::systems::{Compiler, Stage};
use std::path::PathBuf;

/// Arguments of `explain`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// An HLO instruction or parameter
    value: Option<String>,
    /// Say of each bounded dynamic dimension where its size comes from and where it was padded
    #[arg(long, conflicts_with = "value")]
    shapes: bool,
    #[command(flatten)]
    steering: Steering,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    if args.shapes {
        return shapes(module, args, console);
    }
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

/// Runs the first stage only: what later ones refuse does not matter.
fn shapes(module: HloModule, args: &Args, console: &Console) -> Outcome {
    let mut compiler = Compiler::new(module, args.steering.options());
    compiler.run(&[Stage::DynamicShape]);
    let mut outcome = compiler.finish();
    let story: ShapeStory = outcome.world.remove_resource().unwrap_or_default();
    if console.json {
        console.value(&shapes_json(&story));
    } else {
        console.out(&shapes_text(&story));
    }
    // What was refused stands in the story, too.
    match outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        true => Err(input::name_file(outcome.diagnostics, &args.input)),
        false => Ok(Exit::Fine),
    }
}
