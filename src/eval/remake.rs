//! Operations that keep (most of) their first operand's elements, and make their result of it where nobody else holds it:
//! updates, reshapes, casts of bits, and the setting of a size. In: the instruction, its first operand by value, the
//! others. Out: the result with its run-time sizes. Facts: `spec/hlo.md 7`, `8`, `spec/dynamic_shapes.md 5.6`, `5.7`.

use super::dispatch::{Computed, extents_of};
use super::machine::Machine;
use super::places::Places;
use super::sizes::{reshape, sized};
use super::tensor::Tensor;
use super::{Outcome, indexed, movement};
use murre_components::hlo::{Attrs, HloInst, HloOp};

impl Machine<'_> {
    /// Operations that keep (most of) their first operand's elements.
    pub(crate) fn remake(
        &mut self,
        inst: HloInst<'_>,
        mut a: Tensor,
        t: &[&Tensor],
    ) -> Outcome<Option<Computed>> {
        let shape = inst.shape();
        Ok(match (inst.op, inst.attrs()) {
            (HloOp::DynamicUpdateSlice, _) => {
                let [update, offsets @ ..] = t else { return Ok(None) };
                if update.sizes.is_some() {
                    // Behind the update's size stays what was there; a dimension that is replaced whole takes its size.
                    let full = |d: usize| update.dims[d] == a.dims[d];
                    let live = update.extents();
                    let live: Vec<usize> =
                        (0..live.len()).map(|d| if full(d) { update.dims[d] } else { live[d] }).collect();
                    let mut part = indexed::dynamic_slice(&a, offsets, &update.dims);
                    let places = Places::whole(&update.dims);
                    part.data.put(&live, &places, &update.data, &places);
                    let shape_of_part = self.operand_shapes(inst).get(1).copied().flatten();
                    let own = |d: usize| full(d) && shape_of_part.is_some_and(|s| s.is_dynamic(d));
                    let sizes: Vec<i64> =
                        (0..a.dims.len()).map(|d| if own(d) { update.size(d) } else { a.size(d) }).collect();
                    indexed::dynamic_update_slice(&mut a, &part, offsets);
                    Some(sized(Tensor { sizes: None, ..a }, shape, |d| sizes[d]))
                } else {
                    indexed::dynamic_update_slice(&mut a, update, offsets);
                    Some(a)
                }
            }
            (HloOp::Reshape, _) => {
                let inferred = inst.kept_value("inferred_dimension").and_then(|t| t.trim().parse().ok());
                reshape(a, shape, None, inferred)
            }
            (HloOp::DynamicReshape, _) => {
                let bounds = extents_of(shape);
                let mut sizes = Vec::with_capacity(bounds.len());
                for (d, bound) in bounds.iter().enumerate() {
                    let given = t.get(d).filter(|_| shape.array().is_some_and(|s| s.is_dynamic(d)));
                    let size = given.map_or(*bound as i64, |n| n.first().int());
                    sizes.push(self.legal_size(d, size, *bound as i64, *bound)?);
                }
                reshape(a, shape, Some(&sizes), None)
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
                let bound = a.dims.get(set).copied().unwrap_or(0);
                self.legal_size(set, n, bound as i64, bound)?;
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
                let (indices, updates) = indexed::live_updates(indices, &[update], s);
                indexed::scatter(&mut callee, &mut arrays, &indices, &updates, s)?;
                let size = |d: usize| sizes.as_ref().map_or(dims[d] as i64, |s| s[d]);
                arrays.pop().map(|a| sized(a, shape, size))
            }
            _ => None,
        }
        .map(Computed::One))
    }
}
