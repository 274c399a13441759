//! What being dynamic costs, by HLO instruction. In: the finished instructions, their transfers and trips. Out:
//! [`DynamicCosts`].
//!
//! A dynamic access costs what the same access costs at a constant offset, and three things more (`spec/ir.md 11.1`,
//! 11.3): the register operations that compute its address, the loads of scalars into registers, and the generation of
//! its descriptors, which depends on route and generation. At a constant offset a copy is issued by a trigger whose
//! descriptors were built ahead. A run-time loop costs its counters and branches each trip.
//!
//! Times are sums of what engines and generators do, over all trips and engines; they overlap with other work, so
//! they are no part of the whole time. `adds` of the estimate says what holds the program.
//!
//! ```text
//! dus.2   2 copies by swdge, 64 B   16 register operations 213 ns, generation 1166 ns   at a constant offset 2821 ns
//! ```

use super::assume_trips::Trips;
use super::instruction_cost::instruction_cost;
use super::measure_traffic::Traffic;
use super::nest::Nest;
use super::operand_shape::{OperandShape, Patterns};
use super::transfer::Rates;
use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::costs::TargetCosts;
use murre_components::estimate::DynamicUse;
use murre_components::hlo::HloModule;
use murre_components::ids::HloId;

/// The costs, by HLO instruction in program order.
#[derive(Resource, Default, Debug)]
pub struct DynamicCosts(pub Vec<DynamicUse>);

/// What an HLO instruction has gathered.
#[derive(Clone, Copy, Default)]
struct Account {
    /// By route: none, software, hardware; then copies of an engine on chip.
    copies: [f64; 4],
    register_ops: f64,
    register_ns: f64,
    scalar_loads: f64,
    scalar_load_ns: f64,
    branches: f64,
    branch_ns: f64,
    generation_ns: f64,
    bytes: f64,
    constant_ns: f64,
}

/// Names of [`Account::copies`].
const ROUTES: [&str; 4] = ["none", "swdge", "hwdge", "engine"];

fn route(dge: DgeType) -> usize {
    match dge {
        DgeType::None | DgeType::Unassigned => 0,
        DgeType::Swdge => 1,
        DgeType::Hwdge => 2,
    }
}

/// Nanoseconds that the route of a generated copy adds to those of a prepared one: time of Pool, or of the hardware.
/// Both issue, but software's issue is the generation itself.
pub fn generation(dge: DgeType, stream: usize, rates: &Rates, costs: &TargetCosts) -> f64 {
    match dge {
        DgeType::Swdge => rates.swdge - costs.issue_cycles / costs.clock[stream],
        DgeType::Hwdge => rates.hwdge,
        DgeType::None | DgeType::Unassigned => 0.0,
    }
}

/// The system.
pub fn price_dynamic(
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    traffic: Res<Traffic>,
    trips: Res<Trips>,
    order: Res<Order>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    mut commands: Commands,
) {
    let model = options.estimate.unwrap_or_default().model;
    let costs = options.target.costs();
    let rates = Rates::new(model, &costs);
    let (heads, operands, args, froms) = columns!(insts);
    let (ap_heads, patterns) = columns!(aps);
    let patterns = Patterns { heads: ap_heads, patterns, locs: columns!(locs) };
    let mut accounts = vec![Account::default(); module.len()];
    let mut transfers = traffic.transfers.iter();
    let mut nest = Nest::new(&trips.by_axis);
    for &id in &order.0 {
        let row = id.index();
        let Some(head) = heads.get(row) else { continue };
        nest.pass(head, &args[row]);
        let transfer = if head.op.is_dma() { transfers.next().copied() } else { None };
        let control = matches!(
            head.op,
            Opcode::RegisterAlu | Opcode::RegisterMove | Opcode::TensorLoad | Opcode::CompareAndBranch
        );
        let dynamic = head.flags & InstHead::DYNAMIC != 0;
        let (true, Some(stream)) = (control || dynamic, head.engine.stream()) else { continue };
        let Some(account) = accounts.get_mut(froms[row].hlo.index()) else { continue };
        let w = nest.weight;
        match head.op {
            Opcode::RegisterAlu | Opcode::RegisterMove => {
                account.register_ops += w;
                account.register_ns += w * costs.alu_cycles / costs.clock[stream];
            }
            Opcode::TensorLoad => {
                account.scalar_loads += w;
                account.scalar_load_ns += w * costs.scalar_load_ns;
            }
            Opcode::CompareAndBranch => {
                account.branches += w;
                account.branch_ns += w * costs.branch_cycles / costs.clock[stream];
            }
            _ => match transfer {
                Some(t) => {
                    account.copies[route(head.dge)] += w;
                    account.bytes += w * t.bytes as f64;
                    account.generation_ns += w * generation(head.dge, stream, &rates, &costs);
                    let issue = costs.issue_cycles / costs.clock[stream];
                    account.constant_ns += w * (issue + rates.start + t.duration);
                }
                None => {
                    let shape = OperandShape::of(head.op, operands[row], &patterns);
                    let cost = instruction_cost(model, head, &args[row], &shape, &costs);
                    account.copies[3] += w;
                    let bytes = shape.elements * shape.partitions * u64::from(shape.dtype.bytes());
                    account.bytes += w * bytes as f64;
                    account.constant_ns += w * (cost.busy + cost.result);
                }
            },
        }
    }
    let used = |(_, a): &(usize, &Account)| a.copies.iter().sum::<f64>() > 0.0 || a.branches > 0.0;
    let rows = accounts.iter().enumerate().filter(used);
    commands.insert_resource(DynamicCosts(rows.map(|(k, a)| report(a, &module, HloId(k as u32))).collect()));
}

fn report(a: &Account, module: &HloModule, hlo: HloId) -> DynamicUse {
    let tidy = |ns: f64| (ns * 1000.0).round() / 1000.0;
    let extra = a.register_ns + a.scalar_load_ns + a.branch_ns + a.generation_ns;
    DynamicUse {
        name: module.get(hlo).map_or(String::new(), |h| h.name().to_owned()),
        routes: ROUTES.iter().zip(a.copies).filter(|(_, n)| *n > 0.0).map(|(r, _)| (*r).to_owned()).collect(),
        copies: a.copies.iter().sum::<f64>() as u64,
        bytes: a.bytes as u64,
        register_ops: a.register_ops as u64,
        register_ns: tidy(a.register_ns),
        scalar_loads: a.scalar_loads as u64,
        scalar_load_ns: tidy(a.scalar_load_ns),
        branches: a.branches as u64,
        branch_ns: tidy(a.branch_ns),
        generation_ns: tidy(a.generation_ns),
        constant_ns: tidy(a.constant_ns),
        extra_ns: tidy(extra),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::costs::CostModel;
    use murre_components::engine::Target;

    #[test]
    fn generation_costs_by_route_target_and_model() {
        let of = |target: Target, model, dge, stream| {
            let costs = target.costs();
            generation(dge, stream, &Rates::new(model, &costs), &costs) * 1.0
        };
        let issue = |t: Target| t.costs().issue_cycles / t.costs().clock[0];
        for t in [Target::Trn2, Target::Trn3, Target::CoreV5] {
            // floor(700 * 100 / 120) and floor(500 * 100 / 120) of the oracle; 600 ns are published for hardware.
            assert_eq!(of(t, CostModel::Oracle, DgeType::Swdge, 0), 583.0 - issue(t));
            assert_eq!(of(t, CostModel::Oracle, DgeType::Hwdge, 4), 416.0);
            assert_eq!(of(t, CostModel::Hw, DgeType::Hwdge, 1), 600.0);
        }
        assert_eq!(of(Target::Trn1, CostModel::Hw, DgeType::Swdge, 0), 500.0 - issue(Target::Trn1));
        assert_eq!(of(Target::Trn2, CostModel::Hw, DgeType::None, 4), 0.0);
    }
}
