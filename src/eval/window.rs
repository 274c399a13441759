//! Windows: which base elements lie under each window, found by arithmetic, so that padding, holes of a dilated base and
//! window elements outside cost nothing, however large the window is.

use super::places::{Places, count};
use crate::hlo::infer::window_extent;
use murre_components::hlo::WindowDim;

/// The base elements of one dimension under one window: `first`, `first + step` ... in the window's order, beginning
/// with window element `tap`, `tap + tap_step` ...
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Taps {
    pub first: isize,
    pub step: isize,
    pub count: usize,
    pub tap: usize,
    pub tap_step: usize,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The smallest `k >= 0` with `(start + k * step) % modulus == 0`; `step` and `modulus` have no common factor.
fn first_hit(start: i64, step: i64, modulus: i64) -> i64 {
    // Euclid's algorithm, with the factor of `step` that gives each remainder.
    let (mut r, mut next) = (i128::from(modulus), i128::from(step));
    let (mut factor, mut next_factor) = (0i128, 1i128);
    while next != 0 {
        let q = r / next;
        (r, next) = (next, r - q * next);
        (factor, next_factor) = (next_factor, factor - q * next_factor);
    }
    (-i128::from(start) * factor).rem_euclid(modulus.into()) as i64
}

/// What lies under window `at` of a dimension of this extent.
fn taps(at: usize, w: &WindowDim, extent: usize) -> Taps {
    const NONE: Taps = Taps { first: 0, step: 0, count: 0, tap: 0, tap_step: 1 };
    // In the dilated base, window element `k` covers `start + k * dilation`.
    let start = (at as i64).saturating_mul(w.stride).saturating_sub(w.pad_low);
    let last = (extent as i64 - 1).saturating_mul(w.base_dilation);
    let dilation = w.window_dilation;
    if extent == 0 || last < start {
        return NONE;
    }
    let low = if start < 0 { start.saturating_neg().saturating_add(dilation - 1) / dilation } else { 0 };
    let high = ((last - start) / dilation).min(w.size - 1);
    // Only every `period`-th element hits no hole.
    let common = gcd(dilation, w.base_dilation);
    let period = w.base_dilation / common;
    let from = start.saturating_add(low.saturating_mul(dilation));
    let hit = match w.base_dilation {
        1 => Some(0),
        // Divided by the common factor the question has an answer below `period`, or none.
        _ if from % common != 0 => None,
        _ => Some(first_hit(from / common, dilation / common, period)),
    };
    let Some(first) = hit.and_then(|h| low.checked_add(h)).filter(|f| *f <= high) else { return NONE };
    Taps {
        first: ((start + first * dilation) / w.base_dilation) as isize,
        step: (dilation / common) as isize,
        count: ((high - first) / period + 1) as usize,
        tap: first as usize,
        tap_step: period as usize,
    }
}

/// The windows of an array: for each dimension and each window along it, what lies under it.
pub(crate) struct Windows {
    /// Windows a dimension.
    pub dims: Vec<usize>,
    along: Vec<Vec<Taps>>,
    base: Places,
}

impl Windows {
    pub fn new(dims: &[usize], window: &[WindowDim]) -> Windows {
        let extents: Vec<usize> =
            dims.iter().zip(window).map(|(n, w)| window_extent(*n as i64, w).max(0) as usize).collect();
        let none = count(&extents) == 0;
        let of =
            |d: usize| (0..extents[d]).map(|at| taps(at, &window[d], dims[d]).turned(&window[d])).collect();
        let along = (0..if none { 0 } else { dims.len() }).map(of).collect();
        Windows { dims: extents, along, base: Places::whole(dims) }
    }

    /// What lies under window `at` of dimension `d`.
    pub fn taps(&self, d: usize, at: usize) -> Taps {
        self.along[d][at]
    }

    /// The box of base elements under a window: fills in its extents and steps and gives its base. `part` stands for
    /// the taps of one dimension.
    pub fn under(
        &self,
        at: &[usize],
        part: Option<(usize, Taps)>,
        dims: &mut [usize],
        step: &mut [isize],
    ) -> isize {
        let mut base = 0;
        for (d, i) in at.iter().enumerate() {
            let t = match part {
                Some((own, t)) if own == d => t,
                _ => self.along[d][*i],
            };
            let stride = self.base.step[d];
            dims[d] = t.count;
            base += t.first * stride;
            step[d] = t.step * stride;
        }
        base
    }
}

impl Taps {
    /// Without the first `n`.
    pub fn skip(self, n: usize) -> Taps {
        Taps {
            first: self.first + n as isize * self.step,
            count: self.count - n,
            tap: self.tap + n * self.tap_step,
            ..self
        }
    }

    /// A reversed window begins at its other end: the base elements are the same, their order is not.
    fn turned(self, w: &WindowDim) -> Taps {
        if !w.reversal || self.count == 0 {
            return self;
        }
        let end = self.count - 1;
        // Kernel element `k` of a reversed window lies where `size - 1 - k` would.
        let tap = w.size as usize - 1 - (self.tap + end * self.tap_step);
        Taps { first: self.first + end as isize * self.step, step: -self.step, tap, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element by element, as the definition says.
    fn slow(at: usize, w: &WindowDim, extent: usize) -> Vec<(usize, usize)> {
        let place = |k: i64| {
            let i = if w.reversal { w.size - 1 - k } else { k };
            let p = at as i64 * w.stride + i * w.window_dilation - w.pad_low;
            (p >= 0 && p % w.base_dilation == 0)
                .then(|| (p / w.base_dilation) as usize)
                .filter(|p| *p < extent)
        };
        (0..w.size).filter_map(|k| place(k).map(|p| (k as usize, p))).collect()
    }

    #[test]
    fn taps_are_those_of_the_definition() {
        for n in 0..4000usize {
            let part = |k: usize, m: usize| (n * 7919 / k % m) as i64;
            let w = WindowDim {
                size: 1 + part(1, 5),
                stride: 1 + part(3, 3),
                pad_low: part(7, 9) - 3,
                pad_high: part(11, 9) - 3,
                window_dilation: 1 + part(13, 4),
                base_dilation: 1 + part(17, 4),
                reversal: n % 2 == 1,
            };
            let extent = n % 6;
            for at in 0..window_extent(extent as i64, &w).max(0) as usize {
                let t = taps(at, &w, extent).turned(&w);
                let got: Vec<_> = (0..t.count)
                    .map(|i| (t.tap + i * t.tap_step, (t.first + i as isize * t.step) as usize))
                    .collect();
                assert_eq!(got, slow(at, &w, extent), "{w:?} over {extent} at {at}");
            }
        }
    }

    #[test]
    fn a_huge_window_over_few_elements_is_cheap() {
        let w = WindowDim {
            size: 1 << 39,
            stride: 1,
            pad_low: 1 << 39,
            pad_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            reversal: false,
        };
        let windows = Windows::new(&[3], &[w]);
        let counts: Vec<usize> = (0..4).map(|at| windows.taps(0, at).count).collect();
        assert_eq!((windows.dims.as_slice(), counts.as_slice()), ([4].as_slice(), [0, 1, 2, 3].as_slice()));
    }
}
