//! Files, inputs and outputs of the command line.

use super::{Code, CodeInfo, codes};

codes! {
    CLI_FILE = "MUR0901", "a file cannot be read or written";
}
