//! Layouts of DMA records: the direct 2-D record, its extension, and the queue instructions. Facts: `spec/isa.md 4.3,
//! 4.4, 4.7`, `spec/decisions.md D6, D7, D17`.

use super::addr4::Addr4;
use super::addr8::{Addr8, BoundRegister};
use super::codes::*;
use super::field::{Fault, Kind, Name, Place, Wire, at, layout};
use crate::program::Record;

/// Bytes of a descriptor's contiguous row, 1..65536; the wire writes 65536 as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowBytes(u32);

impl RowBytes {
    /// A row of `bytes`.
    pub fn new(bytes: u32) -> Result<RowBytes, Fault> {
        if bytes == 0 || bytes > 65_536 {
            return Err(Fault::new(&crate::diag::codes::isa::ISA_COUNT, 0, bytes as i64, "1..65536 bytes"));
        }
        Ok(RowBytes(bytes))
    }

    /// The bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

impl Wire for RowBytes {
    const BYTES: u8 = 2;
    fn put(&self, r: &mut Record, p: Place) {
        (self.0 as u16).put(r, p);
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Ok(RowBytes(match u16::get(r, p)? {
            0 => 65_536,
            n => n as u32,
        }))
    }
}

layout! {
    /// 0xD4: moves `num[1] * num[0]` rows of `row` bytes; steps are in bytes. Dynamic when an address is in a register
    /// form or when an extension follows.
    DmaDirect = 0xD4 {
        priority: u8 = at(0x0C), Kind::Uint;
        semaphore: u8 = at(0x0D), Kind::Uint;
        increment: u8 = at(0x0E), Kind::Uint;
        dge_op: u8 = at(0x0F), Kind::Names(DGE_OP);
        src: Addr8 = at(0x10), Kind::Addr8;
        src_step: [i32; 2] = at(0x18), Kind::Steps32;
        src_num: [u16; 2] = at(0x20), Kind::Counts;
        src_row: RowBytes = at(0x24), Kind::RowBytes;
        src_bound: BoundRegister = at(0x26), Kind::Bound;
        dst_bound: BoundRegister = at(0x27), Kind::Bound;
        dst: Addr8 = at(0x28), Kind::Addr8;
        dst_step: [i32; 2] = at(0x30), Kind::Steps32;
        dst_num: [u16; 2] = at(0x38), Kind::Counts;
        dst_row: RowBytes = at(0x3C), Kind::RowBytes;
        src_dtype: u8 = at(0x3E), Kind::Dtype;
        dst_dtype: u8 = at(0x3F), Kind::Dtype;
    }
}

/// `dge_op`: rows where an index vector says.
pub const DGE_INDIRECT: u8 = 1;
/// `dge_op`: tiles are turned.
pub const DGE_TRANSPOSE: u8 = 2;
/// `dge_op`: indexed rows are turned.
pub const DGE_GATHER_TRANSPOSE: u8 = 3;

/// Flags of a 0xDA record: mode in bits 0..1.
pub const INDEX_MODE: u8 = 0x03;
/// Index mode: the source is indexed.
pub const INDEX_GATHER: u8 = 0;
/// Index mode: the destination is indexed.
pub const INDEX_SCATTER: u8 = 1;
/// Index mode: both are.
pub const INDEX_BOTH: u8 = 2;
/// An index out of bounds is an error.
pub const INDEX_BOUND_ERROR: u8 = 0x04;
/// Destination indices may repeat.
pub const INDEX_NOT_UNIQUE: u8 = 0x08;

layout! {
    /// 0xDA: extends the 0xD4 right before it; has neither header nor events.
    DmaExtension = 0xDA {
        /// Mode, error and uniqueness bits, gather dim (bits 4..5) and scatter dim (6..7), X = 0.
        flags: u8 = at(0x01), Kind::Hex;
        index_channels: u8 = at(0x02), Kind::Uint;
        compute: u8 = at(0x03), Kind::Names(DMA_COMPUTE);
        src_index: Addr4 = at(0x04), Kind::Word;
        dst_index: Addr4 = at(0x08), Kind::Word;
        src_bound_low: u32 = at(0x0C), Kind::Uint;
        dst_bound_low: u32 = at(0x10), Kind::Uint;
        tile_step: i32 = at(0x14), Kind::Int;
        tile_rows: u8 = at(0x18), Kind::Uint;
        tile_columns: u8 = at(0x19), Kind::Uint;
        src_bound_high: u32 = at(0x38), Kind::Uint;
        dst_bound_high: u32 = at(0x3C), Kind::Uint;
    }
}

impl DmaExtension {
    /// An extension that asks for nothing.
    pub const EMPTY: DmaExtension = DmaExtension {
        flags: 0,
        index_channels: 0,
        compute: 0,
        src_index: Addr4::ZERO,
        dst_index: Addr4::ZERO,
        src_bound_low: 0,
        dst_bound_low: 0,
        tile_step: 0,
        tile_rows: 0,
        tile_columns: 0,
        src_bound_high: 0,
        dst_bound_high: 0,
    };

    /// The flags byte; dims in wire numbering, X = 0.
    pub const fn flags_of(mode: u8, bound_error: bool, repeats: bool, gather_dim: u8, scatter_dim: u8) -> u8 {
        (mode & 3)
            | if bound_error { INDEX_BOUND_ERROR } else { 0 }
            | if repeats { INDEX_NOT_UNIQUE } else { 0 }
            | (gather_dim & 3) << 4
            | (scatter_dim & 3) << 6
    }

    /// Bytes that the source's indexed region spans.
    pub const fn src_bound(&self) -> u64 {
        self.src_bound_low as u64 | (self.src_bound_high as u64) << 32
    }

    /// Bytes that the destination's indexed region spans.
    pub const fn dst_bound(&self) -> u64 {
        self.dst_bound_low as u64 | (self.dst_bound_high as u64) << 32
    }
}

layout! {
    /// 0xC1: fires a DMA block on a queue.
    DmaTrigger = 0xC1 {
        queue: Name<32> = at(0x0C), Kind::Name;
        block: u32 = at(0x30), Kind::Uint;
    }
}

layout! {
    /// 0xCF: goes on with another instance of a queue.
    SwitchQueue = 0xCF {
        queue: Name<32> = at(0x0C), Kind::Name;
        no_rearm: u8 = at(0x3B), Kind::Uint;
    } fixed { 0x3C = 1 }
}

layout! {
    /// 0xC2: rearms a queue.
    ResetQueue = 0xC2 {
        queue: Name<32> = at(0x0C), Kind::Name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_row_is_written_as_zero() {
        let mut r = [0u8; 64];
        RowBytes::new(65_536).unwrap().put(&mut r, at(0x24));
        assert_eq!((r[0x24], r[0x25]), (0, 0));
        assert_eq!(RowBytes::get(&r, at(0x24)), RowBytes::new(65_536));
        assert_eq!(RowBytes::new(0).unwrap_err().code.id, "MUR0811");
        assert_eq!(RowBytes::new(65_537).unwrap_err().code.id, "MUR0811");
    }
}
