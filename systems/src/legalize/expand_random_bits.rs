//! `expand_random_bits`: rng-bit-generator becomes the rounds of its generator on whole arrays of counters.
//!
//! Facts: `spec/hlo.md 7`: Threefry-2x32 has 20 rounds, Philox-4x32 has 10; the default is Philox; how counters and words
//! map to elements is what XLA's expansions do.

use super::build::{Build, Expander, expand_all};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_random_bits(mut module: ResMut<HloModule>) {
    if let Some(new) = expand_all(&module, &mut RandomBits) {
        *module = new;
    }
}

const WORD: HloType = HloType::U32;

struct RandomBits;

impl Expander for RandomBits {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::RngBitGenerator])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        let Shape::Tuple(parts) = inst.shape() else { return false };
        inst.op == HloOp::RngBitGenerator
            && parts.len() == 2
            && parts[1].array().is_some_and(|a| a.elements() < 1 << 31 && a.ty.is_int() && a.ty.bits() >= 8)
            && parts[0]
                .array()
                .is_some_and(|a| a.ty == HloType::U64 && a.rank() == 1 && matches!(a.dims[0], 2 | 3))
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let (Shape::Tuple(parts), Attrs::Rng { algorithm }) = (inst.shape(), inst.attrs()) else {
            return None;
        };
        let out = parts.get(1)?.array()?;
        if out.elements() == 0 {
            let none = b.full(out.ty, &out.dims, 0.0);
            return Some(b.tuple(&[operands[0], none]));
        }
        let words = b.dims(operands[0])[0];
        // The state as 32-bit words, low before high.
        let raw = b.op(HloOp::BitcastConvert, WORD, &[words, 2], &[operands[0]], Attrs::None);
        let state: Vec<HloId> = (0..2 * words)
            .map(|k| {
                let one = b.slice(raw, &[k / 2, k % 2], &[k / 2 + 1, k % 2 + 1], &[1, 1]);
                b.reshape(one, &[])
            })
            .collect();
        let (bits, next) = if *algorithm == 1 {
            three_fry(b, &state, out.ty, &out.dims)
        } else {
            philox(b, &state, out.ty, &out.dims)
        };
        let next: Vec<HloId> = next.iter().map(|w| b.reshape(*w, &[1])).collect();
        let next = b.concatenate(&next, 0);
        let next = b.reshape(next, &[words, 2]);
        let next = b.op(HloOp::BitcastConvert, HloType::U64, &[words], &[next], Attrs::None);
        Some(b.tuple(&[next, bits]))
    }
}

/// `x` rotated left.
fn rotate(b: &mut Build<'_>, x: HloId, by: i64) -> HloId {
    let left = b.with_int(HloOp::ShiftLeft, x, by);
    let right = b.with_int(HloOp::ShiftRightLogical, x, 32 - by);
    b.binary(HloOp::Or, left, right)
}

/// 64-bit `counter + i` in halves, `i` below 2^32.
fn counted(b: &mut Build<'_>, low: HloId, high: HloId, i: HloId) -> [HloId; 2] {
    let sum = b.binary(HloOp::Add, low, i);
    let carry = b.compare(Direction::Lt, sum, low);
    let carry = b.convert(carry, WORD);
    [sum, b.binary(HloOp::Add, high, carry)]
}

/// The words of a 64-bit result: a new last dimension of two becomes one element.
fn paired(b: &mut Build<'_>, low: HloId, high: HloId, ty: HloType, dims: &[i64]) -> HloId {
    let mut halves = dims.to_vec();
    halves.push(1);
    let parts = [b.reshape(low, &halves), b.reshape(high, &halves)];
    let both = b.concatenate(&parts, dims.len());
    b.op(HloOp::BitcastConvert, ty, dims, &[both], Attrs::None)
}

fn three_fry(b: &mut Build<'_>, state: &[HloId], ty: HloType, dims: &[i64]) -> (HloId, Vec<HloId>) {
    const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let wide = ty.bits() == 64;
    // Of 32-bit results the two words of a counter are neighbours along the first even dimension, or the longest one.
    let even = dims.iter().position(|d| d % 2 == 0);
    let longest = (0..dims.len()).rev().max_by_key(|d| dims[*d]);
    let split = if wide { None } else { even.or(longest) };
    let mut half = dims.to_vec();
    if let Some(d) = split {
        half[d] = (half[d] + 1) / 2;
    }
    let count: i64 = half.iter().product();
    let i = b.iota(WORD, &[count], 0);
    let i = b.reshape(i, &half);
    let spread = |b: &mut Build<'_>, x: HloId| b.spread(x, &half);
    let (low, high) = (spread(b, state[2]), spread(b, state[3]));
    let [mut x, mut y] = counted(b, low, high, i);
    let mixed = b.binary(HloOp::Xor, state[0], state[1]);
    let third = b.with_int(HloOp::Xor, mixed, 0x1bd1_1bda);
    let keys = [spread(b, state[0]), spread(b, state[1]), spread(b, third)];
    x = b.binary(HloOp::Add, x, keys[0]);
    y = b.binary(HloOp::Add, y, keys[1]);
    for round in 0..5usize {
        for by in ROTATIONS[round % 2] {
            x = b.binary(HloOp::Add, x, y);
            let turned = rotate(b, y, by);
            y = b.binary(HloOp::Xor, turned, x);
        }
        x = b.binary(HloOp::Add, x, keys[(round + 1) % 3]);
        y = b.binary(HloOp::Add, y, keys[(round + 2) % 3]);
        y = b.with_int(HloOp::Add, y, round as i64 + 1);
    }
    let bits = match split {
        _ if wide => paired(b, x, y, ty, dims),
        None => b.convert(x, ty),
        Some(d) => {
            let mut stacked = half.clone();
            stacked.insert(d + 1, 1);
            let parts = [b.reshape(x, &stacked), b.reshape(y, &stacked)];
            let both = b.concatenate(&parts, d + 1);
            let mut double = half.clone();
            double[d] *= 2;
            let flat = b.reshape(both, &double);
            let cut = b.slice_dim(flat, d, 0, dims[d], 1);
            b.convert(cut, ty)
        }
    };
    let used = b.integer(WORD, count);
    let [low, high] = counted(b, state[2], state[3], used);
    (bits, vec![state[0], state[1], low, high])
}

/// High and low word of a 32-bit product.
fn product(b: &mut Build<'_>, x: HloId, by: u32) -> [HloId; 2] {
    let (by_low, by_high) = (i64::from(by & 0xFFFF), i64::from(by >> 16));
    let low = b.with_int(HloOp::And, x, 0xFFFF);
    let high = b.with_int(HloOp::ShiftRightLogical, x, 16);
    let ll = b.with_int(HloOp::Multiply, low, by_low);
    let lh = b.with_int(HloOp::Multiply, low, by_high);
    let hl = b.with_int(HloOp::Multiply, high, by_low);
    let hh = b.with_int(HloOp::Multiply, high, by_high);
    // middle = hl + (ll >> 16) + (lh & 0xFFFF): below 2^32.
    let carry = b.with_int(HloOp::ShiftRightLogical, ll, 16);
    let cut = b.with_int(HloOp::And, lh, 0xFFFF);
    let middle = b.binary(HloOp::Add, hl, carry);
    let middle = b.binary(HloOp::Add, middle, cut);
    let up = b.with_int(HloOp::ShiftRightLogical, lh, 16);
    let top = b.with_int(HloOp::ShiftRightLogical, middle, 16);
    let sum = b.binary(HloOp::Add, hh, up);
    [b.binary(HloOp::Add, sum, top), b.with_int(HloOp::Multiply, x, i64::from(by))]
}

fn philox(b: &mut Build<'_>, state: &[HloId], ty: HloType, dims: &[i64]) -> (HloId, Vec<HloId>) {
    let n: i64 = dims.iter().product();
    let wanted = if ty.bits() == 64 { 2 * n } else { n };
    let blocks = (wanted + 3) / 4;
    // A state of two words has the key in the counter's upper half too.
    let upper = if state.len() > 4 { [state[4], state[5]] } else { [state[0], state[1]] };
    let add = |b: &mut Build<'_>, i: HloId, spread: &dyn Fn(&mut Build<'_>, HloId) -> HloId| {
        let (low, high) = (spread(b, state[2]), spread(b, state[3]));
        let [x0, x1] = counted(b, low, high, i);
        let below = b.compare(Direction::Lt, x1, high);
        let carry = b.convert(below, WORD);
        let (u0, u1) = (spread(b, upper[0]), spread(b, upper[1]));
        let [x2, x3] = counted(b, u0, u1, carry);
        [x0, x1, x2, x3]
    };
    let i = b.iota(WORD, &[blocks], 0);
    let across = |b: &mut Build<'_>, x: HloId| b.spread(x, &[blocks]);
    let mut x = add(b, i, &across);
    let (mut k0, mut k1) = (across(b, state[0]), across(b, state[1]));
    for _ in 0..10 {
        let [a_high, a_low] = product(b, x[0], 0xd251_1f53);
        let [b_high, b_low] = product(b, x[2], 0xcd9e_8d57);
        let first = b.binary(HloOp::Xor, b_high, x[1]);
        let third = b.binary(HloOp::Xor, a_high, x[3]);
        x = [b.binary(HloOp::Xor, first, k0), b_low, b.binary(HloOp::Xor, third, k1), a_low];
        k0 = b.with_int(HloOp::Add, k0, 0x9e37_79b9);
        k1 = b.with_int(HloOp::Add, k1, 0xbb67_ae85);
    }
    let columns: Vec<HloId> = x.iter().map(|w| b.reshape(*w, &[blocks, 1])).collect();
    let all = b.concatenate(&columns, 1);
    let all = b.reshape(all, &[blocks * 4]);
    let cut = b.slice_dim(all, 0, 0, wanted, 1);
    let bits = if ty.bits() == 64 {
        let pairs = b.reshape(cut, &[n, 2]);
        let words = b.op(HloOp::BitcastConvert, ty, &[n], &[pairs], Attrs::None);
        b.reshape(words, dims)
    } else {
        let shaped = b.reshape(cut, dims);
        b.convert(shaped, ty)
    };
    let used = b.integer(WORD, blocks);
    let same = |_: &mut Build<'_>, x: HloId| x;
    let counter = add(b, used, &same);
    let mut next = vec![state[0], state[1]];
    next.extend(&counter[..state.len() - 2]);
    (bits, next)
}
