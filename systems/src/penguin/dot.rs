//! Dot products: both operands become views of batch, contraction and free dimension, and the cheaper of two ways is
//! taken. A large matrix whose rows lie along the contraction, times a vector, is multiplied and summed on the vector
//! engine ([`super::dot_rows`]); everything else runs on the PE array ([`super::dot_tiles`]).

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::view::{Dims, Layout, Sizes, View, row_major};
use murre_components::bir::Space;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst};
use smallvec::SmallVec;

/// Most matrix multiplications that one dot may unroll to.
const MAX_MULTIPLIES: u64 = 1 << 20;

/// What a dot computes: `result[b, r, c] = sum over k of stationary[b, k, r] * moving[b, k, c]`.
pub struct Dot {
    /// Operand whose free dimension becomes the rows, as `[batch, contraction, rows]`.
    pub stationary: View,
    /// Operand whose free dimension becomes the columns, as `[batch, contraction, columns]`.
    pub moving: View,
    /// Batch members.
    pub batch: u64,
    /// Contraction.
    pub k: u64,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Element type of the result.
    pub ty: HloType,
    /// Extents of the result; batch, rows, columns in row-major order.
    pub result: Sizes,
}

impl Lower<'_> {
    /// Lowers a dot.
    pub fn dot(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Dot(d)) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "dot without dimension numbers");
        };
        let float = |t: HloType| matches!(t, HloType::F32 | HloType::Bf16 | HloType::F16);
        if !float(leaves[0].ty()) || leaves[0].ty() != leaves[1].ty() || !float(shape.ty) {
            return self.refuse(
                &codes::LOWER_UNSUPPORTED_OP,
                format!("a dot of {} and {} is not lowered", leaves[0].ty().name(), leaves[1].ty().name()),
            );
        }
        let result = extents(shape);
        let size = |leaf: &Leaf, which: &[i64]| -> u64 {
            let e = leaf.extents();
            which.iter().map(|k| e[*k as usize]).product()
        };
        let (batch, k) = (size(leaves[0], &d.lhs_batch), size(leaves[0], &d.lhs_contracting));
        let total = |leaf: &Leaf| leaf.extents().iter().product::<u64>();
        if k == 0 || batch == 0 || total(leaves[0]) == 0 || total(leaves[1]) == 0 {
            return Ok(Leaf::Splat { ty: shape.ty, bits: 0, dims: result });
        }
        let (m, n) = (total(leaves[0]) / (batch * k), total(leaves[1]) / (batch * k));
        let lhs = self.dot_side(leaves[0], &d.lhs_batch, &d.lhs_contracting, [batch, k, m])?;
        let rhs = self.dot_side(leaves[1], &d.rhs_batch, &d.rhs_contracting, [batch, k, n])?;
        // A row or column comes out along one partition: the vector is stationary, the matrix streams.
        let swap = n == 1 && m > 1;
        let (stationary, moving) = if swap { (rhs, lhs) } else { (lhs, rhs) };
        let (rows, columns) = if swap { (n, m) } else { (m, n) };
        let dot = Dot { stationary, moving, batch, k, rows, columns, ty: shape.ty, result };
        if self.suits_rows(&dot) {
            return self.dot_rows(&dot);
        }
        let tiles = batch * k.div_ceil(128) * rows.div_ceil(128) * columns.div_ceil(512);
        if tiles > MAX_MULTIPLIES {
            return self.refuse(&codes::LOWER_TILE, format!("a dot of {tiles} tiles is not lowered"));
        }
        self.dot_tiles(&dot)
    }

    /// Permutes an operand to batch, contraction, free and makes each of them one dimension, copying to DRAM where the
    /// strides do not allow it.
    fn dot_side(
        &mut self,
        leaf: &Leaf,
        batch: &[i64],
        contracting: &[i64],
        shape: [u64; 3],
    ) -> Lowered<View> {
        let v = self.as_own_view(leaf)?;
        let free = (0..v.dims.len() as i64).filter(|d| !batch.contains(d) && !contracting.contains(d));
        let order: SmallVec<[i64; 4]> = batch.iter().chain(contracting).copied().chain(free).collect();
        let permuted = v.transpose(&order);
        Ok(match merge_groups(&permuted, &shape) {
            Some(v) => v,
            None => {
                let dense = self.compact_in_dram(&Leaf::View(permuted))?;
                View { dims: row_major(&shape), ..dense }
            }
        })
    }

    /// The result as a leaf: `v` has the dimensions batch, rows, columns. A long row is spread over partitions, where
    /// what follows is fast.
    pub fn dot_result(&mut self, dot: &Dot, v: View) -> Lowered<Leaf> {
        let n: u64 = dot.result.iter().product();
        let f = self.facts(v.loc);
        if f.space == Space::Sbuf && f.parts == 1 && n > super::lower::LONG_LINE && v.is_contiguous() {
            let layout = Layout::spread(&dot.result);
            if layout.parts >= 16 {
                let tile = self.copy_to_tile(&Leaf::View(v), layout)?;
                return Ok(self.whole_view(tile, dot.ty, &dot.result));
            }
        }
        match v.reshape(&dot.result) {
            Some(v) => Ok(Leaf::View(v)),
            None => {
                let dense = self.compact(&v)?;
                Ok(Leaf::View(View { dims: row_major(&dot.result), ..dense }))
            }
        }
    }
}

/// Reshapes to the three groups where each group's strides merge.
fn merge_groups(v: &View, shape: &[u64; 3]) -> Option<View> {
    let mut dims = Dims::new();
    let mut rest = v.dims.as_slice();
    for (g, &want) in shape.iter().enumerate() {
        let mut taken = Dims::new();
        let mut have = 1;
        while !rest.is_empty() && (have < want || rest[0].0 == 1 || g == 2) {
            have *= rest[0].0;
            taken.push(rest[0]);
            rest = &rest[1..];
        }
        if have != want {
            return None;
        }
        match super::view::merged(&taken).as_slice() {
            [] => dims.push((1, 0)),
            [one] => dims.push(*one),
            _ => return None,
        }
    }
    // In SBUF a merged dimension may straddle partitions in a way a DMA cannot say; that is found when it is copied.
    Some(View { dims, ..v.clone() })
}
