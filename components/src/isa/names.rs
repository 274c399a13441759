//! Names of the opcodes in text. In: an opcode or a name. Out: the other one. Facts: `spec/isa_compute.md 12.3`,
//! `spec/isa.md 4.1, 5, 6.8`.

/// Every opcode of the profile and its name.
pub const OPCODES: &[(u8, &str)] = &[
    (0x01, "LoadStationary"),
    (0x02, "MultiplyMoving"),
    (0x21, "Activate"),
    (0x23, "LoadActFuncSet"),
    (0x24, "ActReadAccumulator"),
    (0x41, "TensorTensor"),
    (0x42, "TensorReduce"),
    (0x43, "TensorScalar"),
    (0x45, "Pool"),
    (0x46, "Copy"),
    (0x47, "Cast"),
    (0x48, "Reciprocal"),
    (0x49, "Memset"),
    (0x4D, "Rng"),
    (0x51, "TensorTensorBitvec"),
    (0x52, "TensorReduceBitvec"),
    (0x53, "TensorScalarBitvec"),
    (0x61, "BNStats"),
    (0x62, "BNAggr"),
    (0x67, "PoolBufferLoad"),
    (0x68, "Gather"),
    (0x69, "LoadMaskSelect"),
    (0x6A, "StreamShuffle"),
    (0x6B, "StreamTranspose"),
    (0x6C, "Max8"),
    (0x6D, "MatchValueLoad"),
    (0x6E, "FindIndex8"),
    (0x6F, "MatchReplace8"),
    (0x72, "CopyPredicated"),
    (0x74, "TensorScalarAddr"),
    (0x77, "RandGetState"),
    (0x78, "RandSetState"),
    (0x7C, "CrossReduce"),
    (0x7D, "CrossReduceBitvec"),
    (0x7E, "Iota"),
    (0x7F, "Dropout"),
    (0x92, "AffineSelect"),
    (0x99, "CopyPredicatedCast"),
    (0x9A, "TensorScalarReduce"),
    (0x9B, "DveReadAccumulator"),
    (0x9D, "ScalarTensorTensor"),
    (0x9E, "ScalarTensorTensorBitvec"),
    (0xA0, "EventSemaphore"),
    (0xA1, "Halt"),
    (0xA2, "Drain"),
    (0xA4, "NoOp"),
    (0xA7, "RegisterMove"),
    (0xA8, "RegisterAlu"),
    (0xA9, "Branch"),
    (0xAA, "TensorLoadRegister"),
    (0xAB, "TensorSaveRegister"),
    (0xB0, "GroupResetSemaphores"),
    (0xBC, "RangeSelect"),
    (0xC1, "DmaTrigger"),
    (0xC2, "ResetQueue"),
    (0xCD, "TensorSave"),
    (0xCE, "TensorLoad"),
    (0xCF, "SwitchQueue"),
    (0xD2, "Return"),
    (0xD3, "Call"),
    (0xD4, "DmaDirect"),
    (0xD5, "AllEngineBarrier"),
    (0xD8, "CoreBarrier"),
    (0xDA, "DmaExtension"),
    (0xDD, "BranchHint"),
    (0xDF, "Exit"),
    (0xE2, "Rand2"),
    (0xE5, "TensorTensorScan"),
    (0xE6, "TensorScalarCumulative"),
    (0xE8, "CopyPredicatedScalar"),
    (0xEA, "SelectReduce"),
];

/// The name of an opcode.
pub fn opcode_name(opcode: u8) -> Option<&'static str> {
    OPCODES.iter().find(|(c, _)| *c == opcode).map(|(_, n)| *n)
}

/// The opcode of a name.
pub fn opcode_named(name: &str) -> Option<u8> {
    OPCODES.iter().find(|(_, n)| *n == name).map(|(c, _)| *c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::record::shape_of;

    #[test]
    fn every_opcode_of_the_profile_has_one_name() {
        for code in 0..=255u8 {
            assert_eq!(opcode_name(code).is_some(), shape_of(code).is_some(), "{code:#04x}");
        }
        for (code, name) in OPCODES {
            assert_eq!(opcode_named(name), Some(*code));
        }
    }
}
