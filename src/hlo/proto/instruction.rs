//! One instruction proto: its parts on the wire, and the row that they become.

use super::computation::{KnownAttributes, Reader};
use super::messages::HloInstructionProto;
use super::wire::{Damaged, Fields};
use super::{Fault, attributes, damaged, fault, kept, literal, sanitized, shape};
use murre_components::diag::{Diagnostic, codes::read};
use murre_components::hlo::{Attrs, Draft, HloOp};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};
use prost::Message;
use std::sync::Arc;

/// Caches take no more entries than this: what repeats is seen early.
const MOST_ENTRIES: usize = 1 << 14;
/// Longest literal that is remembered by its bytes.
const SMALL_LITERAL: usize = 256;

/// The fields of an instruction that every instruction has, and the bytes of all others.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub name: &'a str,
    pub opcode: &'a [u8],
    pub shape: Option<&'a [u8]>,
    pub metadata: &'a [u8],
    pub literal: Option<&'a [u8]>,
    pub id: i64,
    pub operands: Vec<i64>,
    pub called: Vec<i64>,
    pub predecessors: Vec<i64>,
    /// Everything else, field by field: what the attributes hang on.
    pub rest: Vec<u8>,
}

/// Takes an instruction apart.
#[inline]
pub(super) fn decode_parts<'a>(bytes: &'a [u8], parts: &mut Parts<'a>) -> Result<(), Damaged> {
    (parts.name, parts.opcode, parts.shape, parts.metadata, parts.literal) = ("", &[], None, &[], None);
    parts.id = 0;
    parts.operands.clear();
    parts.called.clear();
    parts.predecessors.clear();
    parts.rest.clear();
    let mut fields = Fields::new(bytes);
    // Fields of the rest that follow each other are copied together.
    let mut run: &[u8] = &[];
    while let Some(field) = fields.next_field()? {
        match field.number {
            1 => parts.name = field.value.text()?,
            2 => parts.opcode = field.value.bytes()?,
            3 => parts.shape = Some(field.value.bytes()?),
            7 => parts.metadata = field.value.bytes()?,
            8 => parts.literal = Some(field.value.bytes()?),
            35 => parts.id = field.value.int()?,
            36 => field.value.ints(&mut parts.operands)?,
            37 => field.value.ints(&mut parts.predecessors)?,
            38 => field.value.ints(&mut parts.called)?,
            _ => {
                run = fields.joined(run, field.raw, &mut parts.rest);
            }
        }
    }
    parts.rest.extend_from_slice(run);
    Ok(())
}

impl<'a> Reader<'a> {
    /// Adds the instruction to the module.
    pub(super) fn instruction(
        &mut self,
        parts: &Parts<'a>,
        operands: &[HloId],
        called: &[CompId],
    ) -> Result<HloId, Fault> {
        let op = HloOp::from_bytes(parts.opcode).ok_or_else(|| {
            let opcode = String::from_utf8_lossy(parts.opcode);
            let what = format!("unknown opcode '{opcode}'");
            Box::new(Diagnostic::error(&read::READ_UNKNOWN_OPCODE, what).found(opcode))
        })?;
        let given = parts.shape.ok_or_else(|| fault(&read::READ_PROTO, "the instruction has no shape"))?;
        let shape = self.shape(given)?;
        let known = self.attributes(op, parts)?;
        let attrs = if op == HloOp::Constant { self.constant(parts, shape)? } else { known.attrs };
        let metadata = self.metadata(parts.metadata)?;
        let name = sanitized(parts.name, || format!("{}.{}", op.name(), parts.id));
        let draft = Draft { operands, called, attrs, metadata, ..Draft::new(&name, op, shape) };
        let range = known.kept.0 as usize..known.kept.1 as usize;
        if parts.predecessors.is_empty() {
            return Ok(self.out.push(Draft { kept: &self.kept[range], ..draft }));
        }
        let mut all = self.kept[range].to_vec();
        all.push(self.predecessors(parts)?);
        Ok(self.out.push(Draft { kept: &all, ..draft }))
    }

    fn shape(&mut self, bytes: &'a [u8]) -> Result<ShapeId, Fault> {
        if let Some(id) = self.shapes.get(bytes) {
            return Ok(*id);
        }
        let id = self.out.intern_shape(shape::decode(bytes)?);
        if self.shapes.len() < MOST_ENTRIES {
            self.shapes.insert(bytes, id);
        }
        Ok(id)
    }

    fn metadata(&mut self, bytes: &'a [u8]) -> Result<TextId, Fault> {
        if bytes.is_empty() {
            return Ok(TextId::NONE);
        }
        if let Some(id) = self.metadata.get(bytes) {
            return Ok(*id);
        }
        let id = self.out.intern_text(&kept::metadata(bytes)?);
        if self.metadata.len() < MOST_ENTRIES {
            self.metadata.insert(bytes, id);
        }
        Ok(id)
    }

    fn constant(&mut self, parts: &Parts<'a>, shape: ShapeId) -> Result<AttrId, Fault> {
        let bytes = parts.literal.ok_or_else(|| fault(&read::READ_ELIDED, "the constant has no literal"))?;
        if let Some(id) = self.literals.get(&(shape, bytes)) {
            return Ok(*id);
        }
        let made = literal::literal(self.input, bytes, self.out.shape(shape))?;
        let id = self.out.intern_attrs(Attrs::Constant(Arc::new(made)));
        if bytes.len() <= SMALL_LITERAL && self.literals.len() < MOST_ENTRIES {
            self.literals.insert((shape, bytes), id);
        }
        Ok(id)
    }

    /// What the opcode is told by the fields of `parts.rest`.
    fn attributes(&mut self, op: HloOp, parts: &Parts<'a>) -> Result<KnownAttributes, Fault> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.push(op as u8);
        key.extend_from_slice(&parts.rest);
        let known = self.attributes.get(key.as_slice()).copied();
        let found = match known {
            Some(known) => Ok(known),
            None => self.new_attributes(op, &key),
        };
        self.key = key;
        found
    }

    fn new_attributes(&mut self, op: HloOp, key: &[u8]) -> Result<KnownAttributes, Fault> {
        let proto = HloInstructionProto::decode(&key[1..]).map_err(|_| damaged())?;
        let attrs = match op {
            HloOp::Constant => AttrId::NONE,
            _ => self.out.intern_attrs(attributes::attributes(op, &proto)?),
        };
        let from = self.kept.len() as u32;
        for (name, value) in kept::kept(op, &proto)? {
            let pair = (self.out.intern_text(name), self.out.intern_text(&value));
            self.kept.push(pair);
        }
        let known = KnownAttributes { attrs, kept: (from, self.kept.len() as u32) };
        if self.attributes.len() < MOST_ENTRIES {
            self.attributes.insert(key.into(), known);
        }
        Ok(known)
    }

    /// `control-predecessors={a, b}`
    fn predecessors(&mut self, parts: &Parts<'a>) -> Result<(TextId, TextId), Fault> {
        let mut names = Vec::new();
        for id in &parts.predecessors {
            let at = self.place(*id).ok_or_else(|| {
                let what = format!("control predecessor id {id} does not stand before '{}'", parts.name);
                fault(&read::READ_UNDEFINED, what)
            })?;
            names.push(self.out.inst(at).name());
        }
        let text = format!("{{{}}}", names.join(", "));
        Ok((self.out.intern_text("control-predecessors"), self.out.intern_text(&text)))
    }
}
