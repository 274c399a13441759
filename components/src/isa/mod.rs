//! Words and records of the instruction set: `spec/isa.md`, `spec/isa_compute.md`.
