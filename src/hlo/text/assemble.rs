//! What an opcode makes of its attributes: the values that [`super::attributes`] read become [`Attrs`], called
//! computations and text that is kept; what is missing or left over is a fault.

use super::allowed::required;
use super::attributes::{Bag, Value};
use super::{Parse, Parser};
use crate::hlo::lex::unescape;
use murre_components::diag::codes::read;
use murre_components::hlo::{Attrs, Direction, DotDims, GatherDims, HloOp, ScatterDims, WindowDim};
use murre_components::ids::{CompId, TextId};

impl<'a> Parser<'a> {
    /// What the opcode means by its attributes: attributes, called computations, and what is kept as written.
    pub(super) fn assemble(
        &mut self,
        mut bag: Bag<'a>,
    ) -> Parse<(Attrs, Vec<CompId>, Vec<(TextId, TextId)>)> {
        use HloOp::*;
        let op = bag.opcode;
        let mut called = Vec::new();
        let mut missing = Vec::new();
        let attrs = match op {
            GetTupleElement => Attrs::GetTupleElement { index: bag.index("index", &mut missing) },
            Compare => match Direction::from_name(&bag.text("direction", &mut missing)) {
                Some(direction) => {
                    let kind = bag.text("type", &mut Vec::new());
                    if !matches!(kind.as_str(), "" | "FLOAT" | "SIGNED" | "UNSIGNED" | "TOTALORDER") {
                        return Err(self.malformed(bag.at, "type", "FLOAT, TOTALORDER, SIGNED or UNSIGNED"));
                    }
                    Attrs::Compare { direction, total_order: kind == "TOTALORDER" }
                }
                None if missing.is_empty() => {
                    return Err(self.malformed(bag.at, "direction", "EQ, NE, GE, GT, LE or LT"));
                }
                None => Attrs::None,
            },
            Broadcast => Attrs::Dimensions(bag.ints("dimensions", &mut Vec::new())),
            Transpose | Reverse | Concatenate | GetDimensionSize | SetDimensionSize | Reduce | Map => {
                let optional = matches!(op, Map);
                let mut absent = Vec::new();
                let dims = bag.ints("dimensions", &mut absent);
                if !optional {
                    missing.append(&mut absent);
                }
                if matches!(op, Reduce | Map) {
                    called.extend(bag.comps("to_apply", &mut missing));
                }
                Attrs::Dimensions(dims)
            }
            Sort => {
                called.extend(bag.comps("to_apply", &mut missing));
                let stable = bag.boolean("is_stable", false);
                match bag.ints("dimensions", &mut missing).as_slice() {
                    [dimension] => Attrs::Sort { dimension: *dimension, stable },
                    [] if !missing.is_empty() => Attrs::None,
                    _ => return Err(self.malformed(bag.at, "dimensions", "the one dimension to sort along")),
                }
            }
            Iota => Attrs::Iota {
                dimension: bag.int("iota_dimension").unwrap_or_else(|| {
                    missing.push("iota_dimension");
                    0
                }),
            },
            Slice => {
                let dims = match bag.take("slice") {
                    Some(Value::Slices(dims)) => dims,
                    _ => {
                        missing.push("slice");
                        Vec::new()
                    }
                };
                Attrs::Slice {
                    start: dims.iter().map(|d| d[0]).collect(),
                    limit: dims.iter().map(|d| d[1]).collect(),
                    stride: dims.iter().map(|d| d[2]).collect(),
                }
            }
            HloOp::DynamicSlice => {
                Attrs::DynamicSlice { sizes: bag.ints("dynamic_slice_sizes", &mut missing) }
            }
            HloOp::Pad => {
                let dims = match bag.take("padding") {
                    Some(Value::Padding(dims)) => dims,
                    _ => {
                        missing.push("padding");
                        Vec::new()
                    }
                };
                Attrs::Pad {
                    low: dims.iter().map(|d| d[0]).collect(),
                    high: dims.iter().map(|d| d[1]).collect(),
                    interior: dims.iter().map(|d| d[2]).collect(),
                }
            }
            HloOp::Dot => Attrs::Dot(Box::new(DotDims {
                lhs_batch: bag.ints("lhs_batch_dims", &mut Vec::new()),
                rhs_batch: bag.ints("rhs_batch_dims", &mut Vec::new()),
                lhs_contracting: bag.ints("lhs_contracting_dims", &mut Vec::new()),
                rhs_contracting: bag.ints("rhs_contracting_dims", &mut Vec::new()),
            })),
            HloOp::Gather => Attrs::Gather(Box::new(GatherDims {
                indices_are_sorted: bag.boolean("indices_are_sorted", false),
                offset_dims: bag.ints("offset_dims", &mut missing),
                collapsed_slice_dims: bag.ints("collapsed_slice_dims", &mut missing),
                start_index_map: bag.ints("start_index_map", &mut missing),
                operand_batching_dims: bag.ints("operand_batching_dims", &mut Vec::new()),
                start_indices_batching_dims: bag.ints("start_indices_batching_dims", &mut Vec::new()),
                index_vector_dim: bag.required_int("index_vector_dim", &mut missing),
                slice_sizes: bag.ints("slice_sizes", &mut missing),
            })),
            HloOp::Scatter => {
                called.extend(bag.comps("to_apply", &mut missing));
                Attrs::Scatter {
                    sorted: bag.boolean("indices_are_sorted", false),
                    unique: bag.boolean("unique_indices", false),
                    dims: Box::new(ScatterDims {
                        update_window_dims: bag.ints("update_window_dims", &mut missing),
                        inserted_window_dims: bag.ints("inserted_window_dims", &mut missing),
                        scatter_dims_to_operand_dims: bag.ints("scatter_dims_to_operand_dims", &mut missing),
                        input_batching_dims: bag.ints("input_batching_dims", &mut Vec::new()),
                        scatter_indices_batching_dims: bag
                            .ints("scatter_indices_batching_dims", &mut Vec::new()),
                        index_vector_dim: bag.required_int("index_vector_dim", &mut missing),
                    }),
                }
            }
            ReduceWindow => {
                called.extend(bag.comps("to_apply", &mut missing));
                Attrs::Window(bag.window())
            }
            SelectAndScatter => {
                called.extend(bag.comps("select", &mut missing));
                called.extend(bag.comps("scatter", &mut missing));
                Attrs::Window(bag.window())
            }
            HloOp::Convolution => {
                let window = bag.window();
                let feature_groups = bag.int("feature_group_count").unwrap_or(1);
                let batch_groups = bag.int("batch_group_count").unwrap_or(1);
                match bag.take("dim_labels") {
                    Some(Value::Labels(dims)) => {
                        Attrs::Convolution { window, dims, feature_groups, batch_groups }
                    }
                    _ => {
                        missing.push("dim_labels");
                        Attrs::None
                    }
                }
            }
            HloOp::TopK => {
                Attrs::TopK { k: bag.required_int("k", &mut missing), largest: bag.boolean("largest", true) }
            }
            BatchNormTraining | BatchNormInference | BatchNormGrad => Attrs::BatchNorm {
                epsilon: match bag.take("epsilon") {
                    Some(Value::Float(e)) => e.to_bits(),
                    _ => {
                        missing.push("epsilon");
                        0
                    }
                },
                feature_index: bag.required_int("feature_index", &mut missing),
            },
            RngBitGenerator => {
                let algorithm = match bag.text("algorithm", &mut missing).as_str() {
                    "rng_default" | "" => 0,
                    "rng_three_fry" => 1,
                    "rng_philox" => 2,
                    _ => {
                        return Err(self.malformed(
                            bag.at,
                            "algorithm",
                            "rng_three_fry, rng_philox or rng_default",
                        ));
                    }
                };
                Attrs::Rng { algorithm }
            }
            HloOp::ReducePrecision => Attrs::ReducePrecision {
                exponent_bits: bag.index("exponent_bits", &mut missing),
                mantissa_bits: bag.index("mantissa_bits", &mut missing),
            },
            HloOp::CustomCall => {
                for name in ["to_apply", "called_computations", "calls"] {
                    called.extend(bag.comps(name, &mut Vec::new()));
                }
                let config = bag.given.iter().find(|g| g.name == "backend_config").map(|g| g.raw);
                Attrs::CustomCall {
                    target: bag.text("custom_call_target", &mut missing),
                    config: config.map(unquoted).unwrap_or_default(),
                }
            }
            HloOp::TriangularSolve => Attrs::TriangularSolve {
                left_side: bag.boolean("left_side", false),
                lower: bag.boolean("lower", false),
                unit_diagonal: bag.boolean("unit_diagonal", false),
                transpose_a: match bag.text("transpose_a", &mut Vec::new()).as_str() {
                    "" => 0,
                    "NO_TRANSPOSE" => 1,
                    "TRANSPOSE" => 2,
                    "ADJOINT" => 3,
                    _ => {
                        return Err(self.malformed(
                            bag.at,
                            "transpose_a",
                            "NO_TRANSPOSE, TRANSPOSE or ADJOINT",
                        ));
                    }
                },
            },
            HloOp::Cholesky => Attrs::Cholesky { lower: bag.boolean("lower", false) },
            While => {
                called.extend(bag.comps("body", &mut missing));
                called.extend(bag.comps("condition", &mut missing));
                Attrs::None
            }
            Conditional => {
                called.extend(bag.comps("branch_computations", &mut Vec::new()));
                if called.is_empty() {
                    called.extend(bag.comps("true_computation", &mut missing));
                    called.extend(bag.comps("false_computation", &mut missing));
                }
                Attrs::None
            }
            Call => {
                called.extend(bag.comps("to_apply", &mut missing));
                Attrs::None
            }
            Fusion => {
                called.extend(bag.comps("calls", &mut missing));
                Attrs::None
            }
            // What works on several devices or in the background is read, kept as written, and refused later.
            _ => {
                for name in ["to_apply", "calls", "called_computations"] {
                    called.extend(bag.comps(name, &mut Vec::new()));
                }
                match bag.take("dimensions") {
                    Some(Value::Ints(dims)) => Attrs::Dimensions(dims),
                    _ => Attrs::None,
                }
            }
        };
        missing.extend(required(op).iter().filter(|name| !bag.given.iter().any(|g| g.name == **name)));
        for name in missing {
            let what = format!("{} needs the attribute '{name}'", op.name());
            let fault = self.diagnostic(&read::READ_ATTRIBUTE, bag.at, what).expected(format!("{name}=..."));
            self.note(fault)?;
        }
        let mut kept = Vec::new();
        for given in bag.given {
            kept.push((self.module.intern_text(given.name), self.module.intern_text(given.raw)));
        }
        Ok((attrs, called, kept))
    }
}

impl Bag<'_> {
    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.given.iter().position(|g| g.name == name)?;
        Some(self.given.remove(at).value)
    }

    fn ints(&mut self, name: &'static str, missing: &mut Vec<&'static str>) -> Vec<i64> {
        match self.take(name) {
            Some(Value::Ints(list)) => list,
            _ => {
                missing.push(name);
                Vec::new()
            }
        }
    }

    fn int(&mut self, name: &str) -> Option<i64> {
        match self.take(name) {
            Some(Value::Int(n)) => Some(n),
            _ => None,
        }
    }

    fn required_int(&mut self, name: &'static str, missing: &mut Vec<&'static str>) -> i64 {
        self.int(name).unwrap_or_else(|| {
            missing.push(name);
            0
        })
    }

    /// A number that fits `u32`; one that does not becomes the largest, which no shape has.
    fn index(&mut self, name: &'static str, missing: &mut Vec<&'static str>) -> u32 {
        u32::try_from(self.required_int(name, missing)).unwrap_or(u32::MAX)
    }

    fn boolean(&mut self, name: &str, default: bool) -> bool {
        match self.take(name) {
            Some(Value::Bool(b)) => b,
            _ => default,
        }
    }

    fn text(&mut self, name: &'static str, missing: &mut Vec<&'static str>) -> String {
        match self.take(name) {
            Some(Value::Word(w) | Value::Text(w)) => w,
            _ => {
                missing.push(name);
                String::new()
            }
        }
    }

    fn comps(&mut self, name: &'static str, missing: &mut Vec<&'static str>) -> Vec<CompId> {
        match self.take(name) {
            Some(Value::Comps(comps)) => comps,
            _ => {
                missing.push(name);
                Vec::new()
            }
        }
    }

    fn window(&mut self) -> Vec<WindowDim> {
        match self.take("window") {
            Some(Value::Window(dims)) => dims,
            _ => Vec::new(),
        }
    }
}

/// The contents of a quoted text; anything else as it is.
fn unquoted(raw: &str) -> String {
    match raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')) {
        Some(inner) => unescape(inner),
        None => raw.to_owned(),
    }
}
