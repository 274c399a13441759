//! Address words of operands.

use crate::twin::graph::Program;
use crate::twin::instruction::{Address, Operand};
use crate::twin::pass::Pass;
use murre_components::bir::Space;
use murre_components::isa::addr4_register;
use murre_systems::encode::pack_addr4::UNADDRESSED;

/// The pass.
pub struct PackAddr4;

impl Pass for PackAddr4 {
    fn name(&self) -> &'static str {
        "pack_addr4"
    }

    fn run(&self, program: &mut Program) {
        for operand in program.instructions.iter().flat_map(|i| &i.operands) {
            operand.word.set(word(operand));
        }
    }
}

fn word(operand: &Operand) -> u32 {
    let location = &operand.location;
    match &*operand.address.borrow() {
        Address::Register(r) => {
            return r.colour.get().map_or(UNADDRESSED, |c| addr4_register(u32::from(c)));
        }
        _ if location.head.space == Space::Dram => return 0,
        Address::Symbolic(_) => return UNADDRESSED,
        Address::Static | Address::Dynamic(_) => {}
    }
    let width = location.head.part_bytes();
    let mut byte = u64::from(operand.offset) * u64::from(operand.dtype.bytes());
    let mut part = 0;
    if byte >= width && width != 0 {
        (part, byte) = (byte / width, byte % width);
    }
    let (shift, base, partition) = match location.head.space {
        Space::Psum => (15, 1 << 25, 0x4000),
        _ => (18, 0, 0x40000),
    };
    let inside = u64::from(location.place.address) + byte;
    if part > 127 || inside >= partition {
        UNADDRESSED
    } else {
        (part as u32) << shift | base | inside as u32
    }
}
