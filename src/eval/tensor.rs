//! Values of the evaluator: arrays of `i64`, `f64` or complex numbers, tuples and tokens.
//!
//! Whatever the element type, integers are held sign- or zero-extended (`u64` as its bits) and floats as their exact
//! `f64`; each operation rounds or wraps its results to the type. An array with a run-time extent keeps its bound in
//! `dims` and the sizes as they were set, unclamped, in `sizes`; what lies behind a size is garbage. Facts:
//! `spec/hlo.md 8`.

use crate::array::{HostArray, float};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Literal, Shape};
use std::sync::Arc;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Int(i64),
    Float(f64),
    Complex([f64; 2]),
}

impl Scalar {
    pub fn int(self) -> i64 {
        match self {
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
            Scalar::Complex([re, _]) => re as i64,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
            Scalar::Complex([re, _]) => re,
        }
    }

    pub fn complex(self) -> [f64; 2] {
        match self {
            Scalar::Complex(c) => c,
            other => [other.float(), 0.0],
        }
    }

    pub fn is_true(self) -> bool {
        self != Scalar::Int(0)
    }

    /// The zero of a type.
    pub fn zero(ty: HloType) -> Scalar {
        match Data::new(ty) {
            Data::Int(_) => Scalar::Int(0),
            Data::Float(_) => Scalar::Float(0.0),
            Data::Complex(_) => Scalar::Complex([0.0, 0.0]),
        }
    }
}

/// The elements of an array, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Complex(Vec<[f64; 2]>),
}

/// Runs the same code on the vector inside.
macro_rules! each {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::Int($v) => Data::Int($body),
            Data::Float($v) => Data::Float($body),
            Data::Complex($v) => Data::Complex($body),
        }
    };
}

impl Data {
    /// No elements of this type yet.
    pub fn new(ty: HloType) -> Data {
        match ty {
            HloType::C64 | HloType::C128 => Data::Complex(Vec::new()),
            t if t.is_float() => Data::Float(Vec::new()),
            _ => Data::Int(Vec::new()),
        }
    }

    pub fn filled(ty: HloType, value: Scalar, n: usize) -> Data {
        match Data::new(ty) {
            Data::Int(_) => Data::Int(vec![value.int(); n]),
            Data::Float(_) => Data::Float(vec![value.float(); n]),
            Data::Complex(_) => Data::Complex(vec![value.complex(); n]),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Data::Int(v) => v.len(),
            Data::Float(v) => v.len(),
            Data::Complex(v) => v.len(),
        }
    }

    pub fn get(&self, i: usize) -> Scalar {
        match self {
            Data::Int(v) => Scalar::Int(v[i]),
            Data::Float(v) => Scalar::Float(v[i]),
            Data::Complex(v) => Scalar::Complex(v[i]),
        }
    }

    pub fn set(&mut self, i: usize, value: Scalar) {
        match self {
            Data::Int(v) => v[i] = value.int(),
            Data::Float(v) => v[i] = value.float(),
            Data::Complex(v) => v[i] = value.complex(),
        }
    }

    pub fn push(&mut self, value: Scalar) {
        match self {
            Data::Int(v) => v.push(value.int()),
            Data::Float(v) => v.push(value.float()),
            Data::Complex(v) => v.push(value.complex()),
        }
    }

    /// The elements at these places.
    pub fn pick(&self, places: impl Iterator<Item = usize>) -> Data {
        each!(self, v => places.map(|i| v[i]).collect())
    }

    /// Overwrites the elements at these places with the elements of `from` in order.
    pub fn put(&mut self, places: impl Iterator<Item = usize>, from: &Data) {
        match (self, from) {
            (Data::Int(to), Data::Int(from)) => places.zip(from).for_each(|(i, v)| to[i] = *v),
            (Data::Float(to), Data::Float(from)) => places.zip(from).for_each(|(i, v)| to[i] = *v),
            (Data::Complex(to), Data::Complex(from)) => places.zip(from).for_each(|(i, v)| to[i] = *v),
            // Both have the same element type: the verifier saw to it.
            _ => {}
        }
    }
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub ty: HloType,
    /// Extents, or bounds.
    pub dims: Vec<usize>,
    /// Run-time sizes as set, where any dimension is dynamic (a static dimension has its extent there).
    pub sizes: Option<Vec<i64>>,
    pub data: Data,
}

/// What an instruction gives.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Array(Arc<Tensor>),
    Tuple(Vec<Value>),
    Token,
}

/// Row-major strides.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut out = vec![1; dims.len()];
    for d in (0..dims.len().saturating_sub(1)).rev() {
        out[d] = out[d + 1] * dims[d + 1];
    }
    out
}

/// Counts a multi-index up in row-major order; `false` after the last.
pub(crate) fn count_up(index: &mut [usize], dims: &[usize]) -> bool {
    for d in (0..index.len()).rev() {
        index[d] += 1;
        if index[d] < dims[d] {
            return true;
        }
        index[d] = 0;
    }
    false
}

/// The places `base + sum(index[d] * step[d])` for every index of `dims` in row-major order.
pub(crate) struct Places<'a> {
    dims: &'a [usize],
    step: Vec<isize>,
    index: Vec<usize>,
    at: isize,
    left: usize,
}

impl<'a> Places<'a> {
    pub fn new(dims: &'a [usize], base: usize, step: Vec<isize>) -> Self {
        Places { dims, step, index: vec![0; dims.len()], at: base as isize, left: dims.iter().product() }
    }

    /// All places of a box that starts at `start` inside an array of extents `outer`.
    pub fn of_box(dims: &'a [usize], start: &[usize], outer: &[usize]) -> Self {
        let strides = strides(outer);
        let base = start.iter().zip(&strides).map(|(s, t)| s * t).sum();
        Places::new(dims, base, strides.into_iter().map(|s| s as isize).collect())
    }
}

impl Iterator for Places<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        for d in (0..self.dims.len()).rev() {
            self.index[d] += 1;
            self.at += self.step[d];
            if self.index[d] < self.dims[d] {
                break;
            }
            self.at -= self.step[d] * self.dims[d] as isize;
            self.index[d] = 0;
        }
        Some(at as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// An integer wrapped to the width of its type.
pub(crate) fn wrap(ty: HloType, value: i64) -> i64 {
    if ty == HloType::Pred {
        return i64::from(value != 0);
    }
    let unused = 64 - ty.bits().clamp(1, 64);
    if ty.is_signed_int() { value << unused >> unused } else { ((value as u64) << unused >> unused) as i64 }
}

impl Tensor {
    pub fn new(ty: HloType, dims: Vec<usize>, data: Data) -> Tensor {
        Tensor { ty, dims, sizes: None, data }
    }

    pub fn scalar(ty: HloType, value: Scalar) -> Tensor {
        Tensor::new(ty, Vec::new(), Data::filled(ty, value, 1))
    }

    pub fn first(&self) -> Scalar {
        if self.data.len() == 0 { Scalar::zero(self.ty) } else { self.data.get(0) }
    }

    /// The size of dimension `d` as it was set.
    pub fn size(&self, d: usize) -> i64 {
        self.sizes.as_ref().and_then(|s| s.get(d).copied()).unwrap_or(self.dims[d] as i64)
    }

    /// The extents at run time: sizes clamped to 0 and the bound.
    pub fn extents(&self) -> Vec<usize> {
        (0..self.dims.len()).map(|d| self.size(d).clamp(0, self.dims[d] as i64) as usize).collect()
    }

    /// The array cut to its run-time extents.
    pub fn cut(&self) -> Tensor {
        self.cut_to(&self.extents())
    }

    pub fn cut_to(&self, extents: &[usize]) -> Tensor {
        if extents == self.dims {
            return Tensor::new(self.ty, self.dims.clone(), self.data.clone());
        }
        let zeros = vec![0; extents.len()];
        let data = self.data.pick(Places::of_box(extents, &zeros, &self.dims));
        Tensor::new(self.ty, extents.to_vec(), data)
    }

    /// The array in the corner of one with the bounds `dims`, zeros behind it, and these sizes.
    pub fn grow(self, dims: &[usize], sizes: Option<Vec<i64>>) -> Tensor {
        if self.dims == dims {
            return Tensor { sizes, ..self };
        }
        let mut data = Data::filled(self.ty, Scalar::zero(self.ty), dims.iter().product());
        let zeros = vec![0; dims.len()];
        let fits: Vec<usize> = self.dims.iter().zip(dims).map(|(a, b)| *a.min(b)).collect();
        let part = self.cut_to(&fits);
        data.put(Places::of_box(&fits, &zeros, dims), &part.data);
        Tensor { ty: self.ty, dims: dims.to_vec(), sizes, data }
    }

    /// From bytes of a literal or host array.
    pub fn from_bytes(ty: HloType, dims: Vec<usize>, bytes: &[u8]) -> Tensor {
        let mut data = Data::new(ty);
        for element in bytes.chunks_exact(ty.bytes().max(1)) {
            data.push(from_bits(ty, element));
        }
        Tensor::new(ty, dims, data)
    }

    pub fn of_literal(literal: &Literal) -> Value {
        match literal {
            Literal::Array { shape, data } => {
                let dims = shape.dims.iter().map(|d| (*d).max(0) as usize).collect();
                Value::Array(Arc::new(Tensor::from_bytes(shape.ty, dims, data)))
            }
            Literal::Tuple(parts) => Value::Tuple(parts.iter().map(Tensor::of_literal).collect()),
        }
    }

    /// An input: at its bound, with its extents as sizes where the shape is dynamic.
    pub fn of_host(array: &HostArray, shape: &ArrayShape) -> Tensor {
        let dims: Vec<usize> = array.dims.iter().map(|d| *d as usize).collect();
        let sizes = shape.has_dynamic().then(|| dims.iter().map(|d| *d as i64).collect());
        let tensor = Tensor::from_bytes(array.ty, dims, &array.data);
        let bounds: Vec<usize> = shape.dims.iter().map(|d| (*d).max(0) as usize).collect();
        tensor.grow(&bounds, sizes)
    }

    /// A result, cut to its run-time extents.
    pub fn to_host(&self) -> HostArray {
        let cut = self.cut();
        let mut data = Vec::with_capacity(cut.data.len() * self.ty.bytes());
        for i in 0..cut.data.len() {
            to_bits(self.ty, cut.data.get(i), &mut data);
        }
        HostArray { ty: self.ty, dims: cut.dims.iter().map(|d| *d as u64).collect(), data }
    }
}

/// One element from its little-endian bytes.
pub(crate) fn from_bits(ty: HloType, bytes: &[u8]) -> Scalar {
    let bits = |b: &[u8]| b.iter().take(8).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    match ty {
        HloType::C64 | HloType::C128 => {
            let part = if ty == HloType::C64 { HloType::F32 } else { HloType::F64 };
            let (re, im) = bytes.split_at(bytes.len() / 2);
            Scalar::Complex([float::decode(part, bits(re)), float::decode(part, bits(im))])
        }
        t if t.is_float() => Scalar::Float(float::decode(t, bits(bytes))),
        t => Scalar::Int(wrap(t, bits(bytes) as i64)),
    }
}

/// The little-endian bytes of one element.
pub(crate) fn to_bits(ty: HloType, value: Scalar, out: &mut Vec<u8>) {
    let width = ty.bytes();
    match ty {
        HloType::C64 | HloType::C128 => {
            let part = if ty == HloType::C64 { HloType::F32 } else { HloType::F64 };
            for x in value.complex() {
                out.extend_from_slice(&float::encode(part, x).to_le_bytes()[..width / 2]);
            }
        }
        t if t.is_float() => out.extend_from_slice(&float::encode(t, value.float()).to_le_bytes()[..width]),
        _ => out.extend_from_slice(&value.int().to_le_bytes()[..width.min(8)]),
    }
}

/// The extents of a shape's array.
pub(crate) fn extents_of(shape: &Shape) -> Vec<usize> {
    shape.array().map(|a| a.dims.iter().map(|d| (*d).max(0) as usize).collect()).unwrap_or_default()
}
