//! The evaluator against XLA's goldens: every fixture, its text and its proto, every vector, within the fixture's own
//! tolerances; where there are strict goldens (every low-precision intermediate rounded), within those too.

mod cases;

use murre::array::case::load_case;
use murre::eval::evaluate;
use murre::hlo::read_module;

#[test]
fn every_vector_of_every_case() {
    let dirs = cases::all();
    let (mut vectors, mut failed) = (0, Vec::new());
    for dir in &dirs {
        let case = load_case(dir).unwrap_or_else(|e| panic!("{e:?}"));
        for file in ["module.hlo.txt", "module.hlo.pb"] {
            let bytes = std::fs::read(dir.join(file)).expect("a module");
            let module = read_module(&bytes, file).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
            for vector in &case.vectors {
                vectors += 1;
                let inputs = case.read_inputs(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
                let goldens = case.read_goldens(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
                match evaluate(&module, &inputs) {
                    Ok(got) => {
                        let strict =
                            case.read_strict_goldens(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
                        let strict = strict.map(|g| case.compare(&got, &g)).unwrap_or_default();
                        for (leaf, mismatch) in case.compare(&got, &goldens).into_iter().chain(strict) {
                            failed.push(format!(
                                "{} {file} {} leaf {leaf}: {mismatch}",
                                case.name, vector.name
                            ));
                        }
                    }
                    Err(faults) => {
                        failed.push(format!("{} {file} {}: {}", case.name, vector.name, faults[0].message))
                    }
                }
            }
        }
    }
    assert!(dirs.len() >= 73 && vectors >= 432, "{} cases, {vectors} vectors", dirs.len());
    assert!(failed.is_empty(), "{} of {vectors} differ:\n{}", failed.len(), failed.join("\n"));
}

use murre::array::HostArray;
use murre::components::dtype::HloType;
use murre::eval::{Limits, evaluate_within};

fn f32s(values: &[f32]) -> HostArray {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostArray { ty: HloType::F32, dims: vec![values.len() as u64], data }
}

fn s32(value: i32) -> HostArray {
    HostArray { ty: HloType::S32, dims: vec![], data: value.to_le_bytes().to_vec() }
}

/// The result of a text, or the code of its first fault.
fn run(text: &str, inputs: &[HostArray]) -> Result<Vec<HostArray>, &'static str> {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
    let limits = Limits { steps: 1_000_000, elements: 1 << 20, bytes: 1 << 28 };
    evaluate_within(&module, inputs, &limits).map_err(|f| f[0].code.id)
}

const FOREVER: &str = "c { p = s32[] parameter(0) ROOT t = pred[] constant(true) }
    b { ROOT p = s32[] parameter(0) }
    ENTRY e { i = s32[] parameter(0) ROOT w = s32[] while(i), condition=c, body=b }";

#[test]
fn every_evaluator_fault_has_its_code() {
    assert_eq!(run(FOREVER, &[s32(0)]), Err("MUR0303"));
    assert_eq!(run(FOREVER, &[]), Err("MUR0302"));
    assert_eq!(run(FOREVER, &[f32s(&[1.0])]), Err("MUR0123"));
    let large = "ENTRY e { z = f32[] constant(0) ROOT b = f32[2000000] broadcast(z), dimensions={} }";
    assert_eq!(run(large, &[]), Err("MUR0305"));
    let complex = "ENTRY e { z = c64[] constant((1, 2)) ROOT t = c64[] remainder(z, z) }";
    assert_eq!(run(complex, &[]), Err("MUR0301"));
    let invalid = "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] negate(a) }";
    assert_eq!(run(invalid, &[f32s(&[1.0, 2.0])]), Err("MUR0201"));
    // Reductions whose computation reduces, forty levels down.
    let mut text =
        String::from("r0 { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n");
    for i in 1..40 {
        text += &format!(
            "r{i} {{ x = f32[] parameter(0) y = f32[] parameter(1) v = f32[1] reshape(y) \
             ROOT s = f32[] reduce(v, x), dimensions={{0}}, to_apply=r{} }}\n",
            i - 1
        );
    }
    let entry = |r: usize| {
        format!(
            "ENTRY e {{ a = f32[2] parameter(0) z = f32[] constant(0) ROOT s = f32[] reduce(a, z), dimensions={{0}}, to_apply=r{r} }}"
        )
    };
    assert_eq!(run(&(text.clone() + &entry(39)), &[f32s(&[1.0, 2.0])]), Err("MUR0304"));
    assert_eq!(
        run(&(text + &entry(5)), &[f32s(&[1.0, 2.0])]).map(|r| r[0].data.clone()),
        Ok(3f32.to_le_bytes().to_vec())
    );
}

#[test]
fn calls_nest_as_deep_as_they_like() {
    let mut text = String::from("f0 { ROOT x = f32[2] parameter(0) }\n");
    for i in 1..5000 {
        text += &format!("f{i} {{ x = f32[2] parameter(0) ROOT c = f32[2] call(x), to_apply=f{} }}\n", i - 1);
    }
    text += "ENTRY e { x = f32[2] parameter(0) ROOT c = f32[2] call(x), to_apply=f4999 }";
    assert_eq!(run(&text, &[f32s(&[1.0, 2.0])]), Ok(vec![f32s(&[1.0, 2.0])]));
}

#[test]
fn offsets_clamp_in_their_own_signedness_and_updates_leave_the_old_value() {
    let text = "ENTRY e { a = f32[4] parameter(0) i = s32[] parameter(1) k = u32[] constant(4000000000)
        s = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}
        u = f32[1] dynamic-slice(a, k), dynamic_slice_sizes={1}
        d = f32[4] dynamic-update-slice(a, u, i)
        ROOT t = (f32[1], f32[1], f32[4], f32[4]) tuple(s, u, d, a) }";
    let a = f32s(&[1.0, 2.0, 3.0, 4.0]);
    for (i, s, d) in
        [(-7, 1.0, [4.0, 2.0, 3.0, 4.0]), (1, 2.0, [1.0, 4.0, 3.0, 4.0]), (99, 4.0, [1.0, 2.0, 3.0, 4.0])]
    {
        let want = vec![f32s(&[s]), f32s(&[4.0]), f32s(&d), a.clone()];
        assert_eq!(run(text, &[a.clone(), s32(i)]), Ok(want));
    }
}

#[test]
fn a_bounded_input_and_output_have_their_run_time_size() {
    let text = "ENTRY e { a = f32[<=8] parameter(0) ROOT b = f32[<=8] add(a, a) }";
    assert_eq!(run(text, &[f32s(&[1.0, 2.0, 3.0])]), Ok(vec![f32s(&[2.0, 4.0, 6.0])]));
    assert_eq!(run(text, &[f32s(&[0.0; 9])]), Err("MUR0122"));
}

#[test]
fn conditional_outside_its_branches_takes_the_last() {
    let text = "f { p = f32[1] parameter(0) ROOT r = f32[1] negate(p) }
        g { p = f32[1] parameter(0) ROOT r = f32[1] add(p, p) }
        ENTRY e { i = s32[] parameter(0) a = f32[1] parameter(1)
        ROOT c = f32[1] conditional(i, a, a), branch_computations={f, g} }";
    for (i, want) in [(0, -3.0), (1, 6.0), (7, 6.0), (-1, 6.0)] {
        assert_eq!(run(text, &[s32(i), f32s(&[3.0])]), Ok(vec![f32s(&[want])]));
    }
}

#[test]
fn a_long_sum_keeps_its_digits() {
    let text = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
        ENTRY e { v = f32[] constant(0.3) b = f32[100003] broadcast(v), dimensions={} z = f32[] constant(0)
        ROOT s = f32[] reduce(b, z), dimensions={0}, to_apply=add }";
    let sum = run(text, &[]).expect("a sum")[0].bits(0) as u32;
    assert!((f32::from_bits(sum) - 30000.9).abs() < 0.01);
}

#[test]
fn a_comparator_may_convert() {
    // A comparator that converts on the way compares in the converted type.
    let text = "lt { x = f32[] parameter(0) y = f32[] parameter(1) i = s32[] convert(x) j = s32[] convert(y)
        ROOT c = pred[] compare(i, j), direction=LT }
        ENTRY e { a = f32[4] parameter(0) ROOT s = f32[4] sort(a), dimensions={0}, is_stable=true, to_apply=lt }";
    let sorted = run(text, &[f32s(&[2.9, 2.1, -1.5, 0.5])]);
    assert_eq!(sorted, Ok(vec![f32s(&[-1.5, 0.5, 2.9, 2.1])]));
}
