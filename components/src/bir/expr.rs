//! Quasi-affine expressions, interned: equal expressions have equal ids (`spec/ir.md 3.5`).

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
    /// Kind 25: floor division by a positive constant.
    FloorDiv {
        /// Numerator.
        numer: ExprId,
        /// Positive.
        denom: i64,
    },
    /// Kind 26: Euclidean remainder by a positive constant.
    Modulo {
        /// Numerator, an affine expression.
        numer: ExprId,
        /// Positive.
        denom: i64,
    },
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
            debug_assert!(matches!(
                self.get(e),
                Expr::IndirectArg { .. } | Expr::AxisIv(_) | Expr::RuntimeInt(_)
            ));
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
            Expr::AxisIv(_) | Expr::RuntimeInt(_) | Expr::IndirectArg { .. } => Some((vec![(id, 1)], 0)),
            _ => None,
        }
    }

    /// `e mod denom`, simplified by `spec/ir.md 3.5`: constants fold, an affine numerator is reduced, and a modulo of
    /// a modulo collapses where one modulus divides or exceeds the other. `None` if `denom < 1`.
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
            return Some(self.intern(Expr::Modulo { numer: e, denom }));
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

    /// `floor(e / denom)`: constants fold and `(x mod m) / d` with `m <= d` is 0. `None` if `denom < 1`.
    pub fn floor_div(&mut self, e: ExprId, denom: i64) -> Option<ExprId> {
        if denom < 1 {
            return None;
        }
        if denom == 1 {
            return Some(e);
        }
        match self.get(e) {
            Expr::Modulo { denom: m, .. } if *m <= denom => Some(self.constant(0)),
            Expr::Affine { terms, c } if terms.is_empty() => {
                let q = c.div_euclid(denom);
                Some(self.constant(q))
            }
            _ => Some(self.intern(Expr::FloorDiv { numer: e, denom })),
        }
    }
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
}
