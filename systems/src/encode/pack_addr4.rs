//! In: placed locations, coloured registers. Out: the word in [`ApWords`] of every access pattern, in one sweep over the table: SBUF
//! `partition << 18 | byte`, PSUM `1 << 25 | partition << 15 | bank << 11 | byte`, register patterns
//! `0x80000000 | colour`, DRAM 0. A pattern without an address gets [`UNADDRESSED`], which no word can be; encoding
//! reports it if the instruction is in the program. Facts: `spec/isa.md 1.1..1.3`.
//!
//! ```text
//! bf16 sbuf:3 (offset 0x400 of each partition), element 64   =>   0x00000480
//! ```

use crate::columns;
use crate::options::CompileOptions;
use crate::sweep::{batch_rows, sweep};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::isa::addr4_register;

/// No address. Marks both gather and shape bits, which is a dead mode.
pub const UNADDRESSED: u32 = u32::MAX;

/// The word of one pattern.
#[inline]
fn word(head: &ApHead, locs: &[LocHead], places: &[LocPlace], regs: &[RegHead]) -> u32 {
    if head.kind == ApKind::Register {
        return match regs.get(head.dynamic.address.index()) {
            Some(r) if r.colour < 64 => addr4_register(u32::from(r.colour)),
            _ => UNADDRESSED,
        };
    }
    let l = head.loc.index();
    let (Some(loc), Some(place)) = (locs.get(l), places.get(l)) else { return UNADDRESSED };
    if loc.space == Space::Dram {
        return 0;
    }
    if place.address == u32::MAX || head.kind != ApKind::Physical {
        return UNADDRESSED;
    }
    let (size, offset) = (head.dtype.bytes(), u64::from(head.offset));
    let width = loc.part_bytes();
    let mut byte = offset * u64::from(size);
    let mut part = 0;
    if byte >= width && width != 0 {
        (part, byte) = (byte / width, byte % width);
    }
    let (shift, base, partition) = match loc.space {
        Space::Psum => (15, 1 << 25, 0x4000),
        _ => (18, 0, 0x40000),
    };
    let inside = u64::from(place.address) + byte;
    if part > 127 || inside >= partition {
        UNADDRESSED
    } else {
        (part as u32) << shift | base | inside as u32
    }
}

/// The system.
pub fn pack_addr4(
    aps: Query<&ApHead>,
    locs: Query<(&LocHead, &LocPlace)>,
    regs: Query<&RegHead>,
    options: Res<CompileOptions>,
    mut words: ResMut<ApWords>,
) {
    let batch = batch_rows(&options);
    let (loc, place) = columns!(locs);
    let regs = columns!(regs);
    let heads: &[ApHead] = columns!(aps);
    words.0 = vec![0; heads.len()];
    sweep(&mut words.0, batch, |first, out| {
        for (head, out) in heads.iter().skip(first).zip(out) {
            *out = word(head, loc, place, regs);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::ids::*;

    #[test]
    fn words_of_the_isa_page() {
        // space, bytes of a partition, address of the location, element offset in bytes, word
        let table = [
            (Space::Sbuf, 0x30000, 0, 0u32, 0x0000_0000u32),
            (Space::Sbuf, 0x1000, 0x100, 3 * 0x1000, 0x000C_0100),
            (Space::Sbuf, 0x1000, 0x1000, 64 * 0x1000, 0x0100_1000),
            (Space::Psum, 0x800, 0, 0, 0x0200_0000),
            (Space::Psum, 0x800, 2 * 2048, 5 * 0x800 + 0x40, 0x0202_9040),
            (Space::Psum, 0x800, 7 * 2048, 127 * 0x800 + 0x7FC, 0x023F_BFFC),
            (Space::Dram, 0x800, 7, 12, 0),
            (Space::Sbuf, 0x1000, 0, 128 * 0x1000, UNADDRESSED),
            (Space::Sbuf, 0x1000, u32::MAX, 0, UNADDRESSED),
        ];
        for (space, bytes, address, offset, expected) in table {
            let loc = LocRow::new(space, DType::U8, 128, bytes, HloId::NONE).head;
            let place = LocPlace { address, table_entry: u32::MAX };
            let head = ApHead {
                loc: LocId(0),
                offset,
                inst: InstId(0),
                dtype: DType::U8,
                kind: ApKind::Physical,
                output: 0,
                flags: 0,
                dynamic: ApDynamic::default(),
            };
            assert_eq!(word(&head, &[loc], &[place], &[]), expected, "{space:?} {offset:#x}");
        }
        let mut reg = RegRow::new(EngineId::Dve, RegRole::ApAddr, HloId::NONE).head;
        let head = ApHead {
            loc: LocId(0),
            offset: 0,
            inst: InstId(0),
            dtype: DType::U8,
            kind: ApKind::Register,
            output: 0,
            flags: 0,
            dynamic: ApDynamic { address: RegId(0), ..Default::default() },
        };
        assert_eq!(word(&head, &[], &[], &[reg]), UNADDRESSED);
        reg.colour = 17;
        assert_eq!(word(&head, &[], &[], &[reg]), 0x8000_0011);
    }
}
