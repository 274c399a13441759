//! Who may run before whom: waits, barriers, deadlocks, interleavings; and inputs that do not fit.

mod sim_build;

use sim_build::*;

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
    t.p.provenance.names = ["multiply.7"].into_iter().collect();
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
fn inputs_must_fit() {
    let mut t = pipeline(true);
    t.inputs[0].pop();
    assert_eq!(t.fault().0, "MUR0708");
    t.inputs.clear();
    assert_eq!(t.fault().0, "MUR0708");
}
