//! Words of attributes that are kept as written. Where a proto has a number, the word is the one at that place; an empty
//! word is written by leaving the attribute out.

pub(super) const PRECISIONS: [&str; 3] = ["default", "high", "highest"];

pub(super) const ALGORITHMS: [&str; 14] = [
    "",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];

pub(super) const API_VERSIONS: [&str; 5] = [
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
];

pub(super) const FFT_TYPES: [&str; 4] = ["FFT", "IFFT", "RFFT", "IRFFT"];

pub(super) const SCHEDULES: [&str; 3] = ["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"];

pub(super) const PADDINGS: [&str; 3] = ["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"];
