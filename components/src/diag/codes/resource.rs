//! Registers, SBUF, PSUM, semaphores and queues.

use super::{Code, CodeInfo, codes};

codes! {
    RES_SBUF = "MUR0501", "a tile does not fit into SBUF";
}
