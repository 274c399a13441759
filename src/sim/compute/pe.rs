//! LoadStationary (01) and MultiplyMoving (02): the systolic array. Facts: `spec/isa_compute.md 3`.
//! Sums run over k ascending, product and sum rounded to fp32 each; PSUM follows the pending-bit model.

use super::super::memory::Region;
use super::super::numerics::round_fp32r;
use super::{Done, On, cannot, state};
use murre_components::isa::codes::PSUM_START;
use murre_components::isa::{LoadStationary, MultiplyMoving};

fn group(start: usize, size: usize) -> u8 {
    match size {
        0..=32 => 1 << (start / 32),
        33..=64 if start == 0 => 0x03,
        33..=64 => 0x0C,
        _ => 0x0F,
    }
}

fn operand(mode: u8, v: f32) -> f32 {
    if mode == 2 { round_fp32r(v) } else { v }
}

pub(super) fn load_stationary(on: &mut On<'_>, x: &LoadStationary) -> Done {
    let v = on.view(&x.weights, x.dtype, x.rows)?;
    if v.region != Region::Sbuf || v.count != x.columns as usize {
        return Err(cannot(format!("weights of {} columns in SBUF expected, found {}", x.columns, v.count)));
    }
    if x.row_group != group(v.partition, x.rows as usize) {
        return Err(cannot(format!("row group {:#x} does not match the weights' partitions", x.row_group)));
    }
    let first = 32 * x.column_group.trailing_zeros().min(3) as usize;
    if first + x.columns as usize > 128 {
        return Err(cannot("the column group has no room for the columns"));
    }
    for k in 0..x.rows as usize {
        let values = on.read(&v, k)?;
        let at = (v.partition + k) * 128 + first;
        for (m, value) in values.iter().enumerate() {
            on.core.weights.values[at + m] = operand(x.fp32_mode, *value);
            on.core.weights.loaded[at + m] = true;
        }
    }
    on.core.weights.shape = Some((x.rows, x.columns, x.row_group, x.column_group, x.transpose));
    Ok(())
}

pub(super) fn multiply_moving(on: &mut On<'_>, x: &MultiplyMoving) -> Done {
    let wanted = (x.rows, x.columns, x.row_group, x.column_group, x.transpose);
    if on.core.weights.shape != Some(wanted) {
        return Err(state(format!(
            "the weights in force have (K, M, row group, column group, transpose) {:?}, the multiply has {wanted:?}",
            on.core.weights.shape
        )));
    }
    let v = on.view(&x.moving, x.dtype, x.rows)?;
    let out_tag = if x.out_dtype == 0 { 10 } else { x.out_dtype };
    let d = on.view(&x.dst, out_tag, x.columns)?;
    if v.region != Region::Sbuf || d.region != Region::Psum || out_tag != 10 {
        return Err(cannot("a multiply reads SBUF and writes fp32 to PSUM"));
    }
    let n = v.count;
    super::same("moving and destination", n, d.count)?;
    if n > 512 {
        return Err(cannot(format!("{n} moving columns; at most 512")));
    }
    let offsets: Vec<u32> = d.runs.iter().flat_map(|r| (0..d.run as u32).map(move |i| r + 4 * i)).collect();
    let bank = |o: &u32| o / 2048;
    let first_bank = offsets.first().map_or(0, bank);
    if offsets.iter().any(|o| bank(o) != first_bank) {
        return Err(cannot("the destination crosses a PSUM bank"));
    }
    let column = 32 * x.column_group.trailing_zeros().min(3) as usize;
    if x.column_group != 0x0F && column != d.partition {
        return Err(cannot("the destination's partitions do not match the column group"));
    }
    let (k_count, m_count) = (x.rows as usize, x.columns as usize);
    let mut moving = Vec::with_capacity(k_count);
    for k in 0..k_count {
        let mut row = on.read(&v, k)?;
        row.iter_mut().for_each(|r| *r = operand(x.fp32_mode, *r));
        moving.push(row);
    }
    if (0..k_count).any(|k| {
        let at = (v.partition + k) * 128 + column;
        on.core.weights.loaded[at..at + m_count].iter().any(|l| !l)
    }) {
        return Err(state("the multiply uses weights that were not loaded on these rows"));
    }
    if x.psum & PSUM_START != 0 {
        let offset = first_bank as usize * 2048;
        on.core.memory.start_group(d.partition, m_count, offset, x.zero_region);
    }
    if x.transpose != 0 {
        if x.psum != 3 {
            return Err(cannot("a transpose is one START and STOP group"));
        }
        // Every moving column selects exactly one row of the weights.
        for (i, offset) in offsets.iter().enumerate() {
            let mut hot = (0..k_count).filter(|k| moving[*k][i].to_bits() != 0);
            let k = match (hot.next(), hot.next()) {
                (Some(k), None) if moving[k][i] == 1.0 => k,
                _ => return Err(cannot(format!("moving column {i} of a transpose is not a unit vector"))),
            };
            for m in 0..m_count {
                let at = on.core.memory.flat(Region::Psum, d.partition + m, *offset as usize);
                let w = on.core.weights.values[(v.partition + k) * 128 + column + m];
                on.core.memory.accumulate(at, w)?;
            }
        }
        return Ok(());
    }
    let mut sums = vec![0f32; n];
    for m in 0..m_count {
        sums.fill(0.0);
        for (k, row) in moving.iter().enumerate() {
            let w = on.core.weights.values[(v.partition + k) * 128 + column + m];
            for (s, value) in sums.iter_mut().zip(row) {
                *s += w * *value;
            }
        }
        for (s, offset) in sums.iter().zip(&offsets) {
            let at = on.core.memory.flat(Region::Psum, d.partition + m, *offset as usize);
            on.core.memory.accumulate(at, *s)?;
        }
    }
    Ok(())
}
