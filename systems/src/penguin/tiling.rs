//! Tensors of any size: what is too large for a tile lives in DRAM and is worked on piece by piece.
//!
//! In: extents and what a partition may take. Out: boxes, each of which has a layout on partitions that fits; awkward
//! extents (a prime, 50257) split off a remainder. An operation on a large tensor runs once a box on slices of its
//! operands and its results are put together in a DRAM home.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES};
use super::view::{Layout, Sizes, View};
use murre_components::bir::Space;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::program::VarKind;

/// Bytes of a partition that one tile of a piecewise operation takes.
pub const PIECE_BYTES: u64 = 16 * 1024;

/// A part of a tensor: starts and extents by dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// First index of each dimension.
    pub start: Vec<u64>,
    /// Extent of each dimension.
    pub size: Vec<u64>,
}

impl Part {
    /// The slice of a view that this part is.
    pub fn of(&self, v: &View) -> View {
        let start: Vec<i64> = self.start.iter().map(|s| *s as i64).collect();
        let limit: Vec<i64> = self.start.iter().zip(&self.size).map(|(s, n)| (s + n) as i64).collect();
        v.slice(&start, &limit, &[])
    }

    /// The part of a leaf with the tensor's extents.
    pub fn of_leaf(&self, leaf: &Leaf) -> Leaf {
        match leaf {
            Leaf::View(v) => Leaf::View(self.of(v)),
            Leaf::Splat { ty, bits, .. } => {
                Leaf::Splat { ty: *ty, bits: *bits, dims: Sizes::from_slice(&self.size) }
            }
            Leaf::Scalar { ty, reg, .. } => {
                Leaf::Scalar { ty: *ty, reg: *reg, dims: Sizes::from_slice(&self.size) }
            }
            Leaf::Token => Leaf::Token,
        }
    }
}

/// Covers a tensor with parts that, spread over partitions, have at most `most` elements on each, in row-major order.
pub fn parts(extents: &[u64], most: u64) -> Vec<Part> {
    let mut out = Vec::new();
    cover(&mut vec![0; extents.len()], &mut extents.to_vec(), most.max(1), &mut out);
    out
}

fn cover(start: &mut Vec<u64>, size: &mut Vec<u64>, most: u64, out: &mut Vec<Part>) {
    let n: u64 = size.iter().product();
    if n == 0 {
        return;
    }
    // The outermost dimension: on partitions as it is or 128 at a time, or one by one where it is short.
    let outermost = size.iter().position(|d| *d > 1);
    let Some(d) = outermost.filter(|_| Layout::spread(size).free > most) else {
        out.push(Part { start: start.clone(), size: size.clone() });
        return;
    };
    let (inner, extent): (u64, u64) = (size[d + 1..].iter().product(), size[d]);
    let (cut, step) = match extent {
        128.. if inner <= most => (d, (extent / 128).min(most / inner).max(1) * 128),
        129.. => (d, 128),
        64.. if inner > most => {
            // Its rows stay together, and what is inside is cut.
            let next = (d + 1..size.len()).find(|e| size[*e] > 1).unwrap_or(d);
            let rest: u64 = size[next + 1..].iter().product();
            (next, (most / rest).max(1))
        }
        _ => (d, 1),
    };
    let (first, whole, mut at) = (start[cut], size[cut], 0);
    while at < whole {
        (start[cut], size[cut]) = (first + at, step.min(whole - at));
        cover(start, size, most, out);
        at += step;
    }
    (start[cut], size[cut]) = (first, whole);
}

impl Lower<'_> {
    /// Elements of a partition that tiles of these types may take, when the tensor does not fit in one piece.
    fn piece_elements(&self, leaves: &[&Leaf], ty: HloType) -> u64 {
        let width = leaves.iter().map(|l| l.ty()).chain([ty]).map(|t| t.bytes()).max().unwrap_or(4);
        PIECE_BYTES / width.max(1) as u64
    }

    /// Whether an elementwise result of this layout has to be made piece by piece.
    pub fn needs_pieces(&self, leaves: &[&Leaf], ty: HloType, layout: Layout) -> bool {
        let width = leaves.iter().map(|l| l.ty()).chain([ty]).map(|t| t.bytes()).max().unwrap_or(4);
        layout.free * width as u64 > TILE_BYTES
    }

    /// A DRAM home for a tensor.
    pub fn dram_home(&mut self, ty: HloType, dims: &[u64]) -> Lowered<LocId> {
        let (dtype, n) = (self.dtype(ty)?, dims.iter().product::<u64>().max(1));
        Ok(self.new_loc(Space::Dram, VarKind::Internal, dtype, 1, n))
    }

    /// Runs `work` on the parts of a large tensor; what it makes is put together in DRAM.
    pub fn in_pieces(
        &mut self,
        ty: HloType,
        dims: &[u64],
        most: u64,
        mut work: impl FnMut(&mut Self, &Part) -> Lowered<Leaf>,
    ) -> Lowered<Leaf> {
        let home = self.dram_home(ty, dims)?;
        let whole = View::whole(home, ty, dims);
        for part in parts(dims, most) {
            let piece = work(self, &part)?;
            let source = self.as_view(&piece)?;
            self.dma_copy(&part.of(&whole), &source)?;
        }
        Ok(Leaf::View(whole))
    }

    /// One elementwise node for each piece.
    pub fn emit_pieces(
        &mut self,
        op: HloOp,
        sub: u8,
        leaves: &[&Leaf],
        ty: HloType,
        dims: &[u64],
    ) -> Lowered<Leaf> {
        if leaves.iter().any(|l| l.extents()[..] != *dims) {
            return self.refuse(&codes::LOWER_LAYOUT, "a large operand has other extents than its result");
        }
        let most = self.piece_elements(leaves, ty);
        self.in_pieces(ty, dims, most, |this, part| {
            let pieces: Vec<Leaf> = leaves.iter().map(|l| part.of_leaf(l)).collect();
            let refs: Vec<&Leaf> = pieces.iter().collect();
            this.emit(op, sub, &refs, ty, &part.size)
        })
    }

    /// Fills a DRAM location with one value.
    pub fn fill_dram(&mut self, loc: LocId, leaf: &Leaf) -> Lowered<()> {
        let ty = leaf.ty();
        let n: u64 = leaf.extents().iter().product();
        let whole = View::whole(loc, ty, &[n]);
        let mut tiles: Vec<(u64, LocId)> = Vec::new();
        for part in parts(&[n], PIECE_BYTES / ty.bytes().max(1) as u64) {
            let size = part.size[0];
            let tile = match tiles.iter().find(|t| t.0 == size) {
                Some(t) => t.1,
                None => {
                    let tile = self.copy_to_tile(&part.of_leaf(leaf), Layout::choose(&[size]))?;
                    tiles.push((size, tile));
                    tile
                }
            };
            self.dma_copy(&part.of(&whole), &View::whole(tile, ty, &[size]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element once, every layout small enough.
    fn check(extents: &[u64], most: u64) -> usize {
        let all = parts(extents, most);
        let mut seen = vec![0u8; extents.iter().product::<u64>() as usize];
        for p in &all {
            assert!(Layout::spread(&p.size).free <= most, "{p:?}");
            let v = p.of(&View::whole(LocId(0), HloType::F32, extents));
            let mut index = vec![0u64; v.dims.len()];
            'walk: loop {
                let at: i64 = v.offset + index.iter().zip(&v.dims).map(|(i, d)| *i as i64 * d.1).sum::<i64>();
                seen[at as usize] += 1;
                for (i, d) in index.iter_mut().zip(&v.dims).rev() {
                    *i += 1;
                    if *i < d.0 {
                        continue 'walk;
                    }
                    *i = 0;
                }
                break;
            }
        }
        assert!(seen.iter().all(|s| *s == 1));
        all.len()
    }

    #[test]
    fn parts_cover_awkward_extents() {
        assert_eq!(check(&[1, 640], 1000), 1);
        assert_eq!(check(&[50_257], 400), 2);
        assert_eq!(check(&[7919], 16), 5);
        assert!(check(&[3, 1009, 7], 100) < 12);
        assert!(check(&[300, 40], 40) < 20);
        assert_eq!(check(&[], 1), 1);
        assert_eq!(parts(&[4096, 11_008], 12_288).len(), 32);
        assert_eq!(parts(&[4096, 11_008], 4096).len(), 96);
        assert!(check(&[130, 7, 90], 100) < 50);
        assert!(check(&[100, 1009], 64) < 20);
        assert!(parts(&[4, 0], 1).is_empty());
    }
}
