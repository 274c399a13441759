//! One instruction of HLO text, token by token: `[ROOT] [%]name = [shape] opcode(operands), attributes`.

use super::attributes::{Bag, Given};
use super::wrapped::{Wrapped, long_form};
use super::{Parse, Parser, reserved};
use crate::hlo::infer::inferred_shape;
use crate::hlo::lex::Tok;
use murre_components::diag::{Span, codes::read};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Draft, HloOp};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};
use std::sync::Arc;

impl<'a> Parser<'a> {
    /// Reads one instruction into the module; faults that leave the text's structure whole are noted.
    pub(super) fn instruction(&mut self) -> Parse<HloId> {
        let at = self.span();
        let name = self.name("an instruction or '}'")?;
        if reserved(name) {
            let fault =
                self.diagnostic(&read::READ_SYNTAX, at, format!("'{name}' cannot name an instruction"));
            self.note(fault.found(name).help(format!("call it '{name}_'")))?;
        }
        self.expect(b'=')?;
        let written = if self.at_shape() { Some(self.shape_id()?) } else { None };
        let opcode_at = self.span();
        let opcode = self.word("an opcode")?;
        let short = long_form(opcode).filter(|_| HloOp::from_name(opcode).is_none());
        let Some(op) = HloOp::from_name(opcode).or(short.map(|(op, _)| op)) else {
            let fault =
                self.diagnostic(&read::READ_UNKNOWN_OPCODE, opcode_at, format!("unknown opcode '{opcode}'"));
            self.note(fault.on(name).found(opcode))?;
            return self.skip_rest(name, at, written);
        };
        if !self.is(b'(') {
            return Err(self.unexpected("'('"));
        }
        let behind_bracket = self.tok.end;
        self.advance();
        let mut operands = std::mem::take(&mut self.cache.operands);
        operands.clear();
        let mut own = AttrId::NONE;
        match op {
            HloOp::Parameter => {
                let number_at = self.span();
                let number = self.int()?;
                match u32::try_from(number) {
                    Ok(number) => own = self.module.intern_attrs(Attrs::Parameter { number }),
                    Err(_) => {
                        let what = "a parameter's number is out of range";
                        let fault = self.diagnostic(&read::READ_PARAMETERS, number_at, what).on(name);
                        self.note(fault.found(number.to_string()))?;
                    }
                }
            }
            HloOp::Constant => {
                let Some(shape) = written else {
                    let fault =
                        self.diagnostic(&read::READ_SHAPE, opcode_at, "a constant needs its shape written");
                    return Err(Box::new(fault.on(name)));
                };
                own = self.constant(shape, behind_bracket)?;
            }
            _ => self.operands(name, &mut operands)?,
        }
        let behind_operands = self.tok.end;
        self.expect(b')')?;
        // In the short form the attributes are those of the wrapped operation.
        let told = short.map_or(op, |(_, wrapped)| wrapped);
        let (bag, metadata) = self.attributes(told, short.is_some(), at)?;
        if op == HloOp::Conditional {
            self.check_branches(&bag, &operands)?;
        }
        if short.is_some() && op != HloOp::AsyncStart {
            // The operation was described where it was started.
            let none = (AttrId::NONE, Vec::new(), Vec::new());
            let id = self.short(name, at, (op, told), written, &operands, none, metadata.text)?;
            self.cache.operands = operands;
            return Ok(id);
        }
        let (attrs, called, kept) = self.assemble(bag)?;
        let attrs = if own.is_some() { own } else { self.module.intern_attrs(attrs) };
        if let Some((_, wrapped)) = short {
            let id = self.short(
                name,
                at,
                (op, wrapped),
                written,
                &operands,
                (attrs, called, kept),
                metadata.text,
            )?;
            self.cache.operands = operands;
            return Ok(id);
        }
        let draft = Draft {
            operands: &operands,
            called: &called,
            attrs,
            kept: &kept,
            metadata: metadata.text,
            line: at.line,
            column: u16::try_from(at.column).unwrap_or(u16::MAX),
            ..Draft::new(name, op, written.unwrap_or(ShapeId::NONE))
        };
        self.remember_attributes(op, behind_operands, metadata.before, attrs, &called, &kept);
        let id = self.define(name, at, draft, written.is_none())?;
        self.cache.operands = operands;
        if written.is_none() && self.faults.is_empty() {
            match inferred_shape(&self.module, self.module.inst(id)) {
                Some(shape) => {
                    let shape = self.module.intern_shape(shape);
                    self.module.set_shape(id, shape);
                }
                None => {
                    let what = format!("the shape of {opcode} must be written: its operands do not give it");
                    let fault = self.diagnostic(&read::READ_SHAPE, opcode_at, what).on(name);
                    self.note(fault)?;
                }
            }
        }
        Ok(id)
    }

    /// Adds an operation in the background that is written in its short form.
    fn short(
        &mut self,
        name: &str,
        at: Span,
        (op, wrapped): (HloOp, HloOp),
        written: Option<ShapeId>,
        operands: &[HloId],
        (attrs, called, kept): (AttrId, Vec<CompId>, Vec<(TextId, TextId)>),
        metadata: TextId,
    ) -> Parse<HloId> {
        let column = u16::try_from(at.column).unwrap_or(u16::MAX);
        let shape = written.unwrap_or(ShapeId::NONE);
        // Room for the called computation's id, which comes later.
        let room: &[CompId] = if op == HloOp::AsyncStart { &[CompId::NONE] } else { &[] };
        let draft =
            Draft { operands, called: room, metadata, line: at.line, column, ..Draft::new(name, op, shape) };
        let shapes: Vec<ShapeId> = operands.iter().map(|o| self.module.inst(*o).shape_id()).collect();
        let result = match op {
            HloOp::AsyncStart => Some(self.wrapped_result(written, op.name())?),
            _ => None,
        };
        let id = self.define(name, at, draft, written.is_none())?;
        if let Some(result) = result {
            self.wrapped.push(Wrapped {
                caller: id,
                op: wrapped,
                operands: shapes,
                result,
                attrs,
                called,
                kept,
            });
        }
        Ok(id)
    }

    /// A conditional on a pred names its two branches, one on a number lists them.
    fn check_branches(&mut self, bag: &Bag<'a>, operands: &[HloId]) -> Parse<()> {
        let selector = operands.first().and_then(|id| self.module.inst(*id).shape().array());
        let by_pred = selector.is_some_and(|a| a.ty == HloType::Pred);
        let wrong = |g: &&Given<'_>| match g.name {
            "branch_computations" => by_pred,
            "true_computation" | "false_computation" => selector.is_some() && !by_pred,
            _ => false,
        };
        if let Some(given) = bag.given.iter().find(wrong) {
            let what = format!("a conditional on this selector has no attribute '{}'", given.name);
            let fault = self.diagnostic(&read::READ_UNKNOWN_ATTRIBUTE, given.at, what).found(given.name);
            let wanted =
                if by_pred { "true_computation and false_computation" } else { "branch_computations" };
            self.note(fault.expected(wanted))?;
        }
        Ok(())
    }

    /// The attributes of a constant of this shape; its literal starts at byte offset `start`.
    fn constant(&mut self, shape: ShapeId, start: usize) -> Parse<AttrId> {
        let faults = self.faults.len();
        let array = self.module.shape(shape).clone();
        let literal = self.literal(&array)?;
        let attrs = self.module.intern_attrs(Attrs::Constant(Arc::new(literal)));
        if self.faults.len() == faults {
            self.remember_literal(shape, start, self.behind, attrs);
        }
        Ok(attrs)
    }

    /// Adds an instruction under its name. Without a shape it gets that of a token for now.
    fn define(&mut self, name: &str, at: Span, draft: Draft<'_>, shapeless: bool) -> Parse<HloId> {
        let shape = match shapeless {
            true => self.module.intern_shape(murre_components::hlo::Shape::Token),
            false => draft.shape,
        };
        let id = self.module.push(Draft { shape, ..draft });
        if !self.names.insert(&self.module, id, name) {
            let fault = self.diagnostic(&read::READ_DUPLICATE, at, format!("a second instruction '{name}'"));
            self.note(fault.on(name))?;
        }
        Ok(id)
    }

    /// Steps over the operands and attributes of an instruction that nobody knows, and defines its name, so that its
    /// users are not faulted for it.
    fn skip_rest(&mut self, name: &'a str, at: Span, written: Option<ShapeId>) -> Parse<HloId> {
        if !self.is(b'(') {
            return Err(self.unexpected("'('"));
        }
        self.skip_group()?;
        while self.eat(b',') {
            let Tok::AttrName(_) = self.tok.tok else { return Err(self.unexpected("an attribute")) };
            self.advance();
            self.raw_value()?;
        }
        let shape = written.unwrap_or(ShapeId::NONE);
        let placeholder = Draft::new(name, HloOp::CustomCall, shape);
        self.define(name, at, placeholder, written.is_none())
    }

    fn operands(&mut self, user: &str, operands: &mut Vec<HloId>) -> Parse<()> {
        let mut first = true;
        while !self.is(b')') {
            if !first {
                self.expect(b',')?;
            }
            first = false;
            let at = self.tok;
            let written = if self.at_shape() { Some(self.shape_id()?) } else { None };
            let name = self.name("an operand")?;
            let Some(id) = self.names.get(&self.module, name) else {
                let what = format!("operand '{name}' is not defined before '{user}'");
                let at = self.lexer.span(&at);
                let fault = self.diagnostic(&read::READ_UNDEFINED, at, what).on(user).found(name);
                self.note(
                    fault.expected("an instruction that stands before its users in the same computation"),
                )?;
                continue;
            };
            operands.push(id);
            let actual = self.module.inst(id).shape();
            if let Some(written) = written
                && !self.module.shape(written).same(actual)
            {
                let (found, expected) = (self.module.shape(written).to_string(), actual.to_string());
                let what = format!("operand '{name}' is written as {found}, but it is {expected}");
                let at = self.lexer.span(&at);
                let fault = self.diagnostic(&read::READ_OPERAND_SHAPE, at, what).on(user);
                self.note(fault.found(found).expected(expected))?;
            }
        }
        Ok(())
    }
}
