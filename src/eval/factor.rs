//! Factorisations and solves on one matrix, as LAPACK defines their results: Cholesky, triangular solve, LU with row
//! pivots, Householder QR and its product, and the tridiagonal solve. Computed in `f64`; the caller rounds once.

use super::field::{Field, Matrix};

/// The factor `L` with `a = L L^H`, of the lower triangle of `a`; what lies above the diagonal stays as it is. The
/// second is the order of the leading minor that is not positive definite, 0 when all are.
pub(crate) fn cholesky<F: Field>(a: &Matrix<F>) -> (Matrix<F>, usize) {
    let n = a.rows;
    let mut l = a.clone();
    for j in 0..n {
        let square: f64 = (0..j).map(|k| l.get(j, k).size().powi(2)).sum();
        let pivot = a.get(j, j).real() - square;
        if pivot.is_nan() || pivot <= 0.0 {
            return (l, j + 1);
        }
        let root = pivot.sqrt();
        l.set(j, j, F::of_real(root));
        for i in j + 1..n {
            let sum = (0..j).fold(a.get(i, j), |s, k| s.minus(l.get(i, k).times(l.get(j, k).conj())));
            l.set(i, j, sum.over(F::of_real(root)));
        }
    }
    (l, 0)
}

/// Solves `t x = b` in place of `b`, for a triangular `t` of which only the one triangle is read.
pub(crate) fn solve_triangular<F: Field>(t: &Matrix<F>, b: &mut Matrix<F>, lower: bool, unit: bool) {
    let n = t.rows;
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        let known = if lower { 0..i } else { i + 1..n };
        for column in 0..b.columns {
            let sum =
                known.clone().fold(b.get(i, column), |s, k| s.minus(t.get(i, k).times(b.get(k, column))));
            b.set(i, column, if unit { sum } else { sum.over(t.get(i, i)) });
        }
    }
}

/// What is done to the matrix of a triangular solve first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Triangle {
    pub left: bool,
    pub lower: bool,
    pub unit: bool,
    pub transposed: bool,
    pub conjugated: bool,
}

/// Solves `op(a) x = b`, or `x op(a) = b` when `a` stands on the right.
pub(crate) fn solve<F: Field>(a: &Matrix<F>, b: &Matrix<F>, how: Triangle) -> Matrix<F> {
    let conjugated = |m: &Matrix<F>| Matrix::new(m.rows, m.columns, m.at.iter().map(|x| x.conj()).collect());
    let mut t = if how.conjugated { conjugated(a) } else { a.clone() };
    let (mut lower, mut x) = (how.lower, b.clone());
    // x op(a) = b is op(a)^T x^T = b^T.
    if how.transposed == how.left {
        (t, lower) = (t.transposed(false), !lower);
    }
    if !how.left {
        x = x.transposed(false);
    }
    solve_triangular(&t, &mut x, lower, how.unit);
    if how.left { x } else { x.transposed(false) }
}

/// `P a = L U` in one matrix, the row that each step swaps with its own, and the first zero pivot (from 1; 0: none).
pub(crate) fn lu<F: Field>(a: &Matrix<F>) -> (Matrix<F>, Vec<usize>, usize) {
    let mut m = a.clone();
    let (mut pivots, mut zero) = (Vec::new(), 0);
    for k in 0..m.rows.min(m.columns) {
        let mut best = k;
        for i in k + 1..m.rows {
            if m.get(i, k).pivot_size() > m.get(best, k).pivot_size() {
                best = i;
            }
        }
        pivots.push(best);
        if m.get(best, k).pivot_size() == 0.0 {
            zero = if zero == 0 { k + 1 } else { zero };
            continue;
        }
        m.swap_rows(k, best);
        for i in k + 1..m.rows {
            let factor = m.get(i, k).over(m.get(k, k));
            m.set(i, k, factor);
            for j in k + 1..m.columns {
                m.set(i, j, m.get(i, j).minus(factor.times(m.get(k, j))));
            }
        }
    }
    (m, pivots, zero)
}

/// `a = Q R`: `R` on and above the diagonal, the Householder vectors below it, and their factors.
pub(crate) fn qr<F: Field>(a: &Matrix<F>) -> (Matrix<F>, Vec<F>) {
    let mut m = a.clone();
    let mut taus = Vec::new();
    for k in 0..m.rows.min(m.columns) {
        let alpha = m.get(k, k);
        let below: f64 = (k + 1..m.rows).map(|i| m.get(i, k).size().powi(2)).sum();
        let imaginary = alpha.minus(F::of_real(alpha.real())).size();
        if below == 0.0 && imaginary == 0.0 {
            taus.push(F::ZERO);
            continue;
        }
        let norm = (below + alpha.size().powi(2)).sqrt();
        let beta = F::of_real(-norm.copysign(alpha.real()));
        let tau = beta.minus(alpha).over(beta);
        for i in k + 1..m.rows {
            m.set(i, k, m.get(i, k).over(alpha.minus(beta)));
        }
        m.set(k, k, beta);
        // H^H = 1 - conj(tau) v v^H, on the columns that follow.
        for j in k + 1..m.columns {
            let dot = (k + 1..m.rows).fold(m.get(k, j), |s, i| s.plus(m.get(i, k).conj().times(m.get(i, j))));
            let scaled = tau.conj().times(dot);
            m.set(k, j, m.get(k, j).minus(scaled));
            for i in k + 1..m.rows {
                m.set(i, j, m.get(i, j).minus(m.get(i, k).times(scaled)));
            }
        }
        taus.push(tau);
    }
    (m, taus)
}

/// The first columns of the product of Householder reflections `1 - tau v v^H`, as many as `v` has.
pub(crate) fn reflections<F: Field>(v: &Matrix<F>, taus: &[F]) -> Matrix<F> {
    let mut q = Matrix::zeros(v.rows, v.columns);
    (0..v.rows.min(v.columns)).for_each(|i| q.set(i, i, F::of_real(1.0)));
    for (k, tau) in taus.iter().enumerate().take(v.columns.min(v.rows)).rev() {
        for j in 0..q.columns {
            let dot = (k + 1..q.rows).fold(q.get(k, j), |s, i| s.plus(v.get(i, k).conj().times(q.get(i, j))));
            let scaled = tau.times(dot);
            q.set(k, j, q.get(k, j).minus(scaled));
            for i in k + 1..q.rows {
                q.set(i, j, q.get(i, j).minus(v.get(i, k).times(scaled)));
            }
        }
    }
    q
}

/// A tridiagonal system of `n` rows and its right-hand sides. Of the diagonals beside the main one, `n - 1` elements count.
#[derive(Clone, Debug)]
pub(crate) struct Tridiagonal<F> {
    pub below: Vec<F>,
    pub diagonal: Vec<F>,
    pub above: Vec<F>,
    pub b: Matrix<F>,
}

impl<F: Field> Tridiagonal<F> {
    /// Solves in place, rows swapped where the pivot is the smaller; gives the first zero pivot (from 1; 0: none). The
    /// diagonals become those of the upper factor, the second one above in `below`.
    pub fn solve(&mut self) -> usize {
        let n = self.diagonal.len();
        let (d, up, low, b) = (&mut self.diagonal, &mut self.above, &mut self.below, &mut self.b);
        for k in 0..n.saturating_sub(1) {
            if low[k] == F::ZERO {
                if d[k] == F::ZERO {
                    return k + 1;
                }
            } else if d[k].pivot_size() >= low[k].pivot_size() {
                let factor = low[k].over(d[k]);
                d[k + 1] = d[k + 1].minus(factor.times(up[k]));
                for j in 0..b.columns {
                    b.set(k + 1, j, b.get(k + 1, j).minus(factor.times(b.get(k, j))));
                }
                low[k] = F::ZERO;
            } else {
                let factor = d[k].over(low[k]);
                d[k] = low[k];
                let next = d[k + 1];
                d[k + 1] = up[k].minus(factor.times(next));
                if k + 2 < n {
                    low[k] = up[k + 1];
                    up[k + 1] = F::ZERO.minus(factor.times(low[k]));
                }
                up[k] = next;
                for j in 0..b.columns {
                    let (this, other) = (b.get(k, j), b.get(k + 1, j));
                    b.set(k, j, other);
                    b.set(k + 1, j, this.minus(factor.times(other)));
                }
            }
        }
        if n == 0 || d[n - 1] == F::ZERO {
            return n;
        }
        for j in 0..b.columns {
            for i in (0..n).rev() {
                let mut x = b.get(i, j);
                if i + 1 < n {
                    x = x.minus(up[i].times(b.get(i + 1, j)));
                }
                if i + 2 < n {
                    x = x.minus(low[i].times(b.get(i + 2, j)));
                }
                b.set(i, j, x.over(d[i]));
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product<F: Field>(a: &Matrix<F>, b: &Matrix<F>) -> Matrix<F> {
        let mut out = Matrix::zeros(a.rows, b.columns);
        for i in 0..a.rows {
            for j in 0..b.columns {
                out.set(i, j, (0..a.columns).fold(F::ZERO, |s, k| s.plus(a.get(i, k).times(b.get(k, j)))));
            }
        }
        out
    }

    fn near<F: Field>(a: &Matrix<F>, b: &Matrix<F>) -> bool {
        a.at.len() == b.at.len() && a.at.iter().zip(&b.at).all(|(x, y)| x.minus(*y).size() < 1e-12)
    }

    fn sample<F: Field>(rows: usize, columns: usize, of: impl Fn(f64, f64) -> F) -> Matrix<F> {
        let x = |i: usize| ((i * 7919 % 31) as f64 - 15.0) / 8.0;
        Matrix::new(rows, columns, (0..rows * columns).map(|i| of(x(i), x(i + 3))).collect())
    }

    fn check<F: Field>(of: impl Fn(f64, f64) -> F + Copy) {
        let upper = |m: &Matrix<F>| {
            let mut out = Matrix::zeros(m.rows.min(m.columns), m.columns);
            (0..out.rows).for_each(|i| (i..m.columns).for_each(|j| out.set(i, j, m.get(i, j))));
            out
        };
        for (rows, columns) in [(5, 3), (4, 4), (3, 5)] {
            let a = sample(rows, columns, of);
            let (packed, taus) = qr(&a);
            let mut v = Matrix::zeros(rows, rows.min(columns));
            (0..rows).for_each(|i| (0..v.columns).for_each(|j| v.set(i, j, packed.get(i, j))));
            let q = reflections(&v, &taus);
            assert!(near(&product(&q, &upper(&packed)), &a), "QR {rows}x{columns}");
            assert!(near(&product(&q.transposed(true), &q), &Matrix::identity(q.columns)));
            let (packed, pivots, zero) = lu(&a);
            let mut l = Matrix::zeros(rows, rows.min(columns));
            for i in 0..rows {
                (0..l.columns.min(i)).for_each(|j| l.set(i, j, packed.get(i, j)));
                if i < l.columns {
                    l.set(i, i, F::of_real(1.0));
                }
            }
            let mut permuted = a.clone();
            pivots.iter().enumerate().for_each(|(i, p)| permuted.swap_rows(i, *p));
            assert!(zero == 0 && near(&product(&l, &upper(&packed)), &permuted), "LU {rows}x{columns}");
        }
        let a = sample(4, 4, of);
        let mut square = product(&a, &a.transposed(true));
        (0..4).for_each(|i| square.set(i, i, square.get(i, i).plus(F::of_real(1.0))));
        let (mut l, order) = cholesky(&square);
        (0..4).for_each(|i| (i + 1..4).for_each(|j| l.set(i, j, F::ZERO)));
        assert!(order == 0 && near(&product(&l, &l.transposed(true)), &square));
        for bits in 0..16u32 {
            let bit = |k: u32| bits >> k & 1 == 1;
            let how =
                Triangle { left: bit(0), lower: true, unit: false, transposed: bit(1), conjugated: bit(2) };
            let b = sample(4, 4, |x, y| of(y, x));
            let mut op = if how.transposed { l.transposed(false) } else { l.clone() };
            if how.conjugated {
                op = op.transposed(true).transposed(false);
            }
            let x = solve(&l, &b, how);
            let back = if how.left { product(&op, &x) } else { product(&x, &op) };
            assert!(near(&back, &b), "{how:?}");
        }
    }

    #[test]
    fn factors_multiply_back() {
        check(|x, _| x);
        check(|x, y| [x, y]);
    }

    #[test]
    fn a_tridiagonal_system_with_swaps() {
        let mut t = Tridiagonal {
            below: vec![4.0, 1.0, 8.0],
            diagonal: vec![1.0, 2.0, 3.0, 4.0],
            above: vec![5.0, 6.0, 7.0, 0.0],
            b: Matrix::new(4, 1, vec![11.0, 26.0, 39.0, 40.0]),
        };
        assert_eq!(t.solve(), 0);
        assert!(near(&t.b, &Matrix::new(4, 1, vec![1.0, 2.0, 3.0, 4.0])), "{:?}", t.b);
    }

    #[test]
    fn what_has_no_factor_says_where() {
        assert_eq!(cholesky(&Matrix::new(2, 2, vec![1.0, 0.0, 2.0, 1.0])).1, 2);
        assert_eq!(lu(&Matrix::<f64>::zeros(2, 2)).2, 1);
    }
}
