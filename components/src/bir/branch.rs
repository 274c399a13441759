//! Conditional control transfer: which edges of a two-way branch need a record (`spec/isa.md 5.4`).
//!
//! A branch record says one edge; the other one is the next block in layout. In: a comparison, where it goes when it
//! holds and when it does not, and the next block. Out: the branch that remains, if any.
//!
//! ```text
//! LT a, b ? next : end     ->  GE a, b -> end        (negated: the taken edge is the fall-through)
//! LT a, b ? head : next    ->  LT a, b -> head
//! LT a, b ? next : next    ->  nothing
//! LT a, b ? x : y          ->  LT a, b -> x ; -> y   (neither falls through: an unconditional branch follows)
//! ```

/// IR comparison operators with an immediate right side; [`compare::REGISTER`] more for a register right side.
pub mod compare {
    #![allow(missing_docs)]
    pub const LT: u8 = 0;
    pub const LE: u8 = 1;
    pub const EQ: u8 = 2;
    pub const NE: u8 = 3;
    pub const GE: u8 = 4;
    pub const GT: u8 = 5;
    /// Distance from the immediate form to the register form of an operator.
    pub const REGISTER: u8 = 6;
}

/// Negation by IR ordinal.
const NEGATED: [u8; 12] = [4, 5, 3, 2, 0, 1, 10, 11, 9, 8, 6, 7];

/// The operator that holds exactly when `op` does not; `None` for what is no operator.
pub fn negate(op: u8) -> Option<u8> {
    NEGATED.get(op as usize).copied()
}

/// What remains of a two-way branch once one edge falls through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer<T> {
    /// Both edges fall through.
    Nothing,
    /// Taken when the operator holds, else the next block.
    Compare(u8, T),
    /// Neither edge falls through: compare, then jump.
    CompareThenJump(u8, T, T),
}

/// Chooses the record of a branch. `None` when `op` is no comparison operator.
pub fn transfer<T: PartialEq + Copy>(op: u8, on_true: T, on_false: T, next: T) -> Option<Transfer<T>> {
    let negated = negate(op)?;
    Some(match (on_true == next, on_false == next) {
        (true, true) => Transfer::Nothing,
        (true, false) => Transfer::Compare(negated, on_false),
        (false, true) => Transfer::Compare(op, on_true),
        (false, false) => Transfer::CompareThenJump(op, on_true, on_false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(op: u8, a: i32, b: i32) -> bool {
        match op % compare::REGISTER {
            compare::LT => a < b,
            compare::LE => a <= b,
            compare::EQ => a == b,
            compare::NE => a != b,
            compare::GE => a >= b,
            _ => a > b,
        }
    }

    #[test]
    fn a_negated_comparison_holds_exactly_when_the_comparison_does_not() {
        for op in 0..12 {
            let n = negate(op).unwrap();
            assert_eq!((negate(n), n / 6), (Some(op), op / 6), "negation keeps the form and undoes itself");
            for (a, b) in [(0, 1), (1, 1), (2, 1), (-1, 1)] {
                assert_ne!(holds(op, a, b), holds(n, a, b), "{op} on {a}, {b}");
            }
        }
        assert_eq!(negate(12), None);
    }

    #[test]
    fn the_record_goes_where_the_branch_does() {
        for op in 0..12 {
            for on_true in 0..3 {
                for on_false in 0..3 {
                    for (a, b) in [(0, 1), (1, 1), (2, 1)] {
                        let want = if holds(op, a, b) { on_true } else { on_false };
                        let got = match transfer(op, on_true, on_false, 0).unwrap() {
                            Transfer::Nothing => 0,
                            Transfer::Compare(op, to) if holds(op, a, b) => to,
                            Transfer::Compare(..) => 0,
                            Transfer::CompareThenJump(op, to, _) if holds(op, a, b) => to,
                            Transfer::CompareThenJump(_, _, to) => to,
                        };
                        assert_eq!(got, want, "{op} {on_true} {on_false}");
                    }
                }
            }
        }
        assert_eq!(transfer(12, 1, 2, 0), None);
    }
}
