//! Penguin nodes: tensor operators on homes (`spec/ir.md 2`). A node's operands are accesses of locations in their
//! element space, immediates, or control scalars; the order of the node table is program order.
//!
//! The dynamic copies are the nodes that carry a run-time address: [`dynamic_copy`].

pub mod ap_index;
pub mod dynamic_copy;
pub mod serialize;

pub use ap_index::{ApIndex, ApIndices};
pub use dynamic_copy::{
    DynamicCopies, DynamicIndex, NodeValue, TensorCopyDynamic, TensorCopyDynamicBase, replace_use_of_with,
};

use crate::bir::ApPattern;
use crate::dtype::DType;
use crate::hlo::HloOp;
use crate::ids::{AxisId, HloId, LocId, RegId};
use arrayvec::ArrayVec;
use bevy_ecs::prelude::{Bundle, Component, Resource};

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum NodeKind {
    /// Static copy between any two homes; casts when the element types differ.
    Copy,
    /// Gather form of a dynamic copy: the read address is a run-time value. Operands: result, source, addresses.
    TensorCopyDynamicSrc,
    /// Scatter form: the write address is a run-time value. Operands: result, source, addresses.
    TensorCopyDynamicDst,
    /// Gather by a vector of run-time offsets: result, source, offsets.
    GatherRows,
    /// Elements of a table along one partition by a vector of indices beside it: result, table, indices.
    GatherElements,
    /// Scatter by a vector of run-time offsets, combined by `NodeHead::sub` (`spec/isa.md 4.4`): result, source, offsets.
    ScatterRows,
    /// Elementwise operator (`NodeHead::op`), select and convert included.
    Elementwise,
    /// Two elementwise steps in one record: `NodeScalars::imm` is its row in [`Chains`].
    Chain,
    /// Nothing: its work is part of another node.
    Fused,
    /// Reduction of the innermost `scalars.imm` dimensions of the source.
    Reduce,
    /// One tile of a dot: weights `[K, M]`, moving `[K, N]` into PSUM.
    DotTile,
    /// `0, 1, 2 ...` along one partition.
    Iota,
    /// Every element is the immediate.
    Fill,
    /// Every element is the control scalar.
    SplatRegister,
    /// One element of a DRAM location into a register on every engine that wants it.
    LoadTensorToRegister,
    /// Register arithmetic on engine ALL.
    ScalarAlu,
    /// Register move on engine ALL.
    ScalarMove,
    /// Head of a loop.
    LoopBegin,
    /// End of a loop.
    LoopEnd,
}

/// Head of a node.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NodeHead {
    /// Kind.
    pub kind: NodeKind,
    /// HLO operation that an Elementwise or Reduce node performs.
    pub op: HloOp,
    /// Elementwise compare: [`crate::hlo::Direction`] as a number. ScalarAlu: wire ALU op.
    pub sub: u8,
    /// [`NodeHead::CLEAN0`] and friends; DotTile: PSUM flags.
    pub flags: u8,
    /// HLO instruction.
    pub hlo: HloId,
    /// Innermost enclosing axis; of a loop node its own.
    pub axis: AxisId,
}

impl NodeHead {
    /// Operand 0 of a maximum or minimum is known not to be NaN.
    pub const CLEAN0: u8 = 1;
    /// Operand 1 is known not to be NaN.
    pub const CLEAN1: u8 = 2;
}

/// Operands: result first, then inputs, consecutive in [`OperandPool`].
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NodeOperands {
    /// First operand.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Scalar side of a node.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NodeScalars {
    /// Result register.
    pub dst: RegId,
    /// First source.
    pub a: RegId,
    /// Second source, or `NONE` when the immediate is it.
    pub b: RegId,
    /// Immediate; Reduce: number of reduced pairs; dynamic copies: index into [`DynamicCopies`].
    pub imm: u32,
    /// Wire dtype tag of register arithmetic.
    pub tag: u8,
    /// Unused.
    pub pad: [u8; 3],
}

impl Default for NodeScalars {
    fn default() -> Self {
        NodeScalars { dst: RegId::NONE, a: RegId::NONE, b: RegId::NONE, imm: 0, tag: 8, pad: [0; 3] }
    }
}

/// The archetype of a node.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct NodeRow {
    pub head: NodeHead,
    pub operands: NodeOperands,
    pub scalars: NodeScalars,
}

/// Access mode (`spec/ir.md 2.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum AccessMode {
    Load,
    Store,
}

/// A wrapped tensor: location, element pattern, mode.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Access {
    pub loc: LocId,
    pub offset: u32,
    pub dtype: DType,
    pub pattern: ApPattern,
    pub mode: AccessMode,
}

/// An operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeOperand {
    /// Memory.
    Access(Access),
    /// The same value everywhere: bits of an element of the given type.
    Splat(u32, DType),
    /// A control scalar, the same everywhere.
    Scalar(RegId, DType),
}

impl NodeOperand {
    /// The access, if it is one.
    pub fn access(&self) -> Option<&Access> {
        match self {
            NodeOperand::Access(a) => Some(a),
            _ => None,
        }
    }
}

/// All operands.
#[derive(Resource, Default)]
pub struct OperandPool(pub Vec<NodeOperand>);

/// One step of a chain: an fp32 operator with a constant, in the order of the operands.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct ChainStep {
    pub op: HloOp,
    pub constant: f32,
    /// The constant is the left operand.
    pub reversed: bool,
}

/// What a [`NodeKind::Chain`] does: steps, then possibly a function.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chain {
    /// One or two steps.
    pub steps: ArrayVec<ChainStep, 2>,
    /// An elementwise function of the result.
    pub function: Option<HloOp>,
}

/// All chains.
#[derive(Resource, Default)]
pub struct Chains(pub Vec<Chain>);

const _: () = assert!(size_of::<NodeHead>() == 12);
const _: () = assert!(size_of::<NodeOperands>() == 8);
const _: () = assert!(size_of::<NodeScalars>() == 20);
