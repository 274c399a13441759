//! Instruction templates of the compute engines: one function per record family, operands as accesses.

use crate::staging::{Operand, Staging};
use murre_components::bir::*;
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::ids::*;
use murre_components::penguin::{Access, NodeOperand};

/// What `select_instructions` writes to.
pub struct Emit {
    /// New rows.
    pub staging: Staging,
    /// Program order.
    pub order: Vec<InstId>,
    /// Kind and element type of each location.
    pub locs: Vec<LocHead>,
    /// The HLO instruction being served.
    pub hlo: HloId,
}

/// An access as an operand.
pub fn operand(a: &Access) -> Operand {
    Operand {
        loc: a.loc,
        offset: a.offset,
        dtype: a.dtype,
        pattern: a.pattern.clone(),
        kind: ApKind::Physical,
        payload: PayloadKey::default(),
        flags: 0,
    }
}

impl Emit {
    /// Adds an instruction at the end of the program.
    pub fn push(&mut self, row: InstRow, outputs: &[Operand], inputs: &[Operand]) -> InstId {
        let id = self.staging.inst(row, outputs, inputs);
        self.order.push(id);
        id
    }

    /// The end of a module.
    pub fn exit(&mut self) {
        self.hlo = HloId::NONE;
        self.push(InstRow::new(Opcode::Exit, EngineId::All, HloId::NONE), &[], &[]);
    }

    fn row(&self, op: Opcode, engine: EngineId) -> InstRow {
        InstRow::new(op, engine, self.hlo)
    }

    /// A temporary tile.
    pub fn temp(&mut self, dtype: DType, parts: u32, free: u32) -> Operand {
        let row = LocRow::new(Space::Sbuf, dtype, parts, free as u64, self.hlo);
        self.locs.push(row.head);
        let loc = self.staging.loc(row);
        Operand {
            loc,
            offset: 0,
            dtype,
            pattern: ApPattern::of([(free as i32, parts), (1, free)]),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        }
    }

    /// `out = a op b` elementwise.
    pub fn tensor_tensor(&mut self, engine: EngineId, op: u8, out: &Operand, a: &Operand, b: &Operand) {
        let mut row = self.row(Opcode::TensorTensor, engine);
        row.args.op0 = op;
        self.push(row, std::slice::from_ref(out), &[a.clone(), b.clone()]);
    }

    /// `out = a op imm`, or `imm op a` when reversed; fp32 immediates.
    pub fn tensor_scalar(&mut self, op: u8, imm: f32, reversed: bool, out: &Operand, a: &Operand) {
        let mut row = self.row(Opcode::TensorScalar, EngineId::Dve);
        row.args = InstArgs { op0: op, mode: reversed as u8, imm0: imm.to_bits(), ..Default::default() };
        self.push(row, std::slice::from_ref(out), std::slice::from_ref(a));
    }

    /// `out = (a op0 imm0) op1 imm1`, each step reversed or not; fp32 immediates.
    pub fn tensor_scalars(&mut self, steps: [(u8, f32, bool); 2], out: &Operand, a: &Operand) {
        let mut row = self.row(Opcode::TensorScalar, EngineId::Dve);
        let [(op0, imm0, r0), (op1, imm1, r1)] = steps;
        row.args = InstArgs {
            op0,
            op1,
            mode: r0 as u8 | (r1 as u8) << 1,
            imm0: imm0.to_bits(),
            imm1: imm1.to_bits(),
            ..Default::default()
        };
        self.push(row, std::slice::from_ref(out), std::slice::from_ref(a));
    }

    /// `out = a op imm` on raw bits.
    pub fn tensor_scalar_bits(&mut self, op: u8, imm: u32, out: &Operand, a: &Operand) {
        let mut row = self.row(Opcode::TensorScalar, EngineId::Dve);
        row.args = InstArgs { op0: op, dtype: 1, imm0: imm, ..Default::default() };
        self.push(row, std::slice::from_ref(out), std::slice::from_ref(a));
    }

    /// `out = f(a)` on the scalar engine.
    pub fn activation(&mut self, function: u8, out: &Operand, a: &Operand) {
        // The bias is -0, which leaves every value as it is; +0 would turn -0 into +0.
        self.scaled_activation(function, 1.0, -0.0, out, a);
    }

    /// `out = f(scale * a + bias)` on the scalar engine, product and sum rounded to fp32.
    pub fn scaled_activation(&mut self, function: u8, scale: f32, bias: f32, out: &Operand, a: &Operand) {
        let mut row = self.row(Opcode::Activation, EngineId::Activation);
        row.args =
            InstArgs { op0: function, imm0: scale.to_bits(), imm1: bias.to_bits(), ..Default::default() };
        self.push(row, std::slice::from_ref(out), std::slice::from_ref(a));
    }

    /// Copies, casting when the element types differ.
    pub fn tensor_copy(&mut self, out: &Operand, a: &Operand) {
        let row = self.row(Opcode::TensorCopy, EngineId::Dve);
        self.push(row, std::slice::from_ref(out), std::slice::from_ref(a));
    }

    /// Fills with raw bits.
    pub fn memset(&mut self, bits: u32, out: &Operand) {
        let mut row = self.row(Opcode::Memset, EngineId::Dve);
        row.args.imm0 = bits;
        self.push(row, std::slice::from_ref(out), &[]);
    }

    /// Copies `data` where `predicate` is not 0.
    pub fn copy_predicated(&mut self, out: &Operand, predicate: &Operand, data: &Operand) {
        let row = self.row(Opcode::CopyPredicated, EngineId::Dve);
        self.push(row, std::slice::from_ref(out), &[predicate.clone(), data.clone()]);
    }

    /// Fills a tile with a control scalar: zeros, then the register's bits (`spec/isa_compute.md 2.2`).
    pub fn splat_register(&mut self, reg: RegId, out: &Operand) {
        let wide = if out.dtype.bytes() == 4 {
            out.clone()
        } else {
            let (parts, free) = shape_of(out);
            self.temp(DType::I32, parts, free)
        };
        self.memset(0, &wide);
        let mut row = self.row(Opcode::TensorScalar, EngineId::Dve);
        row.args = InstArgs { op0: BITWISE_OR, dtype: 1, mode: InstArgs::IMM0_REG, ..Default::default() };
        row.regs.src0 = reg;
        self.push(row, std::slice::from_ref(&wide), std::slice::from_ref(&wide));
        if wide.loc != out.loc {
            self.tensor_copy(out, &wide);
        }
    }

    /// Any operand as an access that pairs with `like`: a splat or a control scalar becomes one element a partition,
    /// read with step 0.
    pub fn spread(&mut self, o: &NodeOperand, like: &Operand) -> Operand {
        let (dtype, source) = match o {
            NodeOperand::Access(a) => return operand(a),
            NodeOperand::Splat(_, d) | NodeOperand::Scalar(_, d) => (*d, o.clone()),
        };
        let parts = like.pattern.0.first().map_or(1, |p| p.num);
        let mut tile = self.temp(dtype, parts, 1);
        match source {
            NodeOperand::Splat(bits, _) => self.memset(bits, &tile),
            NodeOperand::Scalar(reg, _) => self.splat_register(reg, &tile),
            NodeOperand::Access(_) => {}
        }
        // The partner's counts, read with step 0.
        tile.pattern = like.pattern.clone();
        for (k, pair) in tile.pattern.0.iter_mut().enumerate() {
            *pair = if k == 0 { ApPair { step: 1, num: parts } } else { ApPair { step: 0, num: pair.num } };
        }
        tile
    }
}

/// Partitions and elements a partition of an operand.
pub fn shape_of(o: &Operand) -> (u32, u32) {
    let parts = o.pattern.0.first().map_or(1, |p| p.num);
    (parts, o.pattern.0.iter().skip(1).map(|p| p.num).product())
}

/// Wire codes of the bit operators.
pub const BITWISE_OR: u8 = 0x0B;
