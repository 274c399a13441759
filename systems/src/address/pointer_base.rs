//! Pointer locations: for each on-chip location a DRAM location `<loc>-ADDR` of kind Pointer that holds its 64-bit base.
//!
//! In: a location and its base. Out: the pointer location, made the first time it is asked for. A pointer is a variable of
//! its own behind the others, its eight bytes stand at the end of the constants, least significant first.
//!
//! ```text
//! sbuf5 at 0x5000   ->   dram12 "x-ADDR" = 00 50 00 00 00 00 00 00
//! ```
//!
//! Facts: `spec/ir.md 3.7, 5.4` (steps 3 to 6), D8, D13.

use crate::staging::Staging;
use murre_components::bir::*;
use murre_components::dtype::DType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::ids::LocId;
use murre_components::program::VarKind;

/// The pointer locations made so far.
pub struct PointerBases {
    pointers: SeededMap<LocId, LocId>,
    /// Variable of the next one.
    variable: u32,
    /// Constant bytes that there are already.
    before: usize,
    /// Constant bytes to append.
    pub bytes: Vec<u8>,
}

impl PointerBases {
    /// None yet, in a program with these locations and constant bytes.
    pub fn new(locs: &[LocHead], places: &[LocPlace], constant_bytes: usize) -> Self {
        let dram = locs.iter().zip(places).filter(|(l, p)| l.space == Space::Dram && p.address != u32::MAX);
        let variable = dram.map(|(_, p)| p.address + 1).max().unwrap_or(0);
        let padding = constant_bytes.next_multiple_of(8) - constant_bytes;
        PointerBases { pointers: seeded_map(), variable, before: constant_bytes, bytes: vec![0; padding] }
    }

    /// The pointer location of `loc`, whose base is `base`.
    pub fn of(&mut self, staging: &mut Staging, loc: LocId, base: u64, from: LocFrom) -> LocId {
        if let Some(p) = self.pointers.get(&loc) {
            return *p;
        }
        let mut row = LocRow::new(Space::Dram, DType::I64, 1, 1, from.hlo);
        row.head.kind = VarKind::Pointer;
        row.place.address = self.variable;
        row.from.ordinal = (self.before + self.bytes.len()) as u32;
        self.variable += 1;
        self.bytes.extend_from_slice(&base.to_le_bytes());
        let p = staging.loc(row);
        self.pointers.insert(loc, p);
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompileOptions;
    use murre_components::hlo::HloModule;
    use murre_components::ids::HloId;

    #[test]
    fn a_location_has_one_pointer_behind_the_variables_and_constants() {
        let world = crate::Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut staging = Staging::new(&world);
        let mut dram = LocRow::new(Space::Dram, DType::F32, 1, 4, HloId(0));
        dram.place.address = 6;
        let mut p = PointerBases::new(&[dram.head], &[dram.place], 5);
        let from = dram.from;
        let a = p.of(&mut staging, LocId(0), 0x5000, from);
        assert_eq!(p.of(&mut staging, LocId(0), 0x5000, from), a);
        let b = p.of(&mut staging, LocId(1), 0x0200_0040, from);
        assert_ne!(a, b);
        let rows: Vec<_> = staging.locs.iter().map(|l| (l.place.address, l.from.ordinal)).collect();
        assert_eq!(rows, [(7, 8), (8, 16)]);
        assert_eq!(
            p.bytes,
            [&[0u8; 3][..], &0x5000u64.to_le_bytes(), &0x0200_0040u64.to_le_bytes()].concat()
        );
    }
}
