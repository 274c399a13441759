//! The artifact: round trips, and refusal of every damaged file.

use murre::artifact;
use murre_components::dtype::{DType, HloType};
use murre_components::engine::{EngineId, Target};
use murre_components::program::*;

fn small() -> Program {
    let mut p = Program::empty("tiny", Target::Trn2);
    let mut exit = [0u8; 64];
    (exit[0], exit[1], exit[12]) = (0xDF, 0x10, 1);
    for s in &mut p.streams {
        s.push(exit);
    }
    p.descriptors = vec![[0xD4; 64], [0xDA; 64]];
    p.queues = vec![Queue { name: "q_sp".into(), engine: EngineId::Sp }];
    p.blocks = vec![BlockEntry { queue: 0, first: 0, count: 2 }];
    let var = |name: &str, kind, bytes, const_offset| Var { name: name.into(), kind, bytes, const_offset };
    p.vars = vec![
        var("x", VarKind::Input, 16, 0),
        var("c", VarKind::Const, 3, 1),
        var("y", VarKind::Output, 16, 0),
    ];
    p.table = vec![TableEntry { var: 2, displacement: 4 }];
    p.constants = vec![1, 2, 3, 4];
    p.addr4 = vec![0x0200_0000];
    p.addr4_sites = vec![WordSite { stream: 5, offset: 16, record: 1 }];
    let symbol = |name: &str, input, var| Symbol {
        name: name.into(),
        input,
        index: 0,
        var,
        ty: HloType::F32,
        dtype: DType::F32,
        dims: vec![2, 2],
    };
    let instruction = "d".into();
    p.extents.checks = vec![SizeCheck { instruction, dimension: 1, bound: 8 }];
    p.symbols = vec![symbol("x", true, 0), symbol("out0", false, 2)];
    p.provenance.names = ["add.1"].into_iter().collect();
    p.provenance.sources = ["model.py:3"].into_iter().collect();
    p.provenance.streams[4] = vec![u32::MAX];
    p.provenance.descriptors = vec![0, 0];
    p
}

#[test]
fn a_program_survives_the_round_trip_and_gives_the_same_bytes_twice() {
    let p = small();
    let bytes = artifact::write(&p);
    assert!(artifact::is_artifact(&bytes));
    assert_eq!(bytes, artifact::write(&p));
    assert_eq!(artifact::read(&bytes).unwrap(), p);
    let meta = artifact::read_meta(&bytes).unwrap();
    assert_eq!(
        (meta.target.as_str(), meta.module.as_str(), meta.format),
        ("trn2", "tiny", artifact::FORMAT_VERSION)
    );
}

#[test]
fn an_empty_program_survives_too() {
    let p = Program::empty("", Target::CoreV5);
    assert_eq!(artifact::read(&artifact::write(&p)).unwrap(), p);
}

#[test]
fn inputs_and_outputs_are_elf_symbols_and_sections_have_their_names() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let bytes = artifact::write(&small());
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    let symbols: Vec<_> =
        elf.symbols().map(|s| (s.name().unwrap().to_string(), s.address(), s.size())).collect();
    assert_eq!(symbols, [("input.0.x".to_string(), 0, 16), ("output.0.out0".to_string(), 2, 16)]);
    let names: Vec<_> = elf.sections().map(|s| s.name().unwrap().to_string()).collect();
    for expected in [".murre.stream.pool", ".murre.stream.sp", ".murre.addr4", ".murre.meta", ".murre.digest"]
    {
        assert!(names.iter().any(|n| n == expected), "{expected} in {names:?}");
    }
}

#[test]
fn every_flipped_byte_is_refused() {
    let bytes = artifact::write(&small());
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xFF] {
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            let fault = artifact::read(&bad).expect_err("a flipped byte must not be read");
            assert!(fault.code.id.starts_with("MUR06"), "byte {at}: {}", fault.code.id);
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = artifact::write(&small());
    for len in 0..bytes.len() {
        let fault = artifact::read(&bytes[..len]).expect_err("a truncated file must not be read");
        assert!(fault.code.id.starts_with("MUR06"), "length {len}: {}", fault.code.id);
    }
    assert!(!artifact::is_artifact(b""));
    assert!(!artifact::is_artifact(b"HloModule m"));
    assert_eq!(artifact::read(b"HloModule m").unwrap_err().code.id, "MUR0601");
}

#[test]
fn a_changed_byte_names_the_checksum() {
    let mut bytes = artifact::write(&small());
    bytes[64] ^= 1;
    assert_eq!(artifact::read(&bytes).unwrap_err().code.id, "MUR0602");
}

/// Rewrites the digest after an edit, as a tool that wants to be believed would.
fn reseal(bytes: &mut [u8]) {
    use object::{Object, ObjectSection};
    let elf = object::File::parse(&*bytes).unwrap();
    let at = elf.section_by_name(".murre.digest").unwrap().file_range().unwrap().0 as usize;
    bytes[at..at + 32].fill(0);
    let digest = blake3::hash(bytes);
    bytes[at..at + 32].copy_from_slice(digest.as_bytes());
}

#[test]
fn another_format_version_is_named() {
    let mut bytes = artifact::write(&small());
    let needle = format!("\"format\": {}", artifact::FORMAT_VERSION);
    let at = bytes.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap();
    bytes[at + needle.len() - 1] += 1;
    reseal(&mut bytes);
    assert_eq!(artifact::read(&bytes).unwrap_err().code.id, "MUR0603");
}

#[test]
fn sections_are_checked_even_when_the_file_digest_was_renewed() {
    let mut bytes = artifact::write(&small());
    bytes[64 + 20] ^= 4;
    reseal(&mut bytes);
    assert_eq!(artifact::read(&bytes).unwrap_err().code.id, "MUR0602");
    let mut bytes = artifact::write(&small());
    let at = bytes.windows(4).position(|w| w == b"trn2").unwrap();
    bytes[at] = b'x';
    reseal(&mut bytes);
    assert_eq!(artifact::read(&bytes).unwrap_err().code.id, "MUR0604");
}

#[test]
fn indices_that_point_nowhere_are_refused() {
    let breakages: [fn(&mut Program); 14] = [
        |p| p.blocks[0].queue = 1,
        |p| p.blocks[0].count = 3,
        |p| p.blocks[0].first = u32::MAX,
        |p| p.table[0].var = 3,
        |p| p.table[0].displacement = 17,
        |p| p.symbols[0].var = 9,
        |p| p.symbols[0].index = 1,
        |p| p.symbols[0].dims = vec![u64::MAX, 2],
        |p| p.vars[1].const_offset = 2,
        |p| p.addr4_sites[0].record = 2,
        |p| p.provenance.descriptors[0] = 1,
        |p| p.extents.reports = true,
        |p| p.extents.inputs.push(Extent { array: 0, dimension: 0 }),
        |p| p.queues[0].name = "a name of more than thirty-one bytes".into(),
    ];
    for (i, breakage) in breakages.iter().enumerate() {
        let mut p = small();
        breakage(&mut p);
        let fault = artifact::read(&artifact::write(&p)).expect_err("a broken index must not be read");
        assert_eq!(fault.code.id, "MUR0605", "case {i}");
    }
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.murre");
    artifact::write_file(&path, &small()).unwrap();
    assert_eq!(artifact::read(&std::fs::read(&path).unwrap()).unwrap(), small());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let fault = artifact::write_file(&dir.path().join("no/such/a.murre"), &small()).unwrap_err();
    assert_eq!(fault.code.id, "MUR0606");
}
