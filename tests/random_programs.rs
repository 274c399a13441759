//! Random programs: control scalars of every type, dynamic slices and updates, loops and elementwise work, compiled for
//! each target, simulated with seeded interleavings, and compared with the reference evaluator bit by bit.

mod support;

use std::fmt::Write;
use support::{Lcg, simulate_and_evaluate};

/// A program under construction: HLO text and the names at hand by type.
struct Program {
    text: String,
    scalars: Vec<(String, &'static str)>,
    arrays: Vec<String>,
    next: u32,
    rng: Lcg,
}

const TYPES: [&str; 6] = ["s32", "u32", "s8", "u8", "s16", "u16"];
const ROWS: u64 = 6;
const COLUMNS: u64 = 5;

impl Program {
    fn name(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn emit(&mut self, shape: &str, rest: &str) -> String {
        let name = self.name();
        writeln!(self.text, "  {name} = {shape} {rest}").expect("writing to a string");
        name
    }

    fn constant(&mut self, ty: &str, value: i64) -> String {
        self.emit(&format!("{ty}[]"), &format!("constant({value})"))
    }

    fn scalar(&mut self, ty: &str) -> String {
        let same: Vec<String> = self.scalars.iter().filter(|s| s.1 == ty).map(|s| s.0.clone()).collect();
        match same.len() {
            0 => {
                let v = self.rng.below(20) as i64;
                self.constant(ty, v)
            }
            n => same[self.rng.below(n as u64) as usize].clone(),
        }
    }

    fn any_index(&mut self) -> String {
        let ty = TYPES[self.rng.below(6) as usize];
        self.scalar(ty)
    }

    /// One random scalar operation.
    fn scalar_step(&mut self) {
        let ty = TYPES[self.rng.below(6) as usize];
        let signed = ty.starts_with('s');
        let (a, b) = (self.scalar(ty), self.scalar(ty));
        let shape = format!("{ty}[]");
        let made = match self.rng.below(16) {
            0 => self.emit(&shape, &format!("add({a}, {b})")),
            1 => self.emit(&shape, &format!("subtract({a}, {b})")),
            2 => self.emit(&shape, &format!("multiply({a}, {b})")),
            3 => self.emit(&shape, &format!("maximum({a}, {b})")),
            4 => self.emit(&shape, &format!("minimum({a}, {b})")),
            5 => self.emit(&shape, &format!("and({a}, {b})")),
            6 => self.emit(&shape, &format!("xor({a}, {b})")),
            7 => self.emit(&shape, &format!("or({a}, {b})")),
            8 => {
                let by = 1 + self.rng.below(13) as i64;
                let c = self.constant(ty, by);
                let op = if self.rng.below(2) == 0 { "remainder" } else { "divide" };
                self.emit(&shape, &format!("{op}({a}, {c})"))
            }
            9 => {
                let direction = ["LT", "LE", "GT", "GE", "EQ", "NE"][self.rng.below(6) as usize];
                let p = self.emit("pred[]", &format!("compare({a}, {b}), direction={direction}"));
                let c = self.scalar(ty);
                self.emit(&shape, &format!("select({p}, {a}, {c})"))
            }
            10 => {
                let from = TYPES[self.rng.below(6) as usize];
                let x = self.scalar(from);
                self.emit(&shape, &format!("convert({x})"))
            }
            11 => {
                let c = self.rng.below(40) as i64;
                let c = self.constant(ty, c);
                let op = ["shift-left", "shift-right-logical", "shift-right-arithmetic"]
                    [self.rng.below(3) as usize];
                self.emit(&shape, &format!("{op}({a}, {c})"))
            }
            12 => {
                let (lo, hi) = (self.scalar(ty), self.scalar(ty));
                self.emit(&shape, &format!("clamp({lo}, {a}, {hi})"))
            }
            13 if signed => self.emit(&shape, &format!("negate({a})")),
            14 if signed => self.emit(&shape, &format!("abs({a})")),
            15 if signed => self.emit(&shape, &format!("sign({a})")),
            _ => self.emit(&shape, &format!("not({a})")),
        };
        self.scalars.push((made, ty));
    }

    /// One random array operation on `f32[ROWS, COLUMNS]` values.
    fn array_step(&mut self) {
        let pick = |p: &mut Program| {
            let n = p.arrays.len() as u64;
            p.arrays[p.rng.below(n) as usize].clone()
        };
        let shape = format!("f32[{ROWS},{COLUMNS}]");
        let a = pick(self);
        let (h, w) = (1 + self.rng.below(ROWS), 1 + self.rng.below(COLUMNS));
        let (i, j) = (self.any_index(), self.any_index());
        let window = format!("f32[{h},{w}]");
        let made = match self.rng.below(7) {
            0 | 1 => {
                let b = pick(self);
                let (k, l) = (self.any_index(), self.any_index());
                let s = self
                    .emit(&window, &format!("dynamic-slice({b}, {k}, {l}), dynamic_slice_sizes={{{h},{w}}}"));
                self.emit(&shape, &format!("dynamic-update-slice({a}, {s}, {i}, {j})"))
            }
            2 => {
                let s = self
                    .emit(&window, &format!("dynamic-slice({a}, {i}, {j}), dynamic_slice_sizes={{{h},{w}}}"));
                let n = self.emit(&window, &format!("negate({s})"));
                self.emit(&shape, &format!("dynamic-update-slice({a}, {n}, {j}, {i})"))
            }
            3 => {
                let b = pick(self);
                self.emit(&shape, &format!("add({a}, {b})"))
            }
            4 => {
                let b = pick(self);
                let p = self
                    .emit(&format!("pred[{ROWS},{COLUMNS}]"), &format!("compare({a}, {b}), direction=GT"));
                self.emit(&shape, &format!("select({p}, {a}, {b})"))
            }
            5 => {
                let t = self
                    .emit(&format!("f32[{COLUMNS},{ROWS}]"), &format!("transpose({a}), dimensions={{1,0}}"));
                let r = self.emit(&shape, &format!("reshape({t})"));
                let b = pick(self);
                self.emit(&shape, &format!("maximum({r}, {b})"))
            }
            _ => {
                let s = self.scalar("s32");
                let f = self.emit("f32[]", &format!("convert({s})"));
                let b = self.emit(&shape, &format!("broadcast({f}), dimensions={{}}"));
                self.emit(&shape, &format!("minimum({a}, {b})"))
            }
        };
        self.arrays.push(made);
    }
}

fn random_program(seed: u64, looped: bool) -> String {
    let mut p =
        Program { text: String::new(), scalars: Vec::new(), arrays: Vec::new(), next: 0, rng: Lcg(seed) };
    let shape = format!("f32[{ROWS},{COLUMNS}]");
    let mut text = String::from("HloModule random\n\n");
    if looped {
        // Carry: counter, an s32, an array, the bound.
        let carry = format!("(s32[], s32[], {shape}, s32[])");
        let direction = ["LT", "LE", "GT", "NE"][p.rng.below(4) as usize];
        let (left, right) = if direction == "GT" { ("n", "i") } else { ("i", "n") };
        let step = if direction == "NE" { 1 } else { 1 + p.rng.below(3) };
        // A condition that NE could step over is bounded by a second comparison.
        let condition = if direction == "NE" {
            format!(
                "  c1 = pred[] compare({left}, {right}), direction=NE\n  c2 = pred[] compare(i, n), direction=LT\n  ROOT c = pred[] and(c1, c2)\n"
            )
        } else {
            format!("  ROOT c = pred[] compare({left}, {right}), direction={direction}\n")
        };
        write!(
            text,
            "cond {{\n  t = {carry} parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n  n = s32[] get-tuple-element(t), index=3\n{condition}}}\n\n"
        )
        .expect("writing to a string");
        p.text.clear();
        writeln!(
            p.text,
            "  t = {carry} parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n  k = s32[] get-tuple-element(t), index=1\n  x = {shape} get-tuple-element(t), index=2\n  n = s32[] get-tuple-element(t), index=3\n  step = s32[] constant({step})\n  next = s32[] add(i, step)"
        )
        .expect("writing to a string");
        p.scalars = vec![("i".into(), "s32"), ("k".into(), "s32"), ("n".into(), "s32")];
        p.arrays = vec!["x".into()];
        for _ in 0..3 {
            p.scalar_step();
            p.array_step();
        }
        let k = p.scalar("s32");
        let x = p.arrays[p.arrays.len() - 1].clone();
        writeln!(p.text, "  ROOT r = {carry} tuple(next, {k}, {x}, n)").expect("writing to a string");
        write!(text, "body {{\n{}}}\n\n", p.text).expect("writing to a string");
        p.text.clear();
    }
    p.scalars = TYPES.iter().enumerate().map(|(k, t)| (format!("p{k}"), *t)).collect();
    p.arrays = vec!["x".into(), "y".into()];
    for (k, t) in TYPES.iter().enumerate() {
        writeln!(p.text, "  p{k} = {t}[] parameter({k})").expect("writing to a string");
    }
    writeln!(p.text, "  x = {shape} parameter(6)\n  y = {shape} parameter(7)").expect("writing to a string");
    for _ in 0..6 {
        p.scalar_step();
    }
    for _ in 0..4 {
        p.scalar_step();
        p.array_step();
    }
    if looped {
        let carry = format!("(s32[], s32[], {shape}, s32[])");
        let low = if p.rng.below(2) == 0 {
            let v = p.rng.below(4) as i64 - 2;
            p.constant("s32", v)
        } else {
            let s = p.scalar("s32");
            let c = p.constant("s32", 3);
            p.emit("s32[]", &format!("remainder({s}, {c})"))
        };
        let n = p.scalar("s32");
        let c = p.constant("s32", 9);
        let n = p.emit("s32[]", &format!("remainder({n}, {c})"));
        let (k, x) = (p.scalar("s32"), p.arrays[p.arrays.len() - 1].clone());
        let t = p.emit(&carry, &format!("tuple({low}, {k}, {x}, {n})"));
        let w = p.emit(&carry, &format!("while({t}), condition=cond, body=body"));
        let i = p.emit("s32[]", &format!("get-tuple-element({w}), index=0"));
        let k = p.emit("s32[]", &format!("get-tuple-element({w}), index=1"));
        let x = p.emit(&shape, &format!("get-tuple-element({w}), index=2"));
        p.scalars.extend([(i, "s32"), (k, "s32")]);
        p.arrays.push(x);
        p.scalar_step();
        p.array_step();
    }
    let scalars: Vec<_> = p.scalars.iter().rev().take(4).cloned().collect();
    let arrays: Vec<_> = p.arrays.iter().rev().take(3).cloned().collect();
    let shapes: Vec<String> =
        scalars.iter().map(|s| format!("{}[]", s.1)).chain(arrays.iter().map(|_| shape.clone())).collect();
    let names: Vec<String> = scalars.into_iter().map(|s| s.0).chain(arrays).collect();
    write!(
        text,
        "ENTRY main {{\n{}  ROOT r = ({}) tuple({})\n}}\n",
        p.text,
        shapes.join(", "),
        names.join(", ")
    )
    .expect("writing to a string");
    text
}

#[test]
fn straight_line_programs_equal_the_evaluator() {
    for seed in 0..60 {
        simulate_and_evaluate(&random_program(seed, false), seed);
    }
}

#[test]
fn looping_programs_equal_the_evaluator() {
    for seed in 1000..1060 {
        simulate_and_evaluate(&random_program(seed, true), seed);
    }
}
