//! Data movement and structure: constants, broadcasts, slices, pads, reshapes, tuples, dimension sizes.

use super::{Expect, Inspect, Rule, array, bare, flags};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloOp, Literal, Shape};

impl<'m> Inspect<'m> {
    pub(super) fn rearrange(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match (self.inst.op, self.inst.attrs()) {
            (Constant, Attrs::Constant(literal)) => {
                self.count(0)?;
                if !literal_is_whole(literal) {
                    return self.bad_attribute(
                        "the constant's bytes do not fit its shape",
                        "too few or too many",
                        "one element each",
                    );
                }
                Ok(Expect::Bounds(literal_shape(literal)))
            }
            (Broadcast, Attrs::Dimensions(dims)) => self.broadcast(dims),
            (Transpose, Attrs::Dimensions(dims)) => {
                self.count(1)?;
                let a = self.array(0)?;
                self.distinct_dims("dimensions", dims, a.rank())?;
                if dims.len() != a.rank() {
                    return self.bad_attribute(
                        "transpose must name every dimension",
                        format!("{dims:?}"),
                        a.rank(),
                    );
                }
                let extents = dims.iter().map(|d| a.dims[*d as usize]).collect();
                let dynamic = dims.iter().map(|d| a.is_dynamic(*d as usize)).collect();
                Ok(Expect::Exact(array(a.ty, extents, dynamic)))
            }
            (Reverse, Attrs::Dimensions(dims)) => {
                self.count(1)?;
                let a = self.array(0)?;
                self.distinct_dims("dimensions", dims, a.rank())?;
                Ok(Expect::Exact(array(a.ty, a.dims.clone(), flags(a))))
            }
            (Concatenate, Attrs::Dimensions(dims)) => self.concatenate(dims),
            (Iota, Attrs::Iota { dimension }) => {
                self.count(0)?;
                let a = self.written()?;
                let numeric =
                    a.ty.is_int() || a.ty.is_float() || matches!(a.ty, HloType::C64 | HloType::C128);
                if *dimension < 0 || *dimension as usize >= a.rank() || !numeric {
                    return self.bad_attribute("iota needs a dimension of a numeric result", dimension, a);
                }
                Ok(Expect::Written)
            }
            (Slice, Attrs::Slice { start, limit, stride }) => self.slice(start, limit, stride),
            (Pad, Attrs::Pad { low, high, interior }) => self.pad(low, high, interior),
            (Reshape, _) => {
                self.count(1)?;
                self.same_elements(0)?;
                Ok(Expect::Written)
            }
            (DynamicReshape, _) => {
                let a = self.written()?;
                self.count(1 + a.rank())?;
                self.same_elements(0)?;
                for i in 1..=a.rank() {
                    let size = self.array_of(i, "an integer scalar", |t| t.is_int())?;
                    if size.rank() != 0 {
                        return self.bad_operand(i, "an integer scalar");
                    }
                }
                Ok(Expect::Written)
            }
            (Tuple, _) => {
                let parts: Rule<Vec<Shape>> =
                    (0..self.inst.operands().len()).map(|i| self.any(i).map(bare)).collect();
                Ok(Expect::Exact(Shape::Tuple(parts?)))
            }
            (GetTupleElement, Attrs::GetTupleElement { index }) => {
                self.count(1)?;
                match self.any(0)? {
                    Shape::Tuple(parts) => match parts.get(*index as usize) {
                        Some(part) => Ok(Expect::Exact(bare(part))),
                        None => self.bad_attribute(
                            "the tuple has no such element",
                            index,
                            format!("below {}", parts.len()),
                        ),
                    },
                    _ => self.bad_operand(0, "a tuple"),
                }
            }
            (GetDimensionSize, Attrs::Dimensions(dims)) => {
                self.count(1)?;
                self.one_dim(dims)?;
                Ok(Expect::Exact(array(HloType::S32, Vec::new(), Vec::new())))
            }
            (SetDimensionSize, Attrs::Dimensions(dims)) => {
                self.count(2)?;
                let d = self.one_dim(dims)?;
                let a = self.array(0)?;
                self.scalar(1, HloType::S32)?;
                let mut dynamic = flags(a);
                dynamic[d] = true;
                // Setting a dimension back to its bound may make it static again.
                if self.inst.shape().array().is_some_and(|w| !w.is_dynamic(d)) {
                    dynamic[d] = false;
                }
                Ok(Expect::Exact(array(a.ty, a.dims.clone(), dynamic)))
            }
            (Bitcast, _) => {
                self.count(1)?;
                let (a, to) = (self.array(0)?, self.written()?);
                if a.elements().saturating_mul(a.ty.bits().into())
                    != to.elements().saturating_mul(to.ty.bits().into())
                {
                    return self.bad_shape("a bitcast keeps the number of bits", a);
                }
                Ok(Expect::Written)
            }
            (BitcastConvert, _) => self.bitcast_convert(),
            (Copy, _) => {
                self.count(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            (OptimizationBarrier, _) => {
                self.count(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            (AfterAll, _) => {
                for i in 0..self.inst.operands().len() {
                    if *self.any(i)? != Shape::Token {
                        return self.bad_operand(i, "a token");
                    }
                }
                Ok(Expect::Exact(Shape::Token))
            }
            (op, _) => self.bad_attribute("the attributes are those of another operation", "", op.name()),
        }
    }

    fn one_dim(&mut self, dims: &[i64]) -> Rule<usize> {
        let rank = self.array(0)?.rank();
        match dims {
            [d] if *d >= 0 && (*d as usize) < rank => Ok(*d as usize),
            _ => self.bad_attribute(
                "one dimension must be named",
                format!("{dims:?}"),
                format!("one below {rank}"),
            ),
        }
    }

    fn broadcast(&mut self, dims: &[i64]) -> Rule<Expect> {
        self.count(1)?;
        let a = self.array(0)?;
        let to = self.written()?;
        self.distinct_dims("dimensions", dims, to.rank())?;
        if dims.len() != a.rank() {
            return self.bad_attribute(
                "broadcast must place every operand dimension",
                format!("{dims:?}"),
                a.rank(),
            );
        }
        let fits = dims.iter().enumerate().all(|(i, d)| {
            to.dims[*d as usize] == a.dims[i] && (to.is_dynamic(*d as usize) || !a.is_dynamic(i))
        });
        if to.ty != a.ty || !fits {
            return self.bad_shape(
                "the operand's dimensions do not fit where they are placed",
                format!("{a} placed at {dims:?}"),
            );
        }
        Ok(Expect::Written)
    }

    fn concatenate(&mut self, dims: &[i64]) -> Rule<Expect> {
        let first = self.array(0)?;
        let d = self.one_dim(dims)?;
        let (mut extents, mut dynamic) = (first.dims.clone(), flags(first));
        for i in 1..self.inst.operands().len() {
            let other = self.array(i)?;
            let fits = other.ty == first.ty
                && other.rank() == first.rank()
                && (0..first.rank()).all(|k| k == d || other.dims[k] == first.dims[k]);
            if !fits {
                return self.bad_operand(i, format!("{first} up to dimension {d}"));
            }
            extents[d] = extents[d].saturating_add(other.dims[d]);
            dynamic.iter_mut().enumerate().for_each(|(k, flag)| *flag |= other.is_dynamic(k));
        }
        Ok(Expect::Exact(array(first.ty, extents, dynamic)))
    }

    fn slice(&mut self, start: &[i64], limit: &[i64], stride: &[i64]) -> Rule<Expect> {
        self.count(1)?;
        let a = self.array(0)?;
        let mut extents = Vec::with_capacity(a.rank());
        for (d, extent) in a.dims.iter().enumerate() {
            match (start.get(d), limit.get(d), stride.get(d)) {
                (Some(&s), Some(&l), Some(&step)) if 0 <= s && s <= l && l <= *extent && step >= 1 => {
                    extents.push((l - s).div_euclid(step) + i64::from((l - s) % step != 0));
                }
                (s, l, step) => {
                    let found = format!("{s:?}..{l:?} step {step:?}");
                    return self.bad_attribute(
                        &format!("slice of dimension {d} is wrong"),
                        found,
                        format!("within 0..{extent}"),
                    );
                }
            }
        }
        if start.len() != a.rank() {
            return self.bad_attribute("slice must name every dimension", start.len(), a.rank());
        }
        let dynamic = (0..a.rank()).map(|d| a.is_dynamic(d) && extents[d] == a.dims[d]).collect();
        Ok(Expect::Bounds(array(a.ty, extents, dynamic)))
    }

    fn pad(&mut self, low: &[i64], high: &[i64], interior: &[i64]) -> Rule<Expect> {
        self.count(2)?;
        let a = self.array(0)?;
        self.scalar(1, a.ty)?;
        if low.len() != a.rank() || high.len() != a.rank() || interior.len() != a.rank() {
            return self.bad_attribute("padding must name every dimension", low.len(), a.rank());
        }
        let mut extents = Vec::with_capacity(a.rank());
        for (d, &extent) in a.dims.iter().enumerate() {
            let between = (extent - 1).max(0).saturating_mul(interior[d]);
            let padded = extent.saturating_add(between).saturating_add(low[d]).saturating_add(high[d]);
            let sane = |n: i64| n.unsigned_abs() < 1 << 40;
            if interior[d] < 0 || padded < 0 || ![low[d], high[d], interior[d]].into_iter().all(sane) {
                let found = format!("{}_{}_{}", low[d], high[d], interior[d]);
                return self.bad_attribute(
                    &format!("padding of dimension {d} is wrong"),
                    found,
                    "a result of at least 0",
                );
            }
            extents.push(padded);
        }
        Ok(Expect::Exact(array(a.ty, extents, flags(a))))
    }

    fn same_elements(&mut self, i: usize) -> Rule<()> {
        let (a, to) = (self.array(i)?, self.written()?);
        if a.ty != to.ty || a.elements() != to.elements() {
            return self.bad_shape(
                "a reshape keeps type and number of elements",
                format!("{} elements of {}", a.elements(), a.ty.name()),
            );
        }
        Ok(())
    }

    fn bitcast_convert(&mut self) -> Rule<Expect> {
        self.count(1)?;
        let (a, to) = (self.array(0)?, self.written()?);
        let (from_bits, to_bits) = (i64::from(a.ty.bits()), i64::from(to.ty.bits()));
        let mut dims = a.dims.clone();
        let mut dynamic = flags(a);
        if (a.ty == HloType::Pred) != (to.ty == HloType::Pred) || from_bits == 0 || to_bits == 0 {
            return self.bad_operand(0, "numbers to numbers, or pred to pred");
        }
        if from_bits > to_bits {
            dims.push(from_bits / to_bits);
            dynamic.push(false);
        } else if from_bits < to_bits
            && (dims.pop() != Some(to_bits / from_bits) || dynamic.pop() == Some(true))
        {
            return self.bad_operand(0, format!("a last dimension of {}", to_bits / from_bits));
        }
        Ok(Expect::Exact(array(to.ty, dims, dynamic)))
    }
}

fn literal_shape(literal: &Literal) -> Shape {
    match literal {
        Literal::Array { shape, .. } => bare(&Shape::Array(shape.clone())),
        Literal::Tuple(parts) => Shape::Tuple(parts.iter().map(literal_shape).collect()),
    }
}

fn literal_is_whole(literal: &Literal) -> bool {
    match literal {
        Literal::Array { shape, data } => data.len() as u64 == bytes_of(shape),
        Literal::Tuple(parts) => parts.iter().all(literal_is_whole),
    }
}

fn bytes_of(shape: &ArrayShape) -> u64 {
    shape.elements().saturating_mul(shape.ty.bytes() as u64)
}
