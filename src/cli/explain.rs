//! `murre explain`: follows a control scalar from the HLO through every stage down to the bits of the address word that
//! it steers, and with `--inputs` through a run. Without a value it lists the scalars that run on register ALUs; with
//! `--shapes` it tells what became of bounded dynamic dimensions.

use super::compile::Steering;
use super::console::Console;
use super::{Exit, Outcome, input};
use murre::check::boundary;
use murre::components::diag::Severity;
use murre::components::hlo::HloModule;
use murre::report::{Explanation, shapes_json, shapes_text};
use murre::systems::dynamic_shape::story::ShapeStory;
use murre::systems::{CompileOutcome, Compiler, Stage};
use std::path::{Path, PathBuf};

/// Arguments of `explain`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// An HLO instruction or parameter
    value: Option<String>,
    /// Run once on these inputs and show the values beside the way: a directory of input_0.npy ..., or an .npz
    #[arg(long, value_name = "DIR|NPZ", requires = "value")]
    inputs: Option<PathBuf>,
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
    let mut outcome = murre::systems::compile(module.clone(), args.steering.options()?);
    if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(input::name_file(outcome.diagnostics, &args.input));
    }
    let mut explanation = Explanation::of(&mut outcome, &module, args.value.as_deref())
        .map_err(|d| input::name_file(vec![d], &args.input))?;
    if let Some(path) = &args.inputs {
        observe(&mut explanation, &outcome, path, console)?;
    }
    if console.json {
        console.value(&explanation.json());
    } else {
        console.out(&explanation.text());
    }
    Ok(Exit::Fine)
}

/// Runs the program on the inputs.
fn observe(
    explanation: &mut Explanation,
    outcome: &CompileOutcome,
    path: &Path,
    console: &Console,
) -> Result<(), Vec<murre::components::diag::Diagnostic>> {
    let (Explanation::Story(story), Some(program)) = (explanation, &outcome.program) else { return Ok(()) };
    let shapes = boundary::input_shapes(program);
    let arrays = input::read_arrays(path, &shapes.iter().collect::<Vec<_>>(), console)?;
    let bytes = boundary::to_device(program, &arrays)?;
    story.observe(program, &bytes).map_err(|d| vec![d])
}

/// Runs the first stage only: what later ones refuse does not matter.
fn shapes(module: HloModule, args: &Args, console: &Console) -> Outcome {
    let mut compiler = Compiler::new(module, args.steering.options()?);
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
