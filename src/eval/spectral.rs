//! Eigenvalues of symmetric matrices and singular values, by Jacobi rotations: slow for large matrices, and accurate to
//! the last digits. Vectors are determined up to their sign.

use super::field::Matrix;

/// Sweeps after which everything has long converged.
const MAX_SWEEPS: usize = 60;

/// The rotation that makes two columns (or an off-diagonal element) orthogonal: cosine and sine.
fn rotation(alpha: f64, beta: f64, gamma: f64) -> (f64, f64) {
    let zeta = (beta - alpha) / (2.0 * gamma);
    let t = 1f64.copysign(zeta) / (zeta.abs() + libm::hypot(1.0, zeta));
    let c = 1.0 / libm::hypot(1.0, t);
    (c, c * t)
}

/// Turns columns `p` and `q`.
fn turn(m: &mut Matrix<f64>, p: usize, q: usize, (c, s): (f64, f64)) {
    for i in 0..m.rows {
        let (x, y) = (m.get(i, p), m.get(i, q));
        m.set(i, p, c * x - s * y);
        m.set(i, q, s * x + c * y);
    }
}

fn turn_rows(m: &mut Matrix<f64>, p: usize, q: usize, (c, s): (f64, f64)) {
    for j in 0..m.columns {
        let (x, y) = (m.get(p, j), m.get(q, j));
        m.set(p, j, c * x - s * y);
        m.set(q, j, s * x + c * y);
    }
}

/// Eigenvalues of the symmetric matrix whose lower triangle is given, ascending, with their vectors as columns.
pub(crate) fn symmetric(a: &Matrix<f64>) -> (Vec<f64>, Matrix<f64>) {
    let n = a.rows;
    let mut m = a.clone();
    (0..n).for_each(|i| (i + 1..n).for_each(|j| m.set(i, j, a.get(j, i))));
    let mut vectors = Matrix::identity(n);
    for _ in 0..MAX_SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (alpha, beta, gamma) = (m.get(p, p), m.get(q, q), m.get(p, q));
                if gamma == 0.0 || gamma.abs() <= f64::EPSILON * 1e-3 * (alpha.abs() * beta.abs()).sqrt() {
                    continue;
                }
                let by = rotation(alpha, beta, gamma);
                if by.1 == 0.0 || !by.1.is_finite() {
                    continue;
                }
                turned = true;
                turn(&mut m, p, q, by);
                turn_rows(&mut m, p, q, by);
                m.set(p, q, 0.0);
                m.set(q, p, 0.0);
                turn(&mut vectors, p, q, by);
            }
        }
        if !turned {
            break;
        }
    }
    let values: Vec<f64> = (0..n).map(|i| m.get(i, i)).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    (order.iter().map(|i| values[*i]).collect(), columns(&vectors, &order))
}

fn columns(m: &Matrix<f64>, order: &[usize]) -> Matrix<f64> {
    let mut out = Matrix::zeros(m.rows, order.len());
    for i in 0..m.rows {
        order.iter().enumerate().for_each(|(j, from)| out.set(i, j, m.get(i, *from)));
    }
    out
}

/// `a = u diag(s) v^T` with descending `s`; `u` has `rows` or `min(rows, columns)` columns, as `v` has of its own.
pub(crate) fn singular(a: &Matrix<f64>, full: bool) -> (Matrix<f64>, Vec<f64>, Matrix<f64>) {
    if a.rows < a.columns {
        let (v, s, u) = singular(&a.transposed(false), full);
        return (u, s, v);
    }
    let n = a.columns;
    let (mut u, mut v) = (a.clone(), Matrix::identity(n));
    for _ in 0..MAX_SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let dot = |x: usize, y: usize| (0..u.rows).map(|i| u.get(i, x) * u.get(i, y)).sum::<f64>();
                let (alpha, beta, gamma) = (dot(p, p), dot(q, q), dot(p, q));
                if gamma == 0.0 || gamma.abs() <= f64::EPSILON * 0.1 * (alpha * beta).sqrt() {
                    continue;
                }
                let by = rotation(alpha, beta, gamma);
                if by.1 == 0.0 || !by.1.is_finite() {
                    continue;
                }
                turned = true;
                turn(&mut u, p, q, by);
                turn(&mut v, p, q, by);
            }
        }
        if !turned {
            break;
        }
    }
    let norm = |j: usize| (0..u.rows).map(|i| u.get(i, j).powi(2)).sum::<f64>().sqrt();
    let sizes: Vec<f64> = (0..n).map(norm).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| sizes[*j].total_cmp(&sizes[*i]));
    let s: Vec<f64> = order.iter().map(|i| sizes[*i]).collect();
    let u = columns(&u, &order);
    (completed(&u, &s, if full { u.rows } else { n }), s, columns(&v, &order))
}

/// Columns scaled to length 1; those of length 0, and further ones, chosen orthogonal to the rest.
fn completed(u: &Matrix<f64>, s: &[f64], count: usize) -> Matrix<f64> {
    let mut out = Matrix::zeros(u.rows, count);
    let tiny = s.first().copied().unwrap_or(0.0) * f64::EPSILON * u.rows as f64;
    for j in 0..count {
        if s.get(j).is_some_and(|s| *s > tiny) {
            (0..u.rows).for_each(|i| out.set(i, j, u.get(i, j) / s[j]));
            continue;
        }
        // The axis that the columns so far cover least, made orthogonal to them, twice for accuracy.
        let left = |axis: usize| 1.0 - (0..j).map(|k| out.get(axis, k).powi(2)).sum::<f64>();
        let axis = (0..u.rows).max_by(|a, b| left(*a).total_cmp(&left(*b))).unwrap_or(0);
        let mut x = vec![0.0; u.rows];
        if let Some(one) = x.get_mut(axis) {
            *one = 1.0;
        }
        for _ in 0..2 {
            for k in 0..j {
                let dot: f64 = x.iter().enumerate().map(|(i, x)| x * out.get(i, k)).sum();
                x.iter_mut().enumerate().for_each(|(i, x)| *x -= dot * out.get(i, k));
            }
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            x.iter_mut().for_each(|x| *x /= norm);
        }
        x.iter().enumerate().for_each(|(i, x)| out.set(i, j, *x));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, columns: usize) -> Matrix<f64> {
        let x = |i: usize| ((i * 7919 % 31) as f64 - 15.0) / 8.0;
        Matrix::new(rows, columns, (0..rows * columns).map(x).collect())
    }

    fn rebuilt(u: &Matrix<f64>, s: &[f64], v: &Matrix<f64>, i: usize, j: usize) -> f64 {
        s.iter().enumerate().map(|(k, s)| u.get(i, k) * s * v.get(j, k)).sum()
    }

    fn is_orthogonal(m: &Matrix<f64>) -> bool {
        let dot = |a: usize, b: usize| (0..m.rows).map(|i| m.get(i, a) * m.get(i, b)).sum::<f64>();
        (0..m.columns)
            .all(|a| (0..m.columns).all(|b| (dot(a, b) - f64::from(u8::from(a == b))).abs() < 1e-12))
    }

    #[test]
    fn singular_values_multiply_back() {
        let mut flat = sample(4, 3);
        (0..4).for_each(|i| flat.set(i, 2, flat.get(i, 0)));
        for (a, full) in [(sample(5, 3), false), (sample(5, 3), true), (sample(3, 5), true), (flat, true)] {
            let (u, s, v) = singular(&a, full);
            for i in 0..a.rows {
                for j in 0..a.columns {
                    assert!((rebuilt(&u, &s, &v, i, j) - a.get(i, j)).abs() < 1e-12);
                }
            }
            assert!(is_orthogonal(&u) && is_orthogonal(&v) && s.is_sorted_by(|a, b| a >= b));
            assert_eq!(u.columns, if full { a.rows } else { a.rows.min(a.columns) });
        }
    }

    #[test]
    fn eigenvectors_multiply_back() {
        let a = sample(6, 6);
        let (values, vectors) = symmetric(&a);
        for i in 0..6 {
            for j in 0..=i {
                assert!((rebuilt(&vectors, &values, &vectors, i, j) - a.get(i, j)).abs() < 1e-12);
            }
        }
        assert!(is_orthogonal(&vectors) && values.is_sorted());
        assert_eq!(symmetric(&Matrix::new(2, 2, vec![f64::NAN; 4])).0.len(), 2, "it ends");
    }
}
