//! Files, inputs and outputs of the command line.

use super::{Code, CodeInfo, codes};

codes! {
    CLI_FILE = "MUR0901", "a file cannot be read or written";
    CLI_INPUTS = "MUR0902", "the program takes inputs and none were given";
    CLI_VALUE = "MUR0903", "the module has no such value";
    CLI_WORD = "MUR0904", "not the hexadecimal digits of a word or a record";
    CLI_CASE = "MUR0905", "a case has no module";
    LAB_BYTES = "MUR0920", "two settings of the lab gave different bytes";
    LAB_CELL = "MUR0921", "a measurement of the lab failed";
}
