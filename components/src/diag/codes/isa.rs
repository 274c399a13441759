//! Encoding and decoding of words and records.

use super::{Code, CodeInfo, codes};

codes! {
    ISA_UNKNOWN_OPCODE = "MUR0801", "no record of the profile has this opcode";
    ISA_RESERVED = "MUR0802", "a reserved byte is not zero";
    ISA_FIELD = "MUR0803", "a field of a record has an illegal value";
    ISA_MODE = "MUR0804", "an address word is in a mode that means nothing here";
    ISA_MARKED = "MUR0805", "a gather base carries an address marker";
    ISA_ADDRESS = "MUR0806", "a partition, bank or offset lies outside its memory";
    ISA_REGISTER = "MUR0807", "not a register number";
    ISA_PLACEMENT = "MUR0808", "an operand may not live at this address";
    ISA_ALIGNMENT = "MUR0809", "an address is not aligned to its dtype";
    ISA_STEP = "MUR0810", "a step does not fit into 16 bits";
    ISA_COUNT = "MUR0811", "an element count is zero or does not fit into 16 bits";
    ISA_RANK = "MUR0812", "an access pattern has more dims than its slot";
    ISA_PATTERN = "MUR0813", "an access pattern has no legal partition dim";
    ISA_HEADER = "MUR0814", "the header of a record is not that of a 64-byte record";
    ISA_SCALE = "MUR0815", "MX scale rows start at an illegal partition";
    ISA_ADDR8 = "MUR0816", "an ADDR8 word is in no legal form";
    ISA_BOUND = "MUR0817", "a bound register byte is half set";
    ISA_EVENTS = "MUR0818", "a record cannot carry these events";
    ISA_NAME = "MUR0819", "a name does not fit its field";
    ISA_NO_WIRE_CODE = "MUR0823", "an operator has no wire code on this target";
    ISA_DTYPE = "MUR0824", "not a dtype of this generation";
    ISA_TEXT = "MUR0825", "the text of a record cannot be read";
    ISA_QUADRANT = "MUR0826", "a gather's index and data do not start in one SBUF quadrant";
    ISA_MX_TARGET = "MUR0827", "an MX operand on a generation that has none";
    ISA_MX_PARENT = "MUR0828", "data and scale of an MX operand belong to different instructions";
    ISA_MX_BOTH = "MUR0829", "only one of an MX operand's data and scale is gathered";
    ISA_MX_INDEX = "MUR0830", "data and scale of an MX operand are gathered by different indices";
    ISA_INACTIVE = "MUR0831", "an address lies in the padding behind a partition's bytes";
    ISA_TRANSFER_PAIR = "MUR0832", "a transfer and its extension record do not fit";
    ISA_TRANSFER_INDEX = "MUR0833", "the index vector of a transfer is not legal";
    ISA_TRANSFER_BYTES = "MUR0834", "the two sides of a transfer hold different numbers of elements";
    ISA_TRANSFER_COMPUTE = "MUR0835", "a transfer combines with an operator that compiled programs may not use";
    ISA_PAIR = "MUR0836", "a wide offset or bound is not in an even register pair";
}
