//! The attributes of an instruction proto: which fields count is the opcode's matter, as in the text form.

use super::messages::{HloInstructionProto, Window};
use super::{Fault, fault};
use murre_components::diag::codes::read;
use murre_components::hlo::{Attrs, ConvDims, Direction, DotDims, GatherDims, HloOp, ScatterDims, WindowDim};

fn missing(what: &str) -> Fault {
    fault(&read::READ_ATTRIBUTE, format!("the instruction has no {what}"))
}

fn window(proto: &Option<Window>) -> Vec<WindowDim> {
    let Some(window) = proto else { return Vec::new() };
    let dims = window.dimensions.iter().map(|d| WindowDim {
        size: d.size,
        stride: d.stride,
        pad_low: d.padding_low,
        pad_high: d.padding_high,
        window_dilation: d.window_dilation,
        base_dilation: d.base_dilation,
        reversal: d.window_reversal,
    });
    dims.collect()
}

fn index(number: i64) -> Result<u32, Fault> {
    u32::try_from(number)
        .map_err(|_| fault(&read::READ_ATTRIBUTE, format!("the number {number} is out of range")))
}

/// The attributes that `op` has. Constants are the caller's.
pub(super) fn attributes(op: HloOp, inst: &HloInstructionProto) -> Result<Attrs, Fault> {
    use HloOp::*;
    let dims = &inst.dimensions;
    Ok(match op {
        Parameter => Attrs::Parameter {
            number: u32::try_from(inst.parameter_number)
                .map_err(|_| fault(&read::READ_PARAMETERS, "a parameter's number is out of range"))?,
        },
        GetTupleElement => Attrs::GetTupleElement { index: index(inst.tuple_index)? },
        Compare => Attrs::Compare {
            direction: Direction::from_name(&inst.comparison_direction)
                .ok_or_else(|| missing("direction of comparison"))?,
            total_order: inst.comparison_type == "TOTALORDER",
        },
        Broadcast | Transpose | Reverse | Concatenate | GetDimensionSize | SetDimensionSize | Reduce
        | Map => Attrs::Dimensions(dims.clone()),
        Sort | Iota => {
            let [dimension] = dims.as_slice() else { return Err(missing("single dimension")) };
            match op {
                Sort => Attrs::Sort { dimension: *dimension, stable: inst.is_stable },
                _ => Attrs::Iota { dimension: *dimension },
            }
        }
        Slice => Attrs::Slice {
            start: inst.slice_dimensions.iter().map(|d| d.start).collect(),
            limit: inst.slice_dimensions.iter().map(|d| d.limit).collect(),
            stride: inst.slice_dimensions.iter().map(|d| d.stride).collect(),
        },
        DynamicSlice => Attrs::DynamicSlice { sizes: inst.dynamic_slice_sizes.clone() },
        Pad => {
            let config = inst.padding_config.as_ref().map(|c| c.dimensions.as_slice()).unwrap_or_default();
            Attrs::Pad {
                low: config.iter().map(|d| d.edge_padding_low).collect(),
                high: config.iter().map(|d| d.edge_padding_high).collect(),
                interior: config.iter().map(|d| d.interior_padding).collect(),
            }
        }
        Dot => {
            let d = inst.dot_dimension_numbers.clone().unwrap_or_default();
            Attrs::Dot(Box::new(DotDims {
                lhs_batch: d.lhs_batch,
                rhs_batch: d.rhs_batch,
                lhs_contracting: d.lhs_contracting,
                rhs_contracting: d.rhs_contracting,
            }))
        }
        Gather => {
            let d =
                inst.gather_dimension_numbers.clone().ok_or_else(|| missing("gather dimension numbers"))?;
            Attrs::Gather(Box::new(GatherDims {
                offset_dims: d.offset_dims,
                collapsed_slice_dims: d.collapsed_slice_dims,
                start_index_map: d.start_index_map,
                operand_batching_dims: d.operand_batching_dims,
                start_indices_batching_dims: d.start_indices_batching_dims,
                index_vector_dim: d.index_vector_dim,
                slice_sizes: inst.gather_slice_sizes.clone(),
                indices_are_sorted: inst.indices_are_sorted,
            }))
        }
        Scatter => {
            let d =
                inst.scatter_dimension_numbers.clone().ok_or_else(|| missing("scatter dimension numbers"))?;
            Attrs::Scatter {
                dims: Box::new(ScatterDims {
                    update_window_dims: d.update_window_dims,
                    inserted_window_dims: d.inserted_window_dims,
                    scatter_dims_to_operand_dims: d.scatter_dims_to_operand_dims,
                    input_batching_dims: d.input_batching_dims,
                    scatter_indices_batching_dims: d.scatter_indices_batching_dims,
                    index_vector_dim: d.index_vector_dim,
                }),
                sorted: inst.indices_are_sorted,
                unique: inst.unique_indices,
            }
        }
        ReduceWindow | SelectAndScatter => Attrs::Window(window(&inst.window)),
        Convolution => {
            let d = inst
                .convolution_dimension_numbers
                .clone()
                .ok_or_else(|| missing("convolution dimension numbers"))?;
            Attrs::Convolution {
                window: window(&inst.window),
                dims: Box::new(ConvDims {
                    input_batch: d.input_batch,
                    input_feature: d.input_feature,
                    input_spatial: d.input_spatial,
                    kernel_input_feature: d.kernel_input_feature,
                    kernel_output_feature: d.kernel_output_feature,
                    kernel_spatial: d.kernel_spatial,
                    output_batch: d.output_batch,
                    output_feature: d.output_feature,
                    output_spatial: d.output_spatial,
                }),
                feature_groups: inst.feature_group_count.max(1),
                batch_groups: inst.batch_group_count.max(1),
            }
        }
        TopK => Attrs::TopK { k: inst.k, largest: inst.largest },
        BatchNormTraining | BatchNormInference | BatchNormGrad => {
            Attrs::BatchNorm { epsilon: inst.epsilon.to_bits(), feature_index: inst.feature_index }
        }
        RngBitGenerator => Attrs::Rng {
            algorithm: u8::try_from(inst.rng_algorithm)
                .ok()
                .filter(|a| *a <= 2)
                .ok_or_else(|| missing("known algorithm"))?,
        },
        ReducePrecision => Attrs::ReducePrecision {
            exponent_bits: index(inst.exponent_bits.into())?,
            mantissa_bits: index(inst.mantissa_bits.into())?,
        },
        CustomCall => Attrs::CustomCall {
            target: inst.custom_call_target.clone(),
            config: String::from_utf8_lossy(&inst.backend_config).into_owned(),
        },
        TriangularSolve => {
            let o = inst.triangular_solve_options.clone().unwrap_or_default();
            Attrs::TriangularSolve {
                left_side: o.left_side,
                lower: o.lower,
                unit_diagonal: o.unit_diagonal,
                transpose_a: u8::try_from(o.transpose_a)
                    .ok()
                    .filter(|t| *t <= 3)
                    .ok_or_else(|| missing("known transpose_a"))?,
            }
        }
        Cholesky => Attrs::Cholesky { lower: inst.cholesky_options.clone().unwrap_or_default().lower },
        AllGather | AllGatherStart | AllToAll | ReduceScatter | RaggedAllToAll | Scan => {
            Attrs::Dimensions(dims.clone())
        }
        _ => Attrs::None,
    })
}
