//! Hand-made post-address programs through route, describe and encode.

use crate::options::{CompileOptions, DgeLevels};
use crate::pass::Stage;
use crate::route::RouteReason;
use crate::route::RouteReasons;
use crate::staging::{Operand, Staging};
use crate::{CompileOutcome, Compiler};
use arrayvec::ArrayVec;
use murre_components::bir::*;
use murre_components::dtype::{DType, HloType};
use murre_components::engine::{EngineId, Target};
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::isa::{self, Addr8Form, Instr};
use murre_components::program::{Program, TableEntry, VarKind};
use std::slice::from_ref;

pub(super) const BACK: [Stage; 3] = [Stage::Route, Stage::Describe, Stage::Encode];

/// A program under construction.
pub(super) struct Bench {
    c: Compiler,
    pub(super) s: Staging,
    order: Vec<InstId>,
    drams: u32,
    dynamic: Vec<(InstId, bool, RegId)>,
}

impl Bench {
    pub(super) fn new(target: Target, levels: u8) -> Self {
        let o = CompileOptions { target, dge_levels: DgeLevels(levels), verify: true, ..Default::default() };
        let c = Compiler::new(HloModule::default(), o);
        let s = Staging::new(&c.world);
        Bench { c, s, order: Vec::new(), drams: 0, dynamic: Vec::new() }
    }

    pub(super) fn dram(&mut self, kind: VarKind, dtype: DType, elems: u64, ordinal: u32) -> LocId {
        let mut row = LocRow::new(Space::Dram, dtype, 1, elems, HloId::NONE);
        row.head.kind = kind;
        row.place = LocPlace { address: self.drams, table_entry: self.drams };
        row.from.ordinal = ordinal;
        self.drams += 1;
        self.s.loc(row)
    }

    pub(super) fn sbuf(&mut self, dtype: DType, elems: u64, address: u32) -> LocId {
        let mut row = LocRow::new(Space::Sbuf, dtype, 128, elems, HloId::NONE);
        row.place.address = address;
        self.s.loc(row)
    }

    fn inst(&mut self, row: InstRow, outputs: &[Operand], inputs: &[Operand]) -> InstId {
        let id = self.s.inst(row, outputs, inputs);
        self.order.push(id);
        id
    }

    pub(super) fn copy(&mut self, dst: Operand, src: Operand, io: bool) -> InstId {
        let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Dma, HloId::NONE);
        row.head.flags = if io { InstHead::IO } else { 0 };
        self.inst(row, &[dst], &[src])
    }

    /// A copy whose source has its offset in register 9 of Pool.
    pub(super) fn dynamic(&mut self, dst: Operand, mut src: Operand) -> InstId {
        src.payload = self.c.world.resource_mut::<Payloads>().0.insert(Payload::Dynamic(DynamicApInfo {
            kind: OffsetKind::Scalar,
            terms: ArrayVec::new(),
            c: 0,
            indirect_dim: 0,
            indirect_dim_max_index: 1,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        }));
        let mut reg = RegRow::new(EngineId::Pool, RegRole::DynamicOffset, HloId::NONE);
        reg.head.colour = 9;
        let offset = self.s.reg(reg);
        reg.head.colour = 10;
        let bound = self.s.reg(reg);
        let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Pool, HloId::NONE);
        row.head.flags = InstHead::DYNAMIC;
        row.regs = InstRegs { src0: offset, src1: bound, dst: RegId::NONE };
        let id = self.inst(row, &[dst], &[src]);
        self.dynamic.push((id, false, offset));
        id
    }

    pub(super) fn run(mut self, stages: &[Stage]) -> CompileOutcome {
        for engine in EngineId::STREAMS {
            self.inst(InstRow::new(Opcode::Exit, engine, HloId::NONE), &[], &[]);
        }
        for (id, output, reg) in &self.dynamic {
            let row = self.s.insts[id.index()].operands;
            let ap = if *output { row.output(0) } else { row.input(0) };
            self.s.aps[ap.index()].head.dynamic.address = *reg;
        }
        let n = self.order.len() as u32;
        self.s.flush(&mut self.c.world);
        self.c.world.insert_resource(Order(self.order));
        self.c.world.insert_resource(Blocks { starts: vec![0, n], loops: vec![] });
        for stage in stages {
            self.c.run(&[*stage]);
            if *stage == Stage::Describe {
                complete_blocks(&mut self.c);
            }
        }
        self.c.finish()
    }
}

/// What stage 8 does to descriptors: the last one of each block updates the semaphore of its queue.
fn complete_blocks(c: &mut Compiler) {
    let last = |b: &BlockHead| (b.first.0 + b.count) as usize - 1;
    let rows: Vec<usize> = c.world.query::<&BlockHead>().iter(&c.world).map(last).collect();
    for (k, mut d) in c.world.query::<&mut DescHead>().iter_mut(&mut c.world).enumerate() {
        if rows.contains(&k) {
            (d.sem, d.sem_inc) = (8, 1);
        }
    }
}

pub(super) fn op(loc: LocId, offset: u32, dtype: DType, pairs: &[(i32, u32)]) -> Operand {
    let pattern = ApPattern::new(pairs.iter().copied()).unwrap_or_default();
    Operand { loc, offset, dtype, pattern, kind: ApKind::Physical, payload: PayloadKey::default(), flags: 0 }
}

pub(super) fn codes(o: &CompileOutcome) -> Vec<&'static str> {
    o.diagnostics.iter().map(|d| d.code.id).collect()
}

pub(super) fn ok(o: CompileOutcome) -> Program {
    assert!(o.diagnostics.is_empty(), "{:#?}", o.diagnostics);
    o.program.expect("a program without errors")
}

pub(super) fn stream(p: &Program, engine: EngineId) -> Vec<Instr> {
    let records = &p.streams[engine.stream().expect("a stream engine")];
    records.iter().map(|r| isa::decode(r).expect("a legal record").0).collect()
}

fn names(instrs: &[Instr]) -> Vec<u8> {
    instrs.iter().map(|i| i.opcode()).collect()
}

const ROWS: &[(i32, u32)] = &[(64, 128), (1, 64)];

/// in0 -> x; y = x + x; y -> out0.
pub(super) fn add(target: Target, levels: u8) -> Bench {
    let mut b = Bench::new(target, levels);
    let leaf = |name: &str| SignatureLeaf { name: name.into(), ty: HloType::F32, dims: vec![128, 64] };
    b.c.world.insert_resource(Signature {
        inputs: vec![leaf("a")],
        outputs: vec![leaf("out0")],
        ..Default::default()
    });
    let f32 = DType::F32;
    let (a, o) = (b.dram(VarKind::Input, f32, 8192, 0), b.dram(VarKind::Output, f32, 8192, 0));
    let (x, y) = (b.sbuf(f32, 64, 0x5000), b.sbuf(f32, 64, 0x6000));
    b.copy(op(x, 0, f32, ROWS), op(a, 0, f32, ROWS), true);
    let mut tt = InstRow::new(Opcode::TensorTensor, EngineId::Dve, HloId::NONE);
    tt.args.op0 = 4;
    b.inst(tt, &[op(y, 0, f32, ROWS)], &[op(x, 0, f32, ROWS), op(x, 0, f32, ROWS)]);
    b.copy(op(o, 0, f32, ROWS), op(y, 0, f32, ROWS), true);
    b
}

#[test]
fn static_copies_become_blocks_and_triggers() {
    let p = ok(add(Target::Trn2, 0).run(&BACK));
    assert_eq!(names(&stream(&p, EngineId::Sp)), [0xC1, 0xC1, 0xDF]);
    assert_eq!(names(&stream(&p, EngineId::Dve)), [0x41, 0xDF]);
    assert_eq!(names(&stream(&p, EngineId::Pool)), [0xDF]);
    assert_eq!(p.queues.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(), ["q_input_sp", "q_output_sp"]);
    assert_eq!((p.blocks.len(), p.descriptors.len()), (2, 2));
    let Ok((Instr::DmaDirect(d), _)) = isa::decode(&p.descriptors[0]) else { panic!("no DMA record") };
    assert_eq!(d.src.form, Addr8Form::Variable { id: 0, offset: 0 });
    assert_eq!(d.dst.form, Addr8Form::Immediate { address: 0x5000 });
    assert_eq!(
        (d.src_row.bytes(), d.src_num, d.src_step, d.dst_step),
        (256, [128, 1], [256, 0], [0x40000, 0])
    );
    let Instr::TensorTensor(t) = stream(&p, EngineId::Dve)[0] else { panic!("no TensorTensor") };
    assert_eq!(
        (t.src0.addr.word(), t.dst.addr.word(), t.channels, t.src0.num),
        (0x5000, 0x6000, 128, [64, 1, 1])
    );
    assert_eq!((t.src0_dtype, t.out_dtype, t.op), (0xA, 0xA, 4));
    assert_eq!(p.addr4, [0x5000, 0x5000, 0x6000]);
    assert_eq!(
        p.symbols.iter().map(|s| (s.name.as_str(), s.input, s.var)).collect::<Vec<_>>(),
        [("a", true, 0), ("out0", false, 1)]
    );
    assert_eq!((p.vars[0].bytes, p.vars[0].name.as_str(), p.table.len()), (32768, "a", 2));
}

#[test]
fn io_copies_that_fit_are_issued_from_pool() {
    // Rows of 256 bytes are under the floor of 512; rows of 1024 are not.
    for (width, expected) in [(64, DgeType::None), (256, DgeType::Swdge)] {
        let mut b = Bench::new(Target::Trn2, DgeLevels::SCALAR | DgeLevels::IO);
        b.c.world.insert_resource(Signature {
            inputs: vec![SignatureLeaf { name: "a".into(), ty: HloType::F32, dims: vec![128, width] }],
            outputs: vec![],
            ..Default::default()
        });
        let a = b.dram(VarKind::Input, DType::F32, 128 * width, 0);
        let x = b.sbuf(DType::F32, width, 0x5000);
        let rows = [(width as i32, 128), (1, width as u32)];
        b.copy(op(x, 0, DType::F32, &rows), op(a, 0, DType::F32, &rows), true);
        let outcome = b.run(&BACK);
        let reason = outcome.world.resource::<RouteReasons>().0[0];
        let p = ok(outcome);
        if expected == DgeType::Swdge {
            assert_eq!(reason, RouteReason::IoFits);
            assert_eq!(names(&stream(&p, EngineId::Pool)), [0xD4, 0xDF]);
            assert_eq!(p.queues[0].name, "q_dynamic_pool");
        } else {
            assert_eq!(reason, RouteReason::IoDoesNotFit);
            assert_eq!(names(&stream(&p, EngineId::Sp)), [0xC1, 0xDF]);
        }
    }
}

#[test]
fn a_dynamic_copy_is_unrolled_with_table_entries() {
    let mut b = Bench::new(Target::Trn2, DgeLevels::SCALAR | DgeLevels::IO);
    b.c.world.insert_resource(Signature {
        inputs: vec![SignatureLeaf { name: "a".into(), ty: HloType::F32, dims: vec![1 << 16] }],
        outputs: vec![],
        ..Default::default()
    });
    let a = b.dram(VarKind::Input, DType::F32, 1 << 16, 0);
    let x = b.sbuf(DType::F32, 512, 0x5000);
    let (d, s) = ([(512, 64), (128, 2), (16, 4), (1, 8)], [(512, 64), (200, 2), (32, 4), (1, 8)]);
    b.dynamic(op(x, 0, DType::F32, &d), op(a, 0, DType::F32, &s));
    let p = ok(b.run(&BACK));
    let pool = stream(&p, EngineId::Pool);
    assert_eq!(names(&pool), [0xD4, 0xD4, 0xDF]);
    assert_eq!(p.table, [TableEntry { var: 0, displacement: 0 }, TableEntry { var: 0, displacement: 800 }]);
    for (k, instr) in pool.iter().take(2).enumerate() {
        let Instr::DmaDirect(r) = instr else { panic!("no DMA record") };
        assert_eq!(r.src.form, Addr8Form::TableRegister { entry: k as u16, register: 9, wide: false });
        assert_eq!(r.dst.form, Addr8Form::Immediate { address: 0x5000 + 512 * k as u64 });
        assert_eq!((r.src_bound.register, r.src_bound.quiet, r.dst_bound.register), (Some(10), false, None));
        assert_eq!((r.src_num, r.src_row.bytes()), ([4, 64], 32));
    }
}

#[test]
fn a_large_copy_is_split_over_several_blocks() {
    // 3 x 1300 x 2 x 2 rows of one strided element pair: 1300 records of 3 and 2 of the inner ones.
    let mut b = Bench::new(Target::Trn2, 0);
    let (t, u) = (
        b.dram(VarKind::Internal, DType::F32, 1 << 24, 0),
        b.dram(VarKind::Internal, DType::F32, 1 << 24, 0),
    );
    let big = 1 << 20;
    let (d, s) = (
        [(big, 4), (5000, 50), (700, 52), (60, 60), (7, 6)],
        [(1, 4), (13, 50), (6000, 52), (101, 60), (9, 6)],
    );
    b.copy(op(u, 0, DType::F32, &d), op(t, 0, DType::F32, &s), false);
    let p = ok(b.run(&BACK));
    // 4 * 50 * 6 = 1200 records past the two kept dimensions (52 and 60).
    assert_eq!(p.descriptors.len(), 1200);
    assert_eq!(p.blocks.iter().map(|b| (b.first, b.count)).collect::<Vec<_>>(), [(0, 1020), (1020, 180)]);
    let blocks: Vec<u32> = stream(&p, EngineId::Sp)
        .iter()
        .filter_map(|i| if let Instr::DmaTrigger(t) = i { Some(t.block) } else { None })
        .collect();
    assert_eq!(blocks, [0, 1]);
}

#[test]
fn a_casting_copy_has_equal_elements_a_run() {
    let mut b = Bench::new(Target::Trn2, 0);
    let t = b.dram(VarKind::Internal, DType::F32, 8192, 0);
    let x = b.sbuf(DType::Bf16, 64, 0x5000);
    b.copy(op(x, 0, DType::Bf16, ROWS), op(t, 0, DType::F32, ROWS), false);
    let p = ok(b.run(&BACK));
    let Ok((Instr::DmaDirect(d), _)) = isa::decode(&p.descriptors[0]) else { panic!("no DMA record") };
    assert_eq!((d.src_row.bytes(), d.dst_row.bytes(), d.src_dtype, d.dst_dtype), (256, 128, 0xA, 6));
}

#[test]
fn branches_loops_and_act_tables() {
    let mut b = Bench::new(Target::Trn2, 0);
    let x = b.sbuf(DType::F32, 64, 0x5000);
    let act = |func: u8| {
        let mut row = InstRow::new(Opcode::Activation, EngineId::Activation, HloId::NONE);
        (row.args.op0, row.args.imm0) = (func, 0x3F80_0000);
        row
    };
    let side = [op(x, 0, DType::F32, ROWS)];
    let (exp, relu) = (isa::ActFunc::Exp.code(), isa::ActFunc::Relu.code());
    b.inst(act(exp), &side, &side);
    b.inst(act(exp), &side, &side);
    let head = b.inst(InstRow::new(Opcode::DynamicForLoop, EngineId::All, HloId::NONE), &[], &[]);
    b.inst(act(relu), &side, &side);
    b.inst(act(exp), &side, &side);
    let mut reg = RegRow::new(EngineId::Activation, RegRole::Induction, HloId::NONE);
    reg.head.colour = 3;
    let iv = b.s.reg(reg);
    let mut branch = InstRow::new(Opcode::CompareAndBranch, EngineId::Activation, HloId::NONE);
    branch.head.flags = InstHead::ENDS_BLOCK;
    branch.args = InstArgs { op0: 0, dtype: 8, imm0: 10, aux: head.0, ..Default::default() };
    branch.regs.src0 = iv;
    b.inst(branch, &[], &[]);
    let p = ok(b.run(&BACK));
    let s = stream(&p, EngineId::Activation);
    // A hardwired function needs no table; what is resident is forgotten at the loop's head.
    assert_eq!(names(&s), [0x23, 0x21, 0x21, 0x21, 0x23, 0x21, 0xA9, 0xDF]);
    let Instr::Branch(br) = s[6] else { panic!("no branch") };
    assert_eq!((br.target.0, br.compare, br.left, br.imm), (3, 1, 3, 10));
}

#[test]
fn every_other_operation_has_its_record() {
    let mut b = Bench::new(Target::Trn2, 0);
    let f32 = DType::F32;
    let x = b.sbuf(f32, 64, 0x5000);
    let i32t = b.sbuf(DType::I32, 64, 0x6000);
    let h = b.sbuf(DType::Bf16, 64, 0x7000);
    let mut psum = LocRow::new(Space::Psum, f32, 128, 64, HloId::NONE);
    psum.place.address = 2048;
    let acc = b.s.loc(psum);
    let row = |o, e| InstRow::new(o, e, HloId::NONE);
    let (fx, ix, hx) = (op(x, 0, f32, ROWS), op(i32t, 0, DType::I32, ROWS), op(h, 0, DType::Bf16, ROWS));
    let dve = EngineId::Dve;
    b.inst(row(Opcode::TensorCopy, dve), from_ref(&hx), from_ref(&fx));
    b.inst(row(Opcode::TensorCopy, dve), from_ref(&fx), from_ref(&fx));
    b.inst(row(Opcode::Reciprocal, dve), from_ref(&fx), from_ref(&fx));
    let mut ts = row(Opcode::TensorScalar, dve);
    (ts.args.op0, ts.args.op1, ts.args.imm0) = (6, 4, 0x4000_0000);
    b.inst(ts, from_ref(&fx), from_ref(&fx));
    let mut bits = row(Opcode::TensorTensor, dve);
    bits.args.op0 = 0x0A;
    b.inst(bits, from_ref(&ix), &[ix.clone(), ix.clone()]);
    let mut reduce = row(Opcode::TensorReduce, dve);
    (reduce.args.op0, reduce.args.op1) = (8, 2);
    let mut keep = fx.clone();
    keep.flags = ApHead::KEEP_DIMS;
    b.inst(reduce, &[op(x, 0, f32, &[(64, 128), (1, 1)])], from_ref(&keep));
    b.inst(row(Opcode::CopyPredicated, dve), from_ref(&fx), &[ix.clone(), fx.clone()]);
    b.inst(row(Opcode::CopyPredicated, dve), from_ref(&fx), &[ix.clone(), hx.clone()]);
    b.inst(row(Opcode::Memset, dve), from_ref(&fx), &[]);
    b.inst(row(Opcode::Iota, EngineId::Pool), from_ref(&ix), &[]);
    let mut mm = row(Opcode::Matmult, EngineId::Pe);
    mm.args.op0 = 3;
    b.inst(mm, &[op(acc, 0, f32, &[(64, 64), (1, 64)])], &[hx.clone(), hx.clone()]);
    let p = ok(b.run(&BACK));
    let expected = [0x47, 0x46, 0x48, 0x43, 0x51, 0x42, 0x72, 0x99, 0x49, 0xDF];
    assert_eq!(names(&stream(&p, dve)), expected);
    assert_eq!(names(&stream(&p, EngineId::Pool)), [0x7E, 0xDF]);
    let pe = stream(&p, EngineId::Pe);
    assert_eq!(names(&pe), [0x01, 0x02, 0xDF]);
    let Instr::MultiplyMoving(m) = pe[1] else { panic!("no matmul") };
    assert_eq!(
        (m.rows, m.columns, m.row_group, m.column_group, m.dst.addr.word()),
        (128, 64, 0xF, 3, 0x0200_0800)
    );
}

#[test]
fn the_scan_is_idempotent() {
    let b = add(Target::Trn2, DgeLevels::SCALAR | DgeLevels::IO);
    let mut outcome = b.run(&[Stage::Route]);
    let heads = |w: &mut bevy_ecs::prelude::World| {
        let mut q = w.query::<&InstHead>();
        q.iter(w).copied().collect::<Vec<_>>()
    };
    let before = heads(&mut outcome.world);
    let reasons = outcome.world.resource::<RouteReasons>().clone();
    use bevy_ecs::system::RunSystemOnce;
    outcome.world.run_system_once(crate::route::dynamic_dma_scan::dynamic_dma_scan).expect("the scan runs");
    assert_eq!(before, heads(&mut outcome.world));
    assert_eq!(*outcome.world.resource::<RouteReasons>(), reasons);
}

#[test]
fn a_store_is_triggered_by_its_writer() {
    let mut b = Bench::new(Target::Trn2, 0);
    let t = b.dram(VarKind::Internal, DType::F32, 8192, 0);
    let x = b.sbuf(DType::F32, 64, 0x5000);
    b.inst(InstRow::new(Opcode::Memset, EngineId::Dve, HloId::NONE), &[op(x, 0, DType::F32, ROWS)], &[]);
    b.copy(op(t, 0, DType::F32, ROWS), op(x, 0, DType::F32, ROWS), false);
    let p = ok(b.run(&BACK));
    assert_eq!(names(&stream(&p, EngineId::Dve)), [0x49, 0xC1, 0xDF]);
    assert_eq!(p.queues[0].name, "q_data_dve");
}

/// Faults that a hand-made program reaches, by code.
#[test]
fn faults_have_codes() {
    let f32 = DType::F32;
    let two = |b: &mut Bench| (b.dram(VarKind::Internal, f32, 8192, 0), b.sbuf(f32, 64, 0x5000));
    let one_copy = |levels: u8, change: &dyn Fn(&mut Bench, LocId, LocId)| {
        let mut b = Bench::new(Target::Trn2, levels);
        let (t, x) = two(&mut b);
        change(&mut b, t, x);
        codes(&b.run(&BACK))
    };
    let dynamic = |b: &mut Bench, t, x| {
        b.dynamic(op(x, 0, f32, ROWS), op(t, 0, f32, ROWS));
    };
    assert_eq!(one_copy(DgeLevels::TRANSPOSE, &dynamic)[0], "MUR0430");
    assert_eq!(one_copy(0, &dynamic), ["MUR0430"]);
    let stamped = |route, engine| {
        move |b: &mut Bench, t, x| {
            let id = b.copy(op(x, 0, f32, ROWS), op(t, 0, f32, ROWS), false);
            let h = &mut b.s.insts[id.index()].head;
            (h.dge, h.engine) = (route, engine);
        }
    };
    assert_eq!(one_copy(0, &stamped(DgeType::Swdge, EngineId::Dma))[0], "MUR0432");
    assert!(one_copy(2, &stamped(DgeType::Hwdge, EngineId::Pe)).contains(&"MUR0435"));
    assert_eq!(
        one_copy(2, &|b, t, x| {
            b.copy(op(x, 0, f32, &[(64, 128), (1, 32)]), op(t, 0, f32, ROWS), false);
        }),
        ["MUR0440"]
    );
    assert_eq!(
        one_copy(2, &|b, t, x| {
            let s = [(512, 64), (-100, 2), (32, 4), (1, 8)];
            b.dynamic(op(x, 0, f32, &[(64, 64), (32, 2), (9, 4), (1, 8)]), op(t, 0, f32, &s));
        }),
        ["MUR0441"]
    );
    assert_eq!(
        one_copy(2, &|b, t, x| {
            b.copy(op(x, 0, f32, ROWS), op(t, 0, f32, ROWS), false);
            b.s.locs[x.index()].place.address = u32::MAX;
        }),
        ["MUR0443"]
    );
    assert_eq!(
        one_copy(2, &|b, _, x| {
            let unplaced = b.sbuf(f32, 64, u32::MAX);
            let row = InstRow::new(Opcode::TensorCopy, EngineId::Dve, HloId::NONE);
            b.inst(row, &[op(x, 0, f32, ROWS)], &[op(unplaced, 0, f32, ROWS)]);
        })[0],
        "MUR0450"
    );
    assert_eq!(
        one_copy(2, &|b, _, x| {
            let row = InstRow::new(Opcode::TensorCopy, EngineId::Dve, HloId::NONE);
            b.inst(row, &[op(x, 0, f32, ROWS)], &[op(x, 0, f32, &[(64, 128), (40_000, 64)])]);
        })[0],
        "MUR0451"
    );
    assert_eq!(
        one_copy(2, &|b, _, _| {
            b.inst(InstRow::new(Opcode::NoOp, EngineId::All, HloId::NONE), &[], &[]);
        })[0],
        "MUR0452"
    );
    assert_eq!(
        one_copy(2, &|b, _, _| {
            b.inst(InstRow::new(Opcode::UnconditionalBranch, EngineId::Sp, HloId::NONE), &[], &[]);
            b.s.insts[0].args.aux = 9999;
        })[0],
        "MUR0453"
    );
    assert_eq!(
        one_copy(2, &|b, _, x| {
            let mut row = InstRow::new(Opcode::TensorTensor, EngineId::Dve, HloId::NONE);
            row.args.op0 = 0xFF;
            b.inst(row, &[op(x, 0, f32, ROWS)], &[op(x, 0, f32, ROWS), op(x, 0, f32, ROWS)]);
        })[0],
        "MUR0454"
    );
    assert_eq!(
        one_copy(2, &|b, _, _| {
            b.dram(VarKind::Output, f32, 4, 3);
        }),
        ["MUR0455"]
    );
}

#[test]
fn checkers_notice_what_was_changed_behind_them() {
    use bevy_ecs::system::RunSystemOnce;
    let mut outcome = add(Target::Trn2, 0).run(&BACK[..2]);
    assert!(outcome.diagnostics.is_empty(), "{:?}", outcome.diagnostics);
    let w = &mut outcome.world;
    let sink = |w: &bevy_ecs::prelude::World| {
        let taken = w.resource::<murre_components::diag::Diagnostics>().take();
        taken.iter().map(|d| d.code.id).collect::<Vec<_>>()
    };
    w.query::<&mut DescDst>().iter_mut(w).take(1).for_each(|mut d| d.0.step0 = 0x80000);
    w.run_system_once(crate::describe::verify_describe::verify_describe).expect("it runs");
    assert_eq!(sink(w), ["MUR0444"]);
    w.query::<&mut DescDst>().iter_mut(w).take(1).for_each(|mut d| d.0.step0 = 0x40000);
    w.query::<&mut DescSrc>().iter_mut(w).take(1).for_each(|mut d| d.0.step0 = 0);
    w.run_system_once(crate::describe::verify_describe::verify_describe).expect("it runs");
    assert_eq!(sink(w), ["MUR0444", "MUR0472"], "a row is read again in a block of a plain copy");
    let mut outcome = add(Target::Trn1, DgeLevels::SCALAR | DgeLevels::IO).run(&BACK[..1]);
    let w = &mut outcome.world;
    w.query::<&mut InstHead>().iter_mut(w).take(1).for_each(|mut h| (h.dge, h.flags) = (DgeType::None, 2));
    w.run_system_once(crate::describe::lower_dma::lower_dma).expect("it runs");
    w.query::<&mut InstHead>().iter_mut(w).take(1).for_each(|mut h| h.dge = DgeType::Hwdge);
    w.run_system_once(crate::route::dynamic_dma_cleanup::dynamic_dma_cleanup).expect("it runs");
    w.query::<&mut InstHead>().iter_mut(w).take(1).for_each(|mut h| h.engine = EngineId::Dve);
    w.run_system_once(crate::route::dynamic_dma_cleanup::dynamic_dma_cleanup).expect("it runs");
    assert_eq!(sink(w), ["MUR0434"]);

    let mut b = Bench::new(Target::Trn1, DgeLevels::SCALAR | DgeLevels::IO);
    let (t, x) = (b.dram(VarKind::Internal, DType::F32, 8192, 0), b.sbuf(DType::F32, 64, 0x5000));
    b.dynamic(op(x, 0, DType::F32, ROWS), op(t, 0, DType::F32, ROWS));
    let mut outcome = b.run(&BACK[..1]);
    let w = &mut outcome.world;
    w.query::<&mut InstHead>().iter_mut(w).take(1).for_each(|mut h| h.dge = DgeType::None);
    w.run_system_once(crate::describe::lower_dma::lower_dma).expect("it runs");
    assert_eq!(sink(w), ["MUR0442"]);
    w.query::<&mut InstHead>().iter_mut(w).take(1).for_each(|mut h| h.dge = DgeType::Hwdge);
    w.run_system_once(crate::route::dynamic_dma_cleanup::dynamic_dma_cleanup).expect("it runs");
    assert!(sink(w).contains(&"MUR0433"));
}
