//! The compiled program: what stage 9 writes, the artifact stores and the simulator runs. Bytes and the few tables
//! that give the bytes their surroundings; no reference into the compiler's world.

use crate::dtype::{DType, HloType};
use crate::engine::{EngineId, Target};
use crate::text_list::TextList;
use serde::{Deserialize, Serialize};

/// A 64-byte instruction or descriptor record.
pub type Record = [u8; 64];

/// What a DRAM variable is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum VarKind {
    /// Written by the host before the run.
    Input = 0,
    /// Read by the host after the run.
    Output = 3,
    /// Holds constant bytes of the artifact.
    Const = 6,
    /// Scratch of the program; poison until written.
    Internal = 7,
    /// Holds the address of an on-chip location; its eight bytes are constants of the artifact.
    Pointer = 8,
}

impl VarKind {
    /// Whether its bytes are in the artifact.
    pub fn is_constant(self) -> bool {
        matches!(self, VarKind::Const | VarKind::Pointer)
    }
}

/// A DRAM variable. Its id is its position in [`Program::vars`]; ADDR8 words name it by that id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Var {
    /// For people.
    pub name: String,
    /// What it is for.
    pub kind: VarKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Offset of the initial bytes in [`Program::constants`], for a constant.
    pub const_offset: u64,
}

/// An entry of the DGE address table: the base that an offset register is added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableEntry {
    /// The variable.
    pub var: u32,
    /// Bytes from the variable's start.
    pub displacement: u64,
}

/// A DMA queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// At most 31 characters; the name that triggers carry.
    pub name: String,
    /// The engine that triggers it.
    pub engine: EngineId,
}

/// A block of descriptors, fired by one trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockEntry {
    /// Index into [`Program::queues`].
    pub queue: u32,
    /// First record in [`Program::descriptors`].
    pub first: u32,
    /// Number of records, 0xDA extensions included.
    pub count: u32,
}

/// An input or output leaf.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Symbol {
    /// The parameter's name, or `out<k>`.
    pub name: String,
    /// Whether it is an input.
    pub input: bool,
    /// Position among the inputs or outputs.
    pub index: u32,
    /// The variable that holds it.
    pub var: u32,
    /// Element type as the host sees it.
    pub ty: HloType,
    /// Element type in memory.
    pub dtype: DType,
    /// Extents.
    pub dims: Vec<u64>,
}

/// A dimension of an array that goes in or comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Position among the visible inputs or outputs.
    pub array: u32,
    /// The dimension.
    pub dimension: u32,
}

/// A size that only a run can compare: with its bound, or with the size of another operand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SizeCheck {
    /// The HLO instruction that sets it.
    pub instruction: String,
    /// The dimension.
    pub dimension: u32,
    /// The largest legal size; the smallest is 0. [`SizeCheck::BESIDE`] of a size that another operand's must not pass.
    pub bound: u64,
}

impl SizeCheck {
    /// In the place of a bound: the operand ends before the others that are read side by side with it.
    pub const BESIDE: u64 = u64::MAX;
}

/// What the host does not see. The last inputs are the extents of dynamic dimensions, `s32[]` each; so are the last outputs.
/// Behind these two `s32[]` outputs may follow: the number of the check that failed first, from 1, or 0; and its size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default, bevy_ecs::prelude::Resource)]
pub struct Extents {
    /// What the hidden inputs say.
    pub inputs: Vec<Extent>,
    /// What the hidden outputs say.
    pub outputs: Vec<Extent>,
    /// Whether the outputs end with a failed check and its size.
    pub reports: bool,
    /// The checks.
    pub checks: Vec<SizeCheck>,
}

impl Extents {
    /// Number of hidden outputs.
    pub fn hidden_outputs(&self) -> usize {
        self.outputs.len() + if self.reports { 2 } else { 0 }
    }
}

/// Provenance of one record: the HLO instruction it was lowered from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    /// HLO instruction names, each once.
    pub names: TextList,
    /// User source lines, parallel to `names`, empty where unknown.
    pub sources: TextList,
    /// Per stream, per record: index into `names`, `u32::MAX` for records of no instruction.
    pub streams: [Vec<u32>; 5],
    /// Per descriptor record.
    pub descriptors: Vec<u32>,
}

/// Where an ADDR4 word stands: `(stream or 5 for descriptors, record, byte offset)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WordSite {
    /// Index into [`EngineId::STREAMS`], or 5 for the descriptor section.
    pub stream: u8,
    /// Byte offset inside the record.
    pub offset: u8,
    /// Record index.
    pub record: u32,
}

/// A compiled program.
#[derive(Clone, PartialEq, Eq, Debug, bevy_ecs::prelude::Resource)]
pub struct Program {
    /// The HLO module's name.
    pub name: String,
    /// The generation it was compiled for.
    pub target: Target,
    /// One stream per engine, in the order of [`EngineId::STREAMS`]. Branch targets are record indices in the
    /// engine's own stream; each stream ends with an exit record.
    pub streams: [Vec<Record>; 5],
    /// Descriptor records of all blocks, back to back.
    pub descriptors: Vec<Record>,
    /// The blocks, by DMA block id.
    pub blocks: Vec<BlockEntry>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// The DRAM variables.
    pub vars: Vec<Var>,
    /// The DGE address table.
    pub table: Vec<TableEntry>,
    /// Bytes of the constants.
    pub constants: Vec<u8>,
    /// Every ADDR4 word, in program order, and where each stands.
    pub addr4: Vec<u32>,
    /// Parallel to `addr4`.
    pub addr4_sites: Vec<WordSite>,
    /// Inputs and outputs.
    pub symbols: Vec<Symbol>,
    /// Which inputs and outputs are extents of others.
    pub extents: Extents,
    /// Which HLO instruction each record serves.
    pub provenance: Provenance,
}

impl Program {
    /// A program with nothing in it.
    pub fn empty(name: &str, target: Target) -> Self {
        Program {
            name: name.to_string(),
            target,
            streams: Default::default(),
            descriptors: Vec::new(),
            blocks: Vec::new(),
            queues: Vec::new(),
            vars: Vec::new(),
            table: Vec::new(),
            constants: Vec::new(),
            addr4: Vec::new(),
            addr4_sites: Vec::new(),
            symbols: Vec::new(),
            extents: Extents::default(),
            provenance: Provenance::default(),
        }
    }

    /// The input symbols, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| s.input)
    }

    /// The inputs that the host gives; the hidden ones follow them.
    pub fn visible_inputs(&self) -> impl Iterator<Item = &Symbol> {
        self.inputs().take(self.inputs().count().saturating_sub(self.extents.inputs.len()))
    }

    /// The outputs that the host sees; the hidden ones follow them.
    pub fn visible_outputs(&self) -> impl Iterator<Item = &Symbol> {
        self.outputs().take(self.outputs().count().saturating_sub(self.extents.hidden_outputs()))
    }

    /// The output symbols, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| !s.input)
    }
}
