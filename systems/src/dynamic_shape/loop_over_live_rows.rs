//! `loop_over_live_rows`: work on many rows of which a run-time size says how many are live becomes a loop that takes some
//! rows a trip and ends behind the last live one. Its trips are `ceil(size / rows)`, its memory is the bound's.
//!
//! In: the module at its bounds, [`Rows`] and the story. Out: the module with counted loops; rows that no trip computes are
//! zero, and are read by nobody. Facts: `spec/dynamic_shapes.md 1`, `spec/ir.md 3.4`, decision D5.
//!
//! ```text
//! y = f32[4096,64] dot(x, w)    s = f32[64] reduce(select(live, y, 0), 0), dimensions={0}
//! ->  while (i < n) { x_i = dynamic-slice(x, i) ; y_i = dot(x_i, w) ; y[i..] = y_i ; s += reduce(select(live_i, y_i, 0)) ; i += 256 }
//! ```

use super::padding::zero;
use super::row_forms::{Role, fold, on_rows, roles};
use super::row_groups::{Group, Plan, Rows, Step, made_anew, plan};
use super::story::ShapeStory;
use crate::legalize::build::{Build, computation};
use crate::legalize::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{ArrayShape, Attrs, Direction, Draft, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn loop_over_live_rows(world: &mut World) {
    let Some(rows) = world.remove_resource::<Rows>() else { return };
    let Some(module) = world.get_resource::<HloModule>() else { return };
    let made = made_anew(module);
    let plans: Vec<Option<Plan>> =
        (0..module.computations.len()).map(|c| plan(module, CompId::new(c), &rows, &made)).collect();
    if plans.iter().all(Option::is_none) {
        return;
    }
    let (module, loops) = rewritten(module, &plans, &made);
    if let Some(mut story) = world.get_resource_mut::<ShapeStory>() {
        for (value, name, tile) in loops {
            for row in rows.live.iter().filter(|l| l.value == value).filter_map(|l| l.row) {
                if let Some(d) = story.rows.get_mut(row) {
                    d.trips.push(format!("{name}, {tile} rows a trip"));
                }
            }
        }
    }
    world.insert_resource(crate::simplify::eliminate_dead_code::prune(&module));
}

/// A loop's values in the order of its tuple, behind counter and size.
#[derive(Default)]
struct Carry {
    /// Members that are seen outside.
    results: Vec<HloId>,
    /// Folds.
    folds: Vec<HloId>,
    /// What is read row by row.
    inputs: Vec<HloId>,
    /// What is read whole.
    wholes: Vec<HloId>,
}

impl Carry {
    fn of(old: &HloModule, group: &Group, seen: &SeededMap<HloId, ()>, made: &[bool]) -> Carry {
        let mut carry = Carry::default();
        for m in &group.members {
            match fold(old, old.inst(*m)).is_some() && roles(old, old.inst(*m)).is_none() {
                true => carry.folds.push(*m),
                false if seen.contains_key(m) => carry.results.push(*m),
                false => {}
            }
            carry.needs(old, group, *m, made);
        }
        carry
    }

    /// What an instruction reads that is not of the loop.
    fn needs(&mut self, old: &HloModule, group: &Group, id: HloId, made: &[bool]) {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let inst = old.inst(id);
            for (o, role) in inst.operands().iter().zip(reading(old, id)) {
                let list = match role {
                    Role::Rows if group.members.binary_search(o).is_ok() => continue,
                    Role::Rows if made[o.index()] => {
                        pending.push(*o);
                        continue;
                    }
                    Role::Rows => &mut self.inputs,
                    Role::Whole if old.inst(*o).op == HloOp::Constant => continue,
                    Role::Whole => &mut self.wholes,
                };
                if !list.contains(o) {
                    list.push(*o);
                }
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = HloId> + '_ {
        [&self.results, &self.folds, &self.inputs, &self.wholes].into_iter().flatten().copied()
    }

    fn shape(&self, old: &HloModule) -> Shape {
        let size = Shape::Array(ArrayShape::new(HloType::S32, []));
        let parts = self.all().map(|id| old.inst(id).shape().clone());
        Shape::Tuple([size.clone(), size].into_iter().chain(parts).collect())
    }
}

fn reading(old: &HloModule, id: HloId) -> Vec<Role> {
    let inst = old.inst(id);
    roles(old, inst).or_else(|| fold(old, inst).map(|f| f.roles)).unwrap_or_default()
}

/// The module with its loops, and for every value that a loop makes or takes: the value, the loop, rows of a trip.
fn rewritten(
    old: &HloModule,
    plans: &[Option<Plan>],
    made: &[bool],
) -> (HloModule, Vec<(HloId, String, i64)>) {
    let mut out = Rebuild::new(old);
    let mut told = Vec::new();
    for (c, plan) in plans.iter().enumerate() {
        let comp = old.comp(CompId::new(c));
        let Some(plan) = plan else {
            for id in comp.instructions.iter() {
                out.copy(old, id);
            }
            let root = out.moved[comp.root.index()];
            out.finish(old, CompId::new(c), root);
            continue;
        };
        let seen = seen(old, CompId::new(c), plan);
        let mut loops = Vec::with_capacity(plan.groups.len());
        for group in &plan.groups {
            loops.push((group.tile > 0).then(|| written(old, &mut out, &seen, group, made)));
        }
        for step in &plan.steps {
            let number = match step {
                Step::Inst(id) => {
                    out.copy(old, *id);
                    continue;
                }
                Step::Group(number) => *number,
            };
            let group = &plan.groups[number];
            let Some((carry, body, condition)) = &loops[number] else {
                for m in &group.members {
                    out.copy(old, *m);
                }
                continue;
            };
            let name = run(old, &mut out, group, carry, [*body, *condition]);
            let values = group.members.iter().chain(&carry.inputs);
            told.extend(values.map(|v| (*v, name.clone(), group.tile)));
        }
        let root = out.moved[comp.root.index()];
        out.finish(old, CompId::new(c), root);
    }
    (out.module, told)
}

/// Which instructions of a computation are seen outside their group.
fn seen(old: &HloModule, c: CompId, plan: &Plan) -> SeededMap<HloId, ()> {
    let mut group_of: SeededMap<HloId, usize> = seeded_map();
    for (number, group) in plan.groups.iter().enumerate() {
        group_of.extend(group.members.iter().map(|m| (*m, number)));
    }
    let comp = old.comp(c);
    let mut seen = seeded_map();
    seen.insert(comp.root, ());
    for id in comp.instructions.iter() {
        let mine = group_of.get(&id);
        let reading = if mine.is_some() { reading(old, id) } else { Vec::new() };
        for (k, o) in old.inst(id).operands().iter().enumerate() {
            if reading.get(k) != Some(&Role::Rows) || group_of.get(o) != mine {
                seen.insert(*o, ());
            }
        }
    }
    seen
}

/// Writes body and condition of a group's loop.
fn written(
    old: &HloModule,
    out: &mut Rebuild,
    seen: &SeededMap<HloId, ()>,
    group: &Group,
    made: &[bool],
) -> (Carry, CompId, CompId) {
    let carry = Carry::of(old, group, seen, made);
    let like = old.inst(group.members[0]);
    let shape = [carry.shape(old)];
    let name = |what: &str| format!("{}.rows.{what}", like.name());
    let condition = computation(out, &name("condition"), &shape, like, |b, p| {
        let (i, n) = (b.element(p[0], 0), b.element(p[0], 1));
        b.compare(Direction::Lt, i, n)
    });
    let body = computation(out, &name("body"), &shape, like, |b, p| {
        Body::new(old, b, group, made, &carry, p[0]).write(&carry)
    });
    (carry, body, condition)
}

/// A body under construction.
struct Body<'a, 'm, 'r> {
    old: &'m HloModule,
    b: &'a mut Build<'r>,
    group: &'a Group,
    made: &'a [bool],
    /// Elements of the tuple.
    elements: Vec<HloId>,
    /// The first row of the trip.
    start: HloId,
    /// Rows of the trip, by old value.
    rows: SeededMap<HloId, HloId>,
    /// Whole values, by old value.
    whole: SeededMap<HloId, HloId>,
}

impl<'a, 'm, 'r> Body<'a, 'm, 'r> {
    fn new(
        old: &'m HloModule,
        b: &'a mut Build<'r>,
        group: &'a Group,
        made: &'a [bool],
        carry: &Carry,
        tuple: HloId,
    ) -> Self {
        let count = 2 + carry.all().count();
        let elements: Vec<HloId> = (0..count).map(|k| b.element(tuple, k)).collect();
        let (bound, tile) = (group.key.1, group.tile);
        let start = match bound % tile {
            0 => elements[0],
            _ => b.with_int(HloOp::Minimum, elements[0], bound - tile),
        };
        let mut whole = seeded_map();
        let first = 2 + carry.results.len() + carry.folds.len() + carry.inputs.len();
        for (id, e) in carry.wholes.iter().zip(&elements[first..]) {
            whole.insert(*id, *e);
        }
        Body { old, b, group, made, elements, start, rows: seeded_map(), whole }
    }

    fn starts(&mut self, rank: usize) -> Vec<HloId> {
        let mut starts = vec![self.start];
        starts.extend((1..rank).map(|_| self.b.integer(HloType::S32, 0)));
        starts
    }

    fn write(mut self, carry: &Carry) -> HloId {
        let tile = self.group.tile;
        let inputs = 2 + carry.results.len() + carry.folds.len();
        for (k, id) in carry.inputs.iter().enumerate() {
            let x = self.elements[inputs + k];
            let (ty, mut dims) = (self.b.ty(x), self.b.dims(x));
            dims[0] = tile;
            let operands: Vec<HloId> = std::iter::once(x).chain(self.starts(dims.len())).collect();
            let attrs = Attrs::DynamicSlice { sizes: dims.clone() };
            let part = self.b.op(HloOp::DynamicSlice, ty, &dims, &operands, attrs);
            self.rows.insert(*id, part);
        }
        let mut folded = seeded_map();
        for m in &self.group.members {
            let inst = self.old.inst(*m);
            if carry.folds.contains(m) {
                let part = self.copied(*m, None);
                folded.insert(*m, part);
            } else if let Some(on_rows) = on_rows(inst, tile) {
                let part = self.copied(*m, Some(on_rows));
                self.rows.insert(*m, part);
            }
        }
        let mut next = vec![self.b.with_int(HloOp::Add, self.elements[0], tile), self.elements[1]];
        for (k, id) in carry.results.iter().enumerate() {
            let home = self.elements[2 + k];
            let (ty, dims) = (self.b.ty(home), self.b.dims(home));
            let part = self.rows.get(id).copied().unwrap_or(home);
            let operands: Vec<HloId> = [home, part].into_iter().chain(self.starts(dims.len())).collect();
            next.push(self.b.op(HloOp::DynamicUpdateSlice, ty, &dims, &operands, Attrs::None));
        }
        for (k, id) in carry.folds.iter().enumerate() {
            let sum = self.elements[2 + carry.results.len() + k];
            let join = fold(self.old, self.old.inst(*id)).map_or(HloOp::Add, |f| f.join);
            let part = folded.get(id).copied().unwrap_or(sum);
            next.push(self.b.binary(join, sum, part));
        }
        next.extend_from_slice(&self.elements[inputs..]);
        self.b.tuple(&next)
    }

    /// The instruction on the rows of the trip.
    fn copied(&mut self, id: HloId, form: Option<(ArrayShape, Attrs)>) -> HloId {
        let inst = self.old.inst(id);
        let roles = reading(self.old, id);
        let mut operands = Vec::with_capacity(roles.len());
        for (o, role) in inst.operands().iter().zip(roles) {
            operands.push(match role {
                Role::Rows => self.part(*o),
                Role::Whole => self.all_of(*o),
            });
        }
        let called: Vec<CompId> = inst.called().iter().map(|c| self.b.out.computations[c.index()]).collect();
        let name = format!("{}.rows", inst.name());
        let draft = Draft { name: &name, operands: &operands, called: &called, ..inst.draft() };
        match form {
            None => self.b.out.push(draft),
            Some((shape, attrs)) => {
                let shape = self.b.out.module.intern_shape(Shape::Array(shape));
                let attrs = self.b.out.module.intern_attrs(attrs);
                self.b.out.push(Draft { shape, attrs, ..draft })
            }
        }
    }

    /// The rows of a value: computed or sliced already, or made anew.
    fn part(&mut self, id: HloId) -> HloId {
        if let Some(known) = self.rows.get(&id) {
            return *known;
        }
        let inst = self.old.inst(id);
        let tile = self.group.tile;
        let part = match (inst.op, inst.attrs(), on_rows(inst, tile)) {
            (HloOp::Iota, Attrs::Iota { dimension: 0 }, Some((shape, _))) => {
                let count = self.b.iota(shape.ty, &shape.dims, 0);
                let first = self.b.convert(self.start, shape.ty);
                let first = self.b.spread(first, &shape.dims);
                self.b.binary(HloOp::Add, count, first)
            }
            (HloOp::Iota, Attrs::Iota { dimension }, Some((shape, _))) => {
                self.b.iota(shape.ty, &shape.dims, *dimension as usize)
            }
            (_, _, form) => {
                debug_assert!(self.made[id.index()]);
                self.copied(id, form)
            }
        };
        self.rows.insert(id, part);
        part
    }

    fn all_of(&mut self, id: HloId) -> HloId {
        if let Some(known) = self.whole.get(&id) {
            return *known;
        }
        // A constant is written again, so that it stays one.
        let inst = self.old.inst(id);
        let new = self.b.out.push(inst.draft());
        self.whole.insert(id, new);
        new
    }
}

/// Runs a group's loop; its name.
fn run(old: &HloModule, out: &mut Rebuild, group: &Group, carry: &Carry, called: [CompId; 2]) -> String {
    let like = old.inst(group.members[0]);
    let size = out.moved[group.key.0.index()];
    let moved = |out: &Rebuild, id: &HloId| out.moved[id.index()];
    let taken: Vec<HloId> = carry.inputs.iter().chain(&carry.wholes).map(|id| moved(out, id)).collect();
    let initial: Vec<Option<HloId>> = carry
        .folds
        .iter()
        .map(|id| fold(old, old.inst(*id)).and_then(|f| f.initial).map(|i| moved(out, &i)))
        .collect();
    let mut b = Build::new(out, like).tagged("rows");
    let live = b.with_int(HloOp::Minimum, size, group.key.1);
    let live = b.with_int(HloOp::Maximum, live, 0);
    let mut parts = vec![b.integer(HloType::S32, 0), live];
    let nothing = |b: &mut Build<'_>, id: &HloId, value: Option<HloId>| {
        let shape = old.inst(*id).shape().array().cloned().unwrap_or(ArrayShape::new(HloType::Pred, []));
        let value = match value {
            Some(value) => value,
            None => zero(b, shape.ty),
        };
        b.spread(value, &shape.dims)
    };
    for id in &carry.results {
        parts.push(nothing(&mut b, id, None));
    }
    for (id, value) in carry.folds.iter().zip(initial) {
        parts.push(nothing(&mut b, id, value));
    }
    parts.extend(taken);
    let tuple = b.tuple(&parts);
    let done = b.any(HloOp::While, carry.shape(old), &[tuple], &called, Attrs::None);
    let made: Vec<(HloId, HloId)> = carry
        .results
        .iter()
        .chain(&carry.folds)
        .enumerate()
        .map(|(k, id)| (*id, b.element(done, 2 + k)))
        .collect();
    let name = b.out.module.inst(done).name().to_owned();
    for (id, new) in made {
        out.moved[id.index()] = new;
    }
    name
}
