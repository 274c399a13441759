//! `select_instructions`: every node becomes one or a few instructions.
//!
//! In: the node table in program order, operands, locations. Out: the instruction and access-pattern tables, `Order`,
//! and which patterns wait for their run-time half. Promises: control scalars stay on engine ALL; static copies on the
//! abstract DMA engine; dynamic DMAs on Pool, where software descriptor generation issues them (D7).
//!
//! ```text
//! select %p, %a, %b  ->  TensorCopy out = b ; CopyPredicated out = p ? a
//! ```
//!
//! Facts: `spec/ir.md 2.5`, `spec/isa_compute.md 12.3`, D16.

use super::elementwise::{chain, elementwise};
use super::emit::{Emit, operand, shape_of};
use crate::staging::{Operand, Staging};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::LOWER_UNSUPPORTED_OP;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::hlo::HloOp;
use murre_components::ids::*;
use murre_components::isa::alu::AluOp;
use murre_components::penguin::*;
use murre_components::program::VarKind;

/// A pattern that waits for its run-time half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The pattern.
    pub ap: ApId,
    /// Operands of its node.
    pub operands: NodeOperands,
    /// Payload of its node, in [`DynamicCopies`].
    pub copy: u32,
}

/// All patterns that wait.
#[derive(Resource, Default)]
pub struct PendingDynamic(pub Vec<Pending>);

/// The pass.
pub fn select_instructions(world: &mut World) {
    let staging = Staging::new(world);
    let mut locs = world.query::<&LocHead>();
    let locs = crate::columns!(locs, world).to_vec();
    let mut axes: Vec<AxisHead> = {
        let mut q = world.query::<&AxisHead>();
        crate::columns!(q, world).to_vec()
    };
    let mut emit = Emit { staging, order: Vec::new(), locs, hlo: HloId::NONE };
    let mut pending = PendingDynamic::default();
    let mut parts = world.remove_resource::<Parts>().unwrap_or_default();
    {
        let mut nodes = world.query::<(&NodeHead, &NodeOperands, &NodeScalars)>();
        let (heads, ranges, scalars) = crate::columns!(nodes, world);
        let pool = world.resource::<OperandPool>();
        let none = Chains::default();
        let chains = world.get_resource::<Chains>().unwrap_or(&none);
        let no_copies = DynamicCopies::default();
        let copies = world.get_resource::<DynamicCopies>().unwrap_or(&no_copies);
        let diagnostics = world.resource::<Diagnostics>();
        let mut ends =
            parts.0.iter().skip(1).map(|p| p.node as usize).collect::<Vec<_>>().into_iter().peekable();
        let mut part = 0;
        for (row, ((head, range), scalars)) in heads.iter().zip(ranges).zip(scalars).enumerate() {
            while ends.next_if_eq(&row).is_some() {
                emit.exit();
                part += 1;
                parts.begin(part, |p| p.position = emit.order.len() as u32);
            }
            let operands = &pool.0[range.first as usize..(range.first + range.count) as usize];
            emit.hlo = head.hlo;
            let mut dynamic = Dynamic { range: *range, copies, pending: &mut pending };
            if !node(&mut emit, head, operands, scalars, &mut axes, &mut dynamic, chains) {
                diagnostics.push(
                    Diagnostic::error(
                        &LOWER_UNSUPPORTED_OP,
                        format!("no engine does {} on these operands", head.op.name()),
                    )
                    .ordered(head.hlo.0),
                );
            }
        }
        // Modules at the end that have no node.
        for _ in ends {
            emit.exit();
            part += 1;
            parts.begin(part, |p| p.position = emit.order.len() as u32);
        }
    }
    emit.exit();
    let Emit { staging, order, .. } = emit;
    staging.flush(world);
    let mut q = world.query::<&mut AxisHead>();
    for (mut row, head) in q.iter_mut(world).zip(axes) {
        *row.bypass_change_detection() = head;
    }
    world.insert_resource(Order(order));
    world.insert_resource(parts);
    world.insert_resource(pending);
}

/// What a dynamic copy needs beside its operands.
struct Dynamic<'a> {
    range: NodeOperands,
    copies: &'a DynamicCopies,
    pending: &'a mut PendingDynamic,
}

impl Dynamic<'_> {
    /// The pattern `at` of the last instruction waits.
    fn wait(&mut self, e: &Emit, at: u32, copy: u32) {
        let first = e.staging.insts.last().map_or(ApId::NONE, |r| r.operands.first);
        self.pending.0.push(Pending { ap: ApId(first.0 + at), operands: self.range, copy });
    }
}

fn node(
    e: &mut Emit,
    head: &NodeHead,
    operands: &[NodeOperand],
    scalars: &NodeScalars,
    axes: &mut [AxisHead],
    dynamic: &mut Dynamic<'_>,
    chains: &Chains,
) -> bool {
    let access = |k: usize| operands.get(k).and_then(|o| o.access()).map(operand);
    match head.kind {
        NodeKind::Elementwise => elementwise(e, head, operands),
        NodeKind::Fused => true,
        NodeKind::Chain => match (access(0), access(1), chains.0.get(scalars.imm as usize)) {
            (Some(out), Some(source), Some(c)) => chain(e, c, &out, &source),
            _ => false,
        },
        NodeKind::Copy => {
            let (Some(out), Some(source)) = (access(0), access(1)) else { return false };
            let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Dma, head.hlo);
            row.head.flags = io_flag(e, &out, &source);
            e.push(row, &[out], &[source]);
            true
        }
        NodeKind::TensorCopyDynamicSrc | NodeKind::TensorCopyDynamicDst => {
            let (Some(out), Some(source)) = (access(0), access(1)) else { return false };
            let payload = dynamic.copies.0.get(scalars.imm as usize);
            let copy = payload.and_then(|p| TensorCopyDynamicBase::of(head.kind, operands, p));
            let Some(copy) = copy else { return false };
            if copy.generic_addrs().is_empty() {
                // Without addresses it is a static copy.
                let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Dma, head.hlo);
                row.head.flags = io_flag(e, &out, &source);
                e.push(row, &[out], &[source]);
                return true;
            }
            dynamic_copy(e, copy, out, source, scalars.imm, dynamic);
            true
        }
        NodeKind::GatherRows | NodeKind::ScatterRows => {
            let (Some(out), Some(source), Some(index)) = (access(0), access(1), access(2)) else {
                return false;
            };
            let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Pool, head.hlo);
            row.head.flags = InstHead::DYNAMIC | io_flag(e, &out, &source);
            row.args.op0 = head.sub;
            e.push(row, &[out], &[source, index]);
            dynamic.wait(e, (head.kind == NodeKind::GatherRows) as u32, scalars.imm);
            true
        }
        NodeKind::GatherElements => {
            let (Some(out), Some(table), Some(index)) = (access(0), access(1), access(2)) else {
                return false;
            };
            let row = InstRow::new(Opcode::Gather, EngineId::Pool, head.hlo);
            e.push(row, &[out], &[table, index]);
            true
        }
        NodeKind::Reduce => {
            let (Some(out), Some(mut source)) = (access(0), access(1)) else { return false };
            let op = match head.op {
                HloOp::Add => AluOp::Add,
                HloOp::Multiply => AluOp::Mult,
                HloOp::Maximum | HloOp::Or => AluOp::Max,
                HloOp::Minimum | HloOp::And => AluOp::Min,
                _ => return false,
            };
            source.flags |= ApHead::KEEP_DIMS;
            let mut row = InstRow::new(Opcode::TensorReduce, EngineId::Dve, head.hlo);
            // Axis codes: 2 is X, 3 XY, ... (spec/isa_compute.md 2.5).
            row.args =
                InstArgs { op0: op.wire(0).unwrap_or(0), op1: scalars.imm as u8 + 1, ..Default::default() };
            e.push(row, &[out], &[source]);
            true
        }
        NodeKind::DotTile => {
            let (Some(out), Some(moving), Some(weights)) = (access(0), access(1), access(2)) else {
                return false;
            };
            let mut row = InstRow::new(Opcode::Matmult, EngineId::Pe, head.hlo);
            // fp32 runs as the two-pass full-precision mode 3, others as mode 0 (spec/isa_compute.md 3.1).
            let mode = if weights.dtype == DType::F32 { 3 } else { 0 };
            row.args = InstArgs { op0: head.flags, op1: head.sub, dtype: mode, ..Default::default() };
            e.push(row, &[out], &[moving, weights]);
            true
        }
        NodeKind::Iota => {
            let Some(out) = access(0) else { return false };
            let mut row = InstRow::new(Opcode::Iota, EngineId::Pool, head.hlo);
            // First value and what a partition adds: the elements of a partition follow those of the one before.
            let (parts, free) = shape_of(&out);
            (row.args.imm0, row.args.imm1) = (scalars.imm, if parts > 1 { free } else { 0 });
            e.push(row, &[out], &[]);
            true
        }
        NodeKind::Fill => match (access(0), operands.get(1)) {
            (Some(out), Some(NodeOperand::Splat(bits, _))) => {
                e.memset(*bits, &out);
                true
            }
            _ => false,
        },
        NodeKind::SplatRegister => {
            let Some(out) = access(0) else { return false };
            e.splat_register(scalars.a, &out);
            true
        }
        NodeKind::LoadTensorToRegister => {
            let Some(source) = access(0) else { return false };
            let mut row = InstRow::new(Opcode::TensorLoad, EngineId::All, head.hlo);
            row.head.flags = InstHead::CONTROL;
            row.args.dtype = scalars.tag;
            row.regs.dst = scalars.dst;
            e.push(row, &[], &[source]);
            true
        }
        NodeKind::ScalarAlu => {
            let mut row = InstRow::new(Opcode::RegisterAlu, EngineId::All, head.hlo);
            row.args = InstArgs {
                op0: head.sub,
                mode: scalars.b.is_none() as u8,
                dtype: scalars.tag,
                imm0: scalars.imm,
                ..Default::default()
            };
            row.regs = InstRegs { src0: scalars.a, src1: scalars.b, dst: scalars.dst };
            e.push(row, &[], &[]);
            true
        }
        NodeKind::ScalarMove => {
            let mut row = InstRow::new(Opcode::RegisterMove, EngineId::All, head.hlo);
            row.args = InstArgs {
                mode: scalars.a.is_none() as u8,
                dtype: scalars.tag,
                imm0: scalars.imm,
                ..Default::default()
            };
            row.regs = InstRegs { src0: scalars.a, src1: RegId::NONE, dst: scalars.dst };
            e.push(row, &[], &[]);
            true
        }
        NodeKind::LoopBegin | NodeKind::LoopEnd => {
            let axis = &mut axes[head.axis.index()];
            let begin = head.kind == NodeKind::LoopBegin;
            let op = match (begin, axis.kind) {
                (false, _) => Opcode::Terminator,
                (true, LoopKind::Static) => Opcode::Loop,
                (true, LoopKind::DynamicFor) => Opcode::DynamicForLoop,
                (true, LoopKind::DoWhile) => Opcode::DoWhile,
            };
            let mut row = InstRow::new(op, EngineId::All, head.hlo);
            row.args.aux = head.axis.0;
            let id = e.push(row, &[], &[]);
            if begin {
                axis.begin = id
            } else {
                axis.end = id
            }
            true
        }
    }
}

fn io_flag(e: &Emit, a: &Operand, b: &Operand) -> u8 {
    let io = |o: &Operand| matches!(e.locs[o.loc.index()].kind, VarKind::Input | VarKind::Output);
    if io(a) || io(b) { InstHead::IO } else { 0 }
}

/// A dynamic side in DRAM is a dynamic DMA, issued by Pool (D7); on chip an engine copy on the hinted engine (D16).
fn dynamic_copy(
    e: &mut Emit,
    copy: TensorCopyDynamicBase<'_>,
    out: Operand,
    source: Operand,
    row_of: u32,
    dynamic: &mut Dynamic<'_>,
) {
    let gather = copy.is_gather();
    let space = e.locs[if gather { source.loc } else { out.loc }.index()].space;
    let (op, engine) = match (copy.engine_hint(space), gather) {
        (EngineId::Dma, _) => (Opcode::DmaCopy, EngineId::Pool),
        (hint, true) => (Opcode::TensorCopyDynamicSrc, hint),
        (hint, false) => (Opcode::TensorCopyDynamicDst, hint),
    };
    let mut row = InstRow::new(op, engine, e.hlo);
    row.head.flags = InstHead::DYNAMIC | if space == Space::Dram { io_flag(e, &out, &source) } else { 0 };
    e.push(row, &[out], &[source]);
    dynamic.wait(e, gather as u32, row_of);
}
