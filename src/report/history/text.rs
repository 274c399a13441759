//! A history as text: an entity a heading, a pass a block, a field a line.

use super::{Change, Children, Deed, EntityHistory, History};
use serde_json::{Value, json};

/// Rows that a block lists of one kind; the others are counted.
const LISTED: usize = 12;

impl History {
    /// Blocks of text.
    pub fn text(&self) -> String {
        self.entities.iter().map(entity).collect::<Vec<_>>().join("\n")
    }

    /// The same as JSON, with every row.
    pub fn json(&self) -> Value {
        json!(self)
    }
}

fn entity(h: &EntityHistory) -> String {
    let blocks: String = h.changes.iter().map(block).collect();
    format!("{} {}\n{blocks}", h.entity.kind(), h.entity.name())
}

fn block(c: &Change) -> String {
    let deed = match c.deed {
        Deed::Read => "as read".into(),
        Deed::Made => format!("made by {} ({})", c.pass, c.stage),
        Deed::Changed => format!("changed by {} ({})", c.pass, c.stage),
        Deed::Lowered => format!("lowered by {} ({})", c.pass, c.stage),
        Deed::Gone => format!("dropped by {} ({})", c.pass, c.stage),
    };
    let at = c.position.map_or(String::new(), |p| format!(", at position {p}"));
    let mut out = format!("\n{deed}{at}\n");
    let shown = c.fields.iter().filter(|f| c.deed == Deed::Changed || !is_empty(f.after.as_ref()));
    for f in shown.filter(|_| c.deed != Deed::Gone) {
        let after = value(f.after.as_ref());
        out += &match c.deed {
            Deed::Changed => format!("  {:<20} {} -> {after}\n", f.field, value(f.before.as_ref())),
            _ => format!("  {:<20} {after}\n", f.field),
        };
    }
    out + &c.children.iter().map(children).collect::<String>()
}

fn children(c: &Children) -> String {
    let listed: Vec<&str> = c.ids.iter().take(LISTED).map(String::as_str).collect();
    let more = c.ids.len() - listed.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("  {:<20} {}{more}\n", format!("{} {}", c.ids.len(), c.kind), listed.join(" "))
}

/// Whether a new entity's field says nothing yet.
fn is_empty(v: Option<&Value>) -> bool {
    match v {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.iter().all(|v| v.is_null() || v.as_u64() == Some(0)),
        _ => false,
    }
}

fn value(v: Option<&Value>) -> String {
    match v {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(s)) => s.clone(),
        Some(Value::Array(list)) => list.iter().map(|v| value(Some(v))).collect::<Vec<_>>().join(" "),
        Some(Value::Object(map)) => {
            let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}={}", value(Some(v)))).collect();
            format!("[{}]", parts.join(" "))
        }
        Some(other) => other.to_string(),
    }
}
