//! BIR instructions. Numbers are IR ordinals (`spec/ir.md 3.2`, `spec/isa.md 6.8`), never wire opcodes.

use crate::engine::EngineId;
use crate::ids::{ApId, AxisId, DmaBlockId, HloId, InstId, QueueId, RegId};
use bevy_ecs::prelude::{Bundle, Component, Resource};

/// An IR instruction number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Opcode {
    Activation = 4,
    LoadActFuncSet = 6,
    Matmult = 8,
    Memset = 10,
    NoOp = 12,
    EventSemaphore = 13,
    GroupResetSemaphores = 14,
    AllEngineBarrier = 15,
    Drain = 16,
    Reciprocal = 21,
    TensorCopy = 23,
    TensorCopyDynamicSrc = 24,
    TensorCopyDynamicDst = 25,
    TensorReduce = 27,
    TensorScalar = 28,
    ScalarTensorTensor = 29,
    TensorTensor = 31,
    DmaCopy = 32,
    CopyPredicated = 52,
    Iota = 61,
    DmaTrigger = 67,
    RegisterAlu = 73,
    RegisterMove = 74,
    TensorLoad = 75,
    TensorSave = 76,
    /// End of a structured loop body; `args.aux` is the axis.
    Terminator = 77,
    CompareAndBranch = 78,
    UnconditionalBranch = 79,
    Exit = 82,
    /// Elements of a table of one partition, by a vector of indices (records 67 and 68).
    Gather = 92,
    Loop = 105,
    /// Head of a counted run-time loop; `args.aux` is the axis.
    DynamicForLoop = 106,
    /// Head of a do-while loop with its guard; `args.aux` is the axis.
    DoWhile = 108,
}

impl Opcode {
    /// Structured loop heads and ends: lowered to branches before encoding.
    #[inline]
    pub fn is_structure(self) -> bool {
        matches!(self, Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile | Opcode::Terminator)
    }

    /// The DMA family among the operations used here (`spec/ir.md 3.2`).
    #[inline]
    pub fn is_dma(self) -> bool {
        matches!(self, Opcode::DmaCopy | Opcode::DmaTrigger)
    }

    /// Operations that a sequencer runs itself: no memory operand, only registers and control.
    #[inline]
    pub fn is_control(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            NoOp | EventSemaphore
                | GroupResetSemaphores
                | AllEngineBarrier
                | Drain
                | RegisterAlu
                | RegisterMove
                | CompareAndBranch
                | UnconditionalBranch
                | Exit
        )
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        use Opcode::*;
        match self {
            Activation => "Activation",
            LoadActFuncSet => "LoadActFuncSet",
            Matmult => "Matmult",
            Memset => "Memset",
            NoOp => "NoOp",
            EventSemaphore => "EventSemaphore",
            GroupResetSemaphores => "GroupResetSemaphores",
            AllEngineBarrier => "AllEngineBarrier",
            Drain => "Drain",
            Reciprocal => "Reciprocal",
            TensorCopy => "TensorCopy",
            TensorCopyDynamicSrc => "TensorCopyDynamicSrc",
            TensorCopyDynamicDst => "TensorCopyDynamicDst",
            TensorReduce => "TensorReduce",
            TensorScalar => "TensorScalar",
            ScalarTensorTensor => "ScalarTensorTensor",
            TensorTensor => "TensorTensor",
            DmaCopy => "DMACopy",
            CopyPredicated => "CopyPredicated",
            Iota => "Iota",
            DmaTrigger => "DMATrigger",
            RegisterAlu => "RegisterAlu",
            RegisterMove => "RegisterMove",
            TensorLoad => "TensorLoad",
            TensorSave => "TensorSave",
            Terminator => "Terminator",
            CompareAndBranch => "CompareAndBranch",
            UnconditionalBranch => "UnconditionalBranch",
            Exit => "Exit",
            Gather => "Gather",
            Loop => "Loop",
            DynamicForLoop => "DynamicForLoop",
            DoWhile => "DoWhile",
        }
    }
}

/// Route of a DMA (`spec/ir.md 3.1`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum DgeType {
    /// Descriptors are built ahead of the run and fired by a trigger.
    None = 0,
    /// Software descriptor generation: the record stands in Pool's stream.
    Swdge = 1,
    /// Hardware descriptor generation: the record stands in the bound engine's stream.
    Hwdge = 2,
    /// The scan has not decided yet. Also the state of everything that is no DMA.
    Unassigned = 3,
}

/// What the instruction is and where it runs.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct InstHead {
    /// IR number.
    pub op: Opcode,
    /// Issuing engine. `All` until `expand_all_engine` has cloned it; cleared (`flags`) afterwards.
    pub engine: EngineId,
    /// [`InstHead::DEAD`] and friends.
    pub flags: u8,
    /// Route of a DMA, written in place by the scan.
    pub dge: DgeType,
}

impl InstHead {
    /// Not part of the program any more (deleted or replaced).
    pub const DEAD: u8 = 1;
    /// A DMA with a dynamic access pattern.
    pub const DYNAMIC: u8 = 2;
    /// A DMA that touches a network input or output ("IO copy", `spec/ir.md 7.2` row 6).
    pub const IO: u8 = 4;
    /// A branch or fence that ends a basic block.
    pub const ENDS_BLOCK: u8 = 8;
    /// A TensorLoad whose datum is a run-time control scalar.
    pub const CONTROL: u8 = 16;

    /// Whether it is still part of the program.
    #[inline]
    pub fn live(self) -> bool {
        self.flags & Self::DEAD == 0
    }
}

/// The access patterns: outputs first, then inputs, consecutive rows from `first`.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct InstOperands {
    /// First access pattern.
    pub first: ApId,
    /// Number of outputs.
    pub outputs: u8,
    /// Number of inputs.
    pub inputs: u8,
    /// Unused.
    pub pad: u16,
}

impl InstOperands {
    /// Rows of all operands.
    #[inline]
    pub fn range(self) -> core::ops::Range<usize> {
        let n = self.outputs as usize + self.inputs as usize;
        if n == 0 { 0..0 } else { self.first.index()..self.first.index() + n }
    }

    /// Row of output `k`.
    #[inline]
    pub fn output(self, k: usize) -> ApId {
        ApId(self.first.0 + k as u32)
    }

    /// Row of input `k`.
    #[inline]
    pub fn input(self, k: usize) -> ApId {
        ApId(self.first.0 + self.outputs as u32 + k as u32)
    }
}

/// Scalar attributes. Meaning by operation:
///
/// | operation | `op0` | `op1` | `mode` | `dtype` | `imm0` | `imm1` | `aux` |
/// |---|---|---|---|---|---|---|---|
/// | TensorTensor | wire ALU op | - | - | - | - | - | - |
/// | TensorScalar | wire op0 | wire op1 | reverse bits, and `IMM0_REG`/`IMM1_REG` | 1: bitvec record (0x53), 0: arith (0x43) | imm0 bits | imm1 bits | - |
/// | TensorReduce | wire op | axis code 2..5 | negate | 1: bitvec | - | - | - |
/// | Activation | function code | accumulate command | - | - | scale bits | bias bits (literal) | - |
/// | Memset | - | - | - | - | value bits | - | - |
/// | Iota | - | - | - | - | base (i32) | channel multiplier (i32) | - |
/// | Matmult | psum flags | transpose | - | fp32 mode | - | - | - |
/// | RegisterAlu | wire ALU op | - | 1: second source is `imm0:imm1` | wire tag 8, 9 or 1 | imm low | imm high | - |
/// | RegisterMove | - | - | 1: source is `imm0` | wire tag | imm | - | - |
/// | TensorLoad | - | - | - | wire tag | - | - | - |
/// | CompareAndBranch | IR compare op 0..11 | - | - | wire tag | imm right side | - | target: [`InstId`] of the block's first instruction |
/// | UnconditionalBranch | - | - | - | - | - | - | target |
/// | GroupResetSemaphores | - | - | 1: range | - | first | last | - |
/// | EventSemaphore | number of waits 0..2 | - | - | - | second wait: `sem << 8 \| mode` | second wait's value | - |
/// | Loop, DynamicForLoop, DoWhile, Terminator | - | - | - | - | - | - | axis |
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct InstArgs {
    pub op0: u8,
    pub op1: u8,
    pub mode: u8,
    pub dtype: u8,
    pub imm0: u32,
    pub imm1: u32,
    pub aux: u32,
}

impl InstArgs {
    /// `mode` bit of a TensorScalar: immediate 0 is the register `regs.src0`.
    pub const IMM0_REG: u8 = 0x10;
    /// `mode` bit of a TensorScalar: immediate 1 is the register `regs.src1`.
    pub const IMM1_REG: u8 = 0x20;

    /// The axis of a structure instruction.
    #[inline]
    pub fn axis(self) -> AxisId {
        AxisId(self.aux)
    }
}

/// Register operands. Unused ones are `NONE`. Of a CompareAndBranch `src0` is the left and `src1` the right side; of
/// a dynamic DMA `src0` is the offset register and `src1` the bound register of its dynamic side.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct InstRegs {
    pub src0: RegId,
    pub src1: RegId,
    pub dst: RegId,
}

/// Provenance.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct InstFrom {
    /// The HLO instruction this serves.
    pub hlo: HloId,
    /// The instruction it was expanded for, when a pass inserted it.
    pub owner: InstId,
}

/// DMA facts, `NONE` for everything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct InstDma {
    /// The queue it goes to.
    pub queue: QueueId,
    /// The block of a DMATrigger.
    pub block: DmaBlockId,
}

/// The DMA facts of each instruction by [`InstId`]. Empty until `alloc_queues` gives every copy its queue: a column beside
/// the table, since no row begins with it. What is appended later and is no DMA has no place in it.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct InstDmas(pub Vec<InstDma>);

impl InstDmas {
    /// Of one instruction; none for a row that the column does not reach.
    #[inline]
    pub fn of(&self, row: usize) -> InstDma {
        self.0.get(row).copied().unwrap_or_default()
    }

    /// Sets those of one instruction.
    pub fn put(&mut self, id: InstId, dma: InstDma) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, InstDma::default());
        }
        self.0[id.index()] = dma;
    }
}

/// Inline synchronisation: at most one wait and one update (`spec/isa.md 8.2`). Modes are wire codes, 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct InstSync {
    pub wait_mode: u8,
    pub wait_sem: u8,
    pub update_mode: u8,
    pub update_sem: u8,
    pub value: u32,
}

/// The inline synchronisation of each instruction by [`InstId`]. Empty until stage 8 decides all of them at once: a column
/// beside the table, since no row begins with it.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct InstSyncs(pub Vec<InstSync>);

impl InstSyncs {
    /// Of one instruction; none for a row that the column does not reach.
    #[inline]
    pub fn of(&self, row: usize) -> InstSync {
        self.0.get(row).copied().unwrap_or_default()
    }
}

/// The archetype of an instruction.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct InstRow {
    pub head: InstHead,
    pub operands: InstOperands,
    pub args: InstArgs,
    pub regs: InstRegs,
    pub from: InstFrom,
}

impl InstRow {
    /// An instruction without operands.
    pub fn new(op: Opcode, engine: EngineId, hlo: HloId) -> Self {
        InstRow {
            head: InstHead { op, engine, flags: 0, dge: DgeType::Unassigned },
            operands: InstOperands::default(),
            args: InstArgs::default(),
            regs: InstRegs::default(),
            from: InstFrom { hlo, owner: InstId::NONE },
        }
    }
}

const _: () = assert!(size_of::<InstHead>() == 4);
const _: () = assert!(size_of::<InstOperands>() == 8);
const _: () = assert!(size_of::<InstArgs>() == 16);
const _: () = assert!(size_of::<InstRegs>() == 12);
const _: () = assert!(size_of::<InstFrom>() == 8);
const _: () = assert!(size_of::<InstDma>() == 8);
const _: () = assert!(size_of::<InstSync>() == 8);
