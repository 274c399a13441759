//! The HLO module as read: flat tables with dense ids. The reader fills it, the verifier checks it, the evaluator
//! computes it, and stage 0 spawns its instructions as entities.
//!
//! Invariants after verification: operands precede their users inside a computation; called computations exist
//! and no computation reaches itself; parameter numbers of a computation are dense; shapes agree with operations.

use crate::dtype::HloType;
use crate::ids::{CompId, HloId};
use std::sync::Arc;

/// Shape of a value. Dimensions are logical; layouts do not change a program's meaning and are kept only to print.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A dense array.
    Array(ArrayShape),
    /// A tuple.
    Tuple(Vec<Shape>),
    /// A token.
    Token,
    /// An opaque value.
    Opaque,
}

/// Shape of a dense array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Element type.
    pub ty: HloType,
    /// Extents; of a bounded dynamic dimension, its bound. `UNBOUNDED` where there is none.
    pub dims: Vec<i64>,
    /// Which dimensions have a run-time extent (same length as `dims`, or empty when none has).
    pub dynamic: Vec<bool>,
    /// `minor_to_major`, empty when not given.
    pub layout: Vec<i64>,
}

/// The extent of an unbounded dynamic dimension.
pub const UNBOUNDED: i64 = i64::MIN;

impl ArrayShape {
    /// A static shape without a layout.
    pub fn new(ty: HloType, dims: impl Into<Vec<i64>>) -> Self {
        ArrayShape { ty, dims: dims.into(), dynamic: Vec::new(), layout: Vec::new() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements at the bounds. Saturates.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d.max(0) as u64))
    }

    /// Whether dimension `d` has a run-time extent.
    pub fn is_dynamic(&self, d: usize) -> bool {
        self.dynamic.get(d).copied().unwrap_or(false)
    }

    /// Whether any dimension has a run-time extent.
    pub fn has_dynamic(&self) -> bool {
        self.dynamic.iter().any(|d| *d)
    }

    /// Same element type and dimensions, dynamic flags and bounds included; layouts do not count.
    pub fn same(&self, other: &ArrayShape) -> bool {
        self.ty == other.ty
            && self.dims == other.dims
            && (0..self.rank()).all(|d| self.is_dynamic(d) == other.is_dynamic(d))
    }
}

impl Shape {
    /// The array shape, if it is one.
    pub fn array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(a) => Some(a),
            _ => None,
        }
    }

    /// Same shape, layouts ignored.
    pub fn same(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => a.same(b),
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y))
            }
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        }
    }

    /// The leaves, depth first.
    pub fn leaves(&self) -> Vec<&Shape> {
        let mut out = Vec::new();
        let mut stack = vec![self];
        while let Some(s) = stack.pop() {
            match s {
                Shape::Tuple(parts) => stack.extend(parts.iter().rev()),
                leaf => out.push(leaf),
            }
        }
        out
    }
}

impl core::fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}[", self.ty.name())?;
        for (i, d) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match (*d, self.is_dynamic(i)) {
                (UNBOUNDED, _) => f.write_str("?")?,
                (n, true) => write!(f, "<={n}")?,
                (n, false) => write!(f, "{n}")?,
            }
        }
        f.write_str("]")?;
        if !self.layout.is_empty() {
            f.write_str("{")?;
            for (i, d) in self.layout.iter().enumerate() {
                write!(f, "{}{d}", if i > 0 { "," } else { "" })?;
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Shape::Array(a) => a.fmt(f),
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (i, p) in parts.iter().enumerate() {
                    write!(f, "{}{p}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

macro_rules! hlo_ops {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// An HLO operation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum HloOp { $($(#[$doc])* $name,)* }
        impl HloOp {
            /// Every operation.
            pub const ALL: &'static [HloOp] = &[$(HloOp::$name),*];
            /// The opcode in text and proto.
            pub fn name(self) -> &'static str { match self { $(HloOp::$name => $text,)* } }
            /// The operation with this opcode.
            pub fn from_name(name: &str) -> Option<HloOp> { match name { $($text => Some(HloOp::$name),)* _ => None } }
        }
    };
}

hlo_ops! {
    Abs = "abs",
    Add = "add",
    AddDependency = "add-dependency",
    AfterAll = "after-all",
    AllGather = "all-gather",
    AllGatherDone = "all-gather-done",
    AllGatherStart = "all-gather-start",
    AllReduce = "all-reduce",
    AllReduceDone = "all-reduce-done",
    AllReduceStart = "all-reduce-start",
    AllToAll = "all-to-all",
    And = "and",
    AsyncDone = "async-done",
    AsyncStart = "async-start",
    AsyncUpdate = "async-update",
    Atan2 = "atan2",
    BatchNormGrad = "batch-norm-grad",
    BatchNormInference = "batch-norm-inference",
    BatchNormTraining = "batch-norm-training",
    Bitcast = "bitcast",
    BitcastConvert = "bitcast-convert",
    Broadcast = "broadcast",
    Call = "call",
    Cbrt = "cbrt",
    Ceil = "ceil",
    Cholesky = "cholesky",
    Clamp = "clamp",
    CollectiveBroadcast = "collective-broadcast",
    CollectivePermute = "collective-permute",
    CollectivePermuteDone = "collective-permute-done",
    CollectivePermuteStart = "collective-permute-start",
    Compare = "compare",
    Complex = "complex",
    Concatenate = "concatenate",
    Conditional = "conditional",
    Constant = "constant",
    Convert = "convert",
    Convolution = "convolution",
    Copy = "copy",
    CopyDone = "copy-done",
    CopyStart = "copy-start",
    Cosine = "cosine",
    CountLeadingZeros = "count-leading-zeros",
    CustomCall = "custom-call",
    Divide = "divide",
    Domain = "domain",
    Dot = "dot",
    DynamicReshape = "dynamic-reshape",
    DynamicSlice = "dynamic-slice",
    DynamicUpdateSlice = "dynamic-update-slice",
    Erf = "erf",
    Exponential = "exponential",
    ExponentialMinusOne = "exponential-minus-one",
    Fft = "fft",
    Floor = "floor",
    Fusion = "fusion",
    Gather = "gather",
    GetDimensionSize = "get-dimension-size",
    GetTupleElement = "get-tuple-element",
    Imag = "imag",
    Infeed = "infeed",
    Iota = "iota",
    IsFinite = "is-finite",
    Log = "log",
    LogPlusOne = "log-plus-one",
    Logistic = "logistic",
    Map = "map",
    Maximum = "maximum",
    Minimum = "minimum",
    Multiply = "multiply",
    Negate = "negate",
    Not = "not",
    OptimizationBarrier = "opt-barrier",
    Or = "or",
    Outfeed = "outfeed",
    Pad = "pad",
    Parameter = "parameter",
    PartitionId = "partition-id",
    PopulationCount = "popcnt",
    Power = "power",
    RaggedAllToAll = "ragged-all-to-all",
    RaggedDot = "ragged-dot",
    Real = "real",
    Recv = "recv",
    RecvDone = "recv-done",
    Reduce = "reduce",
    ReducePrecision = "reduce-precision",
    ReduceScatter = "reduce-scatter",
    ReduceWindow = "reduce-window",
    Remainder = "remainder",
    ReplicaId = "replica-id",
    Reshape = "reshape",
    Reverse = "reverse",
    Rng = "rng",
    RngBitGenerator = "rng-bit-generator",
    RngGetAndUpdateState = "rng-get-and-update-state",
    RoundNearestAfz = "round-nearest-afz",
    RoundNearestEven = "round-nearest-even",
    Rsqrt = "rsqrt",
    Scatter = "scatter",
    Select = "select",
    SelectAndScatter = "select-and-scatter",
    Send = "send",
    SendDone = "send-done",
    SetDimensionSize = "set-dimension-size",
    ShiftLeft = "shift-left",
    ShiftRightArithmetic = "shift-right-arithmetic",
    ShiftRightLogical = "shift-right-logical",
    Sign = "sign",
    Sine = "sine",
    Slice = "slice",
    Sort = "sort",
    Sqrt = "sqrt",
    StochasticConvert = "stochastic-convert",
    Subtract = "subtract",
    Tan = "tan",
    Tanh = "tanh",
    TopK = "topk",
    Transpose = "transpose",
    TriangularSolve = "triangular-solve",
    Tuple = "tuple",
    While = "while",
    Xor = "xor",
}

/// Direction of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Direction {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}

/// One dimension of a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub struct WindowDim {
    pub size: i64,
    pub stride: i64,
    pub pad_low: i64,
    pub pad_high: i64,
    pub window_dilation: i64,
    pub base_dilation: i64,
    pub reversal: bool,
}

/// Dimension numbers of a dot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct DotDims {
    pub lhs_batch: Vec<i64>,
    pub rhs_batch: Vec<i64>,
    pub lhs_contracting: Vec<i64>,
    pub rhs_contracting: Vec<i64>,
}

/// Dimension numbers of a gather.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct GatherDims {
    pub offset_dims: Vec<i64>,
    pub collapsed_slice_dims: Vec<i64>,
    pub start_index_map: Vec<i64>,
    pub operand_batching_dims: Vec<i64>,
    pub start_indices_batching_dims: Vec<i64>,
    pub index_vector_dim: i64,
    pub slice_sizes: Vec<i64>,
}

/// Dimension numbers of a scatter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct ScatterDims {
    pub update_window_dims: Vec<i64>,
    pub inserted_window_dims: Vec<i64>,
    pub scatter_dims_to_operand_dims: Vec<i64>,
    pub input_batching_dims: Vec<i64>,
    pub scatter_indices_batching_dims: Vec<i64>,
    pub index_vector_dim: i64,
}

/// Dimension numbers of a convolution: positions of batch, feature and spatial dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct ConvDims {
    pub input_batch: i64,
    pub input_feature: i64,
    pub input_spatial: Vec<i64>,
    pub kernel_input_feature: i64,
    pub kernel_output_feature: i64,
    pub kernel_spatial: Vec<i64>,
    pub output_batch: i64,
    pub output_feature: i64,
    pub output_spatial: Vec<i64>,
}

/// The attributes of an operation that change its meaning. Operations without any use `None`.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs)]
pub enum Attrs {
    #[default]
    None,
    Parameter {
        number: u32,
    },
    Constant(Arc<Literal>),
    GetTupleElement {
        index: u32,
    },
    Compare {
        direction: Direction,
        total_order: bool,
    },
    /// broadcast, transpose, reverse, concatenate, reduce, sort, map, get-/set-dimension-size.
    Dimensions(Vec<i64>),
    Iota {
        dimension: i64,
    },
    Slice {
        start: Vec<i64>,
        limit: Vec<i64>,
        stride: Vec<i64>,
    },
    DynamicSlice {
        sizes: Vec<i64>,
    },
    Pad {
        low: Vec<i64>,
        high: Vec<i64>,
        interior: Vec<i64>,
    },
    Dot(Box<DotDims>),
    Gather(Box<GatherDims>),
    Scatter {
        dims: Box<ScatterDims>,
        sorted: bool,
        unique: bool,
    },
    Window(Vec<WindowDim>),
    Convolution {
        window: Vec<WindowDim>,
        dims: Box<ConvDims>,
        feature_groups: i64,
        batch_groups: i64,
    },
    Sort {
        dimension: i64,
        stable: bool,
    },
    TopK {
        k: i64,
        largest: bool,
    },
    BatchNorm {
        epsilon: f32,
        feature_index: i64,
    },
    Rng {
        algorithm: u8,
    },
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
    CustomCall {
        target: String,
        config: String,
    },
    TriangularSolve {
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: u8,
    },
    Cholesky {
        lower: bool,
    },
}

/// A literal array (row-major in logical order, little-endian elements, `HloType::bytes` each) or a tuple of them.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Literal {
    Array { shape: ArrayShape, data: Vec<u8> },
    Tuple(Vec<Literal>),
}

impl Literal {
    /// The bytes of an array literal; empty for a tuple.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Literal::Array { data, .. } => data,
            Literal::Tuple(_) => &[],
        }
    }
}

/// Where an instruction comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct SourceLoc {
    pub op_name: String,
    pub file: String,
    pub line: u32,
    /// Line and column in the HLO text, 0 when read from a proto.
    pub text_line: u32,
    pub text_column: u32,
}

/// One HLO instruction.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct HloInstruction {
    pub name: String,
    pub op: HloOp,
    pub shape: Shape,
    pub operands: Vec<HloId>,
    /// Called computations: while = body, condition; conditional = the branches; others = the one.
    pub called: Vec<CompId>,
    pub attrs: Attrs,
    pub computation: CompId,
    pub loc: SourceLoc,
    /// Attributes that do not change the meaning, as written (`sharding={replicated}`), so that a printer keeps them.
    pub extra: Vec<(String, String)>,
}

impl HloInstruction {
    /// The user's source line for a diagnostic.
    pub fn source(&self) -> Option<String> {
        match (self.loc.file.is_empty(), self.loc.op_name.is_empty()) {
            (true, true) => None,
            (true, false) => Some(self.loc.op_name.clone()),
            (false, true) => Some(format!("{}:{}", self.loc.file, self.loc.line)),
            (false, false) => Some(format!("{}:{} ({})", self.loc.file, self.loc.line, self.loc.op_name)),
        }
    }
}

/// A computation: its instructions in a legal order, parameters by number, and its root.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Computation {
    pub name: String,
    /// In the order of the text; operands come before users.
    pub instructions: Vec<HloId>,
    pub parameters: Vec<HloId>,
    pub root: HloId,
}

/// A module.
#[derive(Clone, PartialEq, Debug, Default, bevy_ecs::prelude::Resource)]
#[allow(missing_docs)]
pub struct HloModule {
    pub name: String,
    pub computations: Vec<Computation>,
    /// Every instruction of every computation, callee computations before callers.
    pub instructions: Vec<HloInstruction>,
    pub entry: CompId,
    /// Module attributes as written, for the printer.
    pub extra: Vec<(String, String)>,
}

impl HloModule {
    /// The instruction `id`.
    #[inline]
    pub fn inst(&self, id: HloId) -> &HloInstruction {
        &self.instructions[id.index()]
    }

    /// The computation `id`.
    #[inline]
    pub fn comp(&self, id: CompId) -> &Computation {
        &self.computations[id.index()]
    }

    /// The entry computation.
    pub fn entry_comp(&self) -> &Computation {
        self.comp(self.entry)
    }
}
