//! Addresses as register code: what the address passes emit, run by the simulator, is what plain arithmetic says. Random
//! affine forms over loop axes and run-time registers; on-chip addresses with immediate and with loaded bases; byte offsets
//! of dynamic DMAs, narrow and wide; whole programs with pointer bases and with a variable of more than 2 GiB.

mod sim_build;
mod support;

use bevy_ecs::system::RunSystemOnce;
use bevy_ecs::world::World;
use murre::components::bir::*;
use murre::components::dtype::DType;
use murre::components::engine::EngineId;
use murre::components::hlo::HloModule;
use murre::components::ids::*;
use murre::components::isa::{
    Events, Instr, RegisterAlu, RegisterMove, VariableAccess, VariableAccessOp, encode,
};
use murre::components::program::{Record, Var, VarKind};
use murre::systems::address::affine::lower_affine_expr;
use murre::systems::address::expand_dynamic_ap_info::expand_dynamic_ap_info;
use murre::systems::address::lower_ap::lower_ap;
use murre::systems::address::walk::Walk;
use murre::systems::staging::{Operand, Staging};
use murre::systems::{CompileOptions, Compiler};
use proptest::prelude::*;
use sim_build::{Build, SP, save, set, words};

/// Register code of a world on the simulator's SP, its registers at ids in the order of the table, pairs even-aligned.
struct Code {
    world: World,
    inputs: Vec<(RegId, u32)>,
}

impl Code {
    fn new(pointer_bases: bool) -> Code {
        let options = CompileOptions { pointer_bases, ..CompileOptions::default() };
        Code { world: Compiler::new(HloModule::default(), options).world, inputs: Vec::new() }
    }

    fn rows<T: bevy_ecs::component::Component + Copy>(&mut self) -> Vec<T> {
        let mut q = self.world.query::<&T>();
        q.iter(&self.world).copied().collect()
    }

    /// The values of `results` after the program.
    fn run(&mut self, results: &[RegId]) -> Vec<u64> {
        let heads: Vec<RegHead> = self.rows();
        let mut next = 0u8;
        let colours: Vec<u8> = heads
            .iter()
            .map(|h| {
                let low = if h.width == 2 { next.next_multiple_of(2) } else { next };
                next = low + h.width;
                low
            })
            .collect();
        assert!(next <= 62);
        let colour = |r: RegId| if r.is_some() { colours[r.index()] } else { 0 };
        let wide = |r: RegId| r.is_some() && heads[r.index()].width == 2;
        let mut t = Build::new();
        let places: Vec<LocPlace> = self.rows();
        let locs: Vec<(LocHead, LocFrom)> = self.rows().into_iter().zip(self.rows()).collect();
        t.p.constants = self.world.resource::<ConstPool>().0.clone();
        let pointers: Vec<(u32, u64)> = locs
            .iter()
            .zip(&places)
            .filter(|((h, _), _)| h.kind == VarKind::Pointer)
            .map(|((_, from), place)| (place.address, u64::from(from.ordinal)))
            .collect();
        for (id, const_offset) in pointers {
            assert_eq!(id as usize, t.p.vars.len());
            let name = format!("p{id}-ADDR");
            t.p.vars.push(Var { name, kind: VarKind::Pointer, bytes: 8, const_offset });
        }
        for (r, value) in &self.inputs {
            t.push(SP, set(colour(*r), *value));
        }
        let insts: Vec<InstHead> = self.rows();
        let (args, regs): (Vec<InstArgs>, Vec<InstRegs>) = (self.rows(), self.rows());
        let operands: Vec<InstOperands> = self.rows();
        let aps: Vec<ApHead> = self.rows();
        for id in self.world.resource::<Order>().0.clone() {
            let (a, r) = (args[id.index()], regs[id.index()]);
            let (dst, src0, src1) = (colour(r.dst), colour(r.src0), colour(r.src1));
            let pair = |r: RegId, low: u8| if wide(r) && a.dtype == 1 { low + 1 } else { 0 };
            let instr: Instr = match insts[id.index()].op {
                Opcode::RegisterMove => {
                    let lanes = [dst, if wide(r.dst) { dst + 1 } else { 0 }, 0, 0, 0, 0, 0, 0];
                    let imm = [a.imm0, a.imm1, 0, 0, 0, 0, 0, 0];
                    let count = 1 + u8::from(wide(r.dst));
                    RegisterMove { count, dtype: a.dtype, source: 1, src: [0; 8], dst: lanes, imm }.into()
                }
                Opcode::RegisterAlu => {
                    let register = a.mode == 0;
                    RegisterAlu {
                        op: a.op0,
                        dtype: a.dtype,
                        source: a.mode,
                        dst_dtype: 0,
                        src0,
                        src0_high: pair(r.src0, src0),
                        src1: if register { src1 } else { 0 },
                        src1_high: if register { pair(r.src1, src1) } else { 0 },
                        dst,
                        dst_high: pair(r.dst, dst),
                        imm: if register { 0 } else { u64::from(a.imm0) },
                    }
                    .into()
                }
                Opcode::TensorLoad => {
                    let source = aps[operands[id.index()].input(0).index()].loc;
                    let two = wide(r.dst);
                    VariableAccess {
                        opcode: VariableAccessOp::TensorLoad,
                        dtype: 8,
                        num: [1 + u8::from(two), 1],
                        variable: places[source.index()].address,
                        offset: 0,
                        step: [1, 1],
                        data: dst,
                        data_high: if two { dst + 1 } else { 0 },
                    }
                    .into()
                }
                _ => continue,
            };
            t.push(SP, encode(&instr, &Events::NONE));
        }
        for r in results {
            for lane in 0..2 {
                let out = t.var(VarKind::Output, 4);
                let record: Record =
                    if lane < heads[r.index()].width { save(colour(*r) + lane, out) } else { save(62, out) };
                t.push(SP, record);
            }
        }
        t.p.streams[SP].insert(0, set(62, 0));
        let outputs = t.run().unwrap_or_else(|d| panic!("{d:?}"));
        let lanes: Vec<u64> = outputs.iter().map(|o| u64::from(words(o)[0])).collect();
        lanes.chunks(2).map(|l| l[0] | l[1] << 32).collect()
    }

    /// A register of SP with a value.
    fn input(&mut self, s: &mut Staging, value: u32) -> RegId {
        let r = s.reg(RegRow::new(EngineId::Sp, RegRole::Scalar, HloId(0)));
        self.inputs.push((r, value));
        r
    }
}

/// An axis whose induction register on SP is `iv`.
fn axis(iv: RegId) -> AxisRegs {
    let mut per_engine = [RegId::NONE; 5];
    per_engine[4] = iv;
    AxisRegs { iv: RegId::NONE, limit: RegId::NONE, condition: RegId::NONE, per_engine }
}

/// `c + sum(coef * index)` by `lower_affine_expr`; the first `axes` indices are loop axes, the others registers.
fn affine(c: i64, terms: &[(i64, u32)], axes: usize) -> u64 {
    let mut code = Code::new(false);
    let mut walk = Walk::new(Staging::new(&code.world), 0);
    let mut rows = Vec::new();
    let indices: Vec<(ExprId, i64)> = terms
        .iter()
        .enumerate()
        .map(|(k, (coef, value))| {
            let reg = code.input(&mut walk.staging, *value);
            rows.push(axis(reg));
            let index = if k < axes { Expr::AxisIv(AxisId(k as u32)) } else { Expr::RuntimeInt(reg) };
            (code.world.resource_mut::<Exprs>().intern(index), *coef)
        })
        .collect();
    let e = code.world.resource_mut::<Exprs>().affine(indices, c);
    let from = InstFrom { hlo: HloId(0), owner: InstId::NONE };
    let dst = walk.reg(EngineId::Sp, RegRole::ApOffset, from, InstId(0), LocId::NONE);
    let tmp = walk.reg(EngineId::Sp, RegRole::Temp, from, InstId(0), LocId::NONE);
    let exprs = code.world.resource::<Exprs>();
    lower_affine_expr(&mut walk, exprs, &rows, e, EngineId::Sp, HloId(0), InstId::NONE, dst, tmp).unwrap();
    let Walk { staging, order } = walk;
    // A move, then a product and a sum a term.
    assert_eq!(order.len(), 1 + 2 * terms.iter().filter(|t| t.0 != 0).count());
    staging.flush(&mut code.world);
    code.world.insert_resource(Order(order));
    code.run(&[dst])[0]
}

#[test]
fn forms_of_no_one_and_two_axes() {
    assert_eq!(affine(17, &[], 0), 17);
    assert_eq!(affine(17, &[(96, 5)], 1), 17 + 480);
    assert_eq!(affine(0, &[(96, 5), (1, 7)], 2), 487);
    assert_eq!(affine(500, &[(-96, 5), (2, 7)], 1), 500 - 480 + 14);
}

/// A run-time operand on chip or in DRAM: `terms` over registers, `c` in front.
fn operand(
    code: &mut Code,
    s: &mut Staging,
    row: LocRow,
    dtype: DType,
    c: i64,
    terms: &[(i64, u32)],
) -> Operand {
    let loc = s.loc(row);
    let indices: Vec<(ExprId, i64)> = terms
        .iter()
        .map(|(coef, value)| {
            let reg = code.input(s, *value);
            (code.world.resource_mut::<Exprs>().intern(Expr::RuntimeInt(reg)), *coef)
        })
        .collect();
    let step = row.head.part_elems.min(1 << 20) as i32;
    let payload = if row.head.space == Space::Dram {
        Payload::Dynamic(DynamicApInfo {
            kind: OffsetKind::Scalar,
            terms: indices.iter().map(|(expr, coef)| DynamicTerm { expr: *expr, coef: *coef }).collect(),
            c,
            indirect_dim: 0,
            indirect_dim_max_index: u32::MAX,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        })
    } else {
        let mut exprs = code.world.resource_mut::<Exprs>();
        Payload::Symbolic(SymbolicAddress { tile: exprs.affine(indices, c), block: exprs.constant(0) })
    };
    Operand {
        loc,
        offset: 0,
        dtype,
        pattern: ApPattern::of([(step, 1), (1, 4)]),
        kind: if row.head.space == Space::Dram { ApKind::Physical } else { ApKind::Symbolic },
        payload: code.world.resource_mut::<Payloads>().0.insert(payload),
        flags: 0,
    }
}

/// The address register of a symbolic operand.
fn on_chip(
    space: Space,
    part: u64,
    place: u32,
    dtype: DType,
    c: i64,
    terms: &[(i64, u32)],
    pointers: bool,
) -> u64 {
    let mut code = Code::new(pointers);
    let mut s = Staging::new(&code.world);
    let mut row = LocRow::new(space, dtype, 4, part, HloId(0));
    row.place.address = place;
    let side = operand(&mut code, &mut s, row, dtype, c, terms);
    let mut row = InstRow::new(Opcode::TensorCopyDynamicSrc, EngineId::Sp, HloId(0));
    row.head.flags = InstHead::DYNAMIC;
    let id = s.inst(row, &[], &[side]);
    s.flush(&mut code.world);
    code.world.insert_resource(Order(vec![id]));
    code.world.run_system_once(lower_ap).expect("it runs");
    let aps: Vec<ApHead> = code.rows();
    code.run(&[aps[0].dynamic.address])[0]
}

/// Offset and bound of a DMA into a variable of `elems` f32.
fn in_dram(elems: u64, c: i64, terms: &[(i64, u32)]) -> (u64, u64) {
    let mut code = Code::new(false);
    let mut s = Staging::new(&code.world);
    let row = LocRow::new(Space::Dram, DType::F32, 1, elems, HloId(0));
    let side = operand(&mut code, &mut s, row, DType::F32, c, terms);
    let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Sp, HloId(0));
    row.head.flags = InstHead::DYNAMIC;
    let id = s.inst(row, &[side], &[]);
    s.flush(&mut code.world);
    code.world.insert_resource(Order(vec![id]));
    code.world.run_system_once(expand_dynamic_ap_info).expect("it runs");
    let regs: Vec<InstRegs> = code.rows();
    let got = code.run(&[regs[0].src0, regs[0].src1]);
    (got[0], got[1])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn affine_forms(
        c in -1000i64..1000,
        terms in proptest::collection::vec((-100i64..100, 0u32..10_000), 0..5),
        axes in 0usize..3,
    ) {
        let want = terms.iter().fold(c, |s, (k, v)| s + k * i64::from(*v));
        prop_assert_eq!(affine(c, &terms, axes), u64::from(want as u32));
    }

    #[test]
    fn on_chip_addresses(
        psum in any::<bool>(),
        part in 1u64..200,
        place in 0u32..1000,
        c in 0i64..100,
        terms in proptest::collection::vec((1i64..50, 0u32..8), 0..4),
        half in any::<bool>(),
    ) {
        let (space, base, stride) =
            if psum { (Space::Psum, 0x0200_0000, 0x8000) } else { (Space::Sbuf, 0, 0x4_0000) };
        let dtype = if half { DType::Bf16 } else { DType::F32 };
        let (bytes, off) = (u64::from(dtype.bytes()), terms.iter().fold(c, |s, (k, v)| s + k * i64::from(*v)) as u64);
        let want = base + u64::from(place) + off / part * stride + off % part * bytes;
        for pointers in [false, true] {
            prop_assert_eq!(on_chip(space, part, place, dtype, c, &terms, pointers), want);
        }
    }

    #[test]
    fn offsets_into_dram(
        c in 0i64..1000,
        terms in proptest::collection::vec((1i64..100_000, 0u32..1000), 0..4),
        wide in any::<bool>(),
    ) {
        let elems = if wide { 1 << 29 } else { (1 << 29) - 1 };
        let want = terms.iter().fold(c, |s, (k, v)| s + k * i64::from(*v)) as u64 * 4;
        prop_assert_eq!(in_dram(elems, c, &terms), (want, elems * 4));
    }
}

#[test]
fn a_wide_offset_carries_into_its_high_half() {
    // 3 * 2^30 bytes and one row past them: the sum does not fit 32 bits of a signed register, nor 32 bits at all.
    assert_eq!(in_dram(1 << 30, 0, &[(1 << 20, 768), (1, 8)]), ((3 << 30) + 32, 1 << 32));
    assert_eq!(in_dram(1 << 30, (1 << 30) - 1, &[(1, 1)]).0, 1 << 32);
}

/// A row of a variable of 2 GiB and 4 KiB is written and read again past the first 2 GiB, at run-time and at fixed offsets.
/// The variable is scratch here, so that the simulator touches only the pages in use.
#[test]
fn a_variable_past_2_gib_is_addressed_by_pairs() {
    let text = "HloModule big, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  p = f32[536871936] parameter(0)
  new = f32[8] parameter(1)
  i = s32[] parameter(2)
  next = f32[536871936] dynamic-update-slice(p, new, i)
  got = f32[8] dynamic-slice(next, i), dynamic_slice_sizes={8}
  fixed = f32[8] slice(next), slice={[536870920:536870928]}
  ROOT r = (f32[536871936], f32[8], f32[8]) tuple(next, got, fixed)
}
";
    let module = support::module(text);
    let mut p = support::compiled(&module, murre::components::engine::Target::Trn2);
    let big = p.inputs().next().unwrap().var;
    assert!(p.vars[big as usize].bytes > 1 << 31);
    // The wide form of a table address: marker 2C, bytes 7 of either address.
    let wide = p.streams.iter().flatten().filter(|r| r[0] == 0xD4 && r.contains(&0x2C)).count();
    assert!(wide >= 2, "both copies with a run-time offset take the wide form");
    p.vars[big as usize].kind = VarKind::Internal;
    p.symbols.retain(|s| s.var != big);
    for input in [true, false] {
        for (k, s) in p.symbols.iter_mut().filter(|s| s.input == input).enumerate() {
            s.index = k as u32;
        }
    }
    let row: Vec<f32> = (1..9).map(|k| k as f32).collect();
    let inputs = [sim_build::f(&row), 536_870_920u32.to_le_bytes().to_vec()];
    let options = murre::sim::SimOptions::default();
    let out = murre::sim::run(&p, &inputs, &options).unwrap_or_else(|d| panic!("{d:?}")).outputs;
    assert_eq!(sim_build::floats(&out[0]), row);
    assert_eq!(sim_build::floats(&out[1]), row);
}

/// Two caches updated at one position, a row read from each: the position is clamped once.
#[test]
fn copies_at_one_position_share_their_clamp() {
    let text = "HloModule caches

ENTRY main {
  k = f32[64,128] parameter(0)
  v = f32[64,128] parameter(1)
  row = f32[1,128] parameter(2)
  pos = s32[] parameter(3)
  zero = s32[] constant(0)
  k1 = f32[64,128] dynamic-update-slice(k, row, pos, zero)
  v1 = f32[64,128] dynamic-update-slice(v, row, pos, zero)
  ROOT r = (f32[64,128], f32[64,128]) tuple(k1, v1)
}
";
    let program = support::compiled(&support::module(text), murre::components::engine::Target::Trn2);
    // RegisterAlu with minimum, the upper end of the clamp.
    let clamps = program.streams.iter().flatten().filter(|r| r[0] == 0xA8 && r[0x0C] == 0x09).count();
    assert_eq!(clamps, 1);
    assert_eq!(support::judge(text, &[true, true], 5), support::Verdict::Equal);
}

/// The forms of `spec/ir.md 2.2, 4, 5.4` in the tables that `--print-after` prints: right-hand sides, records, dynamic infos,
/// the seven registers of a loaded base.
#[test]
fn dumps_have_the_names_of_the_ir() {
    use murre::report::dump;
    use murre::systems::Stage;
    let text = "HloModule names

ENTRY main {
  x = f32[64,128] parameter(0)
  pos = s32[] parameter(1)
  zero = s32[] constant(0)
  line = f32[64] parameter(2)
  new = f32[4] parameter(3)
  row = f32[1,128] dynamic-slice(x, pos, zero), dynamic_slice_sizes={1,128}
  twice = f32[64] add(line, line)
  next = f32[64] dynamic-update-slice(twice, new, pos)
  back = f32[64] negate(next)
  ROOT r = (f32[1,128], f32[64]) tuple(row, back)
}
";
    let after = |last: Stage| {
        let options = CompileOptions { pointer_bases: true, verify: true, ..CompileOptions::default() };
        let mut c = Compiler::new(support::module(text), options);
        let at = Stage::ALL.iter().position(|s| *s == last).unwrap();
        c.run(&Stage::ALL[..=at]);
        dump(&mut c.world)
    };
    let nodes = after(Stage::Penguin);
    let line =
        |what: &str| nodes.lines().find(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}\n{nodes}"));
    let gather = line("= dynamic_copy_src dram");
    assert!(gather.contains(" generic_dim:[0] generic_addrs: %r"), "{gather}");
    assert!(line("= dynamic_copy_dst sbuf").contains("TensorCopyDynamicDst"), "{nodes}");
    let record = line("\"kind\":\"TensorCopyDynamicSrc\"");
    assert!(record.contains("\"generic_dim\":0,\"offset_scale\":128,"), "{record}");
    let infos = after(Stage::Codegen);
    assert!(infos.contains("{\"dynamic_ap_info\":{\"actual_ap\":\"dram"), "{infos}");
    let registers = after(Stage::Address);
    let suffixes =
        ["RegAPOffset", "RegSubTensorId", "RegTemp", "RegDramAddr0", "RegDramAddr1", "RegTemp1", "RegAPAddr"];
    for suffix in suffixes {
        assert!(registers.contains(&format!("_{suffix}_sbuf")), "{suffix}\n{registers}");
    }
    assert!(registers.contains("-dynamic-offset-reg-dram"), "{registers}");
}

/// Pairs of registers stand in 32-bit operations by their low lanes; the checks between stages know that.
#[test]
fn programs_with_pairs_of_registers_pass_the_checks() {
    let on_chip = "HloModule m
ENTRY e {
  t = f32[16,16] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  a = f32[16,16] add(t, t)
  d = f32[16,1] dynamic-slice(a, z, i), dynamic_slice_sizes={16,1}
  ROOT b = f32[16,1] add(d, d)
}
";
    let beyond_32_bits = "HloModule m
ENTRY e {
  t = s8[2400000,1024] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  ROOT d = s8[1,1024] dynamic-slice(t, i, z), dynamic_slice_sizes={1,1024}
}
";
    for (text, pointer_bases) in [(on_chip, true), (beyond_32_bits, false)] {
        let options = CompileOptions { pointer_bases, verify: true, ..CompileOptions::default() };
        let outcome = murre::systems::compile(support::module(text), options);
        assert!(outcome.program.is_some(), "{:#?}", outcome.diagnostics);
    }
}

/// Every real program with a run-time address on chip computes the same with bases from memory.
#[test]
fn pointer_bases_compute_the_same() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut dirs: Vec<_> = std::fs::read_dir(root).expect("fixtures").flatten().map(|e| e.path()).collect();
    dirs.sort();
    let mut loaded = 0;
    for dir in dirs.into_iter().filter(|d| d.join("case.json").exists()) {
        let case = murre::array::case::load_case(&dir).expect("a readable case");
        let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a readable module");
        let module = murre::hlo::read_module(&bytes, "text").expect("a module");
        let options = CompileOptions { pointer_bases: true, verify: true, ..CompileOptions::default() };
        let outcome = murre::systems::compile(module, options);
        let program = outcome.program.unwrap_or_else(|| panic!("{}: {:#?}", case.name, outcome.diagnostics));
        if program.vars.iter().all(|v| v.kind != VarKind::Pointer) {
            continue;
        }
        let program = murre::artifact::read(&murre::artifact::write(&program)).expect("its artifact");
        loaded += 1;
        for vector in &case.vectors {
            let inputs = case.read_inputs(vector).expect("inputs");
            let goldens = case.read_goldens(vector).expect("goldens");
            let got = support::simulated(&program, &inputs, Some(1));
            let wrong = case.compare(&got, &goldens);
            assert!(wrong.is_empty(), "{} {}: {}", case.name, vector.name, wrong[0].1.message);
        }
    }
    assert!(loaded > 0, "no case has a run-time address on chip");
}
