//! Where the elements of a box lie in an array: row-major strides, and the one loop that copies boxes.
//!
//! A box is a list of extents; an array's elements of it lie at `base + sum(index[d] * step[d])`. Steps may be 0 (a
//! broadcast) or negative (a reversal). [`copy_box`] joins dimensions that are contiguous on both sides first, so that
//! most copies end up as runs.

/// Row-major strides. Of an empty array they may be anything: nothing lies there.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut out = vec![1usize; dims.len()];
    for d in (0..dims.len().saturating_sub(1)).rev() {
        out[d] = out[d + 1].wrapping_mul(dims[d + 1]);
    }
    out
}

/// Number of elements.
pub(crate) fn count(dims: &[usize]) -> usize {
    if dims.contains(&0) { 0 } else { dims.iter().product() }
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

/// Where the elements of a box lie.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub base: isize,
    pub step: Vec<isize>,
}

impl Places {
    /// A whole array of these extents.
    pub fn whole(dims: &[usize]) -> Places {
        Places { base: 0, step: strides(dims).into_iter().map(|s| s as isize).collect() }
    }

    /// A box that starts at `start` inside an array of extents `outer`.
    pub fn within(outer: &[usize], start: &[usize]) -> Places {
        let mut places = Places::whole(outer);
        places.base = start.iter().zip(&places.step).map(|(i, s)| *i as isize * s).sum();
        places
    }

    /// All places, in row-major order of the box.
    pub fn list(&self, dims: &[usize]) -> Vec<usize> {
        let n = count(dims);
        let mut out = Vec::with_capacity(n);
        let (Some(&last), Some(&step)) = (dims.last(), self.step.last()) else {
            return vec![self.base as usize];
        };
        if n == 0 {
            return out;
        }
        let outer = dims.len() - 1;
        let mut index = vec![0usize; outer];
        let mut at = self.base;
        loop {
            out.extend((0..last as isize).map(|i| (at + i * step) as usize));
            let mut d = outer;
            loop {
                if d == 0 {
                    return out;
                }
                d -= 1;
                index[d] += 1;
                at += self.step[d];
                if index[d] < dims[d] {
                    break;
                }
                at -= self.step[d] * dims[d] as isize;
                index[d] = 0;
            }
        }
    }
}

/// One dimension of a copy: extent, step on the source's side, step on the target's.
type Leg = (usize, isize, isize);

/// The dimensions without those of extent 1, neighbours joined where both sides walk on evenly.
fn joined(dims: &[usize], from: &[isize], to: &[isize]) -> Vec<Leg> {
    let mut legs: Vec<Leg> = Vec::with_capacity(dims.len());
    for ((&n, &f), &t) in dims.iter().zip(from).zip(to) {
        if n == 1 {
            continue;
        }
        match legs.last_mut() {
            Some((m, mf, mt)) if *mf == f * n as isize && *mt == t * n as isize => {
                *m *= n;
                (*mf, *mt) = (f, t);
            }
            _ => legs.push((n, f, t)),
        }
    }
    legs
}

/// Copies a box of elements from its places in `source` to its places in `target`.
pub(crate) fn copy_box<T: Copy>(dims: &[usize], source: &[T], from: &Places, target: &mut [T], to: &Places) {
    if dims.contains(&0) {
        return;
    }
    let mut legs = joined(dims, &from.step, &to.step);
    let (n, f, t) = legs.pop().unwrap_or((1, 1, 1));
    let (mut at, mut there) = (from.base, to.base);
    let mut index = vec![0usize; legs.len()];
    loop {
        run(n, source, (at, f), target, (there, t));
        let mut d = legs.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            let (n, f, t) = legs[d];
            index[d] += 1;
            at += f;
            there += t;
            if index[d] < n {
                break;
            }
            at -= f * n as isize;
            there -= t * n as isize;
            index[d] = 0;
        }
    }
}

/// The innermost dimension.
#[inline]
fn run<T: Copy>(
    n: usize,
    source: &[T],
    (at, f): (isize, isize),
    target: &mut [T],
    (there, t): (isize, isize),
) {
    match (f, t) {
        (1, 1) => {
            target[there as usize..there as usize + n].copy_from_slice(&source[at as usize..at as usize + n])
        }
        (0, 1) => target[there as usize..there as usize + n].fill(source[at as usize]),
        (_, 1) => {
            let out = &mut target[there as usize..there as usize + n];
            for (i, slot) in out.iter_mut().enumerate() {
                *slot = source[(at + i as isize * f) as usize];
            }
        }
        _ => {
            for i in 0..n as isize {
                target[(there + i * t) as usize] = source[(at + i * f) as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transpose_and_a_reversal_are_steps() {
        let source: Vec<u32> = (0..6).collect();
        let mut out = vec![0; 6];
        copy_box(&[3, 2], &source, &Places { base: 0, step: vec![1, 3] }, &mut out, &Places::whole(&[3, 2]));
        assert_eq!(out, [0, 3, 1, 4, 2, 5]);
        copy_box(&[6], &source, &Places { base: 5, step: vec![-1] }, &mut out, &Places::whole(&[6]));
        assert_eq!(out, [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn contiguous_dimensions_become_one_run() {
        let whole = Places::whole(&[4, 1, 5]);
        assert_eq!(joined(&[4, 1, 5], &whole.step, &whole.step), [(20, 1, 1)]);
        assert_eq!(joined(&[4, 5], &[0, 1], &[5, 1]), [(4, 0, 5), (5, 1, 1)]);
    }

    #[test]
    fn places_are_listed_in_order() {
        assert_eq!(Places::within(&[4, 5], &[1, 2]).list(&[2, 2]), [7, 8, 12, 13]);
        assert_eq!(Places::whole(&[]).list(&[]), [0]);
        assert!(Places::whole(&[0, 3]).list(&[0, 3]).is_empty());
    }
}
