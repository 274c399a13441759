//! What stands around computations: the module's line, the tables that metadata points into, and which computation is
//! the entry.

use super::{Parse, Parser};
use crate::hlo::lex::{Tok, unescape};
use crate::hlo::outer::Alias;
use murre_components::diag::codes::read;
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

    pub(super) fn module_attribute(&mut self) -> Parse<()> {
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
            "entry_computation_layout" => {
                let (parameters, result) = self.entry_layout()?;
                self.outer.layout = Some((parameters, result, Some(at)));
            }
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
            self.outer.aliases.push(Alias { output: Some(output), parameter, index, at: Some(at) });
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
            self.outer.aliases.push(Alias { output: None, parameter, index, at: Some(at) });
        }
        Ok(())
    }

    /// What the header says of the entry computation must fit it.
    fn check_outer(&mut self) -> Parse<()> {
        let outer = std::mem::take(&mut self.outer);
        for (at, fault) in outer.faults(&self.module) {
            let fault = fault.in_file(self.origin).ordered(self.module.len() as u32);
            self.note(if let Some(at) = at { fault.at(at) } else { fault })?;
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
