//! An entity through the passes: what each pass that made it, changed it or dropped it left of it. In: the world behind each
//! pass of a stepwise compilation. Out: a block a change, passes that changed nothing left out. Only this report keeps rows of
//! more than one point in time, and only those of what was asked for.
//!
//! ```text
//! r17
//! made by lower_branch (address): engine all, width 1, role Limit ...
//! changed by color_registers (registers): colour - -> 4
//! ```

mod entity;
mod fields;
mod text;

pub use entity::Entity;

use super::names::nearest;
use super::tables::Tables;
use bevy_ecs::prelude::World;
use fields::{Fields, Rows};
use murre_components::diag::{Diagnostic, codes::cli::CLI_ENTITY};
use murre_components::hlo::HloModule;
use murre_components::ids::HloId;
use murre_components::program::Program;
use murre_systems::Pass;
use serde::Serialize;
use serde_json::Value;

/// What a pass did to an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Deed {
    /// It was in the module as read.
    Read,
    Made,
    Changed,
    /// Nothing of the entity itself changed, but something was made of it.
    Lowered,
    Gone,
}

/// A field that a pass changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct FieldChange {
    pub field: &'static str,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Rows that a pass made of an HLO instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Children {
    pub kind: &'static str,
    /// In the notation of the entity.
    pub ids: Vec<String>,
}

/// One pass that did something.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Change {
    pub pass: &'static str,
    pub stage: &'static str,
    pub deed: Deed,
    pub fields: Vec<FieldChange>,
    pub children: Vec<Children>,
    /// Of an instruction: its place in program order behind the pass.
    pub position: Option<usize>,
}

/// One entity through the passes.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct EntityHistory {
    pub entity: Entity,
    pub changes: Vec<Change>,
}

/// What `history` says.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct History {
    pub entities: Vec<EntityHistory>,
}

/// Follows entities while a compilation runs pass by pass.
pub struct Recorder {
    asked: String,
    followed: Vec<Followed>,
    names: Vec<String>,
}

struct Followed {
    history: EntityHistory,
    last: Option<Fields>,
    /// Rows of each kind that came of it up to now, and HLO instructions named after it.
    known: Vec<(&'static str, Vec<String>)>,
}

impl Recorder {
    /// Follows everything that `asked` can mean: an HLO name, or the notation of a row. Takes the module as read.
    pub fn new(asked: &str, world: &mut World) -> Recorder {
        let module = world.get_resource::<HloModule>();
        let names = module.map(|m| m.insts().map(|i| i.name().to_owned()).collect()).unwrap_or_default();
        let entities = Entity::parse(asked).into_iter();
        let followed = entities
            .map(|entity| Followed {
                history: EntityHistory { entity, changes: Vec::new() },
                last: None,
                known: Vec::new(),
            })
            .collect();
        let mut recorder = Recorder { asked: asked.to_owned(), followed, names };
        recorder.look("", "", world);
        recorder
    }

    /// Looks at the world behind a pass.
    pub fn after(&mut self, pass: &'static Pass, world: &mut World) {
        self.look(pass.name, pass.stage.name(), world);
    }

    fn look(&mut self, pass: &'static str, stage: &'static str, world: &mut World) {
        let tables = Tables::of(world);
        let rows = Rows::of(world, &tables);
        for f in &mut self.followed {
            let now = rows.fields(&f.history.entity);
            let children = rows.children(&f.history.entity, &mut f.known);
            let (deed, fields) = match (&f.last, &now) {
                (None, None) => continue,
                (None, Some(new)) => {
                    let deed = if pass.is_empty() { Deed::Read } else { Deed::Made };
                    (deed, new.iter().map(|(n, v)| change(n, None, Some(v))).collect())
                }
                (Some(old), None) => {
                    (Deed::Gone, old.iter().map(|(n, v)| change(n, Some(v), None)).collect())
                }
                (Some(old), Some(new)) => (Deed::Changed, differences(old, new)),
            };
            let deed = match deed {
                Deed::Changed if fields.is_empty() && children.is_empty() => continue,
                Deed::Changed if fields.is_empty() => Deed::Lowered,
                deed => deed,
            };
            let position = rows.position(&f.history.entity);
            f.history.changes.push(Change { pass, stage, deed, fields, children, position });
            f.last = now;
        }
    }

    /// The histories of what was there at any time.
    pub fn finish(self) -> Result<History, Diagnostic> {
        let asked = self.asked;
        let found = self.followed.into_iter().map(|f| f.history).filter(|h| !h.changes.is_empty());
        let entities: Vec<EntityHistory> = found.collect();
        if !entities.is_empty() {
            return Ok(History { entities });
        }
        let near = nearest(asked.trim_start_matches('%'), self.names.iter().map(String::as_str));
        let help = match near.is_empty() {
            true => format!("{}; `--print-after all` of `compile` prints them", Entity::NOTATIONS),
            false => format!("did you mean {}?", near.join(", ")),
        };
        Err(Diagnostic::error(&CLI_ENTITY, format!("no pass of this compilation has made '{asked}'"))
            .help(help))
    }
}

fn change(field: &'static str, before: Option<&Value>, after: Option<&Value>) -> FieldChange {
    FieldChange { field, before: before.cloned(), after: after.cloned() }
}

/// Fields that are not the same on both sides, in the order of the new ones.
fn differences(old: &Fields, new: &Fields) -> Vec<FieldChange> {
    let of = |list: &Fields, name: &str| list.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    let dropped = old.iter().filter(|(n, _)| of(new, n).is_none());
    let both = new.iter().map(|(n, v)| (*n, of(old, n), Some(v.clone())));
    both.chain(dropped.map(|(n, v)| (*n, Some(v.clone()), None)))
        .filter(|(_, before, after)| before != after)
        .map(|(field, before, after)| FieldChange { field, before, after })
        .collect()
}

/// What provenance of records needs.
fn records_of(program: &Program, module: &HloModule, hlo: HloId) -> Vec<String> {
    let Some(name) = module.get(hlo).map(|i| i.name()) else { return Vec::new() };
    let index = program.provenance.names.iter().position(|n| n == name);
    let Some(index) = index.map(|k| k as u32) else { return Vec::new() };
    let mut out = Vec::new();
    for (engine, list) in murre_components::engine::EngineId::STREAMS.iter().zip(&program.provenance.streams)
    {
        let hits = list.iter().enumerate().filter(|(_, k)| **k == index);
        out.extend(hits.map(|(n, _)| format!("{} record {n}", engine.name())));
    }
    let descriptors = program.provenance.descriptors.iter().enumerate().filter(|(_, k)| **k == index);
    out.extend(descriptors.map(|(n, _)| format!("descriptor record {n}")));
    out
}

#[cfg(test)]
mod tests;
