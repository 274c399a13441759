//! Which attributes an opcode takes. What is not listed for it is a fault, as it is for XLA's parser.
//! Facts: the attribute table of `spec/hlo.md 4`, completed by asking that parser.

use murre_components::hlo::HloOp;

/// Attributes of every instruction.
pub(super) const COMMON: [&str; 8] = [
    "backend_config",
    "control-predecessors",
    "frontend_attributes",
    "metadata",
    "origin",
    "parameter_replication",
    "sharding",
    "statistics",
];

const GROUPS: &[&str] =
    &["channel_id", "constrain_layout", "dimensions", "replica_groups", "use_global_device_ids"];
const REDUCING: &[&str] =
    &["channel_id", "constrain_layout", "mode", "replica_groups", "to_apply", "use_global_device_ids"];
const PERMUTE: &[&str] = &["channel_id", "slice_sizes", "source_target_pairs"];
const TRANSFER: &[&str] = &["channel_id", "is_host_transfer"];
const DIMENSIONS: &[&str] = &["dimensions"];
const ACCURACY: &[&str] = &["result_accuracy"];
const DOT: &[&str] = &[
    "algorithm",
    "lhs_batch_dims",
    "lhs_contracting_dims",
    "operand_precision",
    "rhs_batch_dims",
    "rhs_contracting_dims",
];

/// The attributes that `op` takes beside [`COMMON`].
pub(super) fn allowed(op: HloOp) -> &'static [&'static str] {
    use HloOp::*;
    match op {
        Acos | Acosh | Asin | Asinh | Atanh | Cbrt | Cosine | Cosh | Erf | Exponential
        | ExponentialMinusOne | Log | LogPlusOne | Logistic | Rsqrt | Sine | Sinh | Sqrt | Tan | Tanh => {
            ACCURACY
        }
        AllGather | AllGatherStart => GROUPS,
        AllReduce | AllReduceStart => REDUCING,
        AllToAll => &["channel_id", "constrain_layout", "dimensions", "replica_groups"],
        AsyncStart | AsyncUpdate | AsyncDone => &["async_execution_thread", "calls"],
        BatchNormGrad | BatchNormInference | BatchNormTraining => &["epsilon", "feature_index"],
        Broadcast | Concatenate | GetDimensionSize | Reverse | SetDimensionSize | Transpose => DIMENSIONS,
        Call => &["is_composite", "to_apply"],
        Cholesky => &["lower"],
        CollectiveBroadcast => &["channel_id", "replica_groups"],
        CollectivePermute | CollectivePermuteStart => PERMUTE,
        Compare => &["direction", "type"],
        Conditional => &["branch_computations", "false_computation", "true_computation"],
        Convolution => &[
            "batch_group_count",
            "convolution_kind",
            "dim_labels",
            "feature_group_count",
            "operand_precision",
            "sparsity_config",
            "window",
        ],
        CopyStart => &["cross_program_prefetch_index"],
        CustomCall => &[
            "api_version",
            "batch_group_count",
            "called_computations",
            "custom_call_has_side_effect",
            "custom_call_target",
            "dim_labels",
            "feature_group_count",
            "literal",
            "operand_layout_constraints",
            "operand_precision",
            "output_to_operand_aliasing",
            "padding_type",
            "schedule",
            "to_apply",
            "window",
        ],
        Domain => &["domain"],
        Dot | ScaledDot => DOT,
        DynamicSlice => &["dynamic_slice_sizes"],
        Fft => &["fft_length", "fft_type"],
        Fusion => &["calls", "kind", "output_to_operand_aliasing"],
        Gather => &[
            "collapsed_slice_dims",
            "index_vector_dim",
            "indices_are_sorted",
            "offset_dims",
            "operand_batching_dims",
            "slice_sizes",
            "start_index_map",
            "start_indices_batching_dims",
        ],
        GetTupleElement => &["index"],
        Infeed => &["infeed_config"],
        Iota => &["iota_dimension"],
        Map | Reduce => &["dimensions", "to_apply"],
        Outfeed => &["outfeed_config", "outfeed_shape"],
        Pad => &["padding"],
        RaggedAllToAll => &["channel_id", "dimensions", "replica_groups"],
        RaggedDot => &[
            "lhs_batch_dims",
            "lhs_contracting_dims",
            "lhs_ragged_dims",
            "operand_precision",
            "rhs_batch_dims",
            "rhs_contracting_dims",
            "rhs_group_dims",
        ],
        Recv | RecvDone | Send | SendDone => TRANSFER,
        ReducePrecision => &["exponent_bits", "mantissa_bits"],
        ReduceScatter => &[
            "channel_id",
            "constrain_layout",
            "dimensions",
            "mode",
            "replica_groups",
            "to_apply",
            "use_global_device_ids",
        ],
        ReduceWindow => &["to_apply", "window"],
        Reshape => &["inferred_dimension"],
        Rng => &["distribution"],
        RngBitGenerator => &["algorithm"],
        RngGetAndUpdateState => &["delta"],
        Scan => &["dimensions", "is_associative", "is_reverse", "num_carries", "to_apply"],
        Scatter => &[
            "index_vector_dim",
            "indices_are_sorted",
            "input_batching_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
            "scatter_indices_batching_dims",
            "to_apply",
            "unique_indices",
            "update_window_dims",
        ],
        SelectAndScatter => &["scatter", "select", "window"],
        Slice => &["slice"],
        Sort => &["dimensions", "is_stable", "to_apply"],
        TopK => &["k", "largest"],
        TriangularSolve => &["left_side", "lower", "transpose_a", "unit_diagonal"],
        While => &["body", "condition"],
        _ => &[],
    }
}

/// Whether `op` takes the attribute.
pub(crate) fn takes(op: HloOp, name: &str) -> bool {
    COMMON.contains(&name) || allowed(op).contains(&name)
}

/// Attributes without which an opcode is not understood, of those that are kept as written.
pub(super) fn required(op: HloOp) -> &'static [&'static str] {
    use HloOp::*;
    match op {
        Fft => &["fft_type", "fft_length"],
        Fusion => &["kind"],
        Rng => &["distribution"],
        RngGetAndUpdateState => &["delta"],
        CollectivePermute | CollectivePermuteStart => &["source_target_pairs"],
        Domain => &["domain"],
        _ => &[],
    }
}
