//! Passes, and the manager that calls them.

use super::graph::Program;

/// A pass over a program.
pub trait Pass {
    /// The name of murre's pass that does the same.
    fn name(&self) -> &'static str;
    /// Does its work.
    fn run(&self, program: &mut Program);
}

/// Runs passes in order.
pub struct PassManager(pub Vec<Box<dyn Pass>>);

impl PassManager {
    /// Runs all of them.
    pub fn run(&self, program: &mut Program) {
        self.0.iter().for_each(|pass| pass.run(program));
    }
}
