//! Random numbers: one generator an engine, four lanes a partition. Facts: `spec/isa_compute.md 7`.

use super::super::core::{Lanes, POOL};
use super::{Done, On, cannot, same};
use murre_components::isa::{Dropout, Rand2, RandGetState, RandSetState};

fn lanes<'a>(on: &'a mut On<'_>, partition: usize) -> &'a mut Lanes {
    let file = if on.engine == POOL { 0 } else { 1 };
    &mut on.core.generators[file][partition & 127]
}

/// The next word of a lane of six: five words of a shift register and a Weyl counter.
fn draw(s: &mut [u32]) -> u32 {
    let [s0, s1, s2, s3, s4, d] = s else { return 0 };
    let t = *s0 ^ (*s0 >> 2);
    (*s0, *s1, *s2, *s3) = (*s1, *s2, *s3, *s4);
    *s4 = (*s4 ^ (*s4 << 4)) ^ (t ^ (t << 1));
    *d = d.wrapping_add(362_437);
    d.wrapping_add(*s4)
}

/// Words for elements `0..n` of an instruction on a partition; element `e` draws from lane `e mod 4`.
pub(super) fn words(on: &mut On<'_>, partition: usize, n: usize) -> Vec<u32> {
    let state = lanes(on, partition);
    (0..n).map(|e| draw(&mut state[e % 4 * 6..e % 4 * 6 + 6])).collect()
}

fn uniform(word: u32) -> f32 {
    f32::from_bits((word & 0x7F_FFFF) | 0x3F80_0000) - 1.0
}

pub(super) fn dropout(on: &mut On<'_>, x: &Dropout) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    let threshold = on.imm(&x.threshold, 10, x.channels)?;
    for p in 0..x.channels as usize {
        let mut bits = on.bits(&v, p)?;
        for (b, w) in bits.iter_mut().zip(words(on, v.partition + p, v.count)) {
            let u = uniform(w);
            let zero = if x.kind == 0 { u < threshold[p] } else { u > threshold[p] };
            if zero {
                *b = 0;
            }
        }
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}

pub(super) fn rand2(on: &mut On<'_>, x: &Rand2) -> Done {
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    let (min, max) = (on.imm(&x.min, 10, x.channels)?, on.imm(&x.max, 10, x.channels)?);
    for p in 0..x.channels as usize {
        let values: Vec<f32> = words(on, d.partition + p, d.count)
            .iter()
            .map(|w| min[p] + (max[p] - min[p]) * uniform(*w))
            .collect();
        on.write(&d, p, &values)?;
    }
    Ok(())
}

pub(super) fn get_state(on: &mut On<'_>, x: &RandGetState) -> Done {
    let d = on.target(&x.dst, 9, x.channels)?;
    same("state words and destination", 24, d.count)?;
    for p in 0..x.channels as usize {
        let bits: Vec<u64> = lanes(on, d.partition + p).iter().map(|w| *w as u64).collect();
        on.core.memory.write_bits(&d, p, &bits)?;
    }
    Ok(())
}

pub(super) fn set_state(on: &mut On<'_>, x: &RandSetState) -> Done {
    let v = on.view(&x.seeds, 9, x.channels)?;
    for p in 0..x.channels as usize {
        let bits = on.bits(&v, p)?;
        let words: Vec<u32> = bits.iter().map(|b| *b as u32).collect();
        *lanes(on, v.partition + p) =
            Lanes::try_from(words).map_err(|_| cannot("a generator state is 24 words"))?;
    }
    Ok(())
}
