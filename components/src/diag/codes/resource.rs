//! Registers, SBUF, PSUM, semaphores and queues.

use super::{Code, CodeInfo, codes};

codes! {
    RES_SBUF = "MUR0501", "a tile does not fit into SBUF";
    RES_REGISTERS = "MUR0502", "an engine runs out of registers";
    RES_SEMAPHORES = "MUR0503", "engines and queues need more semaphores than there are";
    RES_PSUM = "MUR0504", "a tile does not fit into PSUM";
    RES_SBUF_LIMIT = "MUR0505", "the given size of SBUF cannot be used";
    RES_REGISTER_RULE = "MUR0506", "a register instruction breaks a rule of widths";
    RES_REGISTER_UNWRITTEN = "MUR0507", "a register is read before it is written";
}
