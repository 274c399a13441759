//! Inserting before instructions: one linear walk over the program that copies the order and lets a pass put new
//! instructions in front of each one.

use crate::staging::{Operand, Staging};
use murre_components::bir::*;
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// New instructions and the order that holds them.
pub struct Walk {
    /// New rows.
    pub staging: Staging,
    /// The new program order.
    pub order: Vec<InstId>,
}

impl Walk {
    /// A walk over a program of `instructions`.
    pub fn new(staging: Staging, instructions: usize) -> Self {
        Walk { staging, order: Vec::with_capacity(instructions + instructions / 4) }
    }

    /// A register on an engine.
    pub fn reg(
        &mut self,
        engine: EngineId,
        role: RegRole,
        from: InstFrom,
        inst: InstId,
        loc: LocId,
    ) -> RegId {
        self.reg_of(engine, role, 1, from, inst, loc)
    }

    /// A register of one or two lanes on an engine.
    pub fn reg_of(
        &mut self,
        engine: EngineId,
        role: RegRole,
        width: u8,
        from: InstFrom,
        inst: InstId,
        loc: LocId,
    ) -> RegId {
        let mut row = RegRow::new(engine, role, from.hlo);
        row.head.width = width;
        (row.from.inst, row.from.loc) = (inst, loc);
        self.staging.reg(row)
    }

    /// Appends an instruction, expanded for `owner`.
    pub fn push(&mut self, mut row: InstRow, owner: InstId) -> InstId {
        row.from.owner = owner;
        let id = self.staging.inst(row, &[], &[]);
        self.order.push(id);
        id
    }

    /// `dst = imm` (`reg_mov`).
    pub fn move_imm(&mut self, engine: EngineId, hlo: HloId, owner: InstId, dst: RegId, imm: i64) {
        let mut row = InstRow::new(Opcode::RegisterMove, engine, hlo);
        row.args = InstArgs { mode: 1, dtype: 8, imm0: imm as u32, ..Default::default() };
        row.regs.dst = dst;
        self.push(row, owner);
    }

    /// `dst = imm` for a pair: two moves in one record, always from an immediate (`spec/ir.md 3.6`).
    pub fn move_imm64(&mut self, engine: EngineId, hlo: HloId, owner: InstId, dst: RegId, imm: i64) {
        let mut row = InstRow::new(Opcode::RegisterMove, engine, hlo);
        let (imm0, imm1) = (imm as u32, (imm >> 32) as u32);
        row.args = InstArgs { mode: 1, dtype: 8, imm0, imm1, ..Default::default() };
        row.regs.dst = dst;
        self.push(row, owner);
    }

    /// The low lane of the pair `dst` is `a * imm`, its high lane stays. That the pair is a source too says so.
    pub fn mult_low(&mut self, engine: EngineId, hlo: HloId, owner: InstId, a: RegId, imm: i64, dst: RegId) {
        let mut row = InstRow::new(Opcode::RegisterAlu, engine, hlo);
        row.args = InstArgs { op0: op::MULT, mode: 1, dtype: 8, imm0: imm as u32, ..Default::default() };
        row.regs = InstRegs { src0: a, src1: dst, dst };
        self.push(row, owner);
    }

    /// `dst = a op b` on pairs (`alu_rr64`): add, subtract or multiply.
    pub fn alu_reg64(
        &mut self,
        engine: EngineId,
        hlo: HloId,
        owner: InstId,
        op: u8,
        a: RegId,
        b: RegId,
        dst: RegId,
    ) {
        let mut row = InstRow::new(Opcode::RegisterAlu, engine, hlo);
        // Wire tag 1, UINT64, makes it a 64-bit operation.
        row.args = InstArgs { op0: op, dtype: 1, ..Default::default() };
        row.regs = InstRegs { src0: a, src1: b, dst };
        self.push(row, owner);
    }

    /// `dst` = the first bytes of a location, as many as the register has (`tensor_load`).
    pub fn tensor_load(
        &mut self,
        engine: EngineId,
        hlo: HloId,
        owner: InstId,
        loc: LocId,
        dst: RegId,
        wide: bool,
    ) {
        let mut row = InstRow::new(Opcode::TensorLoad, engine, hlo);
        row.head.flags = InstHead::CONTROL;
        let dtype = if wide { DType::I64 } else { DType::I32 };
        row.args.dtype = dtype.wire_tag();
        row.regs.dst = dst;
        row.from.owner = owner;
        let source = Operand {
            loc,
            offset: 0,
            dtype,
            pattern: ApPattern::of([(1, 1)]),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        };
        let id = self.staging.inst(row, &[], &[source]);
        self.order.push(id);
    }

    /// `dst = a op imm` (`alu_ri`).
    pub fn alu_imm(
        &mut self,
        engine: EngineId,
        hlo: HloId,
        owner: InstId,
        op: u8,
        a: RegId,
        imm: i64,
        dst: RegId,
    ) {
        let mut row = InstRow::new(Opcode::RegisterAlu, engine, hlo);
        row.args = InstArgs { op0: op, mode: 1, dtype: 8, imm0: imm as u32, ..Default::default() };
        row.regs = InstRegs { src0: a, src1: RegId::NONE, dst };
        self.push(row, owner);
    }

    /// `dst = a op b` (`alu_rr`).
    pub fn alu_reg(
        &mut self,
        engine: EngineId,
        hlo: HloId,
        owner: InstId,
        op: u8,
        a: RegId,
        b: RegId,
        dst: RegId,
    ) {
        let mut row = InstRow::new(Opcode::RegisterAlu, engine, hlo);
        row.args = InstArgs { op0: op, dtype: 8, ..Default::default() };
        row.regs = InstRegs { src0: a, src1: b, dst };
        self.push(row, owner);
    }
}

/// Wire codes of the operators that address code uses (`spec/ir.md 5.1`).
pub mod op {
    #![allow(missing_docs)]
    pub const ADD: u8 = 0x04;
    pub const MULT: u8 = 0x06;
    pub const DIVIDE: u8 = 0x07;
    pub const MOD: u8 = 0x1B;
}
