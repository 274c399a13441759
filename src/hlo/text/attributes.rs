//! Attributes of an instruction: each is read by its name into a [`Value`], then [`super::assemble`] takes those
//! that the opcode has and refuses what is left over.
//!
//! Attributes that no result hangs on (sharding, backend_config, precision wishes ...) are kept as written.
//! Facts: the attribute table of `spec/hlo.md 4`.

use super::allowed::{COMMON, allowed, takes};
use super::line::{METADATA_NUMBERS, METADATA_TEXTS};
use super::{Fault, Parse, Parser};
use crate::hlo::lex::{Tok, unescape};
use murre_components::diag::{Span, codes::read};
use murre_components::hlo::{ConvDims, HloOp, WindowDim};
use murre_components::ids::{CompId, TextId};

/// An attribute's value, by the kind its name has.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Ints(Vec<i64>),
    Int(i64),
    Bool(bool),
    Float(f32),
    Word(String),
    Text(String),
    Comps(Vec<CompId>),
    Window(Vec<WindowDim>),
    Labels(Box<ConvDims>),
    Padding(Vec<[i64; 3]>),
    Slices(Vec<[i64; 3]>),
    Raw,
}

pub(super) struct Given<'a> {
    pub name: &'a str,
    pub at: Span,
    pub value: Value,
    pub raw: &'a str,
}

/// Metadata of one instruction.
pub(super) struct Metadata {
    /// The text between its braces.
    pub text: TextId,
    /// Byte offset of the comma before it, and whether it was the last attribute.
    pub before: Option<(usize, bool)>,
}

/// The attributes of one instruction as read, before its opcode takes what it has.
pub(super) struct Bag<'a> {
    pub given: Vec<Given<'a>>,
    pub opcode: HloOp,
    pub at: Span,
}

impl<'a> Parser<'a> {
    /// Reads `, name=value` until there is no more. Metadata is apart. `short`: the instruction wraps an `opcode` that runs
    /// in the background.
    pub(super) fn attributes(&mut self, opcode: HloOp, short: bool, at: Span) -> Parse<(Bag<'a>, Metadata)> {
        let mut bag = Bag { given: Vec::new(), opcode, at };
        let mut metadata = Metadata { text: TextId::NONE, before: None };
        loop {
            let comma = self.behind;
            if !self.eat(b',') {
                break;
            }
            let at = self.span();
            if let Some((_, last)) = &mut metadata.before {
                *last = false;
            }
            let Tok::AttrName(name) = self.tok.tok else { return Err(self.unexpected("an attribute")) };
            self.advance();
            let start = self.tok.start;
            if name == "metadata" {
                if metadata.before.is_some() {
                    let fault =
                        self.diagnostic(&read::READ_DUPLICATE, at, "attribute 'metadata' is given twice");
                    self.note(fault)?;
                }
                metadata = Metadata { text: self.metadata()?, before: Some((comma, true)) };
                continue;
            }
            let thread = short && name == "async_execution_thread";
            if !takes(opcode, name) && !thread {
                let what = format!("{} has no attribute '{name}'", opcode.name());
                let fault = self.diagnostic(&read::READ_UNKNOWN_ATTRIBUTE, at, what).found(name);
                self.raw_value()?;
                let names: Vec<&str> = allowed(opcode).iter().chain(&COMMON).copied().collect();
                self.note(fault.expected(names.join(", ")))?;
                continue;
            }
            let value = self.attribute_value(name, opcode, at)?;
            let raw = self.lexer.slice(start, self.behind);
            if bag.given.iter().any(|g| g.name == name) {
                let what = format!("attribute '{name}' is given twice");
                let fault = self.diagnostic(&read::READ_DUPLICATE, at, what);
                self.note(fault)?;
                continue;
            }
            bag.given.push(Given { name, at, value, raw });
        }
        Ok((bag, metadata))
    }

    fn attribute_value(&mut self, name: &str, opcode: HloOp, at: Span) -> Parse<Value> {
        Ok(match name {
            "dimensions"
            | "dynamic_slice_sizes"
            | "offset_dims"
            | "collapsed_slice_dims"
            | "start_index_map"
            | "operand_batching_dims"
            | "start_indices_batching_dims"
            | "update_window_dims"
            | "inserted_window_dims"
            | "scatter_dims_to_operand_dims"
            | "input_batching_dims"
            | "scatter_indices_batching_dims"
            | "lhs_batch_dims"
            | "lhs_contracting_dims"
            | "rhs_batch_dims"
            | "rhs_contracting_dims" => Value::Ints(self.int_list()?),
            "slice_sizes" if opcode == HloOp::Gather => Value::Ints(self.int_list()?),
            "index_vector_dim"
            | "iota_dimension"
            | "index"
            | "k"
            | "feature_index"
            | "feature_group_count"
            | "batch_group_count"
            | "exponent_bits"
            | "mantissa_bits" => Value::Int(self.int()?),
            "indices_are_sorted" | "unique_indices" | "is_stable" | "largest" | "lower" | "left_side"
            | "unit_diagonal" => Value::Bool(self.boolean()?),
            "direction" | "type" | "transpose_a" => Value::Word(self.word("a word")?.to_owned()),
            "algorithm" if opcode == HloOp::RngBitGenerator => Value::Word(self.word("a word")?.to_owned()),
            "epsilon" => {
                let word = self.word("a number")?;
                match word.parse() {
                    Ok(number) => Value::Float(number),
                    Err(_) => return Err(self.malformed(at, name, "a number")),
                }
            }
            "custom_call_target" => {
                let Tok::Str(text) = self.tok.tok else { return Err(self.unexpected("a quoted text")) };
                self.advance();
                Value::Text(unescape(text))
            }
            "to_apply" | "condition" | "body" | "true_computation" | "false_computation" | "select"
            | "scatter" | "calls" => Value::Comps(vec![self.computation_name(at)?]),
            "branch_computations" | "called_computations" => {
                self.expect(b'{')?;
                let mut comps = Vec::new();
                while !self.eat(b'}') {
                    if !comps.is_empty() {
                        self.expect(b',')?;
                    }
                    let at = self.span();
                    comps.push(self.computation_name(at)?);
                }
                Value::Comps(comps)
            }
            "window" => Value::Window(self.window(at)?),
            "dim_labels" => Value::Labels(Box::new(self.dim_labels(at)?)),
            "padding" => Value::Padding(self.padding(at)?),
            "slice" => Value::Slices(self.slices()?),
            _ if self.kept_value(name)? => Value::Raw,
            _ => {
                self.raw_value()?;
                Value::Raw
            }
        })
    }

    pub(super) fn malformed(&self, at: Span, name: &str, expected: &str) -> Fault {
        let what = format!("attribute '{name}' is malformed");
        Box::new(self.diagnostic(&read::READ_ATTRIBUTE, at, what).expected(expected))
    }

    pub(super) fn boolean(&mut self) -> Parse<bool> {
        match self.tok.tok {
            Tok::Word("true" | "1") => {
                self.advance();
                Ok(true)
            }
            Tok::Word("false" | "0") => {
                self.advance();
                Ok(false)
            }
            _ => Err(self.unexpected("true or false")),
        }
    }

    pub(super) fn int_list(&mut self) -> Parse<Vec<i64>> {
        self.expect(b'{')?;
        let mut list = Vec::new();
        while !self.eat(b'}') {
            if !list.is_empty() {
                self.expect(b',')?;
            }
            list.push(self.int()?);
        }
        Ok(list)
    }

    /// A computation called by name. One that is not there is noted, and stands as `NONE`.
    fn computation_name(&mut self, at: Span) -> Parse<CompId> {
        let name = self.name("a computation's name")?;
        if let Some(id) = self.computations.get(name) {
            return Ok(*id);
        }
        let what = format!("computation '{name}' is not defined before this call");
        let fault = self.diagnostic(&read::READ_MISSING_COMPUTATION, at, what).found(name);
        self.note(fault.help("a computation stands before its callers"))?;
        Ok(CompId::NONE)
    }

    /// Fields with white space between them, kept as written.
    fn metadata(&mut self) -> Parse<TextId> {
        let start = self.tok.end;
        self.expect(b'{')?;
        let mut seen: Vec<&str> = Vec::new();
        while !self.is(b'}') {
            let Tok::AttrName(key) = self.tok.tok else {
                return Err(self.unexpected("a metadata field or '}'"));
            };
            if seen.contains(&key) {
                return Err(
                    self.fault(&read::READ_DUPLICATE, format!("metadata field '{key}' is given twice"))
                );
            }
            seen.push(key);
            self.advance();
            match key {
                _ if METADATA_TEXTS.contains(&key) => {
                    let Tok::Str(_) = self.tok.tok else { return Err(self.unexpected("a quoted text")) };
                    self.advance();
                }
                _ if METADATA_NUMBERS.contains(&key) => {
                    self.int()?;
                }
                "profile_type" => drop(self.int_list()?),
                "metadata_payload" => drop(self.raw_value()?),
                _ => {
                    let what = format!("metadata has no field '{key}'");
                    return Err(self.fault(&read::READ_UNKNOWN_ATTRIBUTE, what));
                }
            }
            self.eat(b',');
        }
        let text = self.lexer.slice(start, self.tok.start);
        self.advance();
        Ok(self.module.intern_text(text))
    }

    fn window(&mut self, at: Span) -> Parse<Vec<WindowDim>> {
        self.expect(b'{')?;
        let mut dims: Vec<WindowDim> = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        while !self.eat(b'}') {
            let Tok::AttrName(key) = self.tok.tok else {
                return Err(self.unexpected("a window field or '}'"));
            };
            self.advance();
            if seen.contains(&key) {
                return Err(self.malformed(at, "window", "each field once"));
            }
            seen.push(key);
            let word = self.word("a window field's value")?;
            let parts: Vec<&str> = word.split('x').collect();
            if dims.is_empty() {
                let plain = WindowDim {
                    size: 1,
                    stride: 1,
                    pad_low: 0,
                    pad_high: 0,
                    window_dilation: 1,
                    base_dilation: 1,
                    reversal: false,
                };
                dims = vec![plain; parts.len()];
            }
            if parts.len() != dims.len() {
                return Err(self.malformed(at, "window", "as many numbers in each field"));
            }
            for (dim, part) in dims.iter_mut().zip(parts) {
                let filled = match key {
                    "pad" => part.split_once('_').and_then(|(low, high)| {
                        (dim.pad_low, dim.pad_high) = (low.parse().ok()?, high.parse().ok()?);
                        Some(())
                    }),
                    "rhs_reversal" => part.parse::<i64>().ok().map(|n| dim.reversal = n != 0),
                    "size" => part.parse().ok().map(|n| dim.size = n),
                    "stride" => part.parse().ok().map(|n| dim.stride = n),
                    "lhs_dilate" => part.parse().ok().map(|n| dim.base_dilation = n),
                    "rhs_dilate" => part.parse().ok().map(|n| dim.window_dilation = n),
                    _ => {
                        return Err(self.malformed(
                            at,
                            "window",
                            "size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal",
                        ));
                    }
                };
                if filled.is_none() {
                    return Err(self.malformed(at, "window", "integers separated by 'x' (pad: low_high)"));
                }
            }
        }
        if !dims.is_empty() && !seen.contains(&"size") {
            return Err(self.malformed(at, "window", "size="));
        }
        Ok(dims)
    }

    /// `b01f_01io->b01f`: which dimension is batch, feature, or spatial dimension 0, 1 ...
    fn dim_labels(&mut self, at: Span) -> Parse<ConvDims> {
        let left = self.word("dim_labels")?;
        if self.tok.tok != Tok::Arrow {
            return Err(self.unexpected("'->'"));
        }
        self.advance();
        let output = self.word("the output's dim_labels")?;
        let sides = left.split_once('_').map(|(input, kernel)| {
            (positions(input, b'b', b'f'), positions(kernel, b'i', b'o'), positions(output, b'b', b'f'))
        });
        let Some((Some(input), Some(kernel), Some(output))) = sides else {
            return Err(self.malformed(at, "dim_labels", "labels such as b01f_01io->b01f"));
        };
        if input.2.len() != kernel.2.len() || input.2.len() != output.2.len() {
            return Err(self.malformed(at, "dim_labels", "as many spatial dimensions on every side"));
        }
        Ok(ConvDims {
            input_batch: input.0,
            input_feature: input.1,
            input_spatial: input.2,
            kernel_input_feature: kernel.0,
            kernel_output_feature: kernel.1,
            kernel_spatial: kernel.2,
            output_batch: output.0,
            output_feature: output.1,
            output_spatial: output.2,
        })
    }

    fn padding(&mut self, at: Span) -> Parse<Vec<[i64; 3]>> {
        let word = self.word("a padding")?;
        let mut dims = Vec::new();
        for part in word.split('x') {
            let numbers: Option<Vec<i64>> = part.split('_').map(|n| n.parse().ok()).collect();
            match numbers.as_deref() {
                Some([low, high]) => dims.push([*low, *high, 0]),
                Some([low, high, interior]) => dims.push([*low, *high, *interior]),
                _ => {
                    return Err(self.malformed(
                        at,
                        "padding",
                        "low_high or low_high_interior for each dimension",
                    ));
                }
            }
        }
        Ok(dims)
    }

    fn slices(&mut self) -> Parse<Vec<[i64; 3]>> {
        self.expect(b'{')?;
        let mut dims = Vec::new();
        while !self.eat(b'}') {
            if !dims.is_empty() {
                self.expect(b',')?;
            }
            self.expect(b'[')?;
            let start = self.int()?;
            self.expect(b':')?;
            let limit = self.int()?;
            let stride = if self.eat(b':') { self.int()? } else { 1 };
            self.expect(b']')?;
            dims.push([start, limit, stride]);
        }
        Ok(dims)
    }
}

/// Positions of the two letters and of the digits 0, 1, ... in a label; `None` unless each occurs exactly once.
fn positions(label: &str, first: u8, second: u8) -> Option<(i64, i64, Vec<i64>)> {
    let place = |c: u8| {
        let mut at = label.bytes().enumerate().filter(|(_, b)| *b == c).map(|(i, _)| i as i64);
        match (at.next(), at.next()) {
            (Some(i), None) => Some(i),
            _ => None,
        }
    };
    let spatial = (0..label.len().saturating_sub(2))
        .map(|d| place(b'0'.checked_add(u8::try_from(d).ok()?)?))
        .collect::<Option<Vec<i64>>>()?;
    Some((place(first)?, place(second)?, spatial))
}
