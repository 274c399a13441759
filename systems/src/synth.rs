//! Synthetic back-end programs for tests and benches.
//!
//! In: a size and a seed. Out: a compiler whose tables hold a program of about that many BIR instructions as stage 3
//! receives it, that is, in the form that code generation leaves: structured loops, control scalars on engine ALL,
//! abstract DMA copies, symbolic patterns. The same numbers give the same program. Tiles are used near their
//! definition, as in real programs, so that live sets stay small while the program grows.

use crate::batch::{Batch, Member};
use crate::compile::Compiler;
use crate::options::CompileOptions;
use crate::staging::{Operand, Staging};
use bevy_ecs::prelude::World;
use murre_components::bir::*;
use murre_components::dtype::{DType, HloType};
use murre_components::engine::{EngineId, PARTITIONS};
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::program::VarKind;

/// A linear congruential generator (the constants of Knuth's MMIX), upper bits returned.
#[derive(Clone, Debug)]
pub struct Lcg(u64);

impl Lcg {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Lcg(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x6D75_7272_6521)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 33) * n as u64) >> 31) as u32
    }
}

/// An SBUF value: location and elements of a partition.
#[derive(Clone, Copy)]
struct Tile {
    loc: LocId,
    elems: u32,
}

struct Builder {
    rows: Staging,
    /// The first location of the program.
    first_loc: u32,
    order: Vec<InstId>,
    exprs: Exprs,
    payloads: Payloads,
    rng: Lcg,
    /// Values that may be read, oldest first.
    tiles: Vec<Tile>,
    /// A run-time scalar on ALL, clamped to `0..=SCALAR_MAX`.
    scalar: RegId,
    /// Row-major DRAM inputs and outputs.
    inputs: Vec<Tile>,
    outputs: Vec<Tile>,
    /// Open loops.
    axes: Vec<AxisId>,
}

/// Most values that stay readable at once.
const WINDOW: usize = 12;
/// Largest index a control scalar takes.
const SCALAR_MAX: u32 = 7;
/// Rows of a DRAM array that dynamic DMAs index, in tiles.
const SLOTS: u32 = SCALAR_MAX + 1;

/// A program of about `n` instructions.
pub fn synthetic(n: u32, seed: u64) -> Compiler {
    let mut compiler = Compiler::new(HloModule::default(), CompileOptions::default());
    let mut b = Builder::new(Staging::new(&compiler.world));
    b.program(n, seed);
    let signature = signature(&b.rows.locs);
    compiler.world.insert_resource(signature);
    b.finish(&mut compiler.world);
    compiler
}

/// Programs in one world, each of about so many instructions and from a seed of its own: those that [`synthetic`] gives.
pub fn synthetic_batch(programs: &[(u32, u64)]) -> Compiler {
    let mut compiler = Compiler::new(HloModule::default(), CompileOptions::default());
    let mut b = Builder::new(Staging::new(&compiler.world));
    let (mut parts, mut members) = (Vec::new(), Vec::new());
    for &(n, seed) in programs {
        let first = b.rows.locs.len();
        parts.push(Part { loc: first as u32, position: b.order.len() as u32, ..Part::default() });
        b.program(n, seed);
        members.push(Member { signature: signature(&b.rows.locs[first..]), ..Member::default() });
    }
    compiler.world.insert_resource(Parts(parts));
    compiler.world.insert_resource(Batch(members));
    b.finish(&mut compiler.world);
    compiler
}

/// The host's view of the input and output arrays.
fn signature(locs: &[LocRow]) -> Signature {
    let leaves = |kind: VarKind| {
        let mut rows: Vec<&LocRow> = locs.iter().filter(|l| l.head.kind == kind).collect();
        rows.sort_by_key(|l| l.from.ordinal);
        rows.into_iter()
            .map(|l| SignatureLeaf {
                name: format!("{kind:?}{}", l.from.ordinal).to_lowercase(),
                ty: if l.head.dtype == DType::I32 { HloType::S32 } else { HloType::F32 },
                dims: vec![l.head.part_elems],
            })
            .collect()
    };
    Signature { inputs: leaves(VarKind::Input), outputs: leaves(VarKind::Output), ..Signature::default() }
}

/// The whole of `elems` elements in each of 128 partitions, out of rows of `row` elements.
fn rows_of(row: u32, elems: u32) -> ApPattern {
    ApPattern::of([(row as i32, PARTITIONS), (1, elems)])
}

fn whole(t: Tile) -> Operand {
    Operand {
        loc: t.loc,
        offset: 0,
        dtype: DType::F32,
        pattern: rows_of(t.elems, t.elems),
        kind: ApKind::Physical,
        payload: PayloadKey::default(),
        flags: 0,
    }
}

impl Builder {
    fn new(rows: Staging) -> Builder {
        Builder {
            rows,
            first_loc: 0,
            order: Vec::new(),
            exprs: Exprs::default(),
            payloads: Payloads::default(),
            rng: Lcg::new(0),
            tiles: Vec::new(),
            scalar: RegId::NONE,
            inputs: Vec::new(),
            outputs: Vec::new(),
            axes: Vec::new(),
        }
    }

    /// A program behind those that are there.
    fn program(&mut self, n: u32, seed: u64) {
        (self.rng, self.scalar) = (Lcg::new(seed), RegId::NONE);
        (self.tiles, self.inputs, self.outputs) = Default::default();
        self.first_loc = self.rows.locs.len() as u32;
        let end = self.order.len() + n as usize;
        self.prologue();
        while self.order.len() < end {
            match self.rng.below(100) {
                0 => self.counted_loop(end),
                1..=4 => self.control(),
                _ => self.compute(),
            }
        }
        self.emit(Opcode::Exit, EngineId::All, |_| (), &[], &[]);
    }

    fn finish(self, world: &mut World) {
        self.rows.flush(world);
        world.insert_resource(Order(self.order));
        world.insert_resource(self.exprs);
        world.insert_resource(self.payloads);
    }

    fn emit(
        &mut self,
        op: Opcode,
        engine: EngineId,
        set: impl FnOnce(&mut InstRow),
        outputs: &[Operand],
        inputs: &[Operand],
    ) -> InstId {
        let mut row = InstRow::new(op, engine, HloId::NONE);
        set(&mut row);
        let id = self.rows.inst(row, outputs, inputs);
        self.order.push(id);
        id
    }

    fn sbuf(&mut self, elems: u32) -> Tile {
        let row = LocRow::new(Space::Sbuf, DType::F32, PARTITIONS, elems as u64, HloId::NONE);
        Tile { loc: self.rows.loc(row), elems }
    }

    fn dram(&mut self, kind: VarKind, dtype: DType, elems: u64, ordinal: u32) -> LocId {
        let mut row = LocRow::new(Space::Dram, dtype, 1, elems, HloId::NONE);
        row.head.kind = kind;
        row.from.ordinal = ordinal;
        self.rows.loc(row)
    }

    fn scalar_reg(&mut self) -> RegId {
        let mut row = RegRow::new(EngineId::All, RegRole::Scalar, HloId::NONE);
        row.bounds = RegBounds { lo: 0, hi: SCALAR_MAX as i64 };
        self.rows.reg(row)
    }

    fn keep(&mut self, t: Tile) {
        self.tiles.push(t);
        if self.tiles.len() > WINDOW {
            self.tiles.remove(0);
        }
    }

    /// A readable tile, preferably of `elems` elements.
    fn pick(&mut self, elems: Option<u32>) -> Tile {
        let start = self.rng.below(self.tiles.len() as u32) as usize;
        let rotated = self.tiles[start..].iter().chain(&self.tiles[..start]);
        if let Some(t) = rotated.copied().find(|t| elems.is_none_or(|e| e == t.elems)) {
            return t;
        }
        self.load(elems.unwrap_or(128))
    }

    /// Arrays, the control scalar, the first tiles.
    fn prologue(&mut self) {
        for k in 0..4 {
            let elems = 128 << (k % 3);
            let words = elems as u64 * PARTITIONS as u64 * SLOTS as u64;
            let input = self.dram(VarKind::Input, DType::F32, words, k);
            let output = self.dram(VarKind::Output, DType::F32, words, k);
            self.inputs.push(Tile { loc: input, elems });
            self.outputs.push(Tile { loc: output, elems });
        }
        let word = |loc| Operand {
            loc,
            offset: 0,
            dtype: DType::I32,
            pattern: ApPattern::of([(1, 1), (1, 1)]),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        };
        let given = self.dram(VarKind::Input, DType::I32, 1, 4);
        let index = self.dram(VarKind::Internal, DType::I32, 1, u32::MAX);
        self.emit(Opcode::DmaCopy, EngineId::Dma, |_| (), &[word(index)], &[word(given)]);
        let raw = self.scalar_reg();
        let set = |row: &mut InstRow| {
            row.head.flags = InstHead::CONTROL;
            row.args.dtype = DType::I32.wire_tag();
            row.regs.dst = raw;
        };
        self.emit(Opcode::TensorLoad, EngineId::All, set, &[], &[word(index)]);
        self.scalar = self.clamped(raw);
        for elems in [128, 256, 512] {
            self.load(elems);
        }
    }

    /// `min(max(raw, 0), SCALAR_MAX)`.
    fn clamped(&mut self, raw: RegId) -> RegId {
        let (low, out) = (self.scalar_reg(), self.scalar_reg());
        self.alu(8, raw, 0, low);
        self.alu(9, low, SCALAR_MAX, out);
        out
    }

    fn alu(&mut self, op: u8, src: RegId, imm: u32, dst: RegId) {
        let set = |row: &mut InstRow| {
            row.args = InstArgs { op0: op, mode: 1, dtype: 8, imm0: imm, ..Default::default() };
            row.regs = InstRegs { src0: src, src1: RegId::NONE, dst };
        };
        self.emit(Opcode::RegisterAlu, EngineId::All, set, &[], &[]);
    }

    /// A fresh control scalar from the present one, or from a constant.
    fn control(&mut self) {
        let next = self.scalar_reg();
        if self.rng.below(3) == 0 {
            let value = self.rng.below(SCALAR_MAX);
            let set = |row: &mut InstRow| {
                row.args = InstArgs { mode: 1, dtype: 8, imm0: value, ..Default::default() };
                row.regs.dst = next;
            };
            self.emit(Opcode::RegisterMove, EngineId::All, set, &[], &[]);
            // A scalar made inside a loop is not defined behind it when the loop runs no trip.
            if self.axes.is_empty() {
                self.scalar = next;
            }
            return;
        }
        let step = 1 + self.rng.below(3);
        self.alu(4, self.scalar, step, next);
        let next = self.clamped(next);
        if self.axes.is_empty() {
            self.scalar = next;
        }
    }

    /// A static load of a whole array.
    fn load(&mut self, elems: u32) -> Tile {
        let t = self.sbuf(elems);
        let k = self.rng.below(self.inputs.len() as u32) as usize;
        let from = self.inputs.iter().cycle().skip(k).take(4).find(|i| i.elems == elems).copied();
        let from = from.unwrap_or(self.inputs[0]);
        let input = Operand {
            offset: self.rng.below(SLOTS) * from.elems * PARTITIONS,
            pattern: rows_of(from.elems, elems.min(from.elems)),
            ..whole(from)
        };
        let output = Operand { pattern: rows_of(elems, elems.min(from.elems)), ..whole(t) };
        self.emit(Opcode::DmaCopy, EngineId::Dma, |r| r.head.flags = InstHead::IO, &[output], &[input]);
        self.keep(t);
        t
    }

    fn store(&mut self) {
        let t = self.pick(None);
        let to = self.outputs.iter().find(|o| o.elems >= t.elems).copied().unwrap_or(self.outputs[0]);
        let n = t.elems.min(to.elems);
        let output = Operand {
            offset: self.rng.below(SLOTS) * to.elems * PARTITIONS,
            pattern: rows_of(to.elems, n),
            ..whole(to)
        };
        let input = Operand { pattern: rows_of(t.elems, n), ..whole(t) };
        // Half of the stores count as IO copies and may be generated; the others have their descriptors built ahead.
        let number = t.loc.0 - self.first_loc;
        let flags = if number.is_multiple_of(2) { InstHead::IO } else { 0 };
        self.emit(Opcode::DmaCopy, EngineId::Dma, |r| r.head.flags = flags, &[output], &[input]);
    }

    /// A DMA whose DRAM side starts at `scalar * slot`.
    fn dynamic_dma(&mut self, is_load: bool) {
        let arrays = if is_load { &self.inputs } else { &self.outputs };
        let array = arrays[self.rng.below(arrays.len() as u32) as usize];
        let expr = self.exprs.intern(Expr::RuntimeInt(self.scalar));
        let mut terms = arrayvec::ArrayVec::new();
        terms.push(DynamicTerm { expr, coef: array.elems as i64 * PARTITIONS as i64 });
        let payload = self.payloads.0.insert(Payload::Dynamic(DynamicApInfo {
            kind: OffsetKind::Scalar,
            terms,
            c: 0,
            indirect_dim: 0,
            indirect_dim_max_index: SLOTS,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        }));
        let dram = Operand { payload, ..whole(array) };
        let t = if is_load { self.sbuf(array.elems) } else { self.pick(Some(array.elems)) };
        let n = t.elems.min(array.elems);
        let tile = Operand { pattern: rows_of(t.elems, n), ..whole(t) };
        let dram = Operand { pattern: rows_of(array.elems, n), ..dram };
        let (output, input) = if is_load { (tile, dram) } else { (dram, tile) };
        let set = |r: &mut InstRow| r.head.flags = InstHead::DYNAMIC | InstHead::IO;
        self.emit(Opcode::DmaCopy, EngineId::Pool, set, &[output], &[input]);
        if is_load {
            self.keep(t);
        }
    }

    /// A copy between a static tile and a window of another one that moves with the innermost loop.
    fn dynamic_copy(&mut self, is_source: bool) {
        let Some(&axis) = self.axes.last() else {
            return;
        };
        let wide = self.pick(Some(512));
        let width = 512 / SLOTS;
        let iv = self.exprs.intern(Expr::AxisIv(axis));
        let tile = self.exprs.affine([(iv, width as i64)], 0);
        let block = self.exprs.constant(0);
        let payload = self.payloads.0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
        let moving = Operand {
            kind: ApKind::Symbolic,
            payload,
            pattern: rows_of(wide.elems, width.min(wide.elems)),
            ..whole(wide)
        };
        if is_source {
            let t = self.sbuf(width);
            self.emit(Opcode::TensorCopyDynamicSrc, EngineId::Dve, |_| (), &[whole(t)], &[moving]);
        } else {
            let t = self.pick(Some(128));
            let part = Operand { pattern: rows_of(t.elems, width.min(t.elems)), ..whole(t) };
            self.emit(Opcode::TensorCopyDynamicDst, EngineId::Dve, |_| (), &[moving], &[part]);
        }
    }

    fn matmult(&mut self) {
        let (weights, moving) = (self.pick(Some(128)), self.pick(None));
        let n = moving.elems.min(512);
        let row = LocRow::new(Space::Psum, DType::F32, PARTITIONS, n as u64, HloId::NONE);
        let psum = Tile { loc: self.rows.loc(row), elems: n };
        let moving = Operand { pattern: rows_of(moving.elems, n), ..whole(moving) };
        self.emit(Opcode::Matmult, EngineId::Pe, |_| (), &[whole(psum)], &[moving, whole(weights)]);
        let out = self.sbuf(n);
        let engine = if self.rng.below(2) == 0 { EngineId::Activation } else { EngineId::Dve };
        self.emit(Opcode::TensorCopy, engine, |_| (), &[whole(out)], &[whole(psum)]);
        self.keep(out);
    }

    /// One step of the mix.
    fn compute(&mut self) {
        match self.rng.below(20) {
            0..=3 => {
                let elems = 128 << self.rng.below(3);
                self.load(elems);
            }
            4..=5 => self.store(),
            6..=10 => {
                let a = self.pick(None);
                let b = self.pick(Some(a.elems));
                let out = self.sbuf(a.elems);
                let set = |r: &mut InstRow| r.args.op0 = 4;
                let engine = if self.rng.below(4) == 0 { EngineId::Pool } else { EngineId::Dve };
                self.emit(Opcode::TensorTensor, engine, set, &[whole(out)], &[whole(a), whole(b)]);
                self.keep(out);
            }
            11..=13 => {
                let a = self.pick(None);
                let out = self.sbuf(a.elems);
                let set = |r: &mut InstRow| r.args.imm0 = 1.0f32.to_bits();
                self.emit(Opcode::Activation, EngineId::Activation, set, &[whole(out)], &[whole(a)]);
                self.keep(out);
            }
            14..=16 => self.matmult(),
            17 => self.dynamic_dma(true),
            18 => self.dynamic_dma(false),
            _ => {
                let is_source = self.rng.below(2) == 0;
                self.dynamic_copy(is_source);
            }
        }
    }

    /// A counted loop of about fifty instructions, possibly with one inside it.
    fn counted_loop(&mut self, program_end: usize) {
        if self.axes.len() >= 2 || self.order.len() + 60 > program_end {
            return;
        }
        let limit = self.exprs.intern(Expr::RuntimeInt(self.scalar));
        let (lb, step) = (self.exprs.constant(0), self.exprs.constant(1));
        let ub = self.exprs.affine([(limit, 1)], 0);
        let iv = self.rows.reg(RegRow::new(EngineId::All, RegRole::Induction, HloId::NONE));
        let axis = self.rows.axis(AxisRow {
            head: AxisHead {
                parent: self.axes.last().copied().unwrap_or(AxisId::NONE),
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::DynamicFor,
                unsigned: 0,
                depth: self.axes.len() as u16,
            },
            bounds: AxisBounds { lb, ub, step, max_trip: SCALAR_MAX as u64 },
            regs: AxisRegs { iv, limit: RegId::NONE, condition: RegId::NONE, per_engine: [RegId::NONE; 5] },
        });
        let label = |r: &mut InstRow| r.args.aux = axis.0;
        let begin = self.emit(Opcode::DynamicForLoop, EngineId::All, label, &[], &[]);
        self.axes.push(axis);
        // What the body makes is not there when the loop runs no trip; what stood before it stays readable inside.
        let outside = self.tiles.clone();
        let (end, nest_at) = (self.order.len() + 50, self.order.len() + 20);
        let nested = self.axes.len() < 2 && self.rng.below(3) == 0;
        let mut inner = false;
        while self.order.len() < end {
            if nested && !inner && self.order.len() >= nest_at {
                inner = true;
                self.counted_loop(program_end);
            }
            match self.rng.below(12) {
                0 => self.control(),
                _ => self.compute(),
            }
        }
        self.tiles = outside;
        self.axes.pop();
        let end = self.emit(Opcode::Terminator, EngineId::All, label, &[], &[]);
        if let Some(row) = self.rows.axes.get_mut(axis.index()) {
            (row.head.begin, row.head.end) = (begin, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Counts;

    fn text(n: u32, seed: u64) -> String {
        let mut c = synthetic(n, seed);
        let order = c.world.resource::<Order>().0.clone();
        let mut q = c.world.query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs)>();
        let (heads, operands, args, regs) = columns(&mut q, &c.world);
        let mut s = String::new();
        for id in order {
            let i = id.index();
            s += &format!("{:?} {:?} {:?} {:?}\n", heads[i], operands[i], args[i], regs[i]);
        }
        s
    }

    fn columns<'w>(
        q: &mut bevy_ecs::query::QueryState<(
            &'static InstHead,
            &'static InstOperands,
            &'static InstArgs,
            &'static InstRegs,
        )>,
        world: &'w bevy_ecs::world::World,
    ) -> (&'w [InstHead], &'w [InstOperands], &'w [InstArgs], &'w [InstRegs]) {
        crate::columns!(q, world)
    }

    #[test]
    fn the_same_seed_gives_the_same_program() {
        assert_eq!(text(700, 3), text(700, 3));
        assert_ne!(text(700, 3), text(700, 4));
    }

    #[test]
    fn size_mix_and_structure_are_as_described() {
        let mut c = synthetic(4000, 1);
        let order = c.world.resource::<Order>().0.clone();
        assert!(order.len() >= 4000 && order.len() < 4200, "{}", order.len());
        assert_eq!(c.world.resource::<Counts>().insts as usize, order.len());
        let mut q = c.world.query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs)>();
        let (heads, _, args, _) = columns(&mut q, &c.world);
        let mut open = Vec::new();
        let mut deepest = 0;
        for id in &order {
            let (h, a) = (heads[id.index()], args[id.index()]);
            match h.op {
                Opcode::DynamicForLoop => open.push(a.axis()),
                Opcode::Terminator => assert_eq!(open.pop(), Some(a.axis())),
                _ => {}
            }
            deepest = deepest.max(open.len());
        }
        assert!(open.is_empty());
        assert_eq!(deepest, 2);
        for op in [
            Opcode::DmaCopy,
            Opcode::TensorTensor,
            Opcode::Activation,
            Opcode::Matmult,
            Opcode::TensorCopyDynamicSrc,
            Opcode::TensorCopyDynamicDst,
            Opcode::RegisterAlu,
            Opcode::RegisterMove,
            Opcode::TensorLoad,
        ] {
            assert!(heads.iter().any(|h| h.op == op), "{op:?}");
        }
    }
}
