//! `coalesce_moves`: moves between registers that can be one register, and constants that are moved twice
//! (`spec/ir.md 5.8, 6`).
//!
//! In: the program in front of colouring. Out: fewer moves and operations; no value changes and at no place are more
//! registers alive than before, constants apart, which colouring can move again. One walk collects what is written and read
//! where, one decides, and one renames if anything was decided.
//!
//! ```text
//! b = a             (each written once)             ->  b is a
//! n = i + 1 ; i = n (n read no further, i not       ->  i = i + 1
//!                    touched between)
//! a = 7 ; b = 7     (each written once, near)       ->  b is a
//! t = r * 1, t = r + 0                              ->  t = r, and then as above
//! d = 0 ; t = r * k ; d = d + t  (t read no further) -> d = r * k
//! d = c ; t = r * k ; d = d + t                     ->  t = r * k ; d = t + c
//! ```
//!
//! Merging `b` into `a` where they meet in a move covers the same positions as the two ranges did together, so that the
//! conservative tests of Briggs and George hold without a look at the neighbours. The last four forms work inside one
//! block.

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::*;

/// How many instructions behind the last use of a constant it is still taken instead of a new one.
const NEAR: u32 = 64;
/// Constants that are remembered for each engine.
const REMEMBERED: usize = 8;
const ADD: u8 = crate::address::walk::op::ADD;
const MULT: u8 = crate::address::walk::op::MULT;

/// What is known of a register.
#[derive(Clone, Copy)]
struct Facts {
    /// Writes of it, at most 255.
    defs: u8,
    /// Position of the last access in the program, then of the last access so far and of the last write so far.
    last: u32,
    seen: u32,
    written: u32,
}

/// A constant in a register.
#[derive(Clone, Copy)]
struct Constant {
    imm: u32,
    dtype: u8,
    reg: RegId,
}

/// The pass.
pub fn coalesce_moves(
    mut order: ResMut<Order>,
    regs: Query<&RegHead>,
    mut insts: Query<(&mut InstHead, &InstOperands, &mut InstArgs, &mut InstRegs)>,
    mut aps: Query<&mut ApHead>,
) {
    let reg_heads: &[RegHead] = columns!(regs);
    let Ok(mut tables) = insts.contiguous_iter_mut() else {
        return;
    };
    let Some((mut heads, operands, mut args, mut inst_regs)) = tables.next() else {
        return;
    };
    let (heads, args) = (heads.bypass_change_detection(), args.bypass_change_detection());
    let inst_regs = inst_regs.bypass_change_detection();
    let mut empty: [ApHead; 0] = [];
    let mut ap_tables = aps.contiguous_iter_mut();
    let mut ap_column = ap_tables.as_mut().ok().and_then(Iterator::next);
    let ap_heads: &mut [ApHead] = match &mut ap_column {
        Some(column) => column.bypass_change_detection(),
        None => &mut empty,
    };
    let mut facts = vec![Facts { defs: 0, last: 0, seen: 0, written: 0 }; reg_heads.len()];
    for (at, id) in order.0.iter().enumerate() {
        let (at, k) = (at as u32 + 1, id.index());
        let r = inst_regs[k];
        for a in &ap_heads[operands[k].range()] {
            touch(&mut facts, a.dynamic.address, at);
        }
        touch(&mut facts, r.src0, at);
        touch(&mut facts, r.src1, at);
        if let Some(f) = facts.get_mut(r.dst.index()) {
            f.last = at;
            f.defs = f.defs.saturating_add(1);
        }
    }
    let mut d = Decisions {
        renamed: (0..reg_heads.len() as u32).map(RegId).collect(),
        facts,
        reg_heads,
        constants: [[None; REMEMBERED]; 8],
        block: 1,
        dropped: 0,
    };
    for at in 1..=order.0.len() as u32 {
        let k = order.0[at as usize - 1].index();
        let op = heads[k].op;
        if op.is_structure()
            || matches!(op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch | Opcode::Exit)
        {
            d.block = at;
            d.constants = [[None; REMEMBERED]; 8];
        }
        for a in &ap_heads[operands[k].range()] {
            d.see(a.dynamic.address, at);
        }
        let r = inst_regs[k];
        let (src0, src1) = (d.now(r.src0), d.now(r.src1));
        let immediate = args[k].mode & 1 == 1;
        if op == Opcode::RegisterAlu && immediate && is_copy(args[k]) && d.is_narrow(r.dst) {
            heads[k].op = Opcode::RegisterMove;
            args[k] = InstArgs { dtype: args[k].dtype, ..Default::default() };
            inst_regs[k].src1 = RegId::NONE;
        } else if op == Opcode::RegisterAlu && !immediate && args[k].op0 == ADD && src0 == r.dst {
            d.sum(at, &order.0, heads, args, inst_regs);
        }
        let keep = match heads[k].op {
            _ if !heads[k].live() => false,
            Opcode::RegisterMove if args[k].mode & 1 == 0 => !d.copies(at, d.now(inst_regs[k].src0), r.dst),
            Opcode::RegisterMove => !d.repeats(heads[k], args[k], r.dst, at),
            _ => true,
        };
        if !keep {
            heads[k].flags |= InstHead::DEAD;
            d.dropped += 1;
            continue;
        }
        d.see(src0, at);
        d.see(src1, at);
        if let Some(f) = d.facts.get_mut(r.dst.index()) {
            (f.seen, f.written) = (at, at);
        }
    }
    if d.dropped == 0 {
        return;
    }
    // What each has become in the end, so that one look is enough.
    for r in 0..d.renamed.len() {
        d.renamed[r] = d.now(RegId::new(r));
    }
    let rename = |r: &mut RegId| {
        if let Some(to) = d.renamed.get(r.index()) {
            *r = *to;
        }
    };
    order.0.retain(|id| {
        let k = id.index();
        let r = &mut inst_regs[k];
        [&mut r.src0, &mut r.src1, &mut r.dst].into_iter().for_each(rename);
        ap_heads[operands[k].range()].iter_mut().for_each(|a| rename(&mut a.dynamic.address));
        heads[k].live()
    });
}

fn touch(facts: &mut [Facts], r: RegId, at: u32) {
    if let Some(f) = facts.get_mut(r.index()) {
        f.last = at;
    }
}

/// `x * 1` and `x + 0`.
fn is_copy(a: InstArgs) -> bool {
    a.imm1 == 0 && (a.op0 == MULT && a.imm0 == 1 || a.op0 == ADD && a.imm0 == 0)
}

/// What has been decided so far. Positions count from 1.
struct Decisions<'a> {
    renamed: Vec<RegId>,
    facts: Vec<Facts>,
    reg_heads: &'a [RegHead],
    constants: [[Option<Constant>; REMEMBERED]; 8],
    /// Position at which the block begins.
    block: u32,
    dropped: u32,
}

impl Decisions<'_> {
    /// The register that `r` has become.
    fn now(&self, mut r: RegId) -> RegId {
        while let Some(&to) = self.renamed.get(r.index())
            && to != r
        {
            r = to;
        }
        r
    }

    fn see(&mut self, r: RegId, at: u32) {
        let r = self.now(r);
        if let Some(f) = self.facts.get_mut(r.index()) {
            f.seen = at;
        }
    }

    fn is_narrow(&self, r: RegId) -> bool {
        self.reg_heads.get(r.index()).is_some_and(|h| h.width == 1)
    }

    /// `dst = src` at `at`: whether they have become one register.
    fn copies(&mut self, at: u32, src: RegId, dst: RegId) -> bool {
        let (Some(s), Some(d)) = (self.facts.get(src.index()), self.facts.get(dst.index())) else {
            return false;
        };
        let (a, b) = (self.reg_heads[src.index()], self.reg_heads[dst.index()]);
        if src == dst || a.engine != b.engine || a.width != b.width {
            return src == dst;
        }
        if s.defs == 1 && d.defs == 1 {
            let last = s.last.max(d.last);
            let f = &mut self.facts[src.index()];
            (f.last, f.seen) = (last, at);
            self.renamed[dst.index()] = src;
            return true;
        }
        self.becomes(src, dst, at)
    }

    /// Whether the value that `value` gets in this block, and whose last reader stands at `at`, could be made in `home`
    /// instead; if so it is. `home` is then not touched between.
    fn becomes(&mut self, value: RegId, home: RegId, at: u32) -> bool {
        let (v, h) = (self.facts[value.index()], self.facts[home.index()]);
        if v.defs != 1 || v.last != at || v.written < self.block || v.written == 0 || h.seen > v.written {
            return false;
        }
        self.renamed[value.index()] = home;
        let f = &mut self.facts[home.index()];
        (f.seen, f.written) = (at, v.written);
        true
    }

    /// A constant move: whether a register near by has the constant already.
    fn repeats(&mut self, head: InstHead, args: InstArgs, dst: RegId, at: u32) -> bool {
        let Some(d) = self.facts.get(dst.index()).copied() else { return false };
        if d.defs != 1 || !self.is_narrow(dst) {
            return false;
        }
        let (imm, dtype) = (args.imm0, args.dtype);
        let slots = head.engine as usize & 7;
        for c in self.constants[slots].iter().flatten() {
            let f = &self.facts[c.reg.index()];
            if (c.imm, c.dtype) == (imm, dtype)
                && f.defs == 1
                && self.renamed[c.reg.index()] == c.reg
                && f.seen + NEAR >= at
            {
                let f = &mut self.facts[c.reg.index()];
                (f.last, f.seen) = (f.last.max(d.last), at);
                self.renamed[dst.index()] = c.reg;
                return true;
            }
        }
        self.constants[slots][imm as usize % REMEMBERED] = Some(Constant { imm, dtype, reg: dst });
        false
    }

    /// `d = d + t` at `at` behind `d = c` in this block.
    fn sum(
        &mut self,
        at: u32,
        order: &[InstId],
        heads: &mut [InstHead],
        args: &mut [InstArgs],
        regs: &mut [InstRegs],
    ) {
        let k = order[at as usize - 1].index();
        let (d, t) = (regs[k].dst, self.now(regs[k].src1));
        if d == t || !self.is_narrow(d) {
            return;
        }
        let f = self.facts[d.index()];
        let Some(first) = f.written.checked_sub(1).map(|p| order[p as usize].index()) else { return };
        let constant = heads[first].op == Opcode::RegisterMove
            && heads[first].live()
            && args[first].mode & 1 == 1
            && regs[first].dst == d;
        if !constant || f.written < self.block || f.seen != f.written {
            return;
        }
        let c = args[first].imm0;
        // The constant goes into the sum, or nowhere.
        heads[first].flags |= InstHead::DEAD;
        self.dropped += 1;
        self.facts[d.index()].defs -= 1;
        if c != 0 {
            (args[k].mode, args[k].imm0) = (1, c);
            (regs[k].src0, regs[k].src1) = (t, RegId::NONE);
            return;
        }
        heads[k].op = Opcode::RegisterMove;
        args[k] = InstArgs { dtype: args[k].dtype, ..Default::default() };
        (regs[k].src0, regs[k].src1) = (t, RegId::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::color_registers::tests::Code;
    use super::*;
    use murre_components::diag::Diagnostics;

    const N: RegId = RegId::NONE;

    /// The operations that are left, by position in `code`.
    fn left(code: Code) -> (Vec<u32>, crate::Compiler) {
        let c = code.run();
        let d = c.world.resource::<Diagnostics>().take();
        assert!(d.is_empty(), "{:?}", d[0]);
        (c.world.resource::<Order>().0.iter().map(|id| id.0).collect(), c)
    }

    #[test]
    fn a_copy_of_what_stays_alive_is_the_same_register() {
        let mut code = Code::new();
        let (a, b) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, a, N, N, 0);
        code.op(Opcode::RegisterMove, b, a, N, 0);
        code.op(Opcode::NoOp, N, b, N, 0);
        code.op(Opcode::NoOp, N, a, b, 0);
        assert_eq!(left(code).0, [0, 2, 3]);
    }

    #[test]
    fn a_carried_value_is_made_where_it_lives_unless_the_old_one_is_read_between() {
        for read_between in [false, true] {
            let mut code = Code::new();
            let (i, next) = (code.reg(1), code.reg(1));
            code.op(Opcode::RegisterMove, i, N, N, 0);
            let label = code.op(Opcode::DynamicForLoop, N, N, N, 0);
            code.op(Opcode::RegisterAlu, next, i, i, 0);
            if read_between {
                code.op(Opcode::NoOp, N, i, next, 0);
            }
            code.op(Opcode::RegisterMove, i, next, N, 0);
            code.op(Opcode::CompareAndBranch, N, i, N, label.0);
            code.op(Opcode::Terminator, N, N, N, 0);
            let (ids, _) = left(code);
            assert_eq!(ids.len(), if read_between { 7 } else { 5 });
        }
    }

    #[test]
    fn a_constant_of_the_same_block_serves_twice() {
        let mut code = Code::new();
        let (a, b) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, a, N, N, 0);
        code.op(Opcode::NoOp, N, a, N, 0);
        let again = code.op(Opcode::RegisterMove, b, N, N, 0);
        code.rows.insts[again.index()].args.imm0 = a.0;
        code.op(Opcode::NoOp, N, b, N, 0);
        assert_eq!(left(code).0, [0, 1, 3]);
    }

    #[test]
    fn an_affine_form_starts_with_its_first_term() {
        for constant in [0, 5] {
            let mut code = Code::new();
            let (r, t, d) = (code.reg(1), code.reg(1), code.reg(1));
            code.op(Opcode::RegisterMove, r, N, N, 0);
            code.op(Opcode::RegisterAlu, r, r, r, 0);
            let zero = code.op(Opcode::RegisterMove, d, N, N, 0);
            code.rows.insts[zero.index()].args.imm0 = constant;
            let product = code.op(Opcode::RegisterAlu, t, r, N, 0);
            (code.rows.insts[product.index()].args.op0, code.rows.insts[product.index()].args.imm0) =
                (MULT, 12);
            let sum = code.op(Opcode::RegisterAlu, d, d, t, 0);
            code.op(Opcode::NoOp, N, d, N, 0);
            let (ids, mut c) = left(code);
            assert_eq!(ids, if constant == 0 { vec![0, 1, 3, 5] } else { vec![0, 1, 3, 4, 5] });
            let args: Vec<InstArgs> = c.world.query::<&InstArgs>().iter(&c.world).copied().collect();
            if constant != 0 {
                assert_eq!((args[sum.index()].mode, args[sum.index()].imm0), (1, constant));
            }
        }
    }
}
