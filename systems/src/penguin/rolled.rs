//! Static loops over tiles (105): a range walked in equal steps, unrolled or as a loop whose body addresses its tile by the
//! induction variable.
//!
//! In: extent, step, whether to roll. Out: the body lowered once for each step, or once inside a loop and once for the
//! rest that makes no full step. A trip ends with a fence of all engines, so a body should have enough to do.

use super::dynamic::RunTime;
use super::lower::{Lower, Lowered};
use murre_components::bir::*;
use murre_components::hlo::HloOp;
use murre_components::ids::*;
use murre_components::penguin::{DynamicIndex, NodeKind, NodeScalars};

/// Where a step begins: a constant, and the induction variable of the loop around it if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    /// Constant part.
    pub fixed: u64,
    /// Register and highest value of the induction variable.
    pub iv: Option<(RegId, u64)>,
}

impl At {
    /// A constant.
    pub fn fixed(at: u64) -> At {
        At { fixed: at, iv: None }
    }
}

/// The run-time part of an address whose indices have these steps in elements.
pub fn run_time(indices: &[(At, i64)]) -> RunTime {
    let mut out = RunTime::default();
    let mut highest = 0;
    for (dim, (at, step)) in indices.iter().enumerate() {
        if let Some((addr, most)) = at.iv
            && *step > 0
        {
            highest += most * *step as u64;
            let scale = *step as u32;
            out.copy.indices.push(DynamicIndex { dim: dim as u32, scale });
            out.addrs.push(addr);
        }
    }
    out.copy.max_index = (highest + 1).min(u32::MAX as u64) as u32;
    out
}

impl Lower<'_> {
    /// Walks `0..extent` in steps; `body` gets where a step begins and how long it is.
    pub fn steps(
        &mut self,
        extent: u64,
        step: u64,
        rolled: bool,
        body: &mut dyn FnMut(&mut Self, At, u64) -> Lowered<()>,
    ) -> Lowered<()> {
        let step = step.max(1);
        let full = extent / step * step;
        let mut at = 0;
        if rolled && full > step {
            let iv = self.begin_static(full, step);
            body(self, At { fixed: 0, iv: Some((iv, full - step)) }, step)?;
            self.node(NodeKind::LoopEnd, HloOp::While, 0, 0, [], NodeScalars::default());
            self.axes.pop();
            at = full;
        }
        while at < extent {
            let n = step.min(extent - at);
            body(self, At::fixed(at), n)?;
            at += n;
        }
        Ok(())
    }

    /// Opens a loop from 0 to `limit`.
    fn begin_static(&mut self, limit: u64, step: u64) -> RegId {
        let axis = AxisId(self.staging.axes.len() as u32);
        let none = RegId::NONE;
        let iv = self.reg(RegRole::Induction, 0, (limit - step) as i64);
        let bounds = AxisBounds {
            lb: self.exprs.constant(0),
            ub: self.exprs.constant(limit as i64),
            step: self.exprs.constant(step as i64),
            max_trip: limit / step,
        };
        let head = AxisHead {
            parent: self.axis(),
            begin: InstId::NONE,
            end: InstId::NONE,
            kind: LoopKind::Static,
            unsigned: 0,
            depth: self.depth() as u16,
        };
        let regs = AxisRegs { iv, limit: none, condition: none, per_engine: [none; 5] };
        self.staging.axis(AxisRow { head, bounds, regs });
        self.axes.push(axis);
        self.node(NodeKind::LoopBegin, HloOp::While, 0, 0, [], NodeScalars::default());
        iv
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Staging;
    use murre_components::hlo::HloModule;

    #[test]
    fn a_range_is_a_loop_and_a_rest() {
        let module = HloModule::default();
        let walk = |extent, step, rolled| {
            let mut lower = Lower::new(
                &module,
                murre_components::engine::Target::Trn2,
                crate::penguin::lower::LoweredTables::new(Staging::after(Default::default())),
            );
            let mut seen = Vec::new();
            let done = lower.steps(extent, step, rolled, &mut |_, at, n| {
                seen.push((at.fixed, at.iv.map(|i| i.1), n));
                Ok(())
            });
            assert!(done.is_ok() && lower.axes.is_empty());
            (seen, lower.nodes.len())
        };
        assert_eq!(walk(10, 4, true), (vec![(0, Some(4), 4), (8, None, 2)], 2));
        assert_eq!(walk(10, 4, false), (vec![(0, None, 4), (4, None, 4), (8, None, 2)], 0));
        assert_eq!(walk(7, 4, true), (vec![(0, None, 4), (4, None, 3)], 0), "one trip is no loop");
    }

    #[test]
    fn induction_variables_become_terms() {
        let iv = At { fixed: 3, iv: Some((RegId(4), 60)) };
        let t = run_time(&[(At::fixed(9), 7), (iv, 2)]);
        assert_eq!(t.copy.indices[..], [DynamicIndex { dim: 1, scale: 2 }]);
        assert_eq!((&t.addrs[..], t.copy.max_index), (&[RegId(4)][..], 121));
    }
}
