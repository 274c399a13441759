//! rng-bit-generator: Threefry-2x32 and Philox-4x32 as XLA expands them. Facts: `spec/hlo.md 7`.

use super::places::{count, count_up, strides};

/// 20 rounds of Threefry-2x32.
fn threefry([k0, k1]: [u32; 2], [mut x, mut y]: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [k0, k1, 0x1bd1_1bda ^ k0 ^ k1];
    x = x.wrapping_add(keys[0]);
    y = y.wrapping_add(keys[1]);
    for round in 0..5u32 {
        for rotation in ROTATIONS[round as usize % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(keys[(round as usize + 1) % 3]);
        y = y.wrapping_add(keys[(round as usize + 2) % 3]).wrapping_add(round + 1);
    }
    [x, y]
}

/// 10 rounds of Philox-4x32.
fn philox([mut k0, mut k1]: [u32; 2], mut x: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xd251_1f53;
        let b = u64::from(x[2]) * 0xcd9e_8d57;
        x = [(b >> 32) as u32 ^ x[1] ^ k0, b as u32, (a >> 32) as u32 ^ x[3] ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    x
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// `n` values of `bits` bits and the new state; `algorithm` as in the proto (0 default, 1 three_fry, 2 philox).
pub(crate) fn bits(algorithm: u8, state: &[u64], bits: u32, dims: &[usize]) -> (Vec<u64>, Vec<u64>) {
    let n = count(dims);
    let key = halves(state.first().copied().unwrap_or(0));
    // The default of XLA:CPU is Philox.
    if algorithm == 1 {
        return three_fry_bits(key, state, bits, dims);
    }
    // A state of two words has the key in the counter's upper half too, as XLA reads it.
    let word = |i: usize| u128::from(state.get(i).or(state.first()).copied().unwrap_or(0));
    let mut counter = word(1) | word(2) << 64;
    let mut words = Vec::new();
    let wanted = if bits == 64 { 2 * n } else { n };
    while words.len() < wanted {
        let [low, high] = [counter as u64, (counter >> 64) as u64];
        words.extend(philox(key, [halves(low)[0], halves(low)[1], halves(high)[0], halves(high)[1]]));
        counter = counter.wrapping_add(1);
    }
    let values = match bits {
        64 => words.chunks_exact(2).take(n).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32).collect(),
        _ => words.into_iter().take(n).map(u64::from).collect(),
    };
    let mut next = vec![state.first().copied().unwrap_or(0), counter as u64, (counter >> 64) as u64];
    next.truncate(state.len());
    (values, next)
}

/// A 64-bit value takes the two words of one counter. Of narrower values, the two words of a counter are neighbours
/// along the first even dimension, or along the longest one when all are odd; counters run over the halved shape.
fn three_fry_bits(key: [u32; 2], state: &[u64], bits: u32, dims: &[usize]) -> (Vec<u64>, Vec<u64>) {
    let start = state.get(1).copied().unwrap_or(0);
    let words = |i: u64| threefry(key, halves(start.wrapping_add(i)));
    let n = count(dims);
    if bits == 64 {
        let values = (0..n as u64).map(words).map(|[x, y]| u64::from(x) | u64::from(y) << 32).collect();
        return (values, vec![state.first().copied().unwrap_or(0), start.wrapping_add(n as u64)]);
    }
    let even = dims.iter().position(|d| d % 2 == 0);
    let longest = (0..dims.len()).rev().max_by_key(|d| dims[*d]);
    let split = even.or(longest);
    let mut half = dims.to_vec();
    if let Some(d) = split {
        half[d] = half[d].div_ceil(2);
    }
    let steps = strides(&half);
    let mut values = Vec::with_capacity(n);
    let mut index = vec![0; dims.len()];
    for _ in 0..n {
        let place = |d: usize| if Some(d) == split { index[d] / 2 } else { index[d] };
        let counter: usize = (0..dims.len()).map(|d| place(d) * steps[d]).sum();
        values.push(u64::from(words(counter as u64)[split.map_or(0, |d| index[d] % 2)]));
        count_up(&mut index, dims);
    }
    let used = count(&half);
    (values, vec![state.first().copied().unwrap_or(0), start.wrapping_add(used as u64)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Vectors of the Random123 distribution.
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(philox([0, 0], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }
}
