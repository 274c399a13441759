//! Copies, selects, shuffles and gathers on the simulator.

mod sim_build;

use sim_build::*;

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

/// Two chunks of the table through the pool buffer, as a gather over more than one chunk does it.
fn buffered_gather(free: u8) -> Build {
    let load = |from: u32, start: u32| PoolBufferLoad {
        src: line(sb(from), 3),
        dtype: 10,
        channels: 2,
        start,
        mask: 0x1FF,
    };
    let gather = |miss: u8, free_buffer: u8| GatherBuffer {
        index: line(sb(64), 4),
        index_dtype: 9,
        out_dtype: 10,
        channels: 2,
        miss,
        free_buffer,
        immediate: (-1f32).to_bits(),
        dst: line(sb(96), 4),
    };
    let mut t = Build::new();
    t.load(POOL, 0, 2, f(&[10., 11., 12., 13., 14., 15., 20., 21., 22., 23., 24., 25.]))
        .load(POOL, 64, 2, w(&[5, 0, 9, 2, 1, 3, 4, 0]))
        .push(POOL, rec(load(0, 0)))
        .push(POOL, rec(gather(0, 0)))
        .push(POOL, rec(load(12, 3)))
        .push(POOL, rec(gather(1, free)))
        .store(POOL, 96, 2, 16);
    t
}

#[test]
fn buffered_gathers_go_chunk_by_chunk() {
    let out = floats(&buffered_gather(1).run().unwrap()[0]);
    assert_eq!(out, [15., 10., -1., 12., 21., 23., 24., 20.]);
    let again = GatherBuffer {
        index: line(sb(64), 4),
        index_dtype: 9,
        out_dtype: 10,
        channels: 2,
        miss: 1,
        free_buffer: 0,
        immediate: 0,
        dst: line(sb(96), 4),
    };
    let mut t = buffered_gather(0);
    t.push(POOL, rec(again));
    assert!(t.run().is_ok());
    let mut t = buffered_gather(1);
    t.push(POOL, rec(again));
    assert_eq!(t.fault().0, "MUR0707");
}
