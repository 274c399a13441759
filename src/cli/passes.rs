//! `murre passes`: the pass table as text, JSON or a Graphviz graph: sets, what each system reads and writes, and what
//! keeps the passes of a stage from running side by side. Everything comes from the systems' own parameters.

use super::console::Console;
use super::{Exit, Outcome};
use murre::systems::access::{AccessTable, Conflict, PassAccess};
use murre::systems::order::{PassOrder, edges, waits};
use murre::systems::{Stage, passes};
use serde_json::{Value, json};
use std::fmt::Write;

/// Arguments of `passes`.
#[derive(clap::Args)]
pub struct Args {
    /// Print a Graphviz graph
    #[arg(long, conflicts_with = "json")]
    dot: bool,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    if console.json {
        console.value(&value());
    } else if args.dot {
        console.out(&graph());
    } else {
        console.out(&listing());
    }
    Ok(Exit::Fine)
}

/// Every pass with its accesses, and every pair of passes of a stage.
fn value() -> Value {
    let table = AccessTable::get();
    let free = edges(&Stage::ALL, PassOrder::Free);
    let name = |row: u16| table.rows.get(row as usize).map_or("", |r| r.pass.name);
    let rows: Vec<Value> = table
        .rows
        .iter()
        .enumerate()
        .map(|(row, access)| {
            let pass = access.pass;
            let after: Vec<&str> = free.iter().filter(|e| e.1 as usize == row).map(|e| name(e.0)).collect();
            json!({
                "name": pass.name, "stage": pass.stage.name(), "set": pass.stage.name(), "row": row,
                "about": pass.about, "spec": pass.spec, "verify": pass.verify,
                "exclusive": access.exclusive, "commands": access.deferred,
                "reads": access.reads.iter().map(|t| &t.name).collect::<Vec<_>>(),
                "writes": access.writes.iter().map(|t| &t.name).collect::<Vec<_>>(),
                "waits_for": after,
            })
        })
        .collect();
    let pairs: Vec<Value> = pairs(table)
        .map(|(a, b)| {
            let (passes, conflict) = ([name(a), name(b)], table.conflict(a as usize, b as usize));
            match conflict {
                Conflict::None if waits(a, b) => {
                    json!({ "passes": passes, "conflict": "a check waits for what it checks" })
                }
                Conflict::None => json!({ "passes": passes, "conflict": null }),
                Conflict::World => json!({ "passes": passes, "conflict": "world" }),
                Conflict::Over(names) => json!({ "passes": passes, "conflict": names }),
            }
        })
        .collect();
    json!({ "passes": rows, "pairs": pairs })
}

/// Pairs of passes of one stage, in table order.
fn pairs(table: &'static AccessTable) -> impl Iterator<Item = (u16, u16)> {
    Stage::ALL.into_iter().flat_map(|stage| {
        let rows: Vec<u16> = table.stage(stage).map(|r| r as u16).collect();
        (0..rows.len())
            .flat_map(|a| (a + 1..rows.len()).map(move |b| (a, b)))
            .map(|(a, b)| (rows[a], rows[b]))
            .collect::<Vec<_>>()
    })
}

fn listing() -> String {
    let mut out = String::new();
    let width = passes().map(|p| p.name.len()).max().unwrap_or(0);
    for stage in Stage::ALL {
        out += &format!("{}\n", stage.name());
        for p in passes().filter(|p| p.stage == stage) {
            let note = if p.verify { " [--verify]" } else { "" };
            out += &format!("  {:width$}  {}{note}\n", p.name, p.about);
        }
    }
    out
}

/// What a node shows below its name.
fn accesses(access: &PassAccess) -> String {
    let names = |touched: &[murre::systems::access::Touched]| {
        touched.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    if access.exclusive {
        return "the whole world".to_string();
    }
    let commands = if access.deferred { "\\lcommands" } else { "" };
    format!("reads {}\\lwrites {}{commands}\\l", names(&access.reads), names(&access.writes))
}

/// A box a stage and a node a pass. An arrow means that a pass waits for another, and says over what; stages follow
/// each other along the thick arrows.
fn graph() -> String {
    let table = AccessTable::get();
    let mut out = String::from(
        "digraph passes {\n  rankdir=LR;\n  compound=true;\n  node [shape=box, fontname=monospace];\n",
    );
    for stage in Stage::ALL {
        let _ = writeln!(out, "  subgraph cluster_{0} {{\n    label=\"{0}\";", stage.name());
        for access in table.rows.iter().filter(|r| r.pass.stage == stage) {
            let style = if access.pass.verify { ", style=dashed" } else { "" };
            let _ =
                writeln!(out, "    {0} [label=\"{0}\\n{1}\"{style}];", access.pass.name, accesses(access));
        }
        out.push_str("  }\n");
    }
    let name = |row: u16| table.rows.get(row as usize).map_or("", |r| r.pass.name);
    for (a, b) in edges(&Stage::ALL, PassOrder::Free) {
        let over = match table.conflict(a as usize, b as usize) {
            Conflict::None => "check".to_string(),
            Conflict::World => "world".to_string(),
            Conflict::Over(names) => names.join(" "),
        };
        let _ = writeln!(out, "  {} -> {} [label=\"{over}\"];", name(a), name(b));
    }
    for pair in Stage::ALL.windows(2) {
        let (last, first) = (table.stage(pair[0]).last(), table.stage(pair[1]).next());
        if let (Some(last), Some(first)) = (last, first) {
            let _ = writeln!(
                out,
                "  {} -> {} [ltail=cluster_{}, lhead=cluster_{}, penwidth=3];",
                name(last as u16),
                name(first as u16),
                pair[0].name(),
                pair[1].name()
            );
        }
    }
    out + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_names_every_pass_and_its_tables() {
        let graph = graph();
        for p in passes() {
            assert!(graph.contains(&format!("    {} [label=", p.name)), "{}", p.name);
        }
        assert!(graph.contains("color_psum -> color_sbuf [label=\"LocPlace"), "{graph}");
        assert!(graph.contains("[ltail=cluster_place, lhead=cluster_address"));
    }

    #[test]
    fn every_pass_is_listed_once() {
        let text = listing();
        for p in passes() {
            assert_eq!(text.matches(&format!("  {} ", p.name)).count(), 1, "{}", p.name);
        }
    }

    #[test]
    fn json_tells_accesses_and_pairs() {
        let value = value();
        let row = value["passes"].as_array().unwrap().iter().find(|p| p["name"] == "pack_addr4").unwrap();
        assert_eq!(row["writes"], json!(["ApWords"]));
        assert!(row["reads"].as_array().unwrap().contains(&json!("LocPlace")));
        assert_eq!(row["exclusive"], false);
        let pair = |a: &str, b: &str| {
            let pairs = value["pairs"].as_array().unwrap();
            let named = pairs.iter().find(|p| p["passes"] == json!([a, b]));
            named.unwrap_or_else(|| panic!("no pair {a}, {b}"))["conflict"].clone()
        };
        assert!(pair("color_psum", "color_sbuf").as_array().unwrap().contains(&json!("LocPlace")));
        assert_eq!(pair("pack_addr4", "layout_records"), Value::Null);
        assert_eq!(pair("expand_all_engine", "lower_ap"), json!("world"));
    }
}
