//! Shapes: element type, extents, bounds and layouts; tuples of them.

use crate::dtype::HloType;

/// Shape of a value. Dimensions are logical; layouts are kept to print, and only the meaning of a bitcast hangs on them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A dense array.
    Array(ArrayShape),
    /// A tuple.
    Tuple(Vec<Shape>),
    /// A token.
    Token,
    /// An opaque value.
    Opaque,
}

/// Shape of a dense array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Element type.
    pub ty: HloType,
    /// Extents; of a bounded dynamic dimension, its bound. `UNBOUNDED` where there is none.
    pub dims: Vec<i64>,
    /// Which dimensions have a run-time extent (same length as `dims`, or empty when none has).
    pub dynamic: Vec<bool>,
    /// `minor_to_major`, empty when not given.
    pub layout: Vec<i64>,
    /// What a layout says beside the order, as written: tiles, element size, memory space (`T(8,128)S(1)`).
    pub layout_note: Box<str>,
}

/// The extent of an unbounded dynamic dimension.
pub const UNBOUNDED: i64 = i64::MIN;

impl ArrayShape {
    /// A static shape without a layout.
    pub fn new(ty: HloType, dims: impl Into<Vec<i64>>) -> Self {
        ArrayShape { ty, dims: dims.into(), dynamic: Vec::new(), layout: Vec::new(), layout_note: "".into() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements at the bounds. Saturates.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d.max(0) as u64))
    }

    /// Whether dimension `d` has a run-time extent.
    pub fn is_dynamic(&self, d: usize) -> bool {
        self.dynamic.get(d).copied().unwrap_or(false)
    }

    /// Whether any dimension has a run-time extent.
    pub fn has_dynamic(&self) -> bool {
        self.dynamic.iter().any(|d| *d)
    }

    /// Dimensions from the slowest in memory to the fastest; `None` for a layout that is more than an order, as one with
    /// tiles is.
    pub fn major_to_minor(&self) -> Option<Vec<i64>> {
        let rank = self.rank();
        let order: Vec<i64> = match self.layout.is_empty() {
            true => (0..rank as i64).collect(),
            false => self.layout.iter().rev().copied().collect(),
        };
        let plain = self.layout_note.is_empty() || self.layout_note.starts_with("S(");
        let each_once = order.len() == rank && (0..rank as i64).all(|d| order.contains(&d));
        (plain && each_once).then_some(order)
    }

    /// Same element type and dimensions, dynamic flags and bounds included; layouts do not count.
    pub fn same(&self, other: &ArrayShape) -> bool {
        self.ty == other.ty
            && self.dims == other.dims
            && (0..self.rank()).all(|d| self.is_dynamic(d) == other.is_dynamic(d))
    }
}

impl Shape {
    /// The array shape, if it is one.
    pub fn array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(a) => Some(a),
            _ => None,
        }
    }

    /// Same shape, layouts ignored.
    pub fn same(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => a.same(b),
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y))
            }
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        }
    }

    /// The leaves, depth first.
    pub fn leaves(&self) -> Vec<&Shape> {
        let mut out = Vec::new();
        let mut stack = vec![self];
        while let Some(s) = stack.pop() {
            match s {
                Shape::Tuple(parts) => stack.extend(parts.iter().rev()),
                leaf => out.push(leaf),
            }
        }
        out
    }
}

impl core::fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}[", self.ty.name())?;
        for (i, d) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match (*d, self.is_dynamic(i)) {
                (UNBOUNDED, _) => f.write_str("?")?,
                (n, true) => write!(f, "<={n}")?,
                (n, false) => write!(f, "{n}")?,
            }
        }
        f.write_str("]")?;
        if !self.layout.is_empty() || !self.layout_note.is_empty() {
            f.write_str("{")?;
            for (i, d) in self.layout.iter().enumerate() {
                write!(f, "{}{d}", if i > 0 { "," } else { "" })?;
            }
            if !self.layout_note.is_empty() {
                write!(f, ":{}", self.layout_note)?;
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Shape::Array(a) => a.fmt(f),
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (i, p) in parts.iter().enumerate() {
                    write!(f, "{}{p}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}
