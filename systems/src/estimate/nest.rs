//! How often each place of the program runs. In: the instructions in order and the trips by axis. Out: the product of
//! the trips of the loops around the present one. Weights are finite: they stop growing at [`MOST`].

use murre_components::bir::{InstArgs, InstHead, Opcode};

/// More than any program runs.
pub const MOST: f64 = 1e30;

/// The loops that are open, and the weight of what stands inside them.
#[derive(Debug)]
pub struct Nest<'a> {
    trips: &'a [f64],
    outer: Vec<f64>,
    /// How often the present place runs.
    pub weight: f64,
}

/// What a label does to the nest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Label {
    /// Not a label.
    None,
    /// A loop begins.
    Open,
    /// A loop of so many trips ends.
    Close(f64),
}

impl<'a> Nest<'a> {
    /// Outside of all loops.
    pub fn new(trips: &'a [f64]) -> Self {
        Nest { trips, outer: Vec::new(), weight: 1.0 }
    }

    fn trips_of(&self, args: &InstArgs) -> f64 {
        self.trips.get(args.axis().index()).copied().unwrap_or(1.0)
    }

    /// Passes an instruction.
    #[inline]
    pub fn pass(&mut self, head: &InstHead, args: &InstArgs) -> Label {
        if !head.op.is_structure() {
            return Label::None;
        }
        let trips = self.trips_of(args);
        if head.op == Opcode::Terminator {
            self.weight = self.outer.pop().unwrap_or(1.0);
            return Label::Close(trips);
        }
        self.outer.push(self.weight);
        self.weight = (self.weight * trips).min(MOST);
        Label::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::bir::InstRow;
    use murre_components::engine::EngineId;
    use murre_components::ids::HloId;

    #[test]
    fn weights_multiply_and_come_back() {
        let label = |op, aux| {
            let mut row = InstRow::new(op, EngineId::Sp, HloId::NONE);
            row.args.aux = aux;
            row
        };
        let mut nest = Nest::new(&[3.0, 5.0]);
        let mut pass = |op, aux| {
            let row = label(op, aux);
            (nest.pass(&row.head, &row.args), nest.weight)
        };
        assert_eq!(pass(Opcode::DynamicForLoop, 0), (Label::Open, 3.0));
        assert_eq!(pass(Opcode::DoWhile, 1), (Label::Open, 15.0));
        assert_eq!(pass(Opcode::NoOp, 1), (Label::None, 15.0));
        assert_eq!(pass(Opcode::Terminator, 1), (Label::Close(5.0), 3.0));
        assert_eq!(pass(Opcode::Terminator, 0), (Label::Close(3.0), 1.0));
    }
}
