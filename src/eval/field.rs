//! The numbers of linear algebra: real or complex, with the operations that factorisations need, and matrices of them.

use super::complex::complex_binary;
use super::lanes::Lane;
use murre_components::hlo::HloOp;

/// A real or complex number.
pub(crate) trait Field: Lane {
    fn of_real(x: f64) -> Self;
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn conj(self) -> Self;
    fn real(self) -> f64;
    /// The magnitude.
    fn size(self) -> f64;
    /// The magnitude that LAPACK chooses pivots by.
    fn pivot_size(self) -> f64;
}

impl Field for f64 {
    fn of_real(x: f64) -> f64 {
        x
    }

    fn minus(self, other: f64) -> f64 {
        self - other
    }

    fn over(self, other: f64) -> f64 {
        self / other
    }

    fn conj(self) -> f64 {
        self
    }

    fn real(self) -> f64 {
        self
    }

    fn size(self) -> f64 {
        self.abs()
    }

    fn pivot_size(self) -> f64 {
        self.abs()
    }
}

impl Field for [f64; 2] {
    fn of_real(x: f64) -> Self {
        [x, 0.0]
    }

    fn minus(self, other: Self) -> Self {
        [self[0] - other[0], self[1] - other[1]]
    }

    fn over(self, other: Self) -> Self {
        complex_binary(HloOp::Divide).map_or(self, |f| f(self, other))
    }

    fn conj(self) -> Self {
        [self[0], -self[1]]
    }

    fn real(self) -> f64 {
        self[0]
    }

    fn size(self) -> f64 {
        libm::hypot(self[0], self[1])
    }

    fn pivot_size(self) -> f64 {
        self[0].abs() + self[1].abs()
    }
}

/// A dense matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix<F> {
    pub rows: usize,
    pub columns: usize,
    pub at: Vec<F>,
}

impl<F: Field> Matrix<F> {
    pub fn new(rows: usize, columns: usize, at: Vec<F>) -> Self {
        Matrix { rows, columns, at }
    }

    pub fn zeros(rows: usize, columns: usize) -> Self {
        Matrix { rows, columns, at: vec![F::ZERO; rows * columns] }
    }

    pub fn identity(n: usize) -> Self {
        let mut out = Matrix::zeros(n, n);
        (0..n).for_each(|i| out.set(i, i, F::of_real(1.0)));
        out
    }

    pub fn get(&self, i: usize, j: usize) -> F {
        self.at[i * self.columns + j]
    }

    pub fn set(&mut self, i: usize, j: usize, x: F) {
        self.at[i * self.columns + j] = x;
    }

    /// Transposed, and conjugated where asked.
    pub fn transposed(&self, conjugate: bool) -> Self {
        let mut out = Matrix::zeros(self.columns, self.rows);
        for i in 0..self.rows {
            for j in 0..self.columns {
                let x = self.get(i, j);
                out.set(j, i, if conjugate { x.conj() } else { x });
            }
        }
        out
    }

    pub fn swap_rows(&mut self, i: usize, j: usize) {
        for k in 0..self.columns {
            self.at.swap(i * self.columns + k, j * self.columns + k);
        }
    }
}
