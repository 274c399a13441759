//! Transfers on the simulator: bounds, index vectors, casts, accumulation.

mod sim_build;

use sim_build::*;

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
fn wide_offsets_take_two_registers() {
    for (offset, want) in [(8u64, Some(12..16)), (1 << 32, None)] {
        let mut t = Build::new();
        let zero = t.input(vec![0; 16]);
        let x = t.input(vec![1, 2, 3, 4]);
        let out = t.var(VarKind::Output, 16);
        t.p.table.push(TableEntry { var: out, displacement: 4 });
        t.push(SP, rec(copy(var(zero, 0), 16, var(out, 0), 16, 1, 16))).push(SP, drain());
        t.push(SP, set(4, offset as u32)).push(SP, set(5, (offset >> 32) as u32));
        t.push(SP, set(6, 12)).push(SP, set(7, 0));
        let mut d = copy(var(x, 0), 4, Addr8::table_register(0, 4, true).unwrap(), 4, 1, 4);
        d.dst_bound = BoundRegister::checked(6, false).unwrap();
        t.push(SP, rec(d)).push(SP, drain());
        match want {
            Some(at) => assert_eq!(t.run().unwrap()[0][at], [1, 2, 3, 4]),
            None => assert_eq!(t.fault().0, "MUR0704"),
        }
    }
}

#[test]
fn transfers_cast_between_dtypes() {
    let half = |v: f32| (v.to_bits() >> 16) as u16;
    let cases: [(u8, u8, Vec<u8>, Vec<u8>); 4] = [
        (10, 6, f(&[1.5, -2.0]), [half(1.5), half(-2.0)].iter().flat_map(|h| h.to_le_bytes()).collect()),
        (6, 10, half(-3.0).to_le_bytes().to_vec(), f(&[-3.0])),
        (8, 10, w(&[-7i32 as u32, 9]), f(&[-7., 9.])),
        (10, 8, f(&[2.5, -3.5]), w(&[2, -4i32 as u32])),
    ];
    for (from, to, x, want) in cases {
        let mut t = Build::new();
        let (n, m) = (x.len() as u32, want.len() as u32);
        let x = t.input(x);
        let out = t.var(VarKind::Output, want.len());
        let mut d = copy(var(x, 0), n as i32, var(out, 0), m as i32, 1, n);
        d.dst_row = RowBytes::new(m).unwrap();
        (d.src_dtype, d.dst_dtype) = (from, to);
        t.push(SP, rec(d)).push(SP, drain());
        assert_eq!(t.run().unwrap()[0], want, "{from} to {to}");
    }
}

#[test]
fn transfers_accumulate() {
    let cases: [(u8, u8, Vec<u8>, Vec<u8>, Vec<u8>); 6] = [
        (1, 10, f(&[1., 2.]), f(&[10., -2.5]), f(&[11., -0.5])),
        (2, 10, f(&[3., 2.]), f(&[10., -2.5]), f(&[30., -5.])),
        (3, 8, w(&[3, -5i32 as u32]), w(&[-1i32 as u32, -4i32 as u32]), w(&[3, -4i32 as u32])),
        (4, 9, w(&[3, 5]), w(&[u32::MAX, 4]), w(&[3, 4])),
        (1, 8, w(&[0x7FFF_FFFF, 1]), w(&[1, u32::MAX]), w(&[0x8000_0000, 0])),
        (3, 10, f(&[3., -2.]), f(&[1., 2.]), f(&[3., 2.])),
    ];
    for (op, dtype, old, new, want) in cases {
        let mut t = Build::new();
        let (old, new) = (t.input(old), t.input(new));
        let out = t.var(VarKind::Output, 8);
        let mut d = copy(var(new, 0), 8, var(out, 0), 8, 1, 8);
        (d.src_dtype, d.dst_dtype) = (dtype, dtype);
        let mut e = DmaExtension::EMPTY;
        e.compute = op;
        t.push(SP, rec(copy(var(old, 0), 8, var(out, 0), 8, 1, 8))).push(SP, drain());
        t.push(SP, rec(d)).push(SP, rec(e)).push(SP, drain());
        assert_eq!(t.run().unwrap()[0], want, "operator {op} dtype {dtype}");
    }
}

/// Rows 0..3 of a variable go to the rows that an index vector names; both sides may have one.
fn scattered(mode: u8, compute: u8, index: [u32; 3], error: bool) -> Build {
    let mut t = Build::new();
    let x = t.input(w(&[1, 2, 3]));
    let zero = t.input(vec![0; 16]);
    let out = t.var(VarKind::Output, 16);
    t.load(SP, 256, 1, w(&index)).load(SP, 512, 1, w(&[2, 1, 0]));
    t.push(SP, rec(copy(var(zero, 0), 16, var(out, 0), 16, 1, 16))).push(SP, drain());
    let mut d = copy(var(x, 0), 4, var(out, 0), 4, 3, 4);
    (d.dge_op, d.src_dtype, d.dst_dtype) = (1, 8, 8);
    let mut e = DmaExtension::EMPTY;
    e.flags = DmaExtension::flags_of(mode, error, true, 0, 0);
    (e.index_channels, e.compute) = (128, compute);
    (e.dst_index, e.dst_bound_low) = (sb(256), 16);
    if mode == 2 {
        (e.src_index, e.src_bound_low) = (sb(512), 12);
    }
    t.push(SP, rec(d)).push(SP, rec(e)).push(SP, drain());
    t
}

#[test]
fn index_vectors_scatter_rows() {
    assert_eq!(words(&scattered(1, 0, [3, 0, 2], true).run().unwrap()[0]), [2, 0, 3, 1]);
    assert_eq!(words(&scattered(2, 0, [3, 0, 2], true).run().unwrap()[0]), [2, 0, 1, 3]);
    // Repeated rows add up.
    assert_eq!(words(&scattered(1, 1, [1, 1, 0], true).run().unwrap()[0]), [3, 3, 0, 0]);
    assert_eq!(scattered(1, 0, [3, 4, 2], true).fault().0, "MUR0704");
    assert_eq!(words(&scattered(1, 0, [3, 4, 2], false).run().unwrap()[0]), [0, 0, 3, 1]);
}

#[test]
fn rows_that_are_combined_twice_are_declared() {
    let undeclared = |index| {
        let mut t = scattered(1, 1, index, true);
        for r in t.p.streams[SP].iter_mut().filter(|r| r[0] == 0xDA) {
            r[1] &= !dma::INDEX_NOT_UNIQUE;
        }
        t
    };
    assert_eq!(undeclared([1, 1, 0]).fault().0, "MUR0706");
    assert_eq!(words(&undeclared([1, 2, 0]).run().unwrap()[0]), [3, 1, 2, 0]);
}

#[test]
fn a_pair_that_does_not_fit_is_no_transfer() {
    let alone = |op: u8| {
        let mut t = Build::new();
        let x = t.input(vec![0; 16]);
        let mut d = copy(var(x, 0), 4, tile(0), 0x40000, 2, 4);
        d.dge_op = op;
        t.push(SP, rec(d)).push(SP, drain());
        t.fault().0
    };
    assert_eq!([alone(1), alone(2), alone(3)], ["MUR0832"; 3]);
    let mut t = scattered(1, 0, [3, 0, 2], true);
    for r in t.p.streams[SP].iter_mut().filter(|r| r[0] == 0xDA) {
        r[8..12].copy_from_slice(&Addr4::sbuf(1, 256).unwrap().word().to_le_bytes());
    }
    assert_eq!(t.fault().0, "MUR0833", "indices outside partition 0");
}

/// Gather, scatter and both at once against a plain loop: an index at or past the bound, all ones among them, is skipped
/// or, with the error bit, an error (`spec/ir.md 12.3`, hook 13).
#[test]
fn random_index_vectors_do_what_a_loop_does() {
    let mut state = 5u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % n) as u32
    };
    let (mut skipped, mut refused) = (0, 0);
    for _ in 0..300 {
        let (mode, compute, error) = (below(3) as u8, below(2) as u8, below(4) == 0);
        let n = 1 + below(9) as usize;
        let (src_rows, dst_rows) = (1 + below(8), 1 + below(8));
        let (src_rows, dst_rows) = match mode {
            0 => (src_rows, n as u32),
            1 => (n as u32, dst_rows),
            _ => (src_rows, dst_rows),
        };
        let mut index = |rows: u32| -> Vec<u32> {
            let one = |_| match below(6) {
                0 => u32::MAX,
                1 => rows + below(3),
                _ => below(u64::from(rows)),
            };
            (0..n).map(one).collect()
        };
        let (from, to) = (index(src_rows), index(dst_rows));
        let source: Vec<u32> = (0..src_rows).map(|i| 100 + i).collect();
        let mut want: Vec<u32> = (0..dst_rows).map(|i| 1000 * i).collect();
        let before = want.clone();
        let mut outside = false;
        for i in 0..n {
            let s = if mode == 1 { i } else { from[i] as usize };
            let d = if mode == 0 { i } else { to[i] as usize };
            if s >= source.len() || d >= want.len() {
                outside = true;
                continue;
            }
            want[d] = if compute == 1 { want[d].wrapping_add(source[s]) } else { source[s] };
        }
        let mut t = Build::new();
        let (x, old) = (t.input(w(&source)), t.input(w(&before)));
        let out = t.var(VarKind::Output, 4 * dst_rows as usize);
        t.load(SP, 256, 1, w(&from)).load(SP, 512, 1, w(&to));
        let bytes = 4 * dst_rows;
        t.push(SP, rec(copy(var(old, 0), bytes as i32, var(out, 0), bytes as i32, 1, bytes)))
            .push(SP, drain());
        let mut d = copy(var(x, 0), 4, var(out, 0), 4, n as u16, 4);
        (d.dge_op, d.src_dtype, d.dst_dtype) = (1, 8, 8);
        let mut e = DmaExtension::EMPTY;
        e.flags = DmaExtension::flags_of(mode, error, true, 0, 0);
        (e.index_channels, e.compute) = (128, compute);
        if mode != 1 {
            (e.src_index, e.src_bound_low) = (sb(256), 4 * src_rows);
        }
        if mode != 0 {
            (e.dst_index, e.dst_bound_low) = (sb(512), bytes);
        }
        t.push(SP, rec(d)).push(SP, rec(e)).push(SP, drain());
        if outside && error {
            refused += 1;
            assert_eq!(t.fault().0, "MUR0704", "{mode} {from:?} {to:?}");
        } else {
            skipped += u32::from(outside);
            assert_eq!(words(&t.run().unwrap()[0]), want, "mode {mode} compute {compute} {from:?} {to:?}");
        }
    }
    assert!(skipped > 50 && refused > 20, "{skipped} skip, {refused} are refused");
}
