//! The sequencers on the simulator: registers, branches, register loads and stores, resets.

mod sim_build;

use sim_build::*;

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

fn at_register(opcode: RegisterAccessOp, dtype: u8, num: [u8; 2], step: [i32; 2], data: [u8; 2]) -> Record {
    let (address, address_high) = (9, 10);
    let [data, data_high] = data;
    rec(RegisterAccess { opcode, dtype, num, address, address_high, step, data, data_high })
}

#[test]
fn registers_move_to_and_from_sbuf() {
    use RegisterAccessOp::{TensorLoadRegister as Load, TensorSaveRegister as Save};
    let mut t = Build::new();
    // Partition 1 holds the words; loads one, adds 1, saves it to partition 0.
    t.load(SP, 32, 2, w(&[1, 2, 0xFFFF_FFFE, 40])).push(SP, set(10, 0));
    t.push(SP, set(9, (1 << 18) + 36)).push(SP, at_register(Load, 8, [1, 1], [1, 1], [3, 0]));
    t.push(SP, alu(4, 3, 3, 1)).push(SP, set(9, 64)).push(SP, at_register(Save, 8, [1, 1], [1, 1], [3, 0]));
    // Two elements a step of two apart.
    t.push(SP, set(9, (1 << 18) + 32)).push(SP, at_register(Load, 8, [2, 1], [1, 1], [4, 5]));
    t.push(SP, set(9, 68)).push(SP, at_register(Save, 8, [2, 1], [2, 1], [4, 5]));
    t.push(SP, set(9, 72)).push(SP, at_register(Save, 8, [1, 1], [1, 1], [5, 0]));
    t.store(SP, 64, 1, 16);
    assert_eq!(words(&t.run().unwrap()[0]), [41, 0xFFFF_FFFE, 40, 40]);
    // Narrow elements carry their sign.
    let mut t = Build::new();
    t.load(SP, 32, 1, vec![0xFE, 0xFF, 0x80, 0]).push(SP, set(10, 0)).push(SP, set(9, 32));
    t.push(SP, at_register(Load, 4, [1, 1], [1, 1], [3, 0])).push(SP, set(9, 34));
    t.push(SP, at_register(Load, 2, [1, 1], [1, 1], [4, 0])).push(SP, set(9, 64));
    t.push(SP, at_register(Save, 8, [1, 1], [1, 1], [3, 0])).push(SP, set(9, 68));
    t.push(SP, at_register(Save, 8, [1, 1], [1, 1], [4, 0])).store(SP, 64, 1, 8);
    assert_eq!(words(&t.run().unwrap()[0]), [-2i32 as u32, -128i32 as u32]);
    // Past the active bytes of a partition.
    let mut t = Build::new();
    t.push(SP, set(10, 0)).push(SP, set(9, 0x3_8000)).push(SP, at_register(Load, 8, [1, 1], [1, 1], [3, 0]));
    assert_eq!(t.fault().0, "MUR0702");
}

#[test]
fn register_pairs_are_one_number() {
    let pair = |op: u8, source: u8, imm: u64| RegisterAlu {
        op,
        dtype: 1,
        source,
        dst_dtype: 0,
        src0: 3,
        src0_high: 4,
        src1: if source == 0 { 5 } else { 0 },
        src1_high: if source == 0 { 6 } else { 0 },
        dst: 7,
        dst_high: 8,
        imm,
    };
    let (a, b) = (0x1_FFFF_FFFFu64, 0x3_0000_0002u64);
    let cases = [
        (pair(0x04, 1, 1), a + 1),
        (pair(0x04, 0, 0), a + b),
        (pair(0x05, 0, 0), a.wrapping_sub(b)),
        (pair(0x06, 1, 3), a * 3),
        (pair(0x00, 1, 0), a),
    ];
    for (i, want) in cases {
        let mut t = Build::new();
        let out = t.var(VarKind::Output, 8);
        for (id, half) in [(3, a), (4, a >> 32), (5, b), (6, b >> 32)] {
            t.push(SP, set(id, half as u32));
        }
        t.push(SP, rec(i));
        t.push(
            SP,
            rec(VariableAccess {
                opcode: VariableAccessOp::TensorSave,
                dtype: 1,
                num: [1, 1],
                variable: out,
                offset: 0,
                step: [1, 1],
                data: 7,
                data_high: 8,
            }),
        );
        assert_eq!(t.run().unwrap()[0], want.to_le_bytes(), "operator {:#x}", i.op);
    }
}

#[test]
fn group_resets_zero_a_range_or_a_mask() {
    let noop = |e: Events| with(Bare { opcode: BareOp::NoOp }, e);
    let mut mask = [0; 8];
    (mask[0], mask[6]) = (1 << 12, 1 << 8);
    for (reset, zeroed) in [
        (GroupResetSemaphores { kind: 1, first: 11, last: 12, mask: [0; 8] }, [11u8, 12].as_slice()),
        (GroupResetSemaphores { kind: 2, first: 0, last: 0, mask }, &[12, 200]),
    ] {
        for id in [10, 11, 12, 200] {
            let mut t = Build::new();
            for id in [10, 11, 12, 200] {
                t.push(SP, noop(raise(id)));
            }
            t.push(SP, rec(reset));
            t.push(SP, noop(Events::NONE.waiting(1, id, !zeroed.contains(&id) as u32).unwrap()));
            assert!(t.run().is_ok(), "semaphore {id}");
        }
    }
}
