//! Small programs whose times are worked out by hand, and what holds for every program.

use crate::options::{CompileOptions, EstimateOptions};
use crate::pass::Stage;
use crate::staging::{Operand, Staging};
use crate::sync::{INCREMENT, WAIT_GE};
use crate::{Compiler, synth::synthetic};
use murre_components::bir::*;
use murre_components::costs::CostModel;
use murre_components::dtype::DType;
use murre_components::engine::{EngineId, Target};
use murre_components::estimate::{Estimate, TripBasis};
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::program::VarKind;

/// A finished program under construction.
struct Bench {
    c: Compiler,
    s: Staging,
    order: Vec<InstId>,
}

impl Bench {
    fn new(target: Target) -> Self {
        let estimate = Some(EstimateOptions::default());
        let options = CompileOptions { target, estimate, ..Default::default() };
        let c = Compiler::new(HloModule::default(), options);
        let s = Staging::new(&c.world);
        Bench { c, s, order: Vec::new() }
    }

    fn inst(&mut self, row: InstRow, outputs: &[Operand], inputs: &[Operand]) -> InstId {
        let id = self.s.inst(row, outputs, inputs);
        self.order.push(id);
        id
    }

    /// What an instruction waits for and updates.
    fn sync(&mut self, id: InstId, sync: InstSync) {
        let syncs = &mut self.c.world.resource_mut::<InstSyncs>().0;
        syncs.resize(id.index() + 1, InstSync::default());
        syncs[id.index()] = sync;
    }

    fn op(&mut self, op: Opcode, engine: EngineId, outputs: &[Operand], inputs: &[Operand]) -> InstId {
        self.inst(InstRow::new(op, engine, HloId::NONE), outputs, inputs)
    }

    /// A tile of 128 partitions, whole.
    fn tile(&mut self, space: Space, dtype: DType, elems: u32) -> Operand {
        let mut row = LocRow::new(space, dtype, 128, u64::from(elems), HloId::NONE);
        row.place.address = 0;
        let loc = self.s.loc(row);
        operand(loc, dtype, &[(elems as i32, 128), (1, elems)])
    }

    /// A trigger on SP of one descriptor that brings `rows` rows of `run` bytes from an input.
    fn load(&mut self, rows: u16, run: u32) -> InstId {
        let queue = QueueHead { engine: EngineId::Sp, kind: QueueKind::Input, instance: 0, semaphore: 8 };
        let queue = if self.s.queues.is_empty() { self.s.queue(queue) } else { QueueId(0) };
        let bytes = u64::from(rows) * u64::from(run);
        let mut row = LocRow::new(Space::Dram, DType::U8, 1, bytes, HloId::NONE);
        row.head.kind = VarKind::Input;
        row.place.address = self.s.locs.len() as u32;
        let dram = operand(self.s.loc(row), DType::U8, &[(run as i32, u32::from(rows)), (1, run)]);
        let tile = self.tile(Space::Sbuf, DType::U8, run);
        let side = |var| DescSide { var, num0: rows, num1: 1, run, ..Default::default() };
        let block = DmaBlockId::new(self.s.blocks.len());
        let head = DescHead { block, hlo: HloId::NONE, src_tag: 0, dst_tag: 0, sem: 8, sem_inc: 1 };
        let first = self.s.desc(DescRow { head, src: DescSrc(side(0)), dst: DescDst(side(u32::MAX)) });
        let mut trigger = InstRow::new(Opcode::DmaTrigger, EngineId::Sp, HloId::NONE);
        trigger.head.dge = DgeType::None;
        let id = self.inst(trigger, &[tile], &[dram]);
        self.c.world.resource_mut::<InstDmas>().put(id, InstDma { queue, block });
        self.s.block(BlockHead { queue, first, count: 1, trigger: id, family: DmaFamily::Copy });
        id
    }

    /// A loop whose trips are known only up to `max_trip`.
    fn head(&mut self, max_trip: u64) -> AxisId {
        let none = ExprId::NONE;
        let axis = self.s.axis(AxisRow {
            head: AxisHead {
                parent: AxisId::NONE,
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::DynamicFor,
                unsigned: 0,
                depth: 0,
            },
            bounds: AxisBounds { lb: none, ub: none, step: none, max_trip },
            regs: AxisRegs {
                iv: RegId::NONE,
                limit: RegId::NONE,
                condition: RegId::NONE,
                per_engine: [RegId::NONE; 5],
            },
        });
        self.label(Opcode::DynamicForLoop, axis);
        axis
    }

    fn label(&mut self, op: Opcode, axis: AxisId) {
        let mut row = InstRow::new(op, EngineId::All, HloId::NONE);
        row.args.aux = axis.0;
        self.inst(row, &[], &[]);
    }

    fn model(mut self, model: CostModel) -> Estimate {
        let mut options = self.c.world.resource_mut::<CompileOptions>();
        options.estimate = Some(EstimateOptions { model, trips: None });
        self.s.flush(&mut self.c.world);
        self.c.world.insert_resource(Order(self.order));
        self.c.run(&[Stage::Estimate]);
        self.c.world.remove_resource::<Estimate>().expect("an estimate")
    }

    fn run(self) -> Estimate {
        self.model(CostModel::Hw)
    }
}

fn operand(loc: LocId, dtype: DType, pairs: &[(i32, u32)]) -> Operand {
    Operand {
        loc,
        offset: 0,
        dtype,
        pattern: ApPattern::new(pairs.iter().copied()).unwrap_or_default(),
        kind: ApKind::Physical,
        payload: PayloadKey::default(),
        flags: 0,
    }
}

#[track_caller]
fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 0.01 + b.abs() * 1e-6, "{a} is not {b}");
}

fn resource<'a>(e: &'a Estimate, name: &str) -> &'a murre_components::estimate::ResourceUse {
    e.resources.iter().find(|r| r.name == name).expect("a resource")
}

#[test]
fn one_dma_of_32_kib_on_one_engine() {
    let mut b = Bench::new(Target::Trn2);
    b.load(1, 32 << 10);
    let e = b.run();
    let (issue, start, bytes) = (64.0 / 1.2, 1300.0, (32768.0 + 280.0) / 23.0);
    near(e.total_ns, issue + start + bytes);
    // Published for the bytes alone: 1416 ns.
    assert!((resource(&e, "dma").adds_ns / 1416.0 - 1.0).abs() < 0.02);
    near(resource(&e, "dma").busy_ns, 32768.0 / 362.5); // HBM's time; a sixteenth of the engine's is less
    near(resource(&e, "dma start").adds_ns, start);
    assert_eq!((e.dma.read_from_dram, e.dma.written_to_dram, e.dma.moved), (32768, 0, 32768));
    assert_eq!((e.roofline.parameter_bytes, e.dma.routes[0].rows), (32768, 1));
    near(e.roofline.ns, 32768.0 / 362.5);
    assert_eq!(e.held_by.waits_for, "dma");
}

#[test]
fn starts_of_dmas_overlap_and_their_bytes_do_not() {
    let mut b = Bench::new(Target::Trn1);
    for _ in 0..2 {
        b.load(128, 4096);
    }
    let e = b.run();
    let bytes = 8.0 * (4096.0 + 280.0) / 17.0;
    near(e.total_ns, 64.0 / 1.4 + 1300.0 + 2.0 * bytes);
}

#[test]
fn weights_load_behind_the_multiply_before() {
    let mut b = Bench::new(Target::Trn2);
    let (x, w) = (b.tile(Space::Sbuf, DType::Bf16, 512), b.tile(Space::Sbuf, DType::Bf16, 128));
    let y = b.tile(Space::Psum, DType::F32, 512);
    for _ in 0..3 {
        b.op(Opcode::Matmult, EngineId::Pe, std::slice::from_ref(&y), &[x.clone(), w.clone()]);
    }
    let e = b.run();
    near(e.total_ns, (128.0 / 4.0 + 3.0 * 512.0 + 100.0) / 2.4);
    near(resource(&e, "pe").busy_ns, (32.0 + 3.0 * 512.0) / 2.4);
    assert_eq!(e.work.flops, 3.0 * 2.0 * 128.0 * 128.0 * 512.0);
    assert_eq!(e.work.bytes, 3.0 * 128.0 * 512.0 * 4.0);
    assert_eq!(e.work.coarse_instances, 3);
}

/// An activation and then a copy on DVE, with or without the copy waiting for the activation.
fn pair(target: Target, chained: bool) -> Estimate {
    let mut b = Bench::new(target);
    let x = b.tile(Space::Sbuf, DType::F32, 480);
    let one = std::slice::from_ref(&x);
    let first = b.op(Opcode::Activation, EngineId::Activation, one, one);
    let second = b.op(Opcode::TensorCopy, EngineId::Dve, one, one);
    if chained {
        b.sync(first, InstSync { update_mode: INCREMENT, update_sem: 4, ..Default::default() });
        b.sync(second, InstSync { wait_mode: WAIT_GE, wait_sem: 4, value: 1, ..Default::default() });
    }
    b.run()
}

#[test]
fn engines_overlap_unless_a_semaphore_chains_them() {
    let (act, dve) = ((480.0 + 100.0) / 1.2, (480.0 + 100.0) / 0.96);
    near(pair(Target::Trn2, false).total_ns, dve);
    near(pair(Target::Trn2, true).total_ns, act + dve);
}

#[test]
fn targets_differ() {
    let of = |t| pair(t, true).total_ns;
    near(of(Target::Trn1), 580.0 / 1.4 + 580.0 / 1.12);
    near(of(Target::Trn3), 580.0 / 1.2 * 2.0);
    near(of(Target::CoreV5), of(Target::Trn3));
}

#[test]
fn a_queue_completes_what_waits_for_it() {
    let mut b = Bench::new(Target::Trn2);
    b.load(16, 4096);
    let x = b.tile(Space::Sbuf, DType::F32, 96);
    let one = std::slice::from_ref(&x);
    let copy = b.op(Opcode::TensorCopy, EngineId::Dve, one, one);
    b.sync(copy, InstSync { wait_mode: WAIT_GE, wait_sem: 8, value: 1, ..Default::default() });
    let e = b.run();
    near(e.total_ns, 64.0 / 1.2 + 1300.0 + (4096.0 + 280.0) / 23.0 + (96.0 + 100.0) / 0.96);
}

/// A copy of 16 rows of 4 KiB that is generated on the device, on `engine`.
fn generated(dge: DgeType, engine: EngineId) -> Estimate {
    let mut b = Bench::new(Target::Trn2);
    let (kind, semaphore) = (QueueKind::Dynamic, 8);
    let queue = b.s.queue(QueueHead { engine, kind, instance: 0, semaphore });
    let mut row = LocRow::new(Space::Dram, DType::U8, 1, 1 << 20, HloId::NONE);
    row.head.kind = VarKind::Output;
    let dram = operand(b.s.loc(row), DType::U8, &[(4096, 16), (1, 4096)]);
    let tile = b.tile(Space::Sbuf, DType::U8, 4096);
    let tile = operand(tile.loc, DType::U8, &[(4096, 16), (1, 4096)]);
    let mut row = InstRow::new(Opcode::DmaCopy, engine, HloId::NONE);
    row.head.dge = dge;
    let copy = b.inst(row, &[dram], &[tile]);
    b.c.world.resource_mut::<InstDmas>().put(copy, InstDma { queue, ..Default::default() });
    b.run()
}

#[test]
fn software_generates_on_pool_and_hardware_beside_the_engine() {
    let bytes = (4096.0 + 280.0) / 23.0;
    let software = generated(DgeType::Swdge, EngineId::Pool);
    near(software.total_ns, 583.0 + 1300.0 + bytes);
    near(resource(&software, "pool").busy_ns, 583.0);
    let hardware = generated(DgeType::Hwdge, EngineId::Activation);
    near(hardware.total_ns, 64.0 / 1.2 + 600.0 + 1300.0 + bytes);
    near(resource(&hardware, "act").busy_ns, 64.0 / 1.2);
    let routes = |e: &Estimate| e.dma.routes.iter().map(|r| (r.bytes, r.rows)).collect::<Vec<_>>();
    assert_eq!(routes(&software), [(0, 0), (65536, 16), (0, 0)]);
    assert_eq!(routes(&hardware), [(0, 0), (0, 0), (65536, 16)]);
    // Of a megabyte of output, what is written is what must move.
    assert_eq!((software.roofline.output_bytes, software.dma.written_to_dram), (65536, 65536));
}

#[test]
fn of_a_parameter_no_more_counts_than_is_read() {
    let mut b = Bench::new(Target::Trn2);
    let mut row = LocRow::new(Space::Dram, DType::I32, 1, 4096, HloId::NONE);
    row.head.kind = VarKind::Input;
    let word = operand(b.s.loc(row), DType::I32, &[(1, 1), (1, 1)]);
    for engine in EngineId::STREAMS {
        b.op(Opcode::TensorLoad, engine, &[], std::slice::from_ref(&word));
    }
    let e = b.run();
    // Five engines read the same word of 16 KiB: reads that repeat are not told apart, the bytes read are the bound.
    assert_eq!((e.dma.read_from_dram, e.roofline.parameter_bytes), (20, 20));
    near(e.total_ns, 500.0);
    assert!(!e.work.has_copy && !e.work.has_reduce && e.work.flops == 0.0);
}

/// A load and a fence in a loop of at most `trips` trips, itself in one of 2.
fn looped(trips: u64) -> Estimate {
    let mut b = Bench::new(Target::Trn2);
    let outer = b.head(2);
    let inner = b.head(trips);
    b.load(16, 4096);
    for op in [Opcode::Drain, Opcode::AllEngineBarrier] {
        for engine in EngineId::STREAMS {
            b.op(op, engine, &[], &[]);
        }
    }
    b.label(Opcode::Terminator, inner);
    b.label(Opcode::Terminator, outer);
    b.run()
}

#[test]
fn a_loop_of_n_trips_costs_n_bodies() {
    let one = looped(1);
    for n in [0, 2, 7, 1000] {
        let e = looped(n);
        near(e.total_ns, one.total_ns * n as f64);
        assert_eq!(e.dma.moved, one.dma.moved * n);
        near(resource(&e, "dma").busy_ns, resource(&one, "dma").busy_ns * n as f64);
        assert_eq!(resource(&e, "sp").executed, resource(&one, "sp").executed * n);
    }
    // However often it is read, a parameter has to come once.
    assert_eq!(looped(1000).roofline.parameter_bytes, 65536);
    assert_eq!(
        one.loops.iter().map(|l| (l.trips, l.basis)).collect::<Vec<_>>(),
        [(2, TripBasis::Bound), (1, TripBasis::Bound)]
    );
    let huge = looped(u64::MAX);
    assert_eq!((huge.total_ns, huge.loops[1].basis), (one.total_ns, TripBasis::Once));
}

/// A synthetic program through the whole back end.
fn whole(n: u32, target: Target, estimate: Option<EstimateOptions>) -> Compiler {
    let mut c = synthetic(n, 11);
    let mut options = c.world.resource_mut::<CompileOptions>();
    (options.target, options.estimate) = (target, estimate);
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    c.run(&stages);
    c
}

#[test]
fn what_is_added_is_the_whole_time() {
    for target in [Target::Trn1, Target::Trn2] {
        for model in CostModel::ALL {
            let options = EstimateOptions { model, trips: Some(3) };
            let mut c = whole(2000, target, Some(options));
            let e = c.world.remove_resource::<Estimate>().expect("an estimate");
            let sum: f64 = e.resources.iter().map(|r| r.adds_ns).sum();
            assert!((sum / e.total_ns - 1.0).abs() < 1e-6, "{sum} of {}", e.total_ns);
            assert!(e.resources[..6].iter().all(|r| r.busy_share <= 1.0 && r.busy_ns > 0.0));
            assert!(e.roofline.ratio.is_some_and(|r| r > 1.0));
            assert!(e.sizes.records > 2000 && e.sizes.sbuf_peak_bytes > 0 && e.sizes.psum_peak_bytes > 0);
            assert!(e.loops.iter().all(|l| l.trips == 3 && l.basis == TripBasis::Given));
        }
    }
}

#[test]
fn nobody_pays_for_what_was_not_asked_for() {
    let c = whole(200, Target::Trn2, None);
    assert!(!c.world.contains_resource::<Estimate>());
    assert!(!c.world.contains_resource::<super::time_program::Times>());
}
