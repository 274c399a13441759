//! Which kernel computes which operation, and what becomes of run-time sizes on the way.
//!
//! Kernels work on static arrays. Where a dimension has a run-time size, operations that mix its elements (reduce, dot,
//! concatenate, sort ...) get their operands cut to it and their results grown back to the bound; the others work at the
//! bound, since what lies behind a size is garbage anyway. Facts: `spec/hlo.md 8`.

use super::factor::Triangle;
use super::fft::{Transform, fft, fft_work};
use super::machine::Machine;
use super::places::{Places, count};
use super::region::Callee;
use super::scalar::Rule;
use super::sizes::{behind, declared, filled, lowest, meet, sized, stretched};
use super::tensor::{Data, Meter, Scalar, Tensor, Value};
use super::{Outcome, alone, contract, custom, elementwise, fold, indexed, is_elementwise, lanes, movement};
use super::{normalize, order, random};
use murre_components::dtype::HloType;
use murre_components::hlo::{ANNOTATIONS, ArrayShape, Attrs, HloInst, HloOp, Literal, Shape};
use std::borrow::Cow;

/// Elementary operations that a random word takes.
const RANDOM_WORK: u64 = 16;

fn usizes(values: &[i64]) -> Vec<usize> {
    values.iter().map(|v| (*v).max(0) as usize).collect()
}

/// The extents of a shape's array.
pub(crate) fn extents_of(shape: &Shape) -> Vec<usize> {
    shape.array().map(|a| usizes(&a.dims)).unwrap_or_default()
}

/// The rule of an elementwise operation.
pub(crate) fn rule_of(op: HloOp, attrs: &Attrs) -> Option<Rule> {
    match attrs {
        Attrs::Compare { direction, total_order } => {
            Some(Rule::Compare { direction: *direction, total: *total_order })
        }
        Attrs::ReducePrecision { exponent_bits, mantissa_bits } => {
            Some(Rule::Precision { exponent: *exponent_bits, mantissa: *mantissa_bits })
        }
        _ => (is_elementwise(op) || op == HloOp::StochasticConvert).then_some(Rule::Plain(op)),
    }
}

/// The array of a literal that is no tuple.
pub(crate) fn of_literal(literal: &Literal) -> Option<Tensor> {
    match literal {
        Literal::Array { shape, data } => {
            Some(Tensor::new(shape.ty, usizes(&shape.dims), Data::from_bytes(shape.ty, data)))
        }
        Literal::Tuple(_) => None,
    }
}

/// The value of a literal.
pub(crate) fn value_of_literal(literal: &Literal, meter: &Meter) -> Value {
    match literal {
        Literal::Tuple(parts) => Value::Tuple(parts.iter().map(|p| value_of_literal(p, meter)).collect()),
        array => of_literal(array).map_or(Value::Token, |t| Value::array(t, meter)),
    }
}

/// What a kernel gives: an array, or the elements of a tuple.
pub(crate) enum Computed {
    One(Tensor),
    Several(Vec<Tensor>),
}

/// Results of an operation with one or several arrays.
fn several(tensors: Vec<Tensor>, shape: &Shape, size: impl Fn(usize) -> i64) -> Computed {
    match shape {
        Shape::Tuple(parts) => {
            Computed::Several(tensors.into_iter().zip(parts).map(|(t, s)| sized(t, s, &size)).collect())
        }
        one => {
            let first = tensors.into_iter().next().unwrap_or_else(|| Tensor::zeros(HloType::Pred, vec![0]));
            Computed::One(sized(first, one, size))
        }
    }
}

impl<'m> Machine<'m> {
    /// Computes one instruction that calls no frame of its own.
    pub(crate) fn compute(&mut self, inst: HloInst<'m>, mut args: Vec<Value>) -> Outcome<Value> {
        match inst.op {
            HloOp::Tuple => return Ok(Value::Tuple(args)),
            HloOp::AfterAll => return Ok(Value::Token),
            HloOp::Copy | HloOp::OptimizationBarrier => return Ok(args.pop().unwrap_or_default()),
            _ => {}
        }
        if let Some(value) =
            alone::execute(inst.op, inst.shape(), inst.kept_value("source_target_pairs"), &args, &self.meter)
        {
            return value.ok_or_else(|| self.unsupported_here(inst.op.name()));
        }
        let computed = match rule_of(inst.op, inst.attrs()) {
            Some(rule) => self.elementwise(inst, rule, &args)?.map(Computed::One),
            None => self.kernel(inst, args)?,
        };
        match computed {
            Some(Computed::One(t)) => Ok(Value::array(t, &self.meter)),
            Some(Computed::Several(parts)) => {
                Ok(Value::Tuple(parts.into_iter().map(|t| Value::array(t, &self.meter)).collect()))
            }
            None => Err(self.unsupported_here(inst.op.name())),
        }
    }

    fn elementwise(&mut self, inst: HloInst<'_>, rule: Rule, args: &[Value]) -> Outcome<Option<Tensor>> {
        let tensors: Vec<&Tensor> = args.iter().filter_map(Value::tensor).collect();
        let Some(shape) = inst.shape().array().filter(|_| tensors.len() == args.len()) else {
            return Ok(None);
        };
        let dims = extents_of(inst.shape());
        let n = count(&dims);
        self.work(n as u64)?;
        let stretched: Vec<Cow<'_, Tensor>> = match tensors.as_slice() {
            [a, b] if shape.has_dynamic() => vec![stretched(a, b), stretched(b, a)],
            _ => tensors.iter().map(|t| Cow::Borrowed(*t)).collect(),
        };
        let tensors: Vec<&Tensor> = stretched.iter().map(|t| t.as_ref()).collect();
        let Some(data) = elementwise::apply(rule, &tensors, shape.ty, n) else { return Ok(None) };
        let result = Tensor::new(shape.ty, dims, data);
        if !shape.has_dynamic() {
            return Ok(Some(result));
        }
        let sizes = self.met(inst, &tensors, &result.dims)?;
        Ok(Some(sized(result, inst.shape(), |d| sizes[d])))
    }

    /// The sizes of an elementwise result of these bounds. Of a clamp the last operand decides. Only of two operands is the
    /// one of size 1 stretched; of more, none may end before the result.
    fn met(&self, inst: HloInst<'_>, t: &[&Tensor], bounds: &[usize]) -> Outcome<Vec<i64>> {
        let shapes = self.operand_shapes(inst);
        let mut sizes = Vec::with_capacity(bounds.len());
        for (d, bound) in bounds.iter().enumerate() {
            let own = declared(t, &shapes, d);
            let size = match inst.op {
                HloOp::Clamp => own.last(),
                _ => own.reduce(meet),
            };
            let size = size.unwrap_or(*bound as i64);
            if t.len() != 2 || inst.op == HloOp::Map {
                self.agreeing(d, size, declared(t, &shapes, d))?;
            }
            sizes.push(size);
        }
        Ok(sizes)
    }

    /// The sizes of operands that are read side by side, by the declared shapes: the last dynamic one's, which no other may
    /// fall short of in the dimensions that `kept` names.
    fn beside(&self, inst: HloInst<'_>, t: &[&Tensor], kept: impl Fn(usize) -> bool) -> Outcome<Vec<i64>> {
        let shapes = self.operand_shapes(inst);
        let bounds = t.first().map_or(&[][..], |a| &a.dims);
        let mut sizes = Vec::with_capacity(bounds.len());
        for (d, bound) in bounds.iter().enumerate() {
            let size = declared(t, &shapes, d).last().unwrap_or(*bound as i64);
            if kept(d) {
                self.agreeing(d, size, declared(t, &shapes, d))?;
            }
            sizes.push(size);
        }
        Ok(sizes)
    }

    pub(crate) fn operand_shapes(&self, inst: HloInst<'_>) -> Vec<Option<&'m ArrayShape>> {
        inst.operands().iter().map(|o| self.module.inst(*o).shape().array()).collect()
    }

    pub(crate) fn callee(&mut self, inst: HloInst<'_>, i: usize) -> Option<Callee<'_, 'm>> {
        let region = self.region(*inst.called().get(i)?);
        Some(Callee::new(self, region))
    }

    /// `None`: no kernel computes this form.
    fn kernel(&mut self, inst: HloInst<'m>, mut args: Vec<Value>) -> Outcome<Option<Computed>> {
        use HloOp::*;
        let shape = inst.shape();
        let dims = extents_of(shape);
        let one = |t: Tensor| Some(Computed::One(t));
        self.work(count(&dims) as u64)?;
        // These make their result of their first operand, when nobody else holds it.
        let remade = match inst.op {
            DynamicUpdateSlice | Reshape | DynamicReshape | BitcastConvert | SetDimensionSize => true,
            Scatter => inst.operands().len() == 3,
            _ => false,
        };
        if remade {
            let rest = args.split_off(1);
            let Some(a) = args.pop().and_then(Value::into_tensor) else { return Ok(None) };
            let t: Vec<&Tensor> = rest.iter().filter_map(Value::tensor).collect();
            return self.remake(inst, a, &t);
        }
        let t: Vec<&Tensor> = args.iter().filter_map(Value::tensor).collect();
        if t.len() != args.len() {
            return Ok(None);
        }
        let first = t.first().copied();
        Ok(match (inst.op, inst.attrs(), first) {
            (Iota, Attrs::Iota { dimension }, _) => {
                let Some(ty) = shape.array().map(|a| a.ty) else { return Ok(None) };
                one(sized(movement::iota(ty, &dims, *dimension as usize), shape, |d| dims[d] as i64))
            }
            (Broadcast, Attrs::Dimensions(places), Some(a)) => {
                let size = |d: usize| {
                    let from = places.iter().position(|p| *p as usize == d);
                    from.map_or(dims[d] as i64, |i| a.size(i))
                };
                one(sized(movement::broadcast(a, &dims, places), shape, size))
            }
            (Transpose, Attrs::Dimensions(order), Some(a)) => {
                let order = usizes(order);
                one(sized(movement::transpose(a, &order), shape, |d| a.size(order[d])))
            }
            (Bitcast, _, Some(a)) => match (self.operand_shapes(inst).as_slice(), shape.array()) {
                // The bytes stay where the layouts have them.
                ([Some(from)], Some(to)) if !from.has_dynamic() && !to.has_dynamic() => {
                    let (Some(source), Some(target)) = (from.major_to_minor(), to.major_to_minor()) else {
                        return Ok(None);
                    };
                    let stored = target.iter().map(|d| dims[*d as usize]).collect();
                    let read = movement::bitcast(movement::transpose(a, &usizes(&source)), to.ty, stored);
                    let mut back = vec![0; target.len()];
                    target.iter().enumerate().for_each(|(k, d)| back[*d as usize] = k);
                    one(movement::transpose(&read, &back))
                }
                _ => return Ok(None),
            },
            (Reverse, Attrs::Dimensions(list), Some(a)) => {
                one(sized(movement::reverse(&a.cut(), list), shape, |d| a.size(d)))
            }
            (Slice, Attrs::Slice { start, stride, .. }, Some(a)) => {
                // The limit does not count, as in XLA.
                let size = |d: usize| {
                    let rest = a.size(d).saturating_sub(start[d]);
                    if stride[d] == 1 { rest } else { rest.saturating_add(stride[d] - 1) / stride[d].max(1) }
                };
                let dynamic = |d: &usize| shape.array().is_some_and(|s| s.is_dynamic(*d));
                for d in (0..dims.len()).filter(|d| start[*d] > 0 && dynamic(d)) {
                    self.legal_size(d, size(d), i64::MAX, dims[d])?;
                }
                one(sized(movement::slice(a, &dims, &usizes(start), &usizes(stride)), shape, size))
            }
            (Pad, Attrs::Pad { low, high, interior }, Some(a)) => {
                let size = |d: usize| {
                    let n = a.size(d);
                    n.saturating_add((n - 1).max(0).saturating_mul(interior[d]))
                        .saturating_add(low[d])
                        .saturating_add(high[d])
                };
                let dynamic = |d: &usize| shape.array().is_some_and(|s| s.is_dynamic(*d));
                for d in (0..dims.len()).filter(|d| low[*d] + high[*d] < 0 && dynamic(d)) {
                    self.legal_size(d, size(d), i64::MAX, dims[d])?;
                }
                one(sized(movement::pad(&a.cut(), t[1], low, high, interior), shape, size))
            }
            (Concatenate, Attrs::Dimensions(list), Some(_)) => {
                let along = list.first().map_or(0, |d| *d as usize);
                let others = self.beside(inst, &t, |d| d != along)?;
                let parts: Vec<Cow<'_, Tensor>> = t
                    .iter()
                    .map(|p| {
                        let cut = |(d, b): (usize, &usize)| match d == along {
                            true => p.extents()[d],
                            false => others[d].clamp(0, *b as i64) as usize,
                        };
                        p.cut_to(&p.dims.iter().enumerate().map(cut).collect::<Vec<_>>())
                    })
                    .collect();
                let joined: usize = parts.iter().map(|p| p.dims[along]).sum();
                let size = |d: usize| if d == along { joined as i64 } else { others[d] };
                movement::concatenate(&parts, along).and_then(|c| one(sized(c, shape, size)))
            }
            (GetDimensionSize, Attrs::Dimensions(list), Some(a)) => {
                let d = list.first().map_or(0, |d| *d as usize);
                one(Tensor::scalar(HloType::S32, Scalar::Int(a.size(d))))
            }
            (DynamicSlice, Attrs::DynamicSlice { sizes }, Some(a)) => {
                one(sized(indexed::dynamic_slice(a, &t[1..], &usizes(sizes)), shape, |d| a.size(d)))
            }
            (Gather, Attrs::Gather(g), Some(a)) => {
                let cut = t[1].cut();
                let result = indexed::gather(a, &cut, g);
                let mut own: Vec<i64> = result.dims.iter().map(|d| *d as i64).collect();
                // A dimension that is taken whole keeps its size.
                let dropped =
                    |d: &i64| g.collapsed_slice_dims.contains(d) || g.operand_batching_dims.contains(d);
                let windows = (0..a.dims.len() as i64).filter(|d| !dropped(d));
                for (d, to) in windows.zip(&g.offset_dims) {
                    if g.slice_sizes[d as usize] == a.dims[d as usize] as i64 {
                        own[*to as usize] = a.size(d as usize);
                    }
                }
                one(sized(result, shape, |d| own[d]))
            }
            (Scatter, Attrs::Scatter { dims: s, .. }, Some(_)) => {
                let n = t.len() / 2;
                let mut arrays: Vec<Tensor> =
                    t[..n].iter().map(|a| Tensor { sizes: None, ..(*a).clone() }).collect();
                let (indices, updates) = indexed::live_updates(t[n], &t[n + 1..], s);
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                indexed::scatter(&mut callee, &mut arrays, &indices, &updates, s)?;
                Some(several(arrays, shape, |d| t[0].size(d)))
            }
            (Dot, Attrs::Dot(d), Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let shapes = self.operand_shapes(inst);
                let dynamic = |k: usize, d: i64| shapes[k].is_some_and(|s| s.is_dynamic(d as usize));
                for (k, (i, j)) in d.lhs_batch.iter().zip(&d.rhs_batch).enumerate() {
                    if dynamic(0, *i) && dynamic(1, *j) {
                        self.agreeing(k, t[1].size(*j as usize), [a.size(*i as usize)])?;
                    }
                }
                let (mut left, mut right) = (a.extents(), t[1].extents());
                let pairs = d.lhs_batch.iter().zip(&d.rhs_batch);
                for (i, j) in pairs.chain(d.lhs_contracting.iter().zip(&d.rhs_contracting)) {
                    let n = left[*i as usize].min(right[*j as usize]);
                    (left[*i as usize], right[*j as usize]) = (n, n);
                }
                self.work(contract::dot_work(a, t[1], d))?;
                let result = contract::dot(&a.cut_to(&left), &t[1].cut_to(&right), d, ty);
                let own: Vec<i64> = result.dims.iter().map(|d| *d as i64).collect();
                one(sized(result, shape, |d| own[d]))
            }
            (Convolution, Attrs::Convolution { window, dims: c, feature_groups, batch_groups }, Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let batch = c.input_batch as usize;
                // Features behind a size count nothing; other dimensions of windows and kernels have no rule.
                let feature = |k: usize, d: usize| d as i64 == [c.input_feature, c.kernel_input_feature][k];
                let zero = Tensor::scalar(a.ty, Scalar::zero(a.ty));
                let (x, kernel) =
                    (behind(a, &zero, |d| feature(0, d)), behind(t[1], &zero, |d| feature(1, d)));
                let still = |t: &Tensor, k: usize| {
                    (0..t.dims.len())
                        .any(|d| t.extents()[d] != t.dims[d] && !feature(k, d) && (k, d) != (0, batch))
                };
                if still(a, 0) || still(t[1], 1) {
                    return Ok(None);
                }
                self.work(contract::convolution_work(t[1], &dims, c))?;
                let groups = (*feature_groups as usize, *batch_groups as usize);
                let result = contract::convolution(&x, &kernel, window, c, groups, ty);
                one(sized(result, shape, |d| {
                    if d == c.output_batch as usize { a.size(batch) } else { dims[d] as i64 }
                }))
            }
            (Reduce, Attrs::Dimensions(list), Some(a)) => {
                let (arrays, inits) = filled(&t);
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = fold::reduce(&mut callee, &arrays, &inits, list)?;
                let kept: Vec<usize> = (0..a.dims.len()).filter(|d| !list.contains(&(*d as i64))).collect();
                let sizes = self.beside(inst, &t[..t.len() / 2], |d| kept.contains(&d))?;
                Some(several(result, shape, |d| kept.get(d).map_or(0, |k| sizes[*k])))
            }
            (ReduceWindow, Attrs::Window(window), Some(_)) => {
                let (arrays, inits) = filled(&t);
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = fold::reduce_window(&mut callee, &arrays, &inits, window)?;
                let sizes = self.beside(inst, &t[..t.len() / 2], |_| true)?;
                // XLA counts windows without the padding, whatever the window declares.
                let size = |d: usize| {
                    let w = &window[d];
                    let edges = w.pad_low == 0 && w.pad_high == 0;
                    let trivial = w.size == 1 && w.stride == 1 && edges && w.base_dilation == 1;
                    let reach = (w.size - 1) * w.window_dilation + 1;
                    if trivial { sizes[d] } else { (sizes[d] + w.stride - reach) / w.stride.max(1) }
                };
                Some(several(result, shape, size))
            }
            (SelectAndScatter, Attrs::Window(window), Some(a)) => {
                let wide = |d: usize| window[d].size != 1;
                let (x, source) = (behind(a, &lowest(a.ty), wide), behind(t[1], t[2], wide));
                let Some(mut select) = self.callee(inst, 0) else { return Ok(None) };
                let chosen = fold::select(&mut select, &x, window)?;
                let Some(mut scatter) = self.callee(inst, 1) else { return Ok(None) };
                let result = fold::scatter_chosen(&mut scatter, &chosen, &x, &source, t[2].first())?;
                one(sized(result, shape, |d| a.size(d)))
            }
            (Sort, Attrs::Sort { dimension, .. }, Some(a)) => {
                let along = *dimension as usize;
                let shapes = self.operand_shapes(inst);
                let size = declared(&t, &shapes, along).next().unwrap_or(a.dims[along] as i64);
                self.agreeing(along, size, declared(&t, &shapes, along))?;
                self.agreeing(along, declared(&t, &shapes, along).max().unwrap_or(size), [size])?;
                let mut live = a.dims.clone();
                live[along] = size.clamp(0, live[along] as i64) as usize;
                let arrays: Vec<Cow<'_, Tensor>> = t.iter().map(|x| x.cut_to(&live)).collect();
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = order::sort(&mut callee, &arrays, along)?;
                // What lies behind the size stays where it is.
                let whole = |(sorted, x): (Tensor, &&Tensor)| {
                    let mut data = x.data.clone();
                    data.put(&live, &Places::whole(&x.dims), &sorted.data, &Places::whole(&live));
                    Tensor { ty: x.ty, dims: x.dims.clone(), sizes: x.sizes.clone(), data }
                };
                let result: Vec<Tensor> = match live == a.dims {
                    true => result
                        .into_iter()
                        .zip(&t)
                        .map(|(r, x)| Tensor { sizes: x.sizes.clone(), ..r })
                        .collect(),
                    false => result.into_iter().zip(&t).map(whole).collect(),
                };
                Some(match shape {
                    Shape::Tuple(_) => Computed::Several(result),
                    _ => match result.into_iter().next() {
                        Some(only) => Computed::One(only),
                        None => return Ok(None),
                    },
                })
            }
            (Map, _, Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let mut values = Vec::with_capacity(a.data.len());
                let mut elements = Vec::with_capacity(t.len());
                for i in 0..a.data.len() {
                    elements.clear();
                    elements.extend(t.iter().map(|x| x.get(i)));
                    values.push(callee.call_one(&elements)?);
                }
                let sizes = self.met(inst, &t, &a.dims)?;
                one(sized(super::tensor::of_scalars(ty, a.dims.clone(), &values), shape, |d| sizes[d]))
            }
            (TopK, Attrs::TopK { k, largest }, Some(a)) => {
                let last = a.dims.len().saturating_sub(1);
                if a.is_cut() && a.extents()[last] != a.dims[last] {
                    return Ok(None);
                }
                let (values, indices) = order::topk(a, *k as usize, *largest);
                Some(several(vec![values, indices], shape, |d| a.size(d)))
            }
            (
                BatchNormTraining | BatchNormInference | BatchNormGrad,
                Attrs::BatchNorm { epsilon, feature_index },
                Some(a),
            ) => {
                let live: Vec<Cow<'_, Tensor>> = t.iter().map(|x| x.cut()).collect();
                let live: Vec<&Tensor> = live.iter().map(|x| x.as_ref()).collect();
                let feature = *feature_index as usize;
                let result = normalize::batch_norm(
                    inst.op,
                    &live,
                    f64::from(f32::from_bits(*epsilon)),
                    *feature_index as usize,
                );
                // The vectors of a result have the feature dimension only.
                let bounds = |s: &Shape| s.array().map_or(0, |s| s.rank());
                result.map(|r| match shape {
                    Shape::Tuple(parts) => {
                        let one = |(t, s): (Tensor, &Shape)| match bounds(s) {
                            1 if a.dims.len() != 1 => sized(t, s, |_| a.size(feature)),
                            _ => sized(t, s, |d| a.size(d)),
                        };
                        Computed::Several(r.into_iter().zip(parts).map(one).collect())
                    }
                    _ => several(r, shape, |d| a.size(d)),
                })
            }
            (RngBitGenerator, Attrs::Rng { algorithm }, Some(a)) => {
                let Shape::Tuple(parts) = shape else { return Ok(None) };
                let Some(bits) = parts.get(1).and_then(|p| p.array()) else { return Ok(None) };
                self.work(bits.elements().saturating_mul(RANDOM_WORK))?;
                let state: Vec<u64> = lanes::all::<i64>(a).into_iter().map(|w| w as u64).collect();
                let dims = usizes(&bits.dims);
                let (values, next) = random::bits(*algorithm, &state, bits.ty.bits(), &dims);
                let tensor = |ty, dims, words: Vec<u64>| {
                    lanes::tensor(ty, dims, &words.into_iter().map(|w| w as i64).collect::<Vec<_>>())
                };
                // Of a float type the bits are made, not the numbers.
                let carrier = match bits.ty.bytes() {
                    _ if bits.ty.is_int() => bits.ty,
                    2 => HloType::U16,
                    4 => HloType::U32,
                    8 => HloType::U64,
                    _ => HloType::U8,
                };
                let value = movement::bitcast(tensor(carrier, dims.clone(), values), bits.ty, dims);
                Some(Computed::Several(vec![tensor(HloType::U64, a.dims.clone(), next), value]))
            }
            (Cholesky, Attrs::Cholesky { lower }, Some(a)) if !a.is_cut() => {
                self.work(custom::work(&t))?;
                custom::cholesky(a, *lower).map(Computed::One)
            }
            (
                TriangularSolve,
                Attrs::TriangularSolve { left_side, lower, unit_diagonal, transpose_a },
                Some(a),
            ) if t.iter().all(|x| !x.is_cut()) => {
                self.work(custom::work(&t))?;
                let how = Triangle {
                    left: *left_side,
                    lower: *lower,
                    unit: *unit_diagonal,
                    transposed: *transpose_a >= 2,
                    conjugated: *transpose_a == 3,
                };
                custom::triangular_solve(a, t[1], how).map(Computed::One)
            }
            (Fft, _, Some(a)) if !a.is_cut() => {
                let kind = inst.kept_value("fft_type").and_then(|name| Transform::named(name.trim()));
                let lengths: Option<Vec<usize>> = inst.kept_value("fft_length").and_then(|text| {
                    text.trim_matches(['{', '}', ' ']).split(',').map(|n| n.trim().parse().ok()).collect()
                });
                let (Some(kind), Some(lengths), Some(result)) = (kind, lengths, shape.array()) else {
                    return Ok(None);
                };
                self.work(fft_work(count(&a.dims) as u64, &lengths))?;
                fft(a, kind, &lengths, result.ty).filter(|t| t.dims == dims).map(Computed::One)
            }
            (CustomCall, Attrs::CustomCall { target, .. }, Some(a)) if target == "PadToStatic" => {
                let size = |d| Tensor::scalar(HloType::S32, Scalar::Int(a.size(d)));
                let data = Tensor { sizes: None, ..a.clone() };
                let parts = std::iter::once(data).chain((0..a.dims.len()).map(size));
                Some(Computed::Several(parts.collect()))
            }
            (CustomCall, Attrs::CustomCall { target, .. }, Some(a)) if target == "SliceToDynamic" => {
                if t.len() != a.dims.len() + 1 {
                    return Ok(None);
                }
                let size = |d: usize| t[d + 1].first().int();
                for (d, bound) in a.dims.iter().enumerate() {
                    self.legal_size(d, size(d), *bound as i64, *bound)?;
                }
                one(sized(Tensor { sizes: None, ..(*a).clone() }, shape, size))
            }
            (CustomCall, Attrs::CustomCall { target, .. }, Some(a))
                if ANNOTATIONS.contains(&target.as_str()) && extents_of(shape) == a.dims =>
            {
                one((*a).clone())
            }
            (CustomCall, Attrs::CustomCall { target, config }, _) => {
                self.work(custom::work(&t))?;
                if t.iter().any(|x| x.is_cut()) {
                    return Err(self.unsupported_here(&format!("custom-call to \"{target}\"")));
                }
                let results: Vec<_> = shape.leaves().iter().filter_map(|s| s.array()).collect();
                let results: Vec<_> = results.iter().map(|a| (a.ty, usizes(&a.dims))).collect();
                let call = custom::CustomCall { target, config, operands: &t, results: &results };
                match call.run() {
                    Some(out) => Some(several(out, shape, |_| 0)),
                    None => return Err(self.unsupported_here(&format!("custom-call to \"{target}\""))),
                }
            }
            _ => None,
        })
    }
}
