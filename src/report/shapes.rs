//! What became of the dynamic dimensions of a module. In: the rows that stage `dynamic_shape` recorded. Out: text and JSON.

use murre_systems::dynamic_shape::story::{DynamicDimension, RefusedShape, ShapeStory};
use serde_json::{Value, json};

/// The story as text: a value a line, its dimensions below, and what was refused at the end.
pub fn shapes_text(story: &ShapeStory) -> String {
    if story.rows.is_empty() && story.refused.is_empty() {
        return "no dimension of this module has a run-time extent\n".to_owned();
    }
    let (mut out, mut last) = (String::new(), "");
    for d in &story.rows {
        if d.instruction != last {
            out += &format!("{} = {} {}\n", d.instruction, d.shape, d.op);
        }
        last = &d.instruction;
        let leaf = if d.shape.starts_with('(') { format!("leaf {} ", d.leaf) } else { String::new() };
        out += &format!("  {leaf}dimension {} of at most {}: size {}\n", d.dimension, d.bound, d.size);
        for (what, notes) in
            [("rebuilt", &d.rebuilt), ("padded for", &d.padded), ("counts the trips of", &d.trips)]
        {
            notes.iter().for_each(|note| out += &format!("    {what} {note}\n"));
        }
    }
    for r in &story.refused {
        let dimension = r.dimension.map_or_else(String::new, |d| format!(", dimension {d}"));
        out += &format!("refused {}{dimension}: {}\n", r.instruction, r.reason);
    }
    out
}

/// The same as JSON.
pub fn shapes_json(story: &ShapeStory) -> Value {
    let row = |d: &DynamicDimension| {
        json!({
            "instruction": d.instruction, "op": d.op, "shape": d.shape, "leaf": d.leaf, "dimension": d.dimension,
            "bound": d.bound, "size": d.size, "padded": d.padded, "rebuilt": d.rebuilt, "trips": d.trips,
        })
    };
    let refused = |r: &RefusedShape| json!({ "instruction": r.instruction, "dimension": r.dimension, "refused": r.reason });
    story.rows.iter().map(row).chain(story.refused.iter().map(refused)).collect()
}
