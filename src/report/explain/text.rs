//! The text of an [`Explanation`]: one page, stage by stage. Arithmetic that several engines run alike is shown for the
//! engine that steers an access, or for the first; the others are named. Values of a run stand at the right.

use super::{
    AccessStory, Explanation, Holder, Home, Index, LoopStory, Operand, Place, Queue, ScalarRow, Step, Story,
    Symbolic, TripBound, Values, Why,
};
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
    out += &format!("\n  {}\n", holder(&story.holder));
    out += "\nHLO uses\n";
    out += &lines(story.uses.iter().map(|u| {
        let line = u.line.map_or(String::new(), |l| format!("  line {l}"));
        let source = u.source.as_ref().map_or(String::new(), |s| format!("  {s}"));
        format!("{:<28} {:<22} operand {}: {}{line}{source}", u.user, u.op, u.operand, u.role)
    }));
    let engines = shown_engines(story);
    let vector = matches!(story.holder, Holder::Vector { .. });
    out +=
        if vector { "\nPenguin nodes\n" } else { "\nPenguin nodes, on abstract registers of all engines\n" };
    for node in &story.nodes {
        out += &format!("  {}\n", node.text);
        if let Some(right) = &node.right {
            out += &format!("         = {right}\n");
        }
    }
    if !vector {
        out += "\ninto registers\n";
        out += &steps(&story.loads, &engines);
    }
    out += if vector { "\nfrom it to the offsets\n" } else { "\nregister arithmetic\n" };
    out += &steps(&story.arithmetic, &engines);
    if !vector {
        out += "\nregisters (live ranges in program positions when they were coloured)\n";
        let registers = story.registers.iter().filter(|r| engines.contains(&r.engine));
        out += &lines(registers.map(|r| {
            let physical = match (r.colour, r.width) {
                (None, _) => "no physical register".into(),
                (Some(c), 2) => format!("r{c}+r{}", u32::from(c) + 1),
                (Some(c), _) => format!("r{c}"),
            };
            let live = r.live.map_or("not live".into(), |(a, b)| format!("live {a}..{b}"));
            format!(
                "%r{:<4} {:<4} {physical:<8} {live:<14} {:<20} in {}..={}",
                r.register, r.engine, r.role, r.range.0, r.range.1
            )
        }));
    }
    out += "\nmemory accesses that it steers\n";
    if story.accesses.is_empty() {
        out += "  none\n";
    }
    for access in &story.accesses {
        out += &access_text(access);
    }
    for story in &story.loops {
        out += &loop_text(story);
    }
    out += "\nbranches and other instructions that read it\n";
    out += &steps(&story.control, &engines);
    if !story.simulated {
        out +=
            "\nWith --inputs DIR (input_0.npy ...) or an .npz the values of a run stand beside each line.\n";
    }
    out
}

fn holder(holder: &Holder) -> String {
    match holder {
        Holder::Memory { home, input: Some(k) } => format!("input {k}, read from {}", home.text()),
        Holder::Memory { home, input: None } => format!("read from {}", home.text()),
        Holder::Registers => "computed in registers".into(),
        Holder::LoopCarried { r#while, leaf } => {
            format!("leaf {leaf} of what {} carries, in a register", r#while)
        }
        Holder::Vector { elements } => format!("a vector of {elements} offsets on chip"),
    }
}

impl Home {
    /// `dram3(x) (input, variable 0, 64 bytes)`.
    pub fn text(&self) -> String {
        let place = match (self.address, self.space) {
            (None, _) => "no place".into(),
            (Some(at), "dram") => format!("variable {at}"),
            (Some(at), "psum") => format!("bank {} of {} partitions", at / 2048, self.partitions),
            (Some(at), _) => format!("byte {at:#x} of {} partitions", self.partitions),
        };
        let each = if self.space == "dram" { "" } else { " each" };
        format!("{} ({}, {place}, {} bytes{each})", self.name, self.kind, self.bytes)
    }
}

fn colour(register: u32, colour: Option<u8>) -> String {
    colour.map_or(format!("%r{register}"), |c| format!("%r{register}:r{c}"))
}

fn operand(o: &Operand) -> String {
    match *o {
        Operand::Register { register, colour: c } => colour(register, c),
        Operand::Immediate { value } => value.to_string(),
    }
}

fn trip_bound(b: &TripBound) -> String {
    match b {
        TripBound::Condition => "a condition of any kind: nothing bounds the trips".into(),
        TripBound::Constant => "constants".into(),
        TripBound::Range { register, value, low, high, by_type } => {
            let name = value.as_deref().unwrap_or("the limit");
            let only = if *by_type { ", which is all that its type can hold" } else { "" };
            format!("%r{register} ({name}) is proved to be in {low}..={high}{only}")
        }
    }
}

fn lines(items: impl Iterator<Item = String>) -> String {
    let text: String = items.map(|i| format!("  {i}\n")).collect();
    if text.is_empty() { "  none\n".into() } else { text }
}

/// Engines of the accesses, or the first engine that has a step.
fn shown_engines(story: &Story) -> Vec<&'static str> {
    let mut engines: Vec<&'static str> = Vec::new();
    let vector = matches!(story.holder, Holder::Vector { .. });
    let chain = story.arithmetic.iter().filter(|_| vector);
    for step in story.accesses.iter().map(|a| &a.step).chain(chain) {
        if !engines.contains(&step.engine) {
            engines.push(step.engine);
        }
    }
    if engines.is_empty() {
        engines.extend(story.loads.iter().chain(&story.arithmetic).map(|s| s.engine).next());
    }
    engines
}

/// ` = 3`, ` = 3, 4, 5 ... 9 (7 runs)`.
fn seen(values: &Values) -> String {
    let number = |v: &Option<i64>| v.map_or("?".into(), |v| v.to_string());
    let mut out: Vec<String> = values.first.iter().map(number).collect();
    out.dedup();
    let mut out = out.join(", ");
    if values.runs > values.first.len() as u64 {
        out += &format!(" ... {}", number(&values.last));
    }
    match values.runs {
        0 => "   = not reached".into(),
        1 => format!("   = {out}"),
        n => format!("   = {out} ({n} runs)"),
    }
}

fn steps(all: &[Step], engines: &[&'static str]) -> String {
    let (shown, other): (Vec<&Step>, Vec<&Step>) = all.iter().partition(|s| engines.contains(&s.engine));
    let (shown, other) = if shown.is_empty() { (other, shown) } else { (shown, other) };
    let mut out = lines(shown.iter().map(|s| {
        let serves = s.serves.as_ref().map_or(String::new(), |h| format!("  ({h})"));
        let why = match s.why {
            Why::Load | Why::Branch => String::new(),
            why => format!("   // {}{serves}", why.text()),
        };
        let record = s.record.map_or(String::new(), |r| format!(" record {r}"));
        let seen = s.values.as_ref().map_or(String::new(), seen);
        format!("@{:<5}{record:<11} {}{seen}{why}", s.position, s.text)
    }));
    let mut names: Vec<&str> = other.iter().map(|s| s.engine).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        out += &format!("  and {} more on {}\n", other.len(), names.join(", "));
    }
    out
}

/// `32*%r7 (pos.1) + 64`.
fn symbolic(s: &Symbolic) -> String {
    let mut parts: Vec<String> = s
        .terms
        .iter()
        .map(|t| {
            let value = t.value.as_ref().map_or(String::new(), |v| format!(" ({v})"));
            let index = match t.index {
                Index::Register { register, colour: c } => colour(register, c),
                Index::Axis { axis } => format!("i{axis}"),
                Index::Row { location } => format!("offset of the row in sbuf{location}"),
            };
            if t.coef == 1 { format!("{index}{value}") } else { format!("{}*{index}{value}", t.coef) }
        })
        .collect();
    if s.constant != 0 || parts.is_empty() {
        parts.push(s.constant.to_string());
    }
    parts.join(" + ")
}

fn place(p: &Place) -> String {
    match (p.variable, p.partition) {
        (Some(var), _) => format!("byte {} of variable {var}", p.byte),
        (None, Some(partition)) => format!("SBUF partition {partition}, byte {:#x}", p.byte),
        (None, None) => format!("byte {}", p.byte),
    }
}

fn access_text(access: &AccessStory) -> String {
    let step = &access.step;
    let serves = step.serves.as_ref().map_or(String::new(), |h| format!("   // {h}"));
    let mut out = format!("  @{:<5} {}{serves}\n", step.position, step.text);
    let mut row = |name: &str, what: String| out += &format!("    {name:<9}{what}\n");
    if let Some(home) = &access.home {
        row("memory", home.text());
    }
    if let Some(s) = &access.symbolic {
        let below = s.below.map_or(String::new(), |b| format!(", index below {b}"));
        row("address", format!("{} {}{below}", symbolic(s), s.unit));
    }
    if let Some(route) = access.route {
        let reason = access.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
        row("route", format!("{route}{reason}"));
    }
    for other in &access.others {
        row("", format!("not {}: {}", other.route, other.why_not));
    }
    if let Some(reason) = &access.engine_reason {
        row("engine", format!("{}: {reason}", step.engine));
    }
    if let Some(queue) = &access.queue {
        let Queue { number, kind, engine } = queue;
        let reason = access.queue_reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
        row("queue", format!("{number} ({kind}) of {engine}{reason}"));
    }
    if let Some(first) = access.records.first() {
        let with = access.records.get(1).map_or(String::new(), |x| format!(" with its extension {x}"));
        row("record", format!("{first} of stream {}{with}", step.engine));
    }
    if let Some(b) = &access.bound {
        let colour = b.colour.map_or("-".into(), |c| format!("r{c}"));
        row("bound", format!("%r{} in {colour}: {} bytes, the size of the variable", b.register, b.bytes));
    }
    if let Some((entry, var, displacement)) = access.table {
        row("table", format!("entry {entry}: variable {var} + {displacement}"));
    }
    if let Some(runs) = access.runs {
        let places: Vec<String> =
            access.places.iter().map(|p| format!("{} -> {}", p.offset, place(p))).collect();
        match (places.is_empty(), access.offsets.is_empty()) {
            (false, _) => row("run", format!("{}; {runs} in all", places.join("; "))),
            (true, false) => row("run", format!("offsets {:?}; {runs} in all", access.offsets)),
            (true, true) => row("run", format!("{runs} in all")),
        }
    }
    for (side, word) in &access.words {
        out += &format!("    {side}\n");
        out += &word.text().lines().map(|l| format!("      {l}\n")).collect::<String>();
    }
    out
}

fn loop_text(l: &LoopStory) -> String {
    let name = l.r#while.as_deref().unwrap_or("-");
    let part = if l.counter { "its counter" } else { "its trip count" };
    let mut out = format!("\ntrip count: axis i{} of {name}, {part} is this value\n", l.axis);
    let mut row = |name: &str, what: String| out += &format!("    {name:<9}{what}\n");
    let parent = l.parent.map_or("outermost".into(), |p| format!("inside i{p}"));
    let signed = if l.unsigned { "compared unsigned" } else { "compared signed" };
    row("kind", format!("{}, {parent}, {signed}", l.kind));
    if let (Some(lower), Some(upper), Some(step)) = (l.lower, &l.upper, l.step) {
        row("bounds", format!("{lower} up to {}, step {step}", symbolic(upper)));
    }
    row("at most", format!("{} trips: {}", l.max_tripcount, trip_bound(&l.bound)));
    for e in &l.engines {
        let reg = |id: Option<u32>, colour: Option<u8>| match (id, colour) {
            (Some(id), Some(c)) => format!("%r{id} in r{c}"),
            (Some(id), None) => format!("%r{id}"),
            (None, _) => "-".into(),
        };
        let seen = e.values.as_ref().map_or(String::new(), seen);
        let (counter, limit) = (reg(e.counter, e.counter_colour), reg(e.limit, e.limit_colour));
        row(e.engine, format!("counter {counter}, limit {limit}{seen}"));
    }
    for b in &l.branches {
        let number = |n: Option<u32>| n.map_or("-".into(), |n| n.to_string());
        let way = if b.back { "again" } else { "past the loop" };
        row(
            "branch",
            format!(
                "@{} {} record {}: if {} {} {} go to record {}, {way}",
                b.position,
                b.engine,
                number(b.record),
                operand(&b.left),
                b.comparison,
                operand(&b.right),
                number(b.target)
            ),
        );
    }
    if let Some(trips) = l.trips {
        row("run", format!("{trips} trips in all"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(engine: &'static str) -> Step {
        Step {
            position: 3,
            instruction: 9,
            engine,
            opcode: "RegisterAlu",
            why: Why::UpperClamp,
            text: format!("{engine} RegisterAlu"),
            serves: None,
            record: Some(4),
            values: Some(Values { runs: 5, first: vec![Some(1), Some(2), None], last: Some(-7) }),
            unsigned: false,
            watched: Vec::new(),
        }
    }

    #[test]
    fn steps_of_other_engines_are_counted() {
        let all = [step("act"), step("pool"), step("sp")];
        let text = steps(&all, &["pool"]);
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("  @3     record 4   pool RegisterAlu   = 1, 2, ? ... -7 (5 runs)"),
            "{text}"
        );
        assert!(first.ends_with(Why::UpperClamp.text()), "{text}");
        assert!(text.ends_with("  and 2 more on act, sp\n"), "{text}");
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
