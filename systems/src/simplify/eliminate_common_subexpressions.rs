//! `eliminate_common_subexpressions`: two instructions of a computation with the same operation, attributes, shape and
//! operands are one. The first in order stays.
//!
//! In and out: the module resource; the repeated ones are left without readers for `eliminate_dead_code`.

use bevy_ecs::prelude::*;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{Attrs, HloInstruction, HloModule, HloOp, Literal};
use murre_components::ids::HloId;

/// Constants up to this many bytes are compared.
const SMALL_CONSTANT: usize = 64;

/// The pass.
pub fn eliminate_common_subexpressions(mut module: ResMut<HloModule>) {
    let mut same: Vec<HloId> = (0..module.instructions.len()).map(HloId::new).collect();
    let mut seen: SeededMap<Vec<u8>, HloId> = seeded_map();
    let mut key = Vec::new();
    for c in 0..module.computations.len() {
        seen.clear();
        for k in 0..module.computations[c].instructions.len() {
            let id = module.computations[c].instructions[k];
            for o in &mut module.instructions[id.index()].operands {
                *o = same[o.index()];
            }
            key.clear();
            if !write_key(&module.instructions[id.index()], &mut key) {
                continue;
            }
            match seen.get(&key) {
                Some(first) => same[id.index()] = *first,
                None => {
                    seen.insert(key.clone(), id);
                }
            }
        }
        let root = module.computations[c].root;
        module.computations[c].root = same[root.index()];
    }
}

/// Writes what makes an instruction what it is; `false` if it may not be merged.
fn write_key(inst: &HloInstruction, key: &mut Vec<u8>) -> bool {
    use std::io::Write;
    if matches!(
        inst.op,
        HloOp::Parameter
            | HloOp::Rng
            | HloOp::RngGetAndUpdateState
            | HloOp::CustomCall
            | HloOp::While
            | HloOp::Conditional
            | HloOp::Infeed
            | HloOp::Outfeed
            | HloOp::Send
            | HloOp::Recv
    ) {
        return false;
    }
    key.push(inst.op as u8);
    for o in &inst.operands {
        key.extend_from_slice(&o.0.to_le_bytes());
    }
    for c in &inst.called {
        key.extend_from_slice(&c.0.to_le_bytes());
    }
    let written = match &inst.attrs {
        Attrs::Constant(literal) => match literal.as_ref() {
            Literal::Array { data, .. } if data.len() <= SMALL_CONSTANT => {
                key.extend_from_slice(data);
                write!(key, "{}", inst.shape)
            }
            _ => return false,
        },
        Attrs::None => write!(key, "{}", inst.shape),
        attrs => write!(key, "{}{attrs:?}", inst.shape),
    };
    written.is_ok()
}
