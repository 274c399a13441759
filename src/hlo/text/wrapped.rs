//! Operations in the background in their short form: `s = (..) negate-start(p)` stands for an `async-start` that calls a
//! computation of one `negate`, which the text leaves out. Here that computation is made.
//!
//! ```text
//! s = ((f32[4]), f32[4], u32[]) negate-start(p)
//! ->
//! async_wrapped { p0 = f32[4] parameter(0) ; ROOT r = f32[4] negate(p0) }
//! s = ((f32[4]), f32[4], u32[]) async-start(p), calls=async_wrapped
//! ```

use super::{Parse, Parser};
use murre_components::diag::codes::read;
use murre_components::hlo::{Attrs, Computation, Draft, HloOp, HloRange, Shape};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};

/// A computation to be made, and the instruction that calls it.
pub(super) struct Wrapped {
    pub caller: HloId,
    pub op: HloOp,
    pub operands: Vec<ShapeId>,
    pub result: ShapeId,
    pub attrs: AttrId,
    pub called: Vec<CompId>,
    pub kept: Vec<(TextId, TextId)>,
}

/// An instruction taken out of the module.
struct Owned {
    name: String,
    draft: Draft<'static>,
    operands: Vec<HloId>,
    called: Vec<CompId>,
    kept: Vec<(TextId, TextId)>,
}

/// The long form of a short opcode: `negate-start` is an `async-start` of `negate`.
pub(super) fn long_form(opcode: &str) -> Option<(HloOp, HloOp)> {
    let halves =
        [("-start", HloOp::AsyncStart), ("-update", HloOp::AsyncUpdate), ("-done", HloOp::AsyncDone)];
    halves.into_iter().find_map(|(suffix, op)| {
        let wrapped = HloOp::from_name(opcode.strip_suffix(suffix)?)?;
        (wrapped != HloOp::Parameter && wrapped != HloOp::Constant).then_some((op, wrapped))
    })
}

impl<'a> Parser<'a> {
    /// The second part of an `async-start`'s tuple.
    pub(super) fn wrapped_result(&mut self, written: Option<ShapeId>, opcode: &str) -> Parse<ShapeId> {
        let part = written.and_then(|id| match self.module.shape(id) {
            Shape::Tuple(parts) => parts.get(1).cloned(),
            _ => None,
        });
        match part {
            Some(shape) => Ok(self.module.intern_shape(shape)),
            None => {
                let fault = self.fault(&read::READ_SHAPE, format!("{opcode} needs its shape written"));
                Err(Box::new(fault.expected("((operands), result, ...)")))
            }
        }
    }

    /// Puts the computations that the short forms stand for before the one that was just read, which begins at `first`.
    /// Returns where it begins now.
    pub(super) fn unwrap_async(&mut self, first: HloId, root: &mut HloId) -> HloId {
        let wrapped = std::mem::take(&mut self.wrapped);
        if wrapped.is_empty() {
            return first;
        }
        let mut taken: Vec<Owned> = (first.0..self.module.len() as u32)
            .map(|id| {
                let inst = self.module.inst(HloId(id));
                let d = inst.draft();
                let draft = Draft {
                    attrs: d.attrs,
                    metadata: d.metadata,
                    line: d.line,
                    column: d.column,
                    ..Draft::new("", d.op, d.shape)
                };
                Owned {
                    name: inst.name().to_owned(),
                    draft,
                    operands: inst.operands().to_vec(),
                    called: inst.called().to_vec(),
                    kept: inst.kept_ids().to_vec(),
                }
            })
            .collect();
        self.module.truncate(first);
        for w in wrapped {
            let id = CompId::new(self.module.computations.len());
            if let Some(caller) = taken.get_mut((w.caller.0 - first.0) as usize) {
                caller.called = vec![id];
            }
            self.wrapped_computation(w, id);
        }
        let start = HloId::new(self.module.len());
        let moved = |id: HloId| HloId(id.0 - first.0 + start.0);
        for t in &mut taken {
            t.operands.iter_mut().for_each(|o| *o = moved(*o));
            let draft =
                Draft { name: &t.name, operands: &t.operands, called: &t.called, kept: &t.kept, ..t.draft };
            self.module.push(draft);
        }
        *root = moved(*root);
        start
    }

    fn wrapped_computation(&mut self, w: Wrapped, id: CompId) {
        let first = HloId::new(self.module.len());
        let mut parameters = Vec::new();
        for (number, shape) in (0u32..).zip(&w.operands) {
            let attrs = self.module.intern_attrs(Attrs::Parameter { number });
            let name = format!("async_param.{number}");
            parameters.push(self.module.push(Draft { attrs, ..Draft::new(&name, HloOp::Parameter, *shape) }));
        }
        let draft = Draft {
            operands: &parameters,
            called: &w.called,
            attrs: w.attrs,
            kept: &w.kept,
            ..Draft::new("async_root", w.op, w.result)
        };
        let root = self.module.push(draft);
        let mut name = format!("async_wrapped.{}", id.0);
        while self.computations.contains_key(name.as_str()) {
            name.push('_');
        }
        let instructions = HloRange { first: first.0, count: parameters.len() as u32 + 1 };
        self.module.computations.push(Computation {
            name,
            instructions,
            parameters,
            root,
            extra: Vec::new(),
        });
    }
}
