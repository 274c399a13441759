//! Programs against goldens: a fixture case in, a verdict out. The text and the proto of a case are read, verified,
//! compiled for each target, written as an artifact, read back, simulated with every input vector and compared by the
//! tolerances of the case; or evaluated instead. When two forms of a program compile to the same bytes, the bytes run
//! once. `fixed` holds programs with run-time scalars against the same programs with constants.

pub mod boundary;
mod case;
mod fixed;
mod forms;

pub use case::{CaseReport, CheckOptions, Status, check_case, fix_case};
pub use fixed::{FixedCounts, fix_scalars, with_constants};

use crate::array::HostArray;
use crate::sim::{SimOptions, TraceStep};
use bytes::Bytes;
use murre_components::diag::{Diagnostic, codes::internal::INTERNAL};
use murre_components::hlo::HloModule;
use murre_components::program::Program;

/// How a simulation is steered.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulateOptions {
    /// Interleaves the engines in an order drawn from this seed.
    pub interleave: Option<u64>,
}

/// A module, read and verified. All faults are reported together, each with the file's name.
pub fn verified_module(bytes: &Bytes, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    let module = crate::hlo::read_shared(bytes, origin)?;
    let mut faults = crate::hlo::verify(&module);
    if faults.is_empty() {
        return Ok(module);
    }
    for d in &mut faults {
        d.file.get_or_insert_with(|| origin.to_string());
    }
    Err(faults)
}

/// Computes a module with the evaluator.
pub fn evaluate(module: &HloModule, inputs: &[HostArray]) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    crate::eval::evaluate(module, inputs)
}

/// Runs a program on the simulator.
pub fn simulate(
    program: &Program,
    inputs: &[HostArray],
    options: SimulateOptions,
) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    let options = SimOptions { interleave: options.interleave, check_races: true, ..SimOptions::default() };
    simulate_traced(program, inputs, &options).map(|(arrays, _)| arrays)
}

/// [`simulate`] with every option of the simulator, and the steps that it recorded.
pub fn simulate_traced(
    program: &Program,
    inputs: &[HostArray],
    options: &SimOptions,
) -> Result<(Vec<HostArray>, Vec<TraceStep>), Vec<Diagnostic>> {
    let bytes = boundary::to_device(program, inputs)?;
    let outcome = crate::sim::run(program, &bytes, options).map_err(|d| vec![d])?;
    let arrays = boundary::to_host(program, outcome.outputs).map_err(|d| vec![d])?;
    Ok((arrays, outcome.trace))
}

/// The diagnostic for a compilation that ended without an error and without a program.
pub fn no_program() -> Diagnostic {
    Diagnostic::error(&INTERNAL, "the compilation reported no error and made no program")
        .help("this is a bug of murre: please report it with the module and the command line")
}
