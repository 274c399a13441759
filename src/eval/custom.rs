//! Custom calls that JAX emits for the CPU: linear algebra of LAPACK (`lapack_sgetrf_ffi` ...), top-k, functions that
//! HLO once lacked (`mhlo.erf`), and annotations that change nothing. A target is known by its name; options stand in
//! its backend config as `uplo = 76 : ui8`, the number being a letter.

use super::factor::{self, Triangle, Tridiagonal};
use super::field::{Field, Matrix};
use super::lanes::{self, Kind, kind};
use super::places::count;
use super::tensor::Tensor;
use super::{elementwise, order, scalar, spectral};
use murre_components::dtype::HloType;
use murre_components::hlo::ANNOTATIONS;

/// A custom call with array operands; `results` are types and extents.
pub(crate) struct CustomCall<'a> {
    pub target: &'a str,
    pub config: &'a str,
    pub operands: &'a [&'a Tensor],
    pub results: &'a [(HloType, Vec<usize>)],
}

impl CustomCall<'_> {
    /// The results; `None` for a target that is not known, or does not take these operands.
    pub fn run(&self) -> Option<Vec<Tensor>> {
        let a = *self.operands.first()?;
        let out = if ANNOTATIONS.contains(&self.target) {
            vec![a.clone()]
        } else if self.target == "TopK" {
            let k = *self.results.first()?.1.last()?;
            let (values, indices) = (k <= *a.dims.last()?).then(|| order::topk(a, k, true))?;
            vec![values, indices]
        } else if let Some(routine) =
            self.target.strip_prefix("lapack_").or(self.target.strip_prefix("blas_"))
        {
            // One letter for the type, then the routine.
            let routine = routine.get(1..)?.strip_suffix("_ffi")?;
            match kind(a.ty) {
                Kind::Float => self.lapack::<f64>(routine).or_else(|| self.spectral(routine))?,
                Kind::Complex => self.lapack::<[f64; 2]>(routine)?,
                Kind::Int => return None,
            }
        } else {
            let name = ["mhlo.", "chlo.", "xla."].iter().find_map(|p| self.target.strip_prefix(p))?;
            let f = scalar::function_named(name).filter(|_| a.ty.is_float())?;
            vec![Tensor::new(a.ty, a.dims.clone(), elementwise::map(f, a, a.ty))]
        };
        let fits = out.len() == self.results.len()
            && out.iter().zip(self.results).all(|(t, (ty, dims))| t.ty == *ty && t.dims == *dims);
        fits.then_some(out)
    }

    /// The letter of an option; without the option, `N`.
    fn option(&self, name: &str) -> u8 {
        let value = self.config.split(['{', ',', '}']).find_map(|part| {
            let (key, value) = part.split_once(['=', ':'])?;
            (key.trim().trim_matches('"') == name).then_some(value)
        });
        let digits =
            |v: &str| v.trim().split(|c: char| !c.is_ascii_digit()).next().and_then(|d| d.parse().ok());
        value.and_then(digits).unwrap_or(b'N')
    }

    /// The result `i` of matrices, one a batch.
    fn result<F: Field>(&self, i: usize, parts: Vec<Vec<F>>) -> Option<Tensor> {
        let (ty, dims) = self.results.get(i)?;
        let lanes = parts.concat();
        (lanes.len() == count(dims)).then(|| lanes::tensor(*ty, dims.clone(), &lanes))
    }

    fn numbers(&self, i: usize, parts: Vec<Vec<usize>>) -> Option<Tensor> {
        let (ty, dims) = self.results.get(i)?;
        let lanes: Vec<i64> = parts.concat().into_iter().map(|n| n as i64).collect();
        (lanes.len() == count(dims)).then(|| lanes::tensor(*ty, dims.clone(), &lanes))
    }

    fn lapack<F: Field>(&self, routine: &str) -> Option<Vec<Tensor>> {
        let flat = |m: Matrix<F>| m.at;
        let a = *self.operands.first()?;
        match routine {
            "potrf" => {
                let upper = self.option("uplo") == b'U';
                let (mut factors, mut info) = (Vec::new(), Vec::new());
                for m in matrices::<F>(a)? {
                    let (l, order) = factor::cholesky(&if upper { m.transposed(true) } else { m });
                    factors.push(flat(if upper { l.transposed(true) } else { l }));
                    info.push(vec![order]);
                }
                Some(vec![self.result(0, factors)?, self.numbers(1, info)?])
            }
            "getrf" => {
                let (mut factors, mut pivots, mut info) = (Vec::new(), Vec::new(), Vec::new());
                for m in matrices::<F>(a)? {
                    let (lu, rows, zero) = factor::lu(&m);
                    factors.push(flat(lu));
                    pivots.push(rows.into_iter().map(|r| r + 1).collect());
                    info.push(vec![zero]);
                }
                Some(vec![self.result(0, factors)?, self.numbers(1, pivots)?, self.numbers(2, info)?])
            }
            "geqrf" => {
                let parts: Vec<_> = matrices::<F>(a)?.iter().map(factor::qr).collect();
                let (factors, taus) = parts.into_iter().map(|(m, taus)| (flat(m), taus)).unzip();
                Some(vec![self.result(0, factors)?, self.result(1, taus)?])
            }
            "orgqr" | "ungqr" => {
                let taus = vectors::<F>(self.operands.get(1)?)?;
                let parts = matrices::<F>(a)?
                    .iter()
                    .zip(&taus)
                    .map(|(v, t)| flat(factor::reflections(v, t)))
                    .collect();
                Some(vec![self.result(0, parts)?])
            }
            "trsm" => {
                let trans = self.option("trans_x");
                let how = Triangle {
                    left: self.option("side") == b'L',
                    lower: self.option("uplo") == b'L',
                    unit: self.option("diag") == b'U',
                    transposed: trans == b'T' || trans == b'C',
                    conjugated: trans == b'C',
                };
                Some(vec![triangular_solve(a, self.operands.get(1)?, how)?])
            }
            "gtsv" => {
                let [low, diagonal, up, b] = self.operands else { return None };
                let parts = [vectors::<F>(low)?, vectors::<F>(diagonal)?, vectors::<F>(up)?];
                let [low, diagonal, up] = parts;
                let (mut out, mut info) = ([const { Vec::new() }; 4], Vec::new());
                for (((low, diagonal), above), b) in
                    low.into_iter().zip(diagonal).zip(up).zip(matrices::<F>(b)?)
                {
                    // The first of the lower diagonal stands before the matrix.
                    let (before, below) = low.split_first()?;
                    let n = diagonal.len();
                    let mut t = Tridiagonal { below: below.to_vec(), diagonal, above, b };
                    if t.b.rows != n || t.below.len() + 1 != n || t.above.len() != n {
                        return None;
                    }
                    info.push(vec![t.solve()]);
                    t.below.insert(0, *before);
                    out.iter_mut().zip([t.below, t.diagonal, t.above, t.b.at]).for_each(|(o, v)| o.push(v));
                }
                let mut results: Vec<Tensor> = out
                    .into_iter()
                    .enumerate()
                    .map(|(i, parts)| self.result(i, parts))
                    .collect::<Option<_>>()?;
                results.push(self.numbers(4, info)?);
                Some(results)
            }
            _ => None,
        }
    }

    fn spectral(&self, routine: &str) -> Option<Vec<Tensor>> {
        let all = matrices::<f64>(self.operands.first()?)?;
        match routine {
            "syevd" => {
                let (mut vectors, mut values) = (Vec::new(), Vec::new());
                for m in &all {
                    let upper = self.option("uplo") == b'U';
                    let (w, v) = spectral::symmetric(&if upper { m.transposed(false) } else { m.clone() });
                    vectors.push(v.at);
                    values.push(w);
                }
                let info = vec![vec![0]; all.len()];
                Some(vec![self.result(0, vectors)?, self.result(1, values)?, self.numbers(2, info)?])
            }
            "gesdd" => {
                let full = self.option("mode") == b'A';
                let (mut lefts, mut values, mut rights) = (Vec::new(), Vec::new(), Vec::new());
                for m in &all {
                    let (u, s, v) = spectral::singular(m, full);
                    lefts.push(u.at);
                    values.push(s);
                    rights.push(v.transposed(false).at);
                }
                let kept = all.iter().map(|m| m.at.clone()).collect();
                let info = vec![vec![0]; all.len()];
                let bare = self.option("mode") == b'N';
                // Without vectors theirs are garbage: zeros.
                let vectors = |i: usize, parts| {
                    let (ty, dims) = self.results.get(i)?;
                    if bare { Some(Tensor::zeros(*ty, dims.clone())) } else { self.result(i, parts) }
                };
                Some(vec![
                    self.result(0, kept)?,
                    self.result(1, values)?,
                    vectors(2, lefts)?,
                    vectors(3, rights)?,
                    self.numbers(4, info)?,
                ])
            }
            _ => None,
        }
    }
}

/// The matrices of the last two dimensions.
fn matrices<F: Field>(t: &Tensor) -> Option<Vec<Matrix<F>>> {
    let [batch @ .., rows, columns] = t.dims.as_slice() else { return None };
    let (all, size) = (lanes::all::<F>(t), rows * columns);
    let part = |i: usize| Matrix::new(*rows, *columns, all[i * size..(i + 1) * size].to_vec());
    Some((0..count(batch)).map(part).collect())
}

/// The vectors of the last dimension.
fn vectors<F: Field>(t: &Tensor) -> Option<Vec<Vec<F>>> {
    let [batch @ .., n] = t.dims.as_slice() else { return None };
    let all = lanes::all::<F>(t);
    Some((0..count(batch)).map(|i| all[i * n..(i + 1) * n].to_vec()).collect())
}

/// HLO's `triangular-solve`, on every matrix of a batch.
pub(crate) fn triangular_solve(a: &Tensor, b: &Tensor, how: Triangle) -> Option<Tensor> {
    fn typed<F: Field>(a: &Tensor, b: &Tensor, how: Triangle) -> Option<Tensor> {
        let mut out = Vec::with_capacity(b.data.len());
        for (a, b) in matrices::<F>(a)?.iter().zip(&matrices::<F>(b)?) {
            let side = if how.left { b.rows } else { b.columns };
            if a.rows != a.columns || a.rows != side {
                return None;
            }
            out.extend(factor::solve(a, b, how).at);
        }
        Some(lanes::tensor(b.ty, b.dims.clone(), &out))
    }
    match kind(a.ty) {
        Kind::Float => typed::<f64>(a, b, how),
        Kind::Complex => typed::<[f64; 2]>(a, b, how),
        Kind::Int => None,
    }
}

/// HLO's `cholesky`: zeros beside the triangle; a matrix that has no factor gives NaN.
pub(crate) fn cholesky(a: &Tensor, lower: bool) -> Option<Tensor> {
    fn typed<F: Field>(a: &Tensor, lower: bool) -> Option<Tensor> {
        let mut out = Vec::with_capacity(a.data.len());
        for m in matrices::<F>(a)? {
            let (mut l, order) = factor::cholesky(&if lower { m } else { m.transposed(true) });
            for i in 0..l.rows {
                for j in 0..l.columns {
                    if order > 0 {
                        l.set(i, j, F::of_real(f64::NAN));
                    } else if j > i {
                        l.set(i, j, F::ZERO);
                    }
                }
            }
            out.extend(if lower { l } else { l.transposed(true) }.at);
        }
        Some(lanes::tensor(a.ty, a.dims.clone(), &out))
    }
    match kind(a.ty) {
        Kind::Float => typed::<f64>(a, lower),
        Kind::Complex => typed::<[f64; 2]>(a, lower),
        Kind::Int => None,
    }
}

/// Arithmetic operations of linear algebra on these operands, roughly: a factorisation takes one an element and column,
/// an iteration some dozens of those.
pub(crate) fn work(operands: &[&Tensor]) -> u64 {
    let side = |t: &&Tensor| t.dims.iter().rev().take(2).copied().max().unwrap_or(1) as u64;
    let of = |t: &&Tensor| (t.data.len() as u64).saturating_mul(side(t)).saturating_mul(32);
    operands.iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(dims: &[usize], values: &[f64]) -> Tensor {
        lanes::tensor(HloType::F32, dims.to_vec(), values)
    }

    #[test]
    fn options_are_letters() {
        let call = |config| CustomCall { target: "", config, operands: &[], results: &[] };
        assert_eq!(call("{diag = 78 : ui8, uplo = 76 : ui8}").option("uplo"), b'L');
        assert_eq!(call("{}").option("uplo"), b'N');
    }

    #[test]
    fn a_factorisation_by_its_target() {
        let a = floats(&[2, 2], &[1.0, 2.0, 4.0, 2.0]);
        let results = [(HloType::F32, vec![2, 2]), (HloType::S32, vec![2]), (HloType::S32, vec![])];
        let operands = [&a];
        let call = |target| CustomCall { target, config: "{}", operands: &operands, results: &results };
        let out = call("lapack_sgetrf_ffi").run().unwrap_or_default();
        assert_eq!(out.first().map(lanes::all::<f64>), Some(vec![4.0, 2.0, 0.25, 1.5]));
        assert_eq!(out.get(1).map(lanes::all::<i64>), Some(vec![2, 2]));
        assert_eq!(call("lapack_snothing_ffi").run(), None);
        assert_eq!(call("lapack_").run(), None);
        assert_eq!(call("Sharding").run(), None, "the results are not the operand's");
    }

    #[test]
    fn a_matrix_without_a_factor_gives_nan() {
        let a = floats(&[2, 2, 2], &[4.0, 9.0, 2.0, 2.0, 1.0, 0.0, 3.0, 1.0]);
        let out = cholesky(&a, true).map(|t| lanes::all::<f64>(&t)).unwrap_or_default();
        assert_eq!(out[..4], [2.0, 0.0, 1.0, 1.0]);
        assert!(out[4..].iter().all(|x| x.is_nan()));
    }
}
