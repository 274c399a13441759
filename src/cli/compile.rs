//! `murre compile`: a module in, an artifact out. Also the place where a compilation is watched: tables after a pass,
//! time by pass, a trace. The artifact is written in one step, and only when there was no error.

use super::console::Console;
use super::{Exit, Outcome, input};
use crate::counting::METER;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use murre::artifact;
use murre::components::costs::CostModel;
use murre::components::diag::{Diagnostic, Severity, codes::resource::RES_SBUF_LIMIT};
use murre::components::engine::Target;
use murre::components::estimate::Estimate;
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::report::{Timeline, dump, estimate_json, estimate_text, passes_trace, summary};
use murre::systems::access::{AccessTable, rows_of_all, rows_touched};
use murre::systems::compile::set_threads;
use murre::systems::watch::Watch;
use murre::systems::{
    CompileOptions, CompileOutcome, Compiler, DgeLevels, DgeRoute, EstimateOptions, ExecutorChoice, Lean,
    Stage, passes,
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
    #[arg(long, value_parser = input::target_parser(), help = "Generation to compile for [default: trn2]")]
    target: Option<Target>,
    /// Threads of the pool; more than one chooses the executor "multi"
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Executor of the passes; the bytes do not depend on it
    #[arg(long, value_enum)]
    executor: Option<Executor>,
    /// Kinds of DMA that the descriptor generators may build: a comma list of names or ordinals, "all" or "none"
    #[arg(long, value_name = "LIST", alias = "internal-enable-dge-levels", value_parser = DgeLevels::parse, long_help = dge_levels_help())]
    dge_levels: Option<DgeLevels>,
    /// Generator to take where both can: "auto" takes software, "hw" hardware (offsets in registers and static copies; from trn2 on) [default: auto]
    #[arg(long, value_name = "ROUTE", value_parser = dge_route())]
    dge_route: Option<DgeRoute>,
    /// Bytes of each SBUF partition for the software generator's descriptors, a multiple of 64 [default: 16384]
    #[arg(
        long,
        value_name = "N",
        alias = "internal-dynamic-dma-scratch-size-per-partition",
        visible_alias = "dynamic-dma-sbuf-bytes"
    )]
    dynamic_dma_scratch_size_per_partition: Option<u32>,
    /// Matrix multiplications that a dot is unrolled to; a longer one becomes loops over its tiles [default: 512]
    #[arg(long, value_name = "N")]
    unroll_limit: Option<u32>,
    /// Bytes of each SBUF partition to use, the reserved ones included; what does not fit moves to DRAM
    #[arg(long, value_name = "N")]
    sbuf_bytes: Option<u32>,
    /// Run the passes of each stage in a random legal order; the bytes do not depend on it
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Random entity ids, table order and batch sizes; the bytes do not depend on them
    #[arg(long, value_name = "SEED")]
    chaos: Option<u64>,
    /// Rows of a batch where a sweep over a table is split among threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_rows: Option<u32>,
    /// Load the bases of on-chip run-time addresses through pointers in memory instead of writing them into the code
    #[arg(long)]
    pointer_bases: bool,
    /// Run the checks after each stage
    #[arg(long)]
    verify: bool,
}

fn dge_levels_help() -> String {
    let mut text = String::from(
        "Kinds of DMA that the descriptor generators may build: a comma list of names or ordinals, \"all\" or \"none\".\n\
         What no generator may build has its descriptors built ahead, or is refused:\n",
    );
    for (k, (name, about)) in DgeLevels::NAMES.iter().zip(DgeLevels::ABOUT).enumerate() {
        let on = if DgeLevels::default().has(1 << k) { ", on by default" } else { "" };
        text += &format!("  {k} {name}{on}: {about}\n");
    }
    text
}

/// The choices of `--dge-route`.
pub fn dge_route() -> impl TypedValueParser<Value = DgeRoute> {
    PossibleValuesParser::new(DgeRoute::ALL.map(DgeRoute::name))
        .map(|name| DgeRoute::from_name(&name).unwrap_or_default())
}

impl Steering {
    /// The options that were given, for a command that has nothing to compile.
    pub fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--target", self.target.is_some()),
            ("--threads", self.threads.is_some()),
            ("--executor", self.executor.is_some()),
            ("--dge-levels", self.dge_levels.is_some()),
            ("--dge-route", self.dge_route.is_some()),
            (
                "--dynamic-dma-scratch-size-per-partition",
                self.dynamic_dma_scratch_size_per_partition.is_some(),
            ),
            ("--unroll-limit", self.unroll_limit.is_some()),
            ("--sbuf-bytes", self.sbuf_bytes.is_some()),
            ("--pointer-bases", self.pointer_bases),
            ("--verify", self.verify),
            ("--shuffle", self.shuffle.is_some()),
            ("--chaos", self.chaos.is_some()),
            ("--batch-rows", self.batch_rows.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The options of the compiler; sizes the thread pool on the way.
    pub fn options(&self) -> Result<CompileOptions, Vec<Diagnostic>> {
        let executor = match (self.executor, self.threads) {
            (Some(Executor::Multi), _) => ExecutorChoice::Multi,
            (None, Some(n)) if n > 1 => ExecutorChoice::Multi,
            _ => ExecutorChoice::Single,
        };
        set_threads(self.threads.unwrap_or(1) as usize);
        let usual = CompileOptions::default();
        let options = CompileOptions {
            target: self.target.unwrap_or(usual.target),
            dge_levels: self.dge_levels.unwrap_or_default(),
            dge_route: self.dge_route.unwrap_or_default(),
            dge_scratch_bytes: self.dynamic_dma_scratch_size_per_partition.unwrap_or(usual.dge_scratch_bytes),
            unroll_limit: self.unroll_limit.unwrap_or(usual.unroll_limit),
            sbuf_limit: self.sbuf_bytes,
            pointer_bases: self.pointer_bases,
            verify: self.verify,
            executor,
            shuffle: self.shuffle,
            chaos: self.chaos,
            batch_rows: self.batch_rows.or(self.chaos.map(murre::systems::chaos::batch_rows)),
            ..usual
        };
        // What does not fit in a size that cannot be is not worth telling.
        match options.sbuf_fault() {
            None => Ok(options),
            Some(fault) => {
                Err(vec![Diagnostic::error(&RES_SBUF_LIMIT, "the limit of SBUF cannot be kept").found(fault)])
            }
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
    /// Print of each pass the time, the rows that it went over and the memory that it asked for
    #[arg(long)]
    timings: bool,
    /// Write a trace of the passes and the threads that ran them, for chrome://tracing or Perfetto
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
    for written in args.output.iter().chain(&args.trace) {
        input::keep_input(&args.input, written)?;
    }
    let module = input::read_module(&args.input)?;
    let mut options = args.steering.options()?;
    options.stop_after = args.stop_after;
    options.estimate = args.estimate.then_some(EstimateOptions { model: args.cost_model, trips: args.trips });
    let mut timeline = Timeline::default();
    let mut compiler = Compiler::new(module, options);
    let watch = if args.timings { Watch::with_meter(METER) } else { Watch::default() };
    if args.timings || args.trace.is_some() {
        compiler.world.insert_resource(watch.clone());
    }
    if args.timings || !args.print_after.is_empty() {
        let mut rows = rows_of_all(&compiler.world);
        let bar = console.progress(passes().count() as u64);
        compiler.run_stepwise(|pass, _, world| {
            let before = std::mem::replace(&mut rows, rows_of_all(world));
            if let (Some(span), Some(access)) = (watch.last(), AccessTable::get().of(pass)) {
                timeline.add(span, rows_touched(world, access), rows.saturating_sub(before));
            }
            if args.print_after.iter().any(|p| p == "all" || p == pass.name) {
                let text = format!("// after {} ({})\n{}\n", pass.name, pass.stage.name(), dump(world));
                bar.suspend(|| console.out(&text));
            }
            bar.set_message(pass.name);
            bar.inc(1);
        });
        bar.finish_and_clear();
    } else {
        compiler.world.insert_resource(Lean);
        compiler.run(&Stage::ALL);
    }
    let mut outcome = compiler.finish();
    let estimate = outcome.world.remove_resource::<Estimate>();
    let program = finished(outcome, args.stop_after.is_some(), console)
        .map_err(|d| input::name_file(d, &args.input))?;
    if let Some(path) = &args.trace {
        input::write_file(path, passes_trace(&watch.recorded()).as_bytes())?;
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
