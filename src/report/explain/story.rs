//! What `explain` says of a value, as data: every number is a number, every word of a fixed list is the name of a variant.
//! Filled by the files beside this one, rendered by `text` and by serde.

use super::super::word::Decoded;
use serde::Serialize;

/// What `explain` says.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Explanation {
    /// Without a value: the HLO values that reach registers.
    Listing(Vec<ScalarRow>),
    /// The story of one value.
    Story(Box<Story>),
}

/// A value that reaches registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ScalarRow {
    pub name: String,
    pub op: &'static str,
    pub shape: String,
    pub registers: usize,
    pub accesses: usize,
}

/// The way of one value.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Story {
    pub name: String,
    pub op: &'static str,
    pub shape: String,
    pub source: Option<String>,
    pub holder: Holder,
    /// In the module as it was read.
    pub uses: Vec<Use>,
    /// Penguin nodes that load, compute with or address by it, on the registers of engine ALL.
    pub nodes: Vec<Node>,
    /// Instructions that put the value into a register.
    pub loads: Vec<Step>,
    /// Arithmetic on what was loaded; of a vector, the instructions that compute offsets of it.
    pub arithmetic: Vec<Step>,
    pub registers: Vec<Register>,
    pub accesses: Vec<AccessStory>,
    /// Loops whose trips it decides or whose counter it is.
    pub loops: Vec<LoopStory>,
    /// Branches and other instructions that read it.
    pub control: Vec<Step>,
    /// Whether a run filled in values.
    pub simulated: bool,
}

/// A memory location and where it was put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Home {
    /// As the tables are printed: `dram3(x)`.
    pub name: String,
    /// Its row.
    pub location: u32,
    /// `dram`, `sbuf` or `psum`.
    pub space: &'static str,
    /// What a DRAM location is for.
    pub kind: String,
    /// Partitions, from partition 0; 1 in DRAM.
    pub partitions: u32,
    /// Bytes of a partition; in DRAM of the whole.
    pub bytes: u64,
    /// DRAM: variable. SBUF: byte of each partition. PSUM: bank * 2048 + byte. None before placement.
    pub address: Option<u32>,
}

/// Where the value lives between its definition and its uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Holder {
    /// Read from DRAM into registers: an input, or what the program wrote there.
    Memory { home: Home, input: Option<u32> },
    /// Computed by register arithmetic.
    Registers,
    /// Leaf `leaf` of the carry of a loop, in a register that each trip replaces.
    LoopCarried { r#while: String, leaf: usize },
    /// A tensor whose elements are offsets.
    Vector { elements: u64 },
}

/// A use in the HLO.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Use {
    pub user: String,
    pub op: &'static str,
    pub operand: usize,
    pub role: &'static str,
    /// Line of the HLO text, when there was one.
    pub line: Option<u32>,
    pub source: Option<String>,
}

/// A Penguin node.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Node {
    pub node: usize,
    pub kind: String,
    pub text: String,
    /// Of a dynamic copy: its right-hand side.
    pub right: Option<String>,
}

/// Why an instruction of the way is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Why {
    Load,
    NegativeTest,
    NegativeWrap,
    WrapSelect,
    LowerClamp,
    UpperClamp,
    ScaleToBytes,
    OffsetStart,
    OffsetSum,
    ChipAddress,
    CounterStart,
    CounterStep,
    Limit,
    Carried,
    Element,
    Branch,
    Program,
}

impl Why {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Why::Load => "load",
            Why::NegativeTest => "negative wrap: is the index below 0?",
            Why::NegativeWrap => "negative wrap: counted from the end",
            Why::WrapSelect => "negative wrap: which of the two, as difference * condition + index",
            Why::LowerClamp => "lower clamp: no start below 0",
            Why::UpperClamp => "upper clamp: the window stays inside",
            Why::ScaleToBytes => "scale to bytes",
            Why::OffsetStart => "constant part of an offset",
            Why::OffsetSum => "sum of the offset",
            Why::ChipAddress => "address on chip",
            Why::CounterStart => "the counter starts",
            Why::CounterStep => "the counter steps",
            Why::Limit => "limit of the loop",
            Why::Carried => "next value of a loop's carry",
            Why::Element => "computes the offsets, element by element",
            Why::Branch => "branch",
            Why::Program => "arithmetic of the program",
        }
    }
}

/// One instruction of the way.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Step {
    pub position: usize,
    pub instruction: u32,
    pub engine: &'static str,
    pub opcode: &'static str,
    pub why: Why,
    pub text: String,
    /// The HLO instruction that it serves.
    pub serves: Option<String>,
    /// Its first record in the engine's stream.
    pub record: Option<u32>,
    /// What its result register held in a run; of a branch, its left side.
    pub values: Option<Values>,
    /// Whether the value is unsigned.
    pub unsigned: bool,
    #[serde(skip)]
    pub(super) watched: Vec<u8>,
}

/// What a run gave at one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Values {
    pub runs: u64,
    /// The first runs.
    pub first: Vec<Option<i64>>,
    pub last: Option<i64>,
}

/// One register of the way.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Register {
    pub register: u32,
    pub engine: &'static str,
    pub role: &'static str,
    /// The (low) physical register; a register of width 2 has the next one too.
    pub colour: Option<u8>,
    pub width: u8,
    pub live: Option<(u32, u32)>,
    pub range: (i64, i64),
}

/// `constant + sum(coef * register)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Symbolic {
    pub unit: &'static str,
    pub constant: i64,
    pub terms: Vec<Term>,
    /// What the sum stays below, in elements.
    pub below: Option<u64>,
}

/// What a term counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Index {
    Register {
        register: u32,
        colour: Option<u8>,
    },
    Axis {
        axis: u32,
    },
    /// The element of a vector of offsets, one a row.
    Row {
        location: u32,
    },
}

/// A term of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Term {
    pub coef: i64,
    pub index: Index,
    /// The HLO value that the index serves.
    pub value: Option<String>,
}

/// A way that a DMA did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct OtherRoute {
    pub route: &'static str,
    pub eligible: bool,
    pub why_not: &'static str,
}

/// The queue of a DMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Queue {
    pub number: u32,
    pub kind: String,
    pub engine: &'static str,
}

/// The bound of an access with an offset in a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Bound {
    pub register: u32,
    pub colour: Option<u8>,
    /// Size of the variable.
    pub bytes: u64,
}

/// Where an access went in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Place {
    pub offset: i64,
    /// DRAM: the variable. On chip there is none and `offset` is the address.
    pub variable: Option<u32>,
    /// On chip.
    pub partition: Option<u32>,
    pub byte: u64,
}

/// A memory access whose address the value steers.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AccessStory {
    pub step: Step,
    /// The location behind the run-time address.
    pub home: Option<Home>,
    pub symbolic: Option<Symbolic>,
    pub route: Option<&'static str>,
    pub reason: Option<String>,
    /// Why its engine issues it.
    pub engine_reason: Option<String>,
    /// Why it goes through its queue.
    pub queue_reason: Option<String>,
    pub others: Vec<OtherRoute>,
    pub queue: Option<Queue>,
    /// Stream and records of it; a second one is the 0xDA extension.
    pub records: Vec<u32>,
    pub bound: Option<Bound>,
    /// Table entry that the offset is added to: number, variable, displacement.
    pub table: Option<(u16, u32, u64)>,
    /// Address words, the name of the side first.
    pub words: Vec<(String, Decoded)>,
    /// The first runs, then the last.
    pub places: Vec<Place>,
    pub runs: Option<u64>,
    /// Offsets of a vector in the last run.
    pub offsets: Vec<u32>,
    /// SBUF offset and bytes of the vector.
    #[serde(skip)]
    pub(super) vector: Option<(u32, u32)>,
}

/// A loop.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct LoopStory {
    pub axis: u32,
    pub kind: String,
    pub r#while: Option<String>,
    pub parent: Option<u32>,
    pub depth: u16,
    /// Whether the value is the counter, not the limit.
    pub counter: bool,
    pub lower: Option<i64>,
    pub upper: Option<Symbolic>,
    pub step: Option<i64>,
    pub unsigned: bool,
    pub max_tripcount: u64,
    pub bound: TripBound,
    /// Counter and limit on each engine.
    pub engines: Vec<LoopEngine>,
    pub branches: Vec<LoopBranch>,
    /// Trips in a run, all entries together, and the counter's values before each step.
    pub trips: Option<u64>,
}

/// What `max_tripcount` rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TripBound {
    /// Nothing: the loop runs on a condition of any kind.
    Condition,
    /// The limit is a constant.
    Constant,
    /// The proved range of the register in the limit; `by_type` when that is all its type can hold.
    Range { register: u32, value: Option<String>, low: i64, high: i64, by_type: bool },
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Operand {
    Register { register: u32, colour: Option<u8> },
    Immediate { value: i64 },
}

/// A loop on one engine.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct LoopEngine {
    pub engine: &'static str,
    pub counter: Option<u32>,
    pub counter_colour: Option<u8>,
    pub limit: Option<u32>,
    pub limit_colour: Option<u8>,
    /// The counter behind each step, in a run.
    pub values: Option<Values>,
    #[serde(skip)]
    pub(super) steps_at: Option<u32>,
    #[serde(skip)]
    pub(super) stream: usize,
}

/// A branch of a loop on one engine.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct LoopBranch {
    pub engine: &'static str,
    pub position: usize,
    pub record: Option<u32>,
    pub left: Operand,
    /// `<`, `>=` and so on.
    pub comparison: &'static str,
    pub right: Operand,
    pub target: Option<u32>,
    pub back: bool,
}
