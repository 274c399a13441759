//! Ranges of integers, and what an operation makes of them: the ranges of its operands in, that of its result out. What
//! wraps has the range of its type. Facts: `spec/hlo.md 7`.

use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloOp, Literal};

/// The integers from `low` to `high`; none when `low` is above `high`, which is also the range of what is no integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least.
    pub low: i128,
    /// The greatest.
    pub high: i128,
}

/// How a 64-bit element is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As one s32: the value itself.
    Signed,
    /// As one u32: the value itself.
    Unsigned,
    /// As two u32, the low word and the high word.
    Pair,
}

impl Form {
    /// The element type of its words.
    pub fn ty(self) -> HloType {
        if self == Form::Signed { HloType::S32 } else { HloType::U32 }
    }

    /// How many words there are.
    pub fn words(self) -> usize {
        1 + usize::from(self == Form::Pair)
    }
}

/// Whether the elements of this type have 64 bits that must be split.
pub fn is_wide(ty: HloType) -> bool {
    matches!(ty, HloType::S64 | HloType::U64 | HloType::F64)
}

impl Range {
    /// No integer.
    pub const EMPTY: Range = Range { low: 1, high: 0 };

    /// From `low` to `high`.
    pub fn new(low: i128, high: i128) -> Range {
        Range { low, high }
    }

    /// Whether it holds no integer.
    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// Everything that a type holds; nothing of what is no integer.
    pub fn of_type(ty: HloType) -> Range {
        let bits = ty.bits();
        match ty {
            HloType::Pred => Range::new(0, 1),
            t if t.is_signed_int() => Range::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            t if t.is_unsigned_int() => Range::new(0, (1 << bits) - 1),
            _ => Range::EMPTY,
        }
    }

    /// Both and what lies between.
    pub fn join(self, other: Range) -> Range {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Range::new(self.low.min(other.low), self.high.max(other.high)),
        }
    }

    /// Whether all of `other` is in it.
    pub fn holds(self, other: Range) -> bool {
        other.is_empty() || (self.low <= other.low && other.high <= self.high)
    }

    /// It, if the type holds it; else all of the type.
    pub fn within(self, ty: HloType) -> Range {
        let whole = Range::of_type(ty);
        if whole.holds(self) { self } else { whole }
    }

    /// How elements of type `ty` in this range are held.
    pub fn form(self, ty: HloType) -> Form {
        if ty == HloType::F64 {
            Form::Pair
        } else if Range::of_type(HloType::S32).holds(self) {
            Form::Signed
        } else if Range::of_type(HloType::U32).holds(self) {
            Form::Unsigned
        } else {
            Form::Pair
        }
    }

    fn corners(self, other: Range, f: impl Fn(i128, i128) -> i128) -> Range {
        let all = [
            f(self.low, other.low),
            f(self.low, other.high),
            f(self.high, other.low),
            f(self.high, other.high),
        ];
        Range::new(all.into_iter().min().unwrap_or(1), all.into_iter().max().unwrap_or(0))
    }
}

/// The element `i` of an integer literal.
pub fn literal_element(ty: HloType, data: &[u8], i: usize) -> Option<i128> {
    let width = ty.bytes();
    let bytes = data.get(i * width..(i + 1) * width)?;
    let bits = bytes.iter().take(8).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let unused = 64 - 8 * width.min(8) as u32;
    Some(if ty.is_signed_int() { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits) })
}

fn of_literal(shape: &ArrayShape, data: &[u8]) -> Range {
    if !shape.ty.is_int() && shape.ty != HloType::Pred {
        return Range::EMPTY;
    }
    if shape.elements() == 0 {
        // What is made of it need not be empty.
        return Range::new(0, 0);
    }
    let elements = (0..shape.elements() as usize).filter_map(|i| literal_element(shape.ty, data, i));
    elements.fold(Range::EMPTY, |r, x| r.join(Range::new(x, x))).within(shape.ty)
}

/// The greatest number of all ones that covers a non-negative number.
fn mask(x: i128) -> i128 {
    if x <= 0 { 0 } else { (1i128 << (128 - x.leading_zeros())) - 1 }
}

/// The range of an operation without called computations whose result is one array, from those of its operands and the
/// type of the first of them. Empty while an operand's is.
pub fn transfer(
    inst: HloInst<'_>,
    shape: &ArrayShape,
    from: HloType,
    operand: impl Fn(usize) -> Range,
) -> Range {
    use HloOp::*;
    let (ty, whole) = (shape.ty, Range::of_type(shape.ty));
    if whole.is_empty() {
        return whole;
    }
    let exact = match (inst.op, inst.attrs()) {
        (Constant, Attrs::Constant(literal)) => match &**literal {
            Literal::Array { shape, data } => of_literal(shape, data),
            Literal::Tuple(_) => whole,
        },
        (Iota, Attrs::Iota { dimension }) => {
            let extent = usize::try_from(*dimension).ok().and_then(|d| shape.dims.get(d)).copied();
            Range::new(0, i128::from(extent.unwrap_or(1) - 1).max(0))
        }
        (PopulationCount | CountLeadingZeros, _) => Range::new(0, i128::from(ty.bits())),
        (Compare | IsFinite | Parameter, _) => whole,
        (Convert, _) if Range::of_type(from).is_empty() => whole,
        _ => computed(inst, ty, operand).unwrap_or(whole),
    };
    exact.within(ty)
}

/// What depends on operands; `None` where nothing is known.
fn computed(inst: HloInst<'_>, ty: HloType, operand: impl Fn(usize) -> Range) -> Option<Range> {
    use HloOp::*;
    let whole = Range::of_type(ty);
    // While something that an operand depends on is not reached, neither is this.
    let needed: &[usize] = match inst.op {
        Broadcast | Reshape | Transpose | Slice | Reverse | Copy | DynamicSlice | Gather | Convert
        | Negate | Abs | Sign | Not | AddDependency | OptimizationBarrier => &[0],
        Pad | DynamicUpdateSlice | Add | Subtract | Multiply | Minimum | Maximum | And | Or | Xor
        | Divide | Remainder | ShiftLeft | ShiftRightLogical | ShiftRightArithmetic => &[0, 1],
        Select => &[1, 2],
        Clamp => &[0, 1, 2],
        Concatenate => &[],
        _ => return None,
    };
    if needed.iter().any(|i| operand(*i).is_empty()) {
        return Some(Range::EMPTY);
    }
    let (a, b) = (operand(0), if needed.len() > 1 { operand(1) } else { Range::EMPTY });
    let natural = a.low >= 0 && b.low >= 0;
    Some(match inst.op {
        Convert if ty == HloType::Pred => Range::new(0, 1),
        Broadcast | Reshape | Transpose | Slice | Reverse | Copy | DynamicSlice | Gather | Convert
        | AddDependency | OptimizationBarrier => a,
        Pad | DynamicUpdateSlice => a.join(b),
        Concatenate => (0..inst.operands().len()).fold(Range::EMPTY, |r, i| r.join(operand(i))),
        Select => b.join(operand(2)),
        // On pred these are logic.
        _ if ty == HloType::Pred => whole,
        Clamp => {
            let (low, x, high) = (a, b, operand(2));
            let lifted = Range::new(low.low.max(x.low), low.high.max(x.high));
            Range::new(lifted.low.min(high.low), lifted.high.min(high.high))
        }
        Negate => Range::new(-a.high, -a.low),
        Abs if a.low >= 0 => a,
        Abs => Range::new(0, a.high.max(-a.low)),
        Sign => Range::new(a.low.signum(), a.high.signum()),
        Not if ty.is_signed_int() => Range::new(-1 - a.high, -1 - a.low),
        Add => Range::new(a.low + b.low, a.high + b.high),
        Subtract => Range::new(a.low - b.high, a.high - b.low),
        // Products of 64-bit numbers fit 128 bits.
        Multiply => a.corners(b, |x, y| x.saturating_mul(y)),
        Minimum => Range::new(a.low.min(b.low), a.high.min(b.high)),
        Maximum => Range::new(a.low.max(b.low), a.high.max(b.high)),
        And if natural => Range::new(0, a.high.min(b.high)),
        And if a.low >= 0 => Range::new(0, a.high),
        And if b.low >= 0 => Range::new(0, b.high),
        Or | Xor if natural => Range::new(0, mask(a.high) | mask(b.high)),
        // Words with at most n significant bits stay so.
        And | Or | Xor => {
            let size = [a, b].into_iter().map(|r| mask(r.high.max(-1 - r.low))).max().unwrap_or(0);
            Range::new(-1 - size, size)
        }
        Divide if b.low > 0 => a.corners(b, |x, y| x / y),
        Remainder if b.low > 0 && a.low >= 0 => Range::new(0, a.high.min(b.high - 1)),
        Remainder if b.low > 0 => Range::new(1 - b.high, if a.high <= 0 { 0 } else { b.high - 1 }),
        // Amounts of 64 and more empty the word.
        ShiftLeft if b.low >= 0 && b.high < 64 => {
            let moved = a.corners(b, |x, s| x.saturating_mul(1 << s));
            if whole.holds(moved) { moved } else { whole }
        }
        ShiftRightLogical if natural && b.high < i128::from(ty.bits()) => {
            Range::new(a.low >> b.high, a.high >> b.low)
        }
        ShiftRightLogical if a.low >= 0 => Range::new(0, a.high),
        ShiftRightArithmetic if ty.is_signed_int() && b.low >= 0 => a.corners(b, |x, s| x >> s.min(100)),
        ShiftRightArithmetic if ty.is_signed_int() => Range::new(a.low.min(-1), a.high.max(0)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_follow_from_ranges() {
        let form = |low, high| Range::new(low, high).form(HloType::S64);
        assert_eq!(form(-1, 5), Form::Signed);
        assert_eq!(form(0, (1 << 32) - 1), Form::Unsigned);
        assert_eq!(form(-1, 1 << 31), Form::Pair);
        assert_eq!(form(0, 1 << 32), Form::Pair);
        assert_eq!(Range::of_type(HloType::U64).form(HloType::U64), Form::Pair);
        assert_eq!(Range::new(0, 1).form(HloType::F64), Form::Pair);
    }

    #[test]
    fn literals_have_their_sign() {
        let bytes = (-2i64).to_le_bytes();
        assert_eq!(literal_element(HloType::S64, &bytes, 0), Some(-2));
        assert_eq!(literal_element(HloType::U64, &bytes, 0), Some((1 << 64) - 2));
        assert_eq!(literal_element(HloType::S16, &bytes, 0), Some(-2));
        assert_eq!(literal_element(HloType::U8, &bytes, 9), None);
    }

    #[test]
    fn what_leaves_its_type_is_all_of_it() {
        let all = Range::of_type(HloType::S64);
        assert_eq!(Range::new(0, 1 << 63).within(HloType::S64), all);
        assert_eq!(Range::new(-1, 1).within(HloType::U64), Range::of_type(HloType::U64));
        assert_eq!(Range::new(1, 2).within(HloType::U8), Range::new(1, 2));
    }
}
