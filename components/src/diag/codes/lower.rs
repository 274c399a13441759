//! Lowering: what the machine or the compiler cannot do.

use super::{Code, CodeInfo, codes};

codes! {
    LOWER_UNSUPPORTED_OP = "MUR0401", "this operation is not lowered";
    LOWER_TYPE = "MUR0402", "this element type is not lowered";
    LOWER_TILE = "MUR0403", "a tensor is too large for one tile";
    LOWER_LAYOUT = "MUR0404", "no access pattern can say this copy";
    LOWER_DYNAMIC_SHAPE = "MUR0406", "a run-time extent has no rule";
    LOWER_LOOP_RULE = "MUR0407", "a loop breaks a rule of its kind";
    LOWER_RECURSION = "MUR0408", "computations call each other without end";
    DYNAMIC_AP_INDEX = "MUR0410", "an index is not among a copy's access-pattern indices";
    DYNAMIC_COPY = "MUR0411", "a dynamic copy does not hold together";
    DYNAMIC_OFFSET_KIND = "MUR0412", "a run-time offset is not exactly one of scalar and vector";
    DYNAMIC_MAX_INDEX = "MUR0413", "a run-time index has an empty range";
    ADDRESS_OPERATOR = "MUR0414", "an address operator is not implemented in registers";
    SYMBOLIC_AP = "MUR0415", "a symbolic access pattern cannot be lowered";
    DYNAMIC_REGISTER = "MUR0416", "a run-time value has no register on the engine that needs it";
    EXPR_BOUNDS = "MUR0417", "an index is outside its bounds";
    DYNAMIC_DMA = "MUR0418", "a run-time offset breaks a rule of dynamic DMAs";
    DMA_LEVEL_OFF = "MUR0430", "a dynamic DMA needs a DGE level that is off";
    DMA_TENSOR_INDIRECT = "MUR0431", "a DMA operand is tensor-indirect";
    DMA_DGE_DISABLED = "MUR0432", "a DMA is routed to a descriptor generator although all are off";
    DMA_ROUTE_NOT_ELIGIBLE = "MUR0433", "the route of a dynamic DMA is not in its eligible set";
    DMA_HWDGE_ENGINE = "MUR0434", "a hardware-generated DMA is on an engine that has no generator";
    DMA_ON_PE = "MUR0435", "a hardware-generated DMA cannot be issued by PE";
    DMA_QUEUES = "MUR0436", "too many DMA queues";
    DMA_QUEUE_NAME = "MUR0437", "a DMA queue's name is longer than 31 characters";
    ROUTE_INCONSISTENT = "MUR0438", "route, engine and queue of a DMA do not agree";
    DMA_SHAPE = "MUR0440", "the two sides of a DMA have different counts";
    DMA_TABLE = "MUR0441", "a dynamic DMA cannot be cut into table-addressed records";
    DMA_DYNAMIC_AHEAD = "MUR0442", "a copy with a run-time offset cannot have its descriptors built ahead";
    DMA_ADDRESS = "MUR0443", "a DMA address does not fit its field";
    DESCRIBE_COVERAGE = "MUR0444", "descriptors do not cover their copy";
    ENCODE_ADDRESS = "MUR0450", "an operand has no address";
    ENCODE_PATTERN = "MUR0451", "an access pattern does not fit its descriptor";
    ENCODE_UNSUPPORTED = "MUR0452", "this instruction has no record";
    ENCODE_BRANCH = "MUR0453", "a branch has no target";
    ENCODE_VERIFY = "MUR0454", "a record does not decode to its instruction";
    ENCODE_SYMBOL = "MUR0455", "inputs or outputs do not match the program's signature";
}
