//! What an operation is told beside its operands, and constants.

use super::shape::ArrayShape;
use bytes::Bytes;
use std::sync::Arc;

/// Custom calls that say something to a partitioner or a memory planner and give their operand back.
pub const ANNOTATIONS: [&str; 8] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "mhlo.copy",
];

/// Direction of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Direction {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}

impl Direction {
    const NAMES: [(Direction, &'static str); 6] = [
        (Direction::Eq, "EQ"),
        (Direction::Ne, "NE"),
        (Direction::Ge, "GE"),
        (Direction::Gt, "GT"),
        (Direction::Le, "LE"),
        (Direction::Lt, "LT"),
    ];

    /// The word in text and proto.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The direction of this word.
    pub fn from_name(name: &str) -> Option<Direction> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(d, _)| *d)
    }
}

/// One dimension of a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub struct WindowDim {
    pub size: i64,
    pub stride: i64,
    pub pad_low: i64,
    pub pad_high: i64,
    pub window_dilation: i64,
    pub base_dilation: i64,
    pub reversal: bool,
}

/// Dimension numbers of a dot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct DotDims {
    pub lhs_batch: Vec<i64>,
    pub rhs_batch: Vec<i64>,
    pub lhs_contracting: Vec<i64>,
    pub rhs_contracting: Vec<i64>,
}

/// Dimension numbers of a gather.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct GatherDims {
    pub offset_dims: Vec<i64>,
    pub collapsed_slice_dims: Vec<i64>,
    pub start_index_map: Vec<i64>,
    pub operand_batching_dims: Vec<i64>,
    pub start_indices_batching_dims: Vec<i64>,
    pub index_vector_dim: i64,
    pub slice_sizes: Vec<i64>,
    pub indices_are_sorted: bool,
}

/// Dimension numbers of a scatter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct ScatterDims {
    pub update_window_dims: Vec<i64>,
    pub inserted_window_dims: Vec<i64>,
    pub scatter_dims_to_operand_dims: Vec<i64>,
    pub input_batching_dims: Vec<i64>,
    pub scatter_indices_batching_dims: Vec<i64>,
    pub index_vector_dim: i64,
}

/// Dimension numbers of a convolution: positions of batch, feature and spatial dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct ConvDims {
    pub input_batch: i64,
    pub input_feature: i64,
    pub input_spatial: Vec<i64>,
    pub kernel_input_feature: i64,
    pub kernel_output_feature: i64,
    pub kernel_spatial: Vec<i64>,
    pub output_batch: i64,
    pub output_feature: i64,
    pub output_spatial: Vec<i64>,
}

/// The attributes of an operation that change its meaning. Operations without any use `None`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub enum Attrs {
    #[default]
    None,
    Parameter {
        number: u32,
    },
    Constant(Arc<Literal>),
    GetTupleElement {
        index: u32,
    },
    Compare {
        direction: Direction,
        total_order: bool,
    },
    /// broadcast, transpose, reverse, concatenate, reduce, sort, map, get-/set-dimension-size.
    Dimensions(Vec<i64>),
    Iota {
        dimension: i64,
    },
    Slice {
        start: Vec<i64>,
        limit: Vec<i64>,
        stride: Vec<i64>,
    },
    DynamicSlice {
        sizes: Vec<i64>,
    },
    Pad {
        low: Vec<i64>,
        high: Vec<i64>,
        interior: Vec<i64>,
    },
    Dot(Box<DotDims>),
    Gather(Box<GatherDims>),
    Scatter {
        dims: Box<ScatterDims>,
        sorted: bool,
        unique: bool,
    },
    Window(Vec<WindowDim>),
    Convolution {
        window: Vec<WindowDim>,
        dims: Box<ConvDims>,
        feature_groups: i64,
        batch_groups: i64,
    },
    Sort {
        dimension: i64,
        stable: bool,
    },
    TopK {
        k: i64,
        largest: bool,
    },
    BatchNorm {
        /// The bits of an `f32`.
        epsilon: u32,
        feature_index: i64,
    },
    Rng {
        algorithm: u8,
    },
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
    CustomCall {
        target: String,
        config: String,
    },
    TriangularSolve {
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: u8,
    },
    Cholesky {
        lower: bool,
    },
}

/// A literal array (row-major in logical order, little-endian elements, `HloType::bytes` each) or a tuple of them. The
/// bytes are shared with the input where it holds them in this form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Literal {
    Array { shape: ArrayShape, data: Bytes },
    Tuple(Vec<Literal>),
}

impl Literal {
    /// The bytes of an array literal; empty for a tuple.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Literal::Array { data, .. } => data,
            Literal::Tuple(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_have_their_words() {
        for (direction, name) in Direction::NAMES {
            assert_eq!((direction.name(), Direction::from_name(name)), (name, Some(direction)));
        }
        assert_eq!(Direction::from_name("XX"), None);
    }
}
