//! The race check: what nothing orders is a race in every interleaving, also when the numbers come out right.

mod sim_build;

use sim_build::*;

fn noop(e: Events) -> Record {
    with(Bare { opcode: BareOp::NoOp }, e)
}

fn fill(value: f32, dst: u32) -> Memset {
    let value = value.to_bits();
    Memset { opcode: MemsetOp::Memset, count: 4, dtype: 10, channels: 1, value, dst: line(sb(dst), 4) }
}

fn double(src: u32, dst: u32) -> TensorScalar {
    TensorScalar {
        opcode: TensorScalarOp::TensorScalar,
        cmd: 0,
        src: line(sb(src), 4),
        src_dtype: 10,
        out_dtype: 10,
        channels: 1,
        op0: 6,
        op1: 0,
        reverse: 0,
        imm0: lit(2.0),
        imm1: lit(0.0),
        dst: line(sb(dst), 4),
    }
}

fn checked(t: &Build, seed: Option<u64>) -> Result<Vec<Vec<u8>>, Diagnostic> {
    t.run_with(&SimOptions { interleave: seed, max_steps: 10_000, check_races: true, ..Default::default() })
}

/// Every order of the engines shows a race.
fn races(t: &Build) -> Diagnostic {
    for seed in 0..64 {
        let d = checked(t, Some(seed)).expect_err("a race");
        assert_eq!(d.code.id, "MUR0710", "seed {seed}: {}", d.message);
    }
    checked(t, None).expect_err("a race")
}

fn is_free(t: &Build) -> Vec<Vec<u8>> {
    let first = checked(t, None).unwrap_or_else(|d| panic!("{d:#?}"));
    for seed in 0..64 {
        assert_eq!(checked(t, Some(seed)).unwrap_or_else(|d| panic!("seed {seed}: {d:#?}")), first);
    }
    first
}

/// All engines meet; what was done before is ordered before what comes.
fn barrier(t: &mut Build) {
    for e in 0..5 {
        t.push(e, rec(Bare { opcode: BareOp::AllEngineBarrier }));
    }
}

/// The tile holds 3 already when Pool writes 3 once more and DVE doubles it: 6 under every order.
fn producer_and_consumer(ordered: bool) -> Build {
    let mut t = Build::new();
    t.push(POOL, rec(fill(3.0, 0)));
    barrier(&mut t);
    t.push(POOL, with(fill(3.0, 0), raise(10)));
    t.push(DVE, if ordered { with(double(0, 64), wait(10, 1)) } else { rec(double(0, 64)) });
    t.store(DVE, 64, 1, 16);
    t
}

#[test]
fn a_consumer_without_its_wait_races_though_the_numbers_are_right() {
    let t = producer_and_consumer(false);
    assert_eq!(floats(&t.run().unwrap()[0]), [6.; 4]);
    races(&t);
    assert_eq!(floats(&is_free(&producer_and_consumer(true))[0]), [6.; 4]);
}

#[test]
fn run_and_check_switch_the_check_on() {
    let mut p = producer_and_consumer(false).p;
    for s in &mut p.streams {
        s.push(rec(Exit {}));
    }
    let faults = murre::check::simulate(&p, &[], Default::default()).expect_err("a race");
    assert_eq!(faults[0].code.id, "MUR0710");
}

#[test]
fn a_race_names_both_records_their_instructions_and_the_place() {
    let mut t = producer_and_consumer(false);
    t.p.provenance.names = ["broadcast.1", "multiply.7"].into_iter().collect();
    t.p.provenance.streams[POOL] = vec![0, u32::MAX, 0];
    t.p.provenance.streams[DVE] = vec![u32::MAX, 1];
    let all: Vec<Diagnostic> = (0..64).filter_map(|seed| checked(&t, Some(seed)).err()).collect();
    let d = all.iter().find(|d| d.instruction.as_deref() == Some("multiply.7")).expect("DVE came second");
    let want = "dve record 1 of 'multiply.7' reads SBUF partition 0 byte 0x0, which pool record 2 of 'broadcast.1' \
                writes too, and nothing orders the two";
    assert!(d.message.starts_with(want), "{}", d.message);
    let d = all.iter().find(|d| d.instruction.as_deref() == Some("broadcast.1")).expect("Pool came second");
    let want = "pool record 2 of 'broadcast.1' writes SBUF partition 0 byte 0x0, which dve record 1 of 'multiply.7' \
                reads too";
    assert!(d.message.starts_with(want), "{}", d.message);
}

#[test]
fn a_wait_for_fewer_updates_than_the_producer_makes_promises_only_those() {
    for (least, free) in [(2, true), (1, false)] {
        let mut t = Build::new();
        t.push(POOL, rec(fill(3.0, 0)));
        barrier(&mut t);
        t.push(POOL, noop(raise(10))).push(POOL, with(fill(3.0, 0), raise(10)));
        t.push(DVE, with(double(0, 64), wait(10, least))).store(DVE, 64, 1, 16);
        if free {
            is_free(&t);
        } else {
            races(&t);
        }
    }
}

#[test]
fn writing_a_tile_again_needs_the_reader_to_be_done() {
    for ordered in [true, false] {
        let mut t = Build::new();
        t.push(POOL, with(fill(3.0, 0), raise(10)));
        t.push(DVE, with(double(0, 64), wait(10, 1).updating(UPDATE_INC, 11, 0).unwrap()));
        let again = fill(3.0, 0);
        t.push(POOL, if ordered { with(again, wait(11, 1)) } else { rec(again) });
        t.store(DVE, 64, 1, 16);
        if ordered {
            is_free(&t);
        } else {
            let d = races(&t);
            assert!(d.message.contains("dve record 0"), "{d:?}");
        }
    }
}

#[test]
fn two_readers_do_not_race_but_a_writer_must_wait_for_both() {
    for (waits, free) in [(&[11u8, 12][..], true), (&[11], false), (&[12], false)] {
        let mut t = Build::new();
        t.push(POOL, rec(fill(3.0, 0)));
        barrier(&mut t);
        t.push(DVE, with(double(0, 64), raise(11)));
        t.push(ACT, with(tr(TensorReduceOp::Copy, line(sb(0), 4), 10, line(sb(96), 4), 10, 1), raise(12)));
        for id in waits {
            t.push(POOL, noop(wait(*id, 1)));
        }
        t.push(POOL, rec(fill(5.0, 0)));
        if free {
            is_free(&t);
        } else {
            races(&t);
        }
    }
}

/// SP's queue fills a tile that an engine filled before; DVE reads it.
fn transfer(order: &str) -> Build {
    let mut t = Build::new();
    let x = t.input(f(&[3.; 4]));
    t.push(POOL, rec(fill(3.0, 0)));
    barrier(&mut t);
    let mut load = copy(var(x, 0), 16, tile(0), 0x40000, 1, 16);
    match order {
        "increment" => {
            (load.semaphore, load.increment) = (10, 1);
            t.push(SP, rec(load));
            t.push(DVE, noop(wait(10, 1)));
        }
        "update" => {
            t.push(SP, with(load, raise(10)));
            t.push(DVE, noop(wait(10, 1)));
        }
        "drain" => {
            t.push(SP, rec(load)).push(SP, with(Drain { count: 1 }, raise(10)));
            t.push(DVE, noop(wait(10, 1)));
        }
        "no drain" => {
            t.push(SP, rec(load)).push(SP, noop(raise(10)));
            t.push(DVE, noop(wait(10, 1)));
        }
        "barrier" => {
            t.push(SP, rec(load)).push(SP, drain());
            barrier(&mut t);
        }
        "barrier without drain" => {
            t.push(SP, rec(load));
            barrier(&mut t);
        }
        _ => {
            t.push(SP, rec(load));
        }
    }
    t.push(DVE, rec(double(0, 64))).store(DVE, 64, 1, 16);
    t
}

#[test]
fn queues_run_on_their_own_until_a_semaphore_a_drain_or_a_drained_barrier() {
    for order in ["increment", "update", "drain", "barrier"] {
        assert_eq!(floats(&is_free(&transfer(order))[0]), [6.; 4], "{order}");
    }
    for order in ["no drain", "barrier without drain", "nothing"] {
        let d = races(&transfer(order));
        assert!(d.message.contains("the queue of sp record 1"), "{order}: {}", d.message);
    }
}

#[test]
fn an_issue_orders_the_engine_before_its_queue() {
    // The same engine writes the tile and stores it: fine. Writing it again before the store ended: a race.
    for again in [false, true] {
        let mut t = Build::new();
        let out = t.var(VarKind::Output, 16);
        t.push(POOL, rec(fill(3.0, 0))).push(POOL, rec(copy(tile(0), 0x40000, var(out, 0), 16, 1, 16)));
        if again {
            t.push(POOL, rec(fill(3.0, 0)));
            races(&t);
        } else {
            t.push(POOL, drain()).push(POOL, rec(fill(3.0, 0)));
            is_free(&t);
        }
    }
}

#[test]
fn triggered_blocks_race_with_their_engine_and_with_other_queues() {
    for (waits, free) in [(true, true), (false, false)] {
        let mut t = Build::new();
        let x = t.input(f(&[3.; 4]));
        let out = t.var(VarKind::Output, 16);
        for q in ["q0", "q1"] {
            t.p.queues.push(Queue { name: q.into(), engine: EngineId::Sp });
        }
        let zero = t.input(vec![0; 16]);
        t.push(SP, rec(copy(var(zero, 0), 16, tile(0), 0x40000, 1, 16))).push(SP, drain());
        t.p.descriptors.push(rec(copy(var(x, 0), 16, tile(0), 0x40000, 1, 16)));
        t.p.descriptors.push(rec(copy(tile(0), 0x40000, var(out, 0), 16, 1, 16)));
        for k in 0..2 {
            t.p.blocks.push(BlockEntry { queue: k, first: k, count: 1 });
        }
        t.push(SP, with(DmaTrigger { queue: Name::new("q0").unwrap(), block: 0 }, raise(20)));
        let e = if waits { wait(20, 1) } else { Events::NONE };
        t.push(SP, with(DmaTrigger { queue: Name::new("q1").unwrap(), block: 1 }, e)).push(SP, drain());
        if free {
            assert_eq!(floats(&is_free(&t)[0]), [3.; 4]);
        } else {
            let d = races(&t);
            assert!(d.message.contains("queue 'q0' descriptor 0"), "{}", d.message);
            assert!(d.message.contains("queue 'q1' descriptor 1"), "{}", d.message);
        }
    }
}

#[test]
fn neighbours_in_four_bytes_do_not_race() {
    let byte = |value: u32, at: u32| Memset {
        opcode: MemsetOp::Memset,
        count: 1,
        dtype: 3,
        channels: 1,
        value,
        dst: line(sb(at), 1),
    };
    let mut t = Build::new();
    t.push(POOL, with(byte(1, 0), raise(10))).push(DVE, with(byte(2, 1), raise(11)));
    t.push(POOL, rec(byte(3, 0)));
    t.push(SP, noop(wait(10, 1))).push(SP, noop(wait(11, 1)));
    barrier(&mut t);
    t.store(SP, 0, 1, 2);
    assert_eq!(is_free(&t)[0], [3, 2]);
    // One of the two is read without a wait.
    let mut t = Build::new();
    t.push(POOL, rec(byte(1, 0))).push(POOL, rec(byte(1, 1)));
    barrier(&mut t);
    t.push(POOL, with(byte(1, 0), raise(10))).push(DVE, rec(byte(1, 1)));
    t.push(SP, noop(wait(10, 1))).store(SP, 0, 1, 2);
    let d = races(&t);
    assert!(d.message.contains("byte 0x0") || d.message.contains("byte 0x1"), "{}", d.message);
}

#[test]
fn a_reset_forgets_what_was_released() {
    // Late on, ACT raises the counter again without knowing of Pool's write.
    for reset in [false, true] {
        let mut t = Build::new();
        t.push(POOL, rec(fill(3.0, 0)));
        barrier(&mut t);
        t.push(POOL, with(fill(3.0, 0), raise(10))).push(SP, noop(wait(10, 1)));
        if reset {
            t.push(SP, rec(GroupResetSemaphores { kind: 1, first: 10, last: 10, mask: [0; 8] }));
        }
        for _ in 0..100 {
            t.push(ACT, noop(Events::NONE)).push(DVE, noop(Events::NONE)).push(DVE, noop(Events::NONE));
        }
        t.push(ACT, noop(raise(10)));
        t.push(DVE, noop(wait(10, if reset { 1 } else { 2 }))).push(DVE, rec(double(0, 64)));
        let code = checked(&t, None).err().map(|d| d.code.id);
        assert_eq!(code, reset.then_some("MUR0710"));
    }
}
