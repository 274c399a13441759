//! `murre eval`: inputs in, outputs out, computed from the HLO itself. It shares no code with the lowering, so it can
//! stand against what the simulator computes.

use super::console::Console;
use super::{Exit, Outcome, input};
use murre::array::HostArray;
use murre::array::files::write_outputs;
use murre::components::diag::{Diagnostic, codes::cli::CLI_INPUTS};
use murre::eval::{Limits, evaluate_within};
use std::path::PathBuf;

/// Arguments of `eval`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// Directory of input_0.npy, input_1.npy ..., or an .npz of arg0, arg1 ...
    #[arg(long, value_name = "DIR|NPZ")]
    inputs: Option<PathBuf>,
    /// Directory for output_0.npy ..., or an .npz for out0 ...
    #[arg(long, value_name = "DIR|NPZ")]
    outputs: PathBuf,
    /// Stop after this many executed instructions (64 elementary operations of a kernel count as one)
    #[arg(long, value_name = "N", default_value_t = Limits::default().steps)]
    max_steps: u64,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    let shapes = input::input_shapes(&module);
    let arrays = match &args.inputs {
        Some(path) => input::read_arrays(path, &shapes, console)?,
        None => no_inputs(shapes.len())?,
    };
    let limits = Limits { steps: args.max_steps, ..Limits::default() };
    let results = evaluate_within(&module, &arrays, &limits).map_err(|d| input::name_file(d, &args.input))?;
    write_outputs(&args.outputs, &results).map_err(|d| vec![d])?;
    Ok(Exit::Fine)
}

/// The inputs of a program for which `--inputs` was not given: right if it takes none.
pub fn no_inputs(wanted: usize) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    Err(vec![
        Diagnostic::error(
            &CLI_INPUTS,
            format!("the program takes {wanted} inputs and --inputs is not given"),
        )
        .help("pass a directory of input_0.npy, input_1.npy ..., or an .npz file of arg0, arg1 ..."),
    ])
}
