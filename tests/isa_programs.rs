//! Every record and address word that the compiler writes for the fixture programs, against the naive decoder and
//! through the text.

mod naive;

use murre::components::engine::Target;
use murre::components::isa::{assemble, decode, disassemble, encode};
use murre::components::program::{Program, Record};
use murre::systems::{CompileOptions, compile};
use naive::Fields;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn program(case: &Path, target: Target) -> Program {
    let bytes = std::fs::read(case.join("module.hlo.txt")).expect("a readable module");
    let module = murre::hlo::read_module(&bytes, "module.hlo.txt").expect("a module");
    let outcome = compile(module, CompileOptions { target, verify: true, ..CompileOptions::default() });
    outcome.program.unwrap_or_else(|| panic!("{case:?}: {:#?}", outcome.diagnostics))
}

/// The record as both decoders read it, and as its text reads back.
fn agree(place: &str, r: &Record) {
    let (instr, events) = decode(r).unwrap_or_else(|d| panic!("{place}: {d:?}"));
    assert_eq!(encode(&instr, &events), *r, "{place}");
    let mut typed = Fields::new();
    naive::flat::flatten(&format!("{instr:?}"), "", &mut typed);
    if r[0] != 0xDA {
        naive::flat::flatten(&format!("{events:?}"), "event", &mut typed);
    }
    let text = disassemble(r);
    assert_eq!(naive::decode(r).unwrap_or_else(|e| panic!("{place}: {text}\n{e}")), typed, "{place}: {text}");
    assert_eq!(assemble(&text).unwrap_or_else(|d| panic!("{place}: {text}\n{d:?}")), *r, "{place}: {text}");
}

#[test]
fn every_record_and_word_of_the_fixtures_reads_the_same_in_both_decoders() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let dirs = std::fs::read_dir(root).expect("the fixtures").flatten().map(|e| e.path());
    let mut cases: Vec<_> = dirs.filter(|d| d.join("module.hlo.txt").exists()).collect();
    cases.sort();
    assert!(cases.len() >= 11);
    let mut opcodes = BTreeSet::new();
    let mut records_seen = 0;
    for dir in cases {
        let case = dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
            let p = program(&dir, target);
            let parts: Vec<&Vec<Record>> = p.streams.iter().chain([&p.descriptors]).collect();
            let mut words: BTreeMap<(u8, u32, u8), u32> = BTreeMap::new();
            for (part, records) in parts.iter().enumerate() {
                for (i, r) in records.iter().enumerate() {
                    agree(&format!("{case} {} part {part} record {i}", target.name()), r);
                    opcodes.insert(r[0]);
                    records_seen += 1;
                    for (at, w) in naive::words(r).expect("decoded above") {
                        words.insert((part as u8, i as u32, at), w);
                    }
                }
            }
            // The program's list of address words names words that the naive decoder finds at those places.
            assert_eq!(p.addr4.len(), p.addr4_sites.len(), "{case}");
            for (w, site) in p.addr4.iter().zip(&p.addr4_sites) {
                let at = (site.stream, site.record, site.offset);
                assert_eq!(words.remove(&at), Some(*w), "{case} {} {site:?}", target.name());
                assert!(naive::word(*w).is_ok(), "{case} {w:#010x}");
            }
            // What the list does not name is an unused index word of a DMA extension.
            for ((part, record, at), w) in words {
                let opcode = parts[part as usize][record as usize][0];
                assert!(
                    opcode == 0xDA && w == 0,
                    "{case}: word {w:#010x} at {part} {record} +{at:02X} is not listed"
                );
            }
        }
    }
    assert!(records_seen > 1000, "{records_seen} records");
    // The programs are no trivial ones: data, control, register and DMA records all occur.
    for opcode in [0xA8, 0xA9, 0xC1, 0xD4, 0xDF] {
        assert!(opcodes.contains(&opcode), "no record {opcode:#04x} in {opcodes:02x?}");
    }
}
