//! Families of copies whose descriptors are built ahead of the run, and which of them the profile's descriptors can say.
//! In: a copy's shape and combining operator. Out: its family, or a refusal with the reason. One table holds all five
//! (`spec/ir.md 9.4`, `spec/isa.md 4.3, 4.4`, D6, D8).
//!
//! ```text
//! sbuf:4[64,128][1,64] <- in0[0,128][1,64]   =>   replicate: 128 rows read with step 0
//! ```
//!
//! Two bits of the source's lowering have no place here: `evalMask` (a copy under a predicate) because branches are
//! lowered before copies are, and `can_read_uninit` because reading poison is always an error (D15).

use super::shape::CopyShape;
pub use murre_components::bir::DmaFamily;
use murre_components::diag::{Code, codes::lower};

/// A family and its descriptors.
#[derive(Clone, Copy, Debug)]
pub struct FamilyRow {
    /// The family.
    pub family: DmaFamily,
    /// IR number of its descriptor or, of the last, of its instruction (`spec/isa.md 6.8`).
    pub ir: u8,
    /// How a descriptor says it, or why none does.
    pub wire: Result<&'static str, &'static str>,
    /// Where such copies come from.
    pub source: &'static str,
}

/// The table.
pub static FAMILIES: [FamilyRow; 5] = [
    FamilyRow {
        family: DmaFamily::Copy,
        ir: 69,
        wire: Ok("0xD4, different dtypes for a cast"),
        source: "loads, stores, spills and moves between variables",
    },
    FamilyRow {
        family: DmaFamily::Cce,
        ir: 70,
        wire: Err("a descriptor of a block is one 0xD4 without the extension that holds an operator"),
        source: "only scatters accumulate, and their rows have offsets: they are generated (0xD4 and 0xDA)",
    },
    FamilyRow {
        family: DmaFamily::Transpose,
        ir: 71,
        wire: Err("the tile fields of the extension hold 2-byte elements in tiles of 16 by 128 only"),
        source: "a transpose is steps of a plain copy, or an identity product on PE",
    },
    FamilyRow {
        family: DmaFamily::Replicate,
        ir: 72,
        wire: Ok("0xD4 with source step 0"),
        source: "broadcasts along partitions or along an outer dimension",
    },
    FamilyRow {
        family: DmaFamily::ReadVarAddr,
        ir: 41,
        wire: Err(
            "the opcode is disputed, and an address-table entry, filled when the program is loaded, says the same",
        ),
        source: "variables that an offset register addresses have a table entry (D8)",
    },
];

/// The row of a family.
pub fn row(family: DmaFamily) -> &'static FamilyRow {
    match family {
        DmaFamily::Copy => &FAMILIES[0],
        DmaFamily::Cce => &FAMILIES[1],
        DmaFamily::Transpose => &FAMILIES[2],
        DmaFamily::Replicate => &FAMILIES[3],
        DmaFamily::ReadVarAddr => &FAMILIES[4],
    }
}

/// The family of a static copy: what it does to its destination first, then how its source is read.
pub fn family_of(shape: &CopyShape, combine: u8) -> DmaFamily {
    let again = |d: &super::shape::CopyDim| d.num > 1 && d.src.bytes == 0;
    if combine != 0 {
        DmaFamily::Cce
    } else if shape.dims.iter().any(again) {
        DmaFamily::Replicate
    } else {
        DmaFamily::Copy
    }
}

/// A family that descriptors can say, or the code and the reason.
pub fn descriptors_of(family: DmaFamily) -> Result<DmaFamily, (Code, &'static str)> {
    row(family).wire.map(|_| family).map_err(|reason| (&lower::DMA_FAMILY, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::shape::{CopyDim, Step};

    #[test]
    fn each_family_has_its_row_and_two_have_descriptors() {
        for (row_of, ir) in FAMILIES.iter().zip([69, 70, 71, 72, 41]) {
            assert_eq!((row(row_of.family).ir, row_of.ir), (ir, ir));
            assert!(!row_of.source.is_empty());
        }
        let said = |f| descriptors_of(f).map_err(|(code, _)| code.id);
        assert_eq!(said(DmaFamily::Copy), Ok(DmaFamily::Copy));
        assert_eq!(said(DmaFamily::Replicate), Ok(DmaFamily::Replicate));
        for refused in [DmaFamily::Cce, DmaFamily::Transpose, DmaFamily::ReadVarAddr] {
            assert_eq!(said(refused), Err("MUR0471"), "{refused:?}");
        }
    }

    #[test]
    fn a_source_read_again_is_a_replication() {
        let step = |bytes| Step { elems: bytes / 4, bytes, crosses: false };
        let shape = |src: i64, num: u32| CopyShape {
            dims: [CopyDim { num, src: step(src), dst: step(256) }].into_iter().collect(),
            run: 64,
            src_bytes: 4,
            dst_bytes: 4,
        };
        assert_eq!(family_of(&shape(256, 8), 0), DmaFamily::Copy);
        assert_eq!(family_of(&shape(0, 8), 0), DmaFamily::Replicate);
        assert_eq!(family_of(&shape(0, 1), 0), DmaFamily::Copy, "one row is no replication");
        assert_eq!(family_of(&shape(0, 8), 1), DmaFamily::Cce);
    }
}
