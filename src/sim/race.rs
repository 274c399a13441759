//! Races: two accesses to the same bytes, at least one a write, that nothing orders. The values may still have come out
//! right in this interleaving; that nothing orders the accesses shows in every one.
//!
//! In: every access of the memories with its actor and record. Out: the first access that is not ordered after a
//! conflicting earlier one. Every 4 bytes have two slots: who wrote them last, and who read them since. A slot is a word
//! that holds an entry (actor, epoch, record, which of the 4 bytes) or names a set of entries; sets are shared between
//! the bytes that were accessed alike and counted, so that they can be used again.
//!
//! The last write and the reads after it suffice: whatever is ordered after them is ordered after the older ones, or the
//! race between those was reported before.

use super::clocks::Clocks;
use super::memory::Region;
use murre_components::engine::EngineId;
use murre_components::program::Program;

/// Bits of an entry's epoch, record and actor; above them four bits for the bytes, and the bit of a set.
const EPOCH_BITS: u32 = 30;
const RECORD_BITS: u32 = 21;
const ACTOR_BITS: u32 = 8;
const MASK_AT: u32 = EPOCH_BITS + RECORD_BITS + ACTOR_BITS;
const MASK: u64 = 15 << MASK_AT;
const SET: u64 = 1 << 63;

/// The last epoch that an entry can hold.
pub const LAST_EPOCH: u32 = (1 << EPOCH_BITS) - 1;
const LAST_RECORD: u64 = (1 << RECORD_BITS) - 1;

/// Granules of a chunk; a chunk is made when it is first touched.
const CHUNK: usize = 1 << 14;

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// As in the trace.
    pub actor: usize,
    /// Record of the engine's stream, or of the descriptors for the program's queues.
    pub record: usize,
    /// Whether it writes.
    pub write: bool,
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The one before in this interleaving.
    pub earlier: Access,
    /// The one that found it.
    pub later: Access,
    /// First byte that they share.
    pub at: usize,
}

impl Access {
    /// Table (stream, or 5 for descriptors) of the record.
    fn table(&self, program: &Program) -> usize {
        match self.actor.checked_sub(5) {
            None => self.actor,
            Some(queue) => queue.checked_sub(program.queues.len()).unwrap_or(5),
        }
    }

    /// Names the actor, the record and the HLO instruction.
    pub fn text(&self, program: &Program) -> String {
        let table = self.table(program);
        let engine = EngineId::STREAMS.get(table).map_or("", |e| e.name());
        let mut out = match self.actor.checked_sub(5) {
            None => format!("{engine} record {}", self.record),
            Some(queue) => match program.queues.get(queue) {
                Some(q) => format!("queue '{}' descriptor {}", q.name, self.record),
                None => format!("the queue of {engine} record {}", self.record),
            },
        };
        let p = &program.provenance;
        let index = p.streams.get(table).unwrap_or(&p.descriptors).get(self.record);
        if let Some(name) = index.and_then(|i| p.names.get(*i as usize)) {
            out += &format!(" of '{name}'");
        }
        out
    }
}

impl Race {
    /// The race in a sentence; `place` names the bytes.
    pub fn text(&self, program: &Program, place: &str) -> String {
        let verb = |a: &Access| if a.write { "writes" } else { "reads" };
        format!(
            "{} {} {place}, which {} {} too, and nothing orders the two",
            self.later.text(program),
            verb(&self.later),
            self.earlier.text(program),
            verb(&self.earlier)
        )
    }
}

/// Slots of a granule: writers, readers.
type Slots = [u64; 2];

#[derive(Default)]
struct Shadow {
    chunks: Vec<Option<Box<[Slots]>>>,
}

/// Sets of entries by index, with the number of slots that name each.
#[derive(Default)]
struct Sets {
    entries: Vec<Vec<u64>>,
    uses: Vec<u64>,
    free: Vec<usize>,
}

impl Sets {
    fn of(&self, slot: u64) -> &[u64] {
        self.entries.get((slot & !SET) as usize).map_or(&[], |e| e.as_slice())
    }

    fn used(&mut self, slot: u64) {
        if slot & SET != 0
            && let Some(n) = self.uses.get_mut((slot & !SET) as usize)
        {
            *n += 1;
        }
    }

    fn dropped(&mut self, slot: u64) {
        let index = (slot & !SET) as usize;
        if slot & SET != 0
            && let Some(n) = self.uses.get_mut(index)
        {
            *n = n.saturating_sub(1);
            if *n == 0 {
                self.free.push(index);
            }
        }
    }

    /// The slot for these entries. A new set has no uses yet.
    fn slot(&mut self, entries: Vec<u64>) -> u64 {
        match entries.as_slice() {
            [] => 0,
            [one] => *one,
            _ => {
                let index = match self.free.pop() {
                    Some(index) => index,
                    None => {
                        self.entries.push(Vec::new());
                        self.uses.push(0);
                        self.entries.len() - 1
                    }
                };
                if let Some(e) = self.entries.get_mut(index) {
                    *e = entries;
                }
                SET | index as u64
            }
        }
    }
}

/// The race check of a run.
pub struct Races {
    /// Who knows of what.
    pub clocks: Clocks,
    shadows: Vec<Shadow>,
    sets: Sets,
    actor: usize,
    record: usize,
    /// The race that ended the run.
    pub found: Option<Race>,
}

fn actor_of(entry: u64) -> usize {
    (entry >> (EPOCH_BITS + RECORD_BITS)) as usize & ((1 << ACTOR_BITS) - 1)
}

fn access_of(entry: u64, write: bool) -> Access {
    Access { actor: actor_of(entry), record: (entry >> EPOCH_BITS & LAST_RECORD) as usize, write }
}

impl Races {
    /// No access yet.
    pub fn new(actors: usize) -> Races {
        Races {
            clocks: Clocks::new(actors),
            shadows: Vec::new(),
            sets: Sets::default(),
            actor: 0,
            record: 0,
            found: None,
        }
    }

    /// From now on `actor` acts, with this record.
    pub fn enter(&mut self, actor: usize, record: usize) {
        (self.actor, self.record) = (actor, record);
    }

    /// Who acts.
    pub fn actor(&self) -> usize {
        self.actor
    }

    fn is_behind(&self, entry: u64) -> bool {
        entry as u32 & LAST_EPOCH <= self.clocks.known(self.actor, actor_of(entry))
    }

    /// The first entry of a slot that shares bytes with `mask` and is not ordered before the present.
    #[inline]
    fn conflict(&self, slot: u64, mask: u64) -> Option<u64> {
        if slot & SET == 0 {
            return (slot & mask != 0 && !self.is_behind(slot)).then_some(slot);
        }
        self.sets.of(slot).iter().copied().find(|e| e & mask != 0 && !self.is_behind(*e))
    }

    /// A slot without the bytes of `mask`; with `keep`, entries that are not ordered before the present stay whole.
    /// Then `add` is put in.
    fn replaced(&mut self, slot: u64, mask: u64, keep: bool, add: u64) -> u64 {
        let old = if slot & SET == 0 { vec![slot] } else { self.sets.of(slot).to_vec() };
        let mut new = Vec::with_capacity(old.len() + 1);
        let mut add = add;
        for e in old {
            let left = if keep && !self.is_behind(e) { e } else { e & !mask };
            if left & MASK == 0 {
                continue;
            }
            // The same record on other bytes of the granule.
            if add != 0 && left & !MASK == add & !MASK {
                add |= left;
            } else {
                new.push(left);
            }
        }
        if add != 0 {
            new.push(add);
        }
        self.sets.slot(new)
    }

    /// Checks and notes an access to bytes that exist.
    pub fn access(&mut self, region: Region, at: usize, n: usize, write: bool) -> Result<(), Race> {
        if n == 0 {
            return Ok(());
        }
        let index = match region {
            Region::Sbuf => 0,
            Region::Psum => 1,
            Region::Var(id) => 2 + id as usize,
        };
        if self.shadows.len() <= index {
            self.shadows.resize_with(index + 1, Shadow::default);
        }
        let epoch = self.clocks.epoch(self.actor) as u64;
        let record = (self.record as u64).min(LAST_RECORD);
        let bare = (self.actor as u64) << (EPOCH_BITS + RECORD_BITS) | record << EPOCH_BITS | epoch;
        let (first, last) = (at / 4, (at + n - 1) / 4);
        let mut granule = first;
        while granule <= last {
            let chunk = granule / CHUNK;
            let end = ((chunk + 1) * CHUNK - 1).min(last);
            // The chunk is taken out while its slots change.
            let chunks = &mut self.shadows[index].chunks;
            if chunks.len() <= chunk {
                chunks.resize_with(chunk + 1, || None);
            }
            let slots = chunks[chunk].take();
            let mut slots = slots.unwrap_or_else(|| vec![[0; 2]; CHUNK].into_boxed_slice());
            let mut raced = Ok(());
            // What was done to the granule before: most of a run is alike.
            let mut memo: (Slots, u64, Slots) = ([0; 2], 0, [0; 2]);
            for (slot, g) in slots[granule % CHUNK..=end % CHUNK].iter_mut().zip(granule..) {
                let mut bytes = 15u64;
                if g == first {
                    bytes &= 15 << (at % 4);
                }
                if g == last {
                    bytes &= 15 >> (3 - (at + n - 1) % 4);
                }
                let mask = bytes << MASK_AT;
                let old = *slot;
                if memo.0 != old || memo.1 != mask {
                    match self.step(old, bare | mask, mask, write) {
                        Ok(new) => memo = (old, mask, new),
                        Err((entry, wrote)) => {
                            let earlier = access_of(entry, wrote);
                            let later = Access { actor: self.actor, record: self.record, write };
                            let byte = ((entry & mask) >> MASK_AT).trailing_zeros() as usize;
                            raced = Err(Race { earlier, later, at: g * 4 + byte });
                            break;
                        }
                    }
                }
                *slot = memo.2;
                for (new, old) in slot.iter().zip(old) {
                    if (*new | old) & SET != 0 && *new != old {
                        self.sets.used(*new);
                        self.sets.dropped(old);
                    }
                }
            }
            self.shadows[index].chunks[chunk] = Some(slots);
            if let Err(race) = raced {
                self.found = Some(race);
                return Err(race);
            }
            granule = end + 1;
        }
        Ok(())
    }

    /// The slots of a granule after the access `entry`, or the earlier entry that it races with and whether that one is
    /// a write.
    fn step(
        &mut self,
        [writers, readers]: Slots,
        entry: u64,
        mask: u64,
        write: bool,
    ) -> Result<Slots, (u64, bool)> {
        if let Some(e) = self.conflict(writers, mask) {
            return Err((e, true));
        }
        if !write {
            if readers & SET != 0 && self.sets.of(readers).contains(&entry) {
                return Ok([writers, readers]);
            }
            let whole = readers == 0 || readers & SET == 0 && mask == MASK && self.is_behind(readers);
            let new = if whole { entry } else { self.replaced(readers, mask, true, entry) };
            return Ok([writers, new]);
        }
        if let Some(e) = self.conflict(readers, mask) {
            return Err((e, false));
        }
        if mask == MASK {
            return Ok([entry, 0]);
        }
        let readers = if readers == 0 { 0 } else { self.replaced(readers, mask, false, 0) };
        Ok([self.replaced(writers, mask, false, entry), readers])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every access of every byte: actor, epoch, whether it wrote.
    type History = Vec<Vec<(usize, u32, bool)>>;

    fn races_by_history(h: &History, r: &Races, at: usize, n: usize, write: bool) -> bool {
        h[at..at + n].iter().flatten().any(|(actor, epoch, wrote)| {
            (write || *wrote) && r.clocks.known(r.actor(), *actor) < *epoch && *actor != r.actor()
        })
    }

    #[test]
    fn random_accesses_race_exactly_where_their_full_history_says() {
        let mut state = 7u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let (mut found, mut accesses) = (0, 0);
        // The bytes lie across the border of two chunks.
        let base = CHUNK * 4 - 24;
        for _ in 0..3000 {
            let mut r = Races::new(12);
            let mut h: History = vec![Vec::new(); 48];
            for _ in 0..60 {
                let actor = below(4) as usize;
                match below(5) {
                    0 => r.clocks.update(actor, below(3) as u8, 0, 1, false),
                    1 => r.clocks.wait(actor, below(3) as u8, None),
                    _ => {
                        let (at, write) = (below(40) as usize, below(4) == 0);
                        let n = 1 + below(8) as usize;
                        r.enter(actor, below(5) as usize);
                        let want = races_by_history(&h, &r, at, n, write);
                        let got = r.access(Region::Var(1), base + at, n, write);
                        assert_eq!(got.is_err(), want, "{got:?}");
                        accesses += 1;
                        if let Err(race) = got {
                            assert!((base + at..base + at + n).contains(&race.at));
                            found += 1;
                            break;
                        }
                        let epoch = r.clocks.epoch(actor);
                        h[at..at + n].iter_mut().for_each(|b| b.push((actor, epoch, write)));
                    }
                }
            }
            let named: u64 = r
                .shadows
                .iter()
                .flat_map(|s| s.chunks.iter().flatten())
                .fold(0, |n, c| n + c.iter().flatten().filter(|slot| **slot & SET != 0).count() as u64);
            assert_eq!(named, r.sets.uses.iter().sum::<u64>());
        }
        assert!(found > 1000 && accesses > 10_000, "{found} races in {accesses} accesses");
    }

    #[test]
    fn sets_are_used_again() {
        let mut r = Races::new(12);
        for round in 0..1000 {
            for actor in 0..3 {
                r.enter(actor, round);
                r.access(Region::Sbuf, 0, 64, false).expect("readers do not race");
                r.clocks.issue(actor);
            }
        }
        assert!(r.sets.entries.len() < 10, "{} sets", r.sets.entries.len());
    }

    #[test]
    fn numbers_that_an_entry_cannot_hold_are_cut() {
        let mut r = Races::new(186);
        r.enter(185, 1 << 30);
        r.access(Region::Psum, 6, 1, true).expect("the first access");
        r.enter(0, 3);
        let race = r.access(Region::Psum, 4, 8, false).expect_err("a race");
        assert_eq!(race.earlier, Access { actor: 185, record: LAST_RECORD as usize, write: true });
        assert_eq!((race.later.actor, race.at), (0, 6));
    }
}
