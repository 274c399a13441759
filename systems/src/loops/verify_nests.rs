//! `verify_nests`: the program in its structured form, in front of `lower_branch`.
//!
//! In: order, heads and ends of loops, address expressions. Out: nothing, or a diagnostic per broken rule: heads and ends
//! pair up and stand where their axes say (146, 147, 149); an address uses axes of its own nest (227); a do-while's body
//! writes its condition, in a 32-bit type (071, 073); a DMA in a loop writes nothing that must stay.
//!
//! The source compiler lets a static DMA of a run-time loop touch internal tensors only (251, 252), because its
//! descriptors hold the addresses of one run. Ours name variables by id (D8) and a trip fires its blocks again (D6), so that
//! inputs and outputs may be read, and outputs written, in place; what remains of the rule is that constants and inputs
//! which are not donated are written nowhere.
//!
//! Facts: `spec/ir.md 3.4`.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::*;
use murre_components::diag::{Code, Diagnostic, Diagnostics};
use murre_components::ids::*;
use murre_components::program::VarKind;

/// The pass.
pub fn verify_nests(
    order: Res<Order>,
    exprs: Res<Exprs>,
    payloads: Res<Payloads>,
    signature: Option<Res<Signature>>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    aps: Query<&ApHead>,
    axes: Query<(&AxisHead, &AxisRegs)>,
    locs: Query<(&LocHead, &LocFrom)>,
) {
    let (heads, operands, args, regs, from) = crate::columns!(insts);
    let ap_heads = crate::columns!(aps);
    let (axis_heads, axis_regs) = crate::columns!(axes);
    let (loc_heads, loc_from) = crate::columns!(locs);
    let mut open: Vec<AxisId> = Vec::new();
    let mut seen = vec![0u8; axis_heads.len()];
    // Per open loop whether its condition has been written.
    let mut written: Vec<bool> = Vec::new();
    for &id in &order.0 {
        let k = id.index();
        let op = heads[k].op;
        let fault = |code: Code, rule: &str, what: String| {
            let message = format!("{} {}: {what} [{rule}]", op.name(), id.0);
            diagnostics.push(Diagnostic::error(code, message).ordered(from[k].hlo.0));
        };
        if op == Opcode::Terminator {
            let axis = args[k].axis();
            match open.pop() {
                Some(top) if top == axis && axis_heads[axis.index()].end == id => {}
                _ => {
                    fault(&LOOP_NEST, "149", format!("ends axis {}, which is not the innermost one", axis.0))
                }
            }
            if written.pop() == Some(false) {
                fault(
                    &LOOP_CONDITION,
                    "071",
                    format!("the body of axis {} never writes its condition", axis.0),
                );
            }
        } else if op.is_structure() {
            let axis = args[k].axis();
            let Some(head) = axis_heads.get(axis.index()) else {
                fault(&LOOP_NEST, "146", "its axis does not exist".to_string());
                continue;
            };
            if op as u8 != head.kind as u8 || head.begin != id || seen[axis.index()] != 0 {
                fault(&LOOP_NEST, "147", format!("is not the head of axis {}", axis.0));
            }
            if head.parent != open.last().copied().unwrap_or(AxisId::NONE) {
                fault(&LOOP_NEST, "149", format!("axis {} stands in another loop than its parent", axis.0));
            }
            seen[axis.index()] = 1;
            open.push(axis);
            written.push(head.kind != LoopKind::DoWhile);
        } else {
            let dst = regs[k].dst;
            if dst.is_some() {
                for (axis, done) in open.iter().zip(&mut written) {
                    if !*done && axis_regs[axis.index()].condition == dst {
                        *done = true;
                        if !matches!(args[k].dtype, 8..=10) {
                            fault(&LOOP_CONDITION, "073", format!("a condition of type {}", args[k].dtype));
                        }
                    }
                }
            }
        }
        let outside = |e: ExprId| match exprs.get(e) {
            Expr::AxisIv(axis) if !open.contains(axis) => Some(*axis),
            _ => None,
        };
        for ap in operands[k].range() {
            let stranger = match payloads.0.get(ap_heads[ap].dynamic.payload) {
                Some(Payload::Dynamic(info)) => info.terms.iter().find_map(|t| outside(t.expr)),
                Some(Payload::Symbolic(s)) => [s.tile, s.block].into_iter().find_map(|e| {
                    exprs.as_affine(e).and_then(|(terms, _)| terms.iter().find_map(|t| outside(t.0)))
                }),
                None => None,
            };
            if let Some(axis) = stranger {
                fault(
                    &LOOP_AXIS_SCOPE,
                    "227",
                    format!("an address uses axis {} outside of its loop", axis.0),
                );
            }
            let loc = ap_heads[ap].loc;
            if op == Opcode::DmaCopy
                && !open.is_empty()
                && ap_heads[ap].output != 0
                && let Some(head) = loc_heads.get(loc.index())
            {
                let donated =
                    || signature.as_ref().is_some_and(|s| s.donated.contains(&loc_from[loc.index()].ordinal));
                if head.kind == VarKind::Const || head.kind == VarKind::Input && !donated() {
                    fault(&LOOP_DMA, "251", format!("writes {:?} location {}", head.kind, loc.0));
                }
            }
        }
    }
    if let Some(axis) = open.last() {
        let message = format!("axis {} has no end [147]", axis.0);
        diagnostics.push(Diagnostic::error(&LOOP_NEST, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;

    /// Two nested do-whiles around a copy, and what `spoil` makes of them.
    fn codes(spoil: impl FnOnce(&mut Staging, &mut Vec<InstId>)) -> Vec<&'static str> {
        let mut c = crate::Compiler::new(HloModule::default(), Default::default());
        let mut s = Staging::new(&c.world);
        let mut order = Vec::new();
        let none = ExprId::NONE;
        for depth in 0..2u32 {
            let condition = s.reg(RegRow::new(EngineId::All, RegRole::Scalar, HloId::NONE));
            let parent = if depth == 0 { AxisId::NONE } else { AxisId(0) };
            s.axis(AxisRow {
                head: AxisHead {
                    parent,
                    begin: InstId(depth),
                    end: InstId(6 - depth),
                    kind: LoopKind::DoWhile,
                    unsigned: 0,
                    depth: depth as u16,
                },
                bounds: AxisBounds { lb: none, ub: none, step: none, max_trip: 9 },
                regs: AxisRegs { iv: RegId::NONE, limit: condition, condition, per_engine: [RegId::NONE; 5] },
            });
        }
        let exprs = &mut *c.world.resource_mut::<Exprs>();
        let tile = exprs.intern(Expr::AxisIv(AxisId(1)));
        let tile = exprs.affine([(tile, 4)], 0);
        let block = exprs.constant(0);
        let payload =
            c.world.resource_mut::<Payloads>().0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
        let loc = s.loc(LocRow::new(Space::Dram, DType::F32, 1, 16, HloId::NONE));
        let operand = Operand {
            loc,
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::default(),
            kind: ApKind::Symbolic,
            payload,
            flags: 0,
        };
        for k in 0..7u32 {
            let op = match k {
                0 | 1 => Opcode::DoWhile,
                2 => Opcode::DmaCopy,
                3 | 4 => Opcode::RegisterMove,
                _ => Opcode::Terminator,
            };
            let mut row = InstRow::new(op, EngineId::All, HloId::NONE);
            row.args.aux = [0, 1, 0, 0, 0, 1, 0][k as usize];
            row.args.dtype = 8;
            row.regs.dst = match k {
                3 => RegId(0),
                4 => RegId(1),
                _ => RegId::NONE,
            };
            let outputs = if k == 2 { std::slice::from_ref(&operand) } else { &[] };
            order.push(s.inst(row, outputs, &[]));
        }
        spoil(&mut s, &mut order);
        s.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_nests);
        schedule.run(&mut c.world);
        c.world.resource::<Diagnostics>().take().iter().map(|d| d.code.id).collect()
    }

    #[test]
    fn every_rule_has_a_program_that_breaks_it() {
        assert_eq!(codes(|_, _| ()), [""; 0]);
        assert_eq!(codes(|_, order| order.swap(5, 6)), ["MUR0423", "MUR0423"], "ends crossed");
        assert_eq!(codes(|_, order| order.truncate(6)), ["MUR0423"], "no end");
        assert_eq!(codes(|s, _| s.axes[1].head.parent = AxisId::NONE), ["MUR0423"], "another parent");
        assert_eq!(codes(|s, _| s.axes[0].head.kind = LoopKind::DynamicFor), ["MUR0423"], "another kind");
        assert_eq!(codes(|_, order| order.swap(2, 6)).first(), Some(&"MUR0423"));
        assert_eq!(
            codes(|_, order| order.swap(4, 5)),
            ["MUR0425"],
            "the condition is written behind its loop"
        );
        assert_eq!(codes(|s, _| s.insts[4].args.dtype = 1), ["MUR0425"], "a 64-bit condition");
        let outside = |_: &mut Staging, order: &mut Vec<InstId>| {
            let copy = order.remove(2);
            order.insert(1, copy);
        };
        assert_eq!(codes(outside), ["MUR0424"], "the copy counts by a loop that it is not in");
        assert_eq!(codes(|s, _| s.locs[0].head.kind = VarKind::Const), ["MUR0427"]);
        assert_eq!(codes(|s, _| s.locs[0].head.kind = VarKind::Input), ["MUR0427"]);
        assert_eq!(codes(|s, _| s.locs[0].head.kind = VarKind::Output), [""; 0]);
    }
}
