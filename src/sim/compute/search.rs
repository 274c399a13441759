//! Max8, match load, find, replace, and batch statistics. Facts: `spec/isa_compute.md 7`.

use super::super::numerics::{narrow, widen};
use super::{Done, On, cannot, same, state};
use murre_components::isa::*;

pub(super) fn search(on: &mut On<'_>, x: &Search) -> Done {
    use SearchOp as Op;
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    let want = match x.opcode {
        Op::Max8 | Op::FindIndex8 => 8,
        Op::BnStats => 6,
        Op::BnAggr => 2,
    };
    same("results and destination", want, d.count)?;
    for p in 0..x.channels as usize {
        let values = on.read(&v, p)?;
        match x.opcode {
            Op::Max8 => {
                let mut order: Vec<f32> = values.into_iter().filter(|v| !v.is_nan()).collect();
                order.sort_by(|a, b| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
                order.resize(8, f32::NEG_INFINITY);
                on.write(&d, p, &order)?;
            }
            Op::FindIndex8 => {
                let found = matches(on, v.partition + p, &values)?;
                let out: Vec<u64> = found.iter().map(|i| i.map_or(u64::MAX, |i| i as u64)).collect();
                on.core.memory.write_bits(&d, p, &out)?;
            }
            Op::BnStats => {
                let even: Vec<f32> = values.iter().copied().step_by(2).collect();
                let odd: Vec<f32> = values.iter().copied().skip(1).step_by(2).collect();
                let (e, o) = (welford(&even), welford(&odd));
                on.write(&d, p, &[e[0], e[1], e[2], o[0], o[1], o[2]])?;
            }
            Op::BnAggr => {
                if values.len() % 3 != 0 {
                    return Err(cannot("statistics come in triples"));
                }
                let [n, mean, m2] = values.as_chunks::<3>().0.iter().fold([0.0; 3], |a, b| chan(a, *b));
                on.write(&d, p, &if n == 0.0 { [0.0, 0.0] } else { [mean, m2 / n] })?;
            }
        }
    }
    Ok(())
}

/// Count, mean and sum of squared deviations, one element at a time.
fn welford(values: &[f32]) -> [f32; 3] {
    let [mut n, mut mean, mut m2] = [0f32; 3];
    for v in values {
        n += 1.0;
        let delta = v - mean;
        mean += delta / n;
        m2 += delta * (v - mean);
    }
    [n, mean, m2]
}

/// Merges two sets of statistics.
fn chan(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    let n = a[0] + b[0];
    if n == 0.0 {
        return [0.0; 3];
    }
    let delta = b[1] - a[1];
    [n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n]
}

pub(super) fn match_value_load(on: &mut On<'_>, x: &MatchValueLoad) -> Done {
    let v = on.view(&x.src, x.dtype, x.channels)?;
    same("match values", v.count, 8)?;
    for p in 0..x.channels as usize {
        let values = on.read(&v, p)?;
        let mut row = [0.0; 8];
        row.copy_from_slice(&values);
        on.core.matches[v.partition + p] = Some(row);
    }
    Ok(())
}

/// For each match value in order, the first equal element that no earlier one took.
fn matches(on: &On<'_>, partition: usize, values: &[f32]) -> Result<[Option<usize>; 8], super::Diagnostic> {
    let wanted = on.core.matches[partition].ok_or_else(|| state("a search without loaded match values"))?;
    let mut taken = vec![false; values.len()];
    Ok(wanted.map(|w| {
        let at = values.iter().zip(&taken).position(|(v, t)| !t && *v == w)?;
        taken[at] = true;
        Some(at)
    }))
}

pub(super) fn match_replace(on: &mut On<'_>, x: &MatchReplace8) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    for p in 0..x.channels as usize {
        let mut bits = on.bits(&v, p)?;
        let values: Vec<f32> = bits.iter().map(|b| widen(x.src_dtype, *b)).collect();
        if x.src_dtype != x.out_dtype {
            bits = values.iter().map(|v| narrow(x.out_dtype, *v)).collect();
        }
        for at in matches(on, v.partition + p, &values)?.into_iter().flatten() {
            bits[at] = narrow(x.out_dtype, x.replacement.value());
        }
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}
