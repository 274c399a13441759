//! Random programs with 64-bit elements agree with themselves behind the pass that splits them.

mod support;
mod wide;

use murre::components::dtype::HloType;
use support::Lcg;
use wide::{agree_in, value};

/// Random programs: operations of every kind on what came before, with constants, so that narrow and split values meet.
fn random_program(rng: &mut Lcg) -> String {
    const TYPES: [&str; 4] = ["s64", "u64", "s64", "u64"];
    let mut text = String::from("HloModule m ENTRY e {\n");
    let mut by_type: Vec<(&str, Vec<String>)> = Vec::new();
    let mut number = 0;
    let mut emit = |text: &mut String, ty: &'static str, rest: String| {
        number += 1;
        text.push_str(&format!("  v{number} = {ty}[8] {rest}\n"));
        match by_type.iter_mut().find(|(t, _)| *t == ty) {
            Some((_, names)) => names.push(format!("v{number}")),
            None => by_type.push((ty, vec![format!("v{number}")])),
        }
        by_type.clone()
    };
    let mut known = Vec::new();
    for (k, ty) in ["s64", "u64", "s32", "u32", "s8", "u16", "pred", "f32"].into_iter().enumerate() {
        known = emit(&mut text, ty, format!("parameter({k})"));
    }
    for ty in ["s64", "u64"] {
        known = emit(&mut text, ty, "iota(), iota_dimension=0".into());
    }
    for _ in 0..24 {
        let ty = TYPES[rng.below(4) as usize];
        let mut pick = |t: &str| {
            let names =
                known.iter().find(|(n, _)| *n == t).map(|(_, names)| names.clone()).unwrap_or_default();
            // Mostly late ones.
            let from = if rng.below(3) > 0 { names.len().saturating_sub(4) } else { 0 };
            names[from + rng.below((names.len() - from) as u64) as usize].clone()
        };
        let (a, b, c, p) = (pick(ty), pick(ty), pick(ty), pick("pred"));
        let others = ["s64", "u64", "s32", "u32", "s8", "u16", "pred", "f32"];
        let other = others[rng.below(8) as usize];
        let names =
            known.iter().find(|(n, _)| *n == other).map(|(_, names)| names.clone()).unwrap_or_default();
        let o = names[rng.below(names.len() as u64) as usize].clone();
        known = match rng.below(14) {
            0..=2 => emit(&mut text, ty, format!("convert({o})")),
            3 => {
                let narrow = ["s32", "u32", "s8", "u16", "pred", "f32"][rng.below(6) as usize];
                emit(&mut text, narrow, format!("convert({a})"))
            }
            4 => {
                let data: Vec<String> =
                    (0..8).map(|_| (value(rng, HloType::S64) as i64 >> rng.below(60)).to_string()).collect();
                let data = data.join(", ");
                emit(
                    &mut text,
                    ty,
                    format!("constant({{{}}})", if ty == "u64" { data.replace('-', "") } else { data }),
                )
            }
            5 => {
                let direction = ["EQ", "NE", "LT", "LE", "GT", "GE"][rng.below(6) as usize];
                emit(&mut text, "pred", format!("compare({a}, {b}), direction={direction}"))
            }
            6 => emit(&mut text, ty, format!("select({p}, {a}, {b})")),
            7 => emit(&mut text, ty, format!("clamp({a}, {b}, {c})")),
            8 => {
                let op = ["negate", "not", "popcnt", "count-leading-zeros", "abs", "sign"]
                    [rng.below(if ty == "s64" { 6 } else { 4 }) as usize];
                emit(&mut text, ty, format!("{op}({a})"))
            }
            9 => emit(&mut text, ty, format!("reverse({a}), dimensions={{0}}")),
            _ => {
                let op = [
                    "add",
                    "subtract",
                    "multiply",
                    "and",
                    "or",
                    "xor",
                    "minimum",
                    "maximum",
                    "divide",
                    "remainder",
                    "shift-left",
                    "shift-right-logical",
                    "shift-right-arithmetic",
                ][rng.below(13) as usize];
                emit(&mut text, ty, format!("{op}({a}, {b})"))
            }
        };
    }
    let all: Vec<(String, &str)> =
        known.iter().flat_map(|(t, names)| names.iter().rev().take(5).map(|n| (n.clone(), *t))).collect();
    let shapes: Vec<String> = all.iter().map(|(_, t)| format!("{t}[8]")).collect();
    let names: Vec<String> = all.iter().map(|(n, _)| n.clone()).collect();
    text.push_str(&format!("  ROOT r = ({}) tuple({})\n}}", shapes.join(", "), names.join(", ")));
    text
}

#[test]
fn random_programs_agree() {
    for seed in 0..120 {
        let text = random_program(&mut Lcg(seed));
        agree_in(&text, 4);
    }
}
