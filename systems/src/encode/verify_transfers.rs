//! The checker of what the encoder cannot see a record at a time: operands on this generation and engine, extension
//! records behind their transfers, blocks of descriptors and their triggers. In: the [`Program`], bytes and tables only.
//! Out: faults. It shares nothing with the stages before. Facts: `spec/isa.md 1.4..1.6, 3.5, 4.3, 4.4, 4.7`,
//! `spec/ir.md 9.5, 9.6` (XCG001..003, XCG986), D3, D6.
//!
//! ```text
//! block 3: descriptors 7..9, increments 0 0 1, fired by sp record 12   =>   nothing
//! block 3: descriptors 7..9, increments 1 0 1                          =>   MUR0473
//! ```

use bevy_ecs::prelude::*;
use murre_components::diag::{Code, Diagnostic, Diagnostics, codes::isa as isa_code, codes::lower};
use murre_components::engine::{EngineId, SWDGE_RING_DEPTH};
use murre_components::isa::{Addr8Form, DmaExtension, Fault, Instr, check_emitted, check_operands, decode};
use murre_components::program::{BlockEntry, Program, Record};

/// A transfer and what stands right behind it, if that is its extension.
fn extension(records: &[Record], at: usize) -> Option<DmaExtension> {
    match decode(records.get(at + 1)?) {
        Ok((Instr::DmaExtension(e), _)) => Some(e),
        _ => None,
    }
}

/// Checks the transfers of a list of records: each with its extension, no extension alone.
fn pairs(records: &[Record], arch: u32, mut fault: impl FnMut(usize, Fault)) {
    let mut follows = false;
    for (k, record) in records.iter().enumerate() {
        follows = match decode(record) {
            Ok((Instr::DmaDirect(d), _)) => {
                if let Err(f) = check_emitted(&d, extension(records, k).as_ref(), arch) {
                    fault(k, f);
                }
                true
            }
            Ok((Instr::DmaExtension(_), _)) if !follows => {
                let expected = "a transfer right before it";
                fault(k, Fault::new(&isa_code::ISA_TRANSFER_PAIR, 0, 0xDA, expected));
                false
            }
            _ => false,
        };
    }
}

/// Whether an address is known before the run.
fn is_static(form: Addr8Form) -> bool {
    !matches!(form, Addr8Form::Register { .. } | Addr8Form::TableRegister { .. })
}

/// Checks one block; `says` receives code and text.
fn block(p: &Program, number: usize, b: &BlockEntry, mut says: impl FnMut(Code, String)) {
    let range = b.first as usize..(b.first as usize).saturating_add(b.count as usize);
    let Some(records) = p.descriptors.get(range).filter(|r| !r.is_empty()) else {
        return says(&lower::BLOCK_RECORDS, format!("block {number} has no descriptors of its own"));
    };
    if b.count > SWDGE_RING_DEPTH {
        says(&lower::BLOCK_RECORDS, format!("block {number} has {} descriptors", b.count));
    }
    let mut updates = Vec::new();
    for (k, record) in records.iter().enumerate() {
        match decode(record) {
            Ok((Instr::DmaDirect(d), _)) => {
                let dynamic = !is_static(d.src.form)
                    || !is_static(d.dst.form)
                    || d.src_bound.register.or(d.dst_bound.register).is_some();
                if dynamic {
                    says(&lower::BLOCK_RECORDS, format!("descriptor {k} of block {number} names a register"));
                }
                if d.increment != 0 {
                    updates.push((k, d.increment));
                }
            }
            Ok((Instr::DmaExtension(_), _)) => {}
            _ => says(&lower::BLOCK_RECORDS, format!("descriptor {k} of block {number} is no transfer")),
        }
    }
    let last = (0..records.len()).rev().find(|k| records[*k][0] == 0xD4).unwrap_or(0);
    if updates != [(last, 1)] {
        says(&lower::BLOCK_COMPLETION, format!("block {number} updates semaphores {} times", updates.len()));
    }
}

/// Every fault of a program's transfers, blocks, triggers and operands.
pub fn transfer_faults(p: &Program) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let arch = p.target.arch();
    let at = |f: Fault, place: String| {
        let found = format!("{:#x}", f.found);
        Diagnostic::error(f.code, format!("{place}: {} (byte +{:02X})", f.code.title, f.at))
            .expected(f.expected)
            .found(found)
    };
    let mut fired = vec![0u32; p.blocks.len()];
    for (k, stream) in p.streams.iter().enumerate() {
        let engine = EngineId::STREAMS[k];
        let place = |index: usize| format!("{} record {index}", engine.name());
        for (index, record) in stream.iter().enumerate() {
            match decode(record) {
                Ok((Instr::DmaTrigger(t), _)) => {
                    let queue = p.blocks.get(t.block as usize).and_then(|b| p.queues.get(b.queue as usize));
                    if let Some(n) = fired.get_mut(t.block as usize) {
                        *n += 1;
                    }
                    if queue.is_none_or(|q| q.engine != engine || q.name != t.queue.as_str()) {
                        let message = format!("{} fires block {} of another queue", place(index), t.block);
                        out.push(Diagnostic::error(&lower::BLOCK_TRIGGER, message));
                    }
                }
                Ok(_) => {
                    if let Err(f) = check_operands(record, engine == EngineId::Pool, p.target) {
                        out.push(at(f, place(index)));
                    }
                }
                // Reported by `verify_encode`.
                Err(_) => {}
            }
        }
        pairs(stream, arch, |index, f| out.push(at(f, place(index))));
    }
    pairs(&p.descriptors, arch, |index, f| out.push(at(f, format!("descriptor {index}"))));
    let mut ends: Vec<(u32, u32)> =
        p.blocks.iter().map(|b| (b.first, b.first.saturating_add(b.count))).collect();
    ends.sort_unstable();
    let tiles = ends.iter().try_fold(0, |end, (first, next)| (*first == end).then_some(*next));
    if tiles != Some(p.descriptors.len() as u32) {
        let message = "blocks do not share out the descriptors without gaps";
        out.push(Diagnostic::error(&lower::BLOCK_RECORDS, message));
    }
    for (number, b) in p.blocks.iter().enumerate() {
        block(p, number, b, |code, message| out.push(Diagnostic::error(code, message)));
        let triggers = fired.get(number).copied().unwrap_or(0);
        if triggers != 1 {
            let message = format!("block {number} is fired by {triggers} triggers");
            out.push(Diagnostic::error(&lower::BLOCK_TRIGGER, message));
        }
    }
    out
}

/// The system.
pub fn verify_transfers(program: Option<Res<Program>>, sink: Res<Diagnostics>) {
    let Some(program) = program else { return };
    for fault in transfer_faults(&program) {
        sink.push(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BACK, Bench, add, codes, ok, op, stream};
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::engine::Target;
    use murre_components::isa::assemble;
    use murre_components::program::VarKind;

    fn faults(change: impl Fn(&mut Program)) -> Vec<&'static str> {
        let mut p = ok(add(Target::Trn2, 0).run(&BACK));
        assert!(transfer_faults(&p).is_empty());
        change(&mut p);
        transfer_faults(&p).iter().map(|d| d.code.id).collect()
    }

    fn record(text: &str) -> Record {
        assemble(text).expect("text")
    }

    #[test]
    fn blocks_complete_once_and_are_fired_once() {
        let sp = EngineId::Sp.stream().expect("a stream");
        assert_eq!(faults(|p| p.descriptors[0][0x0E] = 0), ["MUR0473"], "no update");
        assert_eq!(faults(|p| p.descriptors[0][0x0E] = 2), ["MUR0473"], "two at once");
        // Two descriptors in one block: the first one updates as well.
        let joined = |p: &mut Program| {
            p.blocks.truncate(1);
            p.blocks[0].count = 2;
            p.streams[sp].remove(1);
        };
        assert_eq!(faults(joined), ["MUR0473"]);
        assert!(
            faults(|p| {
                joined(p);
                p.descriptors[0][0x0E] = 0;
            })
            .is_empty()
        );
        let twice = faults(|p| p.streams[sp].insert(0, p.streams[sp][0]));
        assert_eq!(twice, ["MUR0474"]);
        assert_eq!(faults(|p| p.streams[sp][0] = record("NoOp")), ["MUR0474"], "never");
        assert_eq!(faults(|p| p.queues[0].name.push('x')), ["MUR0474"], "on another queue");
        assert_eq!(faults(|p| p.queues[0].engine = EngineId::Activation), ["MUR0474"], "of another engine");
    }

    #[test]
    fn blocks_hold_descriptors_and_all_of_them() {
        assert_eq!(faults(|p| p.blocks[1].first = 0), ["MUR0475"], "one descriptor in two blocks");
        assert_eq!(faults(|p| p.descriptors.push(p.descriptors[0])), ["MUR0475"], "one in none");
        assert_eq!(faults(|p| p.blocks[1].first = 9), ["MUR0475", "MUR0475"]);
        let register =
            |p: &mut Program| p.descriptors[0][0x10..0x18].copy_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0x28]);
        assert_eq!(faults(register), ["MUR0475"], "an offset register");
        assert_eq!(faults(|p| p.descriptors[0][0x26] = 0x85), ["MUR0475"], "a bound register");
        let other = |p: &mut Program| p.descriptors[0] = record("NoOp");
        assert_eq!(faults(other), ["MUR0475", "MUR0473"]);
        let many = |p: &mut Program| {
            let first = p.descriptors[0];
            let mut silent = first;
            silent[0x0E] = 0;
            p.descriptors.splice(0..0, std::iter::repeat_n(silent, 1_020));
            (p.blocks[0].count, p.blocks[1].first) = (1_021, 1_021);
        };
        assert_eq!(faults(many), ["MUR0475"], "more than a ring holds");
    }

    #[test]
    fn extensions_stand_behind_their_transfers() {
        let sp = EngineId::Sp.stream().expect("a stream");
        let gather = "DmaExtension flags=0x4 index_channels=128 src_index=sbuf:p0+0x40";
        assert_eq!(faults(|p| p.streams[sp].insert(0, record(gather))), ["MUR0832"], "one alone");
        assert_eq!(faults(|p| p.descriptors[0][0x0F] = 1), ["MUR0832"], "none where one is needed");
        let pair = |compute: &str, target: Target| {
            faults(|p| {
                p.target = target;
                let mut transfer = p.descriptors[0];
                transfer[0x0F] = 1;
                p.streams[sp].insert(0, transfer);
                p.streams[sp].insert(1, record(&format!("{gather} compute={compute}")));
            })
        };
        assert!(pair("add", Target::Trn2).is_empty());
        assert_eq!(pair("max", Target::Trn2), ["MUR0835"]);
        assert_eq!(pair("add", Target::CoreV5), ["MUR0835"]);
    }

    #[test]
    fn operands_are_legal_on_the_target() {
        let dve = EngineId::Dve.stream().expect("a stream");
        let word = |w: u32, target: Target| {
            faults(|p| {
                p.target = target;
                p.streams[dve][0][0x10..0x14].copy_from_slice(&w.to_le_bytes());
            })
        };
        assert!(word(0x8000_0005, Target::Trn2).is_empty());
        assert_eq!(word(0x5002, Target::Trn2), ["MUR0809"]);
        assert_eq!(word(0x0240_0000, Target::Trn2), ["MUR0808"]);
        assert!(word(0x30_000, Target::Trn2).is_empty());
        assert_eq!(word(0x30_000, Target::Trn1), ["MUR0831"]);
    }

    #[test]
    fn copies_past_the_ring_become_records_that_fit_it() {
        let mut b = Bench::new(Target::Trn2, 0xFF);
        let (t, u) = (
            b.dram(VarKind::Internal, DType::F32, 20_000, 0),
            b.dram(VarKind::Internal, DType::F32, 8_000, 0),
        );
        b.dynamic(op(u, 0, DType::F32, &[(4, 2_000), (1, 4)]), op(t, 0, DType::F32, &[(8, 2_000), (1, 4)]));
        let p = ok(b.run(&BACK));
        let direct: Vec<_> = stream(&p, EngineId::Pool)
            .into_iter()
            .filter_map(|i| if let Instr::DmaDirect(d) = i { Some(d) } else { None })
            .collect();
        assert_eq!(direct.iter().map(|d| d.src_num).collect::<Vec<_>>(), [[1_008, 1], [992, 1]]);
        assert_eq!(direct[1].dst.form, Addr8Form::Variable { id: 1, offset: 1_008 * 16 });
        let Addr8Form::TableRegister { entry, .. } = direct[1].src.form else {
            panic!("{:?}", direct[1].src)
        };
        assert_eq!(p.table[usize::from(entry)].displacement, 1_008 * 32);
    }

    #[test]
    fn forms_and_families_that_no_record_says_are_refused() {
        let rows = [(64, 128), (1, 64)];
        let mut b = Bench::new(Target::Trn2, 0xFF);
        let (t, x) = (b.dram(VarKind::Internal, DType::F32, 8_192, 0), b.sbuf(DType::F32, 64, 0x5000));
        let id = b.dynamic(op(x, 0, DType::F32, &rows), op(t, 0, DType::F32, &rows));
        b.s.insts[id.index()].operands.inputs = 2;
        let index = b.s.aps[0].clone();
        b.s.aps.push(index);
        assert_eq!(codes(&b.run(&BACK))[0], "MUR0470", "an index without a vector");
        let mut b = Bench::new(Target::Trn2, 0);
        let (t, x) = (b.dram(VarKind::Internal, DType::F32, 8_192, 0), b.sbuf(DType::F32, 64, 0x5000));
        let id = b.copy(op(x, 0, DType::F32, &rows), op(t, 0, DType::F32, &rows), false);
        b.s.insts[id.index()].args.op0 = 1;
        assert_eq!(codes(&b.run(&BACK))[0], "MUR0471", "an accumulating block");
    }
}
