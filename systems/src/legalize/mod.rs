//! Stage `legalize`: operations that no engine has become operations that one has, HLO before and HLO after. What
//! comes out computes the same by the rules of HLO, so the reference evaluator can run both sides of every pass.
//!
//! Each `expand_` pass knows one family. They run from the outside in: an expansion may leave operations of a family
//! that a later pass knows.

pub mod build;
pub mod expand_batch_norm;
pub mod expand_convolution;
pub mod expand_float_functions;
pub mod expand_float_remainder;
pub mod expand_integer_dots;
pub mod expand_integer_functions;
pub mod expand_narrow_types;
pub mod expand_random_bits;
pub mod expand_reduce;
pub mod expand_reduce_window;
pub mod expand_scatter;
pub mod expand_select_and_scatter;
pub mod expand_sort;
pub mod inline_calls;
pub mod rebuild;
pub mod region;
pub mod split_wide_integers;
pub mod total_order;
mod wide;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(
        Stage::Legalize,
        inline_calls,
        "call instructions become the instructions of their computation",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_random_bits,
        "random bits become the rounds of their generator",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_select_and_scatter,
        "select-and-scatter becomes comparisons of shifted windows and a sum of padded parts",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        split_wide_integers,
        "64-bit integers become narrow ones or pairs of words, constant f64 is folded",
        "spec/hlo.md 5, 7"
    ),
    pass!(
        Stage::Legalize,
        expand_batch_norm,
        "batch-norm becomes means, variances and arithmetic",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_convolution,
        "convolution becomes one dot over gathered patches",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_reduce_window,
        "reduce-window becomes doubled combinations of shifted slices, one dimension after the other",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_sort,
        "sort and top-k become a merging network of elementwise compares and selects",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_scatter,
        "a scatter that no descriptor can say becomes a loop over its updates",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_reduce,
        "a reduction that no record knows becomes combinations of halves",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_integer_dots,
        "integer dots become exact float dots or sums of products",
        "spec/isa_compute.md 3.4"
    ),
    pass!(
        Stage::Legalize,
        expand_narrow_types,
        "arithmetic on 8- and 16-bit integers and 8-bit floats widens, computes and narrows",
        "spec/isa_compute.md 9.1"
    ),
    pass!(
        Stage::Legalize,
        expand_float_remainder,
        "a float remainder becomes a loop of exact subtractions",
        "spec/hlo.md 7"
    ),
    pass!(
        Stage::Legalize,
        expand_float_functions,
        "functions that the scalar engine lacks become formulas of those it has",
        "spec/isa_compute.md 4.3"
    ),
    pass!(
        Stage::Legalize,
        expand_integer_functions,
        "division by HLO's rules, bit counts and signs become integer arithmetic",
        "spec/isa_compute.md 5.3"
    ),
];
