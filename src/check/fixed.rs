//! Static equals dynamic. In: a module with integer scalars that steer accesses or loops, and inputs. For each such scalar and each of
//! several values the program runs twice: with the scalar as a parameter, and with the scalar replaced by a constant. Out: where the
//! results differ in a bit, and how many records of steered accesses are the same up to how they get their address.
//!
//! ```text
//! pos = s32[] parameter(2)   out = dynamic-update-slice(cache, new, pos, zero)      run with pos = 7
//! pos = s32[] constant(7)    out = dynamic-update-slice(cache, new, pos, zero)      the same bits
//! ```
//!
//! The constant stands beside the parameter, which stays as an input that nobody reads, so that both programs have the same
//! signature. Values: those of the inputs, both ends of the type, and around 0, the middle and the end of the sliced extents. A
//! value with which the parameter's program does not end soon (a trip count of 2^31) is skipped and counted.

use super::{boundary, forms, no_program};
use crate::array::HostArray;
use crate::report::{Explanation, Story};
use crate::sim::{self, SimOptions, SimOutcome};
use murre_components::diag::codes::lower::LOWER_DYNAMIC_SHAPE;
use murre_components::diag::codes::sim::{SIM_SIZE, SIM_STEPS};
use murre_components::diag::{Code, Diagnostic, Severity};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Draft, HloModule, HloOp, Literal};
use murre_components::ids::{CompId, HloId};
use murre_components::program::Program;
use murre_systems::legalize::rebuild::Rebuild;
use murre_systems::{CompileOptions, compile};
use serde::Serialize;
use std::sync::Arc;

/// What came of fixing the scalars of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FixedCounts {
    /// Parameters that were fixed.
    pub scalars: Vec<String>,
    /// Pairs of runs that were compared.
    pub runs: usize,
    /// Values with which the program does not end soon.
    pub skipped: usize,
    /// Records of run-time addresses in the programs with a parameter, over all compared runs.
    pub steered: usize,
    /// Those that have their counterpart in the program with a constant: the same record up to how it gets its address.
    pub coincide: usize,
}

/// Steps beyond ten times those of the first inputs after which a value is skipped.
const PATIENCE: u64 = 200_000;

/// Values of one scalar at most.
const MOST_VALUES: usize = 9;

/// A parameter of the entry that is one small integer and steers something.
struct Scalar {
    /// Its position among the parameters.
    position: usize,
    name: String,
    ty: HloType,
}

/// Compares the runs of `module` with those of its fixed forms; `differs` is told each difference.
pub fn fix_scalars(
    module: &HloModule,
    vectors: &[Vec<HostArray>],
    options: &CompileOptions,
    mut differs: impl FnMut(String),
) -> Result<FixedCounts, Vec<Diagnostic>> {
    let mut outcome = compile(module.clone(), options.clone());
    let scalars: Vec<Scalar> =
        candidates(module).into_iter().filter(|s| steers(&mut outcome, module, &s.name)).collect();
    let program = program_of(outcome)?;
    let mut counts =
        FixedCounts { scalars: scalars.iter().map(|s| s.name.clone()).collect(), ..Default::default() };
    let Some(first) = vectors.first().filter(|_| !scalars.is_empty()) else { return Ok(counts) };
    let usual = run(&program, first, u64::MAX >> 1)?.stats.steps;
    let limit = usual.saturating_mul(10).saturating_add(PATIENCE);
    let mut pair = |inputs: &[HostArray], fixed: &[(usize, Vec<u8>)], what: String| {
        let dynamic = match run(&program, inputs, limit) {
            Err(faults) if faults.iter().any(|d| d.code.id == SIM_STEPS.id) => {
                counts.skipped += 1;
                return Ok(());
            }
            dynamic => dynamic,
        };
        let constant = program_of(compile(with_constants(module, fixed), options.clone()));
        let constant = constant.and_then(|p| run(&p, inputs, limit).map(|o| (p, o)));
        counts.runs += 1;
        match (dynamic, constant) {
            (Ok(a), Ok((constant, b))) => {
                if let Some(k) =
                    (0..a.outputs.len().max(b.outputs.len())).find(|k| a.outputs.get(*k) != b.outputs.get(*k))
                {
                    differs(format!("{what}: output {k} differs from that of the constant"));
                }
                let (steered, coincide) = forms::coinciding(&program, &a, &constant, &b);
                counts.steered += steered;
                counts.coincide += coincide;
            }
            (Err(a), Err(b)) if same_fault(&a, &b) => {}
            (Err(a), _) => differs(format!("{what}: as a parameter {}", codes(&a))),
            (_, Err(b)) => differs(format!("{what}: as a constant {}", codes(&b))),
        }
        Ok::<(), Vec<Diagnostic>>(())
    };
    for s in &scalars {
        for value in values(module, s, vectors) {
            let mut inputs = first.clone();
            let bytes = value.to_le_bytes().get(..s.ty.bytes()).unwrap_or_default().to_vec();
            if let Some(array) = inputs.get_mut(s.position) {
                array.data.clone_from(&bytes);
            }
            pair(&inputs, &[(s.position, bytes)], format!("{} = {value}", s.name))?;
        }
    }
    if scalars.len() > 1 {
        for (k, inputs) in vectors.iter().enumerate() {
            let own = |s: &Scalar| Some((s.position, inputs.get(s.position)?.data.clone()));
            let fixed: Vec<(usize, Vec<u8>)> = scalars.iter().filter_map(own).collect();
            pair(inputs, &fixed, format!("all scalars of vector {k}"))?;
        }
    }
    Ok(counts)
}

/// The same codes; or a size out of its bound, which the run finds in a parameter and the compiler in a constant.
fn same_fault(dynamic: &[Diagnostic], constant: &[Diagnostic]) -> bool {
    let all = |faults: &[Diagnostic], code: Code| faults.iter().all(|d| d.code.id == code.id);
    codes(dynamic) == codes(constant) || all(dynamic, &SIM_SIZE) && all(constant, &LOWER_DYNAMIC_SHAPE)
}

fn codes(faults: &[Diagnostic]) -> String {
    faults.iter().map(|d| d.code.id).collect::<Vec<_>>().join(" ")
}

fn program_of(outcome: murre_systems::CompileOutcome) -> Result<Program, Vec<Diagnostic>> {
    match outcome.program {
        Some(program) => Ok(program),
        None if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) => Err(outcome.diagnostics),
        None => Err(vec![no_program()]),
    }
}

/// Runs a program and looks at the registers of its run-time addresses.
fn run(program: &Program, inputs: &[HostArray], max_steps: u64) -> Result<SimOutcome, Vec<Diagnostic>> {
    let bytes = boundary::to_device(program, inputs)?;
    let options = SimOptions { max_steps, watches: forms::watches(program), ..SimOptions::default() };
    let mut outcome = sim::run(program, &bytes, &options).map_err(|d| vec![d])?;
    // A program that checks a size reports on it in outputs that the host does not see.
    let seen = boundary::to_host(program, outcome.outputs).map_err(|d| vec![d])?;
    outcome.outputs = seen.into_iter().map(|array| array.data).collect();
    Ok(outcome)
}

/// Entry parameters that are one integer of up to 32 bits.
fn candidates(module: &HloModule) -> Vec<Scalar> {
    let parameters = module.entry_comp().parameters.iter().enumerate();
    // A tuple parameter would shift the leaves that the host gives.
    let arrays = module.entry_comp().parameters.iter().all(|p| module.inst(*p).shape().array().is_some());
    parameters
        .filter(|_| arrays)
        .filter_map(|(position, p)| {
            let inst = module.inst(*p);
            let shape =
                inst.shape().array().filter(|s| s.rank() == 0 && s.ty.is_int() && s.ty.bytes() <= 4)?;
            Some(Scalar { position, name: inst.name().to_owned(), ty: shape.ty })
        })
        .collect()
}

fn steers(outcome: &mut murre_systems::CompileOutcome, module: &HloModule, name: &str) -> bool {
    let steered = |s: &Story| !s.accesses.is_empty() || !s.loops.is_empty();
    matches!(Explanation::of(outcome, module, Some(name)), Ok(Explanation::Story(s)) if steered(&s))
}

/// What to set a scalar to, each value once.
fn values(module: &HloModule, scalar: &Scalar, vectors: &[Vec<HostArray>]) -> Vec<i64> {
    let bits = 8 * scalar.ty.bytes() as u32;
    let signed = scalar.ty.is_signed_int();
    let (least, most) =
        if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    let own = vectors.iter().filter_map(|v| v.get(scalar.position)).map(|a| {
        let raw = a.data.iter().rev().fold(0i64, |n, b| n << 8 | i64::from(*b));
        if signed { raw << (64 - bits) >> (64 - bits) } else { raw }
    });
    let extent = module
        .insts()
        .filter(|i| matches!(i.op, HloOp::DynamicSlice | HloOp::DynamicUpdateSlice))
        .filter_map(|i| module.inst(*i.operands().first()?).shape().array()?.dims.iter().copied().max())
        .max()
        .unwrap_or(8);
    let around = [extent / 2, least, most, extent, 0, -1, extent - 1, 1, -extent];
    let mut out: Vec<i64> = Vec::new();
    for value in own.chain(around) {
        if (least..=most).contains(&value) && !out.contains(&value) {
            out.push(value);
        }
    }
    out.truncate(MOST_VALUES);
    out
}

/// The module with constants behind parameters: who read the parameter reads the constant.
pub fn with_constants(module: &HloModule, fixed: &[(usize, Vec<u8>)]) -> HloModule {
    let mut out = Rebuild::new(module);
    for (k, computation) in module.computations.iter().enumerate() {
        out.begin();
        let mut parameters: Vec<HloId> = vec![HloId::NONE; computation.parameters.len()];
        for id in computation.instructions.iter() {
            let new = out.copy(module, id);
            let Some(position) = computation.parameters.iter().position(|p| *p == id) else { continue };
            parameters[position] = new;
            let inst = module.inst(id);
            let bytes = fixed.iter().find(|(p, _)| *p == position && CompId::new(k) == module.entry);
            let (Some((_, bytes)), Some(shape)) = (bytes, inst.shape().array()) else { continue };
            let literal =
                Literal::Array { shape: ArrayShape::new(shape.ty, Vec::new()), data: bytes.clone().into() };
            let attrs = out.module.intern_attrs(Attrs::Constant(Arc::new(literal)));
            let name = format!("{}.fixed", inst.name());
            let draft = Draft { attrs, ..Draft::new(&name, HloOp::Constant, inst.shape_id()) };
            out.moved[id.index()] = out.push(draft);
        }
        let root = out.moved[computation.root.index()];
        out.finish_with(module, CompId::new(k), parameters, root);
    }
    out.module
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = "HloModule m\n\nENTRY main {\n  cache = f32[16,8] parameter(0)\n  new = f32[1,8] parameter(1)\n  \
        pos = s32[] parameter(2)\n  zero = s32[] constant(0)\n  \
        ROOT out = f32[16,8] dynamic-update-slice(cache, new, pos, zero)\n}\n";

    fn module() -> HloModule {
        crate::check::verified_module(&bytes::Bytes::from_static(WRITE.as_bytes()), "m").expect("a module")
    }

    fn inputs(pos: i32) -> Vec<HostArray> {
        let array = |ty, dims: &[u64], data| HostArray { ty, dims: dims.to_vec(), data };
        vec![
            array(HloType::F32, &[16, 8], (0..512u32).map(|k| (k % 60) as u8).collect()),
            array(HloType::F32, &[1, 8], vec![1; 32]),
            array(HloType::S32, &[], pos.to_le_bytes().to_vec()),
        ]
    }

    #[test]
    fn a_fixed_module_is_valid_and_keeps_its_inputs() {
        let fixed = with_constants(&module(), &[(2, 7i32.to_le_bytes().to_vec())]);
        assert!(crate::hlo::verify(&fixed).is_empty());
        let text = crate::hlo::print_module(&fixed);
        assert!(text.contains("pos.fixed = s32[] constant(7)") && text.contains("parameter(2)"), "{text}");
        let root = fixed.inst(fixed.entry_comp().root);
        assert_eq!(fixed.inst(root.operands()[2]).name(), "pos.fixed");
    }

    #[test]
    fn both_forms_give_the_same_bits_and_their_records_coincide() {
        let mut told = Vec::new();
        let counts =
            fix_scalars(&module(), &[inputs(3), inputs(-2)], &CompileOptions::default(), |d| told.push(d))
                .expect("compiles and runs");
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(counts.scalars, ["pos"]);
        assert!(counts.runs >= 8, "{counts:?}");
        assert_eq!((counts.skipped, counts.steered), (0, counts.runs), "{counts:?}");
        assert_eq!(counts.coincide, counts.steered);
    }

    #[test]
    fn a_module_without_such_scalars_is_not_run() {
        let text = "HloModule m\n\nENTRY main {\n  ROOT a = s32[] parameter(0)\n}\n";
        let module = crate::check::verified_module(&bytes::Bytes::from_static(text.as_bytes()), "m");
        let counts = fix_scalars(&module.expect("valid"), &[], &CompileOptions::default(), |d| panic!("{d}"));
        assert_eq!(counts.expect("compiles"), FixedCounts::default());
    }
}
