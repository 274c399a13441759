//! Widths of register operands (`spec/ir.md 3.6`): which instruction takes 32-bit registers, which pairs, and which
//! immediates. In: an instruction. Out: nothing, or the rule it breaks, under its code in the source compiler.
//!
//! ```text
//! r4:r5 = r2:r3 + r6     ->  EBIR010: the inputs differ in width
//! r4:r5 = r2:r3 / 3      ->  EBIR013: a 64-bit operation that is no sum, difference or product
//! r4    = r6 / 3         ->  fine where r4:r5 is a pair: a 32-bit operation takes the low lane (`spec/ir.md 5.4`, steps 7 to 12)
//! ```

use murre_components::bir::*;
use murre_components::ids::RegId;
use murre_components::isa::alu::AluOp;

/// Wire tag of the type that makes an operation one on pairs.
const UINT64: u8 = 1;

/// A broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Broken {
    pub rule: &'static str,
    pub what: &'static str,
}

fn broken(rule: &'static str, what: &'static str) -> Result<(), Broken> {
    Err(Broken { rule, what })
}

/// Checks one instruction. `bytes`: what a TensorLoad reads or a TensorSave writes.
pub fn check(
    op: Opcode,
    args: InstArgs,
    regs: InstRegs,
    heads: &[RegHead],
    bytes: u64,
) -> Result<(), Broken> {
    let width = |r: RegId| heads.get(r.index()).map(|h| h.width);
    let immediate = args.mode & 1 == 1;
    match op {
        Opcode::RegisterAlu if args.dtype != UINT64 => {
            let fits = !immediate || args.imm1 == 0;
            return if fits { Ok(()) } else { broken("XXU001", "an immediate that does not fit 32 bits") };
        }
        Opcode::RegisterAlu => {
            let (a, b, dst) = (width(regs.src0), width(regs.src1), width(regs.dst));
            if !immediate && a != b {
                return broken("EBIR010", "the inputs differ in width");
            }
            if a != dst || dst != Some(2) {
                return broken("EBIR010", "the result differs from the operation in width");
            }
            let exact = [AluOp::Add, AluOp::Subtract, AluOp::Mult].map(|o| o.wire(0).ok());
            if !exact.contains(&Some(args.op0)) {
                return broken("EBIR013", "a 64-bit operation that is no sum, difference or product");
            }
        }
        Opcode::RegisterMove => {
            if !immediate && width(regs.dst) == Some(2) {
                return broken("EBIR012", "a 64-bit move from a register");
            }
            if immediate && width(regs.dst) == Some(1) && args.imm1 != 0 {
                return broken("XXU001", "an immediate that does not fit 32 bits");
            }
        }
        Opcode::TensorLoad | Opcode::TensorSave => {
            let register = if op == Opcode::TensorLoad { regs.dst } else { regs.src0 };
            if width(register).is_none_or(|w| bytes != 4 * w as u64) {
                return broken("EBIR011", "register and tensor differ in size");
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::EngineId;
    use murre_components::ids::HloId;

    /// Registers 0 to 2 are single, 3 to 5 are pairs; an operation on 32 bits unless `set` says otherwise.
    fn rule(op: Opcode, set: impl Fn(&mut InstArgs, &mut InstRegs), bytes: u64) -> &'static str {
        let heads: Vec<RegHead> = (0..6)
            .map(|k| {
                let mut h = RegRow::new(EngineId::Sp, RegRole::Scalar, HloId::NONE).head;
                h.width = 1 + (k >= 3) as u8;
                h
            })
            .collect();
        let mut args = InstArgs { op0: AluOp::Add.wire(0).unwrap_or(0), ..Default::default() };
        let mut regs = InstRegs { src0: RegId(0), src1: RegId(1), dst: RegId(2) };
        set(&mut args, &mut regs);
        check(op, args, regs, &heads, bytes).map_or_else(|b| b.rule, |()| "ok")
    }

    #[test]
    fn each_rule_has_an_instruction_that_breaks_it() {
        use Opcode::{RegisterAlu, RegisterMove, TensorLoad, TensorSave};
        let wide = |r: &mut InstRegs| (r.src0, r.src1, r.dst) = (RegId(3), RegId(4), RegId(5));
        let on_pairs = |a: &mut InstArgs, r: &mut InstRegs| {
            a.dtype = UINT64;
            wide(r);
        };
        assert_eq!(rule(RegisterAlu, |_, _| (), 0), "ok");
        assert_eq!(rule(RegisterAlu, on_pairs, 0), "ok");
        for narrow in 0..3 {
            let mixed = |a: &mut InstArgs, r: &mut InstRegs| {
                on_pairs(a, r);
                *[&mut r.src0, &mut r.src1, &mut r.dst][narrow] = RegId(0);
            };
            assert_eq!(rule(RegisterAlu, mixed, 0), "EBIR010");
        }
        assert_eq!(rule(RegisterAlu, |a, _| a.dtype = UINT64, 0), "EBIR010", "pairs of nothing");
        // The low lanes of pairs.
        assert_eq!(rule(RegisterAlu, |_, r| r.src1 = RegId(4), 0), "ok");
        assert_eq!(rule(RegisterAlu, |_, r| r.dst = RegId(4), 0), "ok");
        assert_eq!(rule(RegisterMove, |_, r| r.src0 = RegId(4), 0), "ok");
        let divide = |a: &mut InstArgs| a.op0 = AluOp::Divide.wire(0).unwrap_or(0);
        let wide_divide = |a: &mut InstArgs, r: &mut InstRegs| {
            divide(a);
            on_pairs(a, r);
        };
        assert_eq!(rule(RegisterAlu, |a, _| divide(a), 0), "ok");
        assert_eq!(rule(RegisterAlu, wide_divide, 0), "EBIR013");
        assert_eq!(rule(RegisterAlu, |a, _| (a.mode, a.imm1) = (1, 1), 0), "XXU001");
        assert_eq!(rule(RegisterMove, |_, _| (), 0), "ok");
        assert_eq!(rule(RegisterMove, |_, r| r.dst = RegId(5), 0), "EBIR012");
        assert_eq!(rule(RegisterMove, |_, r| wide(r), 0), "EBIR012");
        assert_eq!(rule(RegisterMove, |a, _| (a.mode, a.imm1) = (1, 1), 0), "XXU001");
        let wide_immediate = |a: &mut InstArgs, r: &mut InstRegs| {
            wide(r);
            (a.mode, a.imm1, r.src0, r.src1) = (1, 1, RegId::NONE, RegId::NONE);
        };
        assert_eq!(rule(RegisterMove, wide_immediate, 0), "ok");
        assert_eq!(rule(TensorLoad, |_, _| (), 4), "ok");
        assert_eq!(rule(TensorLoad, |_, _| (), 8), "EBIR011");
        assert_eq!(rule(TensorSave, |_, r| r.src0 = RegId(3), 4), "EBIR011");
    }
}
