//! Which kernel computes which operation, and what becomes of run-time sizes on the way.
//!
//! Kernels work on static arrays. Where a dimension has a run-time size, operations that mix its elements (reduce, dot,
//! concatenate, sort ...) get their operands cut to it and their results grown back to the bound; the others work at the
//! bound, since what lies behind a size is garbage anyway. Facts: `spec/hlo.md 8`.

use super::machine::Machine;
use super::region::Region;
use super::scalar::apply;
use super::tensor::{Data, Scalar, Tensor, Value, extents_of, from_bits, strides, to_bits};
use super::{Outcome, contract, fold, indexed, is_elementwise, movement, random};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp, Shape};
use std::sync::Arc;

fn usizes(values: &[i64]) -> Vec<usize> {
    values.iter().map(|v| *v as usize).collect()
}

fn array(value: &Value) -> Option<&Tensor> {
    match value {
        Value::Array(a) => Some(a),
        _ => None,
    }
}

fn owned(value: Value) -> Option<Tensor> {
    match value {
        Value::Array(a) => Some(Arc::try_unwrap(a).unwrap_or_else(|a| (*a).clone())),
        _ => None,
    }
}

/// The result at the bounds of `shape`, with sizes where `shape` has dynamic dimensions.
fn sized(t: Tensor, shape: &Shape, size: impl Fn(usize) -> i64) -> Value {
    let bounds = extents_of(shape);
    let sizes = shape.array().filter(|a| a.has_dynamic()).map(|a| {
        (0..bounds.len()).map(|d| if a.is_dynamic(d) { size(d) } else { bounds[d] as i64 }).collect()
    });
    Value::Array(Arc::new(t.grow(&bounds, sizes)))
}

/// Results of an operation with one or several arrays.
fn several(tensors: Vec<Tensor>, shape: &Shape, size: impl Fn(usize) -> i64) -> Value {
    match shape {
        Shape::Tuple(parts) => {
            Value::Tuple(tensors.into_iter().zip(parts).map(|(t, s)| sized(t, s, &size)).collect())
        }
        one => tensors.into_iter().next().map_or(Value::Token, |t| sized(t, one, size)),
    }
}

impl<'m> Machine<'m> {
    /// Computes one instruction that calls no frame of its own.
    pub(crate) fn compute(&mut self, inst: HloInst<'m>, mut args: Vec<Value>) -> Outcome<Value> {
        match inst.op {
            HloOp::Tuple => return Ok(Value::Tuple(args)),
            HloOp::AfterAll => return Ok(Value::Token),
            HloOp::Copy | HloOp::OptimizationBarrier => return Ok(args.pop().unwrap_or(Value::Token)),
            HloOp::GetTupleElement => {
                let Attrs::GetTupleElement { index } = inst.attrs() else {
                    return Err(self.unsupported_here("this"));
                };
                return Ok(match args.pop() {
                    Some(Value::Tuple(mut parts)) if parts.len() > *index as usize => {
                        parts.swap_remove(*index as usize)
                    }
                    _ => Value::Token,
                });
            }
            _ => {}
        }
        let value =
            if is_elementwise(inst.op) { self.elementwise(inst, &args) } else { self.kernel(inst, args)? };
        value.ok_or_else(|| self.unsupported_here(inst.op.name()))
    }

    fn elementwise(&self, inst: HloInst<'_>, args: &[Value]) -> Option<Value> {
        let tensors: Option<Vec<&Tensor>> = args.iter().map(array).collect();
        let tensors = tensors?;
        let to = inst.shape().array()?.ty;
        let dims = extents_of(inst.shape());
        let from = if inst.op == HloOp::Select { to } else { tensors.first()?.ty };
        let mut data = Data::new(to);
        let mut operands = [Scalar::Int(0); 3];
        for i in 0..dims.iter().product() {
            for (slot, t) in operands.iter_mut().zip(&tensors) {
                *slot = t.data.get(if t.dims.is_empty() { 0 } else { i });
            }
            data.push(apply(inst.op, inst.attrs(), from, to, &operands[..tensors.len().min(3)])?);
        }
        // The first operand with a run-time size decides.
        let shapes: Vec<_> = inst.operands().iter().map(|o| self.module.inst(*o).shape().array()).collect();
        let size = |d: usize| {
            let mut own = tensors.iter().zip(&shapes).filter(|(_, s)| s.is_some_and(|s| s.is_dynamic(d)));
            own.next().map_or(dims[d] as i64, |(t, _)| t.size(d))
        };
        Some(sized(Tensor::new(to, dims.clone(), data), inst.shape(), size))
    }

    /// `None`: no kernel computes this form.
    fn kernel(&mut self, inst: HloInst<'m>, mut args: Vec<Value>) -> Outcome<Option<Value>> {
        use HloOp::*;
        let shape = inst.shape();
        let dims = extents_of(shape);
        // dynamic-update-slice wants to own its operand; the others only look.
        if inst.op == DynamicUpdateSlice {
            let rest = args.split_off(1);
            let Some(mut a) = args.pop().and_then(owned) else { return Ok(None) };
            let tensors: Vec<&Tensor> = rest.iter().filter_map(array).collect();
            let [update, offsets @ ..] = tensors.as_slice() else { return Ok(None) };
            indexed::dynamic_update_slice(&mut a, update, offsets);
            return Ok(Some(Value::Array(Arc::new(a))));
        }
        if let (Constant, Attrs::Constant(literal)) = (inst.op, inst.attrs()) {
            return Ok(Some(Tensor::of_literal(literal)));
        }
        let t: Vec<&Tensor> = args.iter().filter_map(array).collect();
        if t.len() != args.len() {
            return Ok(None);
        }
        let first = t.first().copied();
        Ok(match (inst.op, inst.attrs(), first) {
            (Iota, Attrs::Iota { dimension }, _) => {
                let Some(ty) = shape.array().map(|a| a.ty) else { return Ok(None) };
                let (d, s) = (*dimension as usize, strides(&dims));
                let mut data = Data::new(ty);
                for i in 0..dims.iter().product::<usize>() {
                    let n = (i / s[d]) % dims[d].max(1);
                    data.push(super::scalar::convert(HloType::S64, ty, Scalar::Int(n as i64)));
                }
                Some(sized(Tensor::new(ty, dims.clone(), data), shape, |d| dims[d] as i64))
            }
            (Broadcast, Attrs::Dimensions(places), Some(a)) => {
                let size = |d: usize| {
                    let from = places.iter().position(|p| *p as usize == d);
                    from.map_or(dims[d] as i64, |i| a.size(i))
                };
                Some(sized(movement::broadcast(a, &dims, places), shape, size))
            }
            (Transpose, Attrs::Dimensions(order), Some(a)) => {
                let order = usizes(order);
                Some(sized(movement::transpose(a, &order), shape, |d| a.size(order[d])))
            }
            (Reverse, Attrs::Dimensions(list), Some(a)) => {
                Some(sized(movement::reverse(&a.cut(), list), shape, |d| a.size(d)))
            }
            (Slice, Attrs::Slice { start, stride, .. }, Some(a)) => {
                Some(sized(movement::slice(a, &dims, &usizes(start), &usizes(stride)), shape, |d| a.size(d)))
            }
            (Pad, Attrs::Pad { low, high, interior }, Some(a)) => {
                let size = |d: usize| {
                    let n = a.size(d);
                    n.saturating_add((n - 1).max(0).saturating_mul(interior[d]))
                        .saturating_add(low[d])
                        .saturating_add(high[d])
                };
                Some(sized(movement::pad(&a.cut(), t[1].first(), low, high, interior), shape, size))
            }
            (Concatenate, Attrs::Dimensions(list), Some(a)) => {
                let along = list.first().map_or(0, |d| *d as usize);
                // Other dimensions follow the first operand's size.
                let others: Vec<usize> = a.extents();
                let parts: Vec<Tensor> = t
                    .iter()
                    .map(|p| {
                        let mut extents = others.clone();
                        extents[along] = p.extents()[along];
                        for (e, bound) in extents.iter_mut().zip(&p.dims) {
                            *e = (*e).min(*bound);
                        }
                        p.cut_to(&extents)
                    })
                    .collect();
                let size = |d: usize| if d == along { t.iter().map(|p| p.size(d)).sum() } else { a.size(d) };
                movement::concatenate(&parts, along).map(|c| sized(c, shape, size))
            }
            (Reshape, _, Some(a)) => reshape(a, shape),
            (DynamicReshape, _, Some(a)) => {
                let sizes: Vec<i64> = t[1..].iter().map(|s| s.first().int()).collect();
                // XLA reshapes the whole buffers and records the sizes; it does not repack the part in use.
                let whole = Tensor::new(a.ty, dims.clone(), a.data.clone());
                Some(sized(whole, shape, |d| sizes[d]))
            }
            (BitcastConvert, _, Some(a)) => Some(bitcast(a, shape)),
            (GetDimensionSize, Attrs::Dimensions(list), Some(a)) => {
                let d = list.first().map_or(0, |d| *d as usize);
                let size = super::tensor::wrap(HloType::S32, a.size(d));
                Some(Value::Array(Arc::new(Tensor::scalar(HloType::S32, Scalar::Int(size)))))
            }
            (SetDimensionSize, Attrs::Dimensions(list), Some(a)) => {
                let set = list.first().map_or(0, |d| *d as usize);
                let n = t[1].first().int();
                let whole = Tensor { sizes: None, ..a.clone() };
                Some(sized(whole, shape, |d| if d == set { n } else { a.size(d) }))
            }
            (DynamicSlice, Attrs::DynamicSlice { sizes }, Some(a)) => {
                Some(sized(indexed::dynamic_slice(a, &t[1..], &usizes(sizes)), shape, |d| a.size(d)))
            }
            (Gather, Attrs::Gather(g), Some(a)) => {
                let cut = t[1].cut();
                let result = indexed::gather(a, &cut, g);
                let own: Vec<i64> = result.dims.iter().map(|d| *d as i64).collect();
                Some(sized(result, shape, |d| own[d]))
            }
            (Scatter, Attrs::Scatter { dims: s, .. }, Some(_)) => {
                let n = t.len() / 2;
                let region = Region::new(self.module, inst.called()[0]);
                let mut arrays: Vec<Tensor> =
                    t[..n].iter().map(|a| Tensor { sizes: None, ..(*a).clone() }).collect();
                let updates: Vec<Tensor> = t[n + 1..].iter().map(|u| u.cut()).collect();
                indexed::scatter(&mut arrays, &t[n].cut(), &updates, s, |old, new| {
                    region.call(self, &[old, new].concat())
                })?;
                Some(several(arrays, shape, |d| t[0].size(d)))
            }
            (Dot, Attrs::Dot(d), Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let (mut left, mut right) = (a.extents(), t[1].extents());
                let pairs = |x: &[i64], y: &[i64]| {
                    x.iter().zip(y).map(|(i, j)| (*i as usize, *j as usize)).collect::<Vec<_>>()
                };
                for (i, j) in
                    [pairs(&d.lhs_batch, &d.rhs_batch), pairs(&d.lhs_contracting, &d.rhs_contracting)]
                        .concat()
                {
                    let n = left[i].min(right[j]);
                    (left[i], right[j]) = (n, n);
                }
                let result = contract::dot(&a.cut_to(&left), &t[1].cut_to(&right), d, ty);
                let own: Vec<i64> = result.dims.iter().map(|d| *d as i64).collect();
                Some(sized(result, shape, |d| own[d]))
            }
            (Convolution, Attrs::Convolution { window, dims: c, feature_groups, batch_groups }, Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let batch = c.input_batch as usize;
                let spatial = (0..a.dims.len()).any(|d| d != batch && a.extents()[d] != a.dims[d]);
                if spatial || t[1].extents() != t[1].dims {
                    return Ok(None);
                }
                let groups = (*feature_groups as usize, *batch_groups as usize);
                let result = contract::convolution(a, t[1], window, c, groups, ty);
                Some(sized(result, shape, |d| {
                    if d == c.output_batch as usize { a.size(batch) } else { dims[d] as i64 }
                }))
            }
            (Reduce, Attrs::Dimensions(list), Some(a)) => {
                let region = Region::new(self.module, inst.called()[0]);
                let (arrays, inits) = halves(&t, a);
                let result = fold::reduce(self, &region, &arrays, &inits, list)?;
                let kept: Vec<usize> = (0..a.dims.len()).filter(|d| !list.contains(&(*d as i64))).collect();
                Some(several(result, shape, |d| kept.get(d).map_or(0, |k| a.size(*k))))
            }
            (ReduceWindow, Attrs::Window(window), Some(a)) => {
                let region = Region::new(self.module, inst.called()[0]);
                let (arrays, inits) = halves(&t, a);
                let result = fold::reduce_window(self, &region, &arrays, &inits, window)?;
                // XLA counts windows without the padding, whatever the window declares.
                let size = |d: usize| {
                    let w = &window[d];
                    let trivial = w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0;
                    let reach = (w.size - 1) * w.window_dilation + 1;
                    if trivial { a.size(d) } else { ((a.size(d) - reach).div_euclid(w.stride) + 1).max(0) }
                };
                Some(several(result, shape, size))
            }
            (SelectAndScatter, Attrs::Window(window), Some(a)) if a.extents() == a.dims => {
                let regions = (
                    &Region::new(self.module, inst.called()[0]),
                    &Region::new(self.module, inst.called()[1]),
                );
                let result = fold::select_and_scatter(self, regions, a, t[1], t[2].first(), window)?;
                Some(sized(result, shape, |d| a.size(d)))
            }
            (Sort, Attrs::Sort { dimension, .. }, Some(a)) => {
                let region = Region::new(self.module, inst.called()[0]);
                let extents = a.extents();
                let arrays: Vec<Tensor> = t.iter().map(|x| x.cut_to(&extents)).collect();
                let result = fold::sort(self, &region, &arrays, *dimension as usize)?;
                Some(several(result, shape, |d| a.size(d)))
            }
            (Map, _, Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let region = Region::new(self.module, inst.called()[0]);
                let mut data = Data::new(ty);
                for i in 0..a.data.len() {
                    let elements: Vec<Scalar> = t.iter().map(|x| x.data.get(i)).collect();
                    data.push(region.call(self, &elements)?[0]);
                }
                Some(sized(Tensor::new(ty, a.dims.clone(), data), shape, |d| a.size(d)))
            }
            (TopK, Attrs::TopK { k, largest }, Some(a)) => {
                let (values, indices) = indexed::topk(a, *k as usize, *largest);
                Some(several(vec![values, indices], shape, |d| a.size(d)))
            }
            (
                BatchNormTraining | BatchNormInference | BatchNormGrad,
                Attrs::BatchNorm { epsilon, feature_index },
                Some(a),
            ) if a.sizes.is_none() => {
                let result = fold::batch_norm(inst.op, &t, f64::from(*epsilon), *feature_index as usize);
                result.map(|r| several(r, shape, |_| 0))
            }
            (RngBitGenerator, Attrs::Rng { algorithm }, Some(a)) => {
                let Shape::Tuple(parts) = shape else { return Ok(None) };
                let Some(bits) = parts.get(1).and_then(|p| p.array()) else { return Ok(None) };
                let state: Vec<u64> = (0..a.data.len()).map(|i| a.data.get(i).int() as u64).collect();
                let (values, next) = random::bits(*algorithm, &state, bits.ty.bits(), &usizes(&bits.dims));
                let next = Data::Int(next.into_iter().map(|v| v as i64).collect());
                let values =
                    Data::Int(values.into_iter().map(|v| super::tensor::wrap(bits.ty, v as i64)).collect());
                let state = Tensor::new(HloType::U64, a.dims.clone(), next);
                let value = Tensor::new(bits.ty, usizes(&bits.dims), values);
                Some(Value::Tuple(vec![Value::Array(Arc::new(state)), Value::Array(Arc::new(value))]))
            }
            _ => None,
        })
    }
}

/// The arrays cut to the first one's size, and the initial values, of a reduction.
fn halves(t: &[&Tensor], first: &Tensor) -> (Vec<Tensor>, Vec<Scalar>) {
    let (arrays, inits) = t.split_at(t.len() / 2);
    let extents = first.extents();
    (arrays.iter().map(|a| a.cut_to(&extents)).collect(), inits.iter().map(|i| i.first()).collect())
}

/// The elements of `a` in order, as an array of these run-time sizes.
fn refill(a: &Tensor, shape: &Shape, sizes: &[i64]) -> Value {
    let bounds = extents_of(shape);
    let extents: Vec<usize> =
        sizes.iter().zip(&bounds).map(|(s, b)| (*s).clamp(0, *b as i64) as usize).collect();
    let n: usize = extents.iter().product();
    let mut data = a.data.pick(0..n.min(a.data.len()));
    while data.len() < n {
        data.push(Scalar::zero(a.ty));
    }
    sized(Tensor::new(a.ty, extents, data), shape, |d| sizes[d])
}

/// Row-major reshape. Run-time sizes carry over where the dimensions stay, or where one dynamic dimension takes them all.
fn reshape(a: &Tensor, shape: &Shape) -> Option<Value> {
    let to = shape.array()?;
    let bounds = extents_of(shape);
    if a.sizes.is_none() || !to.has_dynamic() {
        let whole =
            if a.sizes.is_some() { a.cut() } else { Tensor::new(a.ty, a.dims.clone(), a.data.clone()) };
        let sizes: Vec<i64> = bounds.iter().map(|d| *d as i64).collect();
        return Some(refill(&whole, shape, &sizes));
    }
    let dynamic: Vec<usize> = (0..bounds.len()).filter(|d| to.is_dynamic(*d)).collect();
    let mut sizes: Vec<i64> = bounds.iter().map(|d| *d as i64).collect();
    if let [one] = dynamic.as_slice() {
        let total: i64 = (0..a.dims.len()).map(|d| a.size(d)).product();
        let rest: i64 = (0..bounds.len()).filter(|d| d != one).map(|d| bounds[d] as i64).product();
        sizes[*one] = if rest == 0 { bounds[*one] as i64 } else { total / rest };
        return Some(refill(&a.cut(), shape, &sizes));
    }
    // Dimensions of extent 1 may come and go between the others.
    let long = |dims: &[usize]| (0..dims.len()).filter(|d| dims[*d] != 1).collect::<Vec<_>>();
    let (from, into) = (long(&a.dims), long(&bounds));
    let same = from.len() == into.len() && from.iter().zip(&into).all(|(i, j)| a.dims[*i] == bounds[*j]);
    if !same {
        return None;
    }
    from.iter().zip(&into).for_each(|(i, j)| sizes[*j] = a.size(*i));
    Some(refill(&a.cut(), shape, &sizes))
}

/// The same bits as another type; a size difference adds or takes a last dimension.
fn bitcast(a: &Tensor, shape: &Shape) -> Value {
    let mut bytes = Vec::new();
    for i in 0..a.data.len() {
        to_bits(a.ty, a.data.get(i), &mut bytes);
    }
    let ty = shape.array().map_or(a.ty, |s| s.ty);
    let mut data = Data::new(ty);
    bytes.chunks_exact(ty.bytes().max(1)).for_each(|b| data.push(from_bits(ty, b)));
    sized(Tensor::new(ty, extents_of(shape), data), shape, |d| if d < a.dims.len() { a.size(d) } else { 0 })
}
