//! Layouts of elementwise, activation and copy instructions: one declaration each. Facts: `spec/isa_compute.md 4, 5,
//! 6, 12.2`. Dtypes and operators are wire bytes.

use super::act;
use super::alu::NAMES as ALU;
use super::codes::*;
use super::field::{Bias, Imm, Kind, Role::*, at, high, imm, layout, low};
use super::tensor::{Operand, Tensor};

layout! {
    /// AC: `y = f(scale * x + bias; alpha)` on ACT.
    Activate = 0x21 {
        cmd: u8 = at(0x0E), Kind::Names(CMD);
        src: Tensor<3> = at(0x10), Kind::Tensor(low(0x20), Source);
        src_dtype: u8 = low(0x20), Kind::Carried;
        bias_dtype: u8 = high(0x20), Kind::Dtype;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        func: u8 = at(0x23), Kind::Names(act::NAMES);
        scale: Imm<u32> = imm(0x24, 0x0D), Kind::Imm(false);
        bias: Bias = imm(0x28, 0x0F), Kind::Imm(true);
        alpha: Imm<u32> = imm(0x2C, 0x0C), Kind::Imm(false);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// ATL: makes a table set resident.
    LoadActFuncSet = 0x23 {
        set: u8 = at(0x23), Kind::Uint;
    }
}

layout! {
    /// RD: writes the engine's accumulator, one element per partition.
    ReadAccumulator: ReadAccumulatorOp { ActReadAccumulator = 0x24, DveReadAccumulator = 0x9B } {
        out_dtype: u8 = at(0x20), Kind::Carried;
        negate: u8 = at(0x21), Kind::Uint;
        channels: u8 = at(0x22), Kind::Uint;
        dst: Tensor<1> = at(0x2C), Kind::Tensor(at(0x20), Destination);
    } fixed { 0x1C = 1 }
}

layout! {
    /// TS: `(x op0 imm0) op1 imm1`, plain, folding into the accumulator, or cumulative.
    TensorScalar: TensorScalarOp {
        TensorScalar = 0x43, TensorScalarBitvec = 0x53, TensorScalarReduce = 0x9A, TensorScalarCumulative = 0xE6,
    } {
        cmd: u8 = at(0x0C), Kind::Names(CMD);
        src: Tensor<3> = at(0x10), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        op0: u8 = at(0x24), Kind::Names(ALU);
        op1: u8 = at(0x25), Kind::Names(ALU);
        reverse: u8 = at(0x26), Kind::Names(REVERSE);
        imm0: Imm<u32> = imm(0x28, 0x23), Kind::Imm(false);
        imm1: Imm<u32> = imm(0x2C, 0x27), Kind::Imm(false);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// TT: `src0 op src1`; for the predicated copies src0 is the predicate and src1 the data.
    TensorTensor: TensorTensorOp {
        TensorTensor = 0x41, TensorTensorBitvec = 0x51, CopyPredicated = 0x72, CopyPredicatedCast = 0x99,
    } {
        src0_dtype: u8 = low(0x0C), Kind::Carried;
        src1_dtype: u8 = high(0x0C), Kind::Carried;
        out_dtype: u8 = at(0x0D), Kind::Carried;
        op: u8 = at(0x0E), Kind::Names(ALU);
        channels: u8 = at(0x0F), Kind::Uint;
        src0: Tensor<3> = at(0x10), Kind::Tensor(low(0x0C), Source);
        src1: Tensor<3> = at(0x20), Kind::Tensor(high(0x0C), Source);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x0D), Destination);
    }
}

layout! {
    /// STT: `(src0 op0 imm0) op1 src1`, the scan recurrence, or a select that reduces.
    ScalarTensorTensor: ScalarTensorTensorOp {
        ScalarTensorTensor = 0x9D, ScalarTensorTensorBitvec = 0x9E, TensorTensorScan = 0xE5, SelectReduce = 0xEA,
    } {
        src0: Tensor<2> = at(0x0C), Kind::Tensor(low(0x28), Source);
        src1: Tensor<2> = at(0x18), Kind::Tensor(high(0x28), Source);
        op0: u8 = at(0x24), Kind::Names(ALU);
        op1: u8 = at(0x25), Kind::Names(ALU);
        reverse: u8 = at(0x26), Kind::Names(REVERSE);
        src0_dtype: u8 = low(0x28), Kind::Carried;
        src1_dtype: u8 = high(0x28), Kind::Carried;
        out_dtype: u8 = at(0x29), Kind::Carried;
        channels: u8 = at(0x2A), Kind::Uint;
        imm0_dtype: u8 = at(0x2B), Kind::Dtype;
        cmd: u8 = at(0x2C), Kind::Names(CMD);
        dst: Tensor<2> = at(0x30), Kind::Tensor(at(0x29), Destination);
        imm0: Imm<u32> = imm(0x3C, 0x27), Kind::Imm(false);
    }
}

layout! {
    /// ADR: 32- or 64-bit unsigned address arithmetic on Pool.
    TensorScalarAddr = 0x74 {
        src: Tensor<2> = at(0x0C), Kind::Tensor(low(0x29), Source);
        imm0: Imm<u64> = imm(0x18, 0x2A), Kind::Imm(false);
        imm1: Imm<u64> = imm(0x20, 0x2B), Kind::Imm(false);
        imm0_dtype: u8 = low(0x28), Kind::Dtype;
        imm1_dtype: u8 = high(0x28), Kind::Dtype;
        src_dtype: u8 = low(0x29), Kind::Carried;
        out_dtype: u8 = high(0x29), Kind::Carried;
        op0: u8 = at(0x2C), Kind::Names(ALU);
        op1: u8 = at(0x2D), Kind::Names(ALU);
        channels: u8 = at(0x2E), Kind::Uint;
        reverse: u8 = at(0x2F), Kind::Names(REVERSE);
        dst: Tensor<2> = at(0x34), Kind::Tensor(high(0x29), Destination);
    }
}

layout! {
    /// CPS: writes a scalar where the predicate is zero (`reversed` 0) or non-zero (1).
    CopyPredicatedScalar = 0xE8 {
        predicate: Tensor<3> = at(0x10), Kind::Tensor(at(0x20), Source);
        predicate_dtype: u8 = at(0x20), Kind::Carried;
        reversed: u8 = at(0x21), Kind::Uint;
        channels: u8 = at(0x22), Kind::Uint;
        in_dtype: u8 = at(0x29), Kind::Dtype;
        out_dtype: u8 = at(0x2A), Kind::Carried;
        value: Imm<u32> = imm(0x2C, 0x2B), Kind::Imm(false);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x2A), Destination);
    }
}

layout! {
    /// TR: reductions along the free dims, copies, casts, reciprocal, shuffles. Either side of a copy or cast may be
    /// a gather slot.
    TensorReduce: TensorReduceOp {
        TensorReduce = 0x42, TensorReduceBitvec = 0x52, Copy = 0x46, Cast = 0x47, Reciprocal = 0x48,
        StreamShuffle = 0x6A, StreamTranspose = 0x6B,
    } {
        src: Operand<4> = at(0x0C), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        negate: u8 = at(0x23), Kind::Uint;
        op: u8 = at(0x24), Kind::Names(ALU);
        axis: u8 = at(0x25), Kind::Names(AXIS);
        mask: u8 = at(0x26), Kind::Uint;
        dst: Operand<4> = at(0x2C), Kind::Tensor(at(0x21), Destination);
    }
}

layout! {
    /// AS: keeps the input where `base + mult * p + sum(idx * step)` compares true with zero, else the fill register.
    AffineSelect = 0x92 {
        channels: u8 = at(0x0C), Kind::Uint;
        src_dtype: u8 = low(0x0D), Kind::Carried;
        out_dtype: u8 = high(0x0D), Kind::Carried;
        compare: u8 = at(0x0E), Kind::Names(AFFINE_CMP);
        fill: u8 = at(0x0F), Kind::Register;
        base: i32 = at(0x10), Kind::Int;
        steps: [i16; 4] = at(0x14), Kind::Steps16;
        counts: [u16; 4] = at(0x1C), Kind::Counts;
        src: Tensor<2> = at(0x24), Kind::Tensor(low(0x0D), Source);
        dst: Tensor<2> = at(0x30), Kind::Tensor(high(0x0D), Destination);
        multiplier: i32 = at(0x3C), Kind::Int;
    }
}

layout! {
    /// RS: keeps element `i` where `base + i` lies between the bounds, else the fill.
    RangeSelect = 0xBC {
        channels: u8 = at(0x0C), Kind::Uint;
        src_dtype: u8 = low(0x0D), Kind::Carried;
        out_dtype: u8 = high(0x0D), Kind::Carried;
        cmd: u8 = at(0x0E), Kind::Names(CMD);
        reduce_op: u8 = at(0x0F), Kind::Names(ALU);
        base: super::field::F32Bits = at(0x10), Kind::Float;
        fill: super::field::F32Bits = at(0x14), Kind::Hex;
        src: Tensor<2> = at(0x18), Kind::Tensor(low(0x0D), Source);
        cmp0: u8 = at(0x24), Kind::Names(ALU);
        cmp1: u8 = at(0x25), Kind::Names(ALU);
        bound0: Imm<u32> = imm(0x28, 0x26), Kind::Imm(false);
        bound1: Imm<u32> = imm(0x2C, 0x27), Kind::Imm(false);
        dst: Tensor<2> = at(0x30), Kind::Tensor(high(0x0D), Destination);
    }
}

layout! {
    /// DO: dropout against the engine's generator.
    Dropout = 0x7F {
        src: Tensor<3> = at(0x10), Kind::Tensor(at(0x20), Source);
        src_dtype: u8 = at(0x20), Kind::Carried;
        out_dtype: u8 = at(0x21), Kind::Carried;
        channels: u8 = at(0x22), Kind::Uint;
        threshold_dtype: u8 = at(0x24), Kind::Dtype;
        kind: u8 = at(0x2B), Kind::Names(DROPOUT);
        threshold: Imm<u32> = imm(0x2C, 0x23), Kind::Imm(false);
        dst: Tensor<3> = at(0x30), Kind::Tensor(at(0x21), Destination);
    }
}
