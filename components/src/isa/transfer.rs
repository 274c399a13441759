//! A transfer as a whole: the 0xD4 record, the 0xDA behind it, and what they must agree on. In: both, decoded. Out: the
//! first rule that is broken. Facts: `spec/isa.md 4.2..4.4`, `spec/ir.md 9.6`, D7, D9, D17.
//!
//! ```text
//! DmaDirect dge_op=indirect ...                       =>   MUR0832: no extension follows
//! DmaDirect dge_op=indirect ... ; DmaExtension dst_index=sbuf:p1+0x40   =>   MUR0833: indices outside partition 0
//! ```
//!
//! [`check_transfer`] is what the machine asks; [`check_emitted`] is narrower, what the compiler may write.

use super::addr4::{Addr4, Space, space_of};
use super::addr8::Addr8Form;
use super::codes::tag_bytes;
use super::dma::{
    DGE_GATHER_TRANSPOSE, DGE_INDIRECT, DGE_TRANSPOSE, DmaDirect, DmaExtension, INDEX_BOTH,
    INDEX_BOUND_ERROR, INDEX_GATHER, INDEX_MODE, INDEX_SCATTER,
};
use super::field::Fault;
use crate::diag::codes::isa as code;

/// Most indices of one leg (`spec/isa.md 4.4`).
pub const MAX_INDICES: u32 = 4096;
/// The operators that a compiler may ask of a transfer: none, and addition (XCG986).
pub const EMITTED_COMPUTE: u8 = 1;
/// First architecture level whose transfers do no arithmetic.
const NO_COMPUTE_ARCH: u32 = 50;

/// One side of the record: offsets of its fields, and their values.
struct Leg {
    indexed: bool,
    index: Addr4,
    index_at: u8,
    dim: u8,
    form: Addr8Form,
    form_at: u8,
    shape: bool,
    num: [u16; 2],
    num_at: u8,
    row: u32,
    tag: u8,
    bound: super::BoundRegister,
    bound_at: u8,
}

fn legs(d: &DmaDirect, e: &DmaExtension) -> [Leg; 2] {
    let mode = e.flags & INDEX_MODE;
    let on = e.index_channels != 0;
    [
        Leg {
            indexed: on && (mode == INDEX_GATHER || mode == INDEX_BOTH),
            index: e.src_index,
            index_at: 0x04,
            dim: e.flags >> 4 & 3,
            form: d.src.form,
            form_at: 0x10,
            shape: d.src.shape_register,
            num: d.src_num,
            num_at: 0x20,
            row: d.src_row.bytes(),
            tag: d.src_dtype,
            bound: d.src_bound,
            bound_at: 0x26,
        },
        Leg {
            indexed: on && (mode == INDEX_SCATTER || mode == INDEX_BOTH),
            index: e.dst_index,
            index_at: 0x08,
            dim: e.flags >> 6,
            form: d.dst.form,
            form_at: 0x28,
            shape: d.dst.shape_register,
            num: d.dst_num,
            num_at: 0x38,
            row: d.dst_row.bytes(),
            tag: d.dst_dtype,
            bound: d.dst_bound,
            bound_at: 0x27,
        },
    ]
}

impl Leg {
    fn bytes(&self) -> u64 {
        self.num.iter().map(|n| u64::from(*n)).product::<u64>() * u64::from(self.row)
    }

    /// Offset and bound of a wide address are pairs of which the first register is even (D9).
    fn pairs(&self) -> Result<(), Fault> {
        let odd = |at: u8, register: u8| {
            Err(Fault::new(
                &code::ISA_PAIR,
                at,
                i64::from(register),
                "an even register and the one behind it",
            ))
        };
        let wide = match self.form {
            Addr8Form::TableRegister { register, wide: true, .. } if register % 2 != 0 => {
                return odd(self.form_at, register);
            }
            Addr8Form::TableRegister { wide, .. } => wide,
            _ => false,
        };
        match self.bound.register {
            Some(register) if wide && register % 2 != 0 => odd(self.bound_at, register),
            _ => Ok(()),
        }
    }

    /// Where indices stand, how many there are, which dimension they replace and that a bad one is noticed.
    fn indices(&self, flags: u8) -> Result<(), Fault> {
        let fault =
            |at: u8, found: i64, expected| Err(Fault::new(&code::ISA_TRANSFER_INDEX, at, found, expected));
        if !self.indexed {
            return match self.index {
                Addr4::ZERO => Ok(()),
                w => fault(self.index_at, i64::from(w.word()), "no index word on a side without indices"),
            };
        }
        if let Some(a) = self.index.address() {
            let first = matches!(space_of(a), Space::Sbuf { partition: 0, .. });
            if !first || a % 4 != 0 {
                return fault(self.index_at, i64::from(a), "u32 indices in SBUF partition 0, or a register");
            }
        }
        if self.shape {
            return Ok(());
        }
        if u32::from(self.num[0]) > MAX_INDICES {
            return fault(self.num_at, i64::from(self.num[0]), "at most 4096 indices");
        }
        if self.dim != 0 {
            return fault(0x01, i64::from(self.dim), "X as the indexed dimension");
        }
        if flags & INDEX_BOUND_ERROR == 0 && self.bound.quiet {
            let found = i64::from(self.bound.to_byte());
            return Err(Fault::new(
                &code::ISA_BOUND,
                self.bound_at,
                found,
                "the error bit, or notifications",
            ));
        }
        Ok(())
    }
}

/// Whether a 0xD4 and the 0xDA behind it (if one is) make a transfer. Offsets of faults are those of the record that
/// holds the field.
pub fn check_transfer(d: &DmaDirect, extension: Option<&DmaExtension>) -> Result<(), Fault> {
    let pair = |at: u8, found: u8, expected| {
        Err(Fault::new(&code::ISA_TRANSFER_PAIR, at, i64::from(found), expected))
    };
    if d.dge_op != 0 && extension.is_none() {
        return pair(0x0F, d.dge_op, "an extension record right behind it");
    }
    let e = extension.unwrap_or(&DmaExtension::EMPTY);
    let wants_index = matches!(d.dge_op, DGE_INDIRECT | DGE_GATHER_TRANSPOSE);
    if wants_index != (e.index_channels != 0) {
        return pair(0x02, e.index_channels, "128 index channels exactly when the operation is indexed");
    }
    let wants_tile = matches!(d.dge_op, DGE_TRANSPOSE | DGE_GATHER_TRANSPOSE);
    if wants_tile != (e.tile_rows != 0 && e.tile_columns != 0) || (e.tile_rows != 0) != (e.tile_columns != 0)
    {
        return pair(0x18, e.tile_rows, "a tile of 16 by 128 exactly when the operation transposes");
    }
    let legs = legs(d, e);
    for leg in &legs {
        leg.pairs()?;
        leg.indices(e.flags)?;
    }
    let [src, dst] = &legs;
    if src.shape || dst.shape {
        return Ok(());
    }
    let elements = |l: &Leg| tag_bytes(l.tag).map_or(l.bytes(), |n| l.bytes() / u64::from(n.max(1)));
    if elements(src) != elements(dst) {
        let found = i64::try_from(dst.bytes()).unwrap_or(i64::MAX);
        return Err(Fault::new(
            &code::ISA_TRANSFER_BYTES,
            dst.num_at,
            found,
            "as many elements as the source has",
        ));
    }
    Ok(())
}

/// [`check_transfer`], and the operators that the compiler may use on an architecture.
pub fn check_emitted(d: &DmaDirect, extension: Option<&DmaExtension>, arch: u32) -> Result<(), Fault> {
    check_transfer(d, extension)?;
    let most = if arch >= NO_COMPUTE_ARCH { 0 } else { EMITTED_COMPUTE };
    match extension {
        Some(e) if e.compute > most => Err(Fault::new(
            &code::ISA_TRANSFER_COMPUTE,
            0x03,
            i64::from(e.compute),
            "no operator, or addition before generation 5",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Instr, assemble, decode};

    const PLAIN: &str = "DmaDirect src=var3+0x40 src_step=[64] src_num=[4,1] src_row=64 dst=var4+0x0 dst_step=[64] \
                         dst_num=[4,1] dst_row=64 src_dtype=fp32 dst_dtype=fp32";
    const GATHER: &str = "DmaExtension flags=0x4 index_channels=128 src_index=sbuf:p0+0x40";

    fn direct(line: &str) -> DmaDirect {
        match decode(&assemble(line).expect("text")).expect("a record").0 {
            Instr::DmaDirect(d) => d,
            other => panic!("{other:?}"),
        }
    }

    fn extension(line: &str) -> DmaExtension {
        match decode(&assemble(line).expect("text")).expect("a record").0 {
            Instr::DmaExtension(e) => e,
            other => panic!("{other:?}"),
        }
    }

    fn id(r: Result<(), Fault>) -> (&'static str, u8) {
        r.map_or_else(|f| (f.code.id, f.at), |()| ("", 0))
    }

    #[test]
    fn operation_and_extension_ask_for_each_other() {
        let plain = direct(PLAIN);
        assert_eq!(id(check_transfer(&plain, None)), ("", 0));
        for op in 1..=3 {
            assert_eq!(
                id(check_transfer(&DmaDirect { dge_op: op, ..plain }, None)),
                ("MUR0832", 0x0F),
                "{op}"
            );
        }
        let gather = extension(GATHER);
        let indexed = DmaDirect { dge_op: DGE_INDIRECT, ..plain };
        assert_eq!(id(check_transfer(&indexed, Some(&gather))), ("", 0));
        assert_eq!(id(check_transfer(&plain, Some(&gather))), ("MUR0832", 0x02), "indices of a plain copy");
        assert_eq!(id(check_transfer(&indexed, Some(&DmaExtension::EMPTY))), ("MUR0832", 0x02));
        let tiles = DmaExtension { tile_rows: 16, tile_columns: 128, ..DmaExtension::EMPTY };
        assert_eq!(id(check_transfer(&plain, Some(&tiles))), ("MUR0832", 0x18), "a tile of a plain copy");
        let transpose = DmaDirect { dge_op: DGE_TRANSPOSE, ..plain };
        assert_eq!(id(check_transfer(&transpose, Some(&DmaExtension::EMPTY))), ("MUR0832", 0x18));
        let half = DmaExtension { tile_columns: 0, ..tiles };
        assert_eq!(id(check_transfer(&transpose, Some(&half))), ("MUR0832", 0x18));
        assert_eq!(id(check_transfer(&transpose, Some(&tiles))), ("", 0));
    }

    #[test]
    fn index_words_stand_in_partition_zero() {
        let indexed = DmaDirect { dge_op: DGE_INDIRECT, ..direct(PLAIN) };
        let gather = extension(GATHER);
        let with = |w: Addr4| DmaExtension { src_index: w, ..gather };
        let word = |w| Addr4::from_word(w).expect("a word");
        for (w, want) in [
            (0x0000_0044, ("", 0)),
            (0x8000_0005, ("", 0)),
            (0x0000_0042, ("MUR0833", 0x04)),
            (0x0004_0040, ("MUR0833", 0x04)),
            (0x0200_0000, ("MUR0833", 0x04)),
        ] {
            assert_eq!(id(check_transfer(&indexed, Some(&with(word(w))))), want, "{w:#010x}");
        }
        let both = DmaExtension { dst_index: word(0x40), ..gather };
        assert_eq!(id(check_transfer(&indexed, Some(&both))), ("MUR0833", 0x08), "a word on the other side");
        let outer = DmaExtension { flags: gather.flags | 0x10, ..gather };
        assert_eq!(id(check_transfer(&indexed, Some(&outer))), ("MUR0833", 0x01), "Y is indexed");
        let long = DmaDirect { src_num: [4097, 1], dst_num: [4097, 1], ..indexed };
        assert_eq!(id(check_transfer(&long, Some(&gather))), ("MUR0833", 0x20));
        // A shape register waives the limit, the dimension and the counts.
        let src = indexed.src.with_shape_register();
        let shaped = DmaDirect { src, src_num: [0, 0], src_step: [64, 0], ..indexed };
        assert_eq!(id(check_transfer(&shaped, Some(&outer))), ("", 0));
    }

    #[test]
    fn out_of_bounds_indices_are_noticed() {
        let bound = |quiet| super::super::BoundRegister::checked(8, quiet).expect("a register");
        let quiet = DmaDirect { dge_op: DGE_INDIRECT, src_bound: bound(true), ..direct(PLAIN) };
        let gather = extension(GATHER);
        let silent = DmaExtension { flags: 0, ..gather };
        assert_eq!(id(check_transfer(&quiet, Some(&gather))), ("", 0), "the error bit");
        assert_eq!(id(check_transfer(&quiet, Some(&silent))), ("MUR0817", 0x26));
        assert_eq!(
            id(check_transfer(&DmaDirect { src_bound: bound(false), ..quiet }, Some(&silent))),
            ("", 0)
        );
    }

    #[test]
    fn wide_offsets_are_even_pairs() {
        let wide = |register| super::super::Addr8::table_register(2, register, true).expect("a pair");
        let bound = |id| super::super::BoundRegister::checked(id, false).expect("a register");
        let d = direct(PLAIN);
        assert_eq!(id(check_transfer(&DmaDirect { src: wide(6), src_bound: bound(8), ..d }, None)), ("", 0));
        assert_eq!(id(check_transfer(&DmaDirect { src: wide(7), ..d }, None)), ("MUR0836", 0x10));
        assert_eq!(id(check_transfer(&DmaDirect { dst: wide(7), ..d }, None)), ("MUR0836", 0x28));
        assert_eq!(
            id(check_transfer(&DmaDirect { dst: wide(6), dst_bound: bound(9), ..d }, None)),
            ("MUR0836", 0x27)
        );
        let narrow = super::super::Addr8::table_register(2, 7, false).expect("a register");
        assert_eq!(id(check_transfer(&DmaDirect { src: narrow, src_bound: bound(9), ..d }, None)), ("", 0));
    }

    #[test]
    fn both_sides_move_the_same_elements() {
        let d = direct(PLAIN);
        assert_eq!(id(check_transfer(&DmaDirect { dst_num: [3, 1], ..d }, None)), ("MUR0834", 0x38));
        assert_eq!(id(check_transfer(&DmaDirect { dst_num: [2, 2], ..d }, None)), ("", 0));
        let half = super::super::RowBytes::new(32).expect("bytes");
        let cast = DmaDirect { dst_dtype: 6, dst_row: half, ..d };
        assert_eq!(id(check_transfer(&cast, None)), ("", 0), "a cast keeps elements, not bytes");
        assert_eq!(id(check_transfer(&DmaDirect { dst_row: half, ..d }, None)), ("MUR0834", 0x38));
    }

    #[test]
    fn emitted_transfers_add_at_most() {
        let d = direct(PLAIN);
        for (compute, arch, want) in [
            (0, 50, ("", 0)),
            (1, 20, ("", 0)),
            (1, 40, ("", 0)),
            (1, 50, ("MUR0835", 0x03)),
            (2, 30, ("MUR0835", 0x03)),
            (4, 40, ("MUR0835", 0x03)),
        ] {
            let e = DmaExtension { compute, ..DmaExtension::EMPTY };
            assert_eq!(id(check_emitted(&d, Some(&e), arch)), want, "operator {compute} on {arch}");
        }
    }
}
