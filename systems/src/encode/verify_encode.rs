//! The checker of the encoder. Decodes every record of every stream and every descriptor (reserved bytes, fixed bytes
//! and checked fields included), and compares it with the instruction: opcode, dtypes, address words in place, branch
//! targets inside the stream, block and queue of triggers, an exit at the end of each stream that has records, and
//! active partitions. Facts: `spec/isa_compute.md 12.1`.

use super::layout_records::RecordLayout;
use crate::columns;
use crate::route::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics, codes::lower};
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::isa::{self, Instr};
use murre_components::program::Program;

/// Opcodes that an instruction's last record may have.
fn opcodes(op: Opcode) -> &'static [u8] {
    match op {
        Opcode::Activation => &[0x21],
        Opcode::LoadActFuncSet => &[0x23],
        Opcode::Matmult => &[0x02],
        Opcode::Memset => &[0x49],
        Opcode::NoOp => &[0xA4],
        Opcode::EventSemaphore => &[0xA0],
        Opcode::GroupResetSemaphores => &[0xB0],
        Opcode::AllEngineBarrier => &[0xD5],
        Opcode::Drain => &[0xA2],
        Opcode::Reciprocal => &[0x48],
        Opcode::TensorCopy => &[0x46, 0x47],
        Opcode::TensorReduce => &[0x42, 0x52],
        Opcode::TensorScalar => &[0x43, 0x53],
        Opcode::TensorTensor => &[0x41, 0x51],
        Opcode::DmaCopy => &[0xD4],
        Opcode::CopyPredicated => &[0x72, 0x99],
        Opcode::Iota => &[0x7E],
        Opcode::Gather => &[0x68],
        Opcode::DmaTrigger => &[0xC1],
        Opcode::RegisterAlu => &[0xA8],
        Opcode::RegisterMove => &[0xA7],
        Opcode::TensorLoad => &[0xCE, 0xAA],
        Opcode::TensorSave => &[0xCD, 0xAB],
        Opcode::CompareAndBranch | Opcode::UnconditionalBranch => &[0xA9],
        Opcode::Exit => &[0xDF],
        _ => &[],
    }
}

/// The system.
pub fn verify_encode(
    insts: Query<(&InstHead, &InstOperands, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern)>,
    order: Res<Order>,
    layout: Res<RecordLayout>,
    program: Option<Res<Program>>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let Some(program) = program else { return };
    let fault = |message: String| sink.push(Diagnostic::error(&lower::ENCODE_VERIFY, message));
    for (k, stream) in program.streams.iter().enumerate() {
        let engine = EngineId::STREAMS[k].name();
        for (index, record) in stream.iter().enumerate() {
            match isa::decode(record) {
                Ok((Instr::Branch(b), _)) if b.target.0 >= stream.len() as u64 => {
                    fault(format!("{engine} record {index} branches to {} of {}", b.target.0, stream.len()));
                }
                Ok((Instr::DmaTrigger(t), _))
                    if program.blocks.get(t.block as usize).is_none_or(|b| {
                        program.queues.get(b.queue as usize).is_none_or(|q| q.name != t.queue.as_str())
                    }) =>
                {
                    fault(format!("{engine} record {index} triggers block {} on another queue", t.block));
                }
                Ok(_) => {}
                Err(d) => fault(format!(
                    "{engine} record {index} ({}): {} found {} expected {}",
                    program.provenance.streams[k]
                        .get(index)
                        .and_then(|n| program.provenance.names.get(*n as usize))
                        .unwrap_or("-"),
                    d.message,
                    d.found.unwrap_or_default(),
                    d.expected.unwrap_or_default()
                )),
            }
        }
    }
    for (index, record) in program.descriptors.iter().enumerate() {
        match isa::decode(record) {
            Ok((Instr::DmaDirect(_) | Instr::DmaExtension(_), _)) => {}
            Ok(_) => fault(format!("descriptor {index} is no DMA record")),
            Err(d) => fault(format!("descriptor {index}: {}", d.message)),
        }
    }
    for (word, site) in program.addr4.iter().zip(&program.addr4_sites) {
        let record = match site.stream {
            5 => program.descriptors.get(site.record as usize),
            s => program.streams.get(s as usize).and_then(|s| s.get(site.record as usize)),
        };
        let at = site.offset as usize;
        if record.and_then(|r| r.get(at..at + 4)) != Some(&word.to_le_bytes()[..]) {
            fault(format!("address word {word:#010x} is not at its place in record {}", site.record));
        }
    }
    let (heads, operands, from) = columns!(insts);
    let (ap, patterns) = columns!(aps);
    for &id in &order.0 {
        let row = id.index();
        let (Some(h), Some(&index)) = (heads.get(row), layout.index.get(row)) else { continue };
        let Some(stream) = h.engine.stream().filter(|_| index != u32::MAX) else { continue };
        let last = index as usize + usize::from(matches!(h.op, Opcode::Matmult | Opcode::Gather));
        let Some(record) = program.streams[stream].get(last) else { continue };
        let what = if !opcodes(h.op).contains(&record[0]) {
            format!("opcode {:#04x}", record[0])
        } else if let Some(tag) = output_tag(record)
            && operands[row].outputs > 0
            && ap.get(operands[row].output(0).index()).is_some_and(|a| a.dtype.wire_tag() != tag)
        {
            format!("output dtype {tag:#04x}")
        } else if let Some(channels) = channels(record)
            && operands[row].outputs > 0
            && patterns
                .get(operands[row].output(0).index())
                .and_then(|p| p.0.first())
                .is_some_and(|p| p.num != u32::from(channels))
        {
            format!("{channels} channels")
        } else {
            continue;
        };
        let message = format!("{} {row} was encoded with {what}", h.op.name());
        sink.push(blame(&lower::ENCODE_VERIFY, message, &module, from[row].hlo, id));
    }
}

/// The output dtype byte of a compute record.
fn output_tag(r: &[u8; 64]) -> Option<u8> {
    match r[0] {
        0x41 | 0x51 | 0x72 | 0x99 => Some(r[0x0D]),
        0x21 | 0x43 | 0x53 | 0x42 | 0x52 | 0x46 | 0x47 | 0x48 | 0x68 | 0x7E => Some(r[0x21]),
        0x49 => Some(r[0x20]),
        0x02 => Some(r[0x28]),
        0xD4 => Some(r[0x3F]),
        _ => None,
    }
}

/// The active partitions of a compute record.
fn channels(r: &[u8; 64]) -> Option<u8> {
    match r[0] {
        0x41 | 0x51 | 0x72 | 0x99 => Some(r[0x0F]),
        0x21 | 0x43 | 0x53 | 0x42 | 0x52 | 0x46 | 0x47 | 0x48 | 0x49 | 0x68 | 0x7E => Some(r[0x22]),
        _ => None,
    }
}
