//! Control scalars: integer arithmetic on engine ALL's registers, with HLO's semantics spelled out in the operations
//! that a sequencer has (`spec/isa.md 5.2, 6.1`, D14). Every value carries a proved range.
//!
//! A narrow type is kept extended to 32 bits: sign-extended when signed, zero-extended when not.

use super::leaf::{Leaf, fits_register, integer};
use super::lower::{Lower, Lowered, type_range};
use super::view::Sizes;
use murre_components::bir::RegRole;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloOp};
use murre_components::ids::RegId;
use murre_components::isa::alu::AluOp;
use murre_components::penguin::{NodeKind, NodeScalars};
use smallvec::SmallVec;

/// Wire tag of signed 32-bit register arithmetic.
pub const SIGNED: u8 = 8;
/// Wire tag of unsigned 32-bit register arithmetic.
pub const UNSIGNED: u8 = 9;

/// A scalar operand: a register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A register on engine ALL.
    Reg(RegId),
    /// A constant.
    Const(i64),
}

impl Lower<'_> {
    /// Whether `inst` can run on register ALUs: one element, an integer type that a register holds, and operands
    /// that are control scalars or constants.
    pub fn is_scalar_op(&self, inst: HloInst<'_>, leaves: &[&Leaf]) -> bool {
        let Some(shape) = inst.shape().array() else { return false };
        let supported = matches!(
            inst.op,
            HloOp::Abs
                | HloOp::Add
                | HloOp::And
                | HloOp::Clamp
                | HloOp::Compare
                | HloOp::Convert
                | HloOp::Divide
                | HloOp::Maximum
                | HloOp::Minimum
                | HloOp::Multiply
                | HloOp::Negate
                | HloOp::Not
                | HloOp::Or
                | HloOp::Remainder
                | HloOp::Select
                | HloOp::ShiftLeft
                | HloOp::ShiftRightArithmetic
                | HloOp::ShiftRightLogical
                | HloOp::Sign
                | HloOp::Subtract
                | HloOp::Xor
        );
        // A register divides and shifts by constants only; by anything else tiles do it.
        let constant = match (inst.op, leaves.get(1)) {
            (HloOp::Divide | HloOp::Remainder, Some(Leaf::Splat { ty, bits, .. })) => {
                (1..=i32::MAX as i64).contains(&integer(*ty, *bits))
            }
            (HloOp::Divide | HloOp::Remainder, _) => false,
            (HloOp::ShiftLeft | HloOp::ShiftRightArithmetic | HloOp::ShiftRightLogical, Some(by)) => {
                matches!(by, Leaf::Splat { .. })
            }
            _ => true,
        };
        supported
            && constant
            && shape.elements() == 1
            && fits_register(shape.ty)
            && leaves.iter().all(|l| {
                fits_register(l.ty())
                    && (matches!(l, Leaf::Scalar { .. } | Leaf::Splat { .. }) || self.is_scalar_parameter(l))
            })
    }

    /// A scalar operand of a leaf; loads a one-element tensor.
    pub fn scalar(&mut self, leaf: &Leaf) -> Lowered<Scalar> {
        match leaf {
            Leaf::Splat { ty, bits, .. } if fits_register(*ty) => Ok(Scalar::Const(integer(*ty, *bits))),
            other => Ok(Scalar::Reg(self.as_register(other)?)),
        }
    }

    /// Proved range of an operand.
    pub fn range(&self, s: Scalar) -> (i64, i64) {
        match s {
            Scalar::Const(c) => (c, c),
            Scalar::Reg(r) => (self.bounds(r).lo, self.bounds(r).hi),
        }
    }

    /// The operand in a register.
    pub fn in_register(&mut self, s: Scalar) -> RegId {
        match s {
            Scalar::Reg(r) => r,
            Scalar::Const(c) => {
                let dst = self.reg(RegRole::Scalar, c, c);
                self.scalar_move_imm(dst, c as u32);
                dst
            }
        }
    }

    /// `a op b` into a new register with the given range.
    pub fn alu(&mut self, op: AluOp, a: Scalar, b: Scalar, tag: u8, range: (i64, i64)) -> Scalar {
        let a = self.in_register(a);
        let dst = self.reg(RegRole::Scalar, range.0, range.1);
        let (b, imm) = match b {
            Scalar::Reg(r) => (r, 0),
            Scalar::Const(c) => (RegId::NONE, c as u32),
        };
        let sub = op.wire(0).unwrap_or(0);
        self.node(
            NodeKind::ScalarAlu,
            HloOp::Add,
            sub,
            0,
            [],
            NodeScalars { dst, a, b, imm, tag, pad: [0; 3] },
        );
        Scalar::Reg(dst)
    }

    /// `p ? a : b` for `p` in {0, 1}: `b + p * (a - b)` in wrapping arithmetic.
    pub fn select(&mut self, p: Scalar, a: Scalar, b: Scalar) -> Scalar {
        if let Scalar::Const(p) = p {
            return if p != 0 { a } else { b };
        }
        if a == b {
            return a;
        }
        let (ra, rb) = (self.range(a), self.range(b));
        let any = (i32::MIN as i64, u32::MAX as i64);
        let difference = match (a, b) {
            (Scalar::Const(x), Scalar::Const(y)) => Scalar::Const((x as i32).wrapping_sub(y as i32) as i64),
            _ => self.alu(AluOp::Subtract, a, b, SIGNED, any),
        };
        let chosen = self.alu(AluOp::Mult, p, difference, SIGNED, any);
        self.alu(AluOp::Add, chosen, b, SIGNED, (ra.0.min(rb.0), ra.1.max(rb.1)))
    }

    /// `a cmp b` as 0 or 1.
    pub fn compare(&mut self, direction: Direction, a: Scalar, b: Scalar, tag: u8) -> Scalar {
        let op = match direction {
            Direction::Eq => AluOp::IsEqual,
            Direction::Ne => AluOp::NotEqual,
            Direction::Ge => AluOp::IsGe,
            Direction::Gt => AluOp::IsGt,
            Direction::Le => AluOp::IsLe,
            Direction::Lt => AluOp::IsLt,
        };
        if let (Scalar::Const(x), Scalar::Const(y)) = (a, b) {
            let holds = match direction {
                Direction::Eq => x == y,
                Direction::Ne => x != y,
                Direction::Ge => x >= y,
                Direction::Gt => x > y,
                Direction::Le => x <= y,
                Direction::Lt => x < y,
            };
            return Scalar::Const(holds as i64);
        }
        self.alu(op, a, b, tag, (0, 1))
    }

    /// Clamps a start index to `[0, high]`, in the index's own signedness (`spec/hlo.md 7`).
    pub fn clamp_start(&mut self, index: Scalar, ty: HloType, high: i64) -> Scalar {
        if let Scalar::Const(c) = index {
            return Scalar::Const(c.clamp(0, high));
        }
        if high <= 0 {
            return Scalar::Const(0);
        }
        let (lo, hi) = self.range(index);
        let mut s = index;
        // A limit past the type's own maximum cannot bind (and would not be a value of the type).
        if ty == HloType::U32 {
            if hi > high {
                s = self.alu(AluOp::Min, s, Scalar::Const(high), UNSIGNED, (lo.min(high), high));
            }
            return s;
        }
        if lo < 0 {
            s = self.alu(AluOp::Max, s, Scalar::Const(0), SIGNED, (0, hi.max(0)));
        }
        if hi > high {
            let lo = self.range(s).0;
            s = self.alu(AluOp::Min, s, Scalar::Const(high), SIGNED, (lo.min(high), high));
        }
        s
    }

    /// Brings a 32-bit result back into a narrow type: wraps it.
    fn narrow(&mut self, s: Scalar, ty: HloType, wide: (i64, i64)) -> Scalar {
        let (lo, hi) = type_range(ty);
        if let Scalar::Const(c) = s {
            return Scalar::Const(wrap(ty, c));
        }
        if wide.0 >= lo && wide.1 <= hi {
            if let Scalar::Reg(r) = s {
                let row = &mut self.staging.regs[r.index()];
                (row.bounds.lo, row.bounds.hi) = wide;
            }
            return s;
        }
        let bits = ty.bits();
        if bits == 32 {
            return s;
        }
        if ty.is_signed_int() {
            let shift = Scalar::Const(32 - bits as i64);
            let up = self.alu(AluOp::ArithShiftLeft, s, shift, SIGNED, (i32::MIN as i64, i32::MAX as i64));
            return self.alu(AluOp::ArithShiftRight, up, shift, SIGNED, (lo, hi));
        }
        self.alu(AluOp::BitwiseAnd, s, Scalar::Const((1i64 << bits) - 1), UNSIGNED, (lo, hi))
    }

    /// Truncated quotient and remainder by a positive constant, on magnitudes (D14).
    fn divide(&mut self, x: Scalar, by: i64, ty: HloType, remainder: bool) -> Scalar {
        let (lo, hi) = self.range(x);
        let op = if remainder { AluOp::Mod } else { AluOp::Divide };
        let result = |v: i64| if remainder { v % by } else { v / by };
        let full = type_range(ty);
        if !ty.is_signed_int() || lo >= 0 {
            let range = if remainder { (0, hi.min(by - 1)) } else { (result(lo.max(0)), result(hi)) };
            return self.alu(op, x, Scalar::Const(by), UNSIGNED, range);
        }
        let mask = self.alu(AluOp::ArithShiftRight, x, Scalar::Const(31), SIGNED, (-1, 0));
        let flipped = self.alu(AluOp::BitwiseXor, x, mask, SIGNED, full);
        let magnitude = self.alu(AluOp::Subtract, flipped, mask, SIGNED, (0, 1 << 31));
        let q = self.alu(op, magnitude, Scalar::Const(by), UNSIGNED, (0, i32::MAX as i64));
        let signed = self.alu(AluOp::BitwiseXor, q, mask, SIGNED, full);
        let range = if remainder { (1 - by, by - 1) } else { (result(lo), result(hi)) };
        self.alu(AluOp::Subtract, signed, mask, SIGNED, range)
    }

    /// Lowers a scalar operation.
    pub fn scalar_op(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Scalar> {
        let ty = inst.shape().array().map_or(HloType::S32, |s| s.ty);
        let operand_ty = leaves.first().map_or(ty, |l| l.ty());
        let tag = if operand_ty.is_signed_int() { SIGNED } else { UNSIGNED };
        let mut s: SmallVec<[Scalar; 3]> = SmallVec::new();
        for leaf in leaves {
            s.push(self.scalar(leaf)?);
        }
        if let Some(value) = fold(inst, ty, &s) {
            return Ok(Scalar::Const(value));
        }
        let r: SmallVec<[(i64, i64); 3]> = s.iter().map(|x| self.range(*x)).collect();
        let full = type_range(ty);
        // The register's 32 bits are the value modulo 2^32; `wide` is the range before wrapping.
        let register = |wide: (i64, i64)| {
            if ty.bits() < 32 || (wide.0 >= full.0 && wide.1 <= full.1) { wide } else { full }
        };
        Ok(match inst.op {
            HloOp::Add => {
                let wide = (r[0].0 + r[1].0, r[0].1 + r[1].1);
                let t = self.alu(AluOp::Add, s[0], s[1], tag, register(wide));
                self.narrow(t, ty, wide)
            }
            HloOp::Subtract => {
                let wide = (r[0].0 - r[1].1, r[0].1 - r[1].0);
                let t = self.alu(AluOp::Subtract, s[0], s[1], tag, register(wide));
                self.narrow(t, ty, wide)
            }
            HloOp::Multiply => {
                let products = [
                    r[0].0.saturating_mul(r[1].0),
                    r[0].0.saturating_mul(r[1].1),
                    r[0].1.saturating_mul(r[1].0),
                    r[0].1.saturating_mul(r[1].1),
                ];
                let wide = products.iter().fold((i64::MAX, i64::MIN), |w, p| (w.0.min(*p), w.1.max(*p)));
                let t = self.alu(AluOp::Mult, s[0], s[1], tag, register(wide));
                self.narrow(t, ty, wide)
            }
            HloOp::Negate => {
                let wide = (-r[0].1, -r[0].0);
                let t = self.alu(AluOp::Subtract, Scalar::Const(0), s[0], tag, register(wide));
                self.narrow(t, ty, wide)
            }
            HloOp::Abs => {
                let negated = self.alu(AluOp::Subtract, Scalar::Const(0), s[0], SIGNED, full);
                let t = self.alu(AluOp::Max, s[0], negated, SIGNED, full);
                self.narrow(
                    t,
                    ty,
                    if r[0].0 > full.0 { (0, r[0].1.max(-r[0].0)) } else { (full.0, full.1 + 1) },
                )
            }
            HloOp::Sign => {
                let above = self.compare(Direction::Gt, s[0], Scalar::Const(0), tag);
                let below = self.compare(Direction::Lt, s[0], Scalar::Const(0), tag);
                self.alu(AluOp::Subtract, above, below, SIGNED, (-1, 1))
            }
            HloOp::Maximum => self.alu(AluOp::Max, s[0], s[1], tag, (r[0].0.max(r[1].0), r[0].1.max(r[1].1))),
            HloOp::Minimum => self.alu(AluOp::Min, s[0], s[1], tag, (r[0].0.min(r[1].0), r[0].1.min(r[1].1))),
            HloOp::Clamp => {
                let tag = if ty.is_signed_int() { SIGNED } else { UNSIGNED };
                let low = self.alu(AluOp::Max, s[1], s[0], tag, (r[0].0.max(r[1].0), r[0].1.max(r[1].1)));
                let q = self.range(low);
                self.alu(AluOp::Min, low, s[2], tag, (q.0.min(r[2].0), q.1.min(r[2].1)))
            }
            HloOp::Compare => match inst.attrs() {
                Attrs::Compare { direction, .. } => self.compare(*direction, s[0], s[1], tag),
                _ => return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "compare without a direction"),
            },
            HloOp::Select => self.select(s[0], s[1], s[2]),
            HloOp::And => {
                let hi = if r[0].0 >= 0 && r[1].0 >= 0 { (0, r[0].1.min(r[1].1)) } else { full };
                self.alu(AluOp::BitwiseAnd, s[0], s[1], tag, hi)
            }
            HloOp::Or => self.alu(AluOp::BitwiseOr, s[0], s[1], tag, full),
            HloOp::Xor => self.alu(AluOp::BitwiseXor, s[0], s[1], tag, full),
            HloOp::Not if ty == HloType::Pred => {
                self.alu(AluOp::BitwiseXor, s[0], Scalar::Const(1), tag, (0, 1))
            }
            HloOp::Not => {
                let t = self.alu(AluOp::BitwiseXor, s[0], Scalar::Const(-1), tag, full);
                let wide = if ty.is_signed_int() { full } else { (-1, u32::MAX as i64) };
                self.narrow(t, ty, wide)
            }
            HloOp::Divide | HloOp::Remainder => match s[1] {
                Scalar::Const(by) if by > 0 && by <= i32::MAX as i64 => {
                    self.divide(s[0], by, ty, inst.op == HloOp::Remainder)
                }
                _ => {
                    return self.refuse(
                        &codes::LOWER_UNSUPPORTED_OP,
                        "a register can only be divided by a positive constant",
                    );
                }
            },
            HloOp::ShiftLeft | HloOp::ShiftRightLogical | HloOp::ShiftRightArithmetic => {
                let Scalar::Const(by) = s[1] else {
                    return self.refuse(
                        &codes::LOWER_UNSUPPORTED_OP,
                        "a register can only be shifted by a constant",
                    );
                };
                self.shift(inst.op, s[0], by as u64, ty, r[0])
            }
            HloOp::Convert if ty == HloType::Pred => self.compare(Direction::Ne, s[0], Scalar::Const(0), tag),
            HloOp::Convert => match s[0] {
                Scalar::Reg(_) if r[0].0 >= full.0 && r[0].1 <= full.1 => s[0],
                _ => {
                    let t = self.alu(AluOp::Add, s[0], Scalar::Const(0), tag, full);
                    self.narrow(t, ty, (i64::MIN, i64::MAX))
                }
            },
            other => {
                return self
                    .refuse(&codes::LOWER_UNSUPPORTED_OP, format!("{} of control scalars", other.name()));
            }
        })
    }

    fn shift(&mut self, op: HloOp, x: Scalar, by: u64, ty: HloType, range: (i64, i64)) -> Scalar {
        let width = ty.bits() as u64;
        let full = type_range(ty);
        let arithmetic = op == HloOp::ShiftRightArithmetic;
        if by >= width && !arithmetic {
            return Scalar::Const(0);
        }
        let by = by.min(width - 1) as i64;
        match op {
            HloOp::ShiftLeft => {
                let t = self.alu(AluOp::LogicalShiftLeft, x, Scalar::Const(by), UNSIGNED, full);
                self.narrow(t, ty, (i64::MIN, i64::MAX))
            }
            HloOp::ShiftRightLogical => {
                // The bits of the narrow type, zero-extended, are what moves.
                let zero_extended = if ty.is_signed_int() && width < 32 && range.0 < 0 {
                    self.alu(
                        AluOp::BitwiseAnd,
                        x,
                        Scalar::Const((1 << width) - 1),
                        UNSIGNED,
                        (0, (1 << width) - 1),
                    )
                } else {
                    x
                };
                let t = self.alu(AluOp::LogicalShiftRight, zero_extended, Scalar::Const(by), UNSIGNED, full);
                if by == 0 { self.narrow(t, ty, (i64::MIN, i64::MAX)) } else { t }
            }
            _ => {
                // The sign is bit width - 1 of the type.
                let s = if ty.is_signed_int() || width == 32 {
                    x
                } else {
                    let up = Scalar::Const(32 - width as i64);
                    let t = self.alu(AluOp::LogicalShiftLeft, x, up, UNSIGNED, (0, u32::MAX as i64));
                    self.alu(AluOp::ArithShiftRight, t, up, SIGNED, (i32::MIN as i64, i32::MAX as i64))
                };
                let t = self.alu(AluOp::ArithShiftRight, s, Scalar::Const(by), SIGNED, full);
                if ty.is_signed_int() { t } else { self.narrow(t, ty, (i64::MIN, i64::MAX)) }
            }
        }
    }
}

/// The value of `ty` congruent to `v`.
pub fn wrap(ty: HloType, v: i64) -> i64 {
    match ty {
        HloType::Pred => (v != 0) as i64,
        HloType::S8 => v as i8 as i64,
        HloType::S16 => v as i16 as i64,
        HloType::U8 => v as u8 as i64,
        HloType::U16 => v as u16 as i64,
        HloType::U32 => v as u32 as i64,
        _ => v as i32 as i64,
    }
}

/// Constant folding of the exact operations.
fn fold(inst: HloInst<'_>, ty: HloType, s: &[Scalar]) -> Option<i64> {
    let mut c = Vec::with_capacity(s.len());
    for x in s {
        match x {
            Scalar::Const(v) => c.push(*v),
            Scalar::Reg(_) => return None,
        }
    }
    Some(match inst.op {
        HloOp::Add => wrap(ty, c[0].wrapping_add(c[1])),
        HloOp::Subtract => wrap(ty, c[0].wrapping_sub(c[1])),
        HloOp::Multiply => wrap(ty, c[0].wrapping_mul(c[1])),
        HloOp::Negate => wrap(ty, -c[0]),
        HloOp::Maximum => c[0].max(c[1]),
        HloOp::Minimum => c[0].min(c[1]),
        HloOp::Clamp => c[1].max(c[0]).min(c[2]),
        HloOp::Select => {
            if c[0] != 0 {
                c[1]
            } else {
                c[2]
            }
        }
        HloOp::And => c[0] & c[1],
        HloOp::Or => c[0] | c[1],
        HloOp::Xor => wrap(ty, c[0] ^ c[1]),
        HloOp::Convert => wrap(ty, c[0]),
        HloOp::Compare => match inst.attrs() {
            Attrs::Compare { direction, .. } => match direction {
                Direction::Eq => (c[0] == c[1]) as i64,
                Direction::Ne => (c[0] != c[1]) as i64,
                Direction::Ge => (c[0] >= c[1]) as i64,
                Direction::Gt => (c[0] > c[1]) as i64,
                Direction::Le => (c[0] <= c[1]) as i64,
                Direction::Lt => (c[0] < c[1]) as i64,
            },
            _ => return None,
        },
        HloOp::Divide if c[1] != 0 => wrap(ty, c[0] / c[1]),
        HloOp::Remainder if c[1] != 0 => wrap(ty, c[0] % c[1]),
        _ => return None,
    })
}

impl Scalar {
    /// As a leaf of the given type and extents.
    pub fn leaf(self, ty: HloType, dims: Sizes) -> Leaf {
        match self {
            Scalar::Reg(reg) => Leaf::Scalar { ty, reg, dims },
            Scalar::Const(c) => {
                let mask = if ty.bits() >= 32 { u32::MAX as u64 } else { (1u64 << (ty.bytes() * 8)) - 1 };
                Leaf::Splat { ty, bits: c as u64 & mask, dims }
            }
        }
    }
}
