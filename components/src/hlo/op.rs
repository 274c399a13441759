//! The operations of HLO, by their opcode in text and proto.

use std::sync::LazyLock;

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
            pub fn from_name(name: &str) -> Option<HloOp> {
                HloOp::from_bytes(name.as_bytes())
            }
            /// The operation with this opcode, which need not be valid text.
            #[inline]
            pub fn from_bytes(name: &[u8]) -> Option<HloOp> {
                let table = &*BY_NAME;
                let mut slot = slot_of(name);
                loop {
                    // Entries are one more than the position in `ALL`; the table is never full.
                    let op = *HloOp::ALL.get((table[slot] as usize).checked_sub(1)?)?;
                    if op.name().as_bytes() == name {
                        return Some(op);
                    }
                    slot = (slot + 1) % SLOTS;
                }
            }
        }
    };
}

hlo_ops! {
    Abs = "abs",
    Acos = "acos",
    Acosh = "acosh",
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
    Asin = "asin",
    Asinh = "asinh",
    AsyncDone = "async-done",
    AsyncStart = "async-start",
    AsyncUpdate = "async-update",
    Atan2 = "atan2",
    Atanh = "atanh",
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
    Cosh = "cosh",
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
    Mulhi = "mulhi",
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
    ScaledDot = "scaled-dot",
    Scan = "scan",
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
    Sinh = "sinh",
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

/// A set of operations: a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpSet([u64; 3]);

const _: () = assert!(HloOp::ALL.len() <= 3 * 64);

impl OpSet {
    /// These operations.
    pub const fn of(ops: &[HloOp]) -> OpSet {
        let (mut set, mut k) = (OpSet([0; 3]), 0);
        while k < ops.len() {
            set = set.with(ops[k]);
            k += 1;
        }
        set
    }

    /// The set with one more operation.
    #[inline]
    pub const fn with(mut self, op: HloOp) -> OpSet {
        self.0[op as usize / 64] |= 1 << (op as usize % 64);
        self
    }

    /// Whether the operation is in it.
    #[inline]
    pub const fn contains(self, op: HloOp) -> bool {
        self.0[op as usize / 64] >> (op as usize % 64) & 1 != 0
    }

    /// Whether the sets have an operation in common.
    #[inline]
    pub const fn meets(self, other: OpSet) -> bool {
        self.0[0] & other.0[0] | self.0[1] & other.0[1] | self.0[2] & other.0[2] != 0
    }
}

const SLOTS: usize = 1024;

const _: () = assert!(HloOp::ALL.len() < 255);

static BY_NAME: LazyLock<[u8; SLOTS]> = LazyLock::new(|| {
    let mut table = [0u8; SLOTS];
    for (i, op) in HloOp::ALL.iter().enumerate() {
        let mut slot = slot_of(op.name().as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = i as u8 + 1;
    }
    table
});

/// Where an opcode is looked for first: by its length, its first and its last bytes.
#[inline]
fn slot_of(name: &[u8]) -> usize {
    let n = name.len();
    let (head, tail) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => (name.iter().fold(0u64, |w, b| w << 8 | u64::from(*b)), 0),
    };
    let mixed = (head ^ (n as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ tail;
    (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = OpSet::of(&[HloOp::Abs, HloOp::Xor]);
        assert!(HloOp::ALL.iter().all(|op| set.contains(*op) == matches!(op, HloOp::Abs | HloOp::Xor)));
        assert!(!set.meets(OpSet::of(&[HloOp::Add])));
        set = set.with(HloOp::Add);
        assert!(set.contains(HloOp::Add) && set.meets(OpSet::of(&[HloOp::Add, HloOp::While])));
    }

    #[test]
    fn every_opcode_is_found_by_its_name() {
        for op in HloOp::ALL {
            assert_eq!(HloOp::from_name(op.name()), Some(*op));
        }
        assert_eq!(HloOp::from_name("ad"), None);
        assert_eq!(HloOp::from_name(""), None);
    }
}
