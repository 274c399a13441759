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
