//! `murre passes`: the pass table as text, JSON or a Graphviz graph.

use super::console::Console;
use super::{Exit, Outcome};
use murre::systems::{Stage, passes};
use serde_json::json;
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
        let rows: Vec<_> = passes()
            .map(|p| {
                json!({
                    "name": p.name, "stage": p.stage.name(), "about": p.about, "spec": p.spec,
                    "beside_previous": p.beside_previous, "verify": p.verify,
                })
            })
            .collect();
        console.value(&json!(rows));
    } else if args.dot {
        console.out(&graph());
    } else {
        console.out(&listing());
    }
    Ok(Exit::Fine)
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

/// A box a stage, an arrow from each pass to those that wait for it.
fn graph() -> String {
    let mut out = String::from("digraph passes {\n  rankdir=LR;\n  node [shape=box, fontname=monospace];\n");
    for stage in Stage::ALL {
        let _ = writeln!(out, "  subgraph cluster_{0} {{\n    label=\"{0}\";", stage.name());
        for p in passes().filter(|p| p.stage == stage) {
            let style = if p.verify { ", style=dashed" } else { "" };
            let _ = writeln!(out, "    {} [label=\"{}\"{style}];", p.name, p.name);
        }
        out.push_str("  }\n");
    }
    let (mut before, mut rank): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut stage = None;
    for p in passes() {
        if !(p.beside_previous && stage == Some(p.stage)) {
            before = std::mem::take(&mut rank);
        }
        stage = Some(p.stage);
        rank.push(p.name);
        for b in &before {
            let _ = writeln!(out, "  {b} -> {};", p.name);
        }
    }
    out + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_is_listed_once_in_each_form() {
        let (text, dot) = (listing(), graph());
        for p in passes() {
            assert_eq!(text.matches(&format!("  {} ", p.name)).count(), 1, "{}", p.name);
            assert_eq!(dot.matches(&format!("    {} [", p.name)).count(), 1, "{}", p.name);
        }
    }
}
