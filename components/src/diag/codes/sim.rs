//! The simulator.

use super::{Code, CodeInfo, codes};

codes! {
    SIM_POISON = "MUR0701", "an uninitialised value was read";
    SIM_RANGE = "MUR0702", "an access lies outside its memory";
    SIM_DEADLOCK = "MUR0703", "every engine waits and none can go on";
    SIM_BOUND = "MUR0704", "a dynamic access left its bound";
    SIM_STEPS = "MUR0705", "the step limit was reached";
    SIM_RECORD = "MUR0706", "the simulator cannot execute this record";
    SIM_STATE = "MUR0707", "an instruction finds the engine in the wrong state";
    SIM_INPUT = "MUR0708", "an input does not fit the program";
    SIM_REGISTER = "MUR0709", "a register operation outside its domain";
    SIM_RACE = "MUR0710", "two accesses to the same bytes are not ordered";
    SIM_SIZE = "MUR0711", "a run-time size is outside its bound";
    SIM_EXTENTS = "MUR0712", "run-time extents that are read side by side differ";
}
