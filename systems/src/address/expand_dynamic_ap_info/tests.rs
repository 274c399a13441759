//! What stands in front of a dynamic DMA: narrow and wide sums, what is shared, what is refused, how ids become dense.

use super::*;
use crate::compile::Compiler;
use crate::staging::Operand;
use bevy_ecs::system::RunSystemOnce;
use murre_components::dtype::DType;
use murre_components::hlo::HloModule;
use murre_components::program::VarKind;

/// A term: its expression over registers, made in place, and its coefficient.
type Term = (fn(&mut Exprs, &[RegId]) -> ExprId, i64);

fn index(k: usize) -> fn(&mut Exprs, &[RegId]) -> ExprId {
    match k {
        0 => |x, r| x.intern(Expr::RuntimeInt(r[0])),
        1 => |x, r| x.intern(Expr::RuntimeInt(r[1])),
        // A register of another engine.
        _ => |x, r| x.intern(Expr::RuntimeInt(r[2])),
    }
}

fn sum(x: &mut Exprs, r: &[RegId]) -> ExprId {
    let (a, b) = (x.intern(Expr::RuntimeInt(r[0])), x.intern(Expr::RuntimeInt(r[1])));
    x.affine([(a, 3), (b, 1)], 2)
}

fn remainder(x: &mut Exprs, r: &[RegId]) -> ExprId {
    let e = sum(x, r);
    x.modulo(e, 7).unwrap()
}

fn nested(x: &mut Exprs, r: &[RegId]) -> ExprId {
    let e = remainder(x, r);
    x.floor_div(e, 2).unwrap()
}

/// The instructions in front of a DMA between two DRAM variables of `elems` f32, both sides with run-time offsets.
fn expanded(op: Opcode, elems: u64, sides: [&[Term]; 2]) -> (Vec<String>, Vec<Diagnostic>) {
    let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
    let mut s = Staging::new(&world);
    let regs: Vec<RegId> = [EngineId::Pool, EngineId::Pool, EngineId::Dve]
        .into_iter()
        .map(|e| s.reg(RegRow::new(e, RegRole::Scalar, HloId(0))))
        .collect();
    let operands: Vec<Operand> = sides
        .iter()
        .map(|terms| {
            let mut row = LocRow::new(Space::Dram, DType::F32, 1, elems, HloId(0));
            row.head.kind = VarKind::Internal;
            let terms = terms.iter().map(|(make, coef)| {
                let expr = make(&mut world.resource_mut::<Exprs>(), &regs);
                DynamicTerm { expr, coef: *coef }
            });
            let terms = terms.collect();
            let info = DynamicApInfo {
                kind: OffsetKind::Scalar,
                terms,
                c: 5,
                indirect_dim: 0,
                indirect_dim_max_index: 10,
                tensor_indirect_arg_id: -1,
                num_tensor_indirect_indices: 0,
                offset_reg: RegId::NONE,
                bound_reg: RegId::NONE,
            };
            Operand {
                loc: s.loc(row),
                offset: 5,
                dtype: DType::F32,
                pattern: ApPattern::of([(1, 8)]),
                kind: ApKind::Physical,
                payload: world.resource_mut::<Payloads>().0.insert(Payload::Dynamic(info)),
                flags: 0,
            }
        })
        .collect();
    let mut row = InstRow::new(op, EngineId::Pool, HloId(0));
    row.head.flags = InstHead::DYNAMIC;
    let id = s.inst(row, &operands[..1], &operands[1..]);
    s.flush(&mut world);
    world.insert_resource(Order(vec![id]));
    world.run_system_once(expand_dynamic_ap_info).expect("it runs");
    let found = world.resource::<Diagnostics>().take();
    let order = world.resource::<Order>().0.clone();
    let mut q = world.query::<&RegHead>();
    let heads: Vec<RegHead> = q.iter(&world).copied().collect();
    let mut q = world.query::<(&InstHead, &InstArgs, &InstRegs)>();
    let rows: Vec<_> = q.iter(&world).map(|(h, a, r)| (*h, *a, *r)).collect();
    let name = |r: RegId| {
        let head = heads.get(r.index()).filter(|_| r.is_some());
        head.map_or("-".to_string(), |h| {
            let wide = if h.width == 2 { "64" } else { "" };
            if h.role == RegRole::Scalar { format!("r{}", r.0) } else { format!("{}{wide}", h.role.suffix()) }
        })
    };
    let lines = order.iter().map(|id| {
        let (h, a, r) = rows[id.index()];
        let imm = u64::from(a.imm0) | u64::from(a.imm1) << 32;
        match h.op {
            Opcode::RegisterMove => format!("mov {} {imm}", name(r.dst)),
            Opcode::RegisterAlu if a.mode == 1 => {
                format!("{:02x}.{} {} {} {imm}", a.op0, a.dtype, name(r.dst), name(r.src0))
            }
            Opcode::RegisterAlu => {
                format!("{:02x}.{} {} {} {}", a.op0, a.dtype, name(r.dst), name(r.src0), name(r.src1))
            }
            other => format!("{} {} {}", other.name(), name(r.src0), name(r.src1)),
        }
    });
    (lines.collect(), found)
}

#[test]
fn a_narrow_sum_counts_bytes() {
    let (lines, found) = expanded(Opcode::DmaCopy, 1000, [&[], &[(index(0), 8), (index(1), 2)]]);
    assert!(found.is_empty());
    let sum = ["dynamic-offset-reg", "reg-mult-out"];
    let expected = [
        "mov dynamic-offset-reg 20".to_string(),
        "mov bound-reg 4000".to_string(),
        format!("mov {} 20", sum[0]),
        format!("06.8 {} r0 32", sum[1]),
        format!("04.8 {0} {0} {1}", sum[0], sum[1]),
        format!("06.8 {} r1 8", sum[1]),
        format!("04.8 {0} {0} {1}", sum[0], sum[1]),
        "mov bound-reg 4000".to_string(),
        "DMACopy dynamic-offset-reg bound-reg".to_string(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn equal_indices_are_computed_once_for_both_operands() {
    let (lines, found) = expanded(Opcode::DmaCopy, 1000, [&[(sum, 8)], &[(sum, 8), (sum, 2)]]);
    assert!(found.is_empty());
    let count = |what: &str| lines.iter().filter(|l| l.contains(what)).count();
    // `3*r0 + 1*r1 + 2` takes a move, two products and two sums, once.
    assert_eq!(count("mov dynamic-index-reg 2"), 1);
    assert_eq!(count("06.8 RegTemp "), 2);
    assert_eq!(
        (count("06.8 reg-mult-out dynamic-index-reg 32"), count("06.8 reg-mult-out dynamic-index-reg 8")),
        (1, 1)
    );
    assert_eq!(count("04.8 dynamic-offset-reg"), 3);
}

#[test]
fn from_2_gib_on_the_sum_is_a_pair() {
    let (lines, found) = expanded(Opcode::DmaCopy, WIDE_BYTES / 4, [&[(index(0), 64)], &[(index(0), 64)]]);
    assert!(found.is_empty());
    let expected = [
        "mov dynamic-offset-reg64 20",
        "mov reg-mult-out64 0",
        "06.8 reg-mult-out64 r0 256",
        "04.1 dynamic-offset-reg64 dynamic-offset-reg64 reg-mult-out64",
        "mov bound-reg64 2147483648",
        "mov dynamic-offset-reg64 20",
        "04.1 dynamic-offset-reg64 dynamic-offset-reg64 reg-mult-out64",
        "mov bound-reg64 2147483648",
        "DMACopy dynamic-offset-reg64 bound-reg64",
    ];
    assert_eq!(lines, expected);
    let (lines, _) = expanded(Opcode::DmaCopy, WIDE_BYTES / 4 - 1, [&[(index(0), 64)], &[]]);
    assert!(lines.iter().all(|l| !l.contains("64 ")), "{lines:?}");
}

#[test]
fn one_division_is_code_and_a_nested_one_is_refused() {
    let (lines, found) = expanded(Opcode::DmaCopy, 1000, [&[], &[(remainder, 8)]]);
    assert!(found.is_empty());
    assert!(lines.contains(&"1b.8 dynamic-index-reg dynamic-index-reg 7".to_string()), "{lines:?}");
    let (_, found) = expanded(Opcode::DmaCopy, 1000, [&[], &[(nested, 8)]]);
    assert_eq!(found[0].code.id, "MUR0414");
    assert!(found[0].message.contains("not implemented"));
}

#[test]
fn the_guards() {
    for (op, terms) in [
        (Opcode::TensorCopy, &[(index(0), 8)][..]),
        (Opcode::DmaCopy, &[(index(0), -8)]),
        (Opcode::DmaCopy, &[(index(2), 8)]),
    ] {
        let (_, found) = expanded(op, 1000, [&[], terms]);
        assert!(!found.is_empty() && found.iter().all(|d| d.code.id == "MUR0418"), "{found:?}");
    }
}

#[test]
fn ids_become_dense_by_rank_and_by_subtraction_on_request() {
    let dense = |ids: &[i32], how| ids.iter().map(|i| dense_id(*i, ids, how)).collect::<Vec<_>>();
    assert_eq!(dense(&[3, 7], IndexNumbering::Rank), [0, 1]);
    assert_eq!(dense(&[3, 7], IndexNumbering::Subtract), [3, 6]);
    assert_eq!(dense(&[7, 3, 3], IndexNumbering::Rank), [1, 0, 0]);
    assert_eq!(dense(&[1], IndexNumbering::Rank), [0]);
    assert_eq!(dense(&[1], IndexNumbering::Subtract), [1]);
}

/// The ids are written to payload and expression.
#[test]
fn the_only_index_argument_becomes_number_0() {
    for (numbering, expected) in [(IndexNumbering::Rank, 0), (IndexNumbering::Subtract, 1)] {
        let options = CompileOptions { index_numbering: numbering, ..CompileOptions::default() };
        let mut world = Compiler::new(HloModule::default(), options).world;
        let expr = world.resource_mut::<Exprs>().intern(Expr::IndirectArg { arg_id: 1 });
        let info = DynamicApInfo {
            kind: OffsetKind::Vector(ApId(2)),
            terms: [DynamicTerm { expr, coef: 8 }].into_iter().collect(),
            c: 0,
            indirect_dim: 0,
            indirect_dim_max_index: 12,
            tensor_indirect_arg_id: 1,
            num_tensor_indirect_indices: 5,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        };
        let payload = world.resource_mut::<Payloads>().0.insert(Payload::Dynamic(info));
        let mut s = Staging::new(&world);
        let loc = s.loc(LocRow::new(Space::Dram, DType::F32, 1, 96, HloId(0)));
        let pattern = ApPattern::of([(8, 5), (1, 8)]);
        let side = |payload| Operand {
            loc,
            offset: 0,
            dtype: DType::F32,
            pattern: pattern.clone(),
            kind: ApKind::Physical,
            payload,
            flags: 0,
        };
        let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Pool, HloId(0));
        row.head.flags = InstHead::DYNAMIC;
        let none = PayloadKey::default();
        let id = s.inst(row, &[side(none)], &[side(payload), side(none)]);
        s.flush(&mut world);
        world.insert_resource(Order(vec![id]));
        world.run_system_once(expand_dynamic_ap_info).expect("it runs");
        assert_eq!(world.resource::<Order>().0, [id], "nothing is computed for offsets in memory");
        let info = world.resource::<Payloads>().dynamic(payload).unwrap().clone();
        assert_eq!(info.tensor_indirect_arg_id, expected);
        let expr = world.resource::<Exprs>().get(info.terms[0].expr).clone();
        assert_eq!(expr, Expr::IndirectArg { arg_id: expected });
    }
}
