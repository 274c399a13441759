//! Copies, fills, selects, iota and the `S4D4_TR` family (reduce, copy, cast, reciprocal, shuffle, transpose).
//! Facts: `spec/isa_compute.md 6.1, 6.2, 6.5..6.9`.

use super::super::core::ACT;
use super::super::memory::{Region, View};
use super::super::numerics::{alu as raw_alu, narrow, widen, width};
use super::{Done, On, cannot, reduce, same, state};
use murre_components::diag::Diagnostic;
use murre_components::isa::*;

/// A source that may be a gather: its bits for partition `p`.
enum Source {
    Strided(View),
    Gather { index: View, data: View },
}

impl Source {
    fn new(on: &On<'_>, operand: &Operand<4>, tag: u8, channels: u8) -> Result<Source, Diagnostic> {
        Ok(match operand {
            Operand::Pattern(t) => Source::Strided(on.view(t, tag, channels)?),
            Operand::Gather(g) => {
                let base =
                    Addr4::physical(g.index.address().unwrap_or(0) as u64).map_err(Diagnostic::from)?;
                let index = Tensor::<1> { addr: base, step: [1], num: [g.count] };
                let data = on.view(&Tensor::<1>::point(g.data), tag, channels)?;
                Source::Gather { index: on.view(&index, 5, channels)?, data }
            }
        })
    }

    fn count(&self) -> usize {
        match self {
            Source::Strided(v) => v.count,
            Source::Gather { index, .. } => index.count,
        }
    }

    fn bits(&self, on: &On<'_>, p: usize) -> Result<Vec<u64>, Diagnostic> {
        match self {
            Source::Strided(v) => on.bits(v, p),
            Source::Gather { index, data } => {
                let size = width(data.tag);
                let memory = &on.core.memory;
                let base = data.runs.first().copied().unwrap_or(0) as usize;
                let limit = if data.region == Region::Psum {
                    super::super::memory::PSUM_PARTITION_BYTES
                } else {
                    memory.active
                };
                let element = |i: u64| {
                    let offset = base + i as usize * size;
                    if offset + size > limit {
                        return Err(super::super::memory::range_fault(format!(
                            "gather index {i} leaves the partition"
                        )));
                    }
                    let at = memory.flat(data.region, data.partition + p, offset);
                    Ok(super::super::numerics::load(memory.read(data.region, at, size)?))
                };
                on.bits(index, p)?.into_iter().map(element).collect()
            }
        }
    }
}

pub(super) fn tensor_reduce_family(on: &mut On<'_>, x: &TensorReduce) -> Done {
    use TensorReduceOp as Op;
    let Operand::Pattern(dst) = &x.dst else {
        return Err(cannot("a gather operand is no destination"));
    };
    let source = Source::new(on, &x.src, x.src_dtype, x.channels)?;
    let d = on.target(dst, x.out_dtype, x.channels)?;
    match x.opcode {
        Op::TensorReduce | Op::TensorReduceBitvec => return reduce::tensor_reduce(on, x, &d),
        Op::StreamShuffle => return shuffle(on, x, &source, &d),
        Op::StreamTranspose => return transpose(on, x, &source, &d),
        Op::Copy | Op::Cast | Op::Reciprocal => {}
    }
    same("source and destination", source.count(), d.count)?;
    for p in 0..x.channels as usize {
        let mut bits = source.bits(on, p)?;
        match x.opcode {
            // Only the scalar engine's data path is fp32; elsewhere a copy moves bits.
            Op::Copy if on.engine != ACT => {}
            Op::Reciprocal => {
                bits.iter_mut().for_each(|b| *b = narrow(x.out_dtype, 1.0 / widen(x.src_dtype, *b)));
            }
            _ => bits.iter_mut().for_each(|b| {
                let same_float = x.src_dtype == x.out_dtype && !matches!(x.src_dtype, 8 | 9);
                *b = if same_float { *b } else { narrow(x.out_dtype, widen(x.src_dtype, *b)) };
            }),
        }
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}

fn shuffle(on: &mut On<'_>, x: &TensorReduce, source: &Source, d: &View) -> Done {
    let mask = on.core.mask.ok_or_else(|| state("a shuffle without a loaded mask"))?;
    same("source and destination", source.count(), d.count)?;
    let rows = (0..x.channels as usize).map(|p| source.bits(on, p)).collect::<Result<Vec<_>, _>>()?;
    for p in 0..x.channels as usize {
        match mask[p % 32] {
            255 => {}
            m => match rows.get(p / 32 * 32 + m as usize) {
                Some(row) => on.core.memory.write_bits(d, p, row)?,
                None => return Err(cannot(format!("mask byte {m}"))),
            },
        }
    }
    Ok(())
}

fn transpose(on: &mut On<'_>, x: &TensorReduce, source: &Source, d: &View) -> Done {
    same("source and destination", source.count(), d.count)?;
    if !x.channels.is_multiple_of(32) || !d.count.is_multiple_of(32) {
        return Err(cannot("a stream transpose works on blocks of 32 by 32"));
    }
    let rows = (0..x.channels as usize).map(|p| source.bits(on, p)).collect::<Result<Vec<_>, _>>()?;
    for p in 0..x.channels as usize {
        let band = p / 32 * 32;
        let out: Vec<u64> = (0..d.count).map(|f| rows[band + f % 32][f / 32 * 32 + p % 32]).collect();
        on.core.memory.write_bits(d, p, &out)?;
    }
    Ok(())
}

pub(super) fn memset(on: &mut On<'_>, x: &Memset) -> Done {
    let d = on.target(&x.dst, x.dtype, x.channels)?;
    same("count and destination", x.count as usize, d.count)?;
    for p in 0..x.channels as usize {
        let bits = if x.opcode == MemsetOp::Rng {
            super::random::words(on, d.partition + p, d.count).iter().map(|w| *w as u64).collect()
        } else {
            vec![x.value as u64; d.count]
        };
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}

/// `base + sum idx * step` over the pattern, slot 0 fastest, wrapping.
fn pattern(base: i32, steps: [i16; 4], counts: [u16; 4]) -> Vec<i32> {
    let t = Tensor::<4> { addr: Addr4::ZERO, step: steps, num: counts };
    if t.elements() > 1 << 20 {
        return Vec::new();
    }
    t.offsets().map(|o| base.wrapping_add(o as i32)).collect()
}

pub(super) fn iota(on: &mut On<'_>, x: &Iota) -> Done {
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    let values = pattern(x.base, x.steps, x.counts);
    same("pattern and destination", values.len(), d.count)?;
    for p in 0..x.channels as usize {
        let lane = (p as i32).wrapping_mul(x.multiplier);
        let bits: Vec<u64> =
            values
                .iter()
                .map(|v| v.wrapping_add(lane))
                .map(|v| {
                    if matches!(x.out_dtype, 8 | 9) { v as u32 as u64 } else { narrow(x.out_dtype, v as f32) }
                })
                .collect();
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}

pub(super) fn affine_select(on: &mut On<'_>, x: &AffineSelect) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    let mask = pattern(x.base, x.steps, x.counts);
    same("pattern and source", mask.len(), v.count)?;
    same("source and destination", v.count, d.count)?;
    let fill = f32::from_bits(on.core.registers[on.engine].get(x.fill)?);
    for p in 0..x.channels as usize {
        let lane = (p as i32).wrapping_mul(x.multiplier);
        let mut values = on.read(&v, p)?;
        for (e, m) in values.iter_mut().zip(&mask) {
            let m = m.wrapping_add(lane);
            let keep = match x.compare {
                0 => m > 0,
                1 => m >= 0,
                2 => m == 0,
                3 => m != 0,
                other => return Err(cannot(format!("affine compare {other}"))),
            };
            if !keep {
                *e = fill;
            }
        }
        on.write(&d, p, &values)?;
    }
    Ok(())
}

pub(super) fn range_select(on: &mut On<'_>, x: &RangeSelect) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    let (b0, b1) = (on.imm(&x.bound0, 10, x.channels)?, on.imm(&x.bound1, 10, x.channels)?);
    let holds = |op: u8, a: f32, b: f32| {
        raw_alu(op, a, b).map(|r| r != 0.0).ok_or_else(|| cannot(format!("range compare {op:02x}")))
    };
    for p in 0..x.channels as usize {
        let mut values = on.read(&v, p)?;
        on.begin(x.cmd, v.partition + p, f32::NEG_INFINITY, 0.0);
        for (i, e) in values.iter_mut().enumerate() {
            let at = x.base.value() + i as f32;
            if !(holds(x.cmp0, at, b0[p])? && holds(x.cmp1, at, b1[p])?) {
                *e = x.fill.value();
            }
            if x.cmd >= 2 {
                let acc = on.accumulator(v.partition + p);
                *acc = if *acc > *e { *acc } else { *e };
            }
        }
        on.write(&d, p, &values)?;
    }
    Ok(())
}

pub(super) fn predicated_scalar(on: &mut On<'_>, x: &CopyPredicatedScalar) -> Done {
    let v = on.view(&x.predicate, x.predicate_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("predicate and destination", v.count, d.count)?;
    let values = on.imm_bits(&x.value, x.in_dtype, x.channels)?;
    for p in 0..x.channels as usize {
        // A literal is fp32 (2.2) and is cast; a register or a pointer holds an element already.
        let value = match x.value {
            Imm::Literal(b) => narrow(x.out_dtype, f32::from_bits(b)),
            _ => values[p],
        };
        let out: Vec<_> =
            on.bits(&v, p)?.iter().map(|t| ((*t != 0) == (x.reversed != 0)).then_some(value)).collect();
        on.core.memory.write_some(&d, p, &out)?;
    }
    Ok(())
}
