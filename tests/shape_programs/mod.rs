//! Random programs over arrays of many shapes: from a seed, HLO text and, for each result, whether it is exact.
//!
//! Ranks 0 to 4; windows, permutations, padding, reductions, products and run-time indices in any order. A value is
//! *exact* as long as every operation behind it rounds the same way in any order of evaluation; comparisons only look at
//! exact values, because a choice made on a rounded one may differ.

mod regions;

use crate::support::Lcg;
use std::fmt::Write;

/// Arrays stay below this many elements.
const LIMIT: u64 = 3000;

/// A value at hand.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    ty: &'static str,
    dims: Vec<u64>,
    exact: bool,
}

impl Value {
    fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    fn shape(&self) -> String {
        shape(self.ty, &self.dims)
    }

    fn like(&self, other: &Value) -> bool {
        self.ty == other.ty && self.dims == other.dims
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn shape(ty: &str, dims: &[u64]) -> String {
    format!("{ty}[{}]", list(dims))
}

/// The computation being written and what it may use.
#[derive(Default)]
struct Frame {
    text: String,
    values: Vec<Value>,
}

/// A program under construction.
struct Generator {
    rng: Lcg,
    next: u32,
    /// Finished computations.
    computations: String,
    frame: Frame,
    limit: u64,
}

/// A finished program.
pub struct Generated {
    /// HLO text.
    pub text: String,
    /// For each result, whether it must be met bit by bit.
    pub exact: Vec<bool>,
}

/// What kind of program to write.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// A few elements, no loops or conditionals.
    Straight,
    /// A few elements, at least one loop or conditional.
    Control,
    /// More rows than partitions, hundreds of elements.
    Large,
}

impl Generator {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn choose<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn line(&mut self, ty: &'static str, dims: &[u64], exact: bool, rest: &str) -> Value {
        self.next += 1;
        let value = Value { name: format!("v{}", self.next), ty, dims: dims.to_vec(), exact };
        writeln!(self.frame.text, "  {} = {} {rest}", value.name, value.shape()).expect("a string");
        value
    }

    /// Writes an instruction whose value later steps may use.
    fn emit(&mut self, ty: &'static str, dims: &[u64], exact: bool, rest: &str) -> Value {
        let value = self.line(ty, dims, exact, rest);
        self.frame.values.push(value.clone());
        value
    }

    /// A value that satisfies `f`, recent ones first.
    fn pick(&mut self, f: impl Fn(&Value) -> bool) -> Option<Value> {
        let fit: Vec<Value> = self.frame.values.iter().filter(|v| f(v)).cloned().collect();
        let recent = if self.chance(70) { fit.len().saturating_sub(8) } else { 0 };
        (!fit.is_empty()).then(|| self.choose(&fit[recent..]))
    }

    fn float(&mut self) -> Value {
        self.pick(|v| v.ty == "f32").expect("the first parameter is f32")
    }

    /// An s32 scalar: anything at hand, sometimes a constant.
    fn scalar(&mut self) -> Value {
        if self.chance(80)
            && let Some(v) = self.pick(|v| v.ty == "s32" && v.dims.is_empty())
        {
            return v;
        }
        let c = self.choose(&[0, 1, 2, -1, 5]);
        self.emit("s32", &[], true, &format!("constant({c})"))
    }

    fn scalars(&mut self, n: usize) -> String {
        (0..n).map(|_| self.scalar().name).collect::<Vec<_>>().join(", ")
    }

    fn constant(&mut self, value: f32) -> Value {
        self.line("f32", &[], true, &format!("constant({value})"))
    }

    /// A constant in every element.
    fn filled(&mut self, dims: &[u64], value: f32) -> Value {
        let c = self.constant(value);
        self.line("f32", dims, true, &format!("broadcast({}), dimensions={{}}", c.name))
    }

    fn axes(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|_| self.chance(50)).collect()
    }

    fn divisor(&mut self, n: u64) -> u64 {
        let all: Vec<u64> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
        self.choose(&all)
    }

    /// One random operation; some draws do not fit the chosen array and do nothing.
    fn step(&mut self, depth: u32) {
        let x = self.float();
        let (n, d, exact, size) = (x.name.clone(), x.dims.clone(), x.exact, x.elements());
        match self.below(22) {
            0 | 1 => {
                let y = self.pick(|v| v.like(&x)).expect("x itself");
                let op = self.choose(&["add", "subtract", "maximum", "minimum"]);
                self.emit("f32", &d, exact && y.exact, &format!("{op}({n}, {})", y.name));
            }
            2 => {
                let op = self.choose(&["negate", "abs"]);
                self.emit("f32", &d, exact, &format!("{op}({n})"));
            }
            3 => self.transpose(&x),
            4 => {
                let a = self.divisor(size);
                let b = self.divisor(size / a);
                let c = size / a / b;
                let to = self.choose(&[vec![a, b * c], vec![a, b, c], vec![size], vec![c, a, b, 1]]);
                self.emit("f32", &to, exact, &format!("reshape({n})"));
            }
            5 => self.slice(&x),
            6 => self.concatenate(&x),
            7 => self.pad(&x),
            8 => {
                let axes = self.axes(d.len());
                self.emit("f32", &d, exact, &format!("reverse({n}), dimensions={{{}}}", list(&axes)));
            }
            9 => {
                let at = self.below(d.len() as u64 + 1) as usize;
                let mut to = d.clone();
                to.insert(at, 1 + self.below(3));
                if to.len() <= 4 && to.iter().product::<u64>() <= self.limit {
                    let axes: Vec<usize> = (0..to.len()).filter(|i| *i != at).collect();
                    self.emit("f32", &to, exact, &format!("broadcast({n}), dimensions={{{}}}", list(&axes)));
                }
            }
            10 | 11 => {
                let window: Vec<u64> = d.iter().map(|q| 1 + self.below(*q)).collect();
                let at = self.scalars(d.len());
                if !d.is_empty() {
                    let rest = format!("dynamic-slice({n}, {at}), dynamic_slice_sizes={{{}}}", list(&window));
                    self.emit("f32", &window, exact, &rest);
                }
            }
            12 | 13 => {
                let fits = |v: &Value| {
                    v.ty == "f32" && v.dims.len() == d.len() && v.dims.iter().zip(&d).all(|(a, b)| a <= b)
                };
                let y = self.pick(fits).expect("x itself");
                let at = self.scalars(d.len());
                if !d.is_empty() {
                    let rest = format!("dynamic-update-slice({n}, {}, {at})", y.name);
                    self.emit("f32", &d, exact && y.exact, &rest);
                }
            }
            14 | 15 => self.reduce(&x),
            16 => self.dot(&x),
            17 => self.select(&x),
            18 => self.convert(&d),
            19 => {
                let (a, b) = (self.scalar().name, self.scalar().name);
                let op = self.choose(&["add", "subtract", "maximum", "minimum", "multiply"]);
                self.emit("s32", &[], true, &format!("{op}({a}, {b})"));
            }
            20 if self.chance(30) => {
                let (low, high) = (self.filled(&d, -4.0).name, self.filled(&d, 2.0).name);
                let c = self.line("f32", &d, false, &format!("clamp({low}, {n}, {high})")).name;
                self.emit("f32", &d, false, &format!("exponential({c})"));
            }
            _ if depth < 2 && self.chance(60) => self.region(depth),
            _ => {}
        }
    }

    fn transpose(&mut self, x: &Value) {
        let mut order: Vec<usize> = (0..x.dims.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        let to: Vec<u64> = order.iter().map(|i| x.dims[*i]).collect();
        self.emit("f32", &to, x.exact, &format!("transpose({}), dimensions={{{}}}", x.name, list(&order)));
    }

    fn slice(&mut self, x: &Value) {
        let (mut said, mut to) = (Vec::new(), Vec::new());
        for q in &x.dims {
            let start = self.below(*q);
            let end = start + 1 + self.below(q - start);
            let stride = self.choose(&[1, 1, 2, 3]);
            said.push(format!("[{start}:{end}:{stride}]"));
            to.push((end - start).div_ceil(stride));
        }
        self.emit("f32", &to, x.exact, &format!("slice({}), slice={{{}}}", x.name, list(&said)));
    }

    fn concatenate(&mut self, x: &Value) {
        if x.dims.is_empty() || x.elements() * 3 > self.limit {
            return;
        }
        let axis = self.below(x.dims.len() as u64) as usize;
        let limit = self.limit / 3;
        let fits = |v: &Value| {
            let same = |i: usize| i == axis || v.dims[i] == x.dims[i];
            v.ty == "f32"
                && v.dims.len() == x.dims.len()
                && v.elements() <= limit
                && (0..v.dims.len()).all(same)
        };
        let mut parts = vec![x.clone()];
        for _ in 0..1 + self.below(2) {
            parts.extend(self.pick(fits));
        }
        let mut to = x.dims.clone();
        to[axis] = parts.iter().map(|p| p.dims[axis]).sum();
        let names: Vec<String> = parts.iter().map(|p| p.name.clone()).collect();
        let rest = format!("concatenate({}), dimensions={{{axis}}}", names.join(", "));
        self.emit("f32", &to, parts.iter().all(|p| p.exact), &rest);
    }

    fn pad(&mut self, x: &Value) {
        let (mut said, mut to) = (Vec::new(), Vec::new());
        for q in &x.dims {
            let (low, high, inside) =
                (self.choose(&[0, 0, 1, 2, -1]), self.choose(&[0, 0, 1, -1, -2]), self.choose(&[0, 0, 1, 2]));
            let extent = *q as i64 + (*q as i64 - 1) * inside + low + high;
            let (low, high, inside, extent) =
                if extent < 1 { (0, 0, 0, *q as i64) } else { (low, high, inside, extent) };
            said.push(format!("{low}_{high}_{inside}"));
            to.push(extent as u64);
        }
        if !to.is_empty() && to.iter().product::<u64>() <= self.limit {
            let value = self.choose(&[0.0, -2.5, 7.0]);
            let c = self.constant(value).name;
            self.emit("f32", &to, x.exact, &format!("pad({}, {c}), padding={}", x.name, said.join("x")));
        }
    }

    fn reduce(&mut self, x: &Value) {
        let axes = self.axes(x.dims.len());
        let to: Vec<u64> = (0..x.dims.len()).filter(|i| !axes.contains(i)).map(|i| x.dims[i]).collect();
        let init = self.choose(&[0.0, 3.0]);
        let (c, sum) = (self.constant(init).name, self.chance(50));
        let with = if sum { "sum" } else { "largest" };
        let rest = format!("reduce({}, {c}), dimensions={{{}}}, to_apply={with}", x.name, list(&axes));
        if sum {
            let total = self.line("f32", &to, false, &rest).name;
            let scale = self.filled(&to, 0.0625).name;
            self.emit("f32", &to, false, &format!("multiply({total}, {scale})"));
        } else {
            self.emit("f32", &to, x.exact, &rest);
        }
    }

    /// A matrix product, scaled down so that repeated ones stay small.
    fn dot(&mut self, x: &Value) {
        if x.dims.len() != 2 {
            return;
        }
        let (mine, inner) = (self.below(2) as usize, |i: usize| x.dims[i]);
        let Some(y) = self.pick(|v| v.ty == "f32" && v.dims.len() == 2 && v.dims.contains(&inner(mine)))
        else {
            return;
        };
        let theirs = usize::from(y.dims[0] != inner(mine));
        let to = [inner(1 - mine), y.dims[1 - theirs]];
        if to.iter().product::<u64>() > self.limit {
            return;
        }
        let rest = format!(
            "dot({}, {}), lhs_contracting_dims={{{mine}}}, rhs_contracting_dims={{{theirs}}}",
            x.name, y.name
        );
        let product = self.line("f32", &to, false, &rest).name;
        let scale = self.filled(&to, 0.0078125).name;
        self.emit("f32", &to, false, &format!("multiply({product}, {scale})"));
    }

    /// A choice between two arrays: element by element on exact values, or all of it on two scalars.
    fn select(&mut self, x: &Value) {
        let y = self.pick(|v| v.like(x)).expect("x itself");
        let (a, b) = (self.pick(|v| v.like(x) && v.exact), self.pick(|v| v.like(x) && v.exact));
        let direction = self.choose(&["LT", "LE", "GT", "GE", "EQ", "NE"]);
        let p = match (a, b) {
            (Some(a), Some(b)) if self.chance(75) => {
                let rest = format!("compare({}, {}), direction={direction}", a.name, b.name);
                self.line("pred", &x.dims, true, &rest)
            }
            _ => {
                let (a, b) = (self.scalar().name, self.scalar().name);
                let p = self.line("pred", &[], true, &format!("compare({a}, {b}), direction={direction}"));
                self.line("pred", &x.dims, true, &format!("broadcast({}), dimensions={{}}", p.name))
            }
        };
        let rest = format!("select({}, {}, {})", p.name, x.name, y.name);
        self.emit("f32", &x.dims, x.exact && y.exact, &rest);
    }

    /// An s32 scalar or array as f32, kept small.
    fn convert(&mut self, dims: &[u64]) {
        match self.pick(|v| v.ty == "s32" && !v.dims.is_empty()) {
            Some(array) if self.chance(40) => {
                let f = self.line("f32", &array.dims, true, &format!("convert({})", array.name)).name;
                let (low, high) = (self.filled(&array.dims, -50.0).name, self.filled(&array.dims, 50.0).name);
                self.emit("f32", &array.dims, true, &format!("clamp({low}, {f}, {high})"));
            }
            _ => {
                let (s, by) = (self.scalar().name, self.line("s32", &[], true, "constant(50)").name);
                let r = self.emit("s32", &[], true, &format!("remainder({s}, {by})")).name;
                let f = self.emit("f32", &[], true, &format!("convert({r})")).name;
                self.emit("f32", dims, true, &format!("broadcast({f}), dimensions={{}}"));
            }
        }
    }
}

/// The program of a seed.
pub fn generate(seed: u64, kind: Kind) -> Generated {
    let limit = if kind == Kind::Large { LIMIT } else { 300 };
    let mut g =
        Generator { rng: Lcg(seed), next: 0, computations: String::new(), frame: Frame::default(), limit };
    // The first numbers of neighbouring seeds are neighbours.
    for _ in 0..3 {
        g.below(2);
    }
    let shapes: &[&[u64]] = match kind {
        Kind::Large => &[&[130, 3], &[3, 140], &[257], &[1030], &[2, 129, 4], &[40, 30], &[]],
        _ => &[&[4, 3], &[5], &[2, 3, 2], &[3, 1, 2, 2], &[4, 4], &[1, 7], &[]],
    };
    let (first, second, third) = (g.choose(shapes), g.choose(&shapes[..6]), g.choose(&shapes[..2]));
    let parameters = [("f32", first), ("f32", second), ("s32", &[]), ("s32", &[]), ("s32", third)];
    for (k, (ty, dims)) in parameters.into_iter().enumerate() {
        g.emit(ty, dims, true, &format!("parameter({k})"));
    }
    let depth = if kind == Kind::Straight { 2 } else { 0 };
    for _ in 0..3 + g.below(10) {
        g.step(depth);
    }
    if kind == Kind::Control || (kind == Kind::Large && g.chance(50)) {
        g.region(0);
    }
    for _ in 0..1 + g.below(5) {
        g.step(depth);
    }
    // Whatever nothing reads is a result, so that no operation goes unseen.
    let read = |v: &Value| [",", ")"].iter().any(|end| g.frame.text.contains(&format!("{}{end}", v.name)));
    let mut results: Vec<Value> =
        g.frame.values.iter().rev().filter(|v| !read(v)).take(16).cloned().collect();
    for _ in 0..3 {
        // Now and then the same value again.
        let values = if g.chance(25) { results.clone() } else { g.frame.values.clone() };
        let value = g.choose(&values);
        results.push(value);
    }
    let shapes: Vec<String> = results.iter().map(Value::shape).collect();
    let names: Vec<String> = results.iter().map(|v| v.name.clone()).collect();
    let mut text = String::from("HloModule random\n\n");
    for (name, op) in [("sum", "add"), ("largest", "maximum")] {
        let body = "  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n";
        writeln!(text, "{name} {{\n{body}  ROOT r = f32[] {op}(a, b)\n}}\n").expect("a string");
    }
    text.push_str(&g.computations);
    let (shapes, names) = (shapes.join(", "), names.join(", "));
    writeln!(text, "ENTRY main {{\n{}  ROOT r = ({shapes}) tuple({names})\n}}", g.frame.text)
        .expect("a string");
    Generated { text, exact: results.iter().map(|v| v.exact).collect() }
}
