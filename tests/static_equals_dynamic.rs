//! A run-time scalar means the same as a constant: every fixture with integer scalars that steer accesses or loops, and random
//! programs of slices, updates and loops, give the same bits when such a scalar is replaced by a constant, in range and
//! out of it; and records of steered accesses are those of the constant up to how they get their address.

mod support;

use murre::array::HostArray;
use murre::check::{CheckOptions, FixedCounts, Status, fix_case, fix_scalars};
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::systems::CompileOptions;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn cases() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(dir).expect("the fixtures").flatten().map(|e| e.path());
    let mut all: Vec<PathBuf> = entries.filter(|p| p.join("module.hlo.txt").is_file()).collect();
    all.sort();
    all
}

#[test]
fn fixtures_with_constants_give_the_same_bits() {
    let options = CheckOptions { targets: vec![Target::Trn2], ..CheckOptions::default() };
    let queue = Mutex::new(cases().into_iter());
    let total = Mutex::new((FixedCounts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(dir) = queue.lock().next() else { return };
                    let report = fix_case(&dir, &options);
                    let mut total = total.lock();
                    if report.status != Status::Passed {
                        total.1.push(report.text());
                    }
                    let fixed = report.fixed.unwrap_or_default();
                    total.0.scalars.extend(fixed.scalars);
                    total.0.runs += fixed.runs;
                    total.0.skipped += fixed.skipped;
                    total.0.steered += fixed.steered;
                    total.0.coincide += fixed.coincide;
                }
            });
        }
    });
    let (counts, faults) = total.into_inner();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(counts.scalars.len() >= 20 && counts.runs >= 150, "{counts:?}");
    assert!(counts.coincide * 10 >= counts.steered * 9, "{counts:?}");
    println!("{counts:?}");
}

/// What a random program does with its cache.
#[derive(Clone, Debug)]
enum Act {
    /// Adds a slice of so many rows, starting at the scalar plus a constant, to the result.
    Slice { scalar: u8, plus: i8, rows: u8 },
    /// Writes so many rows.
    Update { scalar: u8, plus: i8, rows: u8 },
    /// Runs a scalar's number of times, at most so many, and writes a row at counter plus scalar.
    Loop { trips: u8, most: u8, scalar: u8 },
}

#[derive(Clone, Debug)]
struct Plan {
    rows: u8,
    columns: u8,
    /// Wrap negative indices as front ends do.
    wrap: bool,
    acts: Vec<Act>,
    values: [i16; 2],
}

fn plans() -> impl Strategy<Value = Plan> {
    let act = prop_oneof![
        (0..2u8, -4..4i8, 1..4u8).prop_map(|(scalar, plus, rows)| Act::Slice { scalar, plus, rows }),
        (0..2u8, -4..4i8, 1..4u8).prop_map(|(scalar, plus, rows)| Act::Update { scalar, plus, rows }),
        (0..2u8, 1..6u8, 0..2u8).prop_map(|(trips, most, scalar)| Act::Loop { trips, most, scalar }),
    ];
    let acts = prop::collection::vec(act, 1..4);
    (4..9u8, 1..6u8, any::<bool>(), acts, [-12..12i16, -12..12i16])
        .prop_map(|(rows, columns, wrap, acts, values)| Plan { rows, columns, wrap, acts, values })
}

impl Plan {
    /// The program: its cache, its two scalars and a vector go in; the cache and a sum of slices come out.
    fn text(&self) -> String {
        let (r, c) = (self.rows, self.columns);
        let (mut out, mut main) = (String::from("HloModule random\n\n"), String::new());
        let state = format!("(s32[], s32[], s32[], f32[{r},{c}])");
        let _ = write!(
            main,
            "ENTRY main {{\n  c0 = f32[{r},{c}] parameter(0)\n  pos0 = s32[] parameter(1)\n  pos1 = s32[] parameter(2)\n  \
             zero = s32[] constant(0)\n  a0 = f32[{c}] parameter(3)\n"
        );
        let (mut cache, mut sum) = ("c0".to_owned(), "a0".to_owned());
        for (k, act) in self.acts.iter().enumerate() {
            match act {
                Act::Slice { scalar, plus, rows } => {
                    let at = self.index(&mut main, k, *scalar, *plus);
                    let _ = write!(
                        main,
                        "  d{k} = f32[{rows},{c}] dynamic-slice({cache}, {at}, zero), dynamic_slice_sizes={{{rows},{c}}}\n  \
                         fst{k} = f32[1,{c}] slice(d{k}), slice={{[0:1], [0:{c}]}}\n  g{k} = f32[{c}] reshape(fst{k})\n  \
                         h{k} = f32[{c}] add({sum}, g{k})\n"
                    );
                    sum = format!("h{k}");
                }
                Act::Update { scalar, plus, rows } => {
                    let at = self.index(&mut main, k, *scalar, *plus);
                    let _ = write!(
                        main,
                        "  b{k} = f32[{rows},{c}] broadcast({sum}), dimensions={{1}}\n  \
                         upd{k} = f32[{r},{c}] dynamic-update-slice({cache}, b{k}, {at}, zero)\n"
                    );
                    cache = format!("upd{k}");
                }
                Act::Loop { trips, most, scalar } => {
                    let _ = write!(
                        out,
                        "body{k} {{\n  t = {state} parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n  \
                         n = s32[] get-tuple-element(t), index=1\n  p = s32[] get-tuple-element(t), index=2\n  \
                         x = f32[{r},{c}] get-tuple-element(t), index=3\n  one = s32[] constant(1)\n  \
                         next = s32[] add(i, one)\n  at = s32[] add(i, p)\n  zero = s32[] constant(0)\n  \
                         half = f32[] constant(0.5)\n  row = f32[1,{c}] broadcast(half), dimensions={{}}\n  \
                         old = f32[1,{c}] dynamic-slice(x, at, zero), dynamic_slice_sizes={{1,{c}}}\n  \
                         new = f32[1,{c}] add(old, row)\n  \
                         y = f32[{r},{c}] dynamic-update-slice(x, new, at, zero)\n  \
                         ROOT o = {state} tuple(next, n, p, y)\n}}\n\n\
                         go{k} {{\n  t = {state} parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n  \
                         n = s32[] get-tuple-element(t), index=1\n  ROOT l = pred[] compare(i, n), direction=LT\n}}\n\n"
                    );
                    let _ = write!(
                        main,
                        "  m{k} = s32[] constant({most})\n  n{k} = s32[] minimum(pos{trips}, m{k})\n  \
                         t{k} = {state} tuple(zero, n{k}, pos{scalar}, {cache})\n  \
                         w{k} = {state} while(t{k}), condition=go{k}, body=body{k}\n  \
                         x{k} = f32[{r},{c}] get-tuple-element(w{k}), index=3\n"
                    );
                    cache = format!("x{k}");
                }
            }
        }
        let _ = write!(main, "  ROOT out = (f32[{r},{c}], f32[{c}]) tuple({cache}, {sum})\n}}\n");
        out + &main
    }

    /// The start index of act `k`.
    fn index(&self, main: &mut String, k: usize, scalar: u8, plus: i8) -> String {
        let _ = write!(main, "  k{k} = s32[] constant({plus})\n  i{k} = s32[] add(pos{scalar}, k{k})\n");
        if self.wrap {
            let _ = write!(
                main,
                "  e{k} = s32[] constant({})\n  v{k} = pred[] compare(i{k}, zero), direction=LT\n  \
                 q{k} = s32[] add(i{k}, e{k})\n  j{k} = s32[] select(v{k}, q{k}, i{k})\n",
                self.rows
            );
            return format!("j{k}");
        }
        format!("i{k}")
    }

    fn inputs(&self) -> Vec<HostArray> {
        let (r, c) = (u64::from(self.rows), u64::from(self.columns));
        let floats = |n: u64| (0..n).flat_map(|k| (k as f32 * 0.25).to_le_bytes()).collect();
        let array = |ty, dims: &[u64], data| HostArray { ty, dims: dims.to_vec(), data };
        let scalar = |v: i16| array(HloType::S32, &[], i32::from(v).to_le_bytes().to_vec());
        vec![
            array(HloType::F32, &[r, c], floats(r * c)),
            scalar(self.values[0]),
            scalar(self.values[1]),
            array(HloType::F32, &[c], floats(c)),
        ]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_with_constants_give_the_same_bits(plan in plans()) {
        let text = plan.text();
        let module = support::module(&text);
        let mut told = Vec::new();
        let counts = fix_scalars(&module, &[plan.inputs()], &CompileOptions::default(), |d| told.push(d));
        let counts = counts.unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        prop_assert!(told.is_empty(), "{told:?}\n{text}");
        prop_assert!(!counts.scalars.is_empty() && counts.runs + counts.skipped > 0, "{counts:?}\n{text}");
    }
}
