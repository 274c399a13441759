//! What one record can do is one record: steps with constants, scales and biases of functions.

mod support;

use murre::components::engine::{EngineId, Target};
use support::{compiled, module, simulate_and_evaluate};

/// Records with this opcode in the streams of one engine.
fn records(text: &str, engine: EngineId, opcode: u8) -> usize {
    let program = compiled(&module(text), Target::Trn2);
    let stream = EngineId::STREAMS.iter().position(|e| *e == engine).expect("a stream engine");
    program.streams[stream].iter().filter(|r| r[0] == opcode).count()
}

const SCALED: &str = "HloModule m ENTRY e { x = f32[40] parameter(0)
  c = f32[] constant(0.125) cb = f32[40] broadcast(c), dimensions={}
  d = f32[] constant(2) db = f32[40] broadcast(d), dimensions={}
  t = f32[40] multiply(x, cb) u = f32[40] subtract(t, db) ROOT y = f32[40] exponential(u) }";

const STEPS: &str = "HloModule m ENTRY e { x = f32[40] parameter(0)
  c = f32[] constant(3) cb = f32[40] broadcast(c), dimensions={}
  d = f32[] constant(7) db = f32[40] broadcast(d), dimensions={}
  t = f32[40] multiply(x, cb) u = f32[40] subtract(db, t) ROOT y = f32[40] divide(u, db) }";

/// The intermediate has a second reader.
const SHARED: &str = "HloModule m ENTRY e { x = f32[40] parameter(0)
  c = f32[] constant(3) cb = f32[40] broadcast(c), dimensions={}
  t = f32[40] multiply(x, cb) u = f32[40] add(t, cb) ROOT y = f32[40] add(u, t) }";

/// The intermediate rounds to bf16.
const ROUNDED: &str = "HloModule m ENTRY e { x = bf16[40] parameter(0)
  c = bf16[] constant(3) cb = bf16[40] broadcast(c), dimensions={}
  t = bf16[40] multiply(x, cb) ROOT y = bf16[40] add(t, cb) }";

#[test]
fn a_scale_and_a_bias_are_part_of_the_function() {
    assert_eq!(records(SCALED, EngineId::Dve, 0x43), 0);
    assert_eq!(records(SCALED, EngineId::Activation, 0x21), 1);
    simulate_and_evaluate(SCALED, 5);
}

#[test]
fn two_steps_are_one_record_and_a_third_is_another() {
    assert_eq!(records(STEPS, EngineId::Dve, 0x43), 2);
    simulate_and_evaluate(STEPS, 6);
}

#[test]
fn what_is_read_twice_or_rounds_stays() {
    assert_eq!(records(SHARED, EngineId::Dve, 0x43), 2);
    assert_eq!(records(ROUNDED, EngineId::Dve, 0x43), 2);
    simulate_and_evaluate(SHARED, 7);
    simulate_and_evaluate(ROUNDED, 8);
}
