//! Entities of a small program through the passes.

use super::*;
use murre_systems::{CompileOptions, Compiler};

const WRITE: &str = "HloModule m\n\nENTRY main {\n  cache = f32[16,8] parameter(0)\n  new = f32[1,8] parameter(1)\n  \
    pos = s32[] parameter(2)\n  zero = s32[] constant(0)\n  dead = s32[] add(pos, zero)\n  \
    ROOT out = f32[16,8] dynamic-update-slice(cache, new, pos, zero)\n}\n";

fn history(asked: &str) -> Result<History, Diagnostic> {
    let module = crate::check::verified_module(&bytes::Bytes::from_static(WRITE.as_bytes()), "m");
    let mut compiler = Compiler::new(module.expect("a valid module"), CompileOptions::default());
    let mut recorder = Recorder::new(asked, &mut compiler.world);
    compiler.run_stepwise(|pass, _, world| recorder.after(pass, world));
    recorder.finish()
}

fn one(asked: &str) -> EntityHistory {
    history(asked).expect("a history").entities.remove(0)
}

fn passes(h: &EntityHistory) -> Vec<(&str, Deed)> {
    h.changes.iter().map(|c| (c.pass, c.deed)).collect()
}

#[test]
fn an_hlo_instruction_is_followed_into_records() {
    let h = one("%out");
    assert_eq!(h.changes[0].deed, Deed::Read);
    let made =
        |kind: &str| h.changes.iter().find(|c| c.children.iter().any(|c| c.kind == kind)).map(|c| c.pass);
    assert_eq!(made("nodes"), Some("lower_hlo"));
    assert_eq!(made("instructions"), Some("select_instructions"));
    assert_eq!(made("records"), Some("assemble_program"));
    let dead = one("dead");
    assert_eq!(passes(&dead), [("", Deed::Read), ("eliminate_dead_code", Deed::Gone)]);
}

#[test]
fn a_register_is_made_coloured_and_nothing_else_is_told() {
    let module = one("out");
    let registers = module.changes.iter().flat_map(|c| &c.children).filter(|c| c.kind == "registers");
    let last = registers.flat_map(|c| &c.ids).next_back().expect("a register").clone();
    let h = one(&last);
    assert_eq!(h.changes[0].deed, Deed::Made);
    let coloured = h.changes.iter().find(|c| c.pass == "color_registers").expect("a colour");
    assert_eq!(coloured.deed, Deed::Changed);
    assert_eq!(coloured.fields.len(), 1, "{coloured:?}");
    assert_eq!(coloured.fields[0].field, "colour");
    assert!(coloured.fields[0].before.as_ref().is_some_and(Value::is_null));
    assert!(coloured.fields[0].after.as_ref().is_some_and(Value::is_u64));
    assert!(h.changes.iter().all(|c| c.deed != Deed::Changed || !c.fields.is_empty()));
}

#[test]
fn a_register_of_all_engines_has_its_copies() {
    let h = one("r0");
    let copied = h.changes.iter().find(|c| c.pass == "expand_all_engine").expect("copies");
    assert_eq!(copied.children[0].kind, "copies on engines");
    let copy = one(&copied.children[0].ids[0]);
    assert!(copy.changes[0].fields.iter().any(|f| f.field == "all" && f.after == Some("r0".into())));
}

#[test]
fn a_location_gets_its_address_and_an_access_its_word() {
    let h = one("loc0");
    let placed = h.changes.iter().find(|c| c.pass == "assign_dram").expect("a variable");
    assert!(placed.fields.iter().any(|f| f.field == "address"), "{placed:?}");
    let text = history("loc0").expect("a history").text();
    assert!(text.starts_with("location loc0\n\nmade by lower_hlo (penguin)\n"), "{text}");
}

#[test]
fn what_no_pass_made_is_refused() {
    let fault = history("r900").expect_err("no such register");
    assert_eq!(fault.code.id, "MUR0907");
    let fault = history("cach").expect_err("no such name");
    assert!(fault.help.is_some_and(|h| h.contains("did you mean cache")));
}
