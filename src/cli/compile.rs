//! `murre compile`: a module in, an artifact out. Also the place where a compilation is watched: tables after a pass,
//! time by pass, a trace. The artifact is written in one step, and only when there was no error.

use super::console::Console;
use super::{Exit, Outcome, input};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use murre::artifact;
use murre::components::costs::CostModel;
use murre::components::diag::{Diagnostic, Severity};
use murre::components::engine::Target;
use murre::components::estimate::Estimate;
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::report::{Timeline, dump, estimate_json, estimate_text, summary};
use murre::systems::compile::set_threads;
use murre::systems::{
    CompileOptions, CompileOutcome, Compiler, DgeLevels, EstimateOptions, ExecutorChoice, Stage, passes,
};
use std::path::PathBuf;

/// Which executor runs the passes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Executor {
    /// One pass after the other
    Single,
    /// Passes that touch different tables side by side
    Multi,
}

/// What steers a compilation, wherever one happens.
#[derive(clap::Args)]
pub struct Steering {
    /// Generation to compile for
    #[arg(long, default_value = "trn2", value_parser = input::target_parser())]
    pub target: Target,
    /// Threads of the pool; more than one chooses the executor "multi"
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Executor of the passes; the bytes do not depend on it
    #[arg(long, value_enum)]
    executor: Option<Executor>,
    /// Kinds of DMA that the descriptor generators may build: a comma list, or "none"
    #[arg(long, value_name = "LIST", value_parser = dge_levels)]
    dge_levels: Option<DgeLevels>,
    /// Matrix multiplications that a dot is unrolled to; a longer one becomes loops over its tiles
    #[arg(long, value_name = "N", default_value_t = CompileOptions::default().unroll_limit)]
    unroll_limit: u32,
    /// Bytes of each SBUF partition to use, the reserved ones included; what does not fit moves to DRAM
    #[arg(long, value_name = "N")]
    sbuf_bytes: Option<u32>,
    /// Load the bases of on-chip run-time addresses through pointers in memory instead of writing them into the code
    #[arg(long)]
    pointer_bases: bool,
    /// Run the checks after each stage
    #[arg(long)]
    verify: bool,
}

fn dge_levels(list: &str) -> Result<DgeLevels, String> {
    DgeLevels::parse(list).map_err(|name| {
        format!("no level is called '{name}'; the levels are {}", DgeLevels::NAMES.join(", "))
    })
}

impl Steering {
    /// The options of the compiler; sizes the thread pool on the way.
    pub fn options(&self) -> CompileOptions {
        let executor = match (self.executor, self.threads) {
            (Some(Executor::Multi), _) => ExecutorChoice::Multi,
            (None, Some(n)) if n > 1 => ExecutorChoice::Multi,
            _ => ExecutorChoice::Single,
        };
        set_threads(self.threads.unwrap_or(1) as usize);
        CompileOptions {
            target: self.target,
            dge_levels: self.dge_levels.unwrap_or_default(),
            unroll_limit: self.unroll_limit,
            sbuf_limit: self.sbuf_bytes,
            pointer_bases: self.pointer_bases,
            verify: self.verify,
            executor,
            ..CompileOptions::default()
        }
    }
}

/// Arguments of `compile`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, HloModuleProto, HloProto or HloSnapshot
    input: PathBuf,
    /// The artifact to write
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["stop_after", "print_after", "timings", "trace", "estimate"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    steering: Steering,
    /// Print the tables after this pass, or after "all" of them
    #[arg(long, value_name = "PASS", value_delimiter = ',', value_parser = pass_names(), hide_possible_values = true)]
    print_after: Vec<String>,
    /// Stop behind this stage; nothing is written
    #[arg(long, value_name = "STAGE", value_parser = input::stage_parser(), conflicts_with = "output")]
    stop_after: Option<Stage>,
    /// Print the time that each pass took
    #[arg(long)]
    timings: bool,
    /// Write a trace of the passes for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print what the program is estimated to cost: time by engine, traffic, and the roofline of memory
    #[arg(long, conflicts_with = "stop_after")]
    estimate: bool,
    /// Formulas of the estimate: published ones, or the scheduling model of the profiled compiler
    #[arg(long, value_name = "MODEL", requires = "estimate", default_value = "hw", value_parser = cost_model())]
    cost_model: CostModel,
    /// Trips to count for loops whose trips are known at run time only; else their bound, or 1 where there is none
    #[arg(long, value_name = "N", requires = "estimate")]
    trips: Option<u64>,
}

fn cost_model() -> impl TypedValueParser<Value = CostModel> {
    PossibleValuesParser::new(CostModel::ALL.map(CostModel::name))
        .map(|name| CostModel::from_name(&name).unwrap_or_default())
}

fn pass_names() -> PossibleValuesParser {
    PossibleValuesParser::new(passes().map(|p| p.name).chain(["all"]))
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let module = input::read_module(&args.input)?;
    let mut options = args.steering.options();
    options.stop_after = args.stop_after;
    options.estimate = args.estimate.then_some(EstimateOptions { model: args.cost_model, trips: args.trips });
    let watched = args.timings || args.trace.is_some() || !args.print_after.is_empty();
    let mut timeline = Timeline::default();
    let mut compiler = Compiler::new(module, options);
    if watched {
        let bar = console.progress(passes().count() as u64);
        compiler.run_stepwise(|pass, took, world| {
            timeline.add(pass, took);
            if args.print_after.iter().any(|p| p == "all" || p == pass.name) {
                let text = format!("// after {} ({})\n{}\n", pass.name, pass.stage.name(), dump(world));
                bar.suspend(|| console.out(&text));
            }
            bar.set_message(pass.name);
            bar.inc(1);
        });
        bar.finish_and_clear();
    } else {
        compiler.run(&Stage::ALL);
    }
    let mut outcome = compiler.finish();
    let estimate = outcome.world.remove_resource::<Estimate>();
    let program = finished(outcome, args.stop_after.is_some(), console)
        .map_err(|d| input::name_file(d, &args.input))?;
    if let Some(path) = &args.trace {
        input::write_file(path, timeline.chrome_trace().as_bytes())?;
    }
    if args.timings {
        if console.json { console.value(&timeline.json()) } else { console.out(&timeline.text()) }
    }
    if let Some(estimate) = &estimate {
        if console.json {
            console.value(&estimate_json(estimate));
        } else {
            console.out(&estimate_text(estimate));
        }
    }
    if let (Some(program), Some(path)) = (&program, &args.output) {
        artifact::write_file(path, program).map_err(|d| vec![d])?;
        let summary = summary(program);
        if console.json {
            let mut value = summary.json();
            value["artifact"] = path.display().to_string().into();
            console.value(&value);
        } else {
            console.line(&format!("{}: {}", path.display(), summary.text()));
        }
    }
    Ok(Exit::Fine)
}

/// The program of a finished compilation. Warnings are rendered; no program without an error is our bug, unless the
/// run was to stop early.
fn finished(
    outcome: CompileOutcome,
    stopped: bool,
    console: &Console,
) -> Result<Option<Program>, Vec<Diagnostic>> {
    if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(outcome.diagnostics);
    }
    console.diagnostics(&outcome.diagnostics);
    match outcome.program {
        None if !stopped => Err(vec![murre::check::no_program()]),
        program => Ok(program),
    }
}

/// Compiles a module in memory.
pub fn compile_module(
    module: HloModule,
    options: CompileOptions,
    console: &Console,
) -> Result<Program, Vec<Diagnostic>> {
    let program = finished(murre::systems::compile(module, options), false, console)?;
    program.ok_or_else(|| vec![murre::check::no_program()])
}
