//! Encoding and decoding of words and records.

use super::{Code, CodeInfo, codes};

codes! {
    ISA_UNKNOWN_OPCODE = "MUR0801", "no record of the profile has this opcode";
}
