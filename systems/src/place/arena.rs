//! A range of bytes that tiles take from and give back: the free list of interval colouring, sorted by address.

use murre_components::ids::LocId;

/// Which hole a tile takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// The lowest that is large enough, at its low end.
    First,
    /// The smallest that is large enough, at its low end.
    Best,
    /// The highest that is large enough, at its high end.
    High,
}

/// Free bytes of a range.
#[derive(Clone, Debug)]
pub struct Arena {
    holes: Vec<(u32, u32)>,
}

impl Arena {
    /// All of `low..high` free.
    pub fn new(low: u32, high: u32) -> Self {
        Arena { holes: if low < high { vec![(low, high)] } else { Vec::new() } }
    }

    /// Takes `size` bytes and returns their begin.
    pub fn take(&mut self, size: u32, fit: Fit) -> Option<u32> {
        let fits = |h: &(u32, u32)| h.1 - h.0 >= size;
        let k = match fit {
            Fit::First => self.holes.iter().position(fits)?,
            Fit::High => self.holes.iter().rposition(fits)?,
            Fit::Best => (0..self.holes.len())
                .filter(|&k| fits(&self.holes[k]))
                .min_by_key(|&k| self.holes[k].1 - self.holes[k].0)?,
        };
        let hole = &mut self.holes[k];
        let begin = if fit == Fit::High {
            hole.1 -= size;
            hole.1
        } else {
            hole.0 += size;
            hole.0 - size
        };
        if hole.0 == hole.1 {
            self.holes.remove(k);
        }
        Some(begin)
    }

    /// Gives `begin..end` back.
    pub fn release(&mut self, begin: u32, end: u32) {
        let k = self.holes.partition_point(|h| h.0 < begin);
        let joins_before = k > 0 && self.holes[k - 1].1 == begin;
        let joins_after = k < self.holes.len() && self.holes[k].0 == end;
        match (joins_before, joins_after) {
            (true, true) => {
                self.holes[k - 1].1 = self.holes[k].1;
                self.holes.remove(k);
            }
            (true, false) => self.holes[k - 1].1 = end,
            (false, true) => self.holes[k].0 = begin,
            (false, false) => self.holes.insert(k, (begin, end)),
        }
    }

    /// Free bytes, and bytes of the largest hole.
    pub fn free(&self) -> (u32, u32) {
        self.holes.iter().fold((0, 0), |(sum, most), h| (sum + h.1 - h.0, most.max(h.1 - h.0)))
    }
}

/// Who stood last on each byte.
#[derive(Clone, Debug, Default)]
pub struct LastOwners {
    /// Sorted, disjoint.
    runs: Vec<(u32, u32, LocId)>,
}

impl LastOwners {
    /// `owner` takes `begin..end`; appends to `out` every location that owned some of it, each once.
    pub fn claim(&mut self, begin: u32, end: u32, owner: LocId, out: &mut Vec<LocId>) {
        let a = self.runs.partition_point(|r| r.1 <= begin);
        let b = a + self.runs[a..].partition_point(|r| r.0 < end);
        let mark = out.len();
        let mut pieces: arrayvec::ArrayVec<(u32, u32, LocId), 3> = arrayvec::ArrayVec::new();
        for &(s, _, o) in &self.runs[a..b] {
            if !out[mark..].contains(&o) {
                out.push(o);
            }
            if s < begin {
                pieces.push((s, begin, o));
            }
        }
        pieces.push((begin, end, owner));
        if let Some(&(_, e, o)) = self.runs[a..b].last()
            && e > end
        {
            pieces.push((end, e, o));
        }
        self.runs.splice(a..b, pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_split_and_join() {
        let mut a = Arena::new(0, 100);
        assert_eq!(a.take(40, Fit::First), Some(0));
        assert_eq!(a.take(20, Fit::High), Some(80));
        assert_eq!(a.take(40, Fit::First), Some(40));
        assert_eq!(a.take(1, Fit::Best), None);
        a.release(0, 40);
        a.release(80, 100);
        assert_eq!(a.take(15, Fit::Best), Some(80));
        a.release(80, 95);
        a.release(40, 80);
        assert_eq!(a.free(), (100, 100));
    }

    #[test]
    fn owners_are_replaced_piece_by_piece() {
        let (mut o, mut out) = (LastOwners::default(), Vec::new());
        o.claim(0, 10, LocId(0), &mut out);
        o.claim(10, 20, LocId(1), &mut out);
        assert!(out.is_empty());
        o.claim(5, 15, LocId(2), &mut out);
        assert_eq!(out, [LocId(0), LocId(1)]);
        out.clear();
        o.claim(0, 20, LocId(3), &mut out);
        assert_eq!(out, [LocId(0), LocId(2), LocId(1)]);
        out.clear();
        o.claim(3, 4, LocId(4), &mut out);
        o.claim(0, 20, LocId(5), &mut out);
        assert_eq!(out, [LocId(3), LocId(3), LocId(4)], "each once per claim");
    }
}
