//! Files, inputs and outputs of the command line.

use super::{Code, CodeInfo, codes};

codes! {
    CLI_FILE = "MUR0901", "a file cannot be read or written";
    CLI_INPUTS = "MUR0902", "the program takes inputs and none were given";
    CLI_VALUE = "MUR0903", "the module has no such value";
    CLI_WORD = "MUR0904", "not the hexadecimal digits of a word or a record";
    CLI_CASE = "MUR0905", "a case has no module";
    CLI_NO_SCALAR = "MUR0906", "nothing that only a run knows depends on the value";
    CLI_ENTITY = "MUR0907", "the compilation has no such entity";
    CLI_USAGE = "MUR0908", "the command line is wrong";
    CLI_UNUSED = "MUR0909", "something is given that has no effect";
    BULK_NO_MODULE = "MUR0910", "the inputs name no module";
    BULK_OUTPUT = "MUR0911", "an output of a bulk run cannot be written";
    BULK_CACHE = "MUR0912", "the cache cannot be written";
    BULK_BUSY = "MUR0913", "another run is writing there";
    BULK_DIFFERS = "MUR0914", "a stored program differs from a compilation";
    BULK_FAIL_FAST = "MUR0915", "a bulk run ended with the first failure";
    LAB_BYTES = "MUR0920", "two settings of the lab gave different bytes";
    LAB_CELL = "MUR0921", "a measurement of the lab failed";
}
