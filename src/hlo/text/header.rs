//! What stands around computations: the module's line, the tables that metadata points into, and which computation is
//! the entry.

use super::{Parse, Parser};
use crate::hlo::lex::{Tok, unescape};
use murre_components::diag::codes::read;
use murre_components::hlo::{FileLocation, StackFrame};
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
        while let Tok::Word(table @ ("FileNames" | "FunctionNames" | "FileLocations" | "StackFrames")) =
            self.tok.tok
        {
            if !matches!(self.peek(), Tok::Word(w) if w.parse::<i64>().is_ok()) {
                break;
            }
            self.advance();
            self.table(table)?;
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
        Ok(())
    }

    fn module_attribute(&mut self) -> Parse<()> {
        let at = self.span();
        let Tok::AttrName(name) = self.tok.tok else {
            return Err(self.unexpected("a module attribute"));
        };
        self.advance();
        let value = self.raw_value()?;
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
            while !self.eat(b'}') {
                let Tok::AttrName(key) = self.tok.tok else { return Err(self.unexpected("a field or '}'")) };
                self.advance();
                let value = self.int()?;
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
            match table {
                "FileLocations" => self.module.frames.locations.push(place),
                _ => self.module.frames.frames.push(frame),
            }
        }
        Ok(())
    }
}
