//! Words and records of the instruction set. In: typed values. Out: 32-bit address words, 64-byte records, and their
//! text; and all of it back. Facts: `spec/isa.md`, `spec/isa_compute.md`, `spec/decisions.md D6..D10`.
//!
//! A record is read through [`decode`] into an [`Instr`], one struct per layout, and written through [`encode`].
//! Structs hold wire values: dtypes are wire tags, operators wire bytes. Bits that mean different things in different
//! modes are enums ([`Imm`], [`Addr8Form`], [`Operand`]), so a mode cannot be mistaken.

pub mod act;
pub mod addr4;
pub mod addr8;
pub mod alu;
pub mod check;
pub mod codes;
pub mod compute;
pub mod control;
pub mod dma;
pub mod elementwise;
pub mod event;
pub mod explain;
pub mod field;
pub mod mx;
pub mod names;
pub mod operands;
pub mod parse;
pub mod print;
pub mod record;
pub mod rules;
pub mod tensor;
pub mod transfer;

pub use act::ActFunc;
pub use addr4::{
    Addr4, AddrMode, Space, addr4_mx_scale, addr4_psum, addr4_register, addr4_sbuf, start_address_valid,
};
pub use addr8::{Addr8, Addr8Form, BoundRegister};
pub use alu::{AluOp, IntOp};
pub use codes::CmpOp;
pub use compute::*;
pub use control::*;
pub use dma::*;
pub use elementwise::*;
pub use event::Events;
pub use explain::{WordExplanation, explain_word};
pub use field::{Bias, F32Bits, Fault, Imm, Name};
pub use mx::{MxGather, MxLeg, MxTensor};
pub use operands::check_operands;
pub use parse::assemble;
pub use print::disassemble;
pub use record::{Encode, Instr, decode, decode_record, encode};
pub use tensor::{Gather, Operand, Pair, Tensor};
pub use transfer::{check_emitted, check_transfer};
