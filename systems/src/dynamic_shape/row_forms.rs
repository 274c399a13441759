//! What an operation does with the rows of its operands: indices of dimension 0. In: an instruction at its bounds. Out:
//! which operands it reads row by row, so that row `i` of the result needs row `i` only; or that it folds the rows; and
//! what it looks like on fewer rows. Facts: the operations of `spec/hlo.md 7`.
//!
//! ```text
//! dot(x [B,K], w [K,N]) contracting 1, 0    rows of x, all of w
//! reduce(x [B,N], z), dimensions={0}        folds the rows
//! ```

use super::rules::is_elementwise;
use crate::legalize::region::monoid;
use crate::penguin::reduce::is_identity;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloModule, HloOp};
use murre_components::ids::HloId;

/// How an operand is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Row `i` for row `i` of the result.
    Rows,
    /// Whole, for every row.
    Whole,
}

fn array(module: &HloModule, id: HloId) -> Option<&ArrayShape> {
    module.inst(id).shape().array()
}

fn rows_of(module: &HloModule, id: HloId) -> Option<i64> {
    array(module, id)?.dims.first().copied()
}

/// The roles of the operands where every row of the result can be computed by itself.
pub fn roles(module: &HloModule, inst: HloInst<'_>) -> Option<Vec<Role>> {
    use Role::{Rows, Whole};
    let rows = match inst.shape().leaves().first()?.array()?.dims.first() {
        Some(n) => *n,
        None => return None,
    };
    let operands = inst.operands();
    let first_only =
        || std::iter::once(Rows).chain(operands.iter().skip(1).map(|_| Whole)).collect::<Vec<_>>();
    let found: Vec<Role> = match (inst.op, inst.attrs()) {
        (HloOp::Copy, _) => vec![Rows],
        (op, _) if is_elementwise(op) && op != HloOp::Map => {
            let scalar = |o: &HloId| array(module, *o).is_some_and(|a| a.rank() == 0);
            operands.iter().map(|o| if scalar(o) { Whole } else { Rows }).collect()
        }
        (HloOp::Broadcast, Attrs::Dimensions(map)) => match map.iter().position(|d| *d == 0) {
            Some(0) => vec![Rows],
            Some(_) => return None,
            None => vec![Whole],
        },
        (HloOp::Transpose, Attrs::Dimensions(order)) if order.first() == Some(&0) => vec![Rows],
        (HloOp::Reshape, _) => vec![Rows],
        (HloOp::Reverse, Attrs::Dimensions(list)) if !list.contains(&0) => vec![Rows],
        (HloOp::Slice, Attrs::Slice { start, limit, stride })
            if (start[0], limit[0], stride[0]) == (0, rows, 1) =>
        {
            vec![Rows]
        }
        (HloOp::Pad, Attrs::Pad { low, high, interior }) if (low[0], high[0], interior[0]) == (0, 0, 0) => {
            first_only()
        }
        (HloOp::Concatenate, Attrs::Dimensions(list)) if !list.contains(&0) => vec![Rows; operands.len()],
        (HloOp::Reduce, Attrs::Dimensions(list)) if !list.contains(&0) && operands.len() == 2 => first_only(),
        (HloOp::Convolution, Attrs::Convolution { dims, batch_groups: 1, .. })
            if dims.input_batch == 0 && dims.output_batch == 0 =>
        {
            first_only()
        }
        (HloOp::Gather, Attrs::Gather(g))
            if !g.offset_dims.contains(&0)
                && g.index_vector_dim != 0
                && g.operand_batching_dims.is_empty() =>
        {
            vec![Whole, Rows]
        }
        (HloOp::Dot, Attrs::Dot(d)) => {
            let free = |k: usize, batch: &[i64], contracting: &[i64]| {
                let rank = array(module, operands[k]).map_or(0, ArrayShape::rank) as i64;
                (0..rank).find(|d| !batch.contains(d) && !contracting.contains(d))
            };
            let left = free(0, &d.lhs_batch, &d.lhs_contracting);
            let right = free(1, &d.rhs_batch, &d.rhs_contracting);
            match (d.lhs_batch.first(), d.rhs_batch.first(), left, right) {
                (Some(0), Some(0), ..) => vec![Rows, Rows],
                (None, None, Some(0), _) => vec![Rows, Whole],
                (None, None, None, Some(0)) => vec![Whole, Rows],
                _ => return None,
            }
        }
        _ => return None,
    };
    let fits = |(o, role): (&HloId, &Role)| *role == Whole || rows_of(module, *o) == Some(rows);
    (inst.shape().array().is_some() && operands.iter().zip(&found).all(fits)).then_some(found)
}

/// A fold of all rows into one result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    /// The roles of the operands.
    pub roles: Vec<Role>,
    /// What joins the results of two parts.
    pub join: HloOp,
    /// The scalar to begin with; zero where there is none.
    pub initial: Option<HloId>,
}

/// The fold that an instruction is, where rows may be grouped as one likes and the initial value is neutral.
pub fn fold(module: &HloModule, inst: HloInst<'_>) -> Option<Fold> {
    let ty = inst.shape().array()?.ty;
    match (inst.op, inst.attrs(), inst.operands()) {
        (HloOp::Reduce, Attrs::Dimensions(list), &[_, init]) if list.contains(&0) => {
            let join = monoid(module, *inst.called().first()?)?;
            // A sum of parts may round more often than the whole: only where that is no coarser than the type.
            let exact = ty.is_int() || ty == HloType::Pred || matches!(join, HloOp::Maximum | HloOp::Minimum);
            let Attrs::Constant(literal) = module.inst(init).attrs() else { return None };
            let bits = literal.bytes().iter().take(8).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
            let neutral = (exact || ty == HloType::F32) && is_identity(join, ty, bits);
            neutral.then(|| Fold { roles: vec![Role::Rows, Role::Whole], join, initial: Some(init) })
        }
        (HloOp::Dot, Attrs::Dot(d), _) if ty == HloType::F32 => {
            let pairs = d.lhs_contracting.iter().zip(&d.rhs_contracting);
            let over_rows = pairs.clone().any(|(i, j)| (*i, *j) == (0, 0));
            over_rows.then(|| Fold { roles: vec![Role::Rows; 2], join: HloOp::Add, initial: None })
        }
        _ => None,
    }
}

/// Whether a value is made of nothing that has rows, so that any rows of it are made anew where they are needed.
pub fn is_made_anew(module: &HloModule, made: &[bool], inst: HloInst<'_>) -> bool {
    use HloOp::*;
    let Some(shape) = inst.shape().array().filter(|a| a.rank() > 0) else { return false };
    let operands = || {
        let rows = inst.operands().iter().filter(|o| array(module, **o).is_some_and(|a| a.rank() > 0));
        rows.map(|o| made[o.index()])
    };
    match (inst.op, inst.attrs()) {
        (Iota, Attrs::Iota { dimension }) => {
            let counts = matches!(shape.ty, HloType::S32 | HloType::U32)
                || shape.ty == HloType::F32 && shape.dims[0] <= 1 << 24;
            *dimension != 0 || counts
        }
        (Broadcast, Attrs::Dimensions(map)) => match map.iter().position(|d| *d == 0) {
            None => true,
            Some(0) => operands().all(|m| m),
            Some(_) => false,
        },
        (Compare | And | Or | Not | Convert, _) => operands().all(|m| m),
        _ => false,
    }
}

/// Elementary steps of an instruction: elements made or read, products of a dot in groups of 64.
pub fn work(module: &HloModule, inst: HloInst<'_>) -> u64 {
    let elements = |id: HloId| array(module, id).map_or(0, ArrayShape::elements);
    let own = inst.shape().array().map_or(0, ArrayShape::elements);
    match (inst.op, inst.attrs()) {
        (HloOp::Dot, Attrs::Dot(d)) => {
            let left = inst.operands().first().and_then(|o| array(module, *o));
            let depth = |a: &ArrayShape| {
                d.lhs_contracting
                    .iter()
                    .map(|k| a.dims[*k as usize].max(0) as u64)
                    .fold(1, u64::saturating_mul)
            };
            own.saturating_mul(left.map_or(1, depth)) / 64 + own
        }
        (HloOp::Reduce | HloOp::Convolution, _) => {
            inst.operands().first().map_or(own, |o| elements(*o)).max(own)
        }
        (HloOp::Broadcast | HloOp::Reshape | HloOp::Iota, _) => 0,
        _ => own,
    }
}

/// Shape and attributes of an operation on `rows` rows.
pub fn on_rows(inst: HloInst<'_>, rows: i64) -> Option<(ArrayShape, Attrs)> {
    let mut shape = inst.shape().array()?.clone();
    *shape.dims.first_mut()? = rows;
    let mut attrs = inst.attrs().clone();
    if let Attrs::Slice { limit, .. } = &mut attrs {
        *limit.first_mut()? = rows;
    }
    Some((shape, attrs))
}
