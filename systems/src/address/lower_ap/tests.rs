//! Golden sequences of `lower_ap`, and its guards.

use super::*;
use crate::options::CompileOptions;
use crate::staging::Operand;
use bevy_ecs::system::RunSystemOnce;
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::program::VarKind;

/// One instruction with a symbolic input over `terms` registers, on a location of `parts x elems`.
fn lowered(space: Space, op: Opcode, dtype: DType, coefs: &[i64], c: i64) -> Vec<String> {
    sequence(space, op, dtype, coefs, c, false).0
}

/// The same with or without pointer bases, and the constants behind it.
fn sequence(
    space: Space,
    op: Opcode,
    dtype: DType,
    coefs: &[i64],
    c: i64,
    pointer_bases: bool,
) -> (Vec<String>, Vec<u8>) {
    let options = CompileOptions { pointer_bases, ..CompileOptions::default() };
    let mut world = crate::Compiler::new(HloModule::default(), options).world;
    let engine = if op == Opcode::Matmult { EngineId::Pe } else { EngineId::Dve };
    let mut s = Staging::new(&world);
    let mut row = LocRow::new(space, dtype, 4, 96, HloId(0));
    row.place.address = 0x5000;
    let loc = s.loc(row);
    let regs: Vec<RegId> =
        coefs.iter().map(|_| s.reg(RegRow::new(engine, RegRole::Scalar, HloId(0)))).collect();
    let (tile, block) = {
        let mut exprs = world.resource_mut::<Exprs>();
        let terms: Vec<_> = regs.iter().map(|r| exprs.intern(Expr::RuntimeInt(*r))).collect();
        (exprs.affine(terms.into_iter().zip(coefs.iter().copied()), c), exprs.constant(0))
    };
    let payload =
        world.resource_mut::<Payloads>().0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
    let fixed = Operand {
        loc,
        offset: 0,
        dtype,
        pattern: ApPattern::new([(96, 1), (1, 8)]).unwrap(),
        kind: ApKind::Physical,
        payload: PayloadKey::default(),
        flags: 0,
    };
    let symbolic = Operand { kind: ApKind::Symbolic, payload, ..fixed.clone() };
    let mut row = InstRow::new(op, engine, HloId(0));
    row.head.flags = InstHead::DYNAMIC;
    let inputs = if op == Opcode::Matmult { vec![fixed.clone(), symbolic] } else { vec![symbolic] };
    let id = s.inst(row, &[fixed], &inputs);
    s.flush(&mut world);
    world.insert_resource(Order(vec![id]));
    world.run_system_once(lower_ap).expect("it runs");
    assert!(!world.resource::<murre_components::diag::Diagnostics>().has_errors());
    let order = world.resource::<Order>().0.clone();
    let mut names = world.query::<(&RegHead, &RegFrom)>();
    let names: Vec<String> = names
        .iter(&world)
        .map(|(h, _)| match h.width {
            2 => format!("{}:{}", h.role.suffix(), h.role.high_suffix()),
            _ => h.role.suffix().to_string(),
        })
        .collect();
    let constants = world.resource::<ConstPool>().0.clone();
    let mut insts = world.query::<(&InstHead, &InstArgs, &InstRegs)>();
    let rows: Vec<_> = insts.iter(&world).map(|(h, a, r)| (*h, *a, *r)).collect();
    let mut aps = world.query::<&ApHead>();
    let registers = aps.iter(&world).filter(|h| h.kind == ApKind::Register).count();
    assert_eq!(registers, 1);
    let (from_loc, mut pointers) = (LocId(0), world.query::<(&LocHead, &LocPlace)>());
    assert_eq!(loc, from_loc);
    let kinds: Vec<_> = pointers.iter(&world).skip(1).map(|(h, _)| (h.kind, h.dtype, h.part_elems)).collect();
    let expected = [(VarKind::Pointer, DType::I64, 1)];
    assert_eq!(kinds, expected[..pointer_bases as usize]);
    let lines = order
        .iter()
        .map(|id| {
            let (h, a, r) = rows[id.index()];
            let name = |r: RegId| if r.is_some() { names[r.index()].as_str() } else { "-" };
            // A 32-bit operation on a pair works on its low lane.
            let low = |r: RegId| name(r).split(':').next().unwrap_or("-");
            match h.op {
                Opcode::RegisterMove => format!("mov {} {}", name(r.dst), a.imm0),
                Opcode::TensorLoad => format!("load {}", name(r.dst)),
                Opcode::RegisterAlu if a.dtype == 1 => {
                    format!("{:02x} {} {} {}", a.op0, name(r.dst), name(r.src0), name(r.src1))
                }
                Opcode::RegisterAlu if a.mode == 1 => {
                    format!("{:02x} {} {} {}", a.op0, low(r.dst), low(r.src0), a.imm0)
                }
                Opcode::RegisterAlu => {
                    format!("{:02x} {} {} {}", a.op0, low(r.dst), low(r.src0), low(r.src1))
                }
                other => other.name().to_string(),
            }
        })
        .collect();
    (lines, constants)
}

#[test]
fn the_sequence_for_sbuf() {
    let expected = [
        "mov RegAPOffset 5",
        "06 RegTemp Scalar 8",
        "04 RegAPOffset RegAPOffset RegTemp",
        "mov RegSubTensorId 0",
        "mov RegAPAddr 20480",
        "07 RegTemp RegAPOffset 96",
        "06 RegTemp RegTemp 262144",
        "04 RegAPAddr RegAPAddr RegTemp",
        "1b RegTemp RegAPOffset 96",
        "06 RegTemp RegTemp 4",
        "04 RegAPAddr RegAPAddr RegTemp",
        "TensorCopy",
    ];
    assert_eq!(lowered(Space::Sbuf, Opcode::TensorCopyDynamicSrc, DType::F32, &[8], 5), expected);
}

#[test]
fn psum_has_its_own_base_and_stride() {
    let got = lowered(Space::Psum, Opcode::TensorCopyDynamicDst, DType::F32, &[], 7);
    assert_eq!(got[0], "mov RegAPOffset 7");
    assert_eq!(got[2], format!("mov RegAPAddr {}", 0x0200_0000 + 0x5000));
    assert_eq!(got[4], format!("06 RegTemp RegTemp {}", 0x8000));
    assert_eq!(got.len(), 10);
}

#[test]
fn the_second_operand_of_a_matmult_points_at_its_last_element() {
    let got = lowered(Space::Sbuf, Opcode::Matmult, DType::Bf16, &[1, 96], 0);
    assert_eq!(got[got.len() - 2], format!("04 RegAPAddr RegAPAddr {}", 2 * 7));
    assert_eq!(got.last().map(String::as_str), Some("Matmult"));
    assert_eq!(got.iter().filter(|l| l.starts_with("06 RegTemp Scalar")).count(), 2);
}

/// What stands between the two affine walks and the split when the base comes from memory.
const LOADS: [&str; 4] = [
    "load RegDramAddr0:RegDramAddr1",
    "mov RegTemp:RegTemp1 0",
    "04 RegDramAddr0:RegDramAddr1 RegDramAddr0:RegDramAddr1 RegTemp:RegTemp1",
    "load RegAPAddr",
];

fn split(step: u32, stride: u32, bytes: u32) -> Vec<String> {
    vec![
        format!("07 RegTemp RegAPOffset {step}"),
        format!("06 RegTemp RegTemp {stride}"),
        "04 RegAPAddr RegAPAddr RegTemp".into(),
        format!("1b RegTemp RegAPOffset {step}"),
        format!("06 RegTemp RegTemp {bytes}"),
        "04 RegAPAddr RegAPAddr RegTemp".into(),
    ]
}

#[test]
fn the_full_sequence_for_sbuf_loads_its_base() {
    let op = Opcode::TensorCopyDynamicSrc;
    let (got, constants) = sequence(Space::Sbuf, op, DType::F32, &[8], 5, true);
    let mut expected: Vec<String> =
        ["mov RegAPOffset 5", "06 RegTemp Scalar 8", "04 RegAPOffset RegAPOffset RegTemp"]
            .into_iter()
            .chain(["mov RegSubTensorId 0"])
            .chain(LOADS)
            .map(String::from)
            .collect();
    expected.extend(split(96, 0x40000, 4));
    expected.push("TensorCopy".into());
    assert_eq!(got, expected);
    assert_eq!(constants, 0x5000u64.to_le_bytes());
}

#[test]
fn the_full_sequence_for_psum_and_for_the_second_operand_of_a_matmult() {
    let op = Opcode::TensorCopyDynamicDst;
    let (got, constants) = sequence(Space::Psum, op, DType::F32, &[], 7, true);
    assert_eq!(got[..2], ["mov RegAPOffset 7", "mov RegSubTensorId 0"]);
    assert_eq!(got[2..6], LOADS);
    assert_eq!(got[6..12], split(96, 0x8000, 4));
    assert_eq!(constants, (0x0200_0000u64 + 0x5000).to_le_bytes());
    let (got, _) = sequence(Space::Sbuf, Opcode::Matmult, DType::Bf16, &[1], 0, true);
    assert_eq!(got[4..8], LOADS);
    assert_eq!(got[8..14], split(96, 0x40000, 2));
    assert_eq!(got[14], format!("04 RegAPAddr RegAPAddr {}", 2 * 7));
    assert_eq!(got[15..], ["Matmult"]);
}

/// Each guard, in the order in which they are asked.
#[test]
fn the_guards_in_their_order() {
    let fault = |change: &dyn Fn(&mut LocRow, &mut Operand, &mut World)| {
        let mut world = crate::Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = Staging::new(&world);
        let mut row = LocRow::new(Space::Sbuf, DType::F32, 4, 96, HloId(0));
        row.place.address = 64;
        let zero = world.resource_mut::<Exprs>().constant(0);
        let address = SymbolicAddress { tile: zero, block: zero };
        let mut symbolic = Operand {
            loc: LocId(0),
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::of([(96, 1), (1, 8)]),
            kind: ApKind::Symbolic,
            payload: world.resource_mut::<Payloads>().0.insert(Payload::Symbolic(address)),
            flags: 0,
        };
        change(&mut row, &mut symbolic, &mut world);
        s.loc(row);
        let mut row = InstRow::new(Opcode::TensorCopyDynamicSrc, EngineId::Dve, HloId(0));
        row.head.flags = InstHead::DYNAMIC;
        let id = s.inst(row, &[], &[symbolic]);
        s.flush(&mut world);
        world.insert_resource(Order(vec![id]));
        world.run_system_once(lower_ap).expect("it runs");
        let found = world.resource::<Diagnostics>().take();
        found.into_iter().map(|d| (d.code.id, d.message)).collect::<Vec<_>>()
    };
    let is = |found: Vec<(&'static str, String)>, what: &str| {
        assert!(found.len() == 1 && found[0].0 == "MUR0415" && found[0].1.contains(what), "{found:?}");
    };
    assert!(fault(&|_, _, _| {}).is_empty());
    let dram: fn(&mut LocRow) = |row| (row.head.space, row.place.address) = (Space::Dram, u32::MAX);
    is(fault(&|row, _, _| dram(row)), "cannot be in DRAM");
    is(fault(&|row, _, _| row.place.address = u32::MAX), "without an address");
    is(fault(&|_, o, _| o.payload = PayloadKey::default()), "without a tile address");
    let with = |w: &mut World, tile, block| {
        w.resource_mut::<Payloads>().0.insert(Payload::Symbolic(SymbolicAddress { tile, block }))
    };
    is(fault(&|_, o, w| o.payload = with(w, ExprId::NONE, ExprId(0))), "without a tile address");
    is(fault(&|_, o, w| o.payload = with(w, ExprId(0), ExprId::NONE)), "without a block address");
    is(fault(&|_, o, _| o.pattern = ApPattern::of([(0, 1), (1, 8)])), "step is not positive");
}
