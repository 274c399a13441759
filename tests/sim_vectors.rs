//! The simulator against the semantic vectors of the instruction set, and its rules about order, poison and bounds.
//! Programs are built record by record; no compiler is involved.

#![allow(clippy::result_large_err)]

use murre::sim::{self, SimOptions};
use murre_components::diag::Diagnostic;
use murre_components::dtype::{DType, HloType};
use murre_components::engine::{EngineId, Target};
use murre_components::isa::event::*;
use murre_components::isa::*;
use murre_components::program::*;

const POOL: usize = 0;
const ACT: usize = 1;
const PE: usize = 2;
const DVE: usize = 3;
const SP: usize = 4;

/// A program being built: variables in, SBUF tiles, variables out.
struct Build {
    p: Program,
    inputs: Vec<Vec<u8>>,
}

fn rec(i: impl Into<Instr>) -> Record {
    encode(&i.into(), &Events::NONE)
}

fn with(i: impl Into<Instr>, e: Events) -> Record {
    encode(&i.into(), &e)
}

fn wait(id: u8, n: u32) -> Events {
    Events::NONE.waiting(WAIT_GE, id, n).unwrap()
}

fn raise(id: u8) -> Events {
    Events::NONE.updating(UPDATE_INC, id, 0).unwrap()
}

fn sb(off: u32) -> Addr4 {
    Addr4::sbuf(0, off).unwrap()
}

fn ps(bank: u32, off: u32) -> Addr4 {
    Addr4::psum(0, bank, off).unwrap()
}

fn line<const N: usize>(a: Addr4, n: i64) -> Tensor<N> {
    Tensor::contiguous(a, n).unwrap()
}

fn drain() -> Record {
    rec(Drain { count: 1 })
}

impl Build {
    fn new() -> Build {
        Build { p: Program::empty("t", Target::Trn2), inputs: vec![] }
    }

    fn var(&mut self, kind: VarKind, bytes: usize) -> u32 {
        let id = self.p.vars.len() as u32;
        self.p.vars.push(Var { name: format!("v{id}"), kind, bytes: bytes as u64, const_offset: 0 });
        if kind == VarKind::Internal {
            return id;
        }
        let input = kind == VarKind::Input;
        let index = self.p.symbols.iter().filter(|s| s.input == input).count() as u32;
        self.p.symbols.push(Symbol {
            name: format!("v{id}"),
            input,
            index,
            var: id,
            ty: HloType::U8,
            dtype: DType::U8,
            dims: vec![bytes as u64],
        });
        id
    }

    fn input(&mut self, bytes: Vec<u8>) -> u32 {
        let id = self.var(VarKind::Input, bytes.len());
        self.inputs.push(bytes);
        id
    }

    fn push(&mut self, engine: usize, r: Record) -> &mut Self {
        self.p.streams[engine].push(r);
        self
    }

    /// Loads `bytes` split over `parts` partitions at `off`, waiting for the transfer.
    fn load(&mut self, engine: usize, off: u32, parts: u16, bytes: Vec<u8>) -> &mut Self {
        let row = bytes.len() as u32 / parts as u32;
        let v = self.input(bytes);
        let d = copy(var(v, 0), row as i32, tile(off), 0x40000, parts, row);
        self.push(engine, rec(d)).push(engine, drain())
    }

    /// Stores `row` bytes of `parts` partitions at `off` as an output.
    fn store(&mut self, engine: usize, off: u32, parts: u16, row: u32) -> &mut Self {
        let v = self.var(VarKind::Output, parts as usize * row as usize);
        let d = copy(tile(off), 0x40000, var(v, 0), row as i32, parts, row);
        self.push(engine, drain()).push(engine, rec(d)).push(engine, drain())
    }

    fn run_with(&self, options: &SimOptions) -> Result<Vec<Vec<u8>>, Diagnostic> {
        let mut p = self.p.clone();
        for s in &mut p.streams {
            s.push(rec(Exit {}));
        }
        let p = murre::artifact::read(&murre::artifact::write(&p))?;
        sim::run(&p, &self.inputs, options).map(|o| o.outputs)
    }

    fn run(&self) -> Result<Vec<Vec<u8>>, Diagnostic> {
        self.run_with(&SimOptions { max_steps: 100_000, ..Default::default() })
    }

    fn fault(&self) -> (&'static str, String) {
        let d = self.run().expect_err("the program must be refused");
        (d.code.id, d.message)
    }
}

fn var(id: u32, off: u32) -> Addr8 {
    Addr8::variable(id, off).unwrap()
}

fn tile(off: u32) -> Addr8 {
    Addr8::immediate(off as u64).unwrap()
}

fn copy(src: Addr8, src_step: i32, dst: Addr8, dst_step: i32, rows: u16, row: u32) -> DmaDirect {
    DmaDirect {
        priority: 0,
        semaphore: 0,
        increment: 0,
        dge_op: 0,
        src,
        src_step: [src_step, 0],
        src_num: [rows, 1],
        src_row: RowBytes::new(row).unwrap(),
        src_bound: BoundRegister::NONE,
        dst_bound: BoundRegister::NONE,
        dst,
        dst_step: [dst_step, 0],
        dst_num: [rows, 1],
        dst_row: RowBytes::new(row).unwrap(),
        src_dtype: 3,
        dst_dtype: 3,
    }
}

fn f(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn w(v: &[u32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(b: &[u8]) -> Vec<f32> {
    b.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn words(b: &[u8]) -> Vec<u32> {
    b.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

fn lit(v: f32) -> Imm<u32> {
    Imm::Literal(v.to_bits())
}

fn scalar(
    opcode: TensorScalarOp,
    cmd: u8,
    op0: u8,
    imm0: f32,
    op1: u8,
    src: u32,
    dst: u32,
    n: i64,
) -> TensorScalar {
    TensorScalar {
        opcode,
        cmd,
        src: line(sb(src), n),
        src_dtype: 10,
        out_dtype: 10,
        channels: 1,
        op0,
        op1,
        reverse: 0,
        imm0: lit(imm0),
        imm1: lit(0.0),
        dst: line(sb(dst), n),
    }
}

fn stt(opcode: ScalarTensorTensorOp, op0: u8, imm0: f32, op1: u8, reverse: u8, n: i64) -> ScalarTensorTensor {
    ScalarTensorTensor {
        opcode,
        src0: line(sb(0), n),
        src1: line(sb(64), n),
        op0,
        op1,
        reverse,
        src0_dtype: 10,
        src1_dtype: 10,
        out_dtype: 10,
        channels: 1,
        imm0_dtype: 10,
        cmd: 0,
        dst: line(sb(128), n),
        imm0: lit(imm0),
    }
}

fn tr(opcode: TensorReduceOp, src: Tensor<4>, st: u8, dst: Tensor<4>, dt: u8, channels: u8) -> TensorReduce {
    TensorReduce {
        opcode,
        src: Operand::Pattern(src),
        src_dtype: st,
        out_dtype: dt,
        channels,
        negate: 0,
        op: 0,
        axis: 0,
        mask: 0,
        dst: Operand::Pattern(dst),
    }
}

fn accumulator(dst: u32) -> ReadAccumulator {
    ReadAccumulator {
        opcode: ReadAccumulatorOp::DveReadAccumulator,
        out_dtype: 10,
        negate: 0,
        channels: 1,
        dst: line(sb(dst), 1),
    }
}

#[test]
fn scans_and_scalar_tensor_tensor() {
    use ScalarTensorTensorOp as Op;
    let cases: [(ScalarTensorTensor, Vec<f32>, Vec<f32>, Vec<f32>); 4] = [
        (
            stt(Op::TensorTensorScan, 6, 0.0, 4, 0, 4),
            vec![1.; 4],
            vec![1., 2., 3., 4.],
            vec![1., 3., 6., 10.],
        ),
        (stt(Op::TensorTensorScan, 6, 2.0, 4, 0, 3), vec![0.5; 3], vec![1.; 3], vec![2.; 3]),
        (stt(Op::ScalarTensorTensor, 5, 1.0, 6, 0, 2), vec![3., 5.], vec![10.; 2], vec![20., 40.]),
        (stt(Op::ScalarTensorTensor, 5, 1.0, 6, 1, 2), vec![3., 5.], vec![10.; 2], vec![-20., -40.]),
    ];
    for (i, a, b, want) in cases {
        let mut t = Build::new();
        t.load(DVE, 0, 1, f(&a)).load(DVE, 64, 1, f(&b)).push(DVE, rec(i)).store(
            DVE,
            128,
            1,
            4 * a.len() as u32,
        );
        assert_eq!(floats(&t.run().unwrap()[0]), want);
    }
}

#[test]
fn scalar_reduce_and_cumulative_share_the_accumulator() {
    use TensorScalarOp::*;
    let mut t = Build::new();
    t.load(DVE, 0, 1, f(&[1., 2., 3.]))
        .push(DVE, rec(scalar(TensorScalarReduce, 3, 6, 2.0, 4, 0, 64, 3)))
        .push(DVE, rec(accumulator(80)))
        .push(DVE, rec(scalar(TensorScalarCumulative, 3, 6, 2.0, 4, 0, 96, 3)))
        .push(DVE, rec(scalar(TensorScalarCumulative, 2, 6, 2.0, 4, 0, 128, 1)))
        .push(DVE, rec(accumulator(112)))
        .store(DVE, 64, 1, 12)
        .store(DVE, 80, 1, 4)
        .store(DVE, 96, 1, 12)
        .store(DVE, 112, 1, 4);
    let out: Vec<_> = t.run().unwrap().iter().map(|b| floats(b)).collect();
    assert_eq!(out, [vec![2., 4., 6.], vec![12.], vec![2., 6., 12.], vec![14.]]);
}

#[test]
fn reduces() {
    let mut negated = tr(TensorReduceOp::TensorReduce, line(sb(0), 3), 10, line(sb(64), 1), 10, 1);
    (negated.op, negated.axis, negated.negate) = (8, 2, 1);
    // Eight kept elements, each a reduction of one.
    let src = Tensor { addr: sb(0), step: [1, 1, 1, 1], num: [1, 8, 1, 1] };
    let mut one = tr(TensorReduceOp::TensorReduce, src, 10, line(sb(96), 8), 10, 1);
    (one.op, one.axis) = (4, 2);
    let mut t = Build::new();
    let x = [3., -1., 2., 4., 5., 6., 7., 8.];
    t.load(DVE, 0, 1, f(&x))
        .push(DVE, rec(negated))
        .push(DVE, rec(one))
        .store(DVE, 64, 1, 4)
        .store(DVE, 96, 1, 32);
    let out = t.run().unwrap();
    assert_eq!((floats(&out[0]), floats(&out[1])), (vec![-3.0], x.to_vec()));
}

fn search(opcode: SearchOp, n: i64, dst: u32, m: i64, out: u8) -> Search {
    let halves = if opcode == SearchOp::BnStats { ((n + 1) / 2, n / 2) } else { (0, 0) };
    Search {
        opcode,
        src: line(sb(0), n),
        src_dtype: 10,
        out_dtype: out,
        channels: 1,
        even: F32Bits::of(halves.0 as f32),
        odd: F32Bits::of(halves.1 as f32),
        dst: line(sb(dst), m),
    }
}

#[test]
fn statistics() {
    let mut t = Build::new();
    let mut aggregate = search(SearchOp::BnAggr, 6, 96, 2, 10);
    aggregate.src = line(sb(64), 6);
    t.load(DVE, 0, 1, f(&[1., 2., 3., 4., 5.]))
        .push(DVE, rec(search(SearchOp::BnStats, 5, 64, 6, 10)))
        .push(DVE, rec(aggregate))
        .store(DVE, 64, 1, 24)
        .store(DVE, 96, 1, 8);
    let out = t.run().unwrap();
    assert_eq!(floats(&out[0]), [3., 3., 8., 2., 3., 2.]);
    assert_eq!(floats(&out[1]), [3., 2.]);
}

#[test]
fn top_eight_find_and_replace() {
    let mut t = Build::new();
    let x = [5., 1., 5., 9., 2., 2., 0., 7., 3., f32::NAN];
    t.load(DVE, 0, 1, f(&x))
        .push(DVE, rec(search(SearchOp::Max8, 10, 64, 8, 10)))
        .push(DVE, rec(MatchValueLoad { src: line(sb(64), 8), dtype: 10, channels: 1 }))
        .push(DVE, rec(search(SearchOp::FindIndex8, 10, 96, 8, 9)))
        .push(
            DVE,
            rec(MatchReplace8 {
                src: line(sb(0), 10),
                src_dtype: 10,
                out_dtype: 10,
                channels: 1,
                replacement: F32Bits::of(-1.0),
                dst: line(sb(128), 10),
            }),
        )
        .store(DVE, 64, 1, 32)
        .store(DVE, 96, 1, 32)
        .store(DVE, 128, 1, 40);
    let out = t.run().unwrap();
    assert_eq!(floats(&out[0]), [9., 7., 5., 5., 3., 2., 2., 1.]);
    assert_eq!(words(&out[1]), [3, 7, 0, 2, 8, 4, 5, 1]);
    let replaced = floats(&out[2]);
    assert_eq!(replaced[..9], [-1., -1., -1., -1., -1., -1., 0., -1., -1.]);
    assert!(replaced[9].is_nan());
}

#[test]
fn shuffle_swaps_and_leaves() {
    let mut mask: [u8; 32] = std::array::from_fn(|i| i as u8);
    (mask[0], mask[1], mask[2]) = (1, 0, 255);
    let mut t = Build::new();
    let x: Vec<f32> = (0..32).map(|i| i as f32).collect();
    t.load(DVE, 0, 32, f(&x)).load(DVE, 4, 32, f(&[-1.; 32]));
    t.push(DVE, rec(LoadMaskSelect { mask }))
        .push(DVE, rec(tr(TensorReduceOp::StreamShuffle, line(sb(0), 1), 10, line(sb(4), 1), 10, 32)))
        .store(DVE, 4, 32, 4);
    let out = floats(&t.run().unwrap()[0]);
    assert_eq!(out[..4], [1., 0., -1., 3.]);
}

#[test]
fn transpose_works_on_blocks() {
    let mut i = tr(TensorReduceOp::StreamTranspose, line(sb(0), 64), 10, line(sb(1024), 64), 10, 32);
    i.mask = 1;
    let x: Vec<f32> = (0..32 * 64).map(|i| i as f32).collect();
    let mut t = Build::new();
    t.load(DVE, 0, 32, f(&x)).push(DVE, rec(i)).store(DVE, 1024, 32, 256);
    let out = floats(&t.run().unwrap()[0]);
    for p in 0..32 {
        for c in 0..32 {
            assert_eq!(out[p * 64 + c], x[c * 64 + p]);
            assert_eq!(out[p * 64 + 32 + c], x[c * 64 + 32 + p]);
        }
    }
}

#[test]
fn iota_counts() {
    let i = Iota {
        base: 3,
        steps: [1, 100, 1, 1],
        counts: [2, 2, 1, 1],
        out_dtype: 8,
        channels: 2,
        multiplier: 10,
        dst: line(sb(0), 4),
    };
    let mut t = Build::new();
    t.push(POOL, rec(i)).store(POOL, 0, 2, 16);
    assert_eq!(words(&t.run().unwrap()[0]), [3, 4, 103, 104, 13, 14, 113, 114]);
}

#[test]
fn selects() {
    let affine = AffineSelect {
        channels: 3,
        src_dtype: 10,
        out_dtype: 10,
        compare: 1,
        fill: 5,
        base: 0,
        steps: [-1, 1, 1, 1],
        counts: [4, 1, 1, 1],
        src: line(sb(0), 4),
        dst: line(sb(64), 4),
        multiplier: 1,
    };
    let mut imm = [0; 8];
    imm[0] = (-9f32).to_bits();
    let fill =
        RegisterMove { count: 1, dtype: 10, source: 1, src: [0; 8], dst: [5, 0, 0, 0, 0, 0, 0, 0], imm };
    let mut t = Build::new();
    t.load(POOL, 0, 3, f(&[1.; 12])).push(POOL, rec(fill)).push(POOL, rec(affine)).store(POOL, 64, 3, 16);
    assert_eq!(floats(&t.run().unwrap()[0])[8..], [1., 1., 1., -9.]);

    let range = RangeSelect {
        channels: 1,
        src_dtype: 10,
        out_dtype: 10,
        cmd: 3,
        reduce_op: 8,
        base: F32Bits::of(4.0),
        fill: F32Bits(0xFF7F_FFFF),
        src: line(sb(0), 5),
        cmp0: 0x14,
        cmp1: 0x16,
        bound0: lit(5.0),
        bound1: lit(7.0),
        dst: line(sb(64), 5),
    };
    let mut t = Build::new();
    t.load(DVE, 0, 1, f(&[1., 2., 3., 4., 5.])).push(DVE, rec(range)).push(DVE, rec(accumulator(96)));
    t.store(DVE, 64, 1, 20).store(DVE, 96, 1, 4);
    let out = t.run().unwrap();
    assert_eq!(floats(&out[0]), [-f32::MAX, 2., 3., -f32::MAX, -f32::MAX]);
    assert_eq!(floats(&out[1]), [3.]);
}

#[test]
fn predicated_copies() {
    let vector = TensorTensor {
        opcode: TensorTensorOp::CopyPredicated,
        src0_dtype: 8,
        src1_dtype: 10,
        out_dtype: 10,
        op: 0,
        channels: 1,
        src0: line(sb(0), 3),
        src1: line(sb(32), 3),
        dst: line(sb(64), 3),
    };
    let one = CopyPredicatedScalar {
        predicate: line(sb(0), 3),
        predicate_dtype: 8,
        reversed: 0,
        channels: 1,
        in_dtype: 10,
        out_dtype: 10,
        value: lit(7.0),
        dst: line(sb(96), 3),
    };
    let mut t = Build::new();
    t.load(DVE, 0, 1, w(&[1, 0, 2]))
        .load(DVE, 32, 1, f(&[7., 8., 9.]))
        .load(DVE, 64, 1, f(&[1., 2., 3.]))
        .load(DVE, 96, 1, f(&[1., 2., 3.]))
        .push(DVE, rec(vector))
        .push(DVE, rec(one))
        .store(DVE, 64, 1, 12)
        .store(DVE, 96, 1, 12);
    let out = t.run().unwrap();
    assert_eq!((floats(&out[0]), floats(&out[1])), (vec![7., 2., 9.], vec![1., 7., 3.]));
}

#[test]
fn casts_through_copy_and_cast_records() {
    let cases: [(u8, u8, Vec<u8>, Vec<u8>); 6] = [
        (10, 8, f(&[2.5, 3.5]), w(&[2, 4])),
        (10, 3, f(&[300., -1.]), vec![255, 0]),
        (10, 2, f(&[f32::NAN]), vec![127]),
        (10, 14, f(&[500., 1.]), vec![0x7E, 0x38]),
        (8, 9, w(&[16_777_217]), w(&[16_777_216])),
        (8, 8, w(&[16_777_217]), w(&[16_777_217])),
    ];
    for (from, to, x, want) in cases {
        let n = x.len() as i64 / 4;
        let op = if from == to { TensorReduceOp::Copy } else { TensorReduceOp::Cast };
        let mut t = Build::new();
        t.load(DVE, 0, 1, x).push(DVE, rec(tr(op, line(sb(0), n), from, line(sb(64), n), to, 1)));
        t.store(DVE, 64, 1, want.len() as u32);
        assert_eq!(t.run().unwrap()[0], want, "{from} to {to}");
    }
}

#[test]
fn integer_band_and_generator() {
    let add = TensorTensor {
        opcode: TensorTensorOp::TensorTensor,
        src0_dtype: 8,
        src1_dtype: 8,
        out_dtype: 8,
        op: 0xC4,
        channels: 1,
        src0: line(sb(0), 1),
        src1: line(sb(4), 1),
        dst: line(sb(8), 1),
    };
    let rng =
        Memset { opcode: MemsetOp::Rng, count: 5, dtype: 9, channels: 1, value: 0, dst: line(sb(32), 5) };
    let mut t = Build::new();
    t.load(POOL, 0, 1, w(&[0x7FFF_FFFF, 1])).push(POOL, rec(add)).push(POOL, rec(rng));
    t.store(POOL, 8, 1, 4).store(POOL, 32, 1, 20);
    let out = t.run().unwrap();
    assert_eq!(words(&out[0]), [0x8000_0000]);
    // Lanes draw in turn: element 4 is the second word of lane 0.
    let drawn = words(&out[1]);
    assert_eq!((drawn[0], drawn[4]), (362_456, 725_180));
}

fn weights(k: u8, m: u8) -> LoadStationary {
    LoadStationary {
        weights: line(sb(0), m as i64),
        dtype: 10,
        fp32_mode: 3,
        transpose: 0,
        rows: k,
        columns: m,
        row_group: 1,
        column_group: 0x0F,
    }
}

fn multiply(k: u8, m: u8, n: i64, psum: u8, moving: u32, dst: u32) -> MultiplyMoving {
    MultiplyMoving {
        moving: line(sb(moving), n),
        dtype: 10,
        fp32_mode: 3,
        transpose: 0,
        rows: k,
        columns: m,
        out_dtype: 0,
        psum,
        row_group: 1,
        column_group: 0x0F,
        zero_region: 0,
        dst: line(ps(0, dst), n),
    }
}

/// Runs matrix records on PE, then DVE copies `n` cells of PSUM bank 0 out.
fn on_pe(
    loads: &[(u32, u16, Vec<f32>)],
    records: Vec<Record>,
    parts: u8,
    cells: &[(u32, i64)],
) -> Vec<Vec<f32>> {
    let mut t = Build::new();
    for (off, parts, x) in loads {
        t.load(PE, *off, *parts, f(x));
    }
    for r in records {
        t.push(PE, r);
    }
    t.push(PE, with(Bare { opcode: BareOp::NoOp }, raise(9)));
    t.push(DVE, with(Bare { opcode: BareOp::NoOp }, wait(9, 1)));
    for (cell, n) in cells {
        t.push(
            DVE,
            rec(tr(TensorReduceOp::Copy, line(ps(0, 4 * cell), *n), 10, line(sb(4096), *n), 10, parts)),
        );
        t.store(DVE, 4096, parts as u16, 4 * *n as u32);
    }
    t.run().unwrap().iter().map(|b| floats(b)).collect()
}

#[test]
fn matrix_multiply() {
    let mut a = weights(2, 2);
    let mut b = multiply(2, 2, 3, 3, 64, 0);
    (a.column_group, b.column_group) = (1, 1);
    let out = on_pe(
        &[(0, 2, vec![1., 2., 3., 4.]), (64, 2, vec![1., 0., 5., 0., 1., 6.])],
        vec![rec(a), rec(b)],
        2,
        &[(0, 3)],
    );
    assert_eq!(out[0], [1., 3., 23., 2., 4., 34.]);
}

#[test]
fn psum_groups_follow_pending_bits() {
    let loads: Vec<_> =
        [5., 6., 2., 3., 4., 1.].iter().enumerate().map(|(i, v)| (64 + 4 * i as u32, 1, vec![*v])).collect();
    let one = |psum: u8, moving: u32, dst: u32| {
        let mut m = multiply(1, 1, 1, psum, moving, dst);
        m.column_group = 1;
        rec(m)
    };
    let load = || {
        let mut l = weights(1, 1);
        l.column_group = 1;
        rec(l)
    };
    let mut all = vec![(0, 1, vec![1.0])];
    all.extend(loads);
    let out = on_pe(&all, vec![load(), one(3, 64, 0), one(3, 68, 256)], 1, &[(0, 1), (64, 1)]);
    assert_eq!(out, [[5.], [6.]]);
    for (steps, want) in [(1, 2.), (2, 5.), (3, 9.), (4, 10.)] {
        let flags = [(1, 72), (0, 76), (2, 80), (4, 84)];
        let mut records = vec![load()];
        records.extend(flags.iter().take(steps).map(|(f, m)| one(*f, *m, 0)));
        assert_eq!(on_pe(&all, records, 1, &[(0, 1)])[0], [want], "{steps} steps");
    }
}

#[test]
fn activation_needs_its_table_set() {
    let exp = Activate {
        cmd: 0,
        src: line(sb(0), 2),
        src_dtype: 10,
        bias_dtype: 10,
        out_dtype: 10,
        channels: 1,
        func: 7,
        scale: lit(2.0),
        bias: Bias(lit(1.0)),
        alpha: Imm::Literal(0),
        dst: line(sb(64), 2),
    };
    let mut t = Build::new();
    t.load(ACT, 0, 1, f(&[0.0, 0.5])).push(ACT, rec(exp)).store(ACT, 64, 1, 8);
    assert_eq!(t.fault().0, "MUR0707");
    let mut t = Build::new();
    t.load(ACT, 0, 1, f(&[0.0, 0.5]))
        .push(ACT, rec(LoadActFuncSet { set: 0 }))
        .push(ACT, rec(exp))
        .store(ACT, 64, 1, 8);
    assert_eq!(floats(&t.run().unwrap()[0]), [1f64.exp() as f32, 2f64.exp() as f32]);
}

/// SP loads a tile, DVE doubles it, SP stores it; `ordered` says whether the waits are there.
fn pipeline(ordered: bool) -> Build {
    let mut t = Build::new();
    let a = t.input(f(&[1., 2., 3., 4.]));
    let b = t.var(VarKind::Output, 16);
    let mut load = copy(var(a, 0), 16, tile(0), 0x40000, 1, 16);
    (load.semaphore, load.increment) = (10, 1);
    t.push(SP, rec(load));
    let double = scalar(TensorScalarOp::TensorScalar, 0, 6, 2.0, 0, 0, 64, 4);
    let store = copy(tile(64), 0x40000, var(b, 0), 16, 1, 16);
    if ordered {
        t.push(DVE, with(double, wait(10, 1).updating(UPDATE_INC, 11, 0).unwrap()));
        t.push(SP, with(store, wait(11, 1)));
    } else {
        t.push(DVE, rec(double)).push(SP, rec(store));
    }
    t.push(SP, drain());
    t
}

#[test]
fn every_interleaving_of_a_correct_program_agrees() {
    let t = pipeline(true);
    for seed in 0..200 {
        let options = SimOptions { interleave: Some(seed), ..Default::default() };
        assert_eq!(floats(&t.run_with(&options).unwrap()[0]), [2., 4., 6., 8.]);
    }
    assert_eq!(floats(&t.run().unwrap()[0]), [2., 4., 6., 8.]);
}

#[test]
fn a_missing_wait_shows_as_poison_that_names_the_instruction() {
    let mut t = pipeline(false);
    t.p.provenance.names = vec!["multiply.7".into()];
    t.p.provenance.streams[DVE] = vec![0];
    let d = t.run().unwrap_err();
    assert_eq!((d.code.id, d.instruction.as_deref()), ("MUR0701", Some("multiply.7")));
    assert!(d.message.contains("SBUF partition 0") && d.message.contains("dve record 0"), "{}", d.message);
}

#[test]
fn deadlocks_name_every_wait() {
    let mut t = Build::new();
    t.push(SP, with(Bare { opcode: BareOp::NoOp }, wait(9, 2)));
    t.push(DVE, rec(Bare { opcode: BareOp::AllEngineBarrier }));
    let (code, message) = t.fault();
    assert_eq!(code, "MUR0703");
    assert!(message.contains("sp record 0 waits for semaphore 9 (now 0) against 2"), "{message}");
    assert!(message.contains("dve record 0 waits for the barrier"), "{message}");
}

#[test]
fn barriers_let_all_five_pass() {
    let mut t = Build::new();
    let out = t.var(VarKind::Output, 4);
    let x = t.input(vec![1, 2, 3, 4]);
    t.push(SP, rec(copy(var(x, 0), 4, tile(0), 0x40000, 1, 4))).push(SP, drain());
    for e in 0..5 {
        t.push(e, rec(Bare { opcode: BareOp::AllEngineBarrier }));
    }
    t.push(ACT, rec(copy(tile(0), 0x40000, var(out, 0), 4, 1, 4))).push(ACT, drain());
    for seed in 0..50 {
        let options = SimOptions { interleave: Some(seed), ..Default::default() };
        assert_eq!(t.run_with(&options).unwrap()[0], [1, 2, 3, 4]);
    }
}

fn set(register: u8, value: u32) -> Record {
    let (mut dst, mut imm) = ([0; 8], [0; 8]);
    (dst[0], imm[0]) = (register, value);
    rec(RegisterMove { count: 1, dtype: 8, source: 1, src: [0; 8], dst, imm })
}

fn alu(op: u8, dst: u8, src0: u8, imm: u64) -> Record {
    rec(RegisterAlu {
        op,
        dtype: 8,
        source: 1,
        dst_dtype: 0,
        src0,
        src0_high: 0,
        src1: 0,
        src1_high: 0,
        dst,
        dst_high: 0,
        imm,
    })
}

fn save(register: u8, variable: u32) -> Record {
    rec(VariableAccess {
        opcode: VariableAccessOp::TensorSave,
        dtype: 8,
        num: [1, 1],
        variable,
        offset: 0,
        step: [1, 1],
        data: register,
        data_high: 0,
    })
}

fn branch(compare: u8, left: u8, imm: u32, target: u64) -> Record {
    rec(Branch { compare, dtype: 8, imm, left, right: 0, target: BranchTarget(target) })
}

#[test]
fn branch_loops_count() {
    let mut t = Build::new();
    let out = t.var(VarKind::Output, 4);
    t.push(SP, set(3, 0)).push(SP, set(4, 0));
    t.push(SP, alu(4, 3, 3, 7)).push(SP, alu(4, 4, 4, 1)).push(SP, branch(1, 4, 5, 2)).push(SP, save(3, out));
    assert_eq!(words(&t.run().unwrap()[0]), [35]);
}

#[test]
fn endless_loops_stop_at_the_limit_and_wild_branches_are_refused() {
    let mut t = Build::new();
    t.push(SP, rec(Bare { opcode: BareOp::NoOp })).push(SP, branch(0, 0, 0, 0));
    assert_eq!(t.fault().0, "MUR0705");
    let mut t = Build::new();
    t.push(SP, branch(0, 0, 0, 99));
    assert_eq!(t.fault().0, "MUR0706");
}

#[test]
fn registers_are_poison_until_written_and_division_has_a_domain() {
    let mut t = Build::new();
    let out = t.var(VarKind::Output, 4);
    t.push(SP, save(7, out));
    let (code, message) = t.fault();
    assert_eq!(code, "MUR0701");
    assert!(message.contains("register 7"), "{message}");
    for (value, op, imm, code) in [(-3i32, 0x1B, 4u64, "MUR0709"), (3, 0x07, 0, "MUR0709")] {
        let mut t = Build::new();
        t.push(SP, set(3, value as u32)).push(SP, alu(op, 4, 3, imm));
        assert_eq!(t.fault().0, code);
    }
}

/// SP writes 4 bytes at `displacement + offset` of an 16-byte variable through a table entry, bound 12.
fn dynamic_store(offset: u32, quiet: bool) -> Build {
    let mut t = Build::new();
    let zero = t.input(vec![0; 16]);
    let x = t.input(vec![1, 2, 3, 4]);
    let out = t.var(VarKind::Output, 16);
    t.p.table.push(TableEntry { var: out, displacement: 4 });
    t.push(SP, rec(copy(var(zero, 0), 16, var(out, 0), 16, 1, 16))).push(SP, drain());
    t.push(SP, set(5, offset)).push(SP, set(6, 12));
    let mut d = copy(var(x, 0), 4, Addr8::table_register(0, 5, false).unwrap(), 4, 1, 4);
    d.dst_bound = BoundRegister::checked(6, quiet).unwrap();
    t.push(SP, rec(d));
    // Registers are read at issue: this later write must not matter.
    t.push(SP, set(5, 9999)).push(SP, drain());
    t
}

#[test]
fn offset_registers_add_to_the_table_base_and_stay_in_bound() {
    let out = dynamic_store(8, false).run().unwrap();
    assert_eq!(out[0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(dynamic_store(0, false).run().unwrap()[0][4..8], [1, 2, 3, 4]);
    assert_eq!(dynamic_store(9, false).fault().0, "MUR0704");
    assert_eq!(dynamic_store(9, true).run().unwrap()[0], [0; 16]);
}

#[test]
fn index_vectors_gather_rows() {
    let mut t = Build::new();
    let x = t.input((0..16).collect());
    let out = t.var(VarKind::Output, 12);
    t.load(SP, 256, 1, w(&[3, 0, 2]));
    let mut d = copy(var(x, 0), 4, var(out, 0), 4, 3, 4);
    d.dge_op = 1;
    let mut e = DmaExtension::EMPTY;
    e.flags = DmaExtension::flags_of(0, true, false, 0, 0);
    (e.index_channels, e.src_index, e.src_bound_low) = (128, sb(256), 16);
    t.push(SP, rec(d)).push(SP, rec(e)).push(SP, drain());
    assert_eq!(t.run().unwrap()[0], [12, 13, 14, 15, 0, 1, 2, 3, 8, 9, 10, 11]);
    t.inputs[1] = w(&[3, 4, 2]);
    assert_eq!(t.fault().0, "MUR0704");
}

#[test]
fn triggers_fire_blocks_and_update_when_the_block_is_done() {
    let mut t = Build::new();
    let x = t.input((0..8).collect());
    let out = t.var(VarKind::Output, 8);
    t.p.queues.push(Queue { name: "q0".into(), engine: EngineId::Sp });
    for half in [0, 4] {
        let mut d = copy(var(x, half), 4, var(out, 4 - half), 4, 1, 4);
        (d.semaphore, d.increment) = (20, 3);
        t.p.descriptors.push(rec(d));
    }
    t.p.blocks.push(BlockEntry { queue: 0, first: 0, count: 2 });
    t.push(SP, with(DmaTrigger { queue: Name::new("q0").unwrap(), block: 0 }, raise(21)));
    t.push(ACT, with(Bare { opcode: BareOp::NoOp }, wait(21, 1)));
    t.push(ACT, with(Bare { opcode: BareOp::NoOp }, wait(20, 6)));
    t.push(SP, drain());
    for seed in 0..50 {
        let options = SimOptions { interleave: Some(seed), ..Default::default() };
        assert_eq!(t.run_with(&options).unwrap()[0], [4, 5, 6, 7, 0, 1, 2, 3]);
    }
}

#[test]
fn accesses_outside_memory_are_refused() {
    let mut t = Build::new();
    t.push(DVE, rec(scalar(TensorScalarOp::TensorScalar, 0, 6, 2.0, 0, 0x37FFC, 0, 2)));
    assert_eq!(t.fault().0, "MUR0702");
    let mut t = Build::new();
    let x = t.input(vec![0; 8]);
    t.push(SP, rec(copy(var(x, 6), 4, tile(0), 0x40000, 1, 4))).push(SP, drain());
    assert_eq!(t.fault().0, "MUR0702");
}

#[test]
fn register_addressed_operands_read_their_register_when_they_run() {
    let mut i = scalar(TensorScalarOp::TensorScalar, 0, 4, 1.0, 0, 0, 64, 2);
    i.src.addr = Addr4::register(9).unwrap();
    let mut t = Build::new();
    t.load(DVE, 0, 1, f(&[1., 2., 3., 4.])).push(DVE, set(9, 8)).push(DVE, rec(i)).store(DVE, 64, 1, 8);
    assert_eq!(floats(&t.run().unwrap()[0]), [4., 5.]);
}

#[test]
fn inputs_must_fit() {
    let mut t = pipeline(true);
    t.inputs[0].pop();
    assert_eq!(t.fault().0, "MUR0708");
    t.inputs.clear();
    assert_eq!(t.fault().0, "MUR0708");
}

#[test]
fn an_instruction_on_the_wrong_engine_is_refused() {
    let mut t = Build::new();
    t.push(PE, rec(LoadMaskSelect { mask: [0; 32] }));
    assert_eq!(t.fault().0, "MUR0706");
}
