//! Contractions: dot, convolution, and the two linear-algebra operations.

use super::{Expect, Inspect, Rule, array, flags, window_extent};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, ConvDims, DotDims, HloOp, WindowDim};

fn float_or_complex(t: HloType) -> bool {
    t.is_float() || matches!(t, HloType::C64 | HloType::C128)
}

impl<'m> Inspect<'m> {
    pub(super) fn contract(&mut self) -> Rule<Expect> {
        match (self.inst.op, self.inst.attrs()) {
            (HloOp::Dot, Attrs::Dot(dims)) => self.dot(dims),
            (HloOp::Convolution, Attrs::Convolution { window, dims, feature_groups, batch_groups }) => {
                self.convolution(window, dims, *feature_groups, *batch_groups)
            }
            (HloOp::Cholesky, _) => {
                self.count(1)?;
                let a = self.array_of(0, "a float or complex array", float_or_complex)?;
                match a.dims.as_slice() {
                    [.., n, m] if n == m => Ok(Expect::Exact(array(a.ty, a.dims.clone(), flags(a)))),
                    _ => self.bad_operand(0, "square matrices"),
                }
            }
            (HloOp::TriangularSolve, Attrs::TriangularSolve { left_side, transpose_a, .. }) => {
                self.count(2)?;
                if !(1..=3).contains(transpose_a) {
                    let wanted = "NO_TRANSPOSE, TRANSPOSE or ADJOINT";
                    return self.bad_attribute("triangular-solve needs transpose_a", transpose_a, wanted);
                }
                let a = self.array_of(0, "a float or complex array", float_or_complex)?;
                let b = self.array(1)?;
                let r = a.rank();
                let square = r >= 2 && a.dims[r - 1] == a.dims[r - 2];
                let fits = square
                    && b.ty == a.ty
                    && b.rank() == r
                    && a.dims[..r - 2] == b.dims[..r - 2]
                    && b.dims[if *left_side { r - 2 } else { r - 1 }] == a.dims[r - 1];
                if !fits {
                    return self.bad_operand(1, format!("right-hand sides that fit {a}"));
                }
                Ok(Expect::Exact(array(b.ty, b.dims.clone(), flags(b))))
            }
            (op, _) => self.bad_attribute("the attributes are those of another operation", "", op.name()),
        }
    }

    fn dot(&mut self, dims: &DotDims) -> Rule<Expect> {
        self.count(2)?;
        let (a, b) = (self.array(0)?, self.array(1)?);
        let left: Vec<i64> = dims.lhs_batch.iter().chain(&dims.lhs_contracting).copied().collect();
        let right: Vec<i64> = dims.rhs_batch.iter().chain(&dims.rhs_contracting).copied().collect();
        self.distinct_dims("lhs dimensions", &left, a.rank())?;
        self.distinct_dims("rhs dimensions", &right, b.rank())?;
        if dims.lhs_batch.len() != dims.rhs_batch.len() || left.len() != right.len() {
            return self.bad_attribute(
                "both sides must name as many dimensions",
                format!("{left:?}"),
                format!("{right:?}"),
            );
        }
        for (l, r) in left.iter().zip(&right) {
            if a.dims[*l as usize] != b.dims[*r as usize] {
                return self.bad_operand(
                    1,
                    format!("extent {} in dimension {r}, as in dimension {l} of {a}", a.dims[*l as usize]),
                );
            }
        }
        let numeric = |t: murre_components::dtype::HloType| {
            t.is_int() || t.is_float() || t.bytes() > 8 || t.name() == "c64" || t.name() == "pred"
        };
        let ty = self.inst.shape().array().map_or(a.ty, |w| w.ty);
        // The result may be wider than the operands (`f32` of `bf16` operands), never of another kind.
        if !numeric(a.ty) || a.ty.is_float() != b.ty.is_float() || a.ty.is_float() != ty.is_float() {
            return self.bad_operand(1, "operands and result of one kind of number");
        }
        let (mut extents, mut dynamic) = (Vec::new(), Vec::new());
        for (l, r) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
            extents.push(a.dims[*l as usize]);
            dynamic.push(a.is_dynamic(*l as usize) || b.is_dynamic(*r as usize));
        }
        for (side, taken) in [(a, &left), (b, &right)] {
            for d in (0..side.rank()).filter(|d| !taken.contains(&(*d as i64))) {
                extents.push(side.dims[d]);
                dynamic.push(side.is_dynamic(d));
            }
        }
        Ok(Expect::Exact(array(ty, extents, dynamic)))
    }

    fn convolution(
        &mut self,
        window: &[WindowDim],
        dims: &ConvDims,
        groups: i64,
        batch_groups: i64,
    ) -> Rule<Expect> {
        self.count(2)?;
        let (a, k) = (self.array(0)?, self.array(1)?);
        let n = window.len();
        let input: Vec<i64> = [dims.input_batch, dims.input_feature]
            .into_iter()
            .chain(dims.input_spatial.iter().copied())
            .collect();
        let kernel: Vec<i64> = [dims.kernel_input_feature, dims.kernel_output_feature]
            .into_iter()
            .chain(dims.kernel_spatial.iter().copied())
            .collect();
        let output: Vec<i64> = [dims.output_batch, dims.output_feature]
            .into_iter()
            .chain(dims.output_spatial.iter().copied())
            .collect();
        for (name, list) in
            [("input dimensions", &input), ("kernel dimensions", &kernel), ("output dimensions", &output)]
        {
            self.distinct_dims(name, list, n + 2)?;
            if list.len() != n + 2 || a.rank() != n + 2 || k.rank() != n + 2 {
                return self.bad_attribute(
                    "labels, window and operands differ in rank",
                    n + 2,
                    format!("{} and {}", a.rank(), k.rank()),
                );
            }
        }
        let a_at = |d: i64| a.dims[d as usize];
        let k_at = |d: i64| k.dims[d as usize];
        let (features, batch) = (a_at(dims.input_feature), a_at(dims.input_batch));
        let (k_in, k_out) = (k_at(dims.kernel_input_feature), k_at(dims.kernel_output_feature));
        if groups < 1
            || batch_groups < 1
            || groups > 1 && batch_groups > 1
            || k_in.checked_mul(groups) != Some(features)
            || k_out % groups != 0
            || k_out % batch_groups != 0
            || batch % batch_groups != 0
        {
            let found = format!("{features} features, {batch} batches, kernel {k_in}->{k_out}");
            return self.bad_attribute(
                "group counts do not divide the features",
                found,
                format!("groups {groups}, {batch_groups}"),
            );
        }
        let ty = self.inst.shape().array().map_or(a.ty, |w| w.ty);
        if a.ty.is_float() != k.ty.is_float() || a.ty.is_float() != ty.is_float() {
            return self.bad_operand(1, "operands and result of one kind of number");
        }
        let mut extents = vec![0; n + 2];
        let mut dynamic = vec![false; n + 2];
        extents[dims.output_batch as usize] = batch / batch_groups;
        dynamic[dims.output_batch as usize] = a.is_dynamic(dims.input_batch as usize);
        extents[dims.output_feature as usize] = k_out;
        for (i, w) in window.iter().enumerate() {
            self.window_dim(w)?;
            if w.size != k_at(dims.kernel_spatial[i]) {
                return self.bad_attribute(
                    "the window's size is not the kernel's",
                    w.size,
                    k_at(dims.kernel_spatial[i]),
                );
            }
            extents[dims.output_spatial[i] as usize] = window_extent(a_at(dims.input_spatial[i]), w);
        }
        Ok(Expect::Bounds(array(ty, extents, dynamic)))
    }

    /// Sizes, strides and dilations of a window are positive.
    pub(super) fn window_dim(&mut self, w: &WindowDim) -> Rule<()> {
        let sane = |n: i64| n.unsigned_abs() < 1 << 40;
        let positive = w.size >= 1 && w.stride >= 1 && w.window_dilation >= 1 && w.base_dilation >= 1;
        if positive
            && [w.size, w.stride, w.pad_low, w.pad_high, w.window_dilation, w.base_dilation]
                .into_iter()
                .all(sane)
        {
            return Ok(());
        }
        self.bad_attribute(
            "a window field is out of range",
            format!("{w:?}"),
            "size, stride and dilations of at least 1",
        )
    }
}
