//! What became of the dynamic dimensions of a module. In: the rows that stage `dynamic_shape` recorded. Out: text and JSON.

use murre_systems::dynamic_shape::story::ShapeStory;
use serde_json::{Value, json};

/// The story as text: a value a line, its dimensions below.
pub fn shapes_text(story: &ShapeStory) -> String {
    if story.0.is_empty() {
        return "no dimension of this module has a run-time extent\n".to_owned();
    }
    let (mut out, mut last) = (String::new(), "");
    for d in &story.0 {
        if d.instruction != last {
            out += &format!("{} = {} {}\n", d.instruction, d.shape, d.op);
        }
        last = &d.instruction;
        let leaf = if d.shape.starts_with('(') { format!("leaf {} ", d.leaf) } else { String::new() };
        out += &format!("  {leaf}dimension {} of at most {}: size {}\n", d.dimension, d.bound, d.size);
        for padded in &d.padded {
            out += &format!("    padded for {padded}\n");
        }
    }
    out
}

/// The same as JSON.
pub fn shapes_json(story: &ShapeStory) -> Value {
    let row = |d: &murre_systems::dynamic_shape::story::DynamicDimension| {
        json!({
            "instruction": d.instruction, "op": d.op, "shape": d.shape, "leaf": d.leaf, "dimension": d.dimension,
            "bound": d.bound, "size": d.size, "padded": d.padded,
        })
    };
    story.0.iter().map(row).collect()
}
