//! Live ranges over program positions when the program has loops.
//!
//! In: one walk over the program that reports loop borders and accesses. Out: for every row (a location or a register)
//! one interval that is safe to compare with others. The work is constant per access and per row.
//!
//! Let D be the innermost loop that holds every access of a row. An access that stands in a loop inside D counts from
//! the border of the outermost such loop, because the row is alive in its other trips too. If the first access
//! inside D does not surely define the row, a trip of D may see what the trip before left, and so on outwards: the
//! row then lives over the outermost loop around D.

/// No loop, or no position.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Loop {
    begin: u32,
    end: u32,
    parent: u32,
    depth: u32,
    always_runs: bool,
}

#[derive(Clone, Copy)]
struct Row {
    first: u32,
    last: u32,
    first_loop: u32,
    last_loop: u32,
    scope: u32,
    carried: bool,
}

/// Collects accesses; see the module text.
pub struct LoopHulls {
    loops: Vec<Loop>,
    open: u32,
    rows: Vec<Row>,
}

impl LoopHulls {
    /// For `rows` rows.
    pub fn new(rows: usize) -> Self {
        let empty =
            Row { first: NONE, last: 0, first_loop: NONE, last_loop: NONE, scope: NONE, carried: false };
        LoopHulls { loops: Vec::new(), open: NONE, rows: vec![empty; rows] }
    }

    /// A loop begins at `position`. `always_runs`: it makes at least one trip.
    pub fn enter(&mut self, position: u32, always_runs: bool) {
        let depth = if self.open == NONE { 0 } else { self.loops[self.open as usize].depth + 1 };
        self.loops.push(Loop { begin: position, end: NONE, parent: self.open, depth, always_runs });
        self.open = self.loops.len() as u32 - 1;
    }

    /// The innermost loop ends at `position`. `false` when none is open.
    pub fn leave(&mut self, position: u32) -> bool {
        match self.loops.get_mut(self.open as usize) {
            Some(l) => {
                l.end = position;
                self.open = l.parent;
                true
            }
            None => false,
        }
    }

    /// An access at `position`; positions never fall. `defines`: it writes without looking at the old content.
    #[inline]
    pub fn access(&mut self, row: usize, position: u32, defines: bool) {
        let open = self.open;
        let Some(r) = self.rows.get_mut(row) else {
            return;
        };
        (r.last, r.last_loop) = (position, open);
        if r.first == NONE {
            (r.first, r.first_loop, r.scope, r.carried) = (position, open, open, !defines);
        } else if r.scope != open {
            r.scope = common(&self.loops, r.scope, open);
        }
    }

    /// The interval of a row, inclusive; `None` for a row without accesses.
    pub fn interval(&self, row: usize) -> Option<(u32, u32)> {
        let r = self.rows.get(row).filter(|r| r.first != NONE)?;
        let (first_child, always_runs) = self.child(r.scope, r.first_loop);
        if r.scope != NONE && (r.carried || !always_runs) {
            let mut l = self.loops[r.scope as usize];
            while l.parent != NONE {
                l = self.loops[l.parent as usize];
            }
            return Some((l.begin, l.end));
        }
        let (last_child, _) = self.child(r.scope, r.last_loop);
        let first = if first_child == NONE { r.first } else { self.loops[first_child as usize].begin };
        let last = if last_child == NONE { r.last } else { self.loops[last_child as usize].end };
        Some((first, last))
    }

    /// The loop directly inside `scope` that holds loop `at`, and whether every loop on the way surely runs.
    fn child(&self, scope: u32, mut at: u32) -> (u32, bool) {
        let (mut child, mut runs) = (NONE, true);
        while at != scope && at != NONE {
            runs &= self.loops[at as usize].always_runs;
            child = at;
            at = self.loops[at as usize].parent;
        }
        (child, runs)
    }
}

/// The innermost loop that holds both.
fn common(loops: &[Loop], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        if a == NONE || b == NONE {
            return NONE;
        }
        let (da, db) = (loops[a as usize].depth, loops[b as usize].depth);
        if da >= db {
            a = loops[a as usize].parent;
        }
        if db >= da {
            b = loops[b as usize].parent;
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_line_is_first_to_last() {
        let mut h = LoopHulls::new(2);
        h.access(0, 3, true);
        h.access(0, 9, false);
        assert_eq!(h.interval(0), Some((3, 9)));
        assert_eq!(h.interval(1), None);
    }

    #[test]
    fn a_use_inside_a_loop_of_what_stood_before_lives_to_its_end() {
        let mut h = LoopHulls::new(2);
        h.access(0, 1, true);
        h.enter(2, false);
        h.access(0, 3, false);
        h.access(1, 4, true);
        h.leave(8);
        h.access(1, 10, false);
        assert_eq!(h.interval(0), Some((1, 8)));
        assert_eq!(h.interval(1), Some((2, 10)), "made inside and used behind: alive in every trip");
    }

    #[test]
    fn what_a_trip_makes_and_uses_stays_short_and_what_it_inherits_covers_the_outermost_loop() {
        let mut h = LoopHulls::new(4);
        h.enter(0, false);
        h.enter(2, false);
        h.access(0, 3, true);
        h.access(0, 4, false);
        h.access(1, 5, false);
        h.access(1, 6, true);
        h.access(2, 6, true);
        h.leave(8);
        h.access(2, 9, false);
        h.enter(10, true);
        h.access(3, 11, true);
        h.leave(12);
        h.access(3, 13, false);
        h.leave(20);
        assert_eq!(h.interval(0), Some((3, 4)));
        assert_eq!(h.interval(1), Some((0, 20)), "read before written");
        assert_eq!(h.interval(2), Some((0, 20)), "its definition may be skipped");
        assert_eq!(h.interval(3), Some((10, 13)), "its definition cannot be skipped");
        assert!(!h.leave(21));
    }
}
