//! Sequencer and DMA records of the naive decoder. In: a reader at one record. Out: its fields. Facts: `spec/isa.md 4, 5`.

use super::{Reader, Step};

impl Reader<'_> {
    /// Sequencer and DMA records.
    pub(super) fn control(&mut self, opcode: u8) -> Step {
        match opcode {
            0xA0 => {
                self.bytes(&[
                    ("wait1_mode", 0x20),
                    ("wait1_id", 0x21),
                    ("update_mode", 0x22),
                    ("update_id", 0x23),
                ]);
                self.u("wait1_value", 0x24, 4);
                self.u("update_value", 0x28, 4);
            }
            0xA1 | 0xA4 | 0xD2 | 0xD5 => {}
            0xA2 => self.u("count", 0x28, 1),
            0xA7 => {
                self.bytes(&[("count", 0x0C), ("dtype", 0x0D), ("source", 0x0E)]);
                self.array("src", 0x10, 8, 1, false);
                self.array("dst", 0x18, 8, 1, false);
                self.array("imm", 0x20, 8, 4, false);
            }
            0xA8 => {
                self.bytes(&[("op", 0x0C), ("dtype", 0x0D), ("source", 0x0E), ("dst_dtype", 0x0F)]);
                self.bytes(&[("src0", 0x10), ("src0_high", 0x11), ("src1", 0x12), ("src1_high", 0x13)]);
                self.bytes(&[("dst", 0x14), ("dst_high", 0x15)]);
                self.u("imm", 0x18, 8);
            }
            0xA9 => {
                self.fixed(0x0E, 3)?;
                self.bytes(&[("compare", 0x0C), ("dtype", 0x0D), ("left", 0x20), ("right", 0x21)]);
                self.u("imm", 0x10, 4);
                self.u("target", 0x30, 8);
            }
            0xDD => self.u("target", 0x30, 8),
            0xB0 => {
                self.bytes(&[("kind", 0x0C), ("first", 0x0D), ("last", 0x0E)]);
                self.array("mask", 0x20, 8, 4, false);
            }
            0xD8 => {
                self.u("id", 0x0C, 4);
                self.u("index", 0x10, 4);
            }
            0xD3 => {
                self.name("name", 0x0C, 36)?;
                self.u("arguments", 0x30, 4);
            }
            0xDF => self.fixed(0x0C, 1)?,
            0xCE | 0xCD => {
                self.bytes(&[
                    ("dtype", 0x0C),
                    ("num.0", 0x0E),
                    ("num.1", 0x0F),
                    ("data", 0x20),
                    ("data_high", 0x21),
                ]);
                self.u("variable", 0x10, 4);
                self.u("offset", 0x14, 4);
                self.array("step", 0x18, 2, 4, true);
            }
            0xAA | 0xAB => {
                self.fixed(0x17, 0x80)?;
                self.bytes(&[
                    ("dtype", 0x0C),
                    ("num.0", 0x0E),
                    ("num.1", 0x0F),
                    ("data", 0x20),
                    ("data_high", 0x21),
                ]);
                self.bytes(&[("address", 0x10), ("address_high", 0x11)]);
                self.array("step", 0x18, 2, 4, true);
            }
            0xD4 => {
                self.bytes(&[("priority", 0x0C), ("semaphore", 0x0D), ("increment", 0x0E), ("dge_op", 0x0F)]);
                for (side, at) in [("src", 0x10), ("dst", 0x28)] {
                    self.addr8(side, at)?;
                    self.array(&format!("{side}_step"), at + 8, 2, 4, true);
                    self.array(&format!("{side}_num"), at + 16, 2, 2, false);
                    let row = self.number(at + 20, 2);
                    self.set(&format!("{side}_row"), if row == 0 { 0x10000 } else { row as i64 });
                }
                self.bound("src_bound", 0x26)?;
                self.bound("dst_bound", 0x27)?;
                self.bytes(&[("src_dtype", 0x3E), ("dst_dtype", 0x3F)]);
            }
            0xDA => {
                self.bytes(&[("flags", 0x01), ("index_channels", 0x02), ("compute", 0x03)]);
                self.addr4("src_index", 0x04)?;
                self.addr4("dst_index", 0x08)?;
                self.u("src_bound_low", 0x0C, 4);
                self.u("dst_bound_low", 0x10, 4);
                self.i32("tile_step", 0x14);
                self.bytes(&[("tile_rows", 0x18), ("tile_columns", 0x19)]);
                self.u("src_bound_high", 0x38, 4);
                self.u("dst_bound_high", 0x3C, 4);
            }
            0xC1 => {
                self.name("queue", 0x0C, 32)?;
                self.u("block", 0x30, 4);
            }
            0xCF => {
                self.name("queue", 0x0C, 32)?;
                self.u("no_rearm", 0x3B, 1);
                let one = self.number(0x3C, 4);
                if one != 1 {
                    return Err(format!("+3C: {one}, wants 1"));
                }
            }
            0xC2 => self.name("queue", 0x0C, 32)?,
            other => return Err(format!("opcode {other:#04x} is not in the profile")),
        }
        Ok(())
    }
}
