//! What stands around computations: the module's line, the tables that metadata points into, and which computation is
//! the entry.

use super::{Parse, Parser};
use crate::hlo::infer::same_bounds;
use crate::hlo::lex::{Tok, unescape};
use murre_components::diag::{Span, codes::read};
use murre_components::hlo::{FileLocation, Shape, StackFrame};
use murre_components::ids::CompId;

/// Attributes that a module may have. Their values are kept as written.
const MODULE_ATTRIBUTES: &[&str] = &[
    "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters",
    "alias_passthrough_params",
    "buffer_donor",
    "entry_computation_layout",
    "frontend_attributes",
    "input_output_alias",
    "is_scheduled",
    "num_partitions",
    "origin_recovery_table",
    "original_value_recovery_table",
    "replica_count",
];

/// A parameter that shares memory with a part of the result, or gives its memory away.
struct Alias {
    output: Option<Vec<i64>>,
    parameter: i64,
    index: Vec<i64>,
    at: Span,
}

/// What the header says of the entry computation, to be checked when that has been read.
#[derive(Default)]
pub(super) struct Outer {
    layout: Option<((Vec<Shape>, Shape), Span)>,
    aliases: Vec<Alias>,
}

/// The part of a shape at an index of nested tuples.
fn part<'s>(shape: &'s Shape, index: &[i64]) -> Option<&'s Shape> {
    index.iter().try_fold(shape, |shape, i| match shape {
        Shape::Tuple(parts) => parts.get(usize::try_from(*i).ok()?),
        _ => None,
    })
}

impl<'a> Parser<'a> {
    pub(super) fn module(&mut self) -> Parse<()> {
        if self.tok.tok == Tok::End {
            return Err(self.fault(&read::READ_EMPTY, "the input has no HLO in it"));
        }
        if self.tok.tok == Tok::Word("HloModule") {
            self.advance();
            self.module.name = self.name("the module's name")?.to_owned();
            while self.eat(b',') {
                self.module_attribute()?;
            }
        }
        if self.tok.tok == Tok::Word("FileNames") && !matches!(self.peek(), Tok::Punct(b'{' | b'(')) {
            for table in ["FileNames", "FunctionNames", "FileLocations", "StackFrames"] {
                if self.tok.tok != Tok::Word(table) {
                    return Err(self.unexpected(table));
                }
                self.advance();
                self.table(table)?;
            }
        }
        let mut entry: Option<CompId> = None;
        while self.tok.tok != Tok::End {
            let span = self.span();
            let is_entry = self.tok.tok == Tok::Word("ENTRY");
            if is_entry {
                self.advance();
            }
            let id = self.computation()?;
            if is_entry {
                if entry.is_some() {
                    let fault = self.diagnostic(&read::READ_ENTRY, span, "a second ENTRY computation");
                    self.note(fault)?;
                }
                entry = Some(id);
            }
        }
        match entry {
            Some(id) => self.module.entry = id,
            None if self.module.computations.is_empty() => {
                let code = if self.faults.is_empty() { &read::READ_CUT } else { &read::READ_ENTRY };
                return Err(self.fault(code, "the module has no computation"));
            }
            None => self.module.entry = CompId::new(self.module.computations.len() - 1),
        }
        if self.faults.is_empty() { self.check_outer() } else { Ok(()) }
    }

    fn module_attribute(&mut self) -> Parse<()> {
        let at = self.span();
        let Tok::AttrName(name) = self.tok.tok else {
            return Err(self.unexpected("a module attribute"));
        };
        self.advance();
        let start = self.tok.start;
        match name {
            "is_scheduled" | "alias_passthrough_params" => drop(self.boolean()?),
            "num_partitions" | "replica_count" => drop(self.int()?),
            "frontend_attributes" => self.frontend_attributes()?,
            "entry_computation_layout" => self.outer.layout = Some((self.entry_layout()?, at)),
            "input_output_alias" => self.aliases()?,
            "buffer_donor" => self.donors()?,
            "allow_spmd_sharding_propagation_to_output" | "allow_spmd_sharding_propagation_to_parameters"
                if !self.is(b'{') =>
            {
                self.boolean()?;
            }
            _ => drop(self.raw_value()?),
        }
        let value = self.lexer.slice(start, self.behind);
        if !MODULE_ATTRIBUTES.contains(&name) {
            let what = format!("unknown module attribute '{name}'");
            let fault = self.diagnostic(&read::READ_UNKNOWN_ATTRIBUTE, at, what).found(name);
            return self.note(fault.expected(MODULE_ATTRIBUTES.join(", ")));
        }
        if self.module.extra.iter().any(|(n, _)| n == name) {
            let what = format!("module attribute '{name}' is given twice");
            let fault = self.diagnostic(&read::READ_DUPLICATE, at, what);
            return self.note(fault);
        }
        self.module.extra.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// `{(f32[8]{0}, s32[])->f32[8]{0}}`
    fn entry_layout(&mut self) -> Parse<(Vec<Shape>, Shape)> {
        self.expect(b'{')?;
        self.expect(b'(')?;
        let mut parameters = Vec::new();
        while !self.eat(b')') {
            if !parameters.is_empty() {
                self.expect(b',')?;
            }
            parameters.push(self.shape()?);
        }
        if self.tok.tok != Tok::Arrow {
            return Err(self.unexpected("'->'"));
        }
        self.advance();
        let result = self.shape()?;
        self.expect(b'}')?;
        Ok((parameters, result))
    }

    /// `{ {0}: (1, {}, may-alias), {1}: 2 }`: result index, parameter number and index.
    fn aliases(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        while !self.eat(b'}') {
            let at = self.span();
            if !self.outer.aliases.is_empty() {
                self.expect(b',')?;
            }
            let output = self.int_list()?;
            self.expect(b':')?;
            self.expect(b'(')?;
            let parameter = self.int()?;
            let mut index = Vec::new();
            if self.eat(b',') {
                index = self.int_list()?;
                if self.eat(b',') {
                    let Tok::Word("may-alias" | "must-alias") = self.tok.tok else {
                        return Err(self.unexpected("may-alias or must-alias"));
                    };
                    self.advance();
                }
            }
            self.expect(b')')?;
            self.outer.aliases.push(Alias { output: Some(output), parameter, index, at });
        }
        Ok(())
    }

    /// `{ (1, {}), (2, {0}) }`: parameter number and index.
    fn donors(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        let mut first = true;
        while !self.eat(b'}') {
            if !std::mem::take(&mut first) {
                self.expect(b',')?;
            }
            let at = self.span();
            self.expect(b'(')?;
            let parameter = self.int()?;
            self.expect(b',')?;
            let index = self.int_list()?;
            self.expect(b')')?;
            self.outer.aliases.push(Alias { output: None, parameter, index, at });
        }
        Ok(())
    }

    /// What the header says of the entry computation must fit it.
    fn check_outer(&mut self) -> Parse<()> {
        let outer = std::mem::take(&mut self.outer);
        let entry = self.module.entry_comp();
        let own: Vec<Shape> = entry.parameters.iter().map(|p| self.module.inst(*p).shape().clone()).collect();
        let root = self.module.inst(entry.root).shape().clone();
        if let Some(((parameters, result), at)) = outer.layout {
            let text = |p: &[Shape], r: &Shape| {
                let list: Vec<String> = p.iter().map(|s| s.to_string()).collect();
                format!("({})->{r}", list.join(", "))
            };
            let fits = parameters.len() == own.len()
                && parameters.iter().zip(&own).all(|(a, b)| same_bounds(a, b))
                && same_bounds(&result, &root);
            if !fits {
                let what = "entry_computation_layout does not fit the entry computation";
                let fault = self.diagnostic(&read::READ_OPERAND_SHAPE, at, what);
                self.note(fault.found(text(&parameters, &result)).expected(text(&own, &root)))?;
            }
        }
        for alias in outer.aliases {
            let parameter = usize::try_from(alias.parameter).ok().and_then(|n| own.get(n));
            let fits = parameter.is_some_and(|shape| part(shape, &alias.index).is_some())
                && alias.output.as_ref().is_none_or(|output| part(&root, output).is_some());
            if !fits {
                let what = "an alias names a parameter or result that does not exist";
                let fault = self.diagnostic(&read::READ_ATTRIBUTE, alias.at, what);
                self.note(fault.found(format!("parameter {}, index {:?}", alias.parameter, alias.index)))?;
            }
        }
        Ok(())
    }

    /// One table: lines of a number and a text, or of a number and fields. The numbers count up from 1.
    fn table(&mut self, table: &str) -> Parse<()> {
        let mut next = 1;
        while let Tok::Word(w) = self.tok.tok {
            let Ok(number) = w.parse::<i64>() else { break };
            if number != next {
                let fault =
                    self.fault(&read::READ_SYNTAX, format!("{table} entries must be numbered 1, 2, 3 ..."));
                return Err(Box::new(fault.found(w).expected(next.to_string())));
            }
            next += 1;
            self.advance();
            if matches!(table, "FileNames" | "FunctionNames") {
                let Tok::Str(text) = self.tok.tok else { return Err(self.unexpected("a quoted text")) };
                self.advance();
                let frames = &mut self.module.frames;
                let list = if table == "FileNames" { &mut frames.files } else { &mut frames.functions };
                list.push(unescape(text));
                continue;
            }
            self.expect(b'{')?;
            let (mut place, mut frame) = (FileLocation::default(), StackFrame::default());
            let mut fields = Vec::new();
            while !self.eat(b'}') {
                let Tok::AttrName(key) = self.tok.tok else { return Err(self.unexpected("a field or '}'")) };
                self.advance();
                let value = self.int()?;
                fields.push(key);
                match key {
                    "file_name_id" => place.file = value,
                    "function_name_id" => place.function = value,
                    "line" => place.line = value,
                    "end_line" => place.end_line = value,
                    "column" => place.column = value,
                    "end_column" => place.end_column = value,
                    "file_location_id" => frame.location = value,
                    "parent_frame_id" => frame.parent = value,
                    _ => {}
                }
            }
            let wanted: &[&str] = match table {
                "FileLocations" => {
                    &["file_name_id", "function_name_id", "line", "end_line", "column", "end_column"]
                }
                _ => &["file_location_id"],
            };
            if let Some(absent) = wanted.iter().find(|w| !fields.contains(w)) {
                let fault = self.fault(&read::READ_ATTRIBUTE, format!("an entry of {table} lacks {absent}"));
                return Err(Box::new(fault.expected(wanted.join(", "))));
            }
            match table {
                "FileLocations" => self.module.frames.locations.push(place),
                _ => self.module.frames.frames.push(frame),
            }
        }
        Ok(())
    }
}
