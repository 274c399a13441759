//! Quasi-affine expressions, interned: equal expressions have equal ids (`spec/ir.md 3.5`). The constructors simplify:
//! whatever value the indices take, the result has the value of what was asked for.
//!
//! ```text
//! (8*i + 5) mod 4  ->  1        (i mod 12) mod 4  ->  i mod 4        (i floordiv 3) floordiv 2  ->  i floordiv 6
//! ```

use crate::hash::{SeededMap, seeded_map};
use crate::ids::{AxisId, ExprId, RegId};
use bevy_ecs::prelude::Resource;

/// An expression node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// Kind 3: an element of an index tensor.
    IndirectArg {
        /// Argument id.
        arg_id: i32,
    },
    /// Kind 6: the induction variable of an axis.
    AxisIv(AxisId),
    /// Kind 7: a run-time value in a register.
    RuntimeInt(RegId),
    /// Kind 17: `c + sum(coef * index)`, every index a bare one (kind 3, 6 or 7).
    Affine {
        /// Terms in stored order; no index occurs twice, no coefficient is 0.
        terms: Vec<(ExprId, i64)>,
        /// The constant.
        c: i64,
    },
    /// Kind 18: a sum of at least two expressions, at most one of them affine and that one first.
    Sum(Vec<ExprId>),
    /// Kind 23: `coef * operand`, the operand not affine and not a product, the coefficient neither 0 nor 1.
    Mult {
        /// What is multiplied.
        operand: ExprId,
        /// By what.
        coef: i64,
    },
    /// Kind 25: floor division by a positive constant.
    FloorDiv {
        /// Numerator.
        numer: ExprId,
        /// Positive.
        denom: i64,
    },
    /// Kind 26: Euclidean remainder by a positive constant.
    Modulo {
        /// Numerator; an affine expression wherever it can be one.
        numer: ExprId,
        /// Positive.
        denom: i64,
    },
}

impl Expr {
    /// The kind's number.
    pub fn kind(&self) -> u8 {
        match self {
            Expr::IndirectArg { .. } => 3,
            Expr::AxisIv(_) => 6,
            Expr::RuntimeInt(_) => 7,
            Expr::Affine { .. } => 17,
            Expr::Sum(_) => 18,
            Expr::Mult { .. } => 23,
            Expr::FloorDiv { .. } => 25,
            Expr::Modulo { .. } => 26,
        }
    }

    /// Whether it is an index: a leaf that the smart constructors wrap as `1 * index + 0`.
    pub fn is_bare_index(&self) -> bool {
        matches!(self, Expr::IndirectArg { .. } | Expr::AxisIv(_) | Expr::RuntimeInt(_))
    }
}

/// The table of expressions.
#[derive(Resource)]
pub struct Exprs {
    nodes: Vec<Expr>,
    ids: SeededMap<Expr, ExprId>,
}

impl Default for Exprs {
    fn default() -> Self {
        Exprs { nodes: Vec::new(), ids: seeded_map() }
    }
}

impl Exprs {
    /// Interns a node.
    pub fn intern(&mut self, e: Expr) -> ExprId {
        if let Some(id) = self.ids.get(&e) {
            return *id;
        }
        let id = ExprId::new(self.nodes.len());
        self.nodes.push(e.clone());
        self.ids.insert(e, id);
        id
    }

    /// The node `id`.
    pub fn get(&self, id: ExprId) -> &Expr {
        &self.nodes[id.index()]
    }

    /// Number of distinct nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A constant: an affine expression without terms.
    pub fn constant(&mut self, c: i64) -> ExprId {
        self.intern(Expr::Affine { terms: Vec::new(), c })
    }

    /// `c + sum(coef * index)`; merges equal indices and drops zero terms. Indices must be bare.
    pub fn affine(&mut self, terms: impl IntoIterator<Item = (ExprId, i64)>, c: i64) -> ExprId {
        let mut merged: Vec<(ExprId, i64)> = Vec::new();
        for (e, k) in terms {
            debug_assert!(self.get(e).is_bare_index());
            match merged.iter_mut().find(|(m, _)| *m == e) {
                Some((_, old)) => *old = old.wrapping_add(k),
                None => merged.push((e, k)),
            }
        }
        merged.retain(|(_, k)| *k != 0);
        self.intern(Expr::Affine { terms: merged, c })
    }

    /// The terms and constant of an affine expression; a bare index reads as `1 * index + 0`.
    pub fn as_affine(&self, id: ExprId) -> Option<(Vec<(ExprId, i64)>, i64)> {
        match self.get(id) {
            Expr::Affine { terms, c } => Some((terms.clone(), *c)),
            e if e.is_bare_index() => Some((vec![(id, 1)], 0)),
            _ => None,
        }
    }

    /// `a + b`: affine parts merge into one, the other operands stand behind it.
    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let mut affine = (Vec::new(), 0i64);
        let mut rest = Vec::new();
        let mut take = |this: &Self, e: ExprId| match this.as_affine(e) {
            Some((terms, c)) => {
                affine.0.extend(terms);
                affine.1 = affine.1.wrapping_add(c);
            }
            None => rest.push(e),
        };
        for e in [a, b] {
            match self.get(e) {
                Expr::Sum(operands) => operands.iter().for_each(|o| take(self, *o)),
                _ => take(self, e),
            }
        }
        let affine = self.affine(affine.0, affine.1);
        let zero = matches!(self.get(affine), Expr::Affine { terms, c: 0 } if terms.is_empty());
        if !zero || rest.is_empty() {
            rest.insert(0, affine);
        }
        if let [one] = rest[..] { one } else { self.intern(Expr::Sum(rest)) }
    }

    /// `coef * e`.
    pub fn scale(&mut self, e: ExprId, coef: i64) -> ExprId {
        if let Some((terms, c)) = self.as_affine(e) {
            let terms: Vec<_> = terms.into_iter().map(|(i, k)| (i, k.wrapping_mul(coef))).collect();
            return self.affine(terms, c.wrapping_mul(coef));
        }
        match (self.get(e), coef) {
            (_, 0) => self.constant(0),
            (_, 1) => e,
            (&Expr::Mult { operand, coef: inner }, _) => self.scale(operand, inner.wrapping_mul(coef)),
            _ => self.intern(Expr::Mult { operand: e, coef }),
        }
    }

    /// `e mod denom`, simplified by `spec/ir.md 3.5`: constants fold, an affine numerator is reduced term by term, and a
    /// modulo of a modulo collapses where one modulus divides or exceeds the other. `None` if `denom < 1`.
    pub fn modulo(&mut self, e: ExprId, denom: i64) -> Option<ExprId> {
        if denom < 1 {
            return None;
        }
        if let Expr::Modulo { numer, denom: m } = *self.get(e) {
            if m % denom == 0 {
                return self.modulo(numer, denom);
            }
            if denom > m {
                return Some(e);
            }
        }
        let Some((terms, c)) = self.as_affine(e) else {
            return Some(if denom == 1 {
                self.constant(0)
            } else {
                self.intern(Expr::Modulo { numer: e, denom })
            });
        };
        let terms: Vec<_> =
            terms.into_iter().map(|(i, k)| (i, k.rem_euclid(denom))).filter(|(_, k)| *k != 0).collect();
        let c = c.rem_euclid(denom);
        if terms.is_empty() {
            return Some(self.constant(c));
        }
        let numer = self.affine(terms, c);
        Some(self.intern(Expr::Modulo { numer, denom }))
    }

    /// `floor(e / denom)`: constants fold, coefficients that the divisor divides are divided, a quotient of a quotient is
    /// one quotient, and `(x mod m) / d` with `m <= d` is 0. `None` if `denom < 1`.
    pub fn floor_div(&mut self, e: ExprId, denom: i64) -> Option<ExprId> {
        if denom < 1 {
            return None;
        }
        if denom == 1 {
            return Some(e);
        }
        if let Some((terms, c)) = self.as_affine(e)
            && terms.iter().all(|(_, k)| k % denom == 0)
        {
            let terms: Vec<_> = terms.into_iter().map(|(i, k)| (i, k / denom)).collect();
            return Some(self.affine(terms, c.div_euclid(denom)));
        }
        match *self.get(e) {
            Expr::Modulo { denom: m, .. } if m <= denom => Some(self.constant(0)),
            Expr::FloorDiv { numer, denom: inner } => match inner.checked_mul(denom) {
                Some(both) => self.floor_div(numer, both),
                None => Some(self.intern(Expr::FloorDiv { numer: e, denom })),
            },
            _ => Some(self.intern(Expr::FloorDiv { numer: e, denom })),
        }
    }

    /// Whether an address can be split into partition and offset by `stride` without carrying from one into the other.
    /// A part along partitions has to be a multiple of the stride; with `require_pred` an index alone does not pass there,
    /// because nothing bounds it.
    pub fn is_legal_delinearized_address(
        &self,
        e: ExprId,
        stride: i64,
        is_partition: bool,
        require_pred: bool,
    ) -> bool {
        match self.get(e) {
            Expr::IndirectArg { .. } | Expr::AxisIv(_) | Expr::RuntimeInt(_) => {
                !require_pred || !is_partition
            }
            Expr::Affine { terms, c } => {
                let divides = |k: i64| stride > 0 && k % stride == 0;
                terms.is_empty() || !is_partition || *c == 0 && terms.iter().all(|(_, k)| divides(*k))
            }
            Expr::Sum(operands) => operands
                .iter()
                .all(|o| self.is_legal_delinearized_address(*o, stride, is_partition, require_pred)),
            Expr::Mult { operand, coef } => {
                // What the coefficient has of the stride, the operand need not have.
                let rest = stride / gcd(*coef, stride).max(1);
                rest == 1 || self.is_legal_delinearized_address(*operand, rest, is_partition, require_pred)
            }
            Expr::FloorDiv { numer, denom } => match stride.checked_mul(*denom) {
                Some(both) => self.is_legal_delinearized_address(*numer, both, is_partition, require_pred),
                None => !is_partition,
            },
            Expr::Modulo { numer, denom } => {
                let part = gcd(stride, *denom);
                !is_partition
                    || part == stride
                        && self.is_legal_delinearized_address(*numer, part, is_partition, require_pred)
            }
        }
    }
}

/// Greatest common divisor of magnitudes.
fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_share_an_id() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        let a = x.affine([(i, 4)], 3);
        let b = x.affine([(i, 1), (i, 3)], 3);
        assert_eq!(a, b);
        assert_ne!(a, x.affine([(i, 4)], 4));
    }

    #[test]
    fn modulo_is_euclidean_and_simplifies() {
        let mut x = Exprs::default();
        let minus_one = x.constant(-1);
        let two = x.constant(2);
        assert_eq!(x.modulo(minus_one, 3), Some(two));
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        let m12 = x.modulo(i, 12).unwrap();
        let m4 = x.modulo(i, 4).unwrap();
        assert_eq!(x.modulo(m12, 4), Some(m4));
        assert_eq!(x.modulo(m4, 9), Some(m4));
        let zero = x.constant(0);
        assert_eq!(x.floor_div(m4, 7), Some(zero));
        assert_eq!(x.floor_div(m4, 4), Some(zero));
        assert_eq!(x.modulo(i, 0), None);
        let multiple = x.affine([(i, 8)], 5);
        let one = x.constant(1);
        assert_eq!(x.modulo(multiple, 4), Some(one));
    }

    #[test]
    fn sums_and_products_have_one_form() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        let q = x.floor_div(i, 3).unwrap();
        let (two_q, one) = (x.scale(q, 2), x.constant(1));
        let left = x.add(two_q, i);
        let left = x.add(left, one);
        let right = x.affine([(i, 1)], 1);
        let right = x.add(right, two_q);
        assert_eq!(left, right);
        let kinds: Vec<u8> = [i, right, two_q, q].iter().map(|e| x.get(*e).kind()).collect();
        assert_eq!(kinds, [6, 18, 23, 25]);
        let (zero, four_q) = (x.constant(0), x.scale(q, 4));
        assert_eq!(x.scale(two_q, 2), four_q);
        assert_eq!(x.scale(two_q, 0), zero);
        assert_eq!(x.add(zero, q), q);
    }

    #[test]
    fn quotients_collapse() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::RuntimeInt(RegId(0)));
        let (q, six) = (x.floor_div(i, 3).unwrap(), x.floor_div(i, 6).unwrap());
        assert_eq!(x.floor_div(q, 2), Some(six));
        let (dense, exact) = (x.affine([(i, 8)], -3), x.affine([(i, 2)], -1));
        assert_eq!(x.floor_div(dense, 4), Some(exact));
        assert_eq!(x.floor_div(q, i64::MAX), Some(x.intern(Expr::FloorDiv { numer: q, denom: i64::MAX })));
    }

    #[test]
    fn an_address_splits_where_its_parts_are_multiples_of_the_stride() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::AxisIv(AxisId(0)));
        let legal = |x: &Exprs, e, partition| x.is_legal_delinearized_address(e, 96, partition, true);
        assert!(legal(&x, i, false) && !legal(&x, i, true));
        assert!(x.is_legal_delinearized_address(i, 96, true, false));
        let (rows, late, fixed) = (x.affine([(i, 192)], 0), x.affine([(i, 192)], 5), x.constant(5));
        assert!(legal(&x, rows, true) && !legal(&x, late, true) && legal(&x, late, false));
        assert!(legal(&x, fixed, true));
        let m = x.modulo(i, 7).unwrap();
        let (m96, m32) = (x.scale(m, 96), x.scale(m, 32));
        assert!(legal(&x, m96, true) && !legal(&x, m32, true) && !legal(&x, m, true));
        let both = x.add(m96, rows);
        assert!(legal(&x, both, true));
        let wrapped = x.modulo(rows, 480).unwrap();
        assert!(legal(&x, wrapped, true));
        let q = x.floor_div(late, 10).unwrap();
        assert!(!legal(&x, q, true) && legal(&x, q, false));
    }
}
