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
