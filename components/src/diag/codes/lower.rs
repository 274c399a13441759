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
    LOOP_LOWER_BOUND = "MUR0420", "the lower bound of a run-time loop is not a constant";
    LOOP_STEP = "MUR0421", "the step of a run-time loop is not a positive constant";
    LOOP_UPPER_BOUND = "MUR0422", "the upper bound of a run-time loop is not one run-time value";
    LOOP_NEST = "MUR0423", "loops do not nest";
    LOOP_AXIS_SCOPE = "MUR0424", "an address uses a loop axis outside of its loop";
    LOOP_CONDITION = "MUR0425", "a do-while has no usable condition";
    LOOP_CONTROL_FLOW = "MUR0426", "control flow is not reducible";
    LOOP_DMA = "MUR0427", "a static DMA in a loop writes what must stay";
    LOOP_AXIS_ENGINE = "MUR0428", "an induction register belongs to another engine";
    LOOP_LIMIT = "MUR0429", "the limit of a loop does not fit its register";
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
    DMA_DYNAMIC_FORM = "MUR0470", "a generated DMA has a form that its generator does not take";
    DMA_FAMILY = "MUR0471", "a copy is of a family that no descriptor of the profile says";
    BLOCK_FAMILY = "MUR0472", "descriptors of a DMA block are not of the family of its trigger";
    BLOCK_COMPLETION = "MUR0473", "a DMA block does not complete with exactly one semaphore update";
    BLOCK_TRIGGER = "MUR0474", "a DMA block is not fired by exactly one trigger";
    BLOCK_RECORDS = "MUR0475", "the records of a DMA block are not descriptors";
    ENCODE_ADDRESS = "MUR0450", "an operand has no address";
    ENCODE_PATTERN = "MUR0451", "an access pattern does not fit its descriptor";
    ENCODE_UNSUPPORTED = "MUR0452", "this instruction has no record";
    ENCODE_BRANCH = "MUR0453", "a branch has no target";
    ENCODE_VERIFY = "MUR0454", "a record does not decode to its instruction";
    DMA_DST_REDUCE = "MUR0460", "a copy that combines at its destination may not be generated";
    DGE_SCRATCH = "MUR0461", "the dynamic-DMA scratch cannot have this size";
    DGE_NO_HARDWARE = "MUR0462", "the target has no hardware descriptor generator";
    DMA_NO_SCRATCH = "MUR0463", "a software-generated DMA has no scratch";
    DMA_DYNAMIC_TRANSPOSE = "MUR0464", "no generator can do a transpose at a run-time offset of this shape";
    ENCODE_SYMBOL = "MUR0455", "inputs or outputs do not match the program's signature";
}
