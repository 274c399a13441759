//! Layouts of sequencer instructions: registers, branches, semaphores, calls. Facts: `spec/isa.md 5`,
//! `spec/decisions.md D10`.

use super::alu::NAMES as ALU;
use super::codes::*;
use super::event::{UPDATE_NAMES, WAIT_NAMES};
use super::field::{Fault, Kind, Name, Place, Wire, at, layout};
use crate::program::Record;

/// A branch target: the index of a record in the engine's own stream (D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct BranchTarget(pub u64);

/// The eight bytes of a branch target.
#[inline]
pub fn encode_branch_target(target: BranchTarget) -> [u8; 8] {
    target.0.to_le_bytes()
}

/// The branch target of eight bytes.
#[inline]
pub fn decode_branch_target(bytes: [u8; 8]) -> BranchTarget {
    BranchTarget(u64::from_le_bytes(bytes))
}

impl Wire for BranchTarget {
    const BYTES: u8 = 8;
    fn put(&self, r: &mut Record, p: Place) {
        super::field::store(r, p.at, &encode_branch_target(*self));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Ok(decode_branch_target(super::field::bytes_at(r, p.at)))
    }
}

layout! {
    /// Waits for up to two semaphores and updates one. Its first wait is the record's inline wait; the update has
    /// a lane of its own, so the inline update stays empty.
    EventSemaphore = 0xA0 {
        wait1_mode: u8 = at(0x20), Kind::Names(WAIT_NAMES);
        wait1_id: u8 = at(0x21), Kind::Uint;
        update_mode: u8 = at(0x22), Kind::Names(UPDATE_NAMES);
        update_id: u8 = at(0x23), Kind::Uint;
        wait1_value: u32 = at(0x24), Kind::Uint;
        update_value: u32 = at(0x28), Kind::Uint;
    }
}

layout! {
    /// Instructions that are only their opcode and events.
    Bare: BareOp { Halt = 0xA1, NoOp = 0xA4, Return = 0xD2, AllEngineBarrier = 0xD5 } {}
}

layout! {
    /// Waits until the engine is empty.
    Drain = 0xA2 {
        count: u8 = at(0x28), Kind::Uint;
    }
}

layout! {
    /// Copies registers or immediates into registers; unused entries are 0.
    RegisterMove = 0xA7 {
        /// 1..8.
        count: u8 = at(0x0C), Kind::Uint;
        dtype: u8 = at(0x0D), Kind::Dtype;
        source: u8 = at(0x0E), Kind::Names(SOURCE);
        src: [u8; 8] = at(0x10), Kind::Bytes;
        dst: [u8; 8] = at(0x18), Kind::Bytes;
        imm: [u32; 8] = at(0x20), Kind::Words;
    }
}

layout! {
    /// Register arithmetic: `dst = src0 op (src1 or imm)`.
    RegisterAlu = 0xA8 {
        op: u8 = at(0x0C), Kind::Names(ALU);
        dtype: u8 = at(0x0D), Kind::Dtype;
        source: u8 = at(0x0E), Kind::Names(SOURCE);
        dst_dtype: u8 = at(0x0F), Kind::Dtype;
        src0: u8 = at(0x10), Kind::Register;
        src0_high: u8 = at(0x11), Kind::Register;
        src1: u8 = at(0x12), Kind::Register;
        src1_high: u8 = at(0x13), Kind::Register;
        dst: u8 = at(0x14), Kind::Register;
        dst_high: u8 = at(0x15), Kind::Register;
        imm: u64 = at(0x18), Kind::Hex;
    }
}

layout! {
    /// Goes on at `target` when the comparison holds, else at the next record.
    Branch = 0xA9 {
        compare: u8 = at(0x0C), Kind::Names(BRANCH);
        dtype: u8 = at(0x0D), Kind::Dtype;
        imm: u32 = at(0x10), Kind::Hex;
        left: u8 = at(0x20), Kind::Register;
        right: u8 = at(0x21), Kind::Register;
        target: BranchTarget = at(0x30), Kind::Target;
    } fixed { 0x0E = 3 }
}

layout! {
    /// Tells the fetch unit where a later branch will go.
    BranchHint = 0xDD {
        target: BranchTarget = at(0x30), Kind::Target;
    }
}

layout! {
    /// Zeroes semaphores `first..=last`, or those of a mask.
    GroupResetSemaphores = 0xB0 {
        kind: u8 = at(0x0C), Kind::Names(RESET_KIND);
        first: u8 = at(0x0D), Kind::Uint;
        last: u8 = at(0x0E), Kind::Uint;
        mask: [u32; 8] = at(0x20), Kind::Words;
    }
}

layout! {
    /// Meets the other cores (generation 3 on).
    CoreBarrier = 0xD8 {
        id: u32 = at(0x0C), Kind::Uint;
        index: u32 = at(0x10), Kind::Uint;
    }
}

layout! {
    /// Calls a function by name.
    Call = 0xD3 {
        name: Name<36> = at(0x0C), Kind::Name;
        arguments: u32 = at(0x30), Kind::Uint;
    }
}

layout! {
    /// Ends the stream.
    Exit = 0xDF {} fixed { 0x0C = 1 }
}

layout! {
    /// TensorLoad and TensorSave between a DRAM variable and registers.
    VariableAccess: VariableAccessOp { TensorLoad = 0xCE, TensorSave = 0xCD } {
        dtype: u8 = at(0x0C), Kind::Dtype;
        num: [u8; 2] = at(0x0E), Kind::Bytes;
        variable: u32 = at(0x10), Kind::Uint;
        offset: u32 = at(0x14), Kind::Uint;
        step: [i32; 2] = at(0x18), Kind::Steps32;
        data: u8 = at(0x20), Kind::Register;
        data_high: u8 = at(0x21), Kind::Register;
    }
}

layout! {
    /// TensorLoad and TensorSave at an address held in registers.
    RegisterAccess: RegisterAccessOp { TensorLoadRegister = 0xAA, TensorSaveRegister = 0xAB } {
        dtype: u8 = at(0x0C), Kind::Dtype;
        num: [u8; 2] = at(0x0E), Kind::Bytes;
        address: u8 = at(0x10), Kind::Register;
        address_high: u8 = at(0x11), Kind::Register;
        step: [i32; 2] = at(0x18), Kind::Steps32;
        data: u8 = at(0x20), Kind::Register;
        data_high: u8 = at(0x21), Kind::Register;
    } fixed { 0x17 = 0x80 }
}
