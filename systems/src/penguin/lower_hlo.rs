//! `lower_hlo`: the entry computation becomes Penguin nodes.
//!
//! In: the simplified module (no calls, static shapes). Out: node, register, location and axis tables; constants;
//! the signature. Promises: node order is program order; every access is inside its location; a run-time index has
//! been clamped before it is used; a refused instruction is reported and lowering goes on, so that all are reported.
//!
//! ```text
//! %u = f32[8] dynamic-update-slice(%x, %v, %i)
//! ->  r2 = max r1, 0 ; r3 = min r2, 7
//!     copy L4[0:8] = L0[0:8]
//!     L4 = dynamic_copy_dst L1[0:1]        indices: r3 * 1 along 0
//! ```
//!
//! Facts: `spec/ir.md 1, 2`, `spec/hlo.md 7`, D5, D16, D17.

use super::leaf::{Leaf, fits_register};
use super::lower::{Lower, Lowered, LoweredTables, extents};
use super::uses::{Uses, element_offset, is_transparent, leaf_count};
use super::view::row_major;
use crate::batch::{Batch, give_up};
use crate::legalize::expand_scatter::descriptor_combiner;
use crate::legalize::inline_calls::MAX_INLINED;
use crate::legalize::region::is_pointwise;
use crate::options::CompileOptions;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower as codes;
use murre_components::diag::{Diagnostic, Diagnostics, Severity};
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloModule, HloOp, Shape};
use murre_components::hlo_table::HloHome;
use murre_components::ids::*;
use murre_components::penguin::*;
use murre_components::program::{Extent, Extents, VarKind};
use smallvec::SmallVec;

/// Nodes of a batch, at most: what a few instructions of HLO become has no bound.
const MOST_NODES: usize = 50_000;

/// The pass.
pub fn lower_hlo(world: &mut World) {
    let mut tables = LoweredTables::new(Staging::new(world));
    let mut parts = world.remove_resource::<Parts>().unwrap_or_default();
    if let Some(mut batch) = world.remove_resource::<Batch>() {
        for (k, member) in batch.0.iter_mut().enumerate() {
            let first = tables.first_rows();
            parts.begin(k, |p| (p.node, p.loc) = (first.nodes as u32, first.locs as u32));
            let hlo = parts.0.get(k).map_or(0, |p| p.hlo);
            (member.signature, tables) = lower_module(world, &member.module, member.extents.as_ref(), tables);
            member.constants = std::mem::take(&mut tables.constants);
            tables.number_from(first, hlo);
            if tables.nodes.len() > MOST_NODES {
                give_up(&parts, world.resource::<Diagnostics>(), "it has become large");
                break;
            }
        }
        world.insert_resource(batch);
        world.init_resource::<ConstPool>();
    } else if let Some(module) = world.remove_resource::<HloModule>() {
        let extents = world.get_resource::<Extents>().cloned();
        let signature;
        (signature, tables) = lower_module(world, &module, extents.as_ref(), tables);
        world.insert_resource(ConstPool(std::mem::take(&mut tables.constants)));
        world.insert_resource(signature);
        world.insert_resource(module);
    }
    let LoweredTables { staging, nodes, operands, dynamic, exprs, homes, .. } = tables;
    staging.flush(world);
    drop(world.spawn_batch(nodes));
    world.insert_resource(OperandPool(operands));
    world.insert_resource(DynamicCopies(dynamic));
    world.insert_resource(exprs);
    world.insert_resource(parts);
    let mut rows = world.query::<&mut HloHome>();
    for (mut row, home) in rows.iter_mut(world).zip(homes) {
        *row.bypass_change_detection() = home;
    }
}

/// Lowers one module behind what is in the tables.
fn lower_module(
    world: &World,
    module: &HloModule,
    extents: Option<&Extents>,
    tables: LoweredTables,
) -> (Signature, LoweredTables) {
    let options = world.resource::<CompileOptions>();
    let mut lower = Lower::new(module, options.target, tables);
    (lower.unroll_limit, lower.transposes) = (options.unroll_limit as u64, options.target.arch() >= 30);
    let mut faults = Vec::new();
    let mut signature = lower.lower_entry(&mut faults);
    if let Some(extents) = extents {
        name_hidden(&mut signature, extents);
    }
    let sink = world.resource::<Diagnostics>();
    for d in faults {
        sink.push(d);
    }
    (signature, lower.into_tables())
}

/// Names the hidden outputs for people: `out0.size1`, `failed_check`, `failed_size`.
fn name_hidden(signature: &mut Signature, extents: &Extents) {
    let size = |e: &Extent| format!("out{}.size{}", e.array, e.dimension);
    let mut names: Vec<String> = extents.outputs.iter().map(size).collect();
    if extents.reports {
        names.extend(["failed_check".to_owned(), "failed_size".to_owned()]);
    }
    let first = signature.outputs.len().saturating_sub(names.len());
    for (leaf, name) in signature.outputs[first..].iter_mut().zip(names) {
        leaf.name = name;
    }
}

impl Lower<'_> {
    fn lower_entry(&mut self, faults: &mut Vec<Diagnostic>) -> Signature {
        let module = self.module;
        let entry = module.entry_comp();
        self.uses.push(Uses::count(module, module.entry));
        let mut signature = Signature::default();
        let root_shape = module.inst(entry.root).shape();
        self.outputs = vec![LocId::NONE; leaf_count(root_shape)];
        for (k, leaf) in leaves_of(root_shape).into_iter().enumerate() {
            signature.outputs.push(signature_leaf(format!("out{k}"), leaf));
        }
        let donations = super::donated::donations(module);
        for (number, &p) in entry.parameters.iter().enumerate() {
            self.current = p;
            match self.entry_parameter(p, &mut signature) {
                Ok(leaves) => {
                    for d in donations.iter().filter(|d| d.parameter == number) {
                        self.donate(p, d.leaf, d.output as u32, &leaves, &mut signature);
                    }
                    self.values.set(p, leaves)
                }
                Err(d) => {
                    faults.push(*d);
                    self.values.set(p, stand_in(module.inst(p).shape()));
                }
            }
        }
        for id in entry.instructions.iter() {
            if let Err(d) = self.lower_instruction(id) {
                // Go on with a value of the right shape: one compilation reports every refusal.
                if !faults.iter().any(|f| f.code == d.code && f.instruction == d.instruction) {
                    faults.push(*d);
                }
                self.axes.clear();
                self.uses.truncate(1);
                self.values.set(id, stand_in(module.inst(id).shape()));
            }
        }
        if faults.iter().all(|d| d.severity != Severity::Error) {
            self.current = entry.root;
            if let Err(d) = self.store_results(entry.root, &mut signature) {
                faults.push(*d);
            }
        }
        signature
    }

    /// Refuses arrays that the addresses of a variable do not span.
    fn addressable(&self, shape: &Shape) -> Lowered<()> {
        let bytes = match shape {
            Shape::Array(a) => bytes_of(a),
            other => other.leaves().iter().filter_map(|s| s.array()).map(bytes_of).max().unwrap_or(0),
        };
        if bytes > u32::MAX as u64 {
            return self
                .refuse(&codes::LOWER_TILE, format!("an array of {bytes} bytes: a variable has 4 GiB"));
        }
        Ok(())
    }

    /// Locations of a parameter's leaves. A scalar integer becomes a control scalar where it is first read as one,
    /// outside every loop.
    fn entry_parameter(&mut self, id: HloId, signature: &mut Signature) -> Lowered<Vec<Leaf>> {
        let inst = self.module.inst(id);
        self.addressable(inst.shape())?;
        let shapes = leaves_of(inst.shape());
        let many = shapes.len() > 1;
        let mut leaves = Vec::with_capacity(shapes.len());
        for (k, shape) in shapes.iter().enumerate() {
            let Shape::Array(array) = shape else {
                leaves.push(Leaf::Token);
                continue;
            };
            let ty = self.dtype(array.ty)?;
            let dims = extents(array);
            let n = dims.iter().product::<u64>().max(1);
            let loc = self.new_loc(Space::Dram, VarKind::Input, ty, 1, n);
            if let Some(row) = self.staging.locs.last_mut() {
                row.from.ordinal = signature.inputs.len() as u32;
            }
            let name = if many { format!("{}.{k}", inst.name()) } else { inst.name().to_owned() };
            signature.inputs.push(signature_leaf(name, shape));
            let view = self.whole_view(loc, array.ty, &dims);
            if dims.is_empty() && fits_register(array.ty) {
                self.scalar_parameters.insert(loc, (id, None));
            }
            leaves.push(if dims.contains(&0) { Leaf::Splat { ty: array.ty, bits: 0, dims } } else { view });
        }
        Ok(leaves)
    }

    /// A donated parameter's leaf may be overwritten behind its last reader.
    fn donate(&mut self, p: HloId, leaf: usize, output: u32, leaves: &[Leaf], signature: &mut Signature) {
        if let Some(Leaf::View(v)) = leaves.get(leaf) {
            signature.donated.push(self.staging.locs[v.loc.index()].from.ordinal);
            let readers = self.uses[0].of(p, leaf) as i64;
            let facts = &mut self.locs[v.loc.index()];
            (facts.owner, facts.remaining) = (0, readers);
            self.donated.insert(v.loc, output);
        }
    }

    fn store_results(&mut self, root: HloId, signature: &mut Signature) -> Lowered<()> {
        for (k, leaf) in self.values.of(root).to_vec().into_iter().enumerate() {
            if self.outputs[k].is_some() || leaf == Leaf::Token {
                continue;
            }
            if let Some(loc) = self.owns_whole(&leaf)
                && self.donated.get(&loc) == Some(&(k as u32))
                && leaf.ty() == signature.outputs[k].ty
            {
                let input = self.staging.locs[loc.index()].from.ordinal;
                signature.shared.push((k as u32, input));
                self.outputs[k] = loc;
                continue;
            }
            let ty = self.dtype(leaf.ty())?;
            let n = leaf.extents().iter().product::<u64>();
            let loc = self.new_loc(Space::Dram, VarKind::Output, ty, 1, n.max(1));
            if let Some(row) = self.staging.locs.last_mut() {
                row.from.ordinal = k as u32;
            }
            self.outputs[k] = loc;
            if n > 0 {
                self.fill_from(loc, &leaf)?;
            }
        }
        Ok(())
    }

    /// Lowers the instructions of a computation whose parameters are bound.
    pub fn lower_computation(&mut self, computation: CompId) -> Lowered<()> {
        let module = self.module;
        for id in module.comp(computation).instructions.iter() {
            self.lower_instruction(id)?;
        }
        Ok(())
    }

    /// Lowers one instruction.
    pub fn lower_instruction(&mut self, id: HloId) -> Lowered<()> {
        let module = self.module;
        let inst = module.inst(id);
        if inst.op == HloOp::Parameter {
            return Ok(());
        }
        self.current = id;
        self.lowered += 1;
        if self.lowered > MAX_INLINED + 2 * self.module.len() {
            let what = "branches that call the same computations make the program too large";
            return self.refuse(&codes::LOWER_RECURSION, what);
        }
        self.addressable(inst.shape())?;
        let array = inst.shape().array().filter(|a| a.elements() == 0 && inst.op != HloOp::GetTupleElement);
        if let Some(array) = array {
            // Nothing to compute: an array without elements.
            self.values.set(id, [Leaf::Splat { ty: array.ty, bits: 0, dims: extents(array) }]);
            return Ok(());
        }
        if is_transparent(inst.op) {
            return self.lower_transparent(id, inst);
        }
        for operand in inst.operands() {
            for leaf in self.values.of(*operand) {
                if let Leaf::View(v) = leaf {
                    self.locs[v.loc.index()].remaining -= 1;
                }
            }
        }
        let result = match inst.op {
            // What runs computations sets values as it goes.
            HloOp::While | HloOp::Conditional => {
                let operands = self.values.of_all(inst.operands()).cloned().collect::<Vec<Leaf>>();
                match inst.op {
                    HloOp::While => self.while_loop(inst, &operands)?,
                    _ => self.conditional(inst, &operands)?,
                }
            }
            // Anything else only reads those of its operands.
            _ => {
                let values = std::mem::take(&mut self.values);
                let leaves: SmallVec<[&Leaf; 8]> = values.of_all(inst.operands()).collect();
                let result = self.lower_operation(id, inst, &leaves);
                drop(leaves);
                self.values = values;
                self.define(id, [result?]);
                return Ok(());
            }
        };
        self.define(id, result);
        Ok(())
    }

    /// Lowers an operation with one result.
    fn lower_operation(&mut self, id: HloId, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        match (inst.op, inst.attrs()) {
            (HloOp::Constant, Attrs::Constant(literal)) => self.literal(literal),
            (HloOp::DynamicSlice, _) => self.dynamic_slice(inst, leaves),
            (HloOp::DynamicUpdateSlice, _) => self.dynamic_update_slice(id, inst, leaves),
            (HloOp::Dot, _) => self.dot(inst, leaves),
            (HloOp::Reduce, _) => self.reduce(inst, leaves),
            (HloOp::Iota, _) => self.iota(inst),
            (HloOp::Concatenate, _) => self.concatenate(inst, leaves),
            (HloOp::Pad, _) => self.pad(inst, leaves),
            (HloOp::AfterAll, _) => Ok(Leaf::Token),
            (HloOp::BitcastConvert, _) => self.bitcast_convert(inst, leaves[0]),
            (HloOp::Gather, _) => self.gather(inst, leaves),
            (HloOp::Scatter, _) if leaves.len() == 3 => {
                match descriptor_combiner(self.module, inst, self.target) {
                    Some(combine) => self.scatter(id, inst, leaves, combine),
                    None => {
                        let what = "a scatter with this computation is not lowered to the machine";
                        self.refuse(&codes::LOWER_UNSUPPORTED_OP, what)
                    }
                }
            }
            _ if self.is_scalar_op(inst, leaves) => {
                let value = self.scalar_op(inst, leaves)?;
                // A scalar operation has an array's shape.
                Ok(inst.shape().array().map_or(Leaf::Token, |s| value.leaf(s.ty, extents(s))))
            }
            (op, _) if is_pointwise(op) => self.elementwise(inst, leaves),
            (op, _) => {
                let what = format!("{} is not lowered to the machine", op.name());
                self.refuse(&codes::LOWER_UNSUPPORTED_OP, what)
            }
        }
    }

    fn lower_transparent(&mut self, id: HloId, inst: HloInst<'_>) -> Lowered<()> {
        match inst.op {
            HloOp::Tuple => self.values.join(id, inst.operands()),
            HloOp::GetTupleElement => {
                let offset = element_offset(self.module, id);
                self.values.share(id, inst.operands()[0], offset, leaf_count(inst.shape()));
            }
            HloOp::Copy | HloOp::OptimizationBarrier => {
                let operand = inst.operands()[0];
                self.values.share(id, operand, 0, self.values.of(operand).len());
            }
            _ => {
                let before = self.values.of(inst.operands()[0])[0].clone();
                let after = self.shape_op(inst, &before)?;
                // A reshape that had to copy moves its readers to the copy.
                if let (Leaf::View(b), Leaf::View(a)) = (&before, &after)
                    && a.loc != b.loc
                {
                    let readers = self.uses.last().map_or(0, |u| u.of(id, 0)) as i64;
                    self.locs[b.loc.index()].remaining -= readers;
                    self.locs[a.loc.index()].remaining += readers;
                }
                self.values.set(id, [after]);
            }
        }
        Ok(())
    }

    fn define(&mut self, id: HloId, leaves: impl IntoIterator<Item = Leaf>) {
        self.values.set(id, leaves);
        for (k, leaf) in self.values.of(id).iter().enumerate() {
            if let Leaf::View(v) = leaf {
                let readers = self.uses.last().map_or(0, |u| u.of(id, k)) as i64;
                self.locs[v.loc.index()].remaining += readers;
            }
        }
    }
}

/// Bytes of an array in memory.
fn bytes_of(array: &ArrayShape) -> u64 {
    array.elements().saturating_mul(array.ty.bytes() as u64)
}

/// The leaves of a shape; an array is its own.
fn leaves_of(shape: &Shape) -> Vec<&Shape> {
    match shape {
        Shape::Tuple(_) => shape.leaves(),
        one => vec![one],
    }
}

fn signature_leaf(name: String, shape: &Shape) -> SignatureLeaf {
    match shape {
        Shape::Array(a) => SignatureLeaf { name, ty: a.ty, dims: extents(a).to_vec() },
        _ => SignatureLeaf { name, ty: murre_components::dtype::HloType::Token, dims: Vec::new() },
    }
}

/// A value of the right shape in place of one that was refused.
fn stand_in(shape: &Shape) -> Vec<Leaf> {
    leaves_of(shape)
        .into_iter()
        .map(|s| match s {
            Shape::Array(a) => {
                Leaf::Splat { ty: a.ty, bits: 0, dims: row_major(&extents(a)).iter().map(|d| d.0).collect() }
            }
            _ => Leaf::Token,
        })
        .collect()
}
