//! Layouts of the matrix engine, of reductions, searches, statistics, generators and fills: one declaration each.
//! Facts: `spec/isa_compute.md 3, 6, 7, 8, 12.2`. Dtypes and operators are wire bytes.

use super::codes::*;
use super::field::{F32Bits, Imm, Kind, Role::*, at, imm, layout};
use super::tensor::Tensor;

layout! {
    /// LW: loads `K` rows of `M` weights into the matrix unit.
    LoadStationary = 0x01 {
        weights: Tensor<3> = at(0x10), Kind::Tensor(at(0x20), Source);
        dtype: u8 = at(0x20), Kind::Carried;
        fp32_mode: u8 = at(0x21), Kind::Names(FP32_MODE);
        transpose: u8 = at(0x22), Kind::Uint;
        rows: u8 = at(0x26), Kind::Uint;
        columns: u8 = at(0x27), Kind::Uint;
        row_group: u8 = at(0x2C), Kind::Hex;
        column_group: u8 = at(0x2D), Kind::Hex;
    }
}

layout! {
    /// MM: streams the moving operand through the loaded weights into PSUM.
    MultiplyMoving = 0x02 {
        moving: Tensor<3> = at(0x10), Kind::Tensor(at(0x20), Source);
        dtype: u8 = at(0x20), Kind::Carried;
        fp32_mode: u8 = at(0x21), Kind::Names(FP32_MODE);
        transpose: u8 = at(0x22), Kind::Uint;
        rows: u8 = at(0x26), Kind::Uint;
        columns: u8 = at(0x27), Kind::Uint;
        /// 0 or fp32.
        out_dtype: u8 = at(0x28), Kind::Carried;
        psum: u8 = at(0x2B), Kind::Names(PSUM);
        row_group: u8 = at(0x2C), Kind::Hex;
        column_group: u8 = at(0x2D), Kind::Hex;
        zero_region: u8 = at(0x2F), Kind::Uint;
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x28), Destination);
    }
}

layout! {
    /// MSK: the 32 mask bytes of the next shuffle.
    LoadMaskSelect = 0x69 {
        mask: [u8; 32] = at(0x20), Kind::Bytes;
    }
}

layout! {
    /// PL: max or average over the innermost dims.
    Pool = 0x45 {
        src: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        kind: u8 = at(0x24), Kind::Names(POOL_KIND);
        axis: u8 = at(0x25), Kind::Names(AXIS);
        scale: F32Bits = at(0x28), Kind::Float;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// CR: reduces across partitions.
    CrossReduce: CrossReduceOp { CrossReduce = 0x7C, CrossReduceBitvec = 0x7D } {
        src: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        op: u8 = at(0x23), Kind::Names(CROSS_OP);
        axis: u8 = at(0x24), Kind::Names(CROSS_AXIS);
        scale: F32Bits = at(0x28), Kind::Float;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// MR: fills with a bit pattern, or with random bits.
    Memset: MemsetOp { Memset = 0x49, Rng = 0x4D } {
        count: u32 = at(0x1C), Kind::Uint;
        dtype: u8 = at(0x20), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        value: u32 = at(0x28), Kind::Hex;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x20), Destination);
    }
}

layout! {
    /// IOTA: `base + p * multiplier + sum(idx * step)`.
    Iota = 0x7E {
        base: i32 = at(0x0C), Kind::Int;
        steps: [i16; 4] = at(0x10), Kind::Steps16;
        counts: [u16; 4] = at(0x18), Kind::Counts;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        multiplier: i32 = at(0x24), Kind::Int;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// BN: statistics, their aggregation, the eight largest, and the indices of matches.
    Search: SearchOp { BnStats = 0x61, BnAggr = 0x62, Max8 = 0x6C, FindIndex8 = 0x6E } {
        src: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        even: F32Bits = at(0x28), Kind::Float;
        odd: F32Bits = at(0x2C), Kind::Float;
        dst: Tensor<2> = at(0x30), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// MVL: loads the eight match values.
    MatchValueLoad = 0x6D {
        src: Tensor<2> = at(0x10), Kind::Tensor(at(0x20), Source);
        dtype: u8 = at(0x20), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
    }
}

layout! {
    /// MR2: copies with matches replaced.
    MatchReplace8 = 0x6F {
        src: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        replacement: F32Bits = at(0x28), Kind::Float;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// PB: loads the pool buffer that a gather reads.
    PoolBufferLoad = 0x67 {
        src: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        dtype: u8 = at(0x20), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        start: u32 = at(0x28), Kind::Uint;
        mask: u32 = at(0x2C), Kind::Hex;
    }
}

layout! {
    /// GT: gathers from the pool buffer.
    GatherBuffer = 0x68 {
        index: Tensor<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        index_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        miss: u8 = at(0x24), Kind::Names(MISS);
        free_buffer: u8 = at(0x25), Kind::Uint;
        immediate: u32 = at(0x28), Kind::Hex;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// R2: uniform random numbers in `[min, max)` (generation 4).
    Rand2 = 0xE2 {
        out_dtype: u8 = at(0x20), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        min: Imm<u32> = imm(0x28, 0x26), Kind::Imm(false);
        max: Imm<u32> = imm(0x2C, 0x27), Kind::Imm(false);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x20), Destination);
    } fixed { 0x0C = 3, 0x0E = 1 }
}

layout! {
    /// RG: stores the generator's 24 words.
    RandGetState = 0x77 {
        channels: u8 = at(0x22), Kind::Uint;
        dst: Tensor<4> = at(0x2C), Kind::Tensor(at(0x20), Destination);
    } fixed { 0x0C = 3, 0x0F = 1, 0x20 = 9 }
}

layout! {
    /// RSS: loads the generator's 24 words.
    RandSetState = 0x78 {
        seeds: Tensor<1> = at(0x20), Kind::Tensor(at(0x28), Source);
        channels: u8 = at(0x2A), Kind::Uint;
    } fixed { 0x0C = 3, 0x10 = 1, 0x18 = 1, 0x28 = 9 }
}
