//! Reading HLO text, protos and arrays.

use super::{Code, CodeInfo, codes};

codes! {
    READ_EMPTY = "MUR0101", "the input is empty";
}
