//! What every pass touches. In: the systems of the pass table, as bevy_ecs sees them: their parameters are their access
//! list. Out: for each pass the components and resources that it reads and writes, whether it needs the whole world,
//! and for each pair of passes what keeps them from running side by side. Built once a process, when somebody asks: the
//! listing, the lab, and every schedule whose order comes from data instead of from the table.
//!
//! ```text
//! pass         reads                    writes                 conflict of the two
//! color_psum   LocHead LocLive          LocPlace Diagnostics   LocPlace, Diagnostics
//! color_sbuf   LocHead LocLive Counts   LocPlace Diagnostics
//! ```
//!
//! A pass with `Commands` counts as one that needs the world: what it inserts is not in its parameters
//! (`spec/ecs.md 3`).

use crate::compile::Compiler;
use crate::options::CompileOptions;
use crate::pass::{Pass, PassSet, Stage, passes};
use bevy_ecs::archetype::Archetype;
use bevy_ecs::component::{ComponentId, Components};
use bevy_ecs::prelude::*;
use bevy_ecs::query::AccessConflicts;
use bevy_ecs::system::{System, SystemAccess};
use murre_components::hlo::HloModule;
use std::any::TypeId;
use std::sync::OnceLock;

/// A component or a resource: its short name and its type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Touched {
    /// The type's name without its path.
    pub name: String,
    /// Its type: ids differ from world to world.
    pub ty: Option<TypeId>,
}

/// What one pass touches.
pub struct PassAccess {
    /// The pass.
    pub pass: &'static Pass,
    /// Needs `&mut World`: nothing runs beside it.
    pub exclusive: bool,
    /// Has `Commands`, applied when nothing else runs.
    pub deferred: bool,
    /// Read and not written, by name.
    pub reads: Vec<Touched>,
    /// Written, by name.
    pub writes: Vec<Touched>,
    access: SystemAccess,
}

/// Why two passes cannot run side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// They can.
    None,
    /// One of them needs the whole world.
    World,
    /// Both touch these, and at least one writes.
    Over(Vec<String>),
}

impl PassAccess {
    /// Whether this pass needs the world to itself, now or when its commands are applied.
    pub fn alone(&self) -> bool {
        self.exclusive || self.deferred
    }

    /// Everything it touches.
    pub fn touched(&self) -> impl Iterator<Item = &Touched> {
        self.reads.iter().chain(&self.writes)
    }
}

/// The accesses of all passes, in table order.
pub struct AccessTable {
    /// A row a pass.
    pub rows: Vec<PassAccess>,
    conflicts: Vec<Conflict>,
}

impl AccessTable {
    /// The table of this program's passes.
    pub fn get() -> &'static AccessTable {
        static TABLE: OnceLock<AccessTable> = OnceLock::new();
        TABLE.get_or_init(AccessTable::build)
    }

    fn build() -> AccessTable {
        // One world for all, so that component ids of different passes can be compared.
        let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let rows: Vec<PassAccess> =
            passes().enumerate().map(|(row, pass)| of_pass(pass, row as u16, &mut world)).collect();
        let components = world.components();
        let mut conflicts = Vec::with_capacity(rows.len() * rows.len());
        for a in &rows {
            conflicts.extend(rows.iter().map(|b| conflict(a, b, components)));
        }
        AccessTable { rows, conflicts }
    }

    /// What keeps the passes of rows `a` and `b` apart.
    pub fn conflict(&self, a: usize, b: usize) -> &Conflict {
        self.conflicts.get(a * self.rows.len() + b).unwrap_or(&Conflict::World)
    }

    /// The row of a pass.
    pub fn of(&self, pass: &Pass) -> Option<&PassAccess> {
        self.rows.iter().find(|r| std::ptr::eq(r.pass, pass))
    }

    /// Rows of the passes of a stage.
    pub fn stage(&self, stage: Stage) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(move |&r| self.rows[r].pass.stage == stage)
    }
}

/// The access of one pass: its system is built in a schedule of its own and never run.
fn of_pass(pass: &'static Pass, row: u16, world: &mut World) -> PassAccess {
    let mut schedule = Schedule::default();
    (pass.add)(&mut schedule, PassSet(row), None);
    let mut out = PassAccess {
        pass,
        exclusive: true,
        deferred: false,
        reads: Vec::new(),
        writes: Vec::new(),
        access: SystemAccess::Exclusive,
    };
    // A schedule of one system has no cycle and no conflict.
    if schedule.initialize(world).is_err() {
        return out;
    }
    let Ok(mut systems) = schedule.systems_with_access() else { return out };
    let Some((_, system)) = systems.next() else { return out };
    out.deferred = system.has_deferred();
    out.exclusive = system.access().is_exclusive();
    out.access = system.access().clone();
    if let SystemAccess::Shared(set) = system.access() {
        let access = set.combined_access();
        let names = |id: &ComponentId| touched(*id, world.components());
        let writes = access.writes().as_finite_set();
        let reads = access.reads().as_finite_set();
        out.writes = writes.into_iter().flat_map(|s| s.iter()).map(|id| names(&id)).collect();
        let only_read = |id: &ComponentId| writes.is_none_or(|w| !w.contains(*id));
        out.reads = reads.into_iter().flat_map(|s| s.iter()).filter(only_read).map(|id| names(&id)).collect();
        out.reads.sort();
        out.writes.sort();
    }
    out
}

fn touched(id: ComponentId, components: &Components) -> Touched {
    let info = components.get_info(id);
    let name = info.map_or_else(String::new, |i| i.name().shortname().to_string());
    Touched { name, ty: info.and_then(|i| i.type_id()) }
}

fn conflict(a: &PassAccess, b: &PassAccess, components: &Components) -> Conflict {
    if a.alone() || b.alone() {
        return Conflict::World;
    }
    match a.access.get_conflicts(&b.access) {
        AccessConflicts::All => Conflict::World,
        AccessConflicts::Individual(ids) if ids.is_clear() => Conflict::None,
        AccessConflicts::Individual(ids) => {
            let mut names: Vec<String> = ids.iter().map(|id| touched(id, components).name).collect();
            names.sort();
            Conflict::Over(names)
        }
    }
}

/// Rows of the tables that a pass touches, as they are now; of all tables when it needs the world. A pass over the HLO
/// module sweeps its instructions.
pub fn rows_touched(world: &World, access: &PassAccess) -> u64 {
    let ids: Vec<ComponentId> = access.touched().filter_map(|t| world.components().get_id(t.ty?)).collect();
    let tables = rows(world, |a| access.exclusive || ids.iter().any(|id| a.contains(*id)));
    let module = TypeId::of::<HloModule>();
    let reads_module = access.exclusive || access.touched().any(|t| t.ty == Some(module));
    tables + world.get_resource::<HloModule>().filter(|_| reads_module).map_or(0, |m| m.len() as u64)
}

/// Rows of all tables of the program.
pub fn rows_of_all(world: &World) -> u64 {
    rows(world, |_| true)
}

/// Rows of the archetypes that `wanted` takes. Resources are entities too; they are no rows.
fn rows(world: &World, wanted: impl Fn(&Archetype) -> bool) -> u64 {
    let resources = world.resource_entities();
    let archetypes = world.archetypes().iter().filter(|a| !a.is_empty() && wanted(a));
    archetypes
        .filter(|a| !a.components().iter().any(|c| resources.get(*c).is_some()))
        .map(|a| u64::from(a.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> usize {
        passes().position(|p| p.name == name).unwrap()
    }

    #[test]
    fn parameters_are_the_access_list() {
        let table = AccessTable::get();
        assert_eq!(table.rows.len(), passes().count());
        let psum = &table.rows[row("color_psum")];
        let names = |t: &[Touched]| t.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
        assert!(!psum.exclusive);
        assert!(names(&psum.writes).contains(&"LocPlace".to_string()), "{:?}", psum.writes);
        assert!(names(&psum.reads).contains(&"LocHead".to_string()), "{:?}", psum.reads);
        for access in &table.rows {
            assert!(access.touched().all(|t| !t.name.is_empty() && !t.name.contains(' ')));
            assert!(access.exclusive || access.touched().next().is_some(), "{}", access.pass.name);
        }
    }

    #[test]
    fn conflicts_are_symmetric_and_named() {
        let table = AccessTable::get();
        let (a, b) = (row("color_psum"), row("color_sbuf"));
        assert!(
            matches!(table.conflict(a, b), Conflict::Over(names) if names.iter().any(|n| n == "LocPlace"))
        );
        for a in 0..table.rows.len() {
            for b in 0..table.rows.len() {
                assert_eq!(table.conflict(a, b), table.conflict(b, a));
            }
        }
    }
}
