//! Peel, the first step of cutting a copy into records. In: a [`CopyShape`]. Out: loop nests whose runs a descriptor can
//! hold (D1: 65,536 bytes): a longer run becomes equal chunks under one more dimension where a small number divides it,
//! else full chunks and a rest. Facts: `spec/ir.md 9.1`.
//!
//! ```text
//! run 200,000 B             =>   4 x (run 50,000 B)
//! run 200,003 B (a prime)   =>   3 x (run 65,536 B) ; run 3,395 B
//! ```

use super::shape::{CopyDim, CopyShape, Step};
use arrayvec::ArrayVec;

/// Part of a copy: dimensions around a run, and where it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nest {
    /// Distance from the copy's first element, source side.
    pub src: Step,
    /// The same of the destination.
    pub dst: Step,
    /// Strided dimensions, slowest first.
    pub dims: ArrayVec<CopyDim, 7>,
    /// Elements of the run.
    pub run: u32,
}

/// How many numbers of chunks are tried before a run is cut unevenly.
const CHUNK_COUNTS: u32 = 256;

/// The run in equal chunks: how many, and elements of each. `None` when no small number divides it.
fn even(run: u32, cap: u32) -> Option<(u32, u32)> {
    let least = run.div_ceil(cap.max(1));
    (least..least.saturating_add(CHUNK_COUNTS)).find(|k| run.is_multiple_of(*k)).map(|k| (k, run / k))
}

/// `num` chunks of `elems` elements as a dimension.
fn chunks(shape: &CopyShape, num: u32, elems: u32) -> CopyDim {
    let step = |bytes: u32| Step {
        elems: i64::from(elems),
        bytes: i64::from(elems) * i64::from(bytes),
        crosses: false,
    };
    CopyDim { num, src: step(shape.src_bytes), dst: step(shape.dst_bytes) }
}

/// The step.
pub fn peel(shape: &CopyShape) -> ArrayVec<Nest, 2> {
    let dims: ArrayVec<CopyDim, 7> = shape.dims.iter().copied().collect();
    let whole = Nest { src: Step::default(), dst: Step::default(), dims, run: shape.run };
    let cap = shape.max_run();
    let with = |nest: &Nest, dim: CopyDim, run: u32| {
        let mut nest = Nest { run, ..nest.clone() };
        nest.dims.push(dim);
        nest
    };
    if shape.run <= cap {
        return ArrayVec::from_iter([whole]);
    }
    if let Some((num, run)) = even(shape.run, cap) {
        return ArrayVec::from_iter([with(&whole, chunks(shape, num, run), run)]);
    }
    let (full, rest) = (shape.run / cap, shape.run % cap);
    let past = chunks(shape, 1, cap);
    let (src, dst) = (past.src.times(i64::from(full)), past.dst.times(i64::from(full)));
    ArrayVec::from_iter([with(&whole, chunks(shape, full, cap), cap), Nest { src, dst, run: rest, ..whole }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(run: u32, bytes: (u32, u32)) -> CopyShape {
        CopyShape { dims: ArrayVec::new(), run, src_bytes: bytes.0, dst_bytes: bytes.1 }
    }

    #[test]
    fn runs_are_chunked_evenly_where_they_can_be() {
        let of = |run, bytes| -> Vec<(u32, u32, i64)> {
            let nest = |n: &Nest| (n.dims.last().map_or(1, |d| d.num), n.run, n.src.bytes);
            peel(&shape(run, bytes)).iter().map(nest).collect()
        };
        assert_eq!(of(65_536, (1, 1)), [(1, 65_536, 0)]);
        assert_eq!(of(16_384, (4, 4)), [(1, 16_384, 0)]);
        assert_eq!(of(16_385, (4, 4)), [(5, 3_277, 0)]);
        assert_eq!(of(200_000, (1, 1)), [(4, 50_000, 0)]);
        assert_eq!(of(200_003, (1, 1)), [(3, 65_536, 0), (1, 3_395, 196_608)]);
        // The wider side of a cast decides.
        assert_eq!(of(32_768, (2, 4)), [(2, 16_384, 0)]);
    }
}
