//! The text of an [`Explanation`]: one page, stage by stage. Arithmetic that several engines run alike is shown for the
//! engine that steers an access, or for the first; the others are named.

use super::explain::{AccessStory, Explanation, ScalarRow, Step, Story};
use serde_json::{Value, json};

impl Explanation {
    /// A page of text.
    pub fn text(&self) -> String {
        match self {
            Explanation::Listing(rows) => listing(rows),
            Explanation::Story(story) => page(story),
        }
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        json!(self)
    }
}

/// The widest column of names.
const WIDEST_NAME: usize = 60;

fn listing(rows: &[ScalarRow]) -> String {
    if rows.is_empty() {
        return "no value of this module reaches a register\n".into();
    }
    // A name longer than any screen does not widen the column for the others.
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0).min(WIDEST_NAME);
    let line = |r: &ScalarRow| {
        format!(
            "{:width$}  {:<8} {:<22} {:>3} registers, {} accesses\n",
            r.name, r.shape, r.op, r.registers, r.accesses
        )
    };
    rows.iter().map(line).collect()
}

fn page(story: &Story) -> String {
    let mut out = format!("{} = {} {}", story.name, story.shape, story.op);
    if let Some(source) = &story.source {
        out += &format!("   ({source})");
    }
    out += "\n\nHLO uses\n";
    out += &lines(story.uses.iter().map(|u| u.to_string()));
    let engines = shown_engines(story);
    out += "\nPenguin nodes, on abstract registers of all engines\n";
    out += &lines(story.nodes.iter().cloned());
    out += "\ninto registers\n";
    out += &steps(&story.loads, &engines);
    out += "\nregister arithmetic: clamps, wraps, scaling\n";
    out += &steps(&story.arithmetic, &engines);
    out += "\nregisters (live ranges in program positions when they were coloured)\n";
    let registers = story.registers.iter().filter(|r| engines.contains(&r.engine));
    out += &lines(registers.map(|r| {
        let physical = r.physical.as_deref().unwrap_or("no physical register");
        let live = r.live.map_or("not live".into(), |(a, b)| format!("live {a}..{b}"));
        format!(
            "%r{:<4} {:<4} {physical:<8} {live:<14} {:<20} in {}..={}",
            r.register, r.engine, r.role, r.range.0, r.range.1
        )
    }));
    out += "\nmemory accesses that it steers\n";
    if story.accesses.is_empty() {
        out += "  none\n";
    }
    for access in &story.accesses {
        out += &access_text(access);
    }
    out += "\nbranches and other instructions that it decides\n";
    out += &steps(&story.control, &engines);
    out
}

fn lines(items: impl Iterator<Item = String>) -> String {
    let text: String = items.map(|i| format!("  {i}\n")).collect();
    if text.is_empty() { "  none\n".into() } else { text }
}

/// Engines of the accesses, or the first engine that has a step.
fn shown_engines(story: &Story) -> Vec<&'static str> {
    let mut engines: Vec<&'static str> = Vec::new();
    for access in &story.accesses {
        if !engines.contains(&access.step.engine) {
            engines.push(access.step.engine);
        }
    }
    if engines.is_empty() {
        engines.extend(story.loads.iter().chain(&story.arithmetic).map(|s| s.engine).next());
    }
    engines
}

fn steps(all: &[Step], engines: &[&'static str]) -> String {
    let (shown, other): (Vec<&Step>, Vec<&Step>) = all.iter().partition(|s| engines.contains(&s.engine));
    let (shown, other) = if shown.is_empty() { (other, shown) } else { (shown, other) };
    let mut out = lines(shown.iter().map(|s| {
        let serves = s.serves.as_ref().map_or(String::new(), |h| format!("   // {h}"));
        format!("@{:<5} {}{serves}", s.position, s.text)
    }));
    let mut names: Vec<&str> = other.iter().map(|s| s.engine).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        out += &format!("  and {} more on {}\n", other.len(), names.join(", "));
    }
    out
}

fn access_text(access: &AccessStory) -> String {
    let step = &access.step;
    let serves = step.serves.as_ref().map_or(String::new(), |h| format!("   // {h}"));
    let mut out = format!("  @{:<5} {}{serves}\n", step.position, step.text);
    if let Some(route) = access.route {
        let reason = access.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
        out += &format!("    route  {route}{reason}\n");
    }
    if let Some(reason) = &access.engine_reason {
        out += &format!("    engine {}: {reason}\n", step.engine);
    }
    if let Some(queue) = &access.queue {
        let reason = access.queue_reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
        out += &format!("    queue  {queue}{reason}\n");
    }
    if let Some(record) = &access.record {
        out += &format!("    bytes  {record}\n");
    }
    for (side, word) in &access.words {
        out += &format!("    {side}\n");
        out += &word.text().lines().map(|l| format!("      {l}\n")).collect::<String>();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(engine: &'static str) -> Step {
        Step { position: 3, instruction: 9, engine, text: format!("{engine} RegisterAlu"), serves: None }
    }

    #[test]
    fn steps_of_other_engines_are_counted() {
        let all = [step("act"), step("pool"), step("sp")];
        let text = steps(&all, &["pool"]);
        assert_eq!(text, "  @3     pool RegisterAlu\n  and 2 more on act, sp\n");
        assert_eq!(steps(&[], &["pool"]), "  none\n");
    }

    #[test]
    fn a_name_of_any_length_is_listed() {
        let row = |name: String| ScalarRow {
            name,
            op: "parameter",
            shape: "s32[]".into(),
            registers: 1,
            accesses: 2,
        };
        let text = listing(&[row("p".repeat(100_000)), row("q".into())]);
        assert!(text.lines().nth(1).is_some_and(|l| l.len() < 150), "{}", text.len());
    }
}
