//! The simulator against the semantic vectors of the compute instructions.

mod sim_build;

use sim_build::*;

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

#[test]
fn an_instruction_on_the_wrong_engine_is_refused() {
    let mut t = Build::new();
    t.push(PE, rec(LoadMaskSelect { mask: [0; 32] }));
    assert_eq!(t.fault().0, "MUR0706");
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
fn cross_reductions_fold_partitions_and_then_their_elements() {
    let reduce = |opcode, op, axis, scale: u32, n: i64| CrossReduce {
        opcode,
        src: line(sb(0), 2),
        src_dtype: if opcode == CrossReduceOp::CrossReduce { 10 } else { 9 },
        out_dtype: if opcode == CrossReduceOp::CrossReduce { 10 } else { 9 },
        channels: 3,
        op,
        axis,
        scale: F32Bits(scale),
        dst: line(sb(64), n),
    };
    let one = 1f32.to_bits();
    let cases = [
        (0, 1, one, vec![9., -3.]),
        (0, 0, one, vec![6.]),
        (1, 1, 0.5f32.to_bits(), vec![4.5, -1.5]),
        (2, 1, one, vec![5., 2.]),
        (2, 0, one, vec![5.]),
    ];
    for (op, axis, scale, want) in cases {
        let mut t = Build::new();
        t.load(POOL, 0, 3, f(&[1., 2., 3., -4., 5., -1.]))
            .push(POOL, rec(reduce(CrossReduceOp::CrossReduce, op, axis, scale, want.len() as i64)))
            .store(POOL, 64, 1, 4 * want.len() as u32);
        assert_eq!(floats(&t.run().unwrap()[0]), want, "operator {op} axis {axis}");
    }
    for (op, axis, want) in [(3, 1, vec![7, 0x78]), (4, 1, vec![0, 8]), (5, 0, vec![7 ^ 0x68])] {
        let mut t = Build::new();
        t.load(POOL, 0, 3, w(&[1, 0x38, 2, 0x18, 4, 0x48]))
            .push(POOL, rec(reduce(CrossReduceOp::CrossReduceBitvec, op, axis, 0, want.len() as i64)))
            .store(POOL, 64, 1, 4 * want.len() as u32);
        assert_eq!(words(&t.run().unwrap()[0]), want, "operator {op} axis {axis}");
    }
}

#[test]
fn pools_fold_windows() {
    // Windows of two over two rows of three, sliding by one.
    for (kind, scale, want) in [(1, 1.0, [4., 4., 6., 6.]), (2, 0.5, [2.5, 2.5, 4.0, 5.5])] {
        let i = Pool {
            src: Tensor { addr: sb(0), step: [1, 1, 3, 1], num: [2, 2, 2, 1] },
            src_dtype: 10,
            out_dtype: 10,
            channels: 1,
            kind,
            axis: 2,
            scale: F32Bits::of(scale),
            dst: Tensor { addr: sb(64), step: [1, 1, 2, 1], num: [1, 2, 2, 1] },
        };
        let mut t = Build::new();
        t.load(DVE, 0, 1, f(&[1., 4., 1., 2., 6., 5.])).push(DVE, rec(i)).store(DVE, 64, 1, 16);
        assert_eq!(floats(&t.run().unwrap()[0]), want);
    }
}

#[test]
fn address_arithmetic_is_exact_in_32_and_64_bits() {
    let i = |dtype: u8, op0, op1, imm0: u64, imm1: u64, reverse| TensorScalarAddr {
        src: line(sb(0), 2),
        imm0: Imm::Literal(imm0),
        imm1: Imm::Literal(imm1),
        imm0_dtype: dtype,
        imm1_dtype: dtype,
        src_dtype: dtype,
        out_dtype: dtype,
        op0,
        op1,
        channels: 1,
        reverse,
        dst: line(sb(64), 2),
    };
    let narrow = w(&[0x0100_0001, 7]);
    let wide: Vec<u8> = [0x1_0000_0001u64, 7].iter().flat_map(|v| v.to_le_bytes()).collect();
    let n = |v: [u32; 2]| w(&v);
    let l = |v: [u64; 2]| -> Vec<u8> { v.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let cases = [
        (i(9, 6, 4, 3, 5, 0), &narrow, n([0x0300_0008, 26])),
        (i(9, 4, 0, 0xFFFF_FFFF, 0, 0), &narrow, n([0x0100_0000, 6])),
        (i(1, 6, 4, 3, 5, 0), &wide, l([0x3_0000_0008, 26])),
        // Reversed: the immediate minus the element, and whether that is below the second immediate.
        (i(9, 5, 0x16, 10, 4, 1), &narrow, n([0, 1])),
        (i(9, 5, 0x16, 10, 4, 0), &narrow, n([0, 0])),
    ];
    for (k, (i, x, want)) in cases.into_iter().enumerate() {
        let mut t = Build::new();
        t.load(POOL, 0, 1, x.clone()).push(POOL, rec(i)).store(POOL, 64, 1, want.len() as u32);
        assert_eq!(t.run().unwrap()[0], want, "case {k}");
    }
}
