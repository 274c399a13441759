//! Loops and conditionals of random programs.
//!
//! The carry is a counter, its bound, a free s32 and one to four arrays. Its start may hold one value twice, its bound may
//! be known or not, a round may leave a leaf alone, swap two, or return anything else of the leaf's shape, and what comes
//! out is a value like any other: an index, a bound of the next loop, an operand.

use super::{Generator, Value, list};
use std::fmt::Write;

impl Generator {
    /// A while or a conditional over arrays at hand.
    pub(super) fn region(&mut self, depth: u32) {
        let mut arrays: Vec<Value> = (0..1 + self.below(3)).map(|_| self.float()).collect();
        if self.chance(35) {
            let again = self.choose(&arrays);
            arrays.push(again);
        }
        let top = self.choose(&[3, 4]);
        let top = self.emit("s32", &[], true, &format!("constant({top})")).name;
        let bound = if self.chance(65) { top.clone() } else { self.remainder(&top) };
        let start = if self.chance(70) {
            let c = self.choose(&[0, 1, -1]);
            self.emit("s32", &[], true, &format!("constant({c})")).name
        } else {
            self.remainder(&top)
        };
        let mut carry: Vec<Value> = [start, bound, self.scalar().name]
            .into_iter()
            .map(|name| Value { name, ty: "s32", dims: Vec::new(), exact: true })
            .collect();
        carry.extend(arrays);
        let shapes: Vec<String> = carry.iter().map(Value::shape).collect();
        let tuple = format!("({})", shapes.join(", "));
        let init = self.tuple(&tuple, &carry);
        let exit = if self.chance(75) {
            self.repeat(depth, &tuple, &carry, &init)
        } else {
            self.branch(depth, &tuple, &carry, &init)
        };
        for (k, leaf) in carry.iter().enumerate() {
            self.emit(leaf.ty, &leaf.dims, leaf.exact, &format!("get-tuple-element({exit}), index={k}"));
        }
    }

    fn remainder(&mut self, by: &str) -> String {
        let s = self.scalar().name;
        self.emit("s32", &[], true, &format!("remainder({s}, {by})")).name
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn tuple(&mut self, ty: &str, leaves: &[Value]) -> String {
        let (name, leaves) = (self.fresh(), list(&names(leaves)));
        writeln!(self.frame.text, "  {name} = {ty} tuple({leaves})").expect("a string");
        name
    }

    fn repeat(&mut self, depth: u32, tuple: &str, carry: &[Value], init: &str) -> String {
        let name = self.fresh();
        let (direction, left, right) = self.choose(&[
            ("LT", "i", "n"),
            ("LT", "i", "n"),
            ("LE", "i", "n"),
            ("GT", "n", "i"),
            ("GE", "n", "i"),
        ]);
        writeln!(
            self.computations,
            "while_{name} {{\n  t = {tuple} parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n  n = s32[] get-tuple-element(t), index=1\n  ROOT r = pred[] compare({left}, {right}), direction={direction}\n}}\n"
        )
        .expect("a string");
        let steps = 1 + self.below(6);
        let by = self.choose(&[1, 1, 2]);
        self.computation(&format!("do_{name}"), depth, tuple, carry, steps, Some(by));
        writeln!(self.frame.text, "  {name} = {tuple} while({init}), condition=while_{name}, body=do_{name}")
            .expect("a string");
        name
    }

    fn branch(&mut self, depth: u32, tuple: &str, carry: &[Value], init: &str) -> String {
        let name = self.fresh();
        let by_pred = self.chance(50);
        let branches = if by_pred { 2 } else { 1 + self.below(3) };
        let mut called = Vec::new();
        for k in 0..branches {
            let steps = self.below(5);
            self.computation(&format!("case{k}_{name}"), depth, tuple, carry, steps, None);
            called.push(format!("case{k}_{name}"));
        }
        let (index, attributes) = if by_pred {
            let (a, b) = (self.scalar().name, self.scalar().name);
            let p = self.line("pred", &[], true, &format!("compare({a}, {b}), direction=LT")).name;
            (p, format!("true_computation={}, false_computation={}", called[0], called[1]))
        } else {
            (self.scalar().name, format!("branch_computations={{{}}}", list(&called)))
        };
        let operands = vec![init; called.len()].join(", ");
        writeln!(self.frame.text, "  {name} = {tuple} conditional({index}, {operands}), {attributes}")
            .expect("a string");
        name
    }

    /// A computation from the carry to the carry. With `by`, a round of a loop whose counter goes up by that much.
    fn computation(
        &mut self,
        name: &str,
        depth: u32,
        tuple: &str,
        carry: &[Value],
        steps: u64,
        by: Option<u64>,
    ) {
        let outer = std::mem::take(&mut self.frame);
        writeln!(self.frame.text, "  t = {tuple} parameter(0)").expect("a string");
        let leaves: Vec<Value> = carry
            .iter()
            .enumerate()
            .map(|(k, leaf)| {
                self.emit(leaf.ty, &leaf.dims, leaf.exact, &format!("get-tuple-element(t), index={k}"))
            })
            .collect();
        for _ in 0..steps {
            self.step(depth + 1);
        }
        let mut results: Vec<Value> = leaves.clone();
        if let Some(by) = by {
            let by = self.emit("s32", &[], true, &format!("constant({by})")).name;
            results[0] = self.emit("s32", &[], true, &format!("add({}, {by})", leaves[0].name));
        }
        // A loop's counter and bound are settled; all else is any value of the shape.
        let first = if by.is_some() { 2 } else { 0 };
        for k in first..leaves.len() {
            let leaf = &leaves[k];
            if self.chance(20) {
                continue;
            }
            let fits: Vec<Value> = self
                .frame
                .values
                .iter()
                .filter(|v| v.like(leaf) && (v.exact || !leaf.exact))
                .cloned()
                .collect();
            results[k] = self.choose(&fits[fits.len().saturating_sub(4)..]);
        }
        if self.chance(20)
            && let Some(k) = (4..leaves.len()).find(|k| leaves[*k].like(&leaves[k - 1]))
            && leaves[k].exact == leaves[k - 1].exact
        {
            (results[k - 1], results[k]) = (leaves[k].clone(), leaves[k - 1].clone());
        }
        let body = std::mem::replace(&mut self.frame, outer).text;
        let results = list(&names(&results));
        writeln!(self.computations, "{name} {{\n{body}  ROOT r = {tuple} tuple({results})\n}}\n")
            .expect("a string");
    }
}

fn names(values: &[Value]) -> Vec<String> {
    values.iter().map(|v| v.name.clone()).collect()
}
