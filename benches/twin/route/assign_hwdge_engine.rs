//! Hardware-generated DMAs get an engine with a generator.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::{DgeType, InstHead};
use murre_systems::route::EngineReason;
use murre_systems::route::assign_hwdge_engine::{HwdgeTurn, hwdge_engine, valid_engines};

/// The pass.
pub struct AssignHwdgeEngine;

impl Pass for AssignHwdgeEngine {
    fn name(&self) -> &'static str {
        "assign_hwdge_engine"
    }

    fn run(&self, program: &mut Program) {
        let arch = program.options.target.arch();
        let mut turn = HwdgeTurn::default();
        for instruction in &program.instructions {
            let Some((_, _, transfer)) = instruction.copy() else { continue };
            if transfer.route.get() != DgeType::Hwdge {
                continue;
            }
            let engine = instruction.engine.get();
            let kept = instruction.flags & InstHead::DYNAMIC != 0 && valid_engines(arch).contains(&engine);
            let reason = match (kept, arch) {
                (true, _) => EngineReason::Kept,
                (false, ..=49) => EngineReason::Ladder,
                _ => EngineReason::Turn,
            };
            if !kept {
                match hwdge_engine(arch, engine, &mut turn) {
                    Some(engine) => instruction.engine.set(engine),
                    None => program.faults.push("a hardware-generated copy on PE".into()),
                }
            }
            transfer.explain(|why| why.engine = reason);
        }
    }
}
