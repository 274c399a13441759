//! `murre run`: inputs in, outputs out, computed by the simulator from an artifact's bytes. A module is compiled in
//! memory first, and goes through the same bytes.

use super::compile::{Steering, compile_module};
use super::console::Console;
use super::{Exit, Outcome, input};
use bytes::Bytes;
use murre::array::HostArray;
use murre::array::files::write_outputs;
use murre::artifact;
use murre::check::simulate_traced;
use murre::components::diag::{Diagnostic, codes::cli::CLI_UNUSED};
use murre::components::hlo::ArrayShape;
use murre::components::program::Program;
use murre::sim::SimOptions;
use std::path::PathBuf;

/// Arguments of `run`.
#[derive(clap::Args)]
pub struct Args {
    /// A module in any form, or an artifact
    input: PathBuf,
    /// Directory of input_0.npy, input_1.npy ..., or an .npz of arg0, arg1 ...
    #[arg(long, value_name = "DIR|NPZ")]
    inputs: Option<PathBuf>,
    /// Directory for output_0.npy ..., or an .npz for out0 ...
    #[arg(long, value_name = "DIR|NPZ")]
    outputs: PathBuf,
    /// Interleave the engines in an order drawn from this seed
    #[arg(long, value_name = "SEED")]
    interleave: Option<u64>,
    /// Write the order in which engines and queues stepped, as a trace for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    #[command(flatten)]
    steering: Steering,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let bytes = Bytes::from(input::read_file(&args.input)?);
    let (program, arrays) = if artifact::is_artifact(&bytes) {
        let given = args.steering.given();
        if !given.is_empty() {
            let what = format!("an artifact is compiled already: {} has no effect", given.join(", "));
            let unused = Diagnostic::warning(&CLI_UNUSED, what).help("give it to `murre compile`");
            console.diagnostics(&input::name_file(vec![unused], &args.input));
        }
        let program = artifact::read(&bytes).map_err(|d| input::name_file(vec![d], &args.input))?;
        let arrays = arrays_of(args, &symbol_shapes(&program).iter().collect::<Vec<_>>(), console)?;
        (program, arrays)
    } else {
        let module = input::module_of(&bytes, &args.input)?;
        // The inputs are looked at first: a fault in them needs no compilation.
        let arrays = arrays_of(args, &input::input_shapes(&module), console)?;
        let program = compile_module(module, args.steering.options()?, console)
            .map_err(|d| input::name_file(d, &args.input))?;
        let bytes = artifact::write(&program);
        (artifact::read(&bytes).map_err(|d| input::name_file(vec![d], &args.input))?, arrays)
    };
    let options = SimOptions {
        interleave: args.interleave,
        trace: args.timeline.is_some(),
        check_races: true,
        ..SimOptions::default()
    };
    let (results, steps) =
        simulate_traced(&program, &arrays, &options).map_err(|d| input::name_file(d, &args.input))?;
    if let Some(path) = &args.timeline {
        input::write_file(path, murre::report::steps_trace(&program, &steps).as_bytes())?;
    }
    write_outputs(&args.outputs, &results).map_err(|d| vec![d])?;
    Ok(Exit::Fine)
}

fn arrays_of(
    args: &Args,
    shapes: &[&ArrayShape],
    console: &Console,
) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    match &args.inputs {
        Some(path) => input::read_arrays(path, shapes, console),
        None => super::eval::no_inputs(shapes.len()),
    }
}

/// Shapes of a program's inputs, as the host sees them.
fn symbol_shapes(program: &Program) -> Vec<ArrayShape> {
    murre::check::boundary::input_shapes(program)
}
