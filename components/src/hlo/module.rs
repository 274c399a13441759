//! The tables of a module. An instruction is one fixed-size row; what varies in length lies back to back in arrays of
//! its own, each row holding only where its part ends (it begins where the row before ends). Shapes, attributes and
//! texts are interned: equal ones have one id. Reading a row goes through [`HloInst`], a view.

mod inst;

pub use inst::HloInst;

use super::attrs::{Attrs, Literal};
use super::op::{HloOp, OpSet};
use super::shape::Shape;
use super::source::StackFrames;
use super::texts::Texts;
use crate::hash::seeded_hash;
use crate::ids::{AttrId, CompId, HloId, ShapeId, TextId};
use hashbrown::HashTable;

/// Literals of more bytes than this are not compared with each other to be stored once.
const COMPARED_LITERAL: usize = 4096;

/// One instruction, fixed size.
#[derive(Clone, Copy, Debug)]
struct Row {
    shape: ShapeId,
    attrs: AttrId,
    operands_end: u32,
    name_end: u32,
    /// Line and column in the HLO text, 0 when there is none.
    line: u32,
    column: u16,
    op: HloOp,
}

const _: () = assert!(size_of::<Row>() == 24);

/// What few instructions have. The rows of this table follow the order of the instructions.
#[derive(Clone, Copy, Debug)]
struct Rare {
    called_end: u32,
    kept_end: u32,
    metadata: TextId,
}

/// Which of 64 instructions have a [`Rare`], and how many there are before them.
#[derive(Clone, Copy, Debug)]
struct RareBlock {
    bits: u64,
    before: u32,
}

impl RareBlock {
    /// Number of entries before that of instruction `bit` of the block.
    #[inline]
    fn rank(self, bit: usize) -> usize {
        self.before as usize + (self.bits & ((1 << bit) - 1)).count_ones() as usize
    }
}

/// Rows of instructions that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HloRange {
    /// The first one.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl HloRange {
    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The instruction at a position.
    pub fn get(&self, position: usize) -> Option<HloId> {
        (position < self.len()).then(|| HloId(self.first + position as u32))
    }

    /// The last one.
    pub fn last(&self) -> Option<HloId> {
        self.get(self.len().checked_sub(1)?)
    }

    /// In order; operands come before their users.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = HloId> + ExactSizeIterator + Clone + use<> {
        (self.first..self.first + self.count).map(HloId)
    }

    /// Whether the instruction is one of them.
    pub fn contains(&self, id: HloId) -> bool {
        id.0.wrapping_sub(self.first) < self.count
    }

    /// Position of an instruction, if it is one of them.
    pub fn position(&self, id: HloId) -> Option<usize> {
        self.contains(id).then(|| (id.0 - self.first) as usize)
    }
}

/// A computation: its instructions in a legal order, parameters by number, and its root.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Computation {
    pub name: String,
    /// In the order of the text; operands come before users.
    pub instructions: HloRange,
    pub parameters: Vec<HloId>,
    pub root: HloId,
    /// Attributes behind the closing brace, as written (`execution_thread="x"`).
    pub extra: Vec<(String, String)>,
}

/// An instruction to be added.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Draft<'a> {
    pub name: &'a str,
    pub op: HloOp,
    pub shape: ShapeId,
    pub operands: &'a [HloId],
    /// Called computations: while = body, condition; conditional = the branches; others = the one.
    pub called: &'a [CompId],
    pub attrs: AttrId,
    /// Attributes that do not change the meaning, as written (`sharding`, `{replicated}`), for the printer.
    pub kept: &'a [(TextId, TextId)],
    /// The text between the braces of `metadata={...}`.
    pub metadata: TextId,
    /// Line and column in the HLO text, 0 when there is none.
    pub line: u32,
    pub column: u16,
}

impl<'a> Draft<'a> {
    /// An instruction without operands, attributes and origin.
    pub fn new(name: &'a str, op: HloOp, shape: ShapeId) -> Self {
        Draft {
            name,
            op,
            shape,
            operands: &[],
            called: &[],
            attrs: AttrId::NONE,
            kept: &[],
            metadata: TextId::NONE,
            line: 0,
            column: 0,
        }
    }
}

/// A module.
#[derive(Clone, Debug, Default, bevy_ecs::prelude::Resource)]
pub struct HloModule {
    /// Its name.
    pub name: String,
    /// Callees before callers.
    pub computations: Vec<Computation>,
    /// The entry computation.
    pub entry: CompId,
    /// Module attributes as written, for the printer.
    pub extra: Vec<(String, String)>,
    /// What metadata points into.
    pub frames: StackFrames,
    rows: Vec<Row>,
    rare: Vec<Rare>,
    rare_blocks: Vec<RareBlock>,
    operands: Vec<HloId>,
    called: Vec<CompId>,
    kept: Vec<(TextId, TextId)>,
    names: String,
    shapes: Vec<Shape>,
    shape_index: HashTable<u32>,
    attrs: Vec<Attrs>,
    attr_index: HashTable<u32>,
    texts: Texts,
    ops: OpSet,
}

/// Tables of a module are full: they hold at most 2^32 entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablesFull;

fn next<T>(table: &[T]) -> u32 {
    // The readers refuse inputs of 4 GiB and more, and no table has more entries than the input has bytes.
    debug_assert!(table.len() < u32::MAX as usize);
    table.len() as u32
}

impl HloModule {
    /// Makes room for this many more instructions.
    pub fn reserve(&mut self, instructions: usize) {
        self.rows.reserve(instructions);
        self.operands.reserve(instructions);
        self.names.reserve(8 * instructions);
    }

    /// Gives back what [`Self::reserve`] took too much.
    pub fn shrink(&mut self) {
        self.rows.shrink_to_fit();
        self.rare.shrink_to_fit();
        self.rare_blocks.shrink_to_fit();
        self.operands.shrink_to_fit();
        self.called.shrink_to_fit();
        self.kept.shrink_to_fit();
        self.names.shrink_to_fit();
        self.computations.shrink_to_fit();
    }

    /// An empty module with the same outer facts and interned tables: ids of shapes, attributes and texts stay valid.
    pub fn emptied(&self) -> HloModule {
        HloModule {
            name: self.name.clone(),
            extra: self.extra.clone(),
            frames: self.frames.clone(),
            shapes: self.shapes.clone(),
            shape_index: self.shape_index.clone(),
            attrs: self.attrs.clone(),
            attr_index: self.attr_index.clone(),
            texts: self.texts.clone(),
            ..HloModule::default()
        }
    }

    /// Number of instructions of all computations.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Every id in order: callee computations before callers.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = HloId> + ExactSizeIterator + Clone + use<> {
        (0..self.rows.len() as u32).map(HloId)
    }

    /// Every instruction in order.
    pub fn insts(&self) -> impl DoubleEndedIterator<Item = HloInst<'_>> + ExactSizeIterator {
        self.ids().map(|id| self.inst(id))
    }

    /// The operations that instructions have or had: what is not among them is not in the module.
    #[inline]
    pub fn ops(&self) -> OpSet {
        self.ops
    }

    /// The instruction `id`.
    #[inline]
    pub fn inst(&self, id: HloId) -> HloInst<'_> {
        HloInst { module: self, id, op: self.rows[id.index()].op }
    }

    /// The instruction `id`, if there is one.
    #[inline]
    pub fn get(&self, id: HloId) -> Option<HloInst<'_>> {
        (id.index() < self.rows.len()).then(|| self.inst(id))
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

    /// Adds an instruction.
    pub fn push(&mut self, draft: Draft<'_>) -> HloId {
        let has_rare = !draft.called.is_empty() || !draft.kept.is_empty() || draft.metadata.is_some();
        let row = Row {
            shape: draft.shape,
            attrs: draft.attrs,
            operands_end: 0,
            name_end: 0,
            line: draft.line,
            column: draft.column,
            op: draft.op,
        };
        let rare = has_rare.then_some((draft.called, draft.kept, draft.metadata));
        self.add(row, draft.name, draft.operands, rare)
    }

    /// Adds a copy of an instruction of a module with the same interned tables, with as many operands and called
    /// computations, in the ids of this module.
    pub fn push_copy(&mut self, inst: HloInst<'_>, operands: &[HloId], called: &[CompId]) -> HloId {
        let rare = inst.module.rare(inst.id).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| inst.module.rare[before].kept_end);
            let end = inst.module.rare[at].kept_end;
            (called, &inst.module.kept[start as usize..end as usize], inst.module.rare[at].metadata)
        });
        self.add(*inst.row(), inst.name(), operands, rare)
    }

    /// Adds a row, whose ends are still to be set, and what is beside it.
    #[inline]
    fn add(
        &mut self,
        row: Row,
        name: &str,
        operands: &[HloId],
        rare: Option<(&[CompId], &[(TextId, TextId)], TextId)>,
    ) -> HloId {
        let id = HloId(next(&self.rows));
        self.ops = self.ops.with(row.op);
        self.operands.extend_from_slice(operands);
        self.names.push_str(name);
        let (block, bit) = (id.index() / 64, id.index() % 64);
        if bit == 0 {
            self.rare_blocks.push(RareBlock { bits: 0, before: next(&self.rare) });
        }
        if let Some((called, kept, metadata)) = rare {
            self.called.extend_from_slice(called);
            self.kept.extend_from_slice(kept);
            self.rare_blocks[block].bits |= 1 << bit;
            let (called_end, kept_end) = (next(&self.called), next(&self.kept));
            self.rare.push(Rare { called_end, kept_end, metadata });
        }
        let (operands_end, name_end) = (next(&self.operands), next(self.names.as_bytes()));
        self.rows.push(Row { operands_end, name_end, ..row });
        id
    }

    /// Place of the instruction's entry in the table of rare facts.
    #[inline]
    fn rare(&self, id: HloId) -> Option<usize> {
        let (block, bit) = (self.rare_blocks[id.index() / 64], id.index() % 64);
        (block.bits >> bit & 1 != 0).then(|| block.rank(bit))
    }

    #[inline]
    fn rare_range(&self, id: HloId, end: impl Fn(&Rare) -> u32) -> core::ops::Range<usize> {
        match self.rare(id) {
            None => 0..0,
            Some(0) => 0..end(&self.rare[0]) as usize,
            Some(at) => end(&self.rare[at - 1]) as usize..end(&self.rare[at]) as usize,
        }
    }

    /// The operands of `id`, to be replaced one for one.
    pub fn operands_mut(&mut self, id: HloId) -> &mut [HloId] {
        let range = self.range(id, |r| r.operands_end);
        &mut self.operands[range]
    }

    /// Gives `id` other attributes.
    pub fn set_attrs(&mut self, id: HloId, attrs: AttrId) {
        self.rows[id.index()].attrs = attrs;
    }

    /// Gives `id` another shape.
    pub fn set_shape(&mut self, id: HloId, shape: ShapeId) {
        self.rows[id.index()].shape = shape;
    }

    /// The called computations of `id`, to be replaced one for one.
    pub fn called_mut(&mut self, id: HloId) -> &mut [CompId] {
        let range = self.rare_range(id, |r| r.called_end);
        &mut self.called[range]
    }

    /// Takes back all instructions from `first` on.
    pub fn truncate(&mut self, first: HloId) {
        let at = first.index();
        if at >= self.rows.len() {
            return;
        }
        self.operands.truncate(self.range(first, |r| r.operands_end).start);
        self.names.truncate(self.range(first, |r| r.name_end).start);
        let (block, bit) = (at / 64, at % 64);
        let rare = self.rare_blocks[block].rank(bit);
        self.rare_blocks[block].bits &= (1 << bit) - 1;
        self.rare_blocks.truncate(at.div_ceil(64));
        let ends =
            rare.checked_sub(1).map_or((0, 0), |last| (self.rare[last].called_end, self.rare[last].kept_end));
        self.rare.truncate(rare);
        self.called.truncate(ends.0 as usize);
        self.kept.truncate(ends.1 as usize);
        self.rows.truncate(at);
    }

    #[inline]
    fn range(&self, id: HloId, end: impl Fn(&Row) -> u32) -> core::ops::Range<usize> {
        let at = id.index();
        let start = if at == 0 { 0 } else { end(&self.rows[at - 1]) };
        start as usize..end(&self.rows[at]) as usize
    }

    /// The parameters among these instructions, by their numbers; `Err` with the numbers there are unless each from 0 up is
    /// there once.
    pub fn numbered_parameters(&self, instructions: HloRange) -> Result<Vec<HloId>, Vec<u32>> {
        let number = |id: HloId| match (self.inst(id).op, self.inst(id).attrs()) {
            (HloOp::Parameter, Attrs::Parameter { number }) => Some((*number, id)),
            _ => None,
        };
        let mut numbered: Vec<(u32, HloId)> = instructions.iter().filter_map(number).collect();
        numbered.sort();
        if numbered.iter().enumerate().all(|(i, (n, _))| *n as usize == i) {
            return Ok(numbered.into_iter().map(|(_, id)| id).collect());
        }
        Err(numbered.into_iter().map(|(n, _)| n).collect())
    }

    /// Whether `id` has this name.
    #[inline]
    pub fn is_named(&self, id: HloId, name: &str) -> bool {
        self.names.as_bytes()[self.range(id, |r| r.name_end)] == *name.as_bytes()
    }

    /// The shape of `id`.
    #[inline]
    pub fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.index()]
    }

    /// The id of a shape, which is added if it is new. Layouts count.
    pub fn intern_shape(&mut self, shape: Shape) -> ShapeId {
        let hash = seeded_hash(&shape);
        let shapes = &self.shapes;
        if let Some(found) = self.shape_index.find(hash, |i| shapes[*i as usize] == shape) {
            return ShapeId(*found);
        }
        let id = next(&self.shapes);
        self.shapes.push(shape);
        let shapes = &self.shapes;
        self.shape_index.insert_unique(hash, id, |i| seeded_hash(&shapes[*i as usize]));
        ShapeId(id)
    }

    /// The different shapes, by their ids.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// The attributes of `id`.
    #[inline]
    pub fn attrs(&self, id: AttrId) -> &Attrs {
        self.attrs.get(id.index()).unwrap_or(&Attrs::None)
    }

    /// The id of attributes, which are added if they are new; large literals always are.
    pub fn intern_attrs(&mut self, attrs: Attrs) -> AttrId {
        if attrs == Attrs::None {
            return AttrId::NONE;
        }
        if let Attrs::Constant(literal) = &attrs
            && literal_bytes(literal) > COMPARED_LITERAL
        {
            self.attrs.push(attrs);
            return AttrId(next(&self.attrs) - 1);
        }
        let hash = seeded_hash(&attrs);
        let table = &self.attrs;
        if let Some(found) = self.attr_index.find(hash, |i| table[*i as usize] == attrs) {
            return AttrId(*found);
        }
        let id = next(&self.attrs);
        self.attrs.push(attrs);
        let table = &self.attrs;
        self.attr_index.insert_unique(hash, id, |i| seeded_hash(&table[*i as usize]));
        AttrId(id)
    }

    /// The text of `id`; empty for `NONE`.
    #[inline]
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    /// The id of a text, which is added if it is new.
    pub fn intern_text(&mut self, text: &str) -> TextId {
        // Full only for more than 4 GiB of different texts, which no input that the readers take has.
        self.texts.intern(text).unwrap_or(TextId::NONE)
    }
}

fn literal_bytes(literal: &Literal) -> usize {
    match literal {
        Literal::Array { data, .. } => data.len(),
        Literal::Tuple(parts) => parts.iter().map(literal_bytes).sum(),
    }
}

/// Same program: everything but ids of interned values and places in the text.
impl PartialEq for HloModule {
    fn eq(&self, other: &Self) -> bool {
        let metadata = |i: HloInst<'_>| i.metadata().to_owned();
        self.name == other.name
            && self.entry == other.entry
            && self.extra == other.extra
            && self.frames == other.frames
            && self.computations == other.computations
            && self.len() == other.len()
            && self
                .insts()
                .zip(other.insts())
                .all(|(a, b)| a.same_program(b) && a.kept().eq(b.kept()) && metadata(a) == metadata(b))
    }
}
