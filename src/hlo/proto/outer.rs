//! Facts of the module that stand outside its computations: name, entry, layout, aliasing, stack frames.

use super::computation::Reader;
use super::messages::{
    FrontendAttributes, HloBufferDonorProto, HloInputOutputAliasProto, ProgramShapeProto,
    StackFrameIndexProto,
};
use super::wire::Fields;
use super::{Fault, damaged, fault, kept, sanitized, shape};
use crate::hlo::outer::{Alias, Outer};
use crate::hlo::text::{is_module_attribute, is_shape};
use murre_components::diag::codes::read;
use murre_components::hash::seeded_set;
use murre_components::hlo::{FileLocation, Shape, StackFrame};
use murre_components::ids::CompId;
use prost::Message;

/// The attribute with the shapes of the entry computation.
const LAYOUT: &str = "entry_computation_layout";

fn index(numbers: &[i64]) -> String {
    let words: Vec<String> = numbers.iter().map(|n| n.to_string()).collect();
    format!("{{{}}}", words.join(", "))
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, Fault> {
    M::decode(bytes).map_err(|_| damaged())
}

impl Reader<'_> {
    /// Reads them; the computations have been read.
    pub(super) fn outer_facts(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let (mut entry_name, mut entry_id) = ("", 0);
        let mut extra: Vec<(&str, String)> = Vec::new();
        let mut outer = Outer::default();
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => self.out.name = sanitized(field.value.text()?, String::new).into_owned(),
                2 => entry_name = field.value.text()?,
                4 => {
                    if let Some((parameters, result)) = layout(&message(field.value.bytes()?)?)? {
                        let list: Vec<String> = parameters.iter().map(|s| s.to_string()).collect();
                        extra.push((LAYOUT, format!("{{({})->{result}}}", list.join(", "))));
                        outer.layout = Some((parameters, result, None));
                    }
                }
                6 => entry_id = field.value.int()?,
                7 => extra.push(("is_scheduled", "true".to_owned())),
                8 => {
                    let proto: HloInputOutputAliasProto = message(field.value.bytes()?)?;
                    outer.aliases.extend(proto.entries.iter().map(|e| Alias {
                        output: Some(e.output_shape_index.clone()),
                        parameter: e.parameter_number,
                        index: e.parameter_shape_index.clone(),
                        at: None,
                    }));
                    extra.extend(aliases(&proto));
                }
                17 => self.frames(message(field.value.bytes()?)?),
                18 => {
                    let proto: HloBufferDonorProto = message(field.value.bytes()?)?;
                    outer.aliases.extend(proto.entries.iter().map(|e| Alias {
                        output: None,
                        parameter: e.parameter_number,
                        index: e.parameter_shape_index.clone(),
                        at: None,
                    }));
                    extra.extend(donors(&proto));
                }
                19 => {
                    let attributes: FrontendAttributes = message(field.value.bytes()?)?;
                    extra.extend(kept::frontend_attributes(&attributes).map(|t| ("frontend_attributes", t)));
                }
                _ => {}
            }
        }
        // A field that stands twice counts once, the last time.
        let all = std::mem::take(&mut extra);
        for (key, value) in all {
            extra.retain(|(k, _)| *k != key);
            extra.push((key, value));
        }
        // In the order in which the text form has them, whatever the order on the wire.
        let rank = |key: &str| {
            ["is_scheduled", "input_output_alias", "buffer_donor", LAYOUT]
                .iter()
                .position(|k| *k == key)
                .unwrap_or(usize::MAX)
        };
        extra.sort_by_key(|(key, _)| rank(key));
        for (key, value) in &extra {
            let readable = match &outer.layout {
                // The shapes are all there is to it, and mostly the same few.
                Some((parameters, result, _)) if *key == LAYOUT => {
                    let mut seen = seeded_set();
                    let mut shapes = parameters.iter().chain([result]);
                    shapes.all(|s| !seen.insert(s) || is_shape(&s.to_string()))
                }
                _ => is_module_attribute(&format!("{key}={value}")),
            };
            if !readable {
                let mut fault =
                    fault(&read::READ_ATTRIBUTE, format!("module attribute '{key}' is malformed"));
                fault.found = Some(value.clone());
                return Err(fault);
            }
        }
        self.out.extra = extra.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let by_id = self.comp_ids.get(&entry_id).copied();
        let by_name = || {
            let found = self.out.computations.iter().rposition(|c| c.name == entry_name);
            found.filter(|_| entry_id == 0).map(CompId::new)
        };
        self.out.entry = by_id.or_else(by_name).ok_or_else(|| {
            let what = format!("the entry computation, id {entry_id}, does not exist");
            fault(&read::READ_ENTRY, what)
        })?;
        self.faults.extend(outer.faults(&self.out).into_iter().map(|(_, fault)| fault));
        Ok(())
    }

    fn frames(&mut self, proto: StackFrameIndexProto) {
        let frames = &mut self.out.frames;
        frames.files = proto.file_names;
        frames.functions = proto.function_names;
        frames.locations = proto
            .file_locations
            .iter()
            .map(|l| FileLocation {
                file: l.file_name_id.into(),
                function: l.function_name_id.into(),
                line: l.line.into(),
                end_line: l.end_line.into(),
                column: l.column.into(),
                end_column: l.end_column.into(),
            })
            .collect();
        let frame = |f: &super::messages::StackFrame| StackFrame {
            location: f.file_location_id.into(),
            // The text form counts parents from 1, with 1 for none (measured on XLA's printer).
            parent: i64::from(f.parent_frame_id) + 1,
        };
        frames.frames = proto.stack_frames.iter().map(frame).collect();
    }
}

/// Shapes of the parameters and of the result.
fn layout(program: &ProgramShapeProto) -> Result<Option<(Vec<Shape>, Shape)>, Fault> {
    let Some(result) = &program.result else { return Ok(None) };
    let parameters: Result<Vec<Shape>, Fault> =
        program.parameters.iter().map(|p| shape::shape(p, 0)).collect();
    Ok(Some((parameters?, shape::shape(result, 0)?)))
}

/// `{ {0}: (1, {}, may-alias) }`
fn aliases(proto: &HloInputOutputAliasProto) -> Option<(&'static str, String)> {
    let one = |e: &super::messages::AliasEntryProto| {
        let kind = if e.kind == 2 { "must-alias" } else { "may-alias" };
        format!(
            "{}: ({}, {}, {kind})",
            index(&e.output_shape_index),
            e.parameter_number,
            index(&e.parameter_shape_index)
        )
    };
    let entries: Vec<String> = proto.entries.iter().map(one).collect();
    (!entries.is_empty()).then(|| ("input_output_alias", format!("{{ {} }}", entries.join(", "))))
}

/// `{ (1, {}) }`
fn donors(proto: &HloBufferDonorProto) -> Option<(&'static str, String)> {
    let one = |e: &super::messages::BufferDonorEntryProto| {
        format!("({}, {})", e.parameter_number, index(&e.parameter_shape_index))
    };
    let entries: Vec<String> = proto.entries.iter().map(one).collect();
    (!entries.is_empty()).then(|| ("buffer_donor", format!("{{ {} }}", entries.join(", "))))
}
