//! What became of each dynamic dimension, for people: where its size comes from, and before which operations a neutral
//! element was put behind it. In: the module under construction and what was recorded. Out: rows of [`ShapeStory`].

use murre_components::hash::SeededMap;
use murre_components::hlo::{Attrs, HloModule, HloOp};
use murre_components::ids::HloId;

/// Depth to which an expression of sizes is written out.
const DEPTH: usize = 6;

/// A dynamic dimension of a value of the module as read. Values inside loop bodies and branches are named
/// `computation/name`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DynamicDimension {
    /// The instruction.
    pub instruction: String,
    /// Its operation.
    pub op: &'static str,
    /// Its declared shape.
    pub shape: String,
    /// Which leaf of a tuple; 0 of an array.
    pub leaf: usize,
    /// The dimension.
    pub dimension: usize,
    /// Its bound.
    pub bound: i64,
    /// Where its size comes from.
    pub size: String,
    /// `user (operation) with value`, for each operation that would have read behind the size.
    pub padded: Vec<String>,
    /// How the operation was built anew, since its movement of data hangs on sizes.
    pub rebuilt: Vec<String>,
    /// `loop, rows of a trip`, for each loop whose trips the size counts.
    pub trips: Vec<String>,
}

/// What has no rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedShape {
    /// The instruction.
    pub instruction: String,
    /// The dimension, where one is to blame.
    pub dimension: Option<usize>,
    /// The reason.
    pub reason: String,
}

/// All dynamic dimensions, in the order of the module, and all that was refused.
#[derive(bevy_ecs::prelude::Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct ShapeStory {
    /// The dimensions.
    pub rows: Vec<DynamicDimension>,
    /// The refusals.
    pub refused: Vec<RefusedShape>,
}

/// A neutral element that was put behind a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Padded {
    /// The value.
    pub x: HloId,
    /// The dimension.
    pub dimension: usize,
    /// The element.
    pub identity: HloId,
}

/// What people call values: labels of their own, or the name behind the computation's.
pub struct Names {
    /// Labels by value.
    pub labels: SeededMap<HloId, String>,
    /// `computation/`; nothing in the entry.
    pub place: String,
}

/// A size or a neutral element as an expression.
pub fn describe(module: &HloModule, names: &Names, id: HloId) -> String {
    expression(module, names, id, DEPTH)
}

fn expression(module: &HloModule, names: &Names, id: HloId, depth: usize) -> String {
    if let Some(label) = names.labels.get(&id) {
        return label.clone();
    }
    let inst = module.inst(id);
    let part = |k: usize| {
        inst.operands().get(k).map_or_else(String::new, |o| expression(module, names, *o, depth - 1))
    };
    let own = || format!("{}{}", names.place, inst.name());
    match (inst.op, inst.attrs()) {
        (HloOp::Constant, Attrs::Constant(literal)) => {
            literal_text(inst.shape().array().map(|a| a.ty), literal.bytes())
        }
        _ if depth == 0 => own(),
        (HloOp::Add, _) => format!("({} + {})", part(0), part(1)),
        (HloOp::Subtract, _) => format!("({} - {})", part(0), part(1)),
        (HloOp::Multiply, _) => format!("({} * {})", part(0), part(1)),
        (HloOp::Divide, _) => format!("({} / {})", part(0), part(1)),
        (HloOp::Minimum, _) => format!("min({}, {})", part(0), part(1)),
        (HloOp::Maximum, _) => format!("max({}, {})", part(0), part(1)),
        (HloOp::Select, _) => format!("({} or {})", part(1), part(2)),
        _ => own(),
    }
}

fn literal_text(ty: Option<murre_components::dtype::HloType>, bytes: &[u8]) -> String {
    use murre_components::dtype::HloType::*;
    let word = bytes.iter().take(8).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    match ty {
        Some(F32) => format!("{}", f32::from_bits(word as u32)),
        Some(F64) => format!("{}", f64::from_bits(word)),
        Some(Bf16) => format!("{}", f32::from_bits((word as u32) << 16)),
        Some(S32) => format!("{}", word as u32 as i32),
        Some(Pred) => (if word == 0 { "false" } else { "true" }).to_owned(),
        Some(t) if t.is_int() && bytes.len() <= 8 => format!("{word}"),
        Some(t) => format!("{} bits {word:#x}", t.name()),
        None => "a constant".to_owned(),
    }
}
