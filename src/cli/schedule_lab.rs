//! `murre schedule-lab`: compiles one module with every combination of executor, threads and batch size, each in a process
//! of its own, compares the bytes and prints the times.

use super::console::Console;
use super::{Exit, Outcome, input};
use murre::components::diag::{Diagnostic, codes::cli::LAB_CELL};
use murre::components::engine::Target;
use murre::lab::{Cell, Matrix, Measured, Setting, measure};
use murre::systems::{CompileOptions, ExecutorChoice};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `schedule-lab`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// Threads to try
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Rows of a batch to try
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "256,4096,65536", value_parser = clap::value_parser!(u32).range(1..))]
    batch_rows: Vec<u32>,
    /// Timed compilations of each setting
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Generation to compile for
    #[arg(long, default_value = "trn2", value_parser = input::target_parser())]
    target: Target,
    /// Measure one setting in this process and print it: what the command starts itself
    #[arg(long, value_name = "EXECUTOR:THREADS:ROWS", hide = true)]
    cell: Option<Setting>,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    if let Some(setting) = args.cell {
        let module = input::read_module(&args.input)?;
        let options = CompileOptions { target: args.target, ..CompileOptions::default() };
        let measured =
            measure(&module, &options, setting, args.runs).map_err(|d| input::name_file(d, &args.input))?;
        console.line(&serde_json::to_string(&measured).unwrap_or_default());
        return Ok(Exit::Fine);
    }
    // The input's own faults are told once, not by every cell.
    let module = input::read_module(&args.input)?;
    let options = CompileOptions { target: args.target, ..CompileOptions::default() };
    super::compile::compile_module(module, options, console).map_err(|d| input::name_file(d, &args.input))?;
    let program = std::env::current_exe().map_err(|e| vec![failed(&e.to_string())])?;
    let settings = settings(args);
    let bar = console.progress(settings.len() as u64);
    let mut cells = Vec::new();
    for setting in settings {
        cells.push(Cell { setting, measured: child(&program, args, setting).map_err(|d| vec![d])? });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let matrix = match Matrix::new(cells) {
        Ok(matrix) => matrix,
        // Nothing that the lab varies may change a byte: not the input's fault.
        Err(difference) => {
            console.diagnostics(&[difference]);
            return Ok(Exit::Internal);
        }
    };
    if console.json {
        console.value(&matrix.json())
    } else {
        console.out(&matrix.text())
    }
    Ok(Exit::Fine)
}

/// Every combination, the plainest first.
fn settings(args: &Args) -> Vec<Setting> {
    let mut out = Vec::new();
    for executor in [ExecutorChoice::Single, ExecutorChoice::Multi] {
        for &threads in &args.threads {
            out.extend(args.batch_rows.iter().map(|&batch_rows| Setting { executor, threads, batch_rows }));
        }
    }
    out
}

fn failed(why: &str) -> Diagnostic {
    Diagnostic::error(&LAB_CELL, format!("a setting could not be measured: {why}"))
}

/// Measures a setting in a process of its own.
fn child(program: &Path, args: &Args, setting: Setting) -> Result<Measured, Diagnostic> {
    let out = Command::new(program)
        .arg("schedule-lab")
        .arg(&args.input)
        .args(["--cell", &setting.to_string(), "--runs", &args.runs.to_string()])
        .args(["--target", args.target.name()])
        .output()
        .map_err(|e| failed(&e.to_string()))?;
    if !out.status.success() {
        return Err(failed(&format!("{setting} ended with {}", out.status))
            .found(String::from_utf8_lossy(&out.stderr).trim().to_string()));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| failed(&format!("{setting}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args {
            input: "nothing".into(),
            threads: vec![1, 3],
            batch_rows: vec![7, 9],
            runs: 1,
            target: Target::Trn2,
            cell: None,
        }
    }

    #[test]
    fn the_plainest_setting_comes_first() {
        let all = settings(&args());
        assert_eq!(all.len(), 8);
        assert_eq!(all[0].to_string(), "single:1:7");
        assert_eq!(all[7].to_string(), "multi:3:9");
    }

    #[test]
    fn a_child_that_fails_is_told() {
        let setting = settings(&args())[0];
        let complaint = child(Path::new("/bin/false"), &args(), setting).err().unwrap();
        assert_eq!(complaint.code.id, "MUR0921");
        assert_eq!(child(Path::new("/no/such/program"), &args(), setting).err().unwrap().code.id, "MUR0921");
    }
}
