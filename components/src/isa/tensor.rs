//! TENSOR1D..4D and the gather slots that may stand in their place. In: access-pattern pairs. Out: descriptor slots.
//! Facts: `spec/isa.md 2, 3`, `spec/isa_compute.md 2.5`.
//!
//! A slot is an ADDR4, then `N` steps (elements, slot 0 innermost), then `N` counts. A spare slot is {1, 1}, never zero.

use super::addr4::{Addr4, BASE_MASK, INDIRECT, MARKERS, REGISTER, SHAPE_REGISTER};
use super::field::{Fault, Place, Wire, at};
use crate::diag::codes::isa as code;
use crate::program::Record;

/// A static or register-based strided slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor<const N: usize> {
    /// Where it starts.
    pub addr: Addr4,
    /// Elements from one step of the dimension to the next; 0 broadcasts.
    pub step: [i16; N],
    /// Elements of the dimension, at least 1.
    pub num: [u16; N],
}

/// A pair of an access pattern, as a compiler holds it: not yet narrowed to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Elements.
    pub step: i64,
    /// Elements.
    pub num: i64,
}

/// Narrows one pair.
#[inline]
fn narrow(p: Pair) -> Result<(i16, u16), Fault> {
    let Ok(step) = i16::try_from(p.step) else {
        return Err(Fault::new(&code::ISA_STEP, 4, p.step, "a step of -32768..32767 elements"));
    };
    match u16::try_from(p.num) {
        Ok(num) if num != 0 => Ok((step, num)),
        _ => Err(Fault::new(&code::ISA_COUNT, 4, p.num, "a count of 1..65535")),
    }
}

impl<const N: usize> Tensor<N> {
    /// One element at `addr`.
    #[inline]
    pub const fn point(addr: Addr4) -> Self {
        Tensor { addr, step: [1; N], num: [1; N] }
    }

    /// `count` contiguous elements.
    pub fn contiguous(addr: Addr4, count: i64) -> Result<Self, Fault> {
        Self::pack_reduce(addr, &[Pair { step: 1, num: count }], 0)
    }

    /// Packs the free pairs of an access pattern, given outermost first as the pattern stores them (W, Z, Y, X without
    /// the partition pair): dims of one element are dropped, the rest goes innermost first into slot 0, 1, 2...
    #[inline]
    pub fn pack(addr: Addr4, free: &[Pair]) -> Result<Self, Fault> {
        Self::pack_reduce(addr, free, 0)
    }

    /// The same for a source that is reduced over its `reduced` innermost dims: those keep their slots even when they
    /// hold one element (then as {1, 1}), so that the axis code still names them.
    #[inline]
    pub fn pack_reduce(addr: Addr4, free: &[Pair], reduced: usize) -> Result<Self, Fault> {
        let mut out = Self::point(addr);
        let mut slot = 0usize;
        for (depth, pair) in free.iter().rev().enumerate() {
            if pair.num == 1 {
                slot += (depth < reduced) as usize;
                continue;
            }
            let (step, num) = narrow(*pair)?;
            let (Some(s), Some(n)) = (out.step.get_mut(slot), out.num.get_mut(slot)) else {
                return Err(Fault::new(
                    &code::ISA_RANK,
                    0,
                    slot as i64 + 1,
                    "no more dims than the slot has",
                ));
            };
            (*s, *n) = (step, num);
            slot += 1;
        }
        if slot > N || reduced > N {
            return Err(Fault::new(
                &code::ISA_RANK,
                0,
                slot.max(reduced) as i64,
                "no more dims than the slot has",
            ));
        }
        Ok(out)
    }

    /// Packs a whole access pattern, partition pair first. The partition pair is folded into the address; its step
    /// must not be negative.
    pub fn pack_pattern(addr: Addr4, pattern: &[Pair]) -> Result<Self, Fault> {
        let [partition, free @ ..] = pattern else {
            return Err(Fault::new(&code::ISA_PATTERN, 0, 0, "an access pattern of rank 1..4"));
        };
        if pattern.len() > 5 {
            return Err(Fault::new(
                &code::ISA_PATTERN,
                0,
                pattern.len() as i64,
                "an access pattern of rank 1..4",
            ));
        }
        if partition.step < 0 {
            return Err(Fault::new(
                &code::ISA_PATTERN,
                0,
                partition.step,
                "a partition step that is not negative",
            ));
        }
        Self::pack(addr, free)
    }

    /// Elements per partition.
    #[inline]
    pub fn elements(&self) -> u64 {
        self.num.iter().map(|n| *n as u64).product()
    }

    /// Element offsets from the start, in stream order: slot 0 fastest.
    pub fn offsets(&self) -> impl Iterator<Item = i64> + '_ {
        let mut at = [0u16; N];
        (0..self.elements()).map(move |_| {
            let now = at.iter().zip(&self.step).map(|(i, s)| *i as i64 * *s as i64).sum();
            for (i, n) in at.iter_mut().zip(&self.num) {
                *i += 1;
                if *i < *n {
                    break;
                }
                *i = 0;
            }
            now
        })
    }
}

impl<const N: usize> Wire for Tensor<N> {
    const BYTES: u8 = 4 + 4 * N as u8;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        self.addr.put(r, p);
        self.step.put(r, at(p.at + 4));
        self.num.put(r, at(p.at + 4 + 2 * N as u8));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let addr = Addr4::get(r, p)?;
        if addr.word() & INDIRECT != 0 {
            return Err(Fault::new(
                &code::ISA_MODE,
                p.at + 3,
                (addr.word() >> 24) as i64,
                "a slot that is no gather",
            ));
        }
        let num: [u16; N] = Wire::get(r, at(p.at + 4 + 2 * N as u8))?;
        if addr.word() & SHAPE_REGISTER == 0 && num.contains(&0) {
            return Err(Fault::new(&code::ISA_COUNT, p.at + 4 + 2 * N as u8, 0, "a count of 1..65535"));
        }
        Ok(Tensor { addr, step: Wire::get(r, at(p.at + 4))?, num })
    }
}

/// A gather slot (INDIRECT16B in a 3D place, INDIRECT20B in a 4D place): per partition, `out[i] = data[index[i]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Where the indices start; carries the gather marker.
    pub index: Addr4,
    /// Where the data starts; carries no marker.
    pub data: Addr4,
    /// Number of indices.
    pub count: u16,
}

impl Gather {
    /// A gather of `count` elements. Both bases must be static.
    pub fn new(index: Addr4, data: Addr4, count: u16) -> Result<Self, Fault> {
        let index = index.indirect()?;
        if data.word() & BASE_MASK != 0 {
            return Err(Fault::new(&code::ISA_MARKED, 7, (data.word() >> 24) as i64, "a static data base"));
        }
        if count == 0 {
            return Err(Fault::new(&code::ISA_COUNT, 8, 0, "at least one index"));
        }
        Ok(Gather { index, data, count })
    }
}

/// A place that holds either a strided slot or a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand<const N: usize> {
    /// Strided.
    Pattern(Tensor<N>),
    /// Gathered (or scattered, in a destination).
    Gather(Gather),
}

impl<const N: usize> Operand<N> {
    /// The strided slot, if it is one.
    #[inline]
    pub fn pattern(&self) -> Option<&Tensor<N>> {
        match self {
            Operand::Pattern(t) => Some(t),
            Operand::Gather(_) => None,
        }
    }

    /// Elements per partition.
    #[inline]
    pub fn elements(&self) -> u64 {
        match self {
            Operand::Pattern(t) => t.elements(),
            Operand::Gather(g) => g.count as u64,
        }
    }
}

impl<const N: usize> From<Tensor<N>> for Operand<N> {
    fn from(t: Tensor<N>) -> Self {
        Operand::Pattern(t)
    }
}

impl<const N: usize> Wire for Operand<N> {
    const BYTES: u8 = 4 + 4 * N as u8;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        match self {
            Operand::Pattern(t) => t.put(r, p),
            Operand::Gather(g) => {
                g.index.put(r, p);
                g.data.put(r, at(p.at + 4));
                g.count.put(r, at(p.at + 8));
            }
        }
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let word = u32::get(r, at(p.at))?;
        if word & (INDIRECT | SHAPE_REGISTER) != INDIRECT {
            return Tensor::get(r, p).map(Operand::Pattern);
        }
        let index = Addr4::get(r, p)?;
        if word & REGISTER != 0 {
            return Err(Fault::new(&code::ISA_MARKED, p.at + 3, (word >> 24) as i64, "a static index base"));
        }
        let data = Addr4::get(r, at(p.at + 4))?;
        if data.word() & MARKERS != 0 {
            return Err(Fault::new(
                &code::ISA_MARKED,
                p.at + 7,
                (data.word() >> 24) as i64,
                "a static data base",
            ));
        }
        let count = u16::get(r, at(p.at + 8))?;
        if count == 0 {
            return Err(Fault::new(&code::ISA_COUNT, p.at + 8, 0, "at least one index"));
        }
        for i in 10..Self::BYTES {
            let b = u8::get(r, at(p.at + i))?;
            if b != 0 {
                return Err(Fault::new(
                    &code::ISA_RESERVED,
                    p.at + i,
                    b as i64,
                    "zero behind a gather's count",
                ));
            }
        }
        Ok(Operand::Gather(Gather { index, data, count }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id<T: core::fmt::Debug>(r: Result<T, Fault>) -> &'static str {
        r.unwrap_err().code.id
    }
    fn p(step: i64, num: i64) -> Pair {
        Pair { step, num }
    }

    #[test]
    fn packing_drops_ones_and_puts_the_innermost_first() {
        let a = Addr4::ZERO;
        let t = Tensor::<3>::pack(a, &[p(64, 8), p(999_999, 1), p(1, 64)]).unwrap();
        assert_eq!((t.step, t.num), ([1, 64, 1], [64, 8, 1]));
        // A reduced dim of one element keeps its slot; a kept one does not.
        let t = Tensor::<4>::pack_reduce(a, &[p(5, 8), p(7, 1)], 1).unwrap();
        assert_eq!((t.step, t.num), ([1, 5, 1, 1], [1, 8, 1, 1]));
        assert_eq!(Tensor::<3>::pack_pattern(a, &[p(1, 128), p(1, 64)]).unwrap().num, [64, 1, 1]);
    }

    #[test]
    fn packing_refuses_what_the_wire_cannot_say() {
        let a = Addr4::ZERO;
        assert_eq!(id(Tensor::<1>::pack(a, &[p(64, 8), p(1, 64)])), "MUR0812");
        assert_eq!(id(Tensor::<2>::pack_reduce(a, &[p(1, 1), p(1, 1), p(1, 1)], 3)), "MUR0812");
        assert_eq!(id(Tensor::<3>::pack(a, &[p(32768, 2)])), "MUR0810");
        assert_eq!(id(Tensor::<3>::pack(a, &[p(1, 65536)])), "MUR0811");
        assert_eq!(id(Tensor::<3>::pack(a, &[p(1, 0)])), "MUR0811");
        assert_eq!(id(Tensor::<3>::pack_pattern(a, &[])), "MUR0813");
        assert_eq!(id(Tensor::<3>::pack_pattern(a, &[p(-1, 2), p(1, 2)])), "MUR0813");
    }

    #[test]
    fn gathers_want_static_bases_and_indices() {
        let (a, r) = (Addr4::ZERO, Addr4::register(1).unwrap());
        assert_eq!(id(Gather::new(r, a, 4)), "MUR0805");
        assert_eq!(id(Gather::new(a, r, 4)), "MUR0805");
        assert_eq!(id(Gather::new(a, a, 0)), "MUR0811");
        // The base mask also covers address bits that no memory uses.
        let far = Addr4::physical(0x0400_0000).unwrap();
        assert_eq!(id(Gather::new(far, a, 4)), "MUR0805");
        assert_eq!(id(Gather::new(a, far, 4)), "MUR0805");
        let psum = Addr4::psum(3, 1, 0).unwrap();
        assert!(Gather::new(psum, psum, 4).is_ok());
    }

    #[test]
    fn offsets_run_slot_zero_fastest() {
        let t = Tensor::<3> { addr: Addr4::ZERO, step: [1, 10, 0], num: [2, 2, 2] };
        assert_eq!(t.offsets().collect::<Vec<_>>(), [0, 1, 10, 11, 0, 1, 10, 11]);
    }
}
