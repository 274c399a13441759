//! The time of one instruction on its engine. In: operation, engine, operands, the costs of the target. Out: [`Cost`].
//!
//! [`hw`] uses the published formulas (`spec/hw.md 6`, by record `spec/isa_compute.md 10`): cycles by elements of a
//! partition, at least 64 from one instruction to the next, performance modes dividing the elements but not the floor. A
//! result is seen by other engines 100 cycles after the instruction's own time. A register as an address costs what the
//! register operations before it cost. [`oracle`] is the other compiler's model (`spec/ir.md 11.1`, 11.2): whole
//! nanoseconds, the last 100 of a longer instruction overlap with the next; bases that it does not state are 0.

use super::operand_shape::OperandShape;
use murre_components::bir::*;
use murre_components::costs::{CostModel, TargetCosts};
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::isa::AluOp;

/// Nanoseconds of an instruction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Time of the engine: what comes next on it begins after this.
    pub busy: f64,
    /// From then on until other engines see the result.
    pub result: f64,
    /// Further time of the engine that a directly preceding instruction of the same kind hides: the load of a
    /// matmult's weights.
    pub hidden: f64,
}

/// Cost of an instruction that is neither a DMA nor a label.
#[inline]
pub fn instruction_cost(
    model: CostModel,
    head: &InstHead,
    args: &InstArgs,
    shape: &OperandShape,
    costs: &TargetCosts,
) -> Cost {
    let clock = head.engine.stream().map_or(1.0, |s| costs.clock[s]);
    let control = |cycles: f64| Cost { busy: cycles / clock, ..Cost::default() };
    match head.op {
        Opcode::RegisterAlu | Opcode::RegisterMove => control(costs.alu_cycles),
        Opcode::CompareAndBranch | Opcode::UnconditionalBranch | Opcode::Exit => control(costs.branch_cycles),
        Opcode::NoOp
        | Opcode::EventSemaphore
        | Opcode::GroupResetSemaphores
        | Opcode::Drain
        | Opcode::AllEngineBarrier => control(costs.event_cycles),
        Opcode::TensorLoad | Opcode::TensorSave => Cost { busy: costs.scalar_load_ns, ..Cost::default() },
        Opcode::LoadActFuncSet => Cost { busy: costs.table_load_ns, ..Cost::default() },
        _ if model == CostModel::Oracle => oracle(head, shape, costs),
        _ => hw(head, args, shape, costs, clock),
    }
}

/// The published formulas.
fn hw(head: &InstHead, args: &InstArgs, s: &OperandShape, costs: &TargetCosts, clock: f64) -> Cost {
    let result = costs.result_cycles / clock;
    if head.op == Opcode::Matmult {
        // Stationary columns and moving columns; fp32 takes four passes.
        let (m, n) = (s.second as f64, s.output as f64);
        let passes = if s.dtype == DType::F32 { 4.0 } else { 1.0 };
        let busy = m.min(costs.floor_cycles).max(n) * passes / clock;
        return Cost { busy, result, hidden: m / 4.0 / clock };
    }
    let n = s.elements as f64;
    let cycles = match head.engine {
        EngineId::Pool => costs.pool_start_cycles + n,
        EngineId::Activation => activation_elements(head.op, n, s, costs).max(costs.floor_cycles),
        _ => vector_elements(head.op, args, n, s, costs).max(costs.floor_cycles),
    };
    Cost { busy: cycles / clock, result, hidden: 0.0 }
}

fn activation_elements(op: Opcode, n: f64, s: &OperandShape, costs: &TargetCosts) -> f64 {
    let copies = matches!(op, Opcode::TensorCopy | Opcode::TensorScalar);
    if costs.scalar_modes && copies && s.half { n / 2.0 } else { n }
}

fn vector_elements(op: Opcode, args: &InstArgs, n: f64, s: &OperandShape, costs: &TargetCosts) -> f64 {
    let alu = AluOp::from_wire(args.op0);
    let cheap = matches!(alu, Some(AluOp::Add | AluOp::Subtract | AluOp::Mult));
    match op {
        Opcode::TensorCopy | Opcode::TensorScalar if costs.vector_modes && s.half => {
            if s.psum || !s.unit {
                n / 2.0
            } else {
                n / 4.0
            }
        }
        Opcode::TensorTensor => {
            let base = if s.psum || (s.bf16 && s.unit && cheap) { n } else { 2.0 * n };
            if costs.vector_modes && s.half && !s.psum { base / 2.0 } else { base }
        }
        Opcode::ScalarTensorTensor => 2.0 * n,
        Opcode::TensorReduce if s.bf16 && matches!(alu, Some(AluOp::Add | AluOp::Max)) => n / 2.0,
        Opcode::CopyPredicated if !s.psum_input => 2.0 * n,
        Opcode::Memset if args.imm0 == 0 && s.half => n / 2.0,
        Opcode::Reciprocal => 8.0 * n,
        _ => n,
    }
}

/// The other compiler's model.
fn oracle(head: &InstHead, s: &OperandShape, costs: &TargetCosts) -> Cost {
    let o = &costs.oracle;
    let frequency = if head.engine == EngineId::Dve { o.dve_frequency } else { o.frequency }.max(1);
    let n = s.elements;
    let latency = match head.op {
        // K: rows of the contraction.
        Opcode::Matmult => (s.partitions / 2 + 200) * 100 / frequency,
        Opcode::Memset => n.saturating_mul(100).saturating_add(5000) / o.dve_frequency.max(1),
        Opcode::Activation => {
            let base = match s.dtype.bytes() {
                2 => o.activation_cycles[0],
                4 => o.activation_cycles[1],
                _ => o.activation_cycles[2],
            };
            base * 100 / frequency + n.saturating_mul(100) / frequency
        }
        _ => n.saturating_mul(100) / frequency,
    } as f64;
    let overlap = if latency > 100.0 { 100.0 } else { 0.0 };
    Cost { busy: latency - overlap, result: overlap, hidden: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;
    use murre_components::ids::HloId;

    fn shape(elements: u64, dtype: DType, psum: bool) -> OperandShape {
        let half = dtype.bytes() == 2;
        OperandShape {
            elements,
            output: elements,
            second: 128,
            partitions: 128,
            psum,
            psum_input: psum,
            half,
            bf16: dtype == DType::Bf16,
            unit: true,
            dtype,
        }
    }

    /// Cycles of the engine.
    fn cycles(target: Target, op: Opcode, engine: EngineId, s: OperandShape) -> f64 {
        let mut row = InstRow::new(op, engine, HloId::NONE);
        row.args.op0 = 4; // add
        let costs = target.costs();
        let cost = instruction_cost(CostModel::Hw, &row.head, &row.args, &s, &costs);
        let cycles = cost.busy * engine.stream().map_or(1.0, |k| costs.clock[k]);
        (cycles * 1000.0).round() / 1000.0
    }

    #[test]
    fn published_formulas() {
        use EngineId::{Dve, Pe, Pool};
        use Opcode::{Matmult, Reciprocal, TensorCopy, TensorReduce, TensorScalar, TensorTensor};
        let (f, h) = (shape(512, DType::F32, false), shape(512, DType::Bf16, false));
        let psum = shape(512, DType::F32, true);
        let all =
            |op, engine, s| Target::ALL[..3].iter().map(|t| cycles(*t, op, engine, s)).collect::<Vec<_>>();
        assert_eq!(all(TensorTensor, Dve, f), [1024.0, 1024.0, 1024.0]);
        assert_eq!(all(TensorTensor, Dve, psum), [512.0, 512.0, 512.0]);
        assert_eq!(all(TensorTensor, Dve, h), [512.0, 256.0, 256.0]);
        assert_eq!(all(TensorCopy, Dve, h), [512.0, 128.0, 128.0]);
        assert_eq!(all(TensorCopy, EngineId::Activation, h), [512.0, 512.0, 256.0]);
        assert_eq!(all(TensorTensor, Pool, f), [662.0, 662.0, 662.0]);
        assert_eq!(all(Reciprocal, Dve, f), [4096.0, 4096.0, 4096.0]);
        assert_eq!(all(Opcode::Activation, EngineId::Activation, f), [512.0, 512.0, 512.0]);
        assert_eq!(all(TensorReduce, Dve, h), [256.0, 256.0, 256.0]);
        assert_eq!(all(Matmult, Pe, h), [512.0, 512.0, 512.0]);
        assert_eq!(all(Matmult, Pe, f), [2048.0, 2048.0, 2048.0]);
        assert_eq!(cycles(Target::Trn2, TensorScalar, Dve, shape(1, DType::F32, false)), 64.0);
    }

    #[test]
    fn the_other_model_counts_whole_nanoseconds() {
        let row = InstRow::new(Opcode::TensorTensor, EngineId::Dve, HloId::NONE);
        let of = |row: &InstRow, t: Target| {
            let s = shape(512, DType::F32, false);
            let c = instruction_cost(CostModel::Oracle, &row.head, &row.args, &s, &t.costs());
            c.busy + c.result
        };
        assert_eq!(of(&row, Target::Trn1), 457.0); // floor(51200 / 112)
        assert_eq!(of(&row, Target::Trn2), 533.0); // floor(51200 / 96)
        let matmult = InstRow::new(Opcode::Matmult, EngineId::Pe, HloId::NONE);
        assert_eq!(of(&matmult, Target::Trn2), 220.0); // floor(264 * 100 / 120)
        let memset = InstRow::new(Opcode::Memset, EngineId::Pool, HloId::NONE);
        assert_eq!(of(&memset, Target::Trn3), 468.0); // floor(56200 / 120)
    }
}
