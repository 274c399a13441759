//! The thirteen points that `spec/ir.md 14` asks every implementation to show, one test each: what the profile says, held against
//! compiled programs, against the tables behind a stage, or against the pass itself. Unit tests beside the passes go further.

mod support;

use bevy_ecs::prelude::*;
use bevy_ecs::system::RunSystemOnce;
use murre::array::HostArray;
use murre::components::bir::*;
use murre::components::diag::Diagnostics;
use murre::components::dtype::{DType, HloType};
use murre::components::engine::{EngineId, Target};
use murre::components::hlo::HloModule;
use murre::components::ids::*;
use murre::components::isa::{BoundRegister, Instr, decode};
use murre::systems::address::affine::lower_affine_expr;
use murre::systems::address::lower_ap::lower_ap;
use murre::systems::address::walk::Walk;
use murre::systems::loops::verify_loops::check;
use murre::systems::route::assign_hwdge_engine::{HwdgeTurn, hwdge_engine};
use murre::systems::route::dge_instruction_type::ring_depth;
use murre::systems::route::dynamic_dma_cleanup::dynamic_dma_cleanup;
use murre::systems::route::dynamic_dma_scan::dynamic_dma_scan;
use murre::systems::staging::{Operand, Staging};
use murre::systems::{CompileOptions, Compiler, DgeLevels, Stage};

const WRITE: &str = "HloModule m\n\nENTRY main {\n  cache = f32[16,8] parameter(0)\n  new = f32[1,8] parameter(1)\n  \
    pos = s32[] parameter(2)\n  zero = s32[] constant(0)\n  \
    ROOT out = f32[16,8] dynamic-update-slice(cache, new, pos, zero)\n}\n";

const ROWS: &str = "HloModule m\n\nENTRY main {\n  table = f32[20,6] parameter(0)\n  ids = s32[5] parameter(1)\n  \
    ROOT out = f32[5,6] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
    index_vector_dim=1, slice_sizes={1,6}\n}\n";

const DROP: &str = "HloModule m\n\nset {\n  old = f32[] parameter(0)\n  ROOT new = f32[] parameter(1)\n}\n\nENTRY main {\n  \
    table = f32[20,6] parameter(0)\n  ids = s32[5,1] parameter(1)\n  rows = f32[5,6] parameter(2)\n  \
    ROOT out = f32[20,6] scatter(table, ids, rows), update_window_dims={1}, inserted_window_dims={0}, \
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set\n}\n";

/// A loop from `start` to the limit by `step` that counts its trips.
fn counting(start: i32, step: i32, limit: &str) -> String {
    format!(
        "HloModule m\n\nbody {{\n  c = (s32[], s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(c), index=0\n  \
         n = s32[] get-tuple-element(c), index=1\n  t = s32[] get-tuple-element(c), index=2\n  \
         by = s32[] constant({step})\n  next = s32[] add(i, by)\n  one = s32[] constant(1)\n  \
         more = s32[] add(t, one)\n  ROOT o = (s32[], s32[], s32[]) tuple(next, n, more)\n}}\n\n\
         go {{\n  c = (s32[], s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(c), index=0\n  \
         n = s32[] get-tuple-element(c), index=1\n  ROOT l = pred[] compare(i, n), direction=LT\n}}\n\n\
         ENTRY main {{\n  n = s32[] parameter(0)\n  most = s32[] constant(100)\n  least = s32[] constant(-100)\n  \
         low = s32[] maximum(n, least)\n  x = s32[] minimum(low, most)\n{limit}  zero = s32[] constant(0)\n  \
         start = s32[] constant({start})\n  s = (s32[], s32[], s32[]) tuple(start, limit, zero)\n  \
         w = (s32[], s32[], s32[]) while(s), condition=go, body=body\n  \
         ROOT trips = s32[] get-tuple-element(w), index=2\n}}\n"
    )
}

fn array(ty: HloType, dims: &[u64], data: Vec<u8>) -> HostArray {
    HostArray { ty, dims: dims.to_vec(), data }
}

fn s32s(values: &[i32], dims: &[u64]) -> HostArray {
    array(HloType::S32, dims, values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn floats(n: u64, dims: &[u64], by: f32) -> HostArray {
    array(HloType::F32, dims, (0..n).flat_map(|k| (k as f32 * by).to_le_bytes()).collect())
}

/// A compilation up to a stage.
fn up_to(text: &str, options: CompileOptions) -> Compiler {
    let mut compiler = Compiler::new(support::module(text), options);
    compiler.run(&Stage::ALL);
    compiler
}

fn routes(world: &mut World) -> Vec<DgeType> {
    let mut q = world.query::<&InstHead>();
    q.iter(world).filter(|h| h.op == Opcode::DmaCopy && h.live()).map(|h| h.dge).collect()
}

fn route_of_dynamic(world: &mut World) -> Vec<DgeType> {
    let mut q = world.query::<(&InstHead, &InstOperands)>();
    let copies: Vec<_> = q
        .iter(world)
        .filter(|(h, _)| h.op == Opcode::DmaCopy && h.live())
        .map(|(h, o)| (h.dge, *o))
        .collect();
    let mut q = world.query::<&ApHead>();
    let keys: Vec<PayloadKey> = q.iter(world).map(|a| a.dynamic.payload).collect();
    let payloads = world.resource::<Payloads>();
    let dynamic = |o: &InstOperands| o.range().any(|k| payloads.dynamic(keys[k]).is_some());
    copies.iter().filter(|(_, o)| dynamic(o)).map(|(d, _)| *d).collect()
}

#[test]
fn hook_01_route_table() {
    for target in Target::ALL {
        let at = |levels: u8| CompileOptions {
            target,
            dge_levels: DgeLevels(levels),
            stop_after: Some(Stage::Route),
            ..CompileOptions::default()
        };
        let usual = DgeLevels::default().0;
        for text in [WRITE, ROWS] {
            let dynamic = route_of_dynamic(&mut up_to(text, at(usual)).world);
            assert_eq!(dynamic, [DgeType::Swdge], "{} {text}", target.name());
        }
        // A level for each offset kind is enough for both; none of them is a fault; all off is row 1.
        for levels in [DgeLevels::SCALAR, DgeLevels::VECTOR] {
            assert_eq!(route_of_dynamic(&mut up_to(WRITE, at(levels)).world), [DgeType::Swdge]);
        }
        let off = up_to(WRITE, at(DgeLevels::SPILL_RELOAD)).finish().diagnostics;
        assert_eq!(off.first().map(|d| d.code.id), Some("MUR0430"), "{off:?}");
        let mut none = up_to(WRITE, at(0));
        assert!(routes(&mut none.world).iter().all(|r| *r == DgeType::None), "{}", target.name());
    }
}

/// The register code that `lower_ap` puts before one instruction with a symbolic operand, roles for registers.
fn symbolic(space: Space, op: Opcode, dtype: DType, coefs: &[i64], c: i64) -> Vec<String> {
    let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
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
        pattern: ApPattern::of([(96, 1), (1, 8)]),
        kind: ApKind::Physical,
        payload: PayloadKey::default(),
        flags: 0,
    };
    let dynamic = Operand { kind: ApKind::Symbolic, payload, ..fixed.clone() };
    let mut row = InstRow::new(op, engine, HloId(0));
    row.head.flags = InstHead::DYNAMIC;
    let inputs = if op == Opcode::Matmult { vec![fixed.clone(), dynamic] } else { vec![dynamic] };
    let id = s.inst(row, &[fixed], &inputs);
    s.flush(&mut world);
    world.insert_resource(Order(vec![id]));
    world.run_system_once(lower_ap).expect("it runs");
    assert!(!world.resource::<Diagnostics>().has_errors());
    code(&mut world)
}

/// Register code in program order: operator, roles of the registers, immediates.
fn code(world: &mut World) -> Vec<String> {
    let order = world.resource::<Order>().0.clone();
    let mut q = world.query::<&RegHead>();
    let roles: Vec<&str> = q.iter(world).map(|h| h.role.suffix()).collect();
    let mut q = world.query::<(&InstHead, &InstArgs, &InstRegs)>();
    let rows: Vec<_> = q.iter(world).map(|(h, a, r)| (*h, *a, *r)).collect();
    let name = |r: RegId| if r.is_some() { roles[r.index()] } else { "-" };
    let line = |id: &InstId| {
        let (h, a, r) = rows[id.index()];
        match h.op {
            Opcode::RegisterMove => format!("mov {} {}", name(r.dst), a.imm0),
            Opcode::RegisterAlu if a.mode == 1 => {
                format!("{:02x} {} {} {}", a.op0, name(r.dst), name(r.src0), a.imm0)
            }
            Opcode::RegisterAlu => {
                format!("{:02x} {} {} {}", a.op0, name(r.dst), name(r.src0), name(r.src1))
            }
            other => other.name().into(),
        }
    };
    order.iter().map(line).collect()
}

#[test]
fn hook_02_register_address_sequence() {
    let sbuf = symbolic(Space::Sbuf, Opcode::TensorCopyDynamicSrc, DType::F32, &[8], 5);
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
    assert_eq!(sbuf, expected);
    // PSUM has another base and another partition stride.
    let psum = symbolic(Space::Psum, Opcode::TensorCopyDynamicDst, DType::F32, &[8], 5);
    assert_eq!(psum[4], format!("mov RegAPAddr {}", 0x0200_0000 + 0x5000));
    assert_eq!(psum[6], format!("06 RegTemp RegTemp {}", 0x8000));
    // Argument 1 of a Matmult points at its last element.
    let moving = symbolic(Space::Sbuf, Opcode::Matmult, DType::Bf16, &[8], 0);
    assert_eq!(moving[moving.len() - 2], format!("04 RegAPAddr RegAPAddr {}", 2 * 7));
}

#[test]
fn hook_03_lower_affine_expr() {
    for axes in 0..3usize {
        let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut walk = Walk::new(Staging::new(&world), 0);
        let mut exprs = Exprs::default();
        let none = InstFrom { hlo: HloId(0), owner: InstId::NONE };
        let mut reg = |role| walk.reg(EngineId::Pool, role, none, InstId::NONE, LocId::NONE);
        let mut rows = Vec::new();
        for _ in 0..axes {
            let iv = reg(RegRole::Induction);
            let mut per_engine = [RegId::NONE; 5];
            per_engine[0] = iv;
            rows.push(AxisRegs { iv, limit: RegId::NONE, condition: RegId::NONE, per_engine });
        }
        let (dst, tmp) = (reg(RegRole::ApOffset), reg(RegRole::Temp));
        let terms: Vec<_> =
            (0..axes).map(|k| (exprs.intern(Expr::AxisIv(AxisId::new(k))), 3 + k as i64)).collect();
        let e = exprs.affine(terms, 40);
        let done =
            lower_affine_expr(&mut walk, &exprs, &rows, e, EngineId::Pool, HloId(0), InstId::NONE, dst, tmp);
        assert_eq!(done, Ok(()));
        let Walk { staging, order } = walk;
        staging.flush(&mut world);
        world.insert_resource(Order(order));
        let mut expected = vec!["mov RegAPOffset 40".to_owned()];
        for k in 0..axes {
            expected.push(format!("06 RegTemp Iv {}", 3 + k));
            expected.push("04 RegAPOffset RegTemp RegAPOffset".into());
        }
        let operands = |l: &str| {
            let mut words: Vec<String> = l.split(' ').map(str::to_owned).collect();
            words.get_mut(2..).unwrap_or_default().sort();
            words
        };
        let got: Vec<_> = code(&mut world).iter().map(|l| operands(l)).collect();
        assert_eq!(got, expected.iter().map(|l| operands(l)).collect::<Vec<_>>(), "{axes} axes");
    }
}

/// What an axis breaks: lower bound, upper bound, step.
fn broken(make: impl Fn(&mut Exprs) -> (ExprId, ExprId, ExprId)) -> Option<&'static str> {
    let mut exprs = Exprs::default();
    let (lb, ub, step) = make(&mut exprs);
    let head = AxisHead {
        parent: AxisId::NONE,
        begin: InstId::NONE,
        end: InstId::NONE,
        kind: LoopKind::DynamicFor,
        unsigned: 0,
        depth: 0,
    };
    let regs =
        AxisRegs { iv: RegId(1), limit: RegId::NONE, condition: RegId::NONE, per_engine: [RegId::NONE; 5] };
    check(&head, &AxisBounds { lb, ub, step, max_trip: 8 }, &regs, &exprs).err().map(|b| b.rule)
}

#[test]
fn hook_04_dynamic_for_rules() {
    let reg = |x: &mut Exprs, id: u32, coef: i64| {
        let r = x.intern(Expr::RuntimeInt(RegId(id)));
        x.affine([(r, coef)], 2)
    };
    let constant = |x: &mut Exprs, c: i64| x.constant(c);
    let odd = |x: &mut Exprs| {
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        x.intern(Expr::Modulo { numer: i, denom: 2 })
    };
    assert_eq!(broken(|x| (constant(x, 0), reg(x, 3, 2), constant(x, 1))), None);
    assert_eq!(broken(|x| (odd(x), reg(x, 3, 1), constant(x, 1))), Some("182"));
    assert_eq!(broken(|x| (reg(x, 2, 1), reg(x, 3, 1), constant(x, 1))), Some("183"));
    assert_eq!(broken(|x| (constant(x, 0), odd(x), constant(x, 1))), Some("184"));
    assert_eq!(broken(|x| (constant(x, 0), constant(x, 9), constant(x, 1))), Some("185"));
    let two = |x: &mut Exprs| {
        let (a, b) = (x.intern(Expr::RuntimeInt(RegId(3))), x.intern(Expr::RuntimeInt(RegId(4))));
        x.affine([(a, 1), (b, 1)], 0)
    };
    assert_eq!(broken(|x| (constant(x, 0), two(x), constant(x, 1))), Some("185"));
    let axis = |x: &mut Exprs| {
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        x.affine([(i, 1)], 0)
    };
    assert_eq!(broken(|x| (constant(x, 0), axis(x), constant(x, 1))), Some("186"));
    assert_eq!(broken(|x| (constant(x, 0), reg(x, 3, 1), odd(x))), Some("187"));
    assert_eq!(broken(|x| (constant(x, 0), reg(x, 3, 1), reg(x, 4, 1))), Some("188"));
    assert_eq!(broken(|x| (constant(x, 0), reg(x, u32::MAX, 1), constant(x, 1))), Some("195"));
}

#[test]
fn hook_05_trip_evaluation() {
    // Limits: the scalar; three less than twice the scalar; ten less than nothing.
    let plain = "  k = s32[] constant(0)\n  limit = s32[] add(x, k)\n";
    let twice = "  k = s32[] constant(2)\n  d = s32[] multiply(x, k)\n  j = s32[] constant(-3)\n  limit = s32[] add(d, j)\n";
    let negative = "  k = s32[] constant(10)\n  limit = s32[] subtract(k, x)\n";
    let limits: [(&str, fn(i64) -> i64); 3] =
        [(plain, |x| x), (twice, |x| 2 * x - 3), (negative, |x| 10 - x)];
    for (start, step) in [(0, 1), (3, 1), (-5, 2), (7, 3), (0, 64)] {
        for (text, limit) in limits {
            let program = support::compiled(&support::module(&counting(start, step, text)), Target::Trn2);
            for n in [-7, 0, 1, 3, 4, 10, 13, 100] {
                let last = limit(i64::from(n)).max(i64::from(start)) - i64::from(start);
                let trips = (last + i64::from(step) - 1) / i64::from(step);
                let got = support::simulated(&program, &[s32s(&[n], &[])], None);
                assert_eq!(
                    got[0].data,
                    (trips as i32).to_le_bytes(),
                    "from {start} by {step} to {n}: {text}"
                );
            }
        }
    }
}

#[test]
fn hook_06_euclidean_modulo() {
    let mut x = Exprs::default();
    for (value, by, expected) in [(-1, 3, 2), (-3, 3, 0), (7, 3, 1), (-7, 4, 1)] {
        let e = x.constant(value);
        let expected = x.constant(expected);
        assert_eq!(x.modulo(e, by), Some(expected), "{value} mod {by}");
    }
    // Coefficients and the constant are reduced the same way.
    let i = x.intern(Expr::AxisIv(AxisId(0)));
    let e = x.affine([(i, -2)], -1);
    let reduced = x.modulo(e, 3).map(|m| x.get(m).clone());
    let Some(Expr::Modulo { numer, denom: 3 }) = reduced else { panic!("{reduced:?}") };
    assert_eq!(x.as_affine(numer), Some((vec![(i, 1)], 2)));
}

#[test]
fn hook_07_hwdge_engines() {
    use EngineId::{Activation, Dma, Dve, Pe, Pool, Sp, Unassigned};
    let mut turn = HwdgeTurn(0);
    let robin: Vec<_> = (0..7).map(|_| hwdge_engine(50, Pool, &mut turn)).collect();
    assert_eq!(robin, [Sp, Activation, Dve, Sp, Activation, Dve, Sp].map(Some));
    for arch in [30, 40, 49] {
        let ladder = [
            (Dma, Some(Sp)),
            (Unassigned, Some(Sp)),
            (Pool, Some(Sp)),
            (Activation, Some(Activation)),
            (Dve, Some(Activation)),
            (Sp, Some(Sp)),
            (Pe, None),
        ];
        for (current, expected) in ladder {
            assert_eq!(hwdge_engine(arch, current, &mut HwdgeTurn(0)), expected, "{arch} {current:?}");
        }
    }
}

#[test]
fn hook_08_ring_depths() {
    assert_eq!((ring_depth(DgeType::Swdge), ring_depth(DgeType::Hwdge)), (1020, 65520));
    // 2,500 rows in one copy: every block stays in the ring, together they move every row.
    let text = "HloModule m\n\nENTRY main {\n  x = f32[5000,3] parameter(0)\n  \
        ROOT y = f32[2500,3] slice(x), slice={[0:5000:2], [0:3]}\n}\n";
    let program = support::compiled(&support::module(text), Target::Trn2);
    let mut rows = 0;
    for block in &program.blocks {
        let records = &program.descriptors[block.first as usize..(block.first + block.count) as usize];
        let runs: u32 = records
            .iter()
            .map(|r| match decode(r) {
                Ok((Instr::DmaDirect(d), _)) => u32::from(d.src_num[0]) * u32::from(d.src_num[1]),
                other => panic!("{other:?}"),
            })
            .sum();
        assert!(block.count <= 1020, "{} descriptors", block.count);
        rows += runs;
    }
    assert!(rows >= 2500, "{rows} rows");
    let x = floats(15000, &[5000, 3], 1.0);
    let got = support::simulated(&program, &[x], Some(3));
    let expected: Vec<u8> = (0..2500u32)
        .flat_map(|r| (0..3).map(move |c| (r * 6 + c) as f32))
        .flat_map(f32::to_le_bytes)
        .collect();
    assert!(got[0].data == expected);
}

#[test]
fn hook_09_indirect_arguments_are_dense() {
    // Three gathers: whatever ids their offsets had, behind the address stage they have none or the ranks 0, 1 ...
    let text = "HloModule m\n\nENTRY main {\n  t = f32[20,6] parameter(0)\n  a = s32[5] parameter(1)\n  b = s32[5] parameter(2)\n  \
        g = f32[5,6] gather(t, a), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}\n  \
        h = f32[5,6] gather(t, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}\n  \
        ROOT s = f32[5,6] add(g, h)\n}\n";
    let options = CompileOptions { stop_after: Some(Stage::Address), ..CompileOptions::default() };
    let mut world = up_to(text, options).world;
    let mut q = world.query::<&ApHead>();
    let keys: Vec<(InstId, PayloadKey)> = q.iter(&world).map(|a| (a.inst, a.dynamic.payload)).collect();
    let payloads = world.resource::<Payloads>();
    let mut by_inst: Vec<(InstId, Vec<i32>)> = Vec::new();
    for (inst, key) in keys {
        let Some(d) = payloads.dynamic(key).filter(|d| d.tensor_indirect_arg_id >= 0) else { continue };
        match by_inst.iter_mut().find(|(i, _)| *i == inst) {
            Some((_, ids)) => ids.push(d.tensor_indirect_arg_id),
            None => by_inst.push((inst, vec![d.tensor_indirect_arg_id])),
        }
    }
    assert_eq!(by_inst.len(), 2, "{by_inst:?}");
    for (inst, mut ids) in by_inst {
        ids.sort();
        assert_eq!(ids, (0..ids.len() as i32).collect::<Vec<_>>(), "{inst:?}");
    }
}

#[test]
fn hook_10_scalar_or_vector_never_both() {
    // The flags are one value here; in the record a vector has its extension and no offset register, a scalar the reverse.
    for (text, vector) in [(WRITE, false), (ROWS, true)] {
        let program = support::compiled(&support::module(text), Target::Trn2);
        let pool = &program.streams[0];
        let mut seen = 0;
        for (k, record) in pool.iter().enumerate() {
            let Ok((Instr::DmaDirect(d), _)) = decode(record) else { continue };
            let scalar = [d.src_bound, d.dst_bound].iter().any(|b| *b != BoundRegister::NONE);
            let indexed = d.dge_op == 1;
            let extended =
                pool.get(k + 1).is_some_and(|r| matches!(decode(r), Ok((Instr::DmaExtension(_), _))));
            if scalar || indexed {
                assert_eq!((scalar, indexed, extended), (!vector, vector, vector));
                seen += 1;
            }
        }
        assert_eq!(seen, 1, "{text}");
    }
}

#[test]
fn hook_11_cleanup_finds_generated_copies_while_all_is_off() {
    let options = CompileOptions { stop_after: Some(Stage::Route), ..CompileOptions::default() };
    let mut world = up_to(WRITE, options).world;
    assert!(routes(&mut world).contains(&DgeType::Swdge));
    world.run_system_once(dynamic_dma_cleanup).expect("the pass runs");
    assert!(!world.resource::<Diagnostics>().has_errors());
    world.resource_mut::<CompileOptions>().dge_levels = DgeLevels(0);
    world.run_system_once(dynamic_dma_cleanup).expect("the pass runs");
    let faults = world.resource::<Diagnostics>().take();
    assert!(faults.iter().any(|d| d.code.id == "MUR0432"), "{faults:?}");
    assert!(routes(&mut world).iter().all(|r| *r == DgeType::None));
}

#[test]
fn hook_12_the_scan_is_idempotent() {
    for text in [WRITE, ROWS, DROP] {
        let options = CompileOptions { stop_after: Some(Stage::Route), ..CompileOptions::default() };
        let mut world = up_to(text, options).world;
        let before = routes(&mut world);
        assert!(!before.contains(&DgeType::Unassigned) && !before.is_empty());
        for _ in 0..2 {
            world.run_system_once(dynamic_dma_scan).expect("the pass runs");
            assert_eq!(routes(&mut world), before);
        }
        assert!(!world.resource::<Diagnostics>().has_errors());
    }
}

#[test]
fn hook_13_gather_and_scatter_against_loops() {
    let (rows, width) = (20i32, 6usize);
    let table = floats(120, &[20, 6], 1.0);
    let value = |r: i32, c: usize| (r as usize * width + c) as f32;
    let ids = [3, -1, 20, 19, 0];
    // A gather clamps.
    let gather = support::compiled(&support::module(ROWS), Target::Trn2);
    let got = support::simulated(&gather, &[table.clone(), s32s(&ids, &[5])], Some(1));
    let mut expected = Vec::new();
    for id in ids {
        for c in 0..width {
            expected.extend(value(id.clamp(0, rows - 1), c).to_le_bytes());
        }
    }
    assert_eq!(got[0].data, expected);
    // A scatter skips what is outside: -1, and past the end.
    let scatter = support::compiled(&support::module(DROP), Target::Trn2);
    let updates = floats(30, &[5, 6], -1.0);
    let got = support::simulated(&scatter, &[table, s32s(&ids, &[5, 1]), updates], Some(2));
    let mut expected: Vec<f32> = (0..120).map(|k| k as f32).collect();
    for (k, id) in ids.into_iter().enumerate().filter(|(_, id)| (0..rows).contains(id)) {
        for c in 0..width {
            expected[id as usize * width + c] = -((k * width + c) as f32);
        }
    }
    assert_eq!(got[0].data, expected.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
}
