//! Which instructions run together in a loop over live rows. In: a computation at its bounds, and which of its values are
//! live only below a size in dimension 0. Out: groups of instructions that compute rows by themselves or fold them, an
//! order in which each group stands as one, and how many rows a trip takes.
//!
//! A value that is seen outside its group is one whose rows behind the size are nobody's; all others are read by their own
//! group only. A fold takes rows behind which neutral elements stand, so that rows that are not computed do not count.
//! What needs a group's fold is of a later stage. Facts: `spec/dynamic_shapes.md 1`, `5.1`, decision D5.

use super::row_forms::{Fold, Role, fold, is_made_anew, roles, work};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::HloModule;
use murre_components::ids::{CompId, HloId};

/// Least work of a trip; a trip ends with a fence of all engines.
const TRIP_WORK: u64 = 1 << 17;

/// Least trips at the bound.
const TRIPS: i64 = 4;

/// Times that stages are settled anew before a computation is left alone.
const ROUNDS: usize = 8;

/// A size and its bound.
pub type Key = (HloId, i64);

/// A value that is live only below a size in dimension 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRows {
    /// The value.
    pub value: HloId,
    /// The size.
    pub size: HloId,
    /// Whether nobody reads the value's rows behind the size: it stands for nothing else.
    pub own: bool,
    /// Its row of the story.
    pub row: Option<usize>,
}

/// What stage `dynamic_shape` knows of rows in the module at its bounds.
#[derive(bevy_ecs::prelude::Resource, Clone, Debug)]
pub struct Rows {
    /// Values that are live only below a size.
    pub live: Vec<LiveRows>,
    /// Values with neutral elements behind the size of dimension 0.
    pub neutral: SeededMap<HloId, HloId>,
}

/// Instructions that run in one loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The size that counts the trips, and its bound.
    pub key: Key,
    /// Members in program order.
    pub members: Vec<HloId>,
    /// Rows of a trip; 0 where a loop would not pay.
    pub tile: i64,
}

/// A step of a computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An instruction.
    Inst(HloId),
    /// A group, by its number.
    Group(usize),
}

/// A computation's groups and order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The groups.
    pub groups: Vec<Group>,
    /// All instructions, each once.
    pub steps: Vec<Step>,
}

/// What is known of an instruction.
#[derive(Clone, Default)]
struct Facts {
    key: Option<Key>,
    roles: Vec<Role>,
    fold: Option<Fold>,
    /// In a group.
    grouped: bool,
    /// Its rows behind the size are nobody's.
    own: bool,
    /// Of a member: the stage of its group. Of others: how many stages are done before.
    stage: u32,
}

/// Values of a whole module that are made of nothing that has rows.
pub fn made_anew(module: &HloModule) -> Vec<bool> {
    let mut made = vec![false; module.len()];
    for k in 0..module.len() {
        let id = HloId::new(k);
        made[k] = is_made_anew(module, &made, module.inst(id));
    }
    made
}

/// Plans a computation; `None` where no loop pays.
pub fn plan(module: &HloModule, c: CompId, rows: &Rows, made: &[bool]) -> Option<Plan> {
    let comp = module.comp(c);
    let (first, count) = (comp.instructions.first, comp.instructions.count as usize);
    let at = |id: HloId| (id.0 - first) as usize;
    let mut facts = vec![Facts::default(); count];
    for l in rows.live.iter().filter(|l| (first..first + count as u32).contains(&l.value.0)) {
        let Some(bound) = module.inst(l.value).shape().array().and_then(|a| a.dims.first().copied()) else {
            continue;
        };
        let f = &mut facts[at(l.value)];
        // A value that has been given two sizes is left alone.
        f.own = l.own && f.key.is_none_or(|k| k.0 == l.size);
        f.key = Some((l.size, bound));
    }
    for id in comp.instructions.iter() {
        let inst = module.inst(id);
        if made[id.index()] {
            facts[at(id)].key = None;
            continue;
        }
        let keyed = |roles: &[Role], facts: &[Facts]| {
            let rows = inst.operands().iter().zip(roles).filter(|(_, r)| **r == Role::Rows);
            // The size has to be there before its loop.
            rows.filter_map(|(o, _)| facts[at(*o)].key).find(|k| k.0 < id)
        };
        if let Some(roles) = roles(module, inst) {
            let found = keyed(&roles, &facts);
            let f = &mut facts[at(id)];
            f.grouped = found.is_some() && (f.key.is_none() || f.key == found && f.own);
            (f.key, f.roles) = (f.key.or(found), roles);
        } else if let Some(fold) = fold(module, inst) {
            let found = keyed(&fold.roles, &facts);
            let f = &mut facts[at(id)];
            (f.grouped, f.key, f.roles) =
                (found.is_some() && f.key.is_none(), f.key.or(found), fold.roles.clone());
            f.fold = Some(fold);
        }
    }
    drawn_in(module, c, &mut facts);
    if !facts.iter().any(|f| f.grouped) || !settle(module, c, rows, &mut facts) {
        return None;
    }
    let plan = ordered(module, c, &facts, made);
    plan.groups.iter().any(|g| g.tile > 0).then_some(plan)
}

/// Draws what one group alone reads row by row into it, whatever its own size: then rows that the group does not read are not
/// computed.
fn drawn_in(module: &HloModule, c: CompId, facts: &mut [Facts]) {
    let comp = module.comp(c);
    let at = |id: HloId| (id.0 - comp.instructions.first) as usize;
    // By instruction: nobody has been seen to read it, or the one key of its readers, or none.
    let mut readers: Vec<Option<Option<Key>>> = vec![None; facts.len()];
    readers[at(comp.root)] = Some(None);
    for id in comp.instructions.iter().rev() {
        let f = &mut facts[at(id)];
        if let Some(Some(key)) = readers[at(id)]
            && key.0 < id
            && !f.own
            && f.fold.is_none()
            && !f.roles.is_empty()
        {
            (f.key, f.grouped) = (Some(key), true);
        }
        let f = &facts[at(id)];
        for (k, o) in module.inst(id).operands().iter().enumerate() {
            let key = f.key.filter(|_| f.grouped && f.roles.get(k) == Some(&Role::Rows));
            let seen = &mut readers[at(*o)];
            *seen = Some(match seen {
                None => key,
                Some(before) => before.filter(|k| Some(*k) == key),
            });
        }
    }
}

/// Puts what only a later stage reads row by row into that stage.
fn with_readers(module: &HloModule, c: CompId, facts: &mut [Facts]) {
    let comp = module.comp(c);
    let at = |id: HloId| (id.0 - comp.instructions.first) as usize;
    let mut earliest = vec![u32::MAX; facts.len()];
    for id in comp.instructions.iter().rev() {
        let f = &mut facts[at(id)];
        if f.grouped && !f.own && f.fold.is_none() && earliest[at(id)] != u32::MAX {
            f.stage = f.stage.max(earliest[at(id)]);
        }
        let f = &facts[at(id)];
        for o in module.inst(id).operands() {
            let reader = if f.grouped && f.key == facts[at(*o)].key { f.stage } else { 0 };
            earliest[at(*o)] = earliest[at(*o)].min(reader);
        }
    }
}

/// Takes out of the groups what is seen where it must not be, until stages and members agree. `false`: they do not.
fn settle(module: &HloModule, c: CompId, rows: &Rows, facts: &mut [Facts]) -> bool {
    let comp = module.comp(c);
    let at = |id: HloId| (id.0 - comp.instructions.first) as usize;
    for _ in 0..ROUNDS {
        for id in comp.instructions.iter() {
            let mut stage = 0;
            for (k, o) in module.inst(id).operands().iter().enumerate() {
                let (f, u) = (&facts[at(id)], &facts[at(*o)]);
                let beside = f.grouped
                    && u.grouped
                    && u.fold.is_none()
                    && f.key == u.key
                    && f.roles.get(k) == Some(&Role::Rows);
                stage = stage.max(u.stage + u32::from(u.grouped && !beside));
            }
            if let Some((size, _)) = facts[at(id)].key.filter(|k| facts[at(id)].grouped && k.0 < id) {
                let u = &facts[at(size)];
                stage = stage.max(u.stage + u32::from(u.grouped));
            }
            facts[at(id)].stage = stage;
        }
        with_readers(module, c, facts);
        // Seen by another group, by no group, or whole.
        let mut seen = vec![false; facts.len()];
        seen[at(comp.root)] = true;
        let mut changed = false;
        for id in comp.instructions.iter().rev() {
            let me = at(id);
            let operands = module.inst(id).operands();
            let f = &facts[me];
            let neutral = |o: &HloId| {
                let u = &facts[at(*o)];
                let size = rows.neutral.get(o).copied();
                u.grouped
                    && u.fold.is_none()
                    && u.stage == f.stage
                    && u.key == f.key
                    && size == f.key.map(|k| k.0)
            };
            let stays = match &f.fold {
                Some(fold) => {
                    let over = operands.iter().zip(&fold.roles).filter(|(_, r)| **r == Role::Rows);
                    over.clone().any(|(o, _)| neutral(o))
                }
                None => f.own || !seen[me],
            };
            if f.grouped && !stays {
                facts[me].grouped = false;
                changed = true;
            }
            let f = &facts[me];
            for (k, o) in operands.iter().enumerate() {
                let u = &facts[at(*o)];
                let inside =
                    f.grouped && f.key == u.key && f.stage == u.stage && f.roles.get(k) == Some(&Role::Rows);
                seen[at(*o)] |= !inside;
            }
        }
        if !changed {
            return true;
        }
    }
    false
}

/// Elements that a group reads row by row and does not make.
fn read<'f>(
    module: &HloModule,
    group: &Group,
    made: impl Fn(HloId) -> bool,
    roles: impl Fn(HloId) -> &'f [Role],
) -> u64 {
    let mut inputs: Vec<HloId> = Vec::new();
    for m in &group.members {
        let rows = module.inst(*m).operands().iter().zip(roles(*m)).filter(|(_, r)| **r == Role::Rows);
        inputs.extend(rows.map(|(o, _)| *o).filter(|o| !made(*o) && group.members.binary_search(o).is_err()));
    }
    inputs.sort_unstable();
    inputs.dedup();
    let elements = |id: &HloId| module.inst(*id).shape().array().map_or(0, |a| a.elements());
    inputs.iter().map(elements).fold(0, u64::saturating_add)
}

fn ordered(module: &HloModule, c: CompId, facts: &[Facts], made: &[bool]) -> Plan {
    let comp = module.comp(c);
    let at = |id: HloId| (id.0 - comp.instructions.first) as usize;
    let mut plan = Plan::default();
    let mut known: SeededMap<(Key, u32), usize> = seeded_map();
    let mut stages: Vec<(u32, bool, Step)> = Vec::new();
    for id in comp.instructions.iter() {
        let f = &facts[at(id)];
        match f.key.filter(|_| f.grouped) {
            None => stages.push((f.stage, false, Step::Inst(id))),
            Some(key) => {
                let number = *known.entry((key, f.stage)).or_insert_with(|| {
                    stages.push((f.stage, true, Step::Group(plan.groups.len())));
                    plan.groups.push(Group { key, members: Vec::new(), tile: 0 });
                    plan.groups.len() - 1
                });
                plan.groups[number].members.push(id);
            }
        }
    }
    for g in &mut plan.groups {
        let total = g.members.iter().map(|m| work(module, module.inst(*m))).fold(0u64, u64::saturating_add);
        let total =
            total.saturating_add(read(module, g, |o| made[o.index()], |m| facts[at(m)].roles.as_slice()));
        let folds = g.members.iter().any(|m| facts[at(*m)].fold.is_some());
        g.tile = tile(g.key.1, total, folds);
    }
    stages.sort_by_key(|(stage, group, _)| (*stage, *group));
    plan.steps = stages.into_iter().map(|s| s.2).collect();
    plan
}

/// Rows of a trip: enough work, a divisor of the bound where there is one, a multiple of the partitions where that divides;
/// 0 where fewer than [`TRIPS`] trips would be left.
fn tile(bound: i64, total: u64, folds: bool) -> i64 {
    let row = (total / bound.max(1) as u64).max(1);
    let least = i64::try_from(TRIP_WORK.div_ceil(row)).unwrap_or(i64::MAX);
    let most = bound / TRIPS;
    if least > most || bound > i64::from(i32::MAX) - most {
        return 0;
    }
    let divisors =
        (1i64..).take_while(|k| k * k <= bound).filter(|k| bound % k == 0).flat_map(|k| [k, bound / k]);
    let fits = |n: &i64| (least..=most).contains(n);
    let even = divisors.clone().filter(|n| fits(n) && n % 128 == 0).min();
    match even.or_else(|| divisors.filter(fits).min()) {
        Some(n) => n,
        // The last trip begins earlier and computes some rows again, which a fold would count twice.
        None if !folds => (least.saturating_add(127) / 128 * 128).min(most),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_are_large_and_divide_the_bound() {
        assert_eq!(tile(4096, 4096 * 512, true), 256);
        assert_eq!(tile(1000, 1000 * 2000, true), 100);
        assert_eq!(tile(1009, 1009 * 2000, true), 0, "a prime would count rows twice");
        assert_eq!(tile(1009, 1009 * 2000, false), 128);
        assert_eq!(tile(4096, 4096, false), 0, "too little work");
        assert_eq!(tile(8, 1 << 30, true), 1);
    }
}
