//! The value of an expression. In: what the indices are. Out: the value, or that it is not known; an index outside its
//! bounds is an error. Division floors and the remainder is Euclidean: `-1 mod 3` is 2. Facts: `spec/ir.md 3.5`.

use super::expr::{Expr, Exprs};
use crate::diag::Diagnostic;
use crate::diag::codes::lower::EXPR_BOUNDS;
use crate::hash::{SeededMap, seeded_map};
use crate::ids::ExprId;

/// The value of an index and its bounds `lo <= value < hi`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct IndexValue {
    pub value: i64,
    pub lo: i64,
    pub hi: i64,
}

/// What the indices are.
pub struct Env(SeededMap<ExprId, IndexValue>);

impl Default for Env {
    fn default() -> Self {
        Env(seeded_map())
    }
}

impl Env {
    /// Gives an index a value.
    pub fn set(&mut self, index: ExprId, value: IndexValue) {
        self.0.insert(index, value);
    }
}

impl Exprs {
    /// The value of `e`; `None` if an index has none, or where 64 bits do not hold it.
    pub fn eval(&self, e: ExprId, env: &Env) -> Result<Option<i64>, Box<Diagnostic>> {
        Ok(match self.get(e) {
            Expr::IndirectArg { .. } | Expr::AxisIv(_) | Expr::RuntimeInt(_) => match env.0.get(&e) {
                Some(v) if v.value < v.lo || v.value >= v.hi => {
                    let what = format!("an index is {}, its bounds {}..{}", v.value, v.lo, v.hi);
                    return Err(Box::new(Diagnostic::error(&EXPR_BOUNDS, what)));
                }
                found => found.map(|v| v.value),
            },
            Expr::Affine { terms, c } => {
                let mut sum = Some(*c);
                for (index, k) in terms {
                    let product = self.eval(*index, env)?.and_then(|v| v.checked_mul(*k));
                    sum = sum.zip(product).and_then(|(s, p)| s.checked_add(p));
                }
                sum
            }
            Expr::Sum(operands) => {
                let mut sum = Some(0i64);
                for o in operands {
                    sum = sum.zip(self.eval(*o, env)?).and_then(|(s, v)| s.checked_add(v));
                }
                sum
            }
            Expr::Mult { operand, coef } => self.eval(*operand, env)?.and_then(|v| v.checked_mul(*coef)),
            Expr::FloorDiv { numer, denom } => {
                self.eval(*numer, env)?.and_then(|v| v.checked_div_euclid(*denom))
            }
            Expr::Modulo { numer, denom } => {
                self.eval(*numer, env)?.and_then(|v| v.checked_rem_euclid(*denom))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AxisId, RegId};
    use proptest::prelude::*;

    #[test]
    fn a_miss_makes_everything_above_unknown_and_bounds_are_held() {
        let mut x = Exprs::default();
        let (i, r) = (x.intern(Expr::AxisIv(AxisId(0))), x.intern(Expr::RuntimeInt(RegId(0))));
        let sum = x.affine([(i, 4), (r, 1)], 2);
        let above = x.modulo(sum, 7).unwrap();
        let mut env = Env::default();
        env.set(i, IndexValue { value: 3, lo: 0, hi: 4 });
        assert_eq!(x.eval(above, &env).unwrap(), None);
        env.set(r, IndexValue { value: -1, lo: -1, hi: 0 });
        assert_eq!(x.eval(above, &env).unwrap(), Some(13 % 7));
        env.set(i, IndexValue { value: 4, lo: 0, hi: 4 });
        let fault = x.eval(above, &env).unwrap_err();
        assert_eq!(fault.code.id, "MUR0417");
        assert!(fault.message.contains("is 4, its bounds 0..4"));
    }

    #[test]
    fn the_remainder_is_euclidean() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        let (m, q) = (x.modulo(i, 3).unwrap(), x.floor_div(i, 3).unwrap());
        let mut env = Env::default();
        env.set(i, IndexValue { value: -1, lo: -5, hi: 5 });
        assert_eq!((x.eval(m, &env).unwrap(), x.eval(q, &env).unwrap()), (Some(2), Some(-1)));
        env.set(i, IndexValue { value: i64::MAX, lo: 0, hi: i64::MAX });
        assert!(x.eval(m, &env).is_err());
        let big = x.affine([(i, 2)], 0);
        env.set(i, IndexValue { value: i64::MAX - 1, lo: 0, hi: i64::MAX });
        assert_eq!(x.eval(big, &env).unwrap(), None);
    }

    /// A step of building: an operation and its number.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add(usize),
        Scale(i64),
        Modulo(i64),
        FloorDiv(i64),
        Plus(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..8).prop_map(Step::Add),
            (-6i64..7).prop_map(Step::Scale),
            (1i64..13).prop_map(Step::Modulo),
            (1i64..13).prop_map(Step::FloorDiv),
            (-20i64..21).prop_map(Step::Plus),
        ]
    }

    proptest! {
        /// Whatever the constructors make of a chain of operations has the value of the operations done in turn.
        #[test]
        fn simplification_preserves_values(
            steps in proptest::collection::vec(step(), 1..12),
            values in proptest::collection::vec(-50i64..51, 3),
        ) {
            let mut x = Exprs::default();
            let leaves = [
                x.intern(Expr::AxisIv(AxisId(0))),
                x.intern(Expr::RuntimeInt(RegId(0))),
                x.intern(Expr::IndirectArg { arg_id: 1 }),
            ];
            let mut env = Env::default();
            for (leaf, value) in leaves.iter().zip(&values) {
                env.set(*leaf, IndexValue { value: *value, lo: -50, hi: 51 });
            }
            let mut made: Vec<(ExprId, i64)> = leaves.into_iter().zip(values.iter().copied()).collect();
            for s in steps {
                let (e, v) = made[made.len() - 1];
                let next = match s {
                    Step::Add(k) => {
                        let (other, w) = made[k % made.len()];
                        (x.add(e, other), v + w)
                    }
                    Step::Scale(k) => (x.scale(e, k), v * k),
                    Step::Modulo(n) => (x.modulo(e, n).unwrap(), v.rem_euclid(n)),
                    Step::FloorDiv(n) => (x.floor_div(e, n).unwrap(), v.div_euclid(n)),
                    Step::Plus(c) => {
                        let c_id = x.constant(c);
                        (x.add(e, c_id), v + c)
                    }
                };
                prop_assert_eq!(x.eval(next.0, &env).unwrap(), Some(next.1), "{:?}", s);
                made.push(next);
            }
        }
    }
}
