//! Values of the evaluator: arrays, tuples and tokens.
//!
//! An array holds the bits of its elements in words of the element's own width (types narrower than a byte take one,
//! sign- or zero-extended). Moving elements needs no more than that; computing with them goes through
//! [`super::lanes`]. An array with a run-time extent keeps its bound in `dims` and the sizes as they were set,
//! unclamped, in `sizes`; what lies behind a size is garbage. Facts: `spec/hlo.md 8`.

use super::lanes::{self, Kind, Lane, kind};
use super::places::{Places, copy_box, count};
use crate::array::HostArray;
use murre_components::dtype::HloType;
use murre_components::hlo::ArrayShape;
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

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
        match kind(ty) {
            Kind::Int => Scalar::Int(0),
            Kind::Float => Scalar::Float(0.0),
            Kind::Complex => Scalar::Complex([0.0, 0.0]),
        }
    }
}

/// A word of elements' bits.
pub(crate) trait Word: Copy + Default + PartialEq + 'static {
    /// The words of this width; none when the data has another.
    fn slice(data: &Data) -> &[Self];
    fn slice_mut(data: &mut Data) -> &mut [Self];
    fn data(words: Vec<Self>) -> Data;
}

macro_rules! word {
    ($ty:ty, $variant:ident) => {
        impl Word for $ty {
            fn slice(data: &Data) -> &[Self] {
                match data {
                    Data::$variant(v) => v,
                    _ => &[],
                }
            }

            fn slice_mut(data: &mut Data) -> &mut [Self] {
                match data {
                    Data::$variant(v) => v,
                    _ => &mut [],
                }
            }

            fn data(words: Vec<Self>) -> Data {
                Data::$variant(words)
            }
        }
    };
}
word!(u8, B1);
word!(u16, B2);
word!(u32, B4);
word!(u64, B8);
word!(u128, B16);

/// The elements of an array, row-major, by the bytes that one takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    B1(Vec<u8>),
    B2(Vec<u16>),
    B4(Vec<u32>),
    B8(Vec<u64>),
    B16(Vec<u128>),
}

/// Runs the same code on the vector inside.
macro_rules! on_words {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            $crate::eval::tensor::Data::B1($v) => $body,
            $crate::eval::tensor::Data::B2($v) => $body,
            $crate::eval::tensor::Data::B4($v) => $body,
            $crate::eval::tensor::Data::B8($v) => $body,
            $crate::eval::tensor::Data::B16($v) => $body,
        }
    };
}
pub(crate) use on_words;

impl Data {
    /// Room for `n` elements, none of them there yet.
    pub fn with_capacity(ty: HloType, n: usize) -> Data {
        match ty.bytes() {
            2 => Data::B2(Vec::with_capacity(n)),
            4 => Data::B4(Vec::with_capacity(n)),
            8 => Data::B8(Vec::with_capacity(n)),
            16 => Data::B16(Vec::with_capacity(n)),
            _ => Data::B1(Vec::with_capacity(n)),
        }
    }

    /// `n` elements of zero bits.
    pub fn zeros(ty: HloType, n: usize) -> Data {
        match ty.bytes() {
            2 => Data::B2(vec![0; n]),
            4 => Data::B4(vec![0; n]),
            8 => Data::B8(vec![0; n]),
            16 => Data::B16(vec![0; n]),
            _ => Data::B1(vec![0; n]),
        }
    }

    /// From little-endian bytes, whole elements only.
    pub fn from_bytes(ty: HloType, bytes: &[u8]) -> Data {
        /// The words of the bytes.
        fn words<W, const N: usize>(bytes: &[u8], word: impl Fn([u8; N]) -> W) -> Vec<W> {
            let (whole, _) = bytes.as_chunks::<N>();
            whole.iter().map(|b| word(*b)).collect()
        }
        match ty.bytes() {
            2 => Data::B2(words(bytes, u16::from_le_bytes)),
            4 => Data::B4(words(bytes, u32::from_le_bytes)),
            8 => Data::B8(words(bytes, u64::from_le_bytes)),
            16 => Data::B16(words(bytes, u128::from_le_bytes)),
            _ if ty.is_int() && ty.bits() < 8 || ty == HloType::Pred => {
                Data::B1(bytes.iter().map(|b| lanes::wrap(ty, (*b).into()) as u8).collect())
            }
            _ => Data::B1(bytes.to_vec()),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        fn bytes<W: Copy, const N: usize>(words: &[W], of: impl Fn(W) -> [u8; N]) -> Vec<u8> {
            let mut out = vec![0; words.len() * N];
            out.as_chunks_mut::<N>().0.iter_mut().zip(words).for_each(|(to, w)| *to = of(*w));
            out
        }
        match self {
            Data::B1(v) => v.clone(),
            Data::B2(v) => bytes(v, u16::to_le_bytes),
            Data::B4(v) => bytes(v, u32::to_le_bytes),
            Data::B8(v) => bytes(v, u64::to_le_bytes),
            Data::B16(v) => bytes(v, u128::to_le_bytes),
        }
    }

    pub fn len(&self) -> usize {
        on_words!(self, v => v.len())
    }

    /// Bytes that the elements take.
    pub fn bytes(&self) -> u64 {
        on_words!(self, v => size_of_val(v.as_slice()) as u64)
    }

    /// The elements of a box, one behind the other.
    pub fn pick(&self, dims: &[usize], from: &Places) -> Data {
        fn words<W: Word>(source: &[W], dims: &[usize], from: &Places) -> Data {
            let mut out = vec![W::default(); count(dims)];
            copy_box(dims, source, from, &mut out, &Places::whole(dims));
            W::data(out)
        }
        on_words!(self, v => words(v, dims, from))
    }

    /// Overwrites the elements of a box with those of another box of data of the same type.
    pub fn put(&mut self, dims: &[usize], to: &Places, source: &Data, from: &Places) {
        fn words<W: Word>(target: &mut [W], to: &Places, dims: &[usize], source: &Data, from: &Places) {
            let source = W::slice(source);
            if !source.is_empty() && !target.is_empty() {
                copy_box(dims, source, from, target, to);
            }
        }
        on_words!(self, v => words(v, to, dims, source, from))
    }

    /// The elements at these places.
    pub fn at(&self, places: &[usize]) -> Data {
        fn words<W: Word>(source: &[W], places: &[usize]) -> Data {
            W::data(places.iter().map(|i| source[*i]).collect())
        }
        on_words!(self, v => words(v, places))
    }

    /// The first element `n` times; of nothing, zeros.
    pub fn repeat(&self, n: usize) -> Data {
        fn words<W: Word>(source: &[W], n: usize) -> Data {
            W::data(vec![source.first().copied().unwrap_or_default(); n])
        }
        on_words!(self, v => words(v, n))
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

/// The memory that is in use.
pub(crate) type Meter = Rc<Cell<u64>>;

/// An array that counts as memory in use for as long as it lives.
#[derive(Debug)]
pub(crate) struct Held {
    tensor: Option<Tensor>,
    bytes: u64,
    meter: Meter,
}

impl Held {
    pub fn new(tensor: Tensor, meter: &Meter) -> Held {
        let bytes = tensor.data.bytes();
        meter.set(meter.get().saturating_add(bytes));
        Held { tensor: Some(tensor), bytes, meter: meter.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.set(self.meter.get().saturating_sub(self.bytes));
    }
}

/// What an instruction gives.
#[derive(Clone, Debug, Default)]
pub(crate) enum Value {
    Array(Rc<Held>),
    Tuple(Vec<Value>),
    #[default]
    Token,
}

impl Value {
    pub fn array(tensor: Tensor, meter: &Meter) -> Value {
        Value::Array(Rc::new(Held::new(tensor, meter)))
    }

    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Array(held) => held.tensor.as_ref(),
            _ => None,
        }
    }

    /// The array itself: taken when nobody else holds it, else copied.
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Value::Array(held) => match Rc::try_unwrap(held) {
                Ok(mut held) => held.tensor.take(),
                Err(held) => held.tensor.clone(),
            },
            _ => None,
        }
    }
}

impl Tensor {
    pub fn new(ty: HloType, dims: Vec<usize>, data: Data) -> Tensor {
        Tensor { ty, dims, sizes: None, data }
    }

    pub fn scalar(ty: HloType, value: Scalar) -> Tensor {
        let mut data = Data::with_capacity(ty, 1);
        push(ty, value, &mut data);
        Tensor::new(ty, Vec::new(), data)
    }

    pub fn zeros(ty: HloType, dims: Vec<usize>) -> Tensor {
        let data = Data::zeros(ty, count(&dims));
        Tensor::new(ty, dims, data)
    }

    pub fn get(&self, i: usize) -> Scalar {
        match kind(self.ty) {
            Kind::Int => {
                let mut x = [0i64];
                i64::load(self, i, &mut x);
                Scalar::Int(x[0])
            }
            Kind::Float => {
                let mut x = [0f64];
                f64::load(self, i, &mut x);
                Scalar::Float(x[0])
            }
            Kind::Complex => {
                let mut x = [[0f64; 2]];
                <[f64; 2]>::load(self, i, &mut x);
                Scalar::Complex(x[0])
            }
        }
    }

    /// Element `0`, or zero where there is none.
    pub fn first(&self) -> Scalar {
        if self.data.len() == 0 { Scalar::zero(self.ty) } else { self.get(0) }
    }

    /// The size of dimension `d` as it was set.
    pub fn size(&self, d: usize) -> i64 {
        self.sizes.as_ref().and_then(|s| s.get(d).copied()).unwrap_or(self.dims[d] as i64)
    }

    /// The extents at run time: sizes clamped to 0 and the bound.
    pub fn extents(&self) -> Vec<usize> {
        (0..self.dims.len()).map(|d| self.size(d).clamp(0, self.dims[d] as i64) as usize).collect()
    }

    /// Whether a run-time size cuts something off.
    pub fn is_cut(&self) -> bool {
        self.sizes.is_some() && self.extents() != self.dims
    }

    /// The array cut to its run-time extents.
    pub fn cut(&self) -> Cow<'_, Tensor> {
        self.cut_to(&self.extents())
    }

    pub fn cut_to(&self, extents: &[usize]) -> Cow<'_, Tensor> {
        if extents == self.dims {
            return Cow::Borrowed(self);
        }
        let data = self.data.pick(extents, &Places::whole(&self.dims));
        Cow::Owned(Tensor::new(self.ty, extents.to_vec(), data))
    }

    /// The array in the corner of one with the bounds `dims`, zeros behind it, and these sizes.
    pub fn grow(self, dims: &[usize], sizes: Option<Vec<i64>>) -> Tensor {
        if self.dims == dims {
            return Tensor { sizes, ..self };
        }
        let mut data = Data::zeros(self.ty, count(dims));
        let fits: Vec<usize> = self.dims.iter().zip(dims).map(|(a, b)| *a.min(b)).collect();
        data.put(&fits, &Places::whole(dims), &self.data, &Places::whole(&self.dims));
        Tensor { ty: self.ty, dims: dims.to_vec(), sizes, data }
    }

    /// An input: at its bound, with its extents as sizes where the shape is dynamic.
    pub fn of_host(array: &HostArray, shape: &ArrayShape) -> Tensor {
        let dims: Vec<usize> = array.dims.iter().map(|d| *d as usize).collect();
        let sizes = shape.has_dynamic().then(|| dims.iter().map(|d| *d as i64).collect());
        let tensor = Tensor::new(array.ty, dims, Data::from_bytes(array.ty, &array.data));
        let bounds: Vec<usize> = shape.dims.iter().map(|d| (*d).max(0) as usize).collect();
        tensor.grow(&bounds, sizes)
    }

    /// A result, cut to its run-time extents.
    pub fn to_host(&self) -> HostArray {
        let cut = self.cut();
        HostArray {
            ty: self.ty,
            dims: cut.dims.iter().map(|d| *d as u64).collect(),
            data: cut.data.to_bytes(),
        }
    }
}

/// Appends an element, rounded or wrapped to its type.
pub(crate) fn push(ty: HloType, value: Scalar, to: &mut Data) {
    match kind(ty) {
        Kind::Int => i64::store(ty, &[value.int()], to),
        Kind::Float => f64::store(ty, &[value.float()], to),
        Kind::Complex => <[f64; 2]>::store(ty, &[value.complex()], to),
    }
}

/// An array of single elements, each rounded or wrapped to the type.
pub(crate) fn of_scalars(ty: HloType, dims: Vec<usize>, values: &[Scalar]) -> Tensor {
    let mut data = Data::with_capacity(ty, values.len());
    values.iter().for_each(|v| push(ty, *v, &mut data));
    Tensor::new(ty, dims, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_follows_the_values() {
        let meter = Meter::default();
        let a = Value::array(Tensor::zeros(HloType::F32, vec![10]), &meter);
        let b = a.clone();
        assert_eq!(meter.get(), 40);
        let b = b.into_tensor().map(|t| Value::array(t, &meter));
        assert_eq!(meter.get(), 80, "a copy, since somebody else holds it");
        drop((a, b));
        assert_eq!(meter.get(), 0);
    }

    #[test]
    fn an_element_takes_its_own_width() {
        for (ty, bytes) in
            [(HloType::Pred, 1), (HloType::S4, 1), (HloType::Bf16, 2), (HloType::F32, 4), (HloType::C128, 16)]
        {
            assert_eq!(Tensor::zeros(ty, vec![7]).data.bytes(), 7 * bytes);
        }
    }

    #[test]
    fn bytes_survive() {
        let bytes: Vec<u8> = (0..32).collect();
        for ty in [HloType::U8, HloType::F16, HloType::F32, HloType::F64, HloType::C128] {
            assert_eq!(Data::from_bytes(ty, &bytes).to_bytes(), bytes);
        }
        assert_eq!(Data::from_bytes(HloType::S4, &[0x0f, 0x17]).to_bytes(), [0xff, 0x07], "stray bits go");
    }
}
