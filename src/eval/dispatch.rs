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
use super::tensor::{Data, Meter, Scalar, Tensor, Value};
use super::{Outcome, alone, contract, custom, elementwise, fold, indexed, is_elementwise, lanes, movement};
use super::{normalize, order, random};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp, Literal, Shape};
use std::borrow::Cow;

/// Elementary operations that a random word takes.
const RANDOM_WORK: u64 = 16;

fn usizes(values: &[i64]) -> Vec<usize> {
    values.iter().map(|v| (*v).max(0) as usize).collect()
}

/// The extents of a shape's array.
fn extents_of(shape: &Shape) -> Vec<usize> {
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

/// The result at the bounds of `shape`, with sizes where `shape` has dynamic dimensions.
fn sized(t: Tensor, shape: &Shape, size: impl Fn(usize) -> i64) -> Tensor {
    let bounds = extents_of(shape);
    let sizes = shape.array().filter(|a| a.has_dynamic()).map(|a| {
        (0..bounds.len()).map(|d| if a.is_dynamic(d) { size(d) } else { bounds[d] as i64 }).collect()
    });
    t.grow(&bounds, sizes)
}

/// What a kernel gives: an array, or the elements of a tuple.
enum Computed {
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
        // Two sizes: 1 stretches to the other, otherwise the smaller one holds. Of a clamp the last operand decides.
        let shapes: Vec<_> = inst.operands().iter().map(|o| self.module.inst(*o).shape().array()).collect();
        let bounds = result.dims.clone();
        let size = |d: usize| {
            let own = tensors.iter().zip(&shapes).filter(|(_, s)| s.is_some_and(|s| s.is_dynamic(d)));
            let own = own.map(|(t, _)| t.size(d));
            let meet = |a: i64, b: i64| {
                if inst.op == HloOp::Clamp {
                    b
                } else if a.min(b) == 1 {
                    a.max(b)
                } else {
                    a.min(b)
                }
            };
            own.reduce(meet).unwrap_or(bounds[d] as i64)
        };
        Ok(Some(sized(result, inst.shape(), size)))
    }

    fn callee(&mut self, inst: HloInst<'_>, i: usize) -> Option<Callee<'_, 'm>> {
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
            (Reverse, Attrs::Dimensions(list), Some(a)) => {
                one(sized(movement::reverse(&a.cut(), list), shape, |d| a.size(d)))
            }
            (Slice, Attrs::Slice { start, stride, .. }, Some(a)) => {
                // The limit does not count, as in XLA.
                let size = |d: usize| {
                    let rest = a.size(d).saturating_sub(start[d]);
                    if stride[d] == 1 { rest } else { rest.saturating_add(stride[d] - 1) / stride[d].max(1) }
                };
                one(sized(movement::slice(a, &dims, &usizes(start), &usizes(stride)), shape, size))
            }
            (Pad, Attrs::Pad { low, high, interior }, Some(a)) => {
                let size = |d: usize| {
                    let n = a.size(d);
                    n.saturating_add((n - 1).max(0).saturating_mul(interior[d]))
                        .saturating_add(low[d])
                        .saturating_add(high[d])
                };
                one(sized(movement::pad(&a.cut(), t[1], low, high, interior), shape, size))
            }
            (Concatenate, Attrs::Dimensions(list), Some(a)) => {
                let along = list.first().map_or(0, |d| *d as usize);
                // Other dimensions follow the first operand's size.
                let others: Vec<usize> = a.extents();
                let parts: Vec<Cow<'_, Tensor>> = t
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
                let updates: Vec<Cow<'_, Tensor>> = t[n + 1..].iter().map(|u| u.cut()).collect();
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                indexed::scatter(&mut callee, &mut arrays, &t[n].cut(), &updates, s)?;
                Some(several(arrays, shape, |d| t[0].size(d)))
            }
            (Dot, Attrs::Dot(d), Some(a)) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
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
                let spatial = (0..a.dims.len()).any(|d| d != batch && a.extents()[d] != a.dims[d]);
                if spatial || t[1].is_cut() {
                    return Ok(None);
                }
                self.work(contract::convolution_work(t[1], &dims, c))?;
                let groups = (*feature_groups as usize, *batch_groups as usize);
                let result = contract::convolution(a, t[1], window, c, groups, ty);
                one(sized(result, shape, |d| {
                    if d == c.output_batch as usize { a.size(batch) } else { dims[d] as i64 }
                }))
            }
            (Reduce, Attrs::Dimensions(list), Some(a)) => {
                let (arrays, inits) = filled(&t);
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = fold::reduce(&mut callee, &arrays, &inits, list)?;
                let kept: Vec<usize> = (0..a.dims.len()).filter(|d| !list.contains(&(*d as i64))).collect();
                Some(several(result, shape, |d| kept.get(d).map_or(0, |k| a.size(*k))))
            }
            (ReduceWindow, Attrs::Window(window), Some(a)) => {
                let (arrays, inits) = filled(&t);
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = fold::reduce_window(&mut callee, &arrays, &inits, window)?;
                // XLA counts windows without the padding, whatever the window declares.
                let size = |d: usize| {
                    let w = &window[d];
                    let trivial = w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0;
                    let reach = (w.size - 1) * w.window_dilation + 1;
                    if trivial { a.size(d) } else { (a.size(d) + w.stride - reach) / w.stride.max(1) }
                };
                Some(several(result, shape, size))
            }
            (SelectAndScatter, Attrs::Window(window), Some(a)) if !a.is_cut() => {
                let Some(mut select) = self.callee(inst, 0) else { return Ok(None) };
                let chosen = fold::select(&mut select, a, window)?;
                let Some(mut scatter) = self.callee(inst, 1) else { return Ok(None) };
                let result = fold::scatter_chosen(&mut scatter, &chosen, a, t[1], t[2].first())?;
                one(sized(result, shape, |d| a.size(d)))
            }
            (Sort, Attrs::Sort { dimension, .. }, Some(a)) => {
                let extents = a.extents();
                let arrays: Vec<Cow<'_, Tensor>> = t.iter().map(|x| x.cut_to(&extents)).collect();
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                let result = order::sort(&mut callee, &arrays, *dimension as usize)?;
                Some(several(result, shape, |d| a.size(d)))
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
                one(sized(super::tensor::of_scalars(ty, a.dims.clone(), &values), shape, |d| a.size(d)))
            }
            (TopK, Attrs::TopK { k, largest }, Some(a)) => {
                let (values, indices) = order::topk(a, *k as usize, *largest);
                Some(several(vec![values, indices], shape, |d| a.size(d)))
            }
            (
                BatchNormTraining | BatchNormInference | BatchNormGrad,
                Attrs::BatchNorm { epsilon, feature_index },
                Some(a),
            ) if a.sizes.is_none() => {
                let result = normalize::batch_norm(
                    inst.op,
                    &t,
                    f64::from(f32::from_bits(*epsilon)),
                    *feature_index as usize,
                );
                result.map(|r| several(r, shape, |_| 0))
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
            (CustomCall, Attrs::CustomCall { target, config }, _) => {
                self.work(custom::work(&t))?;
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

    /// Operations that keep (most of) their first operand's elements.
    fn remake(&mut self, inst: HloInst<'_>, mut a: Tensor, t: &[&Tensor]) -> Outcome<Option<Computed>> {
        let shape = inst.shape();
        Ok(match (inst.op, inst.attrs()) {
            (HloOp::DynamicUpdateSlice, _) => {
                let [update, offsets @ ..] = t else { return Ok(None) };
                if update.is_cut() {
                    // Behind the update's size stays what was there; a dimension that is replaced whole takes its size.
                    let full = |d: usize| update.dims[d] == a.dims[d];
                    let live = update.extents();
                    let live: Vec<usize> =
                        (0..live.len()).map(|d| if full(d) { update.dims[d] } else { live[d] }).collect();
                    let mut part = indexed::dynamic_slice(&a, offsets, &update.dims);
                    let places = Places::whole(&update.dims);
                    part.data.put(&live, &places, &update.data, &places);
                    let sizes: Vec<i64> =
                        (0..a.dims.len()).map(|d| if full(d) { update.size(d) } else { a.size(d) }).collect();
                    indexed::dynamic_update_slice(&mut a, &part, offsets);
                    Some(sized(Tensor { sizes: None, ..a }, shape, |d| sizes[d]))
                } else {
                    indexed::dynamic_update_slice(&mut a, update, offsets);
                    Some(a)
                }
            }
            (HloOp::Reshape, _) => reshape(a, shape),
            (HloOp::DynamicReshape, _) => {
                let sizes: Vec<i64> = t.iter().map(|s| s.first().int()).collect();
                // XLA reshapes the whole buffers and records the sizes; it does not repack the part in use.
                let whole = Tensor::new(a.ty, extents_of(shape), a.data);
                Some(sized(whole, shape, |d| sizes.get(d).copied().unwrap_or(0)))
            }
            (HloOp::BitcastConvert, _) => {
                let Some(ty) = shape.array().map(|s| s.ty) else { return Ok(None) };
                let sizes: Vec<i64> = (0..a.dims.len()).map(|d| a.size(d)).collect();
                let cast = movement::bitcast(a, ty, extents_of(shape));
                Some(sized(cast, shape, |d| sizes.get(d).copied().unwrap_or(0)))
            }
            (HloOp::SetDimensionSize, Attrs::Dimensions(list)) => {
                let set = list.first().map_or(0, |d| *d as usize);
                let n = t.first().map_or(0, |n| n.first().int());
                let sizes: Vec<i64> =
                    (0..a.dims.len()).map(|d| if d == set { n } else { a.size(d) }).collect();
                Some(sized(Tensor { sizes: None, ..a }, shape, |d| sizes[d]))
            }
            (HloOp::Scatter, Attrs::Scatter { dims: s, .. }) => {
                let [indices, update] = t else { return Ok(None) };
                let sizes = a.sizes.take();
                let dims = a.dims.clone();
                let mut arrays = vec![a];
                let Some(mut callee) = self.callee(inst, 0) else { return Ok(None) };
                indexed::scatter(&mut callee, &mut arrays, &indices.cut(), &[update.cut()], s)?;
                let size = |d: usize| sizes.as_ref().map_or(dims[d] as i64, |s| s[d]);
                arrays.pop().map(|a| sized(a, shape, size))
            }
            _ => None,
        }
        .map(Computed::One))
    }
}

/// The arrays and the initial values of a reduction. Behind an array's size stands its initial value, which is folded in
/// once more for each such element, as in XLA.
fn filled<'a>(t: &[&'a Tensor]) -> (Vec<Cow<'a, Tensor>>, Vec<Scalar>) {
    let (arrays, inits) = t.split_at(t.len() / 2);
    let fill = |(a, init): (&&'a Tensor, &&'a Tensor)| {
        if !a.is_cut() {
            return a.cut();
        }
        let (cut, none) = (a.cut(), vec![0; a.dims.len()]);
        let high: Vec<i64> = a.dims.iter().zip(&cut.dims).map(|(b, n)| (*b - *n) as i64).collect();
        Cow::Owned(movement::pad(&cut, init, &none, &high, &none))
    };
    (arrays.iter().zip(inits).map(fill).collect(), inits.iter().map(|i| i.first()).collect())
}

/// `a` with its one row repeated in each dimension in which it has size 1 and `other` more.
fn stretched<'a>(a: &'a Tensor, other: &Tensor) -> Cow<'a, Tensor> {
    let mut out = Cow::Borrowed(a);
    if a.dims != other.dims || a.sizes.is_none() || other.sizes.is_none() {
        return out;
    }
    for d in 0..a.dims.len() {
        if a.size(d) != 1 || other.size(d) <= 1 {
            continue;
        }
        let (mut row, none, step) = (a.dims.clone(), vec![0; a.dims.len()], vec![1; a.dims.len()]);
        row[d] = 1;
        let one = movement::slice(&out, &row, &none, &step);
        row.remove(d);
        let places: Vec<i64> = (0..a.dims.len() as i64).filter(|k| *k != d as i64).collect();
        let wide = movement::broadcast(&Tensor::new(a.ty, row, one.data), &a.dims, &places);
        out = Cow::Owned(Tensor { sizes: a.sizes.clone(), ..wide });
    }
    out
}

/// The elements of `a` in order, as an array of these run-time sizes.
fn refill(a: Tensor, shape: &Shape, sizes: &[i64]) -> Tensor {
    let bounds = extents_of(shape);
    let extents = sizes.iter().zip(&bounds).map(|(s, b)| (*s).clamp(0, *b as i64) as usize).collect();
    sized(movement::refill(a, extents), shape, |d| sizes[d])
}

/// Row-major reshape. Run-time sizes carry over where the dimensions stay, or where one dynamic dimension takes them all.
fn reshape(a: Tensor, shape: &Shape) -> Option<Tensor> {
    let to = shape.array()?;
    let bounds = extents_of(shape);
    let mut sizes: Vec<i64> = bounds.iter().map(|d| *d as i64).collect();
    if a.sizes.is_none() {
        return Some(refill(a, shape, &sizes));
    }
    if !to.has_dynamic() {
        return Some(refill(a.cut().into_owned(), shape, &sizes));
    }
    let dynamic: Vec<usize> = (0..bounds.len()).filter(|d| to.is_dynamic(*d)).collect();
    if let [one] = dynamic.as_slice() {
        let total: i64 = (0..a.dims.len()).map(|d| a.size(d)).fold(1, i64::saturating_mul);
        let rest: i64 = (0..bounds.len()).filter(|d| d != one).map(|d| bounds[d] as i64).product();
        sizes[*one] = if rest == 0 { bounds[*one] as i64 } else { total / rest };
        return Some(refill(a.cut().into_owned(), shape, &sizes));
    }
    // Dimensions of extent 1 may come and go between the others.
    let long = |dims: &[usize]| (0..dims.len()).filter(|d| dims[*d] != 1).collect::<Vec<_>>();
    let (from, into) = (long(&a.dims), long(&bounds));
    let same = from.len() == into.len() && from.iter().zip(&into).all(|(i, j)| a.dims[*i] == bounds[*j]);
    if !same {
        return None;
    }
    from.iter().zip(&into).for_each(|(i, j)| sizes[*j] = a.size(*i));
    Some(refill(a.cut().into_owned(), shape, &sizes))
}
