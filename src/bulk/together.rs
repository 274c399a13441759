//! Small modules in one world. In: the units that a worker has taken up. Out: programs of their structures, ahead of being
//! asked for. What is there already is left out, and so is what has no other beside it.
//!
//! A small module costs more to get a world ready for than to compile. What does not come out of the batch is compiled by
//! itself when it is asked for, with the same bytes.

use super::identity::Key;
use super::worker::{Reading, Taken, Worker, anonymous, contained};
use murre_components::hash::seeded_set;
use murre_systems::{CompileOptions, Compiler, batch};

/// HLO instructions of a small module, at most.
const SMALL: usize = 1_000;
/// HLO instructions in one world, at most: few enough for its tables to stay in the cache.
const TOGETHER: usize = 5_000;
/// Units that a worker takes up at once, at most.
const UNITS: usize = 64;
/// Bytes of files that a worker takes up at once, about.
pub const BYTES: usize = 4 << 20;

/// How many units a worker takes up when `left` of them are left for `jobs` workers: fewer towards the end, so that all
/// workers end together.
pub fn portion(left: usize, jobs: usize) -> usize {
    (left / (4 * jobs.max(1))).clamp(1, UNITS)
}

/// How many modules a worker puts into one world. A batch that was given up is compiled again, module by module, so the
/// next one is half as large, and behind a failed pair some modules are not tried; one that was not given up lets the next
/// be twice as large.
pub(super) struct Together {
    size: usize,
    /// Modules to compile by themselves before the next batch.
    alone: usize,
    allowed: bool,
}

/// Modules behind a failed pair that are compiled by themselves.
const ALONE: usize = 32;

impl Together {
    pub(super) fn new(options: &CompileOptions) -> Together {
        Together { size: UNITS, alone: 0, allowed: batch::allowed(options) }
    }

    /// Modules to take up.
    pub(super) fn size(&self) -> usize {
        if self.allowed && self.alone == 0 { self.size } else { 1 }
    }

    /// Learns from a batch.
    fn learn(&mut self, succeeded: bool) {
        if !succeeded && self.size == 2 {
            self.alone = ALONE;
        }
        self.size = if succeeded { self.size * 2 } else { self.size / 2 }.clamp(2, UNITS);
    }
}

impl Worker<'_> {
    /// Compiles the small modules among `taken` whose programs nobody has.
    pub(super) fn compile_together(&mut self, taken: &[Taken]) {
        if self.together.size() == 1 {
            self.together.alone = self.together.alone.saturating_sub(1);
            return;
        }
        let small = taken.iter().filter_map(|t| match t {
            Taken::Read(reading) if reading.module.len() <= SMALL => Some(&**reading),
            _ => None,
        });
        let mut seen = seeded_set();
        let wanted: Vec<&Reading> =
            small.filter(|r| seen.insert(r.identity.key) && !self.is_there(&r.identity.key)).collect();
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let mut instructions = 0;
            let fits = |r: &&Reading| {
                instructions += r.module.len();
                instructions <= TOGETHER
            };
            let (group, others) = rest.split_at(rest.iter().copied().take_while(fits).count().max(1));
            self.compile_group(group);
            rest = others;
        }
    }

    fn is_there(&self, key: &Key) -> bool {
        self.shared.memo.has(key) || self.shared.cache.as_ref().is_some_and(|cache| cache.has(key))
    }

    fn compile_group(&mut self, group: &[&Reading]) {
        if group.len() < 2 {
            return;
        }
        let modules = group.iter().map(|r| anonymous(&r.module, &r.identity)).collect();
        // After a panic the world is gone, and each module is compiled by itself.
        let mut compiler = self.compiler.take().unwrap_or_else(Compiler::empty);
        let shared = self.shared;
        let Ok((compiler, programs)) = contained(move || {
            let programs = compiler.batch(modules, &shared.options);
            (compiler, programs)
        }) else {
            return;
        };
        self.compiler = Some(compiler);
        self.together.learn(programs.iter().any(Option::is_some));
        let keys = group.iter().map(|r| r.identity.key);
        self.ahead.extend(keys.zip(programs).filter_map(|(key, program)| Some((key, program?))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_are_given_up_get_small_and_grow_again() {
        let mut t = Together::new(&CompileOptions { verify: false, ..CompileOptions::default() });
        let mut sizes = vec![t.size()];
        for succeeded in [false, false, false, false, false, true, true, false] {
            t.learn(succeeded);
            sizes.push(t.size());
        }
        assert_eq!(sizes, [64, 32, 16, 8, 4, 2, 4, 8, 4]);
        t.learn(false);
        t.learn(false);
        assert_eq!((t.size(), t.alone), (1, ALONE));
        t.alone = 0;
        assert_eq!(t.size(), 2);
        t.allowed = false;
        assert_eq!(t.size(), 1);
    }

    #[test]
    fn portions_shrink_towards_the_end_and_cover_everything() {
        let (mut left, mut portions) = (1000, Vec::new());
        while left > 0 {
            portions.push(portion(left, 2));
            left -= portion(left, 2).min(left);
        }
        assert!(
            portions.is_sorted_by(|a, b| a >= b) && portions[0] == UNITS && portions.ends_with(&[1, 1, 1])
        );
        assert_eq!(portion(5, 8), 1);
        assert_eq!(portion(0, 0), 1);
    }
}
