//! The door: text and proto of every fixture read to the same module, the printer's text reads back, and every fault
//! of an input is a diagnostic with a code and a place, never a panic.

mod cases;

use murre::array::HostArray;
use murre::array::compare::{Tolerance, compare};
use murre::components::hlo::{Attrs, HloInst, HloModule, Literal, Shape};
use murre::hlo::{print_module, read_module, read_text, read_text_by_token, verify};
use std::collections::HashMap;
use std::path::PathBuf;

fn fixtures() -> Vec<PathBuf> {
    cases::all()
}

fn read(path: PathBuf) -> HloModule {
    let bytes = std::fs::read(&path).expect("a fixture file");
    match read_module(&bytes, &path.display().to_string()) {
        Ok(module) => module,
        Err(faults) => panic!("{path:?}: {faults:#?}"),
    }
}

/// What an instruction is, with names for everything that it refers to: producers order a module's text and its proto
/// differently.
fn described<'m>(module: &'m HloModule, inst: HloInst<'m>) -> (Vec<&'m str>, Vec<&'m str>, Shape) {
    let operands = inst.operands().iter().map(|o| module.inst(*o).name()).collect();
    let called = inst.called().iter().map(|c| module.comp(*c).name.as_str()).collect();
    (operands, called, inst.shape().clone())
}

#[test]
fn text_and_proto_are_the_same_module() {
    for dir in fixtures() {
        let (text, proto) = (read(dir.join("module.hlo.txt")), read(dir.join("module.hlo.pb")));
        assert_eq!(text.len(), proto.len(), "{dir:?}");
        assert_eq!((&text.name, &text.entry_comp().name), (&proto.name, &proto.entry_comp().name));
        let by_name: HashMap<(&str, &str), HloInst<'_>> =
            proto.insts().map(|i| ((proto.comp(i.computation()).name.as_str(), i.name()), i)).collect();
        if text.insts().any(|a| !by_name.contains_key(&(text.comp(a.computation()).name.as_str(), a.name())))
        {
            // XLA renamed some of a hand-written module: the same operations remain.
            assert!(
                dir.file_name()
                    .is_some_and(|n| ["dyn_", "hlo_"].iter().any(|p| n.to_string_lossy().starts_with(p))),
                "{dir:?}"
            );
            let operations = |m: &HloModule| {
                let mut all: Vec<_> =
                    m.insts().map(|i| (i.op, i.operands().len(), i.called().len())).collect();
                all.sort();
                all
            };
            assert_eq!(operations(&text), operations(&proto), "{dir:?}");
            continue;
        }
        for a in text.insts() {
            let comp = text.comp(a.computation()).name.as_str();
            let b = by_name[&(comp, a.name())];
            let ((operands, called, shape), (operands_b, called_b, shape_b)) =
                (described(&text, a), described(&proto, b));
            let told = match (a.attrs(), b.attrs()) {
                (Attrs::Constant(x), Attrs::Constant(y)) => {
                    // XLA reads a written -0 as 0.
                    let host = |l: &Literal| match l {
                        Literal::Array { shape, data } => HostArray {
                            ty: shape.ty,
                            dims: shape.dims.iter().map(|d| *d as u64).collect(),
                            data: data.to_vec(),
                        },
                        Literal::Tuple(_) => panic!("a constant tuple"),
                    };
                    compare(&host(x), &host(y), &Tolerance::Exact).is_ok()
                }
                (x, y) => x == y,
            };
            // Hand-written text leaves layouts out.
            let same = a.op == b.op && operands == operands_b && called == called_b && shape.same(&shape_b);
            assert!(same && told, "{dir:?} {comp} {}", a.name());
            // Text may be printed without metadata; where it has some, it must be the proto's.
            if !a.metadata().is_empty() {
                assert_eq!(a.location(), b.location(), "{dir:?} {}", a.name());
            }
        }
    }
}

/// A line of the usual form is read in one go; token by token it must give the same.
#[test]
fn both_ways_of_reading_text_agree() {
    for dir in fixtures() {
        let text = std::fs::read_to_string(dir.join("module.hlo.txt")).expect("a fixture file");
        for text in [text.clone(), text.replace('\n', "\r\n"), text.replace(" = ", " =  ")] {
            let quick = read_text(&text, "m").expect("a module");
            let slow = read_text_by_token(&text, "m").expect("a module");
            assert_eq!(quick, slow, "{dir:?}");
            for (a, b) in quick.insts().zip(slow.insts()) {
                assert_eq!(a.text_place(), b.text_place(), "{dir:?} {}", a.name());
            }
        }
    }
}

#[test]
fn every_fixture_verifies() {
    for dir in fixtures() {
        for file in ["module.hlo.txt", "module.hlo.pb"] {
            let faults = verify(&read(dir.join(file)));
            assert!(faults.is_empty(), "{dir:?} {file}: {faults:#?}");
        }
    }
}

#[test]
fn printed_text_reads_back() {
    for dir in fixtures() {
        let module = read(dir.join("module.hlo.txt"));
        let printed = print_module(&module);
        let back = read_module(printed.as_bytes(), "printed")
            .unwrap_or_else(|e| panic!("{dir:?} {e:#?}\n{printed}"));
        assert_eq!(module, back, "{dir:?}");
    }
}

fn codes(text: &str) -> Vec<&'static str> {
    match read_module(text.as_bytes(), "bad") {
        Ok(module) => verify(&module).iter().map(|d| d.code.id).collect(),
        Err(faults) => faults.iter().map(|d| d.code.id).collect(),
    }
}

/// A module around these lines; `a` is f32[4], `i` is s32[], `add` sums two f32 scalars.
fn around(lines: &str) -> String {
    format!(
        "HloModule m\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\n\
         ENTRY e {{\n  a = f32[4]{{0}} parameter(0)\n  i = s32[] parameter(1)\n{lines}\n}}\n"
    )
}

#[test]
fn every_reading_fault_has_its_code() {
    let deep = format!("  t = {}f32[]{} parameter(2)", "(".repeat(100), ")".repeat(100));
    let table: &[(&str, &str)] = &[
        ("  b = f32[4] ad(a, a)", "MUR0105"),
        ("  b = f32[4] add(a, a), colour=1", "MUR0106"),
        ("  b = f32[4] add(a, a), dimensions={0}", "MUR0106"),
        ("  b = f32[4] add(a, c)\n  c = f32[4] add(a, a)", "MUR0107"),
        ("  a = f32[4] add(a, a)", "MUR0108"),
        ("  b = f32[] call(i), to_apply=nowhere", "MUR0109"),
        ("  b = f32[99] constant({...})", "MUR0110"),
        ("  b = s8[] constant(200)", "MUR0111"),
        ("  b = f16[] constant(70000)", "MUR0111"),
        ("  b = f32[3] constant({1, 2})", "MUR0112"),
        ("  b = f32[2] constant({ {1, 2} })", "MUR0112"),
        ("  b = f32[2] parameter(3)", "MUR0113"),
        ("  b = f32[2] parameter(1)", "MUR0113"),
        ("  b = f33[2] add(a, a)", "MUR0114"),
        ("  b = f32[2]{1} add(a, a)", "MUR0114"),
        ("  b = f32[]{} negate(i)", "MUR0114"),
        ("  b = reshape(a)", "MUR0114"),
        ("  b = f32[2] slice(a)", "MUR0117"),
        ("  b = pred[4] compare(a, a), direction=ABOVE", "MUR0117"),
        (&deep, "MUR0118"),
        ("  b = f32[4] add(f32[5] a, a)", "MUR0120"),
        ("  b=f32[4] add(a, a)", "MUR0103"),
        ("  s1 = f32[4] add(a, a)", "MUR0103"),
        ("  b = f32[] constant(0x10)", "MUR0103"),
        ("  # no comment", "MUR0103"),
        ("  b = f32[4] add(a, ", "MUR0103"),
        ("  /* no end", "MUR0104"),
    ];
    for (lines, code) in table {
        assert_eq!(codes(&around(lines)).first(), Some(code), "{lines}");
    }
    let whole = around("  b = f32[4] add(a, a)");
    assert_eq!(codes(&whole), [""; 0]);
    assert_eq!(codes(&whole[..whole.len() - 3]), ["MUR0104"]);
    assert_eq!(codes(" \n"), ["MUR0101"]);
    assert_eq!(codes("/* only a comment */"), ["MUR0101"]);
    assert_eq!(codes("module @jit_f { }"), ["MUR0102"]);
    assert_eq!(codes("HloModule m\n"), ["MUR0104"]);
    assert_eq!(codes(&format!("{whole}ENTRY f {{ z = f32[] parameter(0) }}")), ["MUR0119"]);
    assert_eq!(read_module(&[1, 2, 3, 0xff], "bad").err().map(|f| f[0].code.id), Some("MUR0102"));
}

#[test]
fn faults_are_collected_with_their_places() {
    let text = around("  b = f32[4] ad(a, a)\n  c = f32[4] add(b, nowhere)\n  d = s8[] constant(200)");
    let faults = read_module(text.as_bytes(), "bad.txt").err().unwrap_or_default();
    let places: Vec<_> = faults.iter().map(|f| (f.code.id, f.span.map(|s| (s.line, s.column)))).collect();
    assert_eq!(
        places,
        [("MUR0105", Some((10, 14))), ("MUR0107", Some((11, 21))), ("MUR0111", Some((12, 21)))]
    );
    assert!(faults.iter().all(|f| f.file.as_deref() == Some("bad.txt")));
}

#[test]
fn every_verifier_fault_has_its_code() {
    let table: &[(&str, &str)] = &[
        ("  b = f32[5] add(a, a)", "MUR0201"),
        ("  b = f32[5] reshape(a)", "MUR0201"),
        ("  b = f32[4] add(a)", "MUR0202"),
        ("  b = f32[4] add(a, i)", "MUR0203"),
        ("  b = f32[4] get-tuple-element(a), index=0", "MUR0203"),
        ("  b = f32[9] slice(a), slice={[0:9]}", "MUR0204"),
        ("  b = f32[4] reverse(a), dimensions={1}", "MUR0204"),
        ("  b = f32[5] dynamic-slice(a, i), dynamic_slice_sizes={5}", "MUR0204"),
        (
            "  b = f32[4] custom-call(a), custom_call_target=\"x\", operand_layout_constraints={f32[5]{0}}",
            "MUR0204",
        ),
        ("  b = f32[4] collective-permute(a), source_target_pairs={{0,1},{0,2}}", "MUR0204"),
        ("  b = f32[4] while(a), condition=add, body=add", "MUR0205"),
        ("  b = f32[5] all-reduce(a), replica_groups={}, to_apply=add", "MUR0201"),
        ("  b = f32[6] all-gather(a), replica_groups={}, dimensions={0}", "MUR0201"),
        ("  b = (f32[4], f32[4]) copy-start(a)", "MUR0201"),
        ("  b = f32[4] async-done(a)", "MUR0203"),
        ("  b = (f32[4], f32[4], u32[]) copy-start(a)", "MUR0203"),
        ("  b = f32[4] all-reduce(a), replica_groups={{0},{2}}, to_apply=add", "MUR0204"),
        ("  b = f32[8] all-gather(a), replica_groups={{0,1,2}}, dimensions={0}", "MUR0201"),
        (
            "  c = f32[] constant(1)\n  b = f32[] fusion(c, c), kind=kLoop, calls=add\n  e = f32[] fusion(c, b), kind=kLoop, calls=add",
            "MUR0205",
        ),
        ("  t = token[] after-all()\n  b = token[] outfeed(a, t), outfeed_shape=f32[5]", "MUR0204"),
        ("  b = c64[4] fft(a), fft_type=RFFT, fft_length={4}", "MUR0201"),
        ("  b = f32[2] bitcast(a)", "MUR0201"),
    ];
    for (lines, code) in table {
        assert_eq!(codes(&around(lines)).first(), Some(code), "{lines}");
    }
    // All together, each named.
    let text = around("  b = f32[5] add(a, a)\n  c = f32[4] add(a)\n  d = f32[4] send-done(a, i)");
    assert_eq!(codes(&text), ["MUR0201", "MUR0202", "MUR0202", "MUR0203"]);
    let mut module = read_module(around("").as_bytes(), "m").expect("a module");
    module.computations[0].root = murre::components::ids::HloId::new(99);
    assert_eq!(verify(&module).first().map(|d| d.code.id), Some("MUR0207"));
}

#[test]
fn shapes_that_the_operands_give_may_be_left_out() {
    let module =
        read_module(around("  b = add(a, a)\n  ROOT t = tuple(b, i)").as_bytes(), "m").expect("a module");
    assert_eq!(module.inst(module.entry_comp().root).shape().to_string(), "(f32[4], s32[])");
    assert!(verify(&module).is_empty());
}

#[test]
fn protos_that_contradict_themselves() {
    use murre::hlo::proto::messages::{HloModuleProto, HloProto, HloSnapshot};
    use prost::Message;
    let bytes = std::fs::read(fixtures()[0].join("module.hlo.pb")).expect("a proto");
    let good = HloModuleProto::decode(bytes.as_slice()).expect("a module");
    let code = |change: &dyn Fn(&mut HloModuleProto)| {
        let mut proto = good.clone();
        change(&mut proto);
        read_module(&proto.encode_to_vec(), "bad").err().map(|f| f[0].code.id)
    };
    let last = good.computations.len() - 1;
    let user =
        good.computations[last].instructions.iter().position(|i| !i.operand_ids.is_empty()).expect("a user");
    assert_eq!(code(&|_| {}), None);
    assert_eq!(code(&|p| p.computations.clear()), Some("MUR0116"));
    assert_eq!(code(&|p| p.computations[last].root_id = -5), Some("MUR0116"));
    assert_eq!(code(&|p| p.computations[last].instructions[0].opcode = "ad".into()), Some("MUR0105"));
    assert_eq!(code(&|p| p.computations[last].instructions[user].operand_ids[0] = -5), Some("MUR0107"));
    assert_eq!(
        code(&|p| {
            let own = p.computations[last].instructions[user].id;
            p.computations[last].instructions[user].operand_ids[0] = own;
        }),
        Some("MUR0115")
    );
    assert_eq!(
        code(&|p| {
            p.entry_computation_id = -5;
            p.entry_computation_name.clear();
        }),
        Some("MUR0119")
    );
    // The order of computations and instructions is free, and so is the wrapper.
    let mut turned = good.clone();
    turned.computations.reverse();
    turned.computations.iter_mut().for_each(|c| c.instructions.reverse());
    let module = read_module(&turned.encode_to_vec(), "turned").expect("a module");
    assert!(verify(&module).is_empty());
    let hlo = HloProto { hlo_module: Some(good.clone()) };
    let plain = read_module(&good.encode_to_vec(), "m").expect("a module");
    assert_eq!(read_module(&hlo.encode_to_vec(), "m").expect("an HloProto"), plain);
    let snapshot = HloSnapshot { hlo: Some(hlo) };
    assert_eq!(read_module(&snapshot.encode_to_vec(), "m").expect("an HloSnapshot"), plain);
}

/// What a damaged input gives is not promised, only that it is a module or diagnostics.
fn survive(bytes: &[u8]) {
    if let Ok(module) = read_module(bytes, "damaged") {
        verify(&module);
        print_module(&module);
    }
}

#[test]
fn damage_never_panics() {
    let mut seed = 0x2545_f491u64;
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for dir in fixtures() {
        for file in ["module.hlo.txt", "module.hlo.pb"] {
            let bytes = std::fs::read(dir.join(file)).expect("a fixture file");
            for _ in 0..if bytes.len() > 20_000 { 10 } else { 60 } {
                survive(&bytes[..random(bytes.len())]);
                let mut flipped = bytes.clone();
                for _ in 0..=random(3) {
                    flipped[random(bytes.len())] ^= 1 << random(8);
                }
                survive(&flipped);
                let mut spliced = bytes.clone();
                let (at, from) = (random(bytes.len()), random(bytes.len()));
                spliced.splice(at..at, bytes[from..(from + random(40)).min(bytes.len())].iter().copied());
                survive(&spliced);
            }
        }
    }
    for text in ["{", "(((((", "HloModule ", "ENTRY", "x {", "%", "\"", "HloModule m, a={", "e { ROOT "] {
        survive(text.as_bytes());
        survive(text.repeat(50_000).as_bytes());
    }
}

/// Valid to read and print, but nobody can compute it.
#[test]
fn a_dimension_without_a_bound_is_printed_and_not_evaluated() {
    let text = "HloModule m\nENTRY e {\n  a = f32[?,4] parameter(0)\n  ROOT b = f32[?,4] add(a, a)\n}\n";
    let module = read_module(text.as_bytes(), "m").expect("a module");
    assert!(verify(&module).is_empty());
    assert!(print_module(&module).contains("f32[?,4]"));
    let faults = murre::eval::evaluate(&module, &[]).expect_err("no bound");
    assert_eq!(faults.iter().map(|d| d.code.id).collect::<Vec<_>>(), ["MUR0206", "MUR0206"]);
}

/// The short form of background operations stands for a computation that it leaves out.
#[test]
fn short_forms_of_background_operations_get_their_computation() {
    let text = "HloModule m\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  q = f32[4]{0} abs(p)\n  \
                s = ((f32[4]{0}), f32[4]{0}, s32[]) negate-start(q)\n  ROOT d = f32[4]{0} negate-done(s)\n}\n";
    let module = read_module(text.as_bytes(), "m").expect("a module");
    assert!(verify(&module).is_empty(), "{:#?}", verify(&module));
    let printed = print_module(&module);
    assert!(
        printed.contains("s = ((f32[4]{0}), f32[4]{0}, s32[]) async-start(q), calls=async_wrapped.0"),
        "{printed}"
    );
    assert!(printed.contains("ROOT async_root = f32[4]{0} negate(async_param.0)"), "{printed}");
    assert_eq!(read_module(printed.as_bytes(), "m").expect("a module"), module);
    // The other halves do not say again what was started.
    let text = "HloModule m\nid {\n  ROOT x = f32[] parameter(0)\n}\nENTRY e {\n  z = f32[] constant(1)\n  \
                s = ((f32[]), f32[], s32[]) call-start(z), to_apply=id\n  \
                u = ((f32[]), f32[], s32[]) call-update(s)\n  ROOT r = f32[] call-done(u)\n}\n";
    let module = read_module(text.as_bytes(), "m").expect("a module");
    assert!(verify(&module).is_empty(), "{:#?}", verify(&module));
}

#[test]
fn a_name_that_is_a_keyword_has_its_percent_sign() {
    let module = |operand: &str| {
        format!(
            "HloModule m\nENTRY e {{\n  %true = f32[] parameter(0)\n  ROOT r = f32[] negate({operand})\n}}\n"
        )
    };
    let (with, without) = (module("%true"), module("true"));
    for read in [read_text, read_text_by_token] {
        assert!(read(&with, "m").is_ok());
        assert!(read(&without, "m").is_err_and(|faults| faults.iter().any(|d| d.code.id == "MUR0103")));
    }
}
