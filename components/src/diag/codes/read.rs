//! Reading HLO text, protos and arrays.

use super::{Code, CodeInfo, codes};

codes! {
    READ_EMPTY = "MUR0101", "the input is empty";
    READ_FORMAT = "MUR0102", "the input is neither HLO text nor an HLO proto";
    READ_SYNTAX = "MUR0103", "the HLO text is malformed";
    READ_CUT = "MUR0104", "the input ends in the middle";
    READ_UNKNOWN_OPCODE = "MUR0105", "unknown opcode";
    READ_UNKNOWN_ATTRIBUTE = "MUR0106", "unknown attribute";
    READ_UNDEFINED = "MUR0107", "an operand is not defined before its use";
    READ_DUPLICATE = "MUR0108", "a name is defined twice";
    READ_MISSING_COMPUTATION = "MUR0109", "a called computation is not defined before its caller";
    READ_ELIDED = "MUR0110", "a constant's values were left out of the dump";
    READ_LITERAL_RANGE = "MUR0111", "a constant's value does not fit its type";
    READ_LITERAL_SHAPE = "MUR0112", "a constant's values do not fit its shape";
    READ_PARAMETERS = "MUR0113", "parameter numbers have a hole or a duplicate";
    READ_SHAPE = "MUR0114", "a shape is malformed, or cannot be left out here";
    READ_CYCLE = "MUR0115", "instructions or computations depend on each other in a cycle";
    READ_PROTO = "MUR0116", "the HLO proto is inconsistent";
    READ_ATTRIBUTE = "MUR0117", "an attribute is missing or malformed";
    READ_TOO_DEEP = "MUR0118", "nesting is too deep";
    READ_ENTRY = "MUR0119", "the module has no entry computation, or more than one";
    READ_OPERAND_SHAPE = "MUR0120", "an operand is written with another shape than it has";
    ARRAY_RANK = "MUR0121", "an array has the wrong number of dimensions";
    ARRAY_EXTENT = "MUR0122", "an array has the wrong extent";
    ARRAY_DTYPE = "MUR0123", "an array has the wrong element type";
    ARRAY_MISSING = "MUR0124", "an array is missing";
    ARRAY_CORRUPT = "MUR0125", "an array file is damaged or of an unknown kind";
    ARRAY_WRITE = "MUR0126", "an array file cannot be written";
    READ_TOO_LARGE = "MUR0128", "the input is too large";
    CASE_INVALID = "MUR0127", "a fixture's case.json is damaged";
}
