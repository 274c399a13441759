//! gather of single elements out of a small table: Pool loads the table and picks by index, no descriptor is made
//! (`spec/ir.md 2.3`, first rung of the ladder: single partition; `spec/isa.md 3.6`, records 67 and 68).
//!
//! In: the operand as a view, the indices, the dimension numbers. Out: a location that holds the elements in the order
//! of the windows. The table, the clamped indices and the result stand along partition 0. What a gather asks for
//! otherwise:
//!
//! | gather | route |
//! |---|---|
//! | windows of one element, at most 512 elements to pick from and to pick, 32-bit path | here |
//! | anything else, scatters | an indirect DMA ([`super::indexed`]) |
//! | copy with a gather operand (INDIRECT20B) | never: indices would have to be u16 in the quadrant of data that starts there |
//! | IndirectCopy (E7) | never: a prototype of generation 2 without scatter form (`spec/isa.md 9` no. 20) |
//! | both sides indexed | no HLO operation says it |
//!
//! ```text
//! gather(f32[100], s32[30,1]), slice_sizes={1}   =>   Gather(pool) sbuf:5[1,30] <- sbuf:3[1,100] by u32 sbuf:4[1,30]
//! ```

use super::indexed::{Numbers, Rows};
use super::leaf::Leaf;
use super::lower::{Lower, Lowered};
use super::view::{FLAT_ELEMENTS, Layout, View, row_major};
use murre_components::bir::{ApPattern, Space};
use murre_components::dtype::DType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{Access, AccessMode, NodeKind, NodeOperand, NodeScalars};
use smallvec::smallvec;

/// Elements that the pool buffer holds (`spec/isa_compute.md 12.3`).
const POOL_BUFFER_ELEMENTS: u64 = 512;

impl Lower<'_> {
    /// Whether a gather picks single elements of a table that the pool buffer holds.
    pub(super) fn is_table(&self, source: &View, batch: &[u64], n: &Numbers<'_>) -> bool {
        let (table, picked) = (source.elements(), batch.iter().product::<u64>());
        let small = (1..=POOL_BUFFER_ELEMENTS).contains(&table) && (1..=FLAT_ELEMENTS).contains(&picked);
        let path = DType::of(source.ty).is_some_and(|d| d.bytes() <= 4);
        small && path && n.window.iter().all(|w| *w == 1)
    }

    /// Lowers such a gather.
    pub(super) fn gather_elements(
        &mut self,
        source: &View,
        indices: &Leaf,
        batch: &[u64],
        n: &Numbers<'_>,
    ) -> Lowered<LocId> {
        let (table, count) =
            (self.along_one_partition(&Leaf::View(source.clone()))?, batch.iter().product::<u64>());
        // Elements in the order of the operand's dimensions, as offsets count them.
        let whole = View { dims: row_major(&source.extents()), ..table.clone() };
        let single = Rows { run: 1, granule: 1, within: vec![0] };
        let offsets = self.offsets(indices, batch, &whole, n, &single, None)?;
        let index = self.along_one_partition(&offsets.resized(&[count]))?;
        let result = self.tile(self.dtype(source.ty)?, Layout::flat(count))?;
        let dtype = self.facts(result).dtype;
        let along = |loc, offset: i64, n: u64, part: u64, dtype, mode| {
            let pattern = ApPattern::of([(part as i32, 1), (1, n as u32)]);
            NodeOperand::Access(Access { loc, offset: offset as u32, dtype, pattern, mode })
        };
        let part = |lower: &Self, loc| lower.facts(loc).part_elems;
        let operands = [
            along(result, 0, count, count, dtype, AccessMode::Store),
            along(table.loc, table.offset, source.elements(), part(self, table.loc), dtype, AccessMode::Load),
            along(index.loc, index.offset, count, part(self, index.loc), DType::U32, AccessMode::Load),
        ];
        self.node(NodeKind::GatherElements, HloOp::Gather, 0, 0, operands, NodeScalars::default());
        Ok(result)
    }

    /// A leaf along partition 0: where it stands, or a copy.
    fn along_one_partition(&mut self, leaf: &Leaf) -> Lowered<View> {
        let n = leaf.extents().iter().product::<u64>();
        if let Leaf::View(v) = leaf {
            let f = self.facts(v.loc);
            if f.space == Space::Sbuf
                && f.parts == 1
                && v.is_contiguous()
                && f.dtype.bytes() as usize == v.ty.bytes()
            {
                return Ok(View { dims: smallvec![(n, 1)], ..v.clone() });
            }
        }
        let loc = self.copy_to_tile(leaf, Layout::flat(n))?;
        Ok(View::whole(loc, leaf.ty(), &[n]))
    }
}
