//! What comes from files and flags. In: paths and option texts. Out: verified modules, programs and options, or the
//! diagnostics that say which file is at fault and why.

use super::console::Console;
use bytes::Bytes;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use murre::array::{HostArray, files};
use murre::components::diag::{Diagnostic, codes::cli::CLI_FILE, codes::cli::CLI_UNUSED};
use murre::components::engine::Target;
use murre::components::hlo::{ArrayShape, HloModule};
use murre::hlo;
use murre::systems::Stage;
use std::path::Path;

/// The bytes of a file.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Vec<Diagnostic>> {
    std::fs::read(path).map_err(|e| {
        let name = path.display().to_string();
        vec![Diagnostic::error(&CLI_FILE, format!("the file cannot be read: {e}")).in_file(name)]
    })
}

/// Writes a file in one step: all of it or nothing.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Vec<Diagnostic>> {
    murre::array::files::write_atomically(path, bytes).map_err(|e| {
        let name = path.display().to_string();
        vec![Diagnostic::error(&CLI_FILE, format!("the file cannot be written: {e}")).in_file(name)]
    })
}

/// Refuses an output that is the input: it would be gone.
pub fn keep_input(input: &Path, output: &Path) -> Result<(), Vec<Diagnostic>> {
    let place = |p: &Path| std::fs::canonicalize(p).ok().filter(|p| p.is_file());
    match (place(input), place(output)) {
        (Some(a), Some(b)) if a == b => {
            let name = output.display().to_string();
            let fault = Diagnostic::error(&CLI_FILE, "the output is the input, which would be overwritten");
            Err(vec![fault.in_file(name).help("name another file")])
        }
        _ => Ok(()),
    }
}

/// A module, read and verified. All faults are reported together.
pub fn module_of(bytes: &Bytes, path: &Path) -> Result<HloModule, Vec<Diagnostic>> {
    murre::check::verified_module(bytes, &path.display().to_string())
}

/// The module in a file.
pub fn read_module(path: &Path) -> Result<HloModule, Vec<Diagnostic>> {
    module_of(&read_file(path)?.into(), path)
}

/// The leaves of the entry parameters, in order.
pub fn input_shapes(module: &HloModule) -> Vec<&ArrayShape> {
    let parameters = module.entry_comp().parameters.iter();
    parameters.flat_map(|&p| module.inst(p).shape().leaves()).filter_map(|s| s.array()).collect()
}

/// The inputs of a program, one for each shape. One more than it takes is probably a mistake, and is said.
pub fn read_arrays(
    path: &Path,
    shapes: &[&ArrayShape],
    console: &Console,
) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    let arrays = files::read_inputs(path, shapes)?;
    if let Some(name) = files::input_behind(path, shapes.len()) {
        let what = format!("the program has no parameter for {name}: it is not read");
        let unused = Diagnostic::warning(&CLI_UNUSED, what).in_file(path.display().to_string());
        console.diagnostics(&[unused.expected(format!("{} inputs", shapes.len()))]);
    }
    Ok(arrays)
}

/// Accepts the name of a target.
pub fn target_parser() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(Target::ALL.map(Target::name))
        .map(|name| Target::from_name(&name).unwrap_or(Target::Trn2))
}

/// Accepts the name of a stage.
pub fn stage_parser() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::name))
        .map(|name| Stage::from_name(&name).unwrap_or(Stage::Encode))
}

/// Puts the file's name into the diagnostics that have none.
pub fn name_file(mut diagnostics: Vec<Diagnostic>, path: &Path) -> Vec<Diagnostic> {
    for d in &mut diagnostics {
        d.file.get_or_insert_with(|| path.display().to_string());
    }
    diagnostics
}

/// The module as HLO text.
pub fn text_of(module: &HloModule) -> String {
    hlo::print_module(module)
}
