//! Reading an instruction: a view of its row and of what varies in length.

use super::{Draft, HloModule, Row};
use crate::hlo::attrs::Attrs;
use crate::hlo::op::HloOp;
use crate::hlo::shape::Shape;
use crate::hlo::source::SourceLoc;
use crate::ids::{AttrId, CompId, HloId, ShapeId, TextId};

/// A view of one instruction.
#[derive(Clone, Copy)]
pub struct HloInst<'m> {
    pub(super) module: &'m HloModule,
    /// Which one.
    pub id: HloId,
    /// What it does.
    pub op: HloOp,
}

impl<'m> HloInst<'m> {
    #[inline]
    pub(super) fn row(self) -> &'m Row {
        &self.module.rows[self.id.index()]
    }

    /// Its name.
    pub fn name(self) -> &'m str {
        &self.module.names[self.module.range(self.id, |r| r.name_end)]
    }

    /// Its shape.
    #[inline]
    pub fn shape(self) -> &'m Shape {
        self.module.shape(self.row().shape)
    }

    /// Its shape's id: equal ids, equal shapes.
    #[inline]
    pub fn shape_id(self) -> ShapeId {
        self.row().shape
    }

    /// Its operands.
    #[inline]
    pub fn operands(self) -> &'m [HloId] {
        &self.module.operands[self.module.range(self.id, |r| r.operands_end)]
    }

    /// Called computations: while = body, condition; conditional = the branches; others = the one.
    #[inline]
    pub fn called(self) -> &'m [CompId] {
        &self.module.called[self.module.rare_range(self.id, |r| r.called_end)]
    }

    /// Its attributes.
    #[inline]
    pub fn attrs(self) -> &'m Attrs {
        self.module.attrs(self.row().attrs)
    }

    /// Its attributes' id: equal ids, equal attributes.
    #[inline]
    pub fn attr_id(self) -> AttrId {
        self.row().attrs
    }

    /// The computation that it is in.
    pub fn computation(self) -> CompId {
        let comps = &self.module.computations;
        CompId::new(comps.partition_point(|c| c.instructions.first + c.instructions.count <= self.id.0))
    }

    /// Attributes that do not change the meaning, as written.
    pub fn kept(self) -> impl ExactSizeIterator<Item = (&'m str, &'m str)> {
        let ids = &self.module.kept[self.module.rare_range(self.id, |r| r.kept_end)];
        ids.iter().map(move |(key, value)| (self.module.text(*key), self.module.text(*value)))
    }

    /// The ids of [`Self::kept`].
    #[inline]
    pub fn kept_ids(self) -> &'m [(TextId, TextId)] {
        &self.module.kept[self.module.rare_range(self.id, |r| r.kept_end)]
    }

    /// The value of a kept attribute.
    pub fn kept_value(self, key: &str) -> Option<&'m str> {
        self.kept().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// The text between the braces of `metadata={...}`.
    pub fn metadata(self) -> &'m str {
        self.module.text(self.metadata_id())
    }

    /// The id of [`Self::metadata`].
    pub fn metadata_id(self) -> TextId {
        self.module.rare(self.id).map_or(TextId::NONE, |at| self.module.rare[at].metadata)
    }

    /// Where it comes from.
    pub fn location(self) -> SourceLoc {
        SourceLoc::of_metadata(self.metadata(), &self.module.frames)
    }

    /// The user's source line for a diagnostic.
    pub fn source(self) -> Option<String> {
        self.location().describe()
    }

    /// Line and column in the HLO text.
    pub fn text_place(self) -> Option<(u32, u32)> {
        let row = self.row();
        (row.line != 0).then_some((row.line, u32::from(row.column)))
    }

    /// The row as an instruction to be added to a module with the same interned tables.
    pub fn draft(self) -> Draft<'m> {
        let row = self.row();
        Draft {
            name: self.name(),
            op: self.op,
            shape: row.shape,
            operands: self.operands(),
            called: self.called(),
            attrs: row.attrs,
            kept: self.kept_ids(),
            metadata: self.metadata_id(),
            line: row.line,
            column: row.column,
        }
    }

    /// Same name, operation, shape, operands, computations and attributes.
    pub fn same_program(self, other: HloInst<'_>) -> bool {
        self.name() == other.name()
            && self.op == other.op
            && self.shape() == other.shape()
            && self.operands() == other.operands()
            && self.called() == other.called()
            && self.attrs() == other.attrs()
    }
}
