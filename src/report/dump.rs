//! The tables as text, at any point of a compilation: the module before stage 1, nodes before code generation,
//! instructions in program order from then on, and what hangs on them: locations, loop axes, queues, blocks and
//! descriptors. In: a world. Out: text that depends on its rows alone.
//!
//! ```text
//! block 1:
//!    14 %9    pool RegisterAlu      %r4:pool.r2 = %r3:pool.r1 max 0            // add.7
//!    15 %11   pool DMACopy          dram2(cache)[f32 +0 8@1]+dyn(1*%r4) <- sbuf5[f32 +0 8@1]  SWDGE q0
//!               // route: an offset in a register: software generator; engine: Pool is the software generator; ..
//! ```

use super::names::{Names, alu, comparison, route};
use super::tables::{self, Tables};
use bevy_ecs::prelude::World;
use murre_components::bir::*;
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::penguin::*;
use murre_systems::route::DmaWhy;
use std::fmt::Write;

/// The tables of `world` as text.
pub fn dump(world: &mut World) -> String {
    let tables = Tables::of(world);
    let empty = HloModule::default();
    let module = world.get_resource::<HloModule>().unwrap_or(&empty);
    let names = Names { tables: &tables, module, exprs: world.get_resource::<Exprs>() };
    let order = world.get_resource::<Order>().cloned().unwrap_or_default();
    let payloads = world.get_resource::<Payloads>();
    if order.0.is_empty() && tables.nodes.is_empty() {
        return crate::hlo::print_module(module);
    }
    let mut out = String::new();
    if order.0.is_empty() {
        nodes(&mut out, &names, world.get_resource::<OperandPool>(), world.get_resource::<DynamicCopies>());
    } else {
        let starts = world.get_resource::<Blocks>().map(|b| b.starts.clone()).unwrap_or_default();
        for (position, id) in order.0.iter().enumerate() {
            if let Ok(block) = starts.binary_search(&(position as u32))
                && block + 1 < starts.len()
            {
                let _ = writeln!(out, "block {block}:");
            }
            let Some(inst) = tables.insts.get(id.index()) else { continue };
            let _ = writeln!(out, "{position:>6} %{:<5} {}", id.0, instruction(inst, &names, payloads));
            if inst.head.op.is_dma() && inst.head.dge != DgeType::Unassigned && inst.from.owner.is_none() {
                let [route, engine, queue] = DmaWhy::of(world, *id).text();
                let _ = writeln!(out, "              // route: {route}; engine: {engine}; queue: {queue}");
            }
        }
    }
    for (k, ap) in tables.aps.iter().enumerate() {
        let info = payloads.and_then(|p| p.dynamic(ap.head.dynamic.payload));
        if let (Some(info), Some(exprs)) = (info, names.exprs) {
            let head = ap.head;
            let actual = geometry(&names, head.loc, head.offset, head.dtype.name(), &ap.pattern);
            let _ = writeln!(out, "ap {k}: {}", info.json(exprs, &actual, &|r| names.reg(r)));
        }
    }
    rows(&mut out, &names);
    out
}

/// One instruction, without its position.
pub(super) fn instruction(inst: &tables::Inst, names: &Names, payloads: Option<&Payloads>) -> String {
    let mut out = format!("{:<4} {:<20} ", inst.head.engine.name(), inst.head.op.name());
    let (args, regs) = (inst.args, inst.regs);
    let reg = |id| names.reg(id);
    match inst.head.op {
        Opcode::RegisterAlu => {
            let second = if args.mode & 1 == 1 { immediate(args).to_string() } else { reg(regs.src1) };
            let _ = write!(out, "{} = {} {} {second}", reg(regs.dst), reg(regs.src0), alu(args.op0));
        }
        Opcode::RegisterMove => {
            let source = if args.mode & 1 == 1 { (args.imm0 as i32).to_string() } else { reg(regs.src0) };
            let _ = write!(out, "{} = {source}", reg(regs.dst));
        }
        Opcode::CompareAndBranch => {
            let right = if args.op0 < 6 { (args.imm0 as i32).to_string() } else { reg(regs.src1) };
            let _ = write!(out, "if {} {} {right} goto %{}", reg(regs.src0), comparison(args.op0), args.aux);
        }
        Opcode::UnconditionalBranch => {
            let _ = write!(out, "goto %{}", args.aux);
        }
        op if op.is_structure() => {
            let _ = write!(out, "axis i{}", args.aux);
        }
        _ => operands(&mut out, inst, names, payloads),
    }
    if inst.head.op.is_dma() {
        let _ = write!(out, "  {}", route(inst.head.dge));
        if inst.dma.queue.is_some() {
            let _ = write!(out, " queue {}", inst.dma.queue.0);
        }
        if inst.dma.block.is_some() {
            let _ = write!(out, " block {}", inst.dma.block.0);
        }
    }
    let sync = inst.sync;
    if sync.wait_mode != 0 {
        let _ = write!(out, "  wait(s{} mode {:#x} {})", sync.wait_sem, sync.wait_mode, sync.value);
    }
    if sync.update_mode != 0 {
        let _ = write!(out, "  update(s{} mode {:#x} {})", sync.update_sem, sync.update_mode, sync.value);
    }
    if !inst.head.live() {
        out.push_str("  dead");
    }
    if let Some(hlo) = names.hlo(inst.from.hlo) {
        let _ = write!(out, "  // {hlo}");
    }
    out
}

fn immediate(args: InstArgs) -> i64 {
    // Tags 1 and 12 are the 64-bit ones.
    match args.dtype {
        1 | 12 => (args.imm0 as u64 | (args.imm1 as u64) << 32) as i64,
        _ => args.imm0 as i32 as i64,
    }
}

fn operands(out: &mut String, inst: &tables::Inst, names: &Names, payloads: Option<&Payloads>) {
    let aps = names.tables.aps.get(inst.operands.range()).unwrap_or_default();
    let (outputs, inputs) = aps.split_at((inst.operands.outputs as usize).min(aps.len()));
    let list =
        |aps: &[tables::Ap]| aps.iter().map(|a| pattern(a, names, payloads)).collect::<Vec<_>>().join(", ");
    let mut left = list(outputs);
    if inst.regs.dst.is_some() {
        left = [left, names.reg(inst.regs.dst)]
            .iter()
            .filter(|s| !s.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
    }
    out.push_str(&left);
    if !left.is_empty() {
        out.push_str(" <- ");
    }
    out.push_str(&list(inputs));
    for (name, id) in [("src0", inst.regs.src0), ("src1", inst.regs.src1)] {
        if id.is_some() {
            let _ = write!(out, " {name}={}", names.reg(id));
        }
    }
    let a = inst.args;
    if (a.op0, a.op1, a.mode, a.imm0, a.imm1) != (0, 0, 0, 0, 0) {
        let _ = write!(
            out,
            " ops({:#x},{:#x}) mode({:#x}) imm({:#x},{:#x})",
            a.op0, a.op1, a.mode, a.imm0, a.imm1
        );
    }
}

/// An access pattern: `sbuf5[f32 +128 16@512 128@1]`, its run-time part behind it.
pub(super) fn pattern(ap: &tables::Ap, names: &Names, payloads: Option<&Payloads>) -> String {
    let mut out = geometry(names, ap.head.loc, ap.head.offset, ap.head.dtype.name(), &ap.pattern);
    match payloads.and_then(|p| p.0.get(ap.head.dynamic.payload)) {
        Some(Payload::Dynamic(d)) => {
            let terms: Vec<String> =
                d.terms.iter().map(|t| format!("{}*({})", t.coef, names.expr(t.expr))).collect();
            let _ = write!(out, "+dyn({} + {} < {})", terms.join(" + "), d.c, d.indirect_dim_max_index);
        }
        Some(Payload::Symbolic(s)) => {
            let _ = write!(out, "+sym({})", names.expr(s.tile));
        }
        None => {}
    }
    if ap.head.dynamic.address.is_some() {
        let _ = write!(out, "@{}", names.reg(ap.head.dynamic.address));
    }
    if ap.word != 0 {
        let _ = write!(out, "={:08x}", ap.word);
    }
    out
}

fn geometry(names: &Names, loc: LocId, offset: u32, dtype: &str, pattern: &ApPattern) -> String {
    let pairs: String = pattern.0.iter().map(|p| format!(" {}@{}", p.num, p.step)).collect();
    format!("{}[{dtype} +{offset}{pairs}]", names.loc(loc))
}

fn nodes(out: &mut String, names: &Names, pool: Option<&OperandPool>, dynamic: Option<&DynamicCopies>) {
    for k in 0..names.tables.nodes.len() {
        out.push_str(&node(k, names, pool, dynamic));
        out.push('\n');
    }
    let var = |o: &NodeOperand| match o.value() {
        Some(NodeValue::Tensor(l)) => names.loc(l),
        Some(NodeValue::Scalar(r)) => names.reg(r),
        None => "-".into(),
    };
    for (k, (head, operands, scalars)) in names.tables.nodes.iter().enumerate() {
        let list = operand_list(pool, operands);
        let payload = dynamic.and_then(|d| d.0.get(scalars.imm as usize));
        if let Some(copy) = payload.and_then(|p| TensorCopyDynamicBase::of(head.kind, list, p)) {
            let _ = writeln!(out, "dynamic copy n{k}: {}", copy.serialize(var));
        }
    }
}

fn operand_list<'a>(pool: Option<&'a OperandPool>, operands: &NodeOperands) -> &'a [NodeOperand] {
    let first = operands.first as usize;
    pool.and_then(|p| p.0.get(first..first + operands.count as usize)).unwrap_or_default()
}

/// An operand of a node.
pub(super) fn use_str(operand: &NodeOperand, names: &Names) -> String {
    match operand {
        NodeOperand::Access(a) => geometry(names, a.loc, a.offset, a.dtype.name(), &a.pattern),
        NodeOperand::Splat(bits, t) => format!("splat({bits:#x} {})", t.name()),
        NodeOperand::Scalar(r, t) => format!("{}({})", names.reg(*r), t.name()),
    }
}

/// The line of Penguin node `k`.
pub(super) fn node(
    k: usize,
    names: &Names,
    pool: Option<&OperandPool>,
    dynamic: Option<&DynamicCopies>,
) -> String {
    let mut out = String::new();
    let Some((head, operands, scalars)) = names.tables.nodes.get(k) else { return out };
    let _ = write!(out, "n{k:<5} {:<22?} {:<12}", head.kind, head.op.name());
    let list = operand_list(pool, operands);
    let payload = dynamic.and_then(|d| d.0.get(scalars.imm as usize));
    let copy = payload.and_then(|p| TensorCopyDynamicBase::of(head.kind, list, p));
    if let (Some(copy), Some(result)) = (copy, list.first()) {
        let _ = write!(out, "{} = {}", use_str(result, names), copy.rhs_str(|o| use_str(o, names)));
    } else {
        for (k, operand) in list.iter().enumerate() {
            out.push_str(["", " <- ", ", "][k.min(2)]);
            out.push_str(&use_str(operand, names));
        }
    }
    for (name, id) in [("dst", scalars.dst), ("a", scalars.a), ("b", scalars.b)] {
        if id.is_some() {
            let _ = write!(out, " {name}={}", names.reg(id));
        }
    }
    match head.kind {
        NodeKind::ScalarAlu => {
            let _ = write!(out, " {} {}", alu(head.sub), scalars.imm as i32);
        }
        _ if scalars.imm != 0 && copy.is_none() => {
            let _ = write!(out, " imm {}", scalars.imm as i32);
        }
        _ => {}
    }
    if head.axis.is_some() {
        let _ = write!(out, " in i{}", head.axis.0);
    }
    let _ = write!(out, "  // {}", names.hlo(head.hlo).unwrap_or("-"));
    out
}

fn rows(out: &mut String, names: &Names) {
    let t = names.tables;
    for (k, a) in t.axes.iter().enumerate() {
        let b = a.bounds;
        let _ = writeln!(
            out,
            "axis i{k}: {:?} {}..{} step {} max {} iv {} limit {}",
            a.head.kind,
            names.expr(b.lb),
            names.expr(b.ub),
            names.expr(b.step),
            b.max_trip,
            names.reg(a.regs.iv),
            names.reg(a.regs.limit),
        );
    }
    for id in (0..t.regs.len()).map(RegId::new) {
        if let Some(name) = names.address_reg(id) {
            let _ = writeln!(out, "reg {}: {name}", names.reg(id));
        }
    }
    for (k, l) in t.locs.iter().enumerate() {
        let h = l.head;
        let _ = write!(
            out,
            "loc {}: {:?} {}x{} {}",
            names.loc(LocId::new(k)),
            h.kind,
            h.partitions,
            h.part_elems,
            h.dtype.name(),
        );
        if l.place.address != u32::MAX {
            let _ = write!(out, " at {:#x}", l.place.address);
        }
        if l.place.table_entry != u32::MAX {
            let _ = write!(out, " table entry {}", l.place.table_entry);
        }
        if l.live.first != u32::MAX {
            let _ = write!(out, " live {}..{}", l.live.first, l.live.last);
        }
        let _ = writeln!(out, "  // {}", names.hlo(l.from.hlo).unwrap_or("-"));
    }
    for (k, q) in t.queues.iter().enumerate() {
        let _ = writeln!(
            out,
            "queue {k}: {} {:?} instance {} s{}",
            q.engine.name(),
            q.kind,
            q.instance,
            q.semaphore
        );
    }
    for (k, b) in t.blocks.iter().enumerate() {
        let _ = writeln!(out, "dma block {k}: queue {} trigger %{}", b.queue.0, b.trigger.0);
        let first = b.first.index().min(t.descs.len());
        let count = if b.first.is_some() { b.count as usize } else { 0 };
        for (n, d) in t.descs.iter().enumerate().skip(first).take(count) {
            let _ = writeln!(out, "  descriptor {n}: {}", descriptor(d));
        }
    }
}

/// `var 3 +64 2x4 rows of 32 -> partition 0 ...`.
pub(super) fn descriptor(d: &DescRow) -> String {
    let side = |s: &DescSide| {
        let base = if s.var == u32::MAX {
            format!("on chip {:#x}", s.base)
        } else {
            format!("variable {} +{}", s.var, s.base)
        };
        format!("{base} {}@{} {}@{} rows of {}", s.num1, s.step1, s.num0, s.step0, s.run)
    };
    let sem =
        if d.head.sem_inc == 0 { String::new() } else { format!(" s{} += {}", d.head.sem, d.head.sem_inc) };
    format!("{} -> {}{sem}", side(&d.src.0), side(&d.dst.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_systems::synth::synthetic;

    #[test]
    fn every_instruction_in_order_has_its_line() {
        let mut compiler = synthetic(200, 7);
        let text = dump(&mut compiler.world);
        let order = compiler.world.resource::<Order>().0.clone();
        for (position, id) in order.iter().enumerate() {
            assert!(text.contains(&format!("{position:>6} %{:<5} ", id.0)), "{position}");
        }
        assert!(text.contains("axis i0: "));
        assert!(text.contains("loc dram"));
    }
}
