//! The tensor engine on the simulator: multiplies, PSUM groups, transposes.

mod sim_build;

use sim_build::*;

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

/// Transposes a 3 by 2 tile: each moving column selects a row.
fn transposed(moving: Vec<f32>, psum: u8) -> Build {
    let (mut a, mut b) = (weights(3, 2), multiply(3, 2, 3, psum, 64, 0));
    (a.transpose, b.transpose, a.column_group, b.column_group) = (1, 1, 1, 1);
    let mut t = Build::new();
    t.load(PE, 0, 3, f(&[1., 2., 3., f32::MAX, -0.0, 6.])).load(PE, 64, 3, f(&moving));
    t.push(PE, rec(a)).push(PE, with(b, raise(9)));
    t.push(DVE, with(Bare { opcode: BareOp::NoOp }, wait(9, 1)));
    t.push(DVE, rec(tr(TensorReduceOp::Copy, line(ps(0, 0), 3), 10, line(sb(4096), 3), 10, 2)));
    t.store(DVE, 4096, 2, 12);
    t
}

#[test]
fn transposes_move_rows_unchanged() {
    let unit = vec![1., 0., 0., 0., 1., 0., 0., 0., 1.];
    let out = transposed(unit, 3).run().unwrap();
    // Bits, not numbers: minus zero stays.
    assert_eq!(words(&out[0]), [1f32, 3., -0.0, 2., f32::MAX, 6.].map(f32::to_bits));
    let mixed = vec![0., 0., 1., 1., 0., 0., 0., 1., 0.];
    assert_eq!(floats(&transposed(mixed, 3).run().unwrap()[0]), [3., 0., 1., f32::MAX, 6., 2.]);
    let two = vec![1., 0., 0., 1., 1., 0., 0., 0., 1.];
    assert_eq!(transposed(two, 3).fault().0, "MUR0706");
    let scaled = vec![2., 0., 0., 0., 1., 0., 0., 0., 1.];
    assert_eq!(transposed(scaled, 3).fault().0, "MUR0706");
}
