//! What several whole-program tests share.
#![allow(dead_code)]

use murre::array::HostArray;
use murre::array::compare::{Tolerance, compare};
use murre::check::simulate_traced;
use murre::components::diag::Diagnostic;
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::components::hlo::{HloModule, Shape};
use murre::components::program::Program;
use murre::sim::SimOptions;
use murre::systems::{CompileOptions, compile};
use std::fmt::Write;

/// A small deterministic generator.
pub struct Lcg(pub u64);

impl Lcg {
    /// The next number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
}

/// Reads and verifies a module.
pub fn module(text: &str) -> HloModule {
    let module = murre::hlo::read_module(text.as_bytes(), "test").unwrap_or_else(|d| panic!("{d:?}\n{text}"));
    let faults = murre::hlo::verify(&module);
    assert!(faults.is_empty(), "{faults:?}\n{text}");
    module
}

/// Compiles with every check on.
pub fn compiled(module: &HloModule, target: Target) -> Program {
    let outcome =
        compile(module.clone(), CompileOptions { target, verify: true, ..CompileOptions::default() });
    outcome.program.unwrap_or_else(|| panic!("{:#?}", outcome.diagnostics))
}

/// Runs a program on arrays, with a seeded interleaving and the race check.
pub fn simulated(program: &Program, inputs: &[HostArray], seed: Option<u64>) -> Vec<HostArray> {
    try_simulated(program, inputs, seed).unwrap_or_else(|d| panic!("{d:#?}"))
}

/// The same, with the simulator's complaint as a value.
pub fn try_simulated(
    program: &Program,
    inputs: &[HostArray],
    seed: Option<u64>,
) -> Result<Vec<HostArray>, Box<Diagnostic>> {
    let options = SimOptions { interleave: seed, check_races: true, ..SimOptions::default() };
    let first = |faults: Vec<Diagnostic>| faults.into_iter().next().map(Box::new).expect("a fault");
    simulate_traced(program, inputs, &options).map(|(arrays, _)| arrays).map_err(first)
}

/// Random inputs for a module's entry parameters. Integers are small or extreme, floats small multiples of 1/4.
pub fn random_inputs(module: &HloModule, rng: &mut Lcg) -> Vec<HostArray> {
    let comp = module.entry_comp();
    comp.parameters
        .iter()
        .map(|p| {
            let Shape::Array(shape) = module.inst(*p).shape() else { panic!("an array parameter") };
            let dims: Vec<u64> = shape.dims.iter().map(|d| *d as u64).collect();
            let n = dims.iter().product::<u64>();
            let width = shape.ty.bytes();
            let mut data = Vec::new();
            for _ in 0..n {
                let bits = if shape.ty.is_float() {
                    let x = ((rng.below(200) as f32 - 100.0) / 4.0).to_bits() as u64;
                    if shape.ty == HloType::Bf16 { x >> 16 } else { x }
                } else {
                    match rng.below(6) {
                        0 => rng.below(1 << 33),
                        1 => (rng.below(40) as i64 - 20) as u64,
                        _ => rng.below(12),
                    }
                };
                data.extend_from_slice(&bits.to_le_bytes()[..width]);
            }
            HostArray { ty: shape.ty, dims, data }
        })
        .collect()
}

/// Compiles a program for each target, simulates it on random inputs and compares with the evaluator, bit by bit (a NaN
/// equals a NaN, -0 equals 0).
pub fn simulate_and_evaluate(text: &str, seed: u64) {
    let module = module(text);
    let mut rng = Lcg(seed ^ 0x9E37_79B9);
    let inputs = random_inputs(&module, &mut rng);
    let want = murre::eval::evaluate(&module, &inputs).unwrap_or_else(|d| panic!("{d:?}\n{text}"));
    for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
        let program = compiled(&module, target);
        let interleave = (target != Target::Trn1).then_some(seed);
        let got = simulated(&program, &inputs, interleave);
        assert_eq!(got.len(), want.len());
        for (k, (g, w)) in got.iter().zip(&want).enumerate() {
            murre::array::compare::compare(g, w, &murre::array::compare::Tolerance::Exact).unwrap_or_else(
                |m| panic!("{} result {k}: {}\nseed {seed}\n{text}", target.name(), m.message),
            );
        }
    }
}

/// What became of a program that may be refused.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Every target's results equal the evaluator's.
    Equal,
    /// The compiler does not lower it, or it does not fit: the codes and messages.
    Refused(String),
    /// Anything else: a wrong result, a fault, a race. It says which.
    Wrong(String),
}

/// As `simulate_and_evaluate`, for programs that the compiler may refuse with a MUR04xx or MUR05xx code. Result `k` is
/// compared bit by bit where `exact[k]`, and within 1e-3 + 1e-3 |want| where rounding may differ.
pub fn judge(text: &str, exact: &[bool], seed: u64) -> Verdict {
    judge_with(text, exact, seed, &CompileOptions::default())
}

/// As `judge`, with options; target and checks are set here.
pub fn judge_with(text: &str, exact: &[bool], seed: u64, options: &CompileOptions) -> Verdict {
    let module = module(text);
    let inputs = random_inputs(&module, &mut Lcg(seed ^ 0x9E37_79B9));
    let want = match murre::eval::evaluate(&module, &inputs) {
        Ok(want) => want,
        Err(d) => return Verdict::Wrong(format!("evaluator: {d:?}")),
    };
    for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
        let options = CompileOptions { target, verify: true, ..options.clone() };
        let outcome = compile(module.clone(), options);
        let Some(program) = outcome.program else {
            let codes = outcome.diagnostics.iter().map(|d| format!("{}: {}", d.code.id, d.message));
            let said = format!("{}: {}", target.name(), codes.collect::<Vec<_>>().join("; "));
            let refused = |d: &Diagnostic| d.code.id.starts_with("MUR04") || d.code.id.starts_with("MUR05");
            return if !outcome.diagnostics.is_empty() && outcome.diagnostics.iter().all(refused) {
                Verdict::Refused(said)
            } else {
                Verdict::Wrong(said)
            };
        };
        let got = match try_simulated(&program, &inputs, (target != Target::Trn1).then_some(seed)) {
            Ok(got) => got,
            Err(d) => return Verdict::Wrong(format!("{}: {}: {}", target.name(), d.code.id, d.message)),
        };
        if got.len() != want.len() || got.len() != exact.len() {
            return Verdict::Wrong(format!("{} results, {} expected", got.len(), want.len()));
        }
        for (k, ((g, w), exact)) in got.iter().zip(&want).zip(exact).enumerate() {
            let tolerance = match exact {
                true => Tolerance::Exact,
                false => Tolerance::Close { rtol: 1e-3, atol: 1e-3 },
            };
            if let Err(m) = compare(g, w, &tolerance) {
                return Verdict::Wrong(format!("{} result {k}: {}", target.name(), m.message));
            }
        }
    }
    Verdict::Equal
}

/// A loop whose body reads `invariant` scalars and carries `carried` others; all of them are indices.
pub fn wide_loop(invariant: usize, carried: usize) -> String {
    let n = 3 + carried + invariant;
    let mut parts = vec!["s32[]".to_string(), "f32[1,4]".to_string(), "f32[128,4]".to_string()];
    parts.extend(std::iter::repeat_n("s32[]".to_string(), n - 3 + 1));
    let tuple = format!("({})", parts.join(", "));
    let mut s = format!(
        "HloModule wide\ncond {{\n t = {tuple} parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] get-tuple-element(t), index={n}\n ROOT c = pred[] compare(i, n), direction=LT\n}}\nbody {{\n t = {tuple} parameter(0)\n one = s32[] constant(1)\n zero = s32[] constant(0)\n i = s32[] get-tuple-element(t), index=0\n y0 = f32[1,4] get-tuple-element(t), index=1\n x = f32[128,4] get-tuple-element(t), index=2\n n = s32[] get-tuple-element(t), index={n}\n next = s32[] add(i, one)\n"
    );
    let mut results = vec!["next".to_string(), format!("y{}", carried + invariant), "x".to_string()];
    for k in 0..carried + invariant {
        writeln!(s, " v{k} = s32[] get-tuple-element(t), index={}", k + 3).expect("writing to a string");
        writeln!(
            s,
            " d{k} = f32[1,4] dynamic-slice(x, v{k}, zero), dynamic_slice_sizes={{1,4}}\n y{} = f32[1,4] add(y{k}, d{k})",
            k + 1
        )
        .expect("writing to a string");
        if k < carried {
            writeln!(s, " w{k} = s32[] add(v{k}, i)").expect("writing to a string");
        }
        results.push(format!("{}{k}", if k < carried { "w" } else { "v" }));
    }
    results.push("n".to_string());
    write!(
        s,
        " ROOT r = {tuple} tuple({})\n}}\nENTRY main {{\n x = f32[128,4] parameter(0)\n m = s32[] parameter(1)\n zero = s32[] constant(0)\n five = s32[] constant(5)\n n = s32[] clamp(zero, m, five)\n y = f32[1,4] slice(x), slice={{[0:1], [0:4]}}\n",
        results.join(", ")
    )
    .expect("writing to a string");
    let mut init = vec!["zero".to_string(), "y".to_string(), "x".to_string()];
    for k in 0..carried + invariant {
        writeln!(s, " p{k} = s32[] parameter({})", k + 2).expect("writing to a string");
        init.push(format!("p{k}"));
    }
    init.push("n".to_string());
    write!(
        s,
        " t = {tuple} tuple({})\n w = {tuple} while(t), condition=cond, body=body\n ROOT r = f32[1,4] get-tuple-element(w), index=1\n}}\n",
        init.join(", ")
    )
    .expect("writing to a string");
    s
}
