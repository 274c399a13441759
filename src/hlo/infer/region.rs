//! Operations that call computations, and the compound ones that would otherwise be whole programs.

use super::{Expect, Inspect, Rule, accepts, array, bare, flags, window_extent};
use murre_components::diag::codes::verify;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloOp, Shape, WindowDim};

fn scalar_of(ty: HloType) -> Shape {
    array(ty, Vec::new(), Vec::new())
}

fn one_or_tuple(mut shapes: Vec<Shape>) -> Shape {
    if shapes.len() == 1 { shapes.swap_remove(0) } else { Shape::Tuple(shapes) }
}

impl<'m> Inspect<'m> {
    pub(super) fn region(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match (self.inst.op, self.inst.attrs()) {
            (Reduce, Attrs::Dimensions(dims)) => {
                let arrays = self.arrays_and_inits()?;
                let first = arrays[0];
                self.distinct_dims("dimensions", dims, first.rank())?;
                let kept: Vec<usize> = (0..first.rank()).filter(|d| !dims.contains(&(*d as i64))).collect();
                let result = arrays.iter().map(|a| {
                    let extents = kept.iter().map(|d| a.dims[*d]).collect();
                    array(
                        a.ty,
                        extents,
                        kept.iter().map(|d| arrays.iter().any(|x| x.is_dynamic(*d))).collect(),
                    )
                });
                Ok(Expect::Exact(one_or_tuple(result.collect())))
            }
            (ReduceWindow, Attrs::Window(window)) => {
                let arrays = self.arrays_and_inits()?;
                let extents = self.windowed(arrays[0], window)?;
                let result = arrays.iter().map(|a| array(a.ty, extents.clone(), flags(a)));
                Ok(Expect::Bounds(one_or_tuple(result.collect())))
            }
            (SelectAndScatter, Attrs::Window(window)) => {
                self.count(3)?;
                let (a, source) = (self.array(0)?, self.array(1)?);
                self.scalar(2, a.ty)?;
                let extents = self.windowed(a, window)?;
                if source.ty != a.ty || source.dims != extents {
                    return self.bad_operand(1, format!("{}{extents:?}", a.ty.name()));
                }
                let two = [scalar_of(a.ty), scalar_of(a.ty)];
                self.fits(0, &two, Some(&scalar_of(HloType::Pred)))?;
                self.fits(1, &two, Some(&scalar_of(a.ty)))?;
                Ok(Expect::Exact(array(a.ty, a.dims.clone(), flags(a))))
            }
            (Sort, Attrs::Sort { dimension, .. }) => {
                let first = self.array(0)?;
                if *dimension < 0 || *dimension as usize >= first.rank() {
                    return self.bad_attribute("sort needs a dimension of its operands", dimension, first);
                }
                let (mut parameters, mut shapes) = (Vec::new(), Vec::new());
                for i in 0..self.inst.operands().len() {
                    let a = self.array(i)?;
                    if a.dims != first.dims {
                        return self.bad_operand(i, format!("dimensions {:?}", first.dims));
                    }
                    parameters.extend([scalar_of(a.ty), scalar_of(a.ty)]);
                    shapes.push(array(a.ty, a.dims.clone(), flags(a)));
                }
                self.fits(0, &parameters, Some(&scalar_of(HloType::Pred)))?;
                Ok(Expect::Exact(one_or_tuple(shapes)))
            }
            (Map, Attrs::Dimensions(_)) => {
                let first = self.array(0)?;
                let mut parameters = Vec::new();
                for i in 0..self.inst.operands().len() {
                    let a = self.array(i)?;
                    if a.dims != first.dims {
                        return self.bad_operand(i, format!("dimensions {:?}", first.dims));
                    }
                    parameters.push(scalar_of(a.ty));
                }
                match self.fits(0, &parameters, None)? {
                    Shape::Array(root) if root.rank() == 0 => {
                        Ok(Expect::Exact(array(root.ty, first.dims.clone(), flags(first))))
                    }
                    other => {
                        let what = "a mapped computation gives a scalar".to_owned();
                        self.problem(
                            &verify::VERIFY_COMPUTATION,
                            what,
                            other.to_string(),
                            "a scalar".to_owned(),
                        )
                    }
                }
            }
            (While, _) => {
                self.count(1)?;
                let carry = self.any(0)?;
                let shape = std::slice::from_ref(carry);
                let given = self.fits(0, shape, None)?;
                // The body's carry must be one that it takes itself.
                let own = self.computation(0).map(|c| self.signature(c).0.first().copied())?;
                if own.is_some_and(|own| !accepts(own, given)) {
                    let what = "the body's result is not its carry".to_owned();
                    return self.problem(
                        &verify::VERIFY_COMPUTATION,
                        what,
                        given.to_string(),
                        carry.to_string(),
                    );
                }
                self.fits(1, &[bare(given)], Some(&scalar_of(HloType::Pred)))?;
                Ok(Expect::Bounds(bare(own.unwrap_or(carry))))
            }
            (Conditional, _) => self.conditional(),
            (Call | Fusion, _) => {
                let operands: Rule<Vec<Shape>> =
                    (0..self.inst.operands().len()).map(|i| self.any(i).cloned()).collect();
                Ok(Expect::Exact(bare(self.fits(0, &operands?, None)?)))
            }
            (op, _) => self.bad_attribute("the attributes are those of another operation", "", op.name()),
        }
    }

    fn conditional(&mut self) -> Rule<Expect> {
        let which = self.array_of(0, "pred[] or s32[]", |t| matches!(t, HloType::Pred | HloType::S32))?;
        if which.rank() != 0 {
            return self.bad_operand(0, "pred[] or s32[]");
        }
        let branches = self.inst.called().len();
        if branches == 0 || which.ty == HloType::Pred && branches != 2 {
            let what = "the number of branches does not fit the selector".to_owned();
            return self.problem(
                &verify::VERIFY_COMPUTATION,
                what,
                branches.to_string(),
                "2 for pred, else at least 1".to_owned(),
            );
        }
        self.count(1 + branches)?;
        let written = bare(self.inst.shape());
        let mut first: Option<&Shape> = None;
        for b in 0..branches {
            let operand = self.any(1 + b)?.clone();
            let root = self.fits(b, &[operand], None)?;
            let one = *first.get_or_insert(root);
            if !super::same_bounds(one, root) {
                let what = format!("branch {b} gives another shape than branch 0");
                return self.problem(&verify::VERIFY_COMPUTATION, what, root.to_string(), one.to_string());
            }
            // A branch may give a run-time extent only where the result has one.
            if super::same_bounds(&written, root) && !accepts(&written, root) {
                return self.bad_shape("a branch's run-time extent is lost", root);
            }
        }
        first.map_or(Err(()), |s| Ok(Expect::Bounds(bare(s))))
    }

    /// N arrays of one shape, N initial values, and a computation from 2N scalars to N.
    fn arrays_and_inits(&mut self) -> Rule<Vec<&'m ArrayShape>> {
        let n = self.inst.operands().len() / 2;
        self.count(2 * n.max(1))?;
        let first = self.array(0)?;
        let mut arrays = Vec::new();
        let mut scalars = Vec::new();
        for i in 0..n {
            let a = self.array(i)?;
            if a.dims != first.dims {
                return self.bad_operand(i, format!("dimensions {:?}", first.dims));
            }
            self.scalar(n + i, a.ty)?;
            arrays.push(a);
            scalars.push(scalar_of(a.ty));
        }
        let parameters: Vec<Shape> = scalars.iter().chain(&scalars).cloned().collect();
        self.fits(0, &parameters, Some(&one_or_tuple(scalars)))?;
        Ok(arrays)
    }

    fn windowed(&mut self, a: &ArrayShape, window: &[WindowDim]) -> Rule<Vec<i64>> {
        if window.len() != a.rank() {
            return self.bad_attribute("the window must name every dimension", window.len(), a.rank());
        }
        for w in window {
            self.window_dim(w)?;
        }
        Ok(window.iter().zip(&a.dims).map(|(w, d)| window_extent(*d, w)).collect())
    }

    pub(super) fn compound(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match (self.inst.op, self.inst.attrs()) {
            (TopK, Attrs::TopK { k, .. }) => {
                self.count(1)?;
                let a = self.array_of(0, "an array of numbers", |t| t.is_int() || t.is_float())?;
                let Some(last) = a.dims.last() else {
                    return self.bad_operand(0, "an array of at least one dimension");
                };
                if *k < 0 || k > last {
                    return self.bad_attribute("k is out of range", k, format!("0 to {last}"));
                }
                let mut extents = a.dims.clone();
                extents.pop();
                extents.push(*k);
                let dynamic: Vec<bool> = (0..a.rank()).map(|d| a.is_dynamic(d) && d + 1 < a.rank()).collect();
                let indices = array(HloType::S32, extents.clone(), dynamic.clone());
                Ok(Expect::Exact(Shape::Tuple(vec![array(a.ty, extents, dynamic), indices])))
            }
            (RngBitGenerator, Attrs::Rng { algorithm }) => {
                self.count(1)?;
                let state = self.array_of(0, "a u64 state", |t| t == HloType::U64)?;
                // XLA:CPU's default algorithm takes either state.
                let words: &[i64] = if *algorithm == 1 { &[2] } else { &[2, 3] };
                if state.rank() != 1 || !words.contains(&state.dims[0]) {
                    return self.bad_operand(0, format!("u64 of {words:?} words"));
                }
                let bits = match self.inst.shape() {
                    Shape::Tuple(parts) => parts.get(1).and_then(|p| p.array()),
                    _ => None,
                };
                match bits {
                    Some(bits) if bits.ty.is_int() || bits.ty.is_float() => {
                        let value = array(bits.ty, bits.dims.clone(), Vec::new());
                        Ok(Expect::Exact(Shape::Tuple(vec![
                            array(state.ty, state.dims.clone(), Vec::new()),
                            value,
                        ])))
                    }
                    _ => self.bad_shape(
                        "the result is the new state and an array of numbers",
                        "(u64[n], numbers)",
                    ),
                }
            }
            (
                BatchNormTraining | BatchNormInference | BatchNormGrad,
                Attrs::BatchNorm { feature_index, .. },
            ) => {
                self.count(if self.inst.op == BatchNormTraining { 3 } else { 5 })?;
                let a = self.array_of(0, "a float array", |t| t.is_float())?;
                let f = *feature_index;
                if f < 0 || f as usize >= a.rank() {
                    return self.bad_attribute("feature_index is out of range", f, a);
                }
                let feature = array(a.ty, vec![a.dims[f as usize]], Vec::new());
                for i in 1..self.inst.operands().len() {
                    let whole = self.inst.op == BatchNormGrad && i == 4;
                    let wanted = if whole { bare(&Shape::Array(a.clone())) } else { feature.clone() };
                    if !self.any(i)?.same(&wanted) {
                        return self.bad_operand(i, wanted);
                    }
                }
                let whole = array(a.ty, a.dims.clone(), flags(a));
                Ok(Expect::Exact(match self.inst.op {
                    BatchNormInference => whole,
                    _ => Shape::Tuple(vec![whole, feature.clone(), feature]),
                }))
            }
            (op, _) => self.bad_attribute("the attributes are those of another operation", "", op.name()),
        }
    }
}
