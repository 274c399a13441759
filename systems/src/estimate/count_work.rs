//! In: the instructions with their patterns, and the trips. Out: [`Work`], the two estimators of the other compiler
//! (`spec/ir.md 11.3`) on machine instructions, and [`OpCounts`].
//!
//! * *DetailDynInst*: the domain of an instruction is every element it visits; operations and bytes are those of an
//!   element times the domain. Bytes are of what is produced.
//! * *DynamicInstEstimator*: dynamic instances of loads and stores by 65,536, of contractions by 8,388,608, each
//!   instruction rounded down.

use super::assume_trips::Trips;
use super::nest::Nest;
use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::estimate::Work;

/// Elements of loads or stores that make a machine instruction.
pub const INSTANCES_OF_A_COPY: f64 = 65_536.0;
/// Multiply-adds that make a machine instruction.
pub const INSTANCES_OF_A_CONTRACTION: f64 = 8_388_608.0;

/// How often things stand in the program and how often they run.
#[derive(Resource, Default, Debug, Clone, PartialEq)]
pub struct OpCounts {
    /// Register operations in the streams.
    pub register_ops: u64,
    /// Register operations that run.
    pub register_ops_executed: f64,
    /// Instructions that run, by stream.
    pub executed: [f64; 5],
}

/// Operations of one element of the domain.
pub fn operations(op: Opcode, args: &InstArgs) -> f64 {
    match op {
        Opcode::Matmult | Opcode::ScalarTensorTensor => 2.0,
        Opcode::TensorScalar => 1.0 + f64::from(u8::from(args.op1 != 0)),
        Opcode::TensorTensor | Opcode::TensorReduce | Opcode::Activation | Opcode::Reciprocal => 1.0,
        _ => 0.0,
    }
}

/// The precise estimate: operations and bytes of `instances` elements.
pub fn detail_dyn_inst(op: Opcode, args: &InstArgs, instances: f64, produced: f64, bytes: f64) -> (f64, f64) {
    (operations(op, args) * instances, produced * bytes)
}

/// The coarse estimate: machine instructions of `instances` elements.
pub fn dynamic_inst_estimate(op: Opcode, instances: f64) -> f64 {
    match op {
        _ if op.is_dma() => (instances / INSTANCES_OF_A_COPY).floor(),
        Opcode::Matmult => (instances / INSTANCES_OF_A_CONTRACTION).floor(),
        _ => 0.0,
    }
}

/// The system.
pub fn count_work(
    insts: Query<(&InstHead, &InstOperands, &InstArgs)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    trips: Res<Trips>,
    order: Res<Order>,
    mut commands: Commands,
) {
    let (heads, operands, args) = columns!(insts);
    let (ap_heads, patterns) = columns!(aps);
    let loc_heads: &[LocHead] = columns!(locs);
    let (mut work, mut counts, mut coarse) = (Work::default(), OpCounts::default(), 0.0);
    let mut nest = Nest::new(&trips.by_axis);
    let elements = |row: usize| patterns.get(row).map_or(0.0, |p| p.elements() as f64);
    let dram = |row: usize| {
        let head = ap_heads.get(row).and_then(|a| loc_heads.get(a.loc.index()));
        head.is_some_and(|l| l.space == Space::Dram)
    };
    for &id in &order.0 {
        let row = id.index();
        let Some(head) = heads.get(row) else { continue };
        nest.pass(head, &args[row]);
        if head.op.is_structure() {
            continue;
        }
        if let Some(stream) = head.engine.stream() {
            counts.executed[stream] += nest.weight;
        }
        if matches!(head.op, Opcode::RegisterAlu | Opcode::RegisterMove) {
            counts.register_ops += 1;
            counts.register_ops_executed += nest.weight;
        }
        let o = operands[row];
        if o.outputs == 0 {
            continue;
        }
        let output = o.output(0).index();
        let produced = elements(output);
        let mut visited = produced;
        if o.inputs > 0 {
            let input = o.input(0).index();
            visited = match head.op {
                // Every output element sums over the partitions of the inputs.
                Opcode::Matmult => {
                    produced * patterns.get(input).and_then(|p| p.0.first()).map_or(1.0, |d| f64::from(d.num))
                }
                Opcode::TensorReduce => elements(input),
                _ => produced,
            };
            work.has_copy |= head.op.is_dma() && dram(output) && dram(input);
        }
        work.has_reduce |= head.op == Opcode::TensorReduce;
        let bytes = ap_heads.get(output).map_or(0.0, |a| f64::from(a.dtype.bytes()));
        let (flops, moved) =
            detail_dyn_inst(head.op, &args[row], visited * nest.weight, produced * nest.weight, bytes);
        work.flops += flops;
        work.bytes += moved;
        coarse += dynamic_inst_estimate(head.op, visited * nest.weight);
    }
    work.coarse_instances = coarse as u64;
    commands.insert_resource(work);
    commands.insert_resource(counts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_estimators() {
        let args = InstArgs { op1: 4, ..Default::default() };
        assert_eq!(detail_dyn_inst(Opcode::TensorScalar, &args, 100.0, 100.0, 4.0), (200.0, 400.0));
        assert_eq!(detail_dyn_inst(Opcode::Matmult, &args, 1e6, 1e3, 4.0), (2e6, 4e3));
        assert_eq!(detail_dyn_inst(Opcode::Memset, &args, 8.0, 8.0, 2.0), (0.0, 16.0));
        assert_eq!(dynamic_inst_estimate(Opcode::DmaCopy, 65_535.0), 0.0);
        assert_eq!(dynamic_inst_estimate(Opcode::DmaTrigger, 200_000.0), 3.0);
        assert_eq!(dynamic_inst_estimate(Opcode::Matmult, 128.0 * 128.0 * 512.0), 1.0);
        assert_eq!(dynamic_inst_estimate(Opcode::TensorTensor, 1e9), 0.0);
    }
}
