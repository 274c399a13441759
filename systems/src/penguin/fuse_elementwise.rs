//! `fuse_elementwise`: what one record can do is one node. An fp32 operator with a constant whose result only the next step
//! reads becomes part of it: two operators with constants are one TensorScalar, a scale or a bias in front of a function is
//! part of the Activation.
//!
//! In: nodes in program order. Out: [`NodeKind::Chain`] in the place of the later node, the earlier one is
//! [`NodeKind::Fused`]. Promises: the same bits. The intermediate is fp32, which both records round to between their
//! steps; it is written once and read once, in the same loop body, and what the first step reads is not written in
//! between.
//!
//! ```text
//! t = multiply x, 0.125 ; y = exponential t      ->  y = activation exp(0.125 * x)
//! t = multiply x, 2 ; y = add t, 1               ->  y = tensor_scalar (x mult 2) add 1
//! ```
//!
//! Facts: `spec/isa_compute.md 4.1, 5.1`.

use bevy_ecs::prelude::*;
use murre_components::bir::{LocHead, Space};
use murre_components::dtype::DType;
use murre_components::hlo::HloOp;
use murre_components::ids::AxisId;
use murre_components::penguin::*;

const NONE: u32 = u32::MAX;

/// What is known of a location when a node reads it.
#[derive(Clone, Copy)]
struct Written {
    /// Node that wrote it last.
    by: u32,
    /// Number of writes so far.
    writes: u32,
    /// Number of nodes that read it, in the whole program.
    reads: u32,
}

/// The pass.
pub fn fuse_elementwise(
    mut nodes: Query<(&mut NodeHead, &NodeOperands, &mut NodeScalars)>,
    mut pool: ResMut<OperandPool>,
    locs: Query<&LocHead>,
    mut commands: Commands,
) {
    let mut chains = Chains::default();
    if let Ok(mut tables) = nodes.contiguous_iter_mut()
        && let Some((mut heads, operands, mut scalars)) = tables.next()
    {
        let (heads, scalars) = (heads.bypass_change_detection(), scalars.bypass_change_detection());
        fuse(heads, operands, scalars, &mut pool.0, crate::columns!(locs), &mut chains);
    }
    commands.insert_resource(chains);
}

fn fuse(
    heads: &mut [NodeHead],
    operands: &[NodeOperands],
    scalars: &mut [NodeScalars],
    pool: &mut [NodeOperand],
    locs: &[LocHead],
    chains: &mut Chains,
) {
    let range = |o: &NodeOperands| o.first as usize..(o.first + o.count) as usize;
    let mut known = vec![Written { by: NONE, writes: 0, reads: 0 }; locs.len()];
    for o in operands {
        for a in pool[range(o)].iter().filter_map(|o| o.access()) {
            if a.mode == AccessMode::Load {
                known[a.loc.index()].reads += 1;
            }
        }
    }
    // Loop ends so far: two nodes of one body with none between them run equally often.
    let mut borders = 0u32;
    let mut border_of = vec![0u32; heads.len()];
    for row in 0..heads.len() {
        if matches!(heads[row].kind, NodeKind::LoopBegin | NodeKind::LoopEnd) {
            borders += 1;
        }
        border_of[row] = borders;
        let here = range(&operands[row]);
        if let Some((step, source)) = step_of(&heads[row], &pool[here.clone()], locs)
            && let Some(before) = earlier(source, &known, row, heads, &border_of)
        {
            let earlier_range = range(&operands[before]);
            if let Some((first, x)) = first_of(before, heads, scalars, &pool[earlier_range], locs, chains)
                && let Some(chain) = joined(&first, step)
                && same_place(&pool[earlier_range_start(&operands[before])], source)
                && unchanged(&x, before, &known)
            {
                let out_of = operands[row].first as usize;
                let slot = out_of + 1 + usize::from(reversed_source(&pool[here.clone()]));
                pool[out_of + 1] = NodeOperand::Access(x);
                if slot != out_of + 1 {
                    pool[slot] = NodeOperand::Splat(0, DType::F32);
                }
                heads[before].kind = NodeKind::Fused;
                heads[row].kind = NodeKind::Chain;
                scalars[row].imm = chains.0.len() as u32;
                chains.0.push(chain);
            }
        }
        for a in pool[here].iter().filter_map(|o| o.access()) {
            if a.mode == AccessMode::Store {
                let k = &mut known[a.loc.index()];
                (k.by, k.writes) = (row as u32, k.writes + 1);
            }
        }
    }
}

fn earlier_range_start(o: &NodeOperands) -> usize {
    o.first as usize
}

/// Whether the constant stands in front of the tensor.
fn reversed_source(operands: &[NodeOperand]) -> bool {
    matches!(operands.get(1), Some(NodeOperand::Splat(..)))
}

/// A step that may follow another: an operator with a constant, or a function.
enum Step {
    Constant(ChainStep),
    Function(HloOp),
}

/// The node as a step, and the tile that it works on.
fn step_of<'a>(head: &NodeHead, operands: &'a [NodeOperand], locs: &[LocHead]) -> Option<(Step, &'a Access)> {
    if head.kind != NodeKind::Elementwise {
        return None;
    }
    let on_chip = |a: &Access| locs[a.loc.index()].space == Space::Sbuf;
    let float = |d: DType| matches!(d, DType::F32 | DType::Bf16 | DType::F16);
    let (out, rest) = operands.split_first()?;
    if !float(out.access()?.dtype) {
        return None;
    }
    let (step, source) = match (head.op, rest) {
        (HloOp::Add | HloOp::Subtract | HloOp::Multiply | HloOp::Divide, [a, b]) => match (a, b) {
            (NodeOperand::Access(x), NodeOperand::Splat(bits, DType::F32)) => {
                let constant = f32::from_bits(*bits);
                (Step::Constant(ChainStep { op: head.op, constant, reversed: false }), x)
            }
            (NodeOperand::Splat(bits, DType::F32), NodeOperand::Access(x)) => {
                let constant = f32::from_bits(*bits);
                (Step::Constant(ChainStep { op: head.op, constant, reversed: true }), x)
            }
            _ => return None,
        },
        (
            HloOp::Exponential
            | HloOp::Log
            | HloOp::Tanh
            | HloOp::Logistic
            | HloOp::Sqrt
            | HloOp::Rsqrt
            | HloOp::Sine
            | HloOp::Erf,
            [NodeOperand::Access(x)],
        ) => (Step::Function(head.op), x),
        _ => return None,
    };
    (source.dtype == DType::F32 && on_chip(source)).then_some((step, source))
}

/// The node that made `source`, if it is whole, read once, and of the same loop body.
fn earlier(
    source: &Access,
    known: &[Written],
    row: usize,
    heads: &[NodeHead],
    border_of: &[u32],
) -> Option<usize> {
    let k = known[source.loc.index()];
    let before = k.by as usize;
    let once = k.writes == 1 && k.reads == 1 && k.by != NONE;
    let axis = |r: usize| -> AxisId { heads[r].axis };
    (once && border_of[before] == border_of[row] && axis(before) == axis(row)).then_some(before)
}

/// Whether the tile is read as it was written.
fn same_place(written: &NodeOperand, read: &Access) -> bool {
    written.access().is_some_and(|w| {
        (w.loc, w.offset, w.dtype, &w.pattern) == (read.loc, read.offset, read.dtype, &read.pattern)
    })
}

/// Whether nothing has written what the first step reads since it read it.
fn unchanged(x: &Access, before: usize, known: &[Written]) -> bool {
    let k = known[x.loc.index()];
    k.by == NONE || (k.by as usize) < before
}

/// The steps of the earlier node and the tile it reads.
fn first_of(
    row: usize,
    heads: &[NodeHead],
    scalars: &[NodeScalars],
    operands: &[NodeOperand],
    locs: &[LocHead],
    chains: &Chains,
) -> Option<(Chain, Access)> {
    if heads[row].kind == NodeKind::Chain {
        let chain = chains.0.get(scalars[row].imm as usize)?.clone();
        return Some((chain, operands.get(1)?.access()?.clone()));
    }
    match step_of(&heads[row], operands, locs)? {
        (Step::Constant(step), x) => {
            let mut chain = Chain::default();
            chain.steps.push(step);
            Some((chain, x.clone()))
        }
        (Step::Function(_), _) => None,
    }
}

/// The chain with one step more, if a record does it.
fn joined(first: &Chain, step: Step) -> Option<Chain> {
    let mut chain = first.clone();
    if chain.function.is_some() {
        return None;
    }
    match step {
        Step::Constant(step) => chain.steps.try_push(step).ok()?,
        Step::Function(op) => {
            activation_of(&chain.steps)?;
            chain.function = Some(op);
        }
    }
    Some(chain)
}

/// Scale and bias of an Activation that does these steps: `scale * x + bias`, both rounded.
pub fn activation_of(steps: &[ChainStep]) -> Option<(f32, f32)> {
    let scale = |s: &ChainStep| (s.op == HloOp::Multiply).then_some(s.constant);
    // x - c is x + (-c); c - x would need a scale of -1 before the bias.
    let bias = |s: &ChainStep| match (s.op, s.reversed) {
        (HloOp::Add, _) => Some(s.constant),
        (HloOp::Subtract, false) => Some(-s.constant),
        _ => None,
    };
    match steps {
        [one] => scale(one).map(|s| (s, -0.0)).or_else(|| bias(one).map(|b| (1.0, b))),
        [first, second] => Some((scale(first)?, bias(second)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: HloOp, constant: f32, reversed: bool) -> ChainStep {
        ChainStep { op, constant, reversed }
    }

    #[test]
    fn an_activation_scales_then_adds() {
        let twice = step(HloOp::Multiply, 2.0, false);
        let less = step(HloOp::Subtract, 3.0, false);
        assert_eq!(activation_of(&[twice]), Some((2.0, -0.0)));
        assert_eq!(activation_of(&[twice, less]), Some((2.0, -3.0)));
        assert_eq!(activation_of(&[less, twice]), None);
        assert_eq!(activation_of(&[step(HloOp::Subtract, 3.0, true)]), None);
        assert_eq!(activation_of(&[step(HloOp::Divide, 3.0, false)]), None);
    }

    #[test]
    fn a_chain_has_two_steps_at_most() {
        let mut chain = Chain::default();
        chain.steps.push(step(HloOp::Add, 1.0, false));
        let two = joined(&chain, Step::Constant(step(HloOp::Divide, 2.0, true))).expect("two steps");
        assert!(joined(&two, Step::Constant(step(HloOp::Add, 1.0, false))).is_none());
        assert!(joined(&two, Step::Function(HloOp::Exponential)).is_none(), "a division is no scale");
        assert!(joined(&chain, Step::Function(HloOp::Exponential)).is_some());
    }
}
