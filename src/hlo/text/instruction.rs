//! One instruction of HLO text: `[ROOT] [%]name = [shape] opcode(operands), attributes`.

use super::{Parse, Parser, reserved};
use crate::hlo::infer::inferred_shape;
use crate::hlo::lex::Tok;
use murre_components::diag::{Span, codes::read};
use murre_components::hlo::{Attrs, HloInstruction, HloOp, Shape};
use murre_components::ids::{CompId, HloId};
use std::sync::Arc;

impl<'a> Parser<'a> {
    /// Reads one instruction into the module; faults that leave the text's structure whole are noted.
    pub(super) fn instruction(&mut self, computation: CompId) -> Parse<HloId> {
        let at = self.span();
        let name = self.name("an instruction or '}'")?;
        if reserved(name) {
            let fault =
                self.diagnostic(&read::READ_SYNTAX, at, format!("'{name}' cannot name an instruction"));
            self.note(fault.found(name).help(format!("call it '{name}_'")))?;
        }
        self.expect(b'=')?;
        let written = if self.at_shape() { Some(self.shape()?) } else { None };
        let id = HloId::new(self.module.instructions.len());
        let opcode_at = self.span();
        let opcode = self.word("an opcode")?;
        let Some(op) = HloOp::from_name(opcode) else {
            let fault =
                self.diagnostic(&read::READ_UNKNOWN_OPCODE, opcode_at, format!("unknown opcode '{opcode}'"));
            self.note(fault.on(name).found(opcode))?;
            self.skip_rest(computation, name, at, written)?;
            return Ok(id);
        };
        if !self.is(b'(') {
            return Err(self.unexpected("'('"));
        }
        self.advance();
        let mut operands = Vec::new();
        let mut own = Attrs::None;
        match op {
            HloOp::Parameter => {
                let number_at = self.span();
                let number = self.int()?;
                match u32::try_from(number) {
                    Ok(number) => own = Attrs::Parameter { number },
                    Err(_) => {
                        let what = "a parameter's number is out of range";
                        let fault = self.diagnostic(&read::READ_PARAMETERS, number_at, what).on(name);
                        self.note(fault.found(number.to_string()))?;
                    }
                }
            }
            HloOp::Constant => {
                let Some(shape) = &written else {
                    let fault =
                        self.diagnostic(&read::READ_SHAPE, opcode_at, "a constant needs its shape written");
                    return Err(Box::new(fault.on(name)));
                };
                own = Attrs::Constant(Arc::new(self.literal(shape)?));
            }
            _ => self.operands(name, &mut operands)?,
        }
        self.expect(b')')?;
        let (bag, loc) = self.attributes(op, at)?;
        let (attrs, called, extra) = self.assemble(bag)?;
        let attrs = if own == Attrs::None { attrs } else { own };
        let mut instruction = HloInstruction {
            name: name.to_owned(),
            op,
            shape: written.clone().unwrap_or(Shape::Token),
            operands,
            called,
            attrs,
            computation,
            loc,
            extra,
        };
        if written.is_none() && self.faults.is_empty() {
            match inferred_shape(&self.module, &instruction) {
                Some(shape) => instruction.shape = shape,
                None => {
                    let what = format!("the shape of {opcode} must be written: its operands do not give it");
                    let fault = self.diagnostic(&read::READ_SHAPE, opcode_at, what).on(name);
                    self.note(fault)?;
                }
            }
        }
        self.define(name, at, instruction)?;
        Ok(id)
    }

    fn define(&mut self, name: &'a str, at: Span, instruction: HloInstruction) -> Parse<()> {
        let id = HloId::new(self.module.instructions.len());
        self.module.instructions.push(instruction);
        if self.names.insert(name, id).is_some() {
            let fault = self.diagnostic(&read::READ_DUPLICATE, at, format!("a second instruction '{name}'"));
            self.note(fault.on(name))?;
        }
        Ok(())
    }

    /// Steps over the operands and attributes of an instruction that nobody knows, and defines its name, so that its
    /// users are not faulted for it.
    fn skip_rest(
        &mut self,
        computation: CompId,
        name: &'a str,
        at: Span,
        written: Option<Shape>,
    ) -> Parse<()> {
        if !self.is(b'(') {
            return Err(self.unexpected("'('"));
        }
        self.skip_group()?;
        while self.eat(b',') {
            let Tok::AttrName(_) = self.tok.tok else { return Err(self.unexpected("an attribute")) };
            self.advance();
            self.raw_value()?;
        }
        let placeholder = HloInstruction {
            name: name.to_owned(),
            op: HloOp::CustomCall,
            shape: written.unwrap_or(Shape::Token),
            operands: Vec::new(),
            called: Vec::new(),
            attrs: Attrs::CustomCall { target: String::new(), config: String::new() },
            computation,
            loc: Default::default(),
            extra: Vec::new(),
        };
        self.define(name, at, placeholder)
    }

    fn operands(&mut self, user: &str, operands: &mut Vec<HloId>) -> Parse<()> {
        let mut first = true;
        while !self.is(b')') {
            if !first {
                self.expect(b',')?;
            }
            first = false;
            let at = self.span();
            let written = if self.at_shape() { Some(self.shape()?) } else { None };
            let name = self.name("an operand")?;
            let Some(&id) = self.names.get(name) else {
                let what = format!("operand '{name}' is not defined before '{user}'");
                let fault = self.diagnostic(&read::READ_UNDEFINED, at, what).on(user).found(name);
                self.note(
                    fault.expected("an instruction that stands before its users in the same computation"),
                )?;
                continue;
            };
            operands.push(id);
            let actual = self.module.instructions.get(id.index()).map(|i| &i.shape);
            if let (Some(written), Some(actual)) = (&written, actual)
                && !written.same(actual)
            {
                let (found, expected) = (written.to_string(), actual.to_string());
                let what = format!("operand '{name}' is written as {found}, but it is {expected}");
                let fault = self.diagnostic(&read::READ_OPERAND_SHAPE, at, what).on(user);
                self.note(fault.found(found).expected(expected))?;
            }
        }
        Ok(())
    }
}
