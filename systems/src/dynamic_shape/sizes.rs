//! What the rewrite knows about run-time sizes: which dimensions have one, by the declared shapes, and the `s32[]` value
//! that yields it in the computation under construction. Facts: `spec/dynamic_shapes.md 1, 3`.
//!
//! A value keeps the form it had, at the bounds; its sizes are values of their own beside it.

use super::story::{Names, Padded, describe};
use crate::legalize::build::Build;
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{ArrayShape, Direction, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// A dimension of a leaf of a value.
pub type Place = (usize, usize);

/// The sizes of an array, by dimension; `None` where the dimension is static.
pub type Sizes = Vec<Option<HloId>>;

/// The dynamic dimensions of a shape, leaf by leaf.
pub fn dynamic_places(shape: &Shape) -> Vec<Place> {
    let mut places = Vec::new();
    for (leaf, shape) in shape.leaves().into_iter().enumerate() {
        if let Some(a) = shape.array() {
            places.extend((0..a.rank()).filter(|d| a.is_dynamic(*d)).map(|d| (leaf, d)));
        }
    }
    places
}

/// Whether any leaf has a dynamic dimension.
pub fn is_dynamic(shape: &Shape) -> bool {
    shape.leaves().iter().any(|s| s.array().is_some_and(ArrayShape::has_dynamic))
}

/// The same shape at its bounds.
pub fn at_bounds(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) => Shape::Array(ArrayShape { dynamic: Vec::new(), ..a.clone() }),
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(at_bounds).collect()),
        other => other.clone(),
    }
}

/// A check of a size at run time: what the program reports by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The instruction, in the module as read.
    pub inst: HloId,
    /// The dimension.
    pub dimension: usize,
    /// What a legal size is.
    pub legal: Legal,
}

/// What a size has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legal {
    /// From 0 to this bound.
    Within(i64),
    /// Not negative; the bound is told.
    Natural(i64),
    /// Not less than the size of what is read beside it.
    Beside,
}

/// What is known in the computation under construction, and what the whole module collects.
pub struct Known {
    /// By old instruction: the sizes of each leaf.
    pub sizes: Vec<Vec<Sizes>>,
    /// Values that are known to lie in `0..=n`.
    pub within: SeededMap<HloId, i64>,
    /// Masks by size and bound.
    pub masks: SeededMap<(HloId, i64), HloId>,
    /// By old sort: the comparison that puts what is live first.
    pub comparators: SeededMap<HloId, CompId>,
    /// The sum of two `s32[]`, where the module reshapes run-time extents.
    pub sum: Option<CompId>,
    /// The sum of two `f32[]`, where the module normalises run-time extents.
    pub float_sum: Option<CompId>,
    /// What people are told about a value.
    pub names: Names,
    /// How operations were built anew since this was last taken.
    pub rebuilt: Vec<&'static str>,
    /// Values with neutral elements behind the size of dimension 0, of the whole module.
    pub neutral: SeededMap<HloId, HloId>,
    /// Whether something shows what lies behind a size.
    pub shows: bool,
    clamped: SeededMap<(HloId, i64), HloId>,
    combined: SeededMap<(HloId, HloId), HloId>,
    /// Number of the first failed check so far, and its size; `None` where no failure can be reported from.
    pub fault: Option<(HloId, HloId)>,
    /// Neutral elements that were put since this was last taken.
    pub padded: Vec<Padded>,
    /// All checks; the program reports their positions plus one.
    pub checks: Vec<Check>,
}

impl Known {
    /// Nothing, of a module of so many instructions.
    pub fn new(instructions: usize) -> Self {
        Known {
            sizes: vec![Vec::new(); instructions],
            within: seeded_map(),
            masks: seeded_map(),
            comparators: seeded_map(),
            sum: None,
            float_sum: None,
            names: Names { labels: seeded_map(), place: String::new() },
            rebuilt: Vec::new(),
            neutral: seeded_map(),
            shows: false,
            clamped: seeded_map(),
            combined: seeded_map(),
            fault: None,
            padded: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// A new computation begins: values of the last one are out of reach. `place` is what names of its values begin with.
    pub fn begin(&mut self, place: String) {
        self.names.place = place;
        self.within.clear();
        self.masks.clear();
        self.names.labels.clear();
        self.clamped.clear();
        self.combined.clear();
        self.fault = None;
    }

    /// The size at a place, if it has one.
    pub fn at(&self, id: HloId, (leaf, d): Place) -> Option<HloId> {
        self.sizes[id.index()].get(leaf)?.get(d).copied().flatten()
    }

    /// A constant size.
    pub fn constant(&mut self, b: &mut Build<'_>, n: i64) -> HloId {
        let id = b.integer(HloType::S32, n);
        if n >= 0 {
            self.within.insert(id, n);
        }
        id
    }

    /// The size cut to `0..=bound`.
    pub fn clamp(&mut self, b: &mut Build<'_>, size: HloId, bound: i64) -> HloId {
        if self.within.get(&size).is_some_and(|n| *n <= bound) {
            return size;
        }
        if let Some(known) = self.clamped.get(&(size, bound)) {
            return *known;
        }
        let most = b.with_int(HloOp::Minimum, size, bound);
        let cut = b.with_int(HloOp::Maximum, most, 0);
        self.within.insert(cut, bound);
        self.clamped.insert((size, bound), cut);
        cut
    }

    /// The size cut to `0..=bound`; that it was cut is reported by the program. `None` where nothing can report it.
    pub fn checked(&mut self, b: &mut Build<'_>, size: HloId, check: Check, bound: i64) -> Option<HloId> {
        if self.within.get(&size).is_some_and(|n| *n <= bound) {
            return Some(size);
        }
        self.fault?;
        let cut = self.clamp(b, size, bound);
        let label = format!("{} (checked by the run)", describe(&b.out.module, &self.names, size));
        self.names.labels.insert(cut, label);
        let bad = b.compare(Direction::Ne, size, cut);
        self.report(b, bad, size, check);
        Some(cut)
    }

    /// A derived size that is negative is reported. `false` where nothing can report it.
    pub fn natural(&mut self, b: &mut Build<'_>, size: HloId, check: Check) -> bool {
        if self.within.contains_key(&size) {
            return true;
        }
        if self.fault.is_none() {
            return false;
        }
        let bad = b.compare_int(Direction::Lt, size, 0);
        self.report(b, bad, size, check);
        true
    }

    /// An operand of size `own` that is read up to `result` is reported where it ends before. `false` where nothing can
    /// report it.
    pub fn reaches(&mut self, b: &mut Build<'_>, own: HloId, result: HloId, check: Check) -> bool {
        if own == result {
            return true;
        }
        if self.fault.is_none() {
            return false;
        }
        let bad = b.compare(Direction::Lt, own, result);
        self.report(b, bad, own, check);
        true
    }

    /// The first failure so far, this one if there was none and `bad` holds.
    fn report(&mut self, b: &mut Build<'_>, bad: HloId, size: HloId, check: Check) {
        let Some((site, value)) = self.fault else { return };
        self.checks.push(check);
        let none = b.compare_int(Direction::Eq, site, 0);
        let first = b.binary(HloOp::And, bad, none);
        let number = b.integer(HloType::S32, self.checks.len() as i64);
        let site = b.select(first, number, site);
        let value = b.select(first, size, value);
        self.fault = Some((site, value));
    }

    /// Two sizes that meet in one dimension: equal ones stay, 1 stretches to the other, otherwise the smaller one holds.
    pub fn meet(&mut self, b: &mut Build<'_>, x: HloId, y: HloId) -> HloId {
        if x == y {
            return x;
        }
        if let Some(known) = self.combined.get(&(x, y)) {
            return *known;
        }
        let least = b.binary(HloOp::Minimum, x, y);
        let most = b.binary(HloOp::Maximum, x, y);
        // The smaller one is 1: then the larger one is greater or also 1.
        let one = b.compare_int(Direction::Eq, least, 1);
        let n = b.select(one, most, least);
        if let (Some(p), Some(q)) = (self.within.get(&x), self.within.get(&y)) {
            let most = *p.max(q);
            self.within.insert(n, most);
        }
        self.combined.insert((x, y), n);
        n
    }
}
