//! What an operand of a record may be on one generation and one engine: the second half of validity, which a layout
//! alone cannot decide. In: a decoded record's bytes, its target, whether it runs on Pool. Out: the first operand that
//! breaks a rule. Facts: `spec/isa.md 1.4..1.6, 3.5, 7`, `spec/isa_compute.md 2.6, 12.3` (column PSUM).
//!
//! ```text
//! Copy src=u16@sbuf:p1+0x800[index sbuf:p32+0x20; 96]   =>   MUR0826 +0C: index and data in two quadrants
//! ```
//!
//! The order of tests is that of 1.4; a gather's index word is looked at with the tag of u32 whatever its element type.

use super::addr4::{Addr4, INDIRECT, SHAPE_REGISTER, Space, address_active, space_of, start_address_valid};
use super::field::{Fault, Kind, Role, bytes_at};
use super::record::shape_of;
use crate::diag::codes::isa as code;
use crate::engine::Target;
use crate::program::Record;

/// Wire tag of u32, with which index words are checked.
const U32: u8 = 9;
/// Wire tag of fp32, which tag 0 stands for in a matmul's output.
const FP32: u8 = 10;

/// Where an operand may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    sbuf: bool,
    psum: bool,
}

/// `spec/isa_compute.md 12.3`, column PSUM: PE reads SBUF and writes PSUM, Pool and everything that runs only there
/// sees SBUF.
fn reach(opcode: u8, role: Role, on_pool: bool) -> Reach {
    let psum = match (opcode, role) {
        (0x02, Role::Destination) => return Reach { sbuf: false, psum: true },
        (0x01 | 0x02, _) => false,
        (0x74 | 0x7E | 0x92 | 0x7C | 0x7D | 0x67 | 0x68 | 0x77 | 0x78, _) => false,
        _ => !on_pool,
    };
    Reach { sbuf: true, psum }
}

/// Whether both words may belong to one gather: data in PSUM always may; in SBUF both start in the first partition of
/// one quadrant. Two readings exist, the whole quadrant and its first partition (`spec/isa.md 9` no. 7): only what
/// satisfies both passes.
pub fn same_quadrant(index: u32, data: u32) -> bool {
    let start = |address: u32| match space_of(address) {
        Space::Sbuf { partition, .. } if partition % 32 == 0 => Some(partition),
        _ => None,
    };
    match space_of(data) {
        Space::Psum { .. } => true,
        _ => start(data).is_some_and(|p| start(index) == Some(p)),
    }
}

fn word(r: &Record, at: u8) -> u32 {
    u32::from_le_bytes(bytes_at(r, at))
}

/// Start address and, where it is static, existence of its bytes.
fn start(r: &Record, at: u8, tag: u8, role: Role, reach: Reach, target: Target) -> Result<(), Fault> {
    let w = word(r, at);
    start_address_valid(w, tag, role == Role::Destination, reach.psum, reach.sbuf, target.arch())
        .map_err(|f| f.shifted(at))?;
    match Addr4::from_word(w).map_err(|f| f.shifted(at))?.address() {
        Some(a) if !address_active(a, target) => Err(Fault::new(
            &code::ISA_INACTIVE,
            at,
            i64::from(a),
            "an address below the active bytes of its partition",
        )),
        _ => Ok(()),
    }
}

/// Checks every tensor operand of a record that decodes.
pub fn check_operands(r: &Record, on_pool: bool, target: Target) -> Result<(), Fault> {
    let Some(shape) = shape_of(r[0]) else { return Ok(()) };
    for f in shape.fields {
        let Kind::Tensor(dtype, role) = f.kind else { continue };
        let (at, reach) = (f.place.at, reach(r[0], role, on_pool));
        let tag = match <u8 as super::field::Wire>::get(r, dtype)? {
            0 => FP32,
            tag => tag,
        };
        if word(r, at) & (INDIRECT | SHAPE_REGISTER) != INDIRECT {
            start(r, at, tag, role, reach, target)?;
            continue;
        }
        // The gather arm: indices may stand in SBUF or PSUM whatever the operand's own reach (9, no. 4).
        start(r, at, U32, Role::Source, Reach { sbuf: true, psum: reach.psum }, target)?;
        start(r, at + 4, tag, role, reach, target)?;
        let (index, data) = (word(r, at) & super::addr4::ADDRESS_MASK, word(r, at + 4));
        if !same_quadrant(index, data) {
            return Err(Fault::new(
                &code::ISA_QUADRANT,
                at,
                i64::from(index),
                "index and data in the first partition of one quadrant, or data in PSUM",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{assemble, decode};

    /// Code and byte of the fault of a line of text.
    fn fault(line: &str, on_pool: bool, target: Target) -> Option<(&'static str, u8)> {
        let r = assemble(line).unwrap_or_else(|d| panic!("{line}: {d:?}"));
        assert!(decode(&r).is_ok(), "{line}");
        check_operands(&r, on_pool, target).err().map(|f| (f.code.id, f.at))
    }

    #[test]
    fn operands_reach_what_their_engine_reaches() {
        let copy = "Copy src=fp32@psum:p0 b3+0x10[1,10] channels=16 dst=fp32@sbuf:p0+0x10[1,10]";
        assert_eq!(fault(copy, false, Target::Trn2), None);
        assert_eq!(fault(copy, true, Target::Trn2), Some(("MUR0808", 0x0C)), "Pool has no path to PSUM");
        let gather =
            "Gather index=u16@psum:p0 b0+0x0[1,64] channels=128 miss=skip dst=fp32@sbuf:p0+0x400[1,64]";
        assert_eq!(fault(gather, true, Target::Trn2), Some(("MUR0808", 0x0C)));
        let store = "Cast src=fp32@sbuf:p0+0x0[1,8] channels=16 dst=bf16@psum:p0 b0+0x0[1,8]";
        assert_eq!(fault(store, false, Target::Trn2), Some(("MUR0808", 0x2C)), "2-byte elements into PSUM");
        let product = "MultiplyMoving moving=bf16@sbuf:p0+0x400[1,8] rows=8 columns=8 psum=single row_group=0xf \
                       column_group=0xf dst=none@sbuf:p0+0x0[1,8]";
        assert_eq!(fault(product, false, Target::Trn2), Some(("MUR0808", 0x30)), "a product into SBUF");
        assert_eq!(
            fault(&product.replace("dst=none@sbuf:p0", "dst=none@psum:p0 b0"), false, Target::Trn2),
            None
        );
        let moving = product
            .replace("bf16@sbuf:p0+0x400", "bf16@psum:p0 b0+0x400")
            .replace("dst=none@sbuf:p0", "dst=none@psum:p0 b1");
        assert_eq!(fault(&moving, false, Target::Trn2), Some(("MUR0808", 0x10)), "PE reads SBUF");
    }

    #[test]
    fn generations_differ() {
        let last = "Copy src=fp32@sbuf:p0+0x37ffc[1,1] channels=16 dst=fp32@sbuf:p0+0x10[1,1]";
        assert_eq!(fault(last, false, Target::Trn1), Some(("MUR0831", 0x0C)), "padding of generation 2");
        assert_eq!(fault(last, false, Target::Trn2), None);
        // A register word with its counts in a register: generation 2 wants bits 8..30 clear.
        let line = "Copy src=fp32@sbuf:p0+0x0[1,1] channels=16 dst=fp32@$r5[1,1]";
        let mut r = assemble(line).expect("text");
        r[0x2F] |= 0x40;
        assert!(check_operands(&r, false, Target::Trn2).is_ok());
        assert_eq!(check_operands(&r, false, Target::Trn1).unwrap_err().code.id, "MUR0807");
    }

    #[test]
    fn starts_are_aligned_to_their_dtype() {
        for (dtype, wrong) in [("bf16", 1), ("fp32", 2), ("u64", 4)] {
            let line = |off: u32| {
                format!("Copy src={dtype}@sbuf:p0+{off:#x}[1,4] channels=16 dst={dtype}@sbuf:p0+0x40[1,4]")
            };
            assert_eq!(fault(&line(wrong), false, Target::Trn2), Some(("MUR0809", 0x0C)), "{dtype}");
            assert_eq!(fault(&line(8), false, Target::Trn2), None, "{dtype}");
        }
        assert_eq!(
            fault("Copy src=u8@sbuf:p0+0x1[1,4] channels=16 dst=u8@sbuf:p0+0x43[1,4]", false, Target::Trn2),
            None
        );
    }

    #[test]
    fn gathers_stay_in_their_quadrant() {
        let line = |data: &str, index: &str| {
            format!("Copy src=u16@{data}[index {index}; 96] channels=16 dst=u16@sbuf:p0+0x40[1,96]")
        };
        let cases = [
            ("sbuf:p0+0x800", "sbuf:p0+0x20", None),
            ("sbuf:p96+0x800", "sbuf:p96+0x20", None),
            ("psum:p5 b0+0x0", "sbuf:p1+0x20", None),
            ("sbuf:p0+0x800", "sbuf:p32+0x20", Some(("MUR0826", 0x0C))),
            ("sbuf:p1+0x800", "sbuf:p1+0x20", Some(("MUR0826", 0x0C))),
            ("sbuf:p0+0x800", "sbuf:p1+0x20", Some(("MUR0826", 0x0C))),
            ("sbuf:p0+0x800", "sbuf:p0+0x22", Some(("MUR0809", 0x0C))),
            ("sbuf:p0+0x801", "sbuf:p0+0x20", Some(("MUR0809", 0x10))),
        ];
        for (data, index, want) in cases {
            assert_eq!(fault(&line(data, index), false, Target::Trn2), want, "{data} by {index}");
        }
        assert!(same_quadrant(64 << 18 | 64, 64 << 18));
    }
}
