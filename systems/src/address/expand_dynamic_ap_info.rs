//! `expand_dynamic_ap_info`: the run-time offset of a dynamic DMA as register arithmetic in front of it.
//!
//! In: dynamic DMAs with `DynamicApInfo` over registers of their engine. Out: the byte offset `c + sum(coef * index)` in
//! one register and the variable's size in another, both on the instruction (`regs.src0`, `regs.src1`); the ids of index
//! arguments dense. Offsets turn from elements to bytes here and only here. What an instruction's operands have in common
//! is computed once: an index that is more than a register, and a product of an index.
//!
//! A variable of 2 GiB or more takes the wide form: sum, product and bound are register pairs. A product is below 2^32, as
//! the variable is, so its low half is a 32-bit multiplication into a pair that was zeroed.
//!
//! ```text
//! DMACopy L4[c + 8*r3] = L1     ->  mov off, 4*c ; mult t, r3, 32 ; add off, off, t ; mov bound, 4*n ; DMACopy [off]
//! the same, L4 of 2 GiB         ->  mov64 off, 4*c ; mov64 t, 0 ; mult t.lo, r3, 32 ; add64 off, off, t ; mov64 bound ...
//! ```
//!
//! Facts: `spec/ir.md 5.5`, `spec/isa.md 4.2, 4.3, 5.3`, D9, D11, D14, D17.

use super::affine::{AffineFault, index_register, lower_affine_expr};
use super::walk::{Walk, op};
use crate::options::{CompileOptions, IndexNumbering};
use crate::staging::Staging;
use arrayvec::ArrayVec;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::{ADDRESS_OPERATOR, DYNAMIC_DMA};
use murre_components::diag::{Code, Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// Variables from this size on need offsets in register pairs.
pub const WIDE_BYTES: u64 = 1 << 31;

/// Code and words of a refusal.
type Fault = (Code, String);

/// What an expanded pattern gets.
struct Expanded {
    inst: InstId,
    ap: ApId,
    sum: RegId,
    bound: RegId,
}

/// The pass.
pub fn expand_dynamic_ap_info(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstFrom)>,
    aps: &mut QueryState<&ApHead>,
    all_locs: &mut QueryState<&LocHead>,
    axis_regs: &mut QueryState<&AxisRegs>,
    reg_heads: &mut QueryState<&RegHead>,
    regs_mut: &mut QueryState<&mut InstRegs>,
    aps_mut: &mut QueryState<&mut ApHead>,
) {
    if world.resource::<Payloads>().0.is_empty() {
        return;
    }
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    // The sum and the bound of each.
    let payloads = world.resource::<Payloads>().0.len();
    walk.staging.insts.reserve(2 * payloads);
    walk.staging.regs.reserve(2 * payloads);
    let mut done: Vec<Expanded> = Vec::new();
    let mut renumbered: Vec<(PayloadKey, i32)> = Vec::new();
    {
        let (heads, operands, from) = crate::columns!(insts, world);
        let ap_heads = crate::columns!(aps, world);
        let locs = crate::columns!(all_locs, world);
        let payloads = world.resource::<Payloads>();
        let diagnostics = world.resource::<Diagnostics>();
        let numbering = world.resource::<CompileOptions>().index_numbering;
        let regs = crate::columns!(reg_heads, world);
        let axes = crate::columns!(axis_regs, world);
        let mut expand = Expand {
            walk: &mut walk,
            exprs: world.resource::<Exprs>(),
            axes,
            regs,
            engine: EngineId::All,
            from: InstFrom::default(),
            id: InstId::NONE,
            loc: LocId::NONE,
            indices: Vec::new(),
            products: Vec::new(),
        };
        for &id in &order.0 {
            let head = heads[id.index()];
            if head.flags & InstHead::DYNAMIC == 0 {
                expand.walk.order.push(id);
                continue;
            }
            let from = from[id.index()];
            let infos = operands[id.index()]
                .range()
                .filter_map(|ap| Some((ap, payloads.dynamic(ap_heads[ap].dynamic.payload)?)));
            renumber(
                infos.clone().map(|(ap, i)| (ap_heads[ap].dynamic.payload, i)),
                numbering,
                &mut renumbered,
            );
            expand.begin(id, head.engine, from);
            for (ap, info) in infos.filter(|(_, i)| i.kind == OffsetKind::Scalar) {
                let fault: Fault = if head.op.is_dma() {
                    expand.loc = ap_heads[ap].loc;
                    let size = locs[expand.loc.index()].part_bytes();
                    match expand.scalar(info, i64::from(ap_heads[ap].dtype.bytes()), size) {
                        Ok((sum, bound)) => {
                            done.push(Expanded { inst: id, ap: ApId(ap as u32), sum, bound });
                            continue;
                        }
                        Err(fault) => fault,
                    }
                } else {
                    let what = "only a dynamic DMA can carry a dynamic access pattern";
                    (&DYNAMIC_DMA, format!("{}: {what}", head.op.name()))
                };
                diagnostics.push(Diagnostic::error(fault.0, fault.1).ordered(from.hlo.0));
            }
            expand.walk.order.push(id);
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    apply(world, regs_mut, aps_mut, &done, &renumbered);
}

/// Writes what was found to the rows and payloads.
fn apply(
    world: &mut World,
    regs_mut: &mut QueryState<&mut InstRegs>,
    aps_mut: &mut QueryState<&mut ApHead>,
    done: &[Expanded],
    renumbered: &[(PayloadKey, i32)],
) {
    if let Ok(mut tables) = regs_mut.contiguous_iter_mut(world)
        && let Some(mut rows) = tables.next()
    {
        let rows = rows.bypass_change_detection();
        for e in done {
            rows[e.inst.index()] = InstRegs { src0: e.sum, src1: e.bound, dst: RegId::NONE };
        }
    }
    let mut keys = Vec::new();
    if let Ok(mut tables) = aps_mut.contiguous_iter_mut(world)
        && let Some(mut rows) = tables.next()
    {
        let rows = rows.bypass_change_detection();
        for e in done {
            let dynamic = &mut rows[e.ap.index()].dynamic;
            dynamic.address = e.sum;
            keys.push((dynamic.payload, e.sum, e.bound));
        }
    }
    world.resource_scope(|world, mut payloads: Mut<Payloads>| {
        for (key, sum, bound) in keys {
            if let Some(Payload::Dynamic(info)) = payloads.0.get_mut(key) {
                (info.offset_reg, info.bound_reg) = (sum, bound);
            }
        }
        let mut exprs = world.resource_mut::<Exprs>();
        for (key, id) in renumbered {
            if let Some(Payload::Dynamic(info)) = payloads.0.get_mut(*key) {
                info.tensor_indirect_arg_id = *id;
                for t in &mut info.terms {
                    t.expr = exprs.intern(Expr::IndirectArg { arg_id: *id });
                }
            }
        }
    });
}

/// The new ids of an instruction's index arguments.
fn renumber<'a>(
    infos: impl Iterator<Item = (PayloadKey, &'a DynamicApInfo)>,
    numbering: IndexNumbering,
    out: &mut Vec<(PayloadKey, i32)>,
) {
    let ids: ArrayVec<(PayloadKey, i32), 8> = infos
        .filter(|(_, i)| i.tensor_indirect_arg_id >= 0)
        .map(|(key, i)| (key, i.tensor_indirect_arg_id))
        .take(8)
        .collect();
    let numbers: ArrayVec<i32, 8> = ids.iter().map(|i| i.1).collect();
    out.extend(ids.iter().map(|(key, id)| (*key, dense_id(*id, &numbers, numbering))));
}

/// The new id of `id` among the collected `ids` (D11): its rank, or itself less the number of smaller ones.
fn dense_id(id: i32, ids: &[i32], numbering: IndexNumbering) -> i32 {
    let below =
        ids.iter().enumerate().filter(|(k, other)| **other < id && !ids[..*k].contains(other)).count() as i32;
    match numbering {
        IndexNumbering::Rank => below,
        IndexNumbering::Subtract => id - below,
    }
}

/// Expands the offsets of one instruction.
struct Expand<'a> {
    walk: &'a mut Walk,
    exprs: &'a Exprs,
    axes: &'a [AxisRegs],
    regs: &'a [RegHead],
    engine: EngineId,
    from: InstFrom,
    id: InstId,
    /// Location of the operand at hand.
    loc: LocId,
    /// Registers of indices, by expression.
    indices: Vec<(ExprId, RegId)>,
    /// Registers of products, by expression, factor and width.
    products: Vec<(ExprId, i64, u8, RegId)>,
}

impl Expand<'_> {
    /// Goes on to another instruction: nothing is shared with the one before.
    fn begin(&mut self, id: InstId, engine: EngineId, from: InstFrom) {
        (self.id, self.engine, self.from) = (id, engine, from);
        self.indices.clear();
        self.products.clear();
    }

    /// Offset and bound of an operand in registers.
    fn scalar(&mut self, info: &DynamicApInfo, bytes: i64, size: u64) -> Result<(RegId, RegId), Fault> {
        let width = if size >= WIDE_BYTES { 2 } else { 1 };
        let sum = self.reg(RegRole::DynamicOffset, width);
        self.set(sum, width, info.c * bytes);
        for term in &info.terms {
            if term.coef <= 0 {
                let what = format!("a run-time offset has the coefficient {}", term.coef);
                return Err((&DYNAMIC_DMA, what));
            }
            let product = self.product(term.expr, term.coef * bytes, width)?;
            let (e, hlo) = (self.engine, self.from.hlo);
            match width {
                2 => self.walk.alu_reg64(e, hlo, self.id, op::ADD, sum, product, sum),
                _ => self.walk.alu_reg(e, hlo, self.id, op::ADD, sum, product, sum),
            }
        }
        let bound = self.reg(RegRole::Bound, width);
        self.set(bound, width, size as i64);
        Ok((sum, bound))
    }

    fn reg(&mut self, role: RegRole, width: u8) -> RegId {
        self.walk.reg_of(self.engine, role, width, self.from, self.id, self.loc)
    }

    fn set(&mut self, dst: RegId, width: u8, value: i64) {
        match width {
            2 => self.walk.move_imm64(self.engine, self.from.hlo, self.id, dst, value),
            _ => self.walk.move_imm(self.engine, self.from.hlo, self.id, dst, value),
        }
    }

    /// `scale * e`.
    fn product(&mut self, e: ExprId, scale: i64, width: u8) -> Result<RegId, Fault> {
        let known = self.products.iter().find(|p| (p.0, p.1, p.2) == (e, scale, width));
        if let Some(p) = known {
            return Ok(p.3);
        }
        let index = self.materialise(e)?;
        let product = self.reg(RegRole::DynamicTerm, width);
        if width == 2 {
            self.set(product, 2, 0);
            self.walk.mult_low(self.engine, self.from.hlo, self.id, index, scale, product);
        } else {
            self.walk.alu_imm(self.engine, self.from.hlo, self.id, op::MULT, index, scale, product);
        }
        self.products.push((e, scale, width, product));
        Ok(product)
    }

    /// The register of an index expression: where it is, or computed.
    fn materialise(&mut self, e: ExprId) -> Result<RegId, Fault> {
        if let Some((_, r)) = self.indices.iter().find(|i| i.0 == e) {
            return Ok(*r);
        }
        let fault = |f: AffineFault| (f.code(), f.message().to_string());
        let r = match self.exprs.get(e) {
            Expr::AxisIv(_) | Expr::RuntimeInt(_) | Expr::IndirectArg { .. } => {
                let r = index_register(self.exprs, self.axes, e, self.engine).map_err(fault)?;
                if self.regs.get(r.index()).is_none_or(|head| head.engine != self.engine) {
                    let what = format!("register {} of an offset is not on {}", r.0, self.engine.name());
                    return Err((&DYNAMIC_DMA, what));
                }
                r
            }
            Expr::Affine { .. } => {
                let (r, tmp) = (self.reg(RegRole::DynamicIndex, 1), self.reg(RegRole::Temp, 1));
                let (x, axes, hlo) = (self.exprs, self.axes, self.from.hlo);
                lower_affine_expr(self.walk, x, axes, e, self.engine, hlo, self.id, r, tmp).map_err(fault)?;
                r
            }
            &Expr::FloorDiv { numer, denom } => self.divided(numer, denom, op::DIVIDE)?,
            &Expr::Modulo { numer, denom } => self.divided(numer, denom, op::MOD)?,
            Expr::Sum(_) | Expr::Mult { .. } => return Err(not_implemented("a sum of quotients")),
        };
        self.indices.push((e, r));
        Ok(r)
    }

    /// Quotient or remainder of a sum that is not negative, because every index was clamped (D14).
    fn divided(&mut self, numer: ExprId, denom: i64, op: u8) -> Result<RegId, Fault> {
        if self.exprs.as_affine(numer).is_none() {
            return Err(not_implemented("a division inside a division"));
        }
        let Some(denom) = i32::try_from(denom).ok().filter(|d| *d > 0) else {
            return Err(not_implemented("a divisor past 32 bits"));
        };
        let n = self.materialise(numer)?;
        let r = self.reg(RegRole::DynamicIndex, 1);
        self.walk.alu_imm(self.engine, self.from.hlo, self.id, op, n, i64::from(denom), r);
        Ok(r)
    }
}

fn not_implemented(what: &str) -> Fault {
    (&ADDRESS_OPERATOR, format!("{what} is not implemented in address registers"))
}

#[cfg(test)]
mod tests;
