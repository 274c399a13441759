//! Slices at runtime offsets, gather and scatter. Offsets out of range are no fault: they clamp, or skip, at run time.

use super::{Expect, Inspect, Rule, array, bare, flags};
use murre_components::hlo::{ArrayShape, Attrs, GatherDims, HloOp, ScatterDims, Shape};

impl<'m> Inspect<'m> {
    pub(super) fn indexed(&mut self) -> Rule<Expect> {
        match (self.inst.op, self.inst.attrs()) {
            (HloOp::DynamicSlice, Attrs::DynamicSlice { sizes }) => {
                let a = self.array(0)?;
                if sizes.len() != a.rank() || sizes.iter().zip(&a.dims).any(|(s, d)| *s < 0 || s > d) {
                    return self.bad_attribute("the slice is larger than the array", format!("{sizes:?}"), a);
                }
                self.offsets(1, a.rank())?;
                let dynamic = (0..a.rank()).map(|d| a.is_dynamic(d) && sizes[d] == a.dims[d]).collect();
                Ok(Expect::Bounds(array(a.ty, sizes.clone(), dynamic)))
            }
            (HloOp::DynamicUpdateSlice, _) => {
                let (a, update) = (self.array(0)?, self.array(1)?);
                let fits = update.ty == a.ty
                    && update.rank() == a.rank()
                    && update.dims.iter().zip(&a.dims).all(|(u, d)| u <= d);
                if !fits {
                    return self.bad_operand(1, format!("a part of {a}"));
                }
                self.offsets(2, a.rank())?;
                Ok(Expect::Exact(array(a.ty, a.dims.clone(), flags(a))))
            }
            (HloOp::Gather, Attrs::Gather(dims)) => self.gather(dims),
            (HloOp::Scatter, Attrs::Scatter { dims, .. }) => self.scatter(dims),
            (op, _) => self.bad_attribute("the attributes are those of another operation", "", op.name()),
        }
    }

    /// One integer scalar a dimension, or the old form: one vector of them.
    fn offsets(&mut self, from: usize, rank: usize) -> Rule<()> {
        if self.inst.operands().len() == from + 1 {
            let vector = self.array_of(from, "an integer", |t| t.is_int())?;
            if vector.dims == [rank as i64] || rank == 1 && vector.rank() == 0 {
                return Ok(());
            }
        }
        self.count(from + rank)?;
        for i in from..from + rank {
            let offset = self.array_of(i, "an integer scalar", |t| t.is_int())?;
            if offset.rank() != 0 {
                return self.bad_operand(i, "an integer scalar");
            }
        }
        Ok(())
    }

    /// Extents of the indices without the index vector's dimension, and the vector's length.
    fn index_batch(&mut self, i: usize, vector_dim: i64) -> Rule<(Vec<usize>, i64)> {
        let indices = self.array_of(i, "an integer array", |t| t.is_int())?;
        let rank = indices.rank() as i64;
        if !(0..=rank).contains(&vector_dim) {
            return self.bad_attribute(
                "index_vector_dim is out of range",
                vector_dim,
                format!("0 to {rank}"),
            );
        }
        let batch = (0..indices.rank()).filter(|d| *d as i64 != vector_dim).collect();
        Ok((batch, indices.dims.get(vector_dim as usize).copied().unwrap_or(1)))
    }

    /// Batching dimensions pair up and agree in extent.
    fn batching(
        &mut self,
        operand: &ArrayShape,
        own: &[i64],
        indices: &ArrayShape,
        theirs: &[i64],
        vector: i64,
    ) -> Rule<()> {
        let agree = own.len() == theirs.len()
            && own
                .iter()
                .zip(theirs)
                .all(|(o, i)| *i != vector && operand.dims[*o as usize] == indices.dims[*i as usize]);
        if agree {
            Ok(())
        } else {
            self.bad_attribute("batching dimensions do not agree", format!("{own:?}"), format!("{theirs:?}"))
        }
    }

    fn ascending(&mut self, name: &str, dims: &[i64]) -> Rule<()> {
        if dims.is_sorted() {
            return Ok(());
        }
        self.bad_attribute(
            &format!("{name} must be in ascending order"),
            format!("{dims:?}"),
            "ascending dimensions",
        )
    }

    fn gather(&mut self, g: &GatherDims) -> Rule<Expect> {
        self.count(2)?;
        let (a, indices) = (self.array(0)?, self.array(1)?);
        let (batch, length) = self.index_batch(1, g.index_vector_dim)?;
        let gone: Vec<i64> = g.collapsed_slice_dims.iter().chain(&g.operand_batching_dims).copied().collect();
        self.distinct_dims("collapsed and batching dimensions", &gone, a.rank())?;
        self.ascending("offset_dims", &g.offset_dims)?;
        self.ascending("collapsed_slice_dims", &g.collapsed_slice_dims)?;
        self.ascending("operand_batching_dims", &g.operand_batching_dims)?;
        self.distinct_dims("start_index_map", &g.start_index_map, a.rank())?;
        self.distinct_dims("start_indices_batching_dims", &g.start_indices_batching_dims, indices.rank())?;
        self.batching(
            a,
            &g.operand_batching_dims,
            indices,
            &g.start_indices_batching_dims,
            g.index_vector_dim,
        )?;
        if g.start_index_map.len() as i64 != length {
            return self.bad_attribute(
                "start_index_map and the index vector differ in length",
                g.start_index_map.len(),
                length,
            );
        }
        if g.slice_sizes.len() != a.rank() || g.slice_sizes.iter().zip(&a.dims).any(|(s, d)| *s < 0 || s > d)
        {
            return self.bad_attribute("slice_sizes do not fit the array", format!("{:?}", g.slice_sizes), a);
        }
        if gone.iter().any(|d| g.slice_sizes[*d as usize] > 1) {
            return self.bad_attribute(
                "a collapsed or batching dimension has a slice of more than 1",
                format!("{:?}", g.slice_sizes),
                "1",
            );
        }
        let rank = batch.len() + g.offset_dims.len();
        self.distinct_dims("offset_dims", &g.offset_dims, rank)?;
        let window: Vec<usize> = (0..a.rank()).filter(|d| !gone.contains(&(*d as i64))).collect();
        if window.len() != g.offset_dims.len() {
            return self.bad_attribute(
                "offset_dims and the slice differ in rank",
                g.offset_dims.len(),
                window.len(),
            );
        }
        let (mut windows, mut batches) = (window.iter(), batch.iter());
        let (mut extents, mut dynamic) = (Vec::new(), Vec::new());
        for d in 0..rank {
            if g.offset_dims.contains(&(d as i64)) {
                if let Some(w) = windows.next() {
                    extents.push(g.slice_sizes[*w]);
                    dynamic.push(a.is_dynamic(*w) && g.slice_sizes[*w] == a.dims[*w]);
                }
            } else if let Some(b) = batches.next() {
                extents.push(indices.dims[*b]);
                dynamic.push(indices.is_dynamic(*b));
            }
        }
        Ok(Expect::Bounds(array(a.ty, extents, dynamic)))
    }

    fn scatter(&mut self, s: &ScatterDims) -> Rule<Expect> {
        let n = self.inst.operands().len() / 2;
        self.count(2 * n + 1)?;
        if n == 0 {
            return self.count(3).map(|()| Expect::Written);
        }
        let (a, indices) = (self.array(0)?, self.array(n)?);
        let (batch, length) = self.index_batch(n, s.index_vector_dim)?;
        let gone: Vec<i64> = s.inserted_window_dims.iter().chain(&s.input_batching_dims).copied().collect();
        self.distinct_dims("inserted and batching dimensions", &gone, a.rank())?;
        self.distinct_dims("scatter_dims_to_operand_dims", &s.scatter_dims_to_operand_dims, a.rank())?;
        self.distinct_dims(
            "scatter_indices_batching_dims",
            &s.scatter_indices_batching_dims,
            indices.rank(),
        )?;
        self.batching(
            a,
            &s.input_batching_dims,
            indices,
            &s.scatter_indices_batching_dims,
            s.index_vector_dim,
        )?;
        self.ascending("update_window_dims", &s.update_window_dims)?;
        self.ascending("inserted_window_dims", &s.inserted_window_dims)?;
        self.ascending("input_batching_dims", &s.input_batching_dims)?;
        if s.scatter_dims_to_operand_dims.len() as i64 != length {
            return self.bad_attribute(
                "scatter_dims_to_operand_dims and the index vector differ in length",
                s.scatter_dims_to_operand_dims.len(),
                length,
            );
        }
        let window: Vec<usize> = (0..a.rank()).filter(|d| !gone.contains(&(*d as i64))).collect();
        if window.len() != s.update_window_dims.len() {
            return self.bad_attribute(
                "update_window_dims and the window differ in rank",
                s.update_window_dims.len(),
                window.len(),
            );
        }
        let rank = batch.len() + window.len();
        self.distinct_dims("update_window_dims", &s.update_window_dims, rank)?;
        let mut parameters = Vec::new();
        for i in 0..n {
            let (own, update) = (self.array(i)?, self.array(n + 1 + i)?);
            if own.dims != a.dims {
                return self.bad_operand(i, format!("dimensions {:?}", a.dims));
            }
            if update.rank() != rank || update.ty != own.ty {
                return self.bad_operand(n + 1 + i, format!("{rank} dimensions of {}", own.ty.name()));
            }
            let (mut windows, mut batches) = (window.iter(), batch.iter());
            for d in 0..rank {
                let fits = if s.update_window_dims.contains(&(d as i64)) {
                    windows.next().is_some_and(|w| update.dims[d] <= own.dims[*w])
                } else {
                    batches.next().is_some_and(|b| update.dims[d] == indices.dims[*b])
                };
                if !fits {
                    return self.bad_operand(
                        n + 1 + i,
                        format!("dimension {d} as the window or the indices have it"),
                    );
                }
            }
            parameters.push(array(own.ty, Vec::new(), Vec::new()));
        }
        let results = parameters.clone();
        let result = if n == 1 { results[0].clone() } else { Shape::Tuple(results.clone()) };
        let both: Vec<Shape> = parameters.iter().cloned().chain(results).collect();
        self.fits(0, &both, Some(&result))?;
        let shapes: Rule<Vec<Shape>> = (0..n).map(|i| self.any(i).map(bare)).collect();
        let mut shapes = shapes?;
        Ok(Expect::Exact(if n == 1 { shapes.swap_remove(0) } else { Shape::Tuple(shapes) }))
    }
}
