//! The state of lowering one module to Penguin nodes, and the emitters that every operation uses.

use super::leaf::{Leaf, fits_register, integer};
use super::uses::Uses;
use super::values::Values;
use super::view::{Dims, DmaSide, Layout, Sizes, View, engine_pattern, row_major, split_at};
use crate::staging::Staging;
use murre_components::bir::*;
use murre_components::diag::codes::lower as codes;
use murre_components::diag::{Code, Diagnostic};
use murre_components::dtype::{DType, HloType};
use murre_components::engine::{EngineId, Target};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{ArrayShape, HloModule, HloOp};
use murre_components::hlo_table::HloHome;
use murre_components::ids::*;
use murre_components::penguin::*;
use murre_components::program::VarKind;
use smallvec::smallvec;

/// Largest tensor that a loop carries in SBUF along one partition, and largest dynamically updated tensor kept there,
/// bytes.
pub const SBUF_HOME_BYTES: u64 = 16 * 1024;

/// Longest tensor that an elementwise operation leaves along one partition because an operand stands there, elements.
pub const LONG_LINE: u64 = 2048;

/// Bytes of a partition that all such tensors together may take: they live long, so what is more goes to DRAM.
pub const RESIDENT_BYTES: u64 = 64 * 1024;

/// Most bytes of a partition that one tile may take.
pub const TILE_BYTES: u64 = 48 * 1024;

/// What lowering knows of a location.
#[derive(Clone, Copy, Debug)]
pub struct LocFacts {
    /// Space.
    pub space: Space,
    /// Element type.
    pub dtype: DType,
    /// Partitions.
    pub parts: u64,
    /// Elements of a partition.
    pub part_elems: u64,
    /// Loop depth that may overwrite it; `u32::MAX` for inputs and constants.
    pub owner: u32,
    /// Readers still to come.
    pub remaining: i64,
}

/// A refusal: the operation cannot be lowered. Carries the diagnostic.
pub type Lowered<T> = Result<T, Box<Diagnostic>>;

/// What lowering makes, of one module or of several one behind the other.
#[allow(missing_docs)]
pub struct LoweredTables {
    pub staging: Staging,
    pub nodes: Vec<NodeRow>,
    pub operands: Vec<NodeOperand>,
    pub dynamic: Vec<TensorCopyDynamic>,
    pub exprs: Exprs,
    /// Constant bytes of the last module.
    pub constants: Vec<u8>,
    pub locs: Vec<LocFacts>,
    /// Where the value of each HLO instruction stands.
    pub homes: Vec<HloHome>,
}

/// Rows of the tables before a module is lowered.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct FirstRows {
    pub nodes: usize,
    pub locs: usize,
    regs: usize,
}

impl LoweredTables {
    /// Empty tables. `staging` has no rows.
    pub fn new(staging: Staging) -> LoweredTables {
        LoweredTables {
            staging,
            nodes: Vec::new(),
            operands: Vec::new(),
            dynamic: Vec::new(),
            exprs: Exprs::default(),
            constants: Vec::new(),
            locs: Vec::new(),
            homes: Vec::new(),
        }
    }

    /// Where the next module begins.
    pub fn first_rows(&self) -> FirstRows {
        FirstRows { nodes: self.nodes.len(), locs: self.staging.locs.len(), regs: self.staging.regs.len() }
    }

    /// The HLO instructions that the rows from `first` on serve count from `base` on.
    pub fn number_from(&mut self, first: FirstRows, base: u32) {
        let number = |hlo: &mut HloId| {
            if hlo.is_some() {
                hlo.0 += base;
            }
        };
        self.nodes[first.nodes..].iter_mut().for_each(|n| number(&mut n.head.hlo));
        self.staging.locs[first.locs..].iter_mut().for_each(|l| number(&mut l.from.hlo));
        self.staging.regs[first.regs..].iter_mut().for_each(|r| number(&mut r.from.hlo));
    }
}

/// Lowering state.
pub struct Lower<'m> {
    /// The module.
    pub module: &'m HloModule,
    /// The machine.
    pub target: Target,
    /// New rows.
    pub staging: Staging,
    /// Nodes in program order.
    pub nodes: Vec<NodeRow>,
    /// Their operands.
    pub operands: Vec<NodeOperand>,
    /// Dynamic payloads.
    pub dynamic: Vec<TensorCopyDynamic>,
    /// Expressions.
    pub exprs: Exprs,
    /// Constant bytes.
    pub constants: Vec<u8>,
    constant_locs: SeededMap<Vec<u8>, LocId>,
    /// Facts by location.
    pub locs: Vec<LocFacts>,
    /// Where the values of the instructions of earlier modules stand.
    homes: Vec<HloHome>,
    /// Leaves by instruction.
    pub values: Values,
    /// Readers of the computations being lowered, innermost last.
    pub uses: Vec<Uses>,
    /// Enclosing axes, innermost last.
    pub axes: Vec<AxisId>,
    /// The instruction being lowered.
    pub current: HloId,
    /// Output locations by result leaf, where an operation has written the result in place.
    pub outputs: Vec<LocId>,
    /// The result leaf that may live where a donated parameter stands, by location.
    pub donated: SeededMap<LocId, u32>,
    /// The integer scalar parameters by location, and the register of those that are loaded.
    pub scalar_parameters: SeededMap<LocId, (HloId, Option<RegId>)>,
    /// Most multiplications that a dot is unrolled to.
    pub unroll_limit: u64,
    /// Whether the PE array transposes exactly.
    pub transposes: bool,
    /// Bytes of a partition that loop carries and updated tensors take.
    pub resident: u64,
    /// Instructions lowered so far, a computation that is called twice counted twice.
    pub lowered: usize,
}

fn home_of(leaf: Option<&Leaf>) -> HloHome {
    match leaf {
        Some(Leaf::Scalar { reg, .. }) => HloHome { reg: *reg, loc: LocId::NONE },
        Some(Leaf::View(v)) => HloHome { reg: RegId::NONE, loc: v.loc },
        _ => HloHome::default(),
    }
}

impl<'m> Lower<'m> {
    /// The state in front of a module, whose rows go behind those of `tables`.
    pub fn new(module: &'m HloModule, target: Target, mut tables: LoweredTables) -> Self {
        // At least, of most programs.
        let instructions = module.len();
        tables.staging.locs.reserve(instructions);
        tables.nodes.reserve(instructions);
        tables.operands.reserve(2 * instructions);
        tables.locs.reserve(instructions);
        let LoweredTables { staging, nodes, operands, dynamic, exprs, constants, locs, homes } = tables;
        Lower {
            module,
            target,
            staging,
            nodes,
            operands,
            dynamic,
            exprs,
            constants,
            constant_locs: seeded_map(),
            locs,
            homes,
            values: Values::new(instructions),
            uses: Vec::new(),
            axes: Vec::new(),
            current: HloId::NONE,
            outputs: Vec::new(),
            donated: seeded_map(),
            scalar_parameters: seeded_map(),
            unroll_limit: 512,
            transposes: false,
            resident: 0,
            lowered: 0,
        }
    }

    /// The tables, with what this module has added.
    pub fn into_tables(mut self) -> LoweredTables {
        let first = self.homes.len();
        self.homes.extend(self.module.ids().map(|id| home_of(self.values.of(id).first())));
        for &(parameter, reg) in self.scalar_parameters.values() {
            self.homes[first + parameter.index()].reg = reg.unwrap_or_default();
        }
        let Lower { staging, nodes, operands, dynamic, exprs, constants, locs, homes, .. } = self;
        LoweredTables { staging, nodes, operands, dynamic, exprs, constants, locs, homes }
    }

    /// A refusal of the current instruction.
    pub fn refuse<T>(&self, code: Code, message: impl Into<String>) -> Lowered<T> {
        let mut d = Diagnostic::error(code, message).ordered(self.current.0);
        if self.current.is_some() {
            let inst = self.module.inst(self.current);
            d = d.on(inst.name()).from_source(inst.source());
        }
        Err(Box::new(d))
    }

    /// The machine type of an HLO type, or a refusal.
    pub fn dtype(&self, ty: HloType) -> Lowered<DType> {
        match DType::of(ty) {
            Some(d) => Ok(d),
            _ => self.refuse(&codes::LOWER_TYPE, format!("element type {} is not lowered", ty.name())),
        }
    }

    /// The innermost axis.
    pub fn axis(&self) -> AxisId {
        self.axes.last().copied().unwrap_or(AxisId::NONE)
    }

    /// Loop depth.
    pub fn depth(&self) -> u32 {
        self.axes.len() as u32
    }

    /// Emits a node.
    pub fn node(
        &mut self,
        kind: NodeKind,
        op: HloOp,
        sub: u8,
        flags: u8,
        operands: impl IntoIterator<Item = NodeOperand>,
        scalars: NodeScalars,
    ) {
        let first = self.operands.len() as u32;
        self.operands.extend(operands);
        let count = self.operands.len() as u32 - first;
        self.nodes.push(NodeRow {
            head: NodeHead { kind, op, sub, flags, hlo: self.current, axis: self.axis() },
            operands: NodeOperands { first, count },
            scalars,
        });
    }

    /// A new location.
    pub fn new_loc(&mut self, space: Space, kind: VarKind, ty: DType, parts: u64, part_elems: u64) -> LocId {
        let mut row = LocRow::new(space, ty, parts as u32, part_elems, self.current);
        row.head.kind = kind;
        let owner = if matches!(kind, VarKind::Input | VarKind::Const) { u32::MAX } else { self.depth() };
        self.locs.push(LocFacts { space, dtype: ty, parts, part_elems, owner, remaining: 0 });
        self.staging.loc(row)
    }

    /// A new SBUF tile, or a refusal when one partition's share is too large.
    pub fn tile(&mut self, ty: DType, layout: Layout) -> Lowered<LocId> {
        let bytes = layout.free * ty.bytes() as u64;
        if bytes > TILE_BYTES {
            return self.refuse(
                &codes::LOWER_TILE,
                format!(
                    "a tile of {} x {} {} needs {bytes} bytes of a partition",
                    layout.parts,
                    layout.free,
                    ty.name()
                ),
            );
        }
        Ok(self.new_loc(Space::Sbuf, VarKind::Internal, ty, layout.parts, layout.free))
    }

    /// Facts of a location.
    pub fn facts(&self, loc: LocId) -> LocFacts {
        self.locs[loc.index()]
    }

    /// Elements of a partition of a view's location, counted in the view's own element type.
    pub fn part_elems(&self, v: &View) -> u64 {
        let f = self.facts(v.loc);
        f.part_elems * f.dtype.bytes() as u64 / (v.ty.bytes() as u64).max(1)
    }

    /// How a DMA sees a view.
    pub fn side(&self, v: &View) -> DmaSide {
        let on_chip = self.facts(v.loc).space != Space::Dram;
        DmaSide { part_elems: on_chip.then(|| self.part_elems(v)) }
    }

    /// An access of a view's location in the view's own element type.
    pub fn access_view(&self, v: &View, offset: u32, pattern: ApPattern, mode: AccessMode) -> NodeOperand {
        let dtype = DType::of(v.ty).unwrap_or(self.facts(v.loc).dtype);
        NodeOperand::Access(Access { loc: v.loc, offset, dtype, pattern, mode })
    }

    /// An access.
    pub fn access(&self, loc: LocId, offset: u32, pattern: ApPattern, mode: AccessMode) -> NodeOperand {
        NodeOperand::Access(Access { loc, offset, dtype: self.facts(loc).dtype, pattern, mode })
    }

    /// The whole of a tile as an engine operand with one free pair.
    pub fn whole_tile(&self, loc: LocId, mode: AccessMode) -> NodeOperand {
        let f = self.facts(loc);
        let pairs = [(f.part_elems as i32, f.parts as u32), (1, f.part_elems as u32)];
        self.access(loc, 0, ApPattern::of(pairs), mode)
    }

    /// A constant array's location.
    pub fn constant(&mut self, ty: DType, bytes: &[u8]) -> LocId {
        let mut key = vec![ty as u8];
        key.extend_from_slice(bytes);
        if let Some(loc) = self.constant_locs.get(&key) {
            return *loc;
        }
        while !self.constants.len().is_multiple_of(8) {
            self.constants.push(0);
        }
        let offset = self.constants.len() as u32;
        self.constants.extend_from_slice(bytes);
        let elements = bytes.len() as u64 / ty.bytes() as u64;
        let loc = self.new_loc(Space::Dram, VarKind::Const, ty, 1, elements.max(1));
        if let Some(row) = self.staging.locs.last_mut() {
            row.from.ordinal = offset;
        }
        self.constant_locs.insert(key, loc);
        loc
    }

    /// Leaves whose scalar parameters are in registers, for a region that reads them again and again.
    pub fn hoisted(&mut self, leaves: &[Leaf]) -> Lowered<Vec<Leaf>> {
        let mut out = leaves.to_vec();
        for leaf in &mut out {
            if self.is_scalar_parameter(leaf) {
                let (ty, dims) = (leaf.ty(), leaf.extents());
                *leaf = Leaf::Scalar { ty, reg: self.as_register(&leaf.clone())?, dims };
            }
        }
        Ok(out)
    }

    /// Whether a leaf is an integer scalar parameter of the program, still in memory.
    pub fn is_scalar_parameter(&self, leaf: &Leaf) -> bool {
        leaf.view().is_some_and(|v| {
            v.elements() == 1
                && fits_register(v.ty)
                && v.offset == 0
                && DType::of(v.ty) == Some(self.facts(v.loc).dtype)
                && self.scalar_parameters.contains_key(&v.loc)
        })
    }

    /// A register on engine ALL.
    pub fn reg(&mut self, role: RegRole, lo: i64, hi: i64) -> RegId {
        let mut row = RegRow::new(EngineId::All, role, self.current);
        row.bounds = RegBounds { lo, hi };
        self.staging.reg(row)
    }

    /// Proved range of a register.
    pub fn bounds(&self, reg: RegId) -> RegBounds {
        self.staging.regs[reg.index()].bounds
    }

    /// The tile that holds `leaf` in `layout`, row-major: an existing one where it has that layout, else a copy.
    pub fn materialize(&mut self, leaf: &Leaf, layout: Layout) -> Lowered<LocId> {
        if let Leaf::View(v) = leaf {
            let f = self.facts(v.loc);
            let own = DType::of(v.ty) == Some(f.dtype);
            let whole = own && f.space == Space::Sbuf && v.offset == 0 && v.is_contiguous();
            if whole
                && f.parts == layout.parts
                && f.part_elems == layout.free
                && v.elements() == layout.parts * layout.free
            {
                return Ok(v.loc);
            }
        }
        self.copy_to_tile(leaf, layout)
    }

    /// A fresh tile with a copy of `leaf`.
    pub fn copy_to_tile(&mut self, leaf: &Leaf, layout: Layout) -> Lowered<LocId> {
        let ty = self.dtype(leaf.ty())?;
        let loc = self.tile(ty, layout)?;
        self.fill_from(loc, leaf)?;
        Ok(loc)
    }

    /// Writes `leaf` over the whole of `loc`, row-major.
    pub fn fill_from(&mut self, loc: LocId, leaf: &Leaf) -> Lowered<()> {
        match leaf {
            Leaf::View(v) => {
                let target = View::whole(loc, v.ty, &v.extents());
                self.dma_copy(&target, v)
            }
            Leaf::Splat { ty, bits, dims } if ty.bytes() > 4 => {
                let one = self.constant(self.facts(loc).dtype, &bits.to_le_bytes());
                let source = View::whole(one, *ty, &[]).broadcast(&[], dims);
                self.dma_copy(&View::whole(loc, *ty, dims), &source)
            }
            Leaf::Splat { .. } | Leaf::Scalar { .. } if self.facts(loc).space == Space::Dram => {
                self.fill_dram(loc, leaf)
            }
            Leaf::Splat { bits, .. } => {
                let target = self.whole_tile(loc, AccessMode::Store);
                let value = NodeOperand::Splat(*bits as u32, self.facts(loc).dtype);
                self.node(NodeKind::Fill, HloOp::Constant, 0, 0, [target, value], NodeScalars::default());
                Ok(())
            }
            Leaf::Scalar { reg, .. } => {
                let target = self.whole_tile(loc, AccessMode::Store);
                let value = NodeOperand::Scalar(*reg, self.facts(loc).dtype);
                let scalars = NodeScalars { a: *reg, ..Default::default() };
                self.node(NodeKind::SplatRegister, HloOp::Broadcast, 0, 0, [target, value], scalars);
                Ok(())
            }
            Leaf::Token => Ok(()),
        }
    }

    /// An engine operand for `leaf` in a result of `parts` partitions and `free` elements a partition, copying it to a
    /// tile first when its view is not partition-compatible or has more than `slots` free pairs.
    pub fn engine_operand(&mut self, leaf: &Leaf, layout: Layout, slots: usize) -> Lowered<NodeOperand> {
        match leaf {
            Leaf::Splat { bits, ty, .. } => Ok(NodeOperand::Splat(*bits as u32, self.dtype(*ty)?)),
            Leaf::Scalar { reg, ty, .. } => Ok(NodeOperand::Scalar(*reg, self.dtype(*ty)?)),
            Leaf::Token => self.refuse(&codes::LOWER_UNSUPPORTED_OP, "a token has no data"),
            Leaf::View(v) => {
                let f = self.facts(v.loc);
                if f.space == Space::Sbuf
                    && let Some((offset, pattern)) =
                        engine_pattern(v, f.parts, self.part_elems(v), layout.parts, slots)
                {
                    return Ok(self.access_view(v, offset, pattern, AccessMode::Load));
                }
                if let Some(operand) = self.broadcast_operand(v, layout, slots)? {
                    return Ok(operand);
                }
                let tile = self.copy_to_tile(leaf, layout)?;
                Ok(self.whole_tile(tile, AccessMode::Load))
            }
        }
    }

    /// A view that repeats along the free dimensions: what is different is copied to partitions, and the engine reads
    /// it again and again.
    fn broadcast_operand(&mut self, v: &View, layout: Layout, slots: usize) -> Lowered<Option<NodeOperand>> {
        let Some((outer, inner)) = split_at(&v.dims, layout.parts) else { return Ok(None) };
        if inner.iter().all(|(n, s)| *n == 1 || *s != 0) {
            return Ok(None);
        }
        let kept: Dims = inner.iter().copied().filter(|d| d.0 != 1 && d.1 != 0).collect();
        let source = View { dims: outer.iter().chain(&kept).copied().collect(), ..v.clone() };
        let free: u64 = kept.iter().map(|d| d.0).product();
        let tile = self.copy_to_tile(&Leaf::View(source), Layout { parts: layout.parts, free })?;
        let mut strides = row_major(&kept.iter().map(|d| d.0).collect::<Sizes>()).into_iter();
        let parts = (layout.parts, free as i64);
        let again = inner.iter().map(|d| match d {
            (1, _) => (1, 0),
            (n, 0) => (*n, 0),
            (n, _) => (*n, strides.next().map_or(0, |s| s.1)),
        });
        let dims = std::iter::once(parts).chain(again).collect();
        let view = View { loc: tile, ty: v.ty, offset: 0, dims };
        let found = engine_pattern(&view, layout.parts, free, layout.parts, slots);
        Ok(found.map(|(offset, pattern)| self.access(tile, offset, pattern, AccessMode::Load)))
    }

    /// The layout that a result of an elementwise operator takes: that of an operand tile where one has the same
    /// extents, else the chosen one.
    pub fn result_layout(&self, leaves: &[&Leaf], dims: &[u64]) -> Layout {
        let n: u64 = dims.iter().product::<u64>().max(1);
        for leaf in leaves {
            if let Leaf::View(v) = leaf {
                let f = self.facts(v.loc);
                let part = self.part_elems(v);
                if f.space == Space::Sbuf
                    && v.offset == 0
                    && v.is_contiguous()
                    && v.elements() == n
                    && f.parts * part == n
                    && (f.parts > 1 || n <= LONG_LINE)
                {
                    return Layout { parts: f.parts, free: part };
                }
            }
        }
        Layout::choose(dims)
    }

    /// A control scalar for a one-element leaf: an existing register, a constant moved into one, or a load.
    pub fn as_register(&mut self, leaf: &Leaf) -> Lowered<RegId> {
        match leaf {
            Leaf::Scalar { reg, .. } => Ok(*reg),
            Leaf::Splat { ty, bits, .. } if fits_register(*ty) => {
                let value = integer(*ty, *bits);
                let dst = self.reg(RegRole::Scalar, value, value);
                self.scalar_move_imm(dst, value as u32);
                Ok(dst)
            }
            Leaf::View(v) if self.is_scalar_parameter(leaf) => {
                let (parameter, loaded) = self.scalar_parameters[&v.loc];
                if let Some(reg) = loaded {
                    return Ok(reg);
                }
                // The load serves the parameter, whoever reads it first.
                let reader = std::mem::replace(&mut self.current, parameter);
                let reg = self.load_register(v);
                self.current = reader;
                if let (Ok(reg), 0) = (&reg, self.depth()) {
                    self.scalar_parameters.insert(v.loc, (parameter, Some(*reg)));
                }
                reg
            }
            Leaf::View(v) if v.elements() == 1 && fits_register(v.ty) => self.load_register(v),
            other => self.refuse(
                &codes::LOWER_TYPE,
                format!("a value of type {} cannot steer an offset, a loop or a branch", other.ty().name()),
            ),
        }
    }

    /// Loads one element into a register: a copy (and widening cast) to a 4-byte internal location, then a load on
    /// every engine that wants it.
    fn load_register(&mut self, v: &View) -> Lowered<RegId> {
        let word = if v.ty == HloType::U32 { DType::U32 } else { DType::I32 };
        let slot = self.new_loc(Space::Dram, VarKind::Internal, word, 1, 1);
        let source = View { dims: smallvec![(1, 1)], ..v.clone() };
        let wide = if word == DType::U32 { HloType::U32 } else { HloType::S32 };
        let target = View { loc: slot, ty: wide, offset: 0, dims: smallvec![(1, 1)] };
        self.dma_copy(&target, &source)?;
        let (lo, hi) = type_range(v.ty);
        let dst = self.reg(RegRole::Scalar, lo, hi);
        let operand = self.access(slot, 0, ApPattern::of([(1, 1)]), AccessMode::Load);
        let scalars = NodeScalars { dst, tag: word.wire_tag(), ..Default::default() };
        self.node(NodeKind::LoadTensorToRegister, HloOp::Copy, 0, 0, [operand], scalars);
        Ok(dst)
    }

    /// `dst = imm`.
    pub fn scalar_move_imm(&mut self, dst: RegId, imm: u32) {
        let scalars = NodeScalars { dst, imm, ..Default::default() };
        self.node(NodeKind::ScalarMove, HloOp::Copy, 0, 0, [], scalars);
    }

    /// `dst = src`.
    pub fn scalar_move(&mut self, dst: RegId, src: RegId) {
        let scalars = NodeScalars { dst, a: src, ..Default::default() };
        self.node(NodeKind::ScalarMove, HloOp::Copy, 0, 0, [], scalars);
    }

    /// A new location for a tensor of these extents that will be updated in place: along one partition of SBUF when
    /// small, else DRAM.
    pub fn updatable_home(&mut self, ty: HloType, dims: &[u64]) -> Lowered<LocId> {
        let dtype = self.dtype(ty)?;
        let n = dims.iter().product::<u64>().max(1);
        let bytes = n * dtype.bytes() as u64;
        let room = self.resident + bytes <= RESIDENT_BYTES;
        Ok(if bytes <= SBUF_HOME_BYTES && room {
            self.resident += bytes;
            self.new_loc(Space::Sbuf, VarKind::Internal, dtype, 1, n)
        } else {
            self.new_loc(Space::Dram, VarKind::Internal, dtype, 1, n)
        })
    }

    /// Whether `leaf` is the whole of a location that the current loop level owns.
    pub fn owns_whole(&self, leaf: &Leaf) -> Option<LocId> {
        let v = leaf.view()?;
        let f = self.facts(v.loc);
        let own = DType::of(v.ty) == Some(f.dtype);
        let whole = own && v.offset == 0 && v.is_contiguous() && v.elements() == f.parts * f.part_elems;
        (whole && f.owner == self.depth()).then_some(v.loc)
    }

    /// Row-major dims of extents, as a view of a location.
    pub fn whole_view(&self, loc: LocId, ty: HloType, dims: &[u64]) -> Leaf {
        Leaf::View(View { loc, ty, offset: 0, dims: row_major(dims) })
    }
}

/// Extents of an array shape.
pub fn extents(shape: &ArrayShape) -> Sizes {
    shape.dims.iter().map(|d| (*d).max(0) as u64).collect()
}

/// Range of an integer type.
pub fn type_range(ty: HloType) -> (i64, i64) {
    match ty {
        HloType::Pred => (0, 1),
        HloType::S8 => (-128, 127),
        HloType::S16 => (-32_768, 32_767),
        HloType::U8 => (0, 255),
        HloType::U16 => (0, 65_535),
        HloType::U32 => (0, u32::MAX as i64),
        _ => (i32::MIN as i64, i32::MAX as i64),
    }
}
