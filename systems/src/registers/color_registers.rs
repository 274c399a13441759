//! `color_registers`: a physical id for every register (`spec/ir.md 3.6, 6`).
//!
//! Per engine a scan over the ranges by begin; with one range a register that uses the fewest ids there can be. A range
//! may begin where another one ends, since an instruction reads before it writes; a move whose source ends there takes
//! the source's id and becomes an identity. Pairs stand at even ids; single registers fill half-used pairs first.
//!
//! Where the ids do not suffice, values that can be computed again at their uses give way ([`super::relieve_pressure`]),
//! and colouring starts over. Error `MUR0502` lists what is alive when nothing more can: a register has no home in memory
//! (`spec/ir.md 14-l, 14-bb`).

use super::reg_liveness::reg_liveness;
use super::relieve_pressure::relieve_pressure;
use crate::batch::give_up;
use crate::by_position::by_position;
use crate::columns;
use crate::place::{hlo_name, hlo_source};
use bevy_ecs::prelude::*;
use bevy_ecs::system::RunSystemOnce;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::codes::resource::RES_REGISTERS;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::ALLOCATABLE_REGISTERS;
use murre_components::hlo::HloModule;
use murre_components::ids::*;

/// Low lanes of pairs.
const EVEN: u64 = 0x5555_5555_5555_5555;
const ALL: u64 = (1 << ALLOCATABLE_REGISTERS) - 1;
/// How often pressure is relieved before the program is refused. Each round aims two ids lower, since pairs may need
/// more ids than there are lanes alive.
const ROUNDS: u32 = 8;

/// The pass.
pub fn color_registers(world: &mut World) {
    let mut failed = world.run_system_once(assign_ids);
    if matches!(failed, Ok(Some(_)))
        && give_up(world.resource::<Parts>(), world.resource::<Diagnostics>(), "registers do not suffice")
    {
        return;
    }
    for round in 0..ROUNDS {
        if !matches!(failed, Ok(Some(_))) || !relieve_pressure(world, ALLOCATABLE_REGISTERS - 2 * round) {
            break;
        }
        failed = world.run_system_once(reg_liveness).and_then(|()| world.run_system_once(assign_ids));
    }
    match failed {
        Ok(None) => {}
        Ok(Some(register)) => report(world, register),
        Err(_) => {
            let d = Diagnostic::error(&INTERNAL, "registers cannot be coloured");
            world.resource::<Diagnostics>().push(d);
        }
    }
}

/// The id that a register of `width` takes out of `free`, `wish` if it can.
fn choose(free: u64, width: u8, wish: Option<u8>) -> Option<u8> {
    let pairs = free & (free >> 1) & EVEN;
    let candidates = if width == 2 { pairs } else { free };
    if let Some(w) = wish
        && w < 64
        && candidates >> w & 1 == 1
    {
        return Some(w);
    }
    let halves = candidates & !(pairs | pairs << 1);
    let from = if width == 1 && halves != 0 { halves } else { candidates };
    if from == 0 { None } else { Some(from.trailing_zeros() as u8) }
}

fn lanes(colour: u8, width: u8) -> u64 {
    (if width == 2 { 3u64 } else { 1 }) << colour
}

/// The registers that live, by a position of theirs and then by id.
pub fn living(lives: &[RegLive], at: impl Fn(&RegLive) -> u32) -> Vec<u32> {
    by_position(lives.len(), |r| Some(&lives[r]).filter(|l| l.first <= l.last).map(&at))
}

/// Gives ids to all registers that live. The register for which there was none, if any.
fn assign_ids(
    order: Res<Order>,
    insts: Query<(&InstHead, &InstRegs)>,
    lives: Res<RegLives>,
    mut regs: Query<&mut RegHead>,
) -> Option<RegId> {
    let (heads, inst_regs): (&[InstHead], &[InstRegs]) = columns!(insts);
    let Ok(mut tables) = regs.contiguous_iter_mut() else {
        return None;
    };
    let mut rows = tables.next()?;
    let lives = lives.0.as_slice();
    let rows = rows.bypass_change_detection();
    let starts = living(lives, |l| l.first);
    let ends = living(lives, |l| l.last);
    let mut free = [ALL; 8];
    let mut expired = 0;
    // Registers whose lanes another one took at their last use.
    let mut given = vec![false; rows.len()];
    for &r in &starts {
        let (row, live) = (r as usize, lives[r as usize]);
        let inst = order.0[live.first as usize].index();
        let defined_here = inst_regs[inst].dst == RegId(r);
        // What ends where this one begins is read there; what begins there without being written is read too.
        while let Some(&e) = ends.get(expired)
            && lives[e as usize].last < live.first
        {
            if !given[e as usize] {
                let e = rows[e as usize];
                free[e.engine as usize & 7] |= lanes(e.colour, e.width);
            }
            expired += 1;
        }
        let RegHead { engine, width, .. } = rows[row];
        let mut available = free[engine as usize & 7];
        let mut wish = None;
        if defined_here {
            let sources = inst_regs[inst];
            for s in [sources.src0, sources.src1] {
                if s.is_some() && s.0 != r && lives[s.index()].last == live.first {
                    let s = rows[s.index()];
                    if s.engine == engine && s.colour != RegHead::UNCOLOURED {
                        available |= lanes(s.colour, s.width);
                        if heads[inst].op == Opcode::RegisterMove && s.width == width {
                            wish = Some(s.colour);
                        }
                    }
                }
            }
        }
        let Some(colour) = choose(available, width, wish) else {
            return Some(RegId(r));
        };
        rows[row].colour = colour;
        free[engine as usize & 7] &= !lanes(colour, width);
        // A source that gave lanes away must not free them when its range is passed; the others are free now.
        if defined_here {
            let sources = inst_regs[inst];
            let taken = lanes(colour, width);
            for s in [sources.src0, sources.src1] {
                if s.is_some() && s.0 != r && lives[s.index()].last == live.first {
                    let other = rows[s.index()];
                    if other.engine == engine
                        && other.colour != RegHead::UNCOLOURED
                        && lanes(other.colour, other.width) & taken != 0
                    {
                        given[s.index()] = true;
                        free[engine as usize & 7] |= lanes(other.colour, other.width) & !taken;
                    }
                }
            }
        }
    }
    None
}

/// Refuses the program: what is alive where register `r` begins.
fn report(world: &mut World, r: RegId) {
    let mut regs = world.query::<(&RegHead, &RegFrom)>();
    let (rows, froms) = columns!(regs, world);
    let lives = &world.resource::<RegLives>().0;
    let (module, diagnostics) = (world.resource::<HloModule>(), world.resource::<Diagnostics>());
    let (row, me, at) = (r.index(), rows[r.index()], lives[r.index()].first);
    let alive: Vec<usize> = (0..rows.len())
        .filter(|&r| rows[r].engine == me.engine && lives[r].first <= at && lives[r].last >= at)
        .collect();
    let words: u32 = alive.iter().map(|&r| rows[r].width as u32).sum();
    let name = |r: &usize| {
        let (name, live) = (hlo_name(module, froms[*r].hlo), lives[*r]);
        format!("{} {r} of {name} ({}..{})", rows[*r].role.suffix(), live.first, live.last)
    };
    let names: Vec<String> = alive.iter().take(12).map(name).collect();
    let more = alive.len().saturating_sub(names.len());
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    diagnostics.push(
        Diagnostic::error(&RES_REGISTERS, format!("engine {} runs out of registers", me.engine.name()))
            .on(hlo_name(module, froms[row].hlo))
            .from_source(hlo_source(module, froms[row].hlo))
            .found(format!("{words} alive at {at}: {}{tail}", names.join(", ")))
            .expected(format!("at most {ALLOCATABLE_REGISTERS}, 64-bit values at even ids"))
            .help("compute run-time indices nearer to their use")
            .ordered(row as u32),
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::pass::Stage;
    use crate::staging::Staging;
    use crate::synth::Lcg;
    use murre_components::engine::EngineId;

    pub(crate) const E: EngineId = EngineId::Dve;

    pub(crate) struct Code {
        pub rows: Staging,
        pub order: Vec<InstId>,
    }

    impl Code {
        pub fn new() -> Self {
            Code { rows: Staging::default(), order: Vec::new() }
        }
        pub fn reg(&mut self, width: u8) -> RegId {
            let mut row = RegRow::new(E, RegRole::Scalar, HloId::NONE);
            row.head.width = width;
            self.rows.reg(row)
        }
        pub fn op(&mut self, op: Opcode, dst: RegId, src0: RegId, src1: RegId, aux: u32) -> InstId {
            let mut row = InstRow::new(op, E, HloId::NONE);
            row.regs = InstRegs { src0, src1, dst };
            row.args.aux = aux;
            row.args.mode = (src1.is_none() && !(op == Opcode::RegisterMove && src0.is_some())) as u8;
            row.args.op0 = crate::address::walk::op::ADD;
            // Sums add 1, constants differ.
            row.args.imm0 = if op == Opcode::RegisterMove { dst.0 } else { 1 };
            let id = self.rows.inst(row, &[], &[]);
            self.order.push(id);
            id
        }
        pub fn run(self) -> Compiler {
            let mut c = Compiler::new(HloModule::default(), Default::default());
            self.rows.flush(&mut c.world);
            c.world.insert_resource(Order(self.order));
            c.world.resource_mut::<crate::CompileOptions>().verify = true;
            c.run(&[Stage::Registers]);
            c
        }
        pub fn colours(c: &mut Compiler) -> Vec<u8> {
            c.world.query::<&RegHead>().iter(&c.world).map(|r| r.colour).collect()
        }
    }

    const N: RegId = RegId::NONE;

    /// Values that cannot be computed again: each is written twice.
    fn many(count: u32, width: u8) -> Compiler {
        let mut code = Code::new();
        let regs: Vec<RegId> = (0..count).map(|_| code.reg(width)).collect();
        for r in &regs {
            code.op(Opcode::RegisterMove, *r, N, N, 0);
            code.op(Opcode::RegisterAlu, *r, *r, *r, 0);
        }
        for r in &regs {
            code.op(Opcode::NoOp, N, *r, N, 0);
        }
        code.run()
    }

    #[test]
    fn sixty_two_fit_and_one_more_does_not() {
        let mut c = many(62, 1);
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        let mut colours = Code::colours(&mut c);
        colours.sort_unstable();
        assert_eq!(colours, (0..62).collect::<Vec<u8>>());
        let d = many(63, 1).world.resource::<Diagnostics>().take();
        assert_eq!(d[0].code.id, "MUR0502");
        assert!(d[0].found.as_deref().is_some_and(|f| f.starts_with("63 alive")));
        let mut c = many(31, 2);
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        assert!(Code::colours(&mut c).iter().all(|k| k % 2 == 0));
        assert!(many(32, 2).world.resource::<Diagnostics>().has_errors());
    }

    #[test]
    fn a_move_whose_source_ends_disappears() {
        let mut code = Code::new();
        let (a, b) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, a, N, N, 0);
        code.op(Opcode::RegisterAlu, a, a, N, 0);
        code.op(Opcode::CompareAndBranch, N, a, N, 5);
        code.op(Opcode::RegisterMove, b, a, N, 0);
        code.op(Opcode::NoOp, N, b, N, 0);
        code.op(Opcode::Terminator, N, N, N, 0);
        let mut c = code.run();
        assert_eq!(c.world.resource::<Order>().0, [0, 1, 2, 4, 5].map(InstId));
        let colours = Code::colours(&mut c);
        assert_eq!(colours[0], colours[1]);
    }

    /// Random programs: definitions and uses, and with `loops` also moves and loops; everything is defined before it is used.
    pub(crate) fn random(n: u32, seed: u64, loops: bool) -> Compiler {
        let (mut code, mut rng) = (Code::new(), Lcg::new(seed));
        let mut known: Vec<(RegId, u8)> = Vec::new();
        let mut open: Vec<(InstId, RegId, usize)> = Vec::new();
        for _ in 0..n {
            let pick = |rng: &mut Lcg, known: &[(RegId, u8)], width: u8| {
                let fitting: Vec<RegId> = known.iter().filter(|k| k.1 == width).map(|k| k.0).collect();
                fitting.get(rng.below(fitting.len() as u32) as usize).copied().unwrap_or(N)
            };
            match rng.below(16) {
                0 if loops && open.len() < 3 => {
                    let iv = code.reg(1);
                    code.op(Opcode::RegisterMove, iv, N, N, 0);
                    let label = code.op(Opcode::DynamicForLoop, N, N, N, 0);
                    known.push((iv, 1));
                    open.push((label, iv, known.len()));
                }
                1 => {
                    if let Some((label, iv, depth)) = open.pop() {
                        code.op(Opcode::RegisterAlu, iv, iv, N, 0);
                        code.op(Opcode::CompareAndBranch, N, iv, N, label.0);
                        code.op(Opcode::Terminator, N, N, N, 0);
                        known.truncate(depth);
                    }
                }
                2..=5 => {
                    let width = 1 + (rng.below(4) == 0) as u8;
                    let r = code.reg(width);
                    code.op(Opcode::RegisterMove, r, N, N, 0);
                    known.push((r, width));
                }
                6..=11 => {
                    let width = 1 + (rng.below(4) == 0) as u8;
                    let (a, b) = (pick(&mut rng, &known, width), pick(&mut rng, &known, width));
                    let r = code.reg(width);
                    let op = if a.is_none() { Opcode::RegisterMove } else { Opcode::RegisterAlu };
                    code.op(op, r, a, b, 0);
                    known.push((r, width));
                }
                12..=13 if loops => {
                    let (a, r) = (pick(&mut rng, &known, 1), code.reg(1));
                    code.op(Opcode::RegisterMove, r, a, N, 0);
                    known.push((r, 1));
                }
                _ => {
                    let a = pick(&mut rng, &known, 1);
                    code.op(Opcode::NoOp, N, a, N, 0);
                }
            }
            let floor = open.last().map_or(0, |o| o.2);
            if known.len() > floor + 8 {
                known.remove(floor);
            }
        }
        while let Some((label, iv, _)) = open.pop() {
            code.op(Opcode::RegisterAlu, iv, iv, N, 0);
            code.op(Opcode::CompareAndBranch, N, iv, N, label.0);
            code.op(Opcode::Terminator, N, N, N, 0);
        }
        code.run()
    }

    #[test]
    fn random_programs_pass_the_symbolic_checker() {
        for seed in 0..60 {
            let d = random(400, seed, true).world.resource::<Diagnostics>().take();
            assert!(d.is_empty(), "seed {seed}: {:?}", d[0]);
        }
    }
}
